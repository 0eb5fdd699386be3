// SPDX-License-Identifier: Apache-2.0
// Where a camera sits on a rig: the file that posectl rig calibrate writes (camera.rig).
#ifndef POSED_DAEMON_RIG_PLACE_H
#define POSED_DAEMON_RIG_PLACE_H

#include "proto/log.h"
#include "proto/types.h"

struct rig_place {
    struct se3 T_a_b;
    double clock_s; // B's stamp of a moment less A's; 0 where the file does not say
};

// Reads the place of camera B beside A from such a file. One that ends within the covariance or
// before the clock that posectl writes behind it is refused; one of the place alone is whole.
// Returns 0, or -EINVAL with the reason in the log.
__attribute__((warn_unused_result)) int rig_place_read(const char *path, struct rig_place *out,
                                                       const struct log_sink *log);

#endif
