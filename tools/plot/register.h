// SPDX-License-Identifier: Apache-2.0
// Picture of a registration: both point sets from three sides, before and after.
#ifndef POSED_TOOLS_PLOT_REGISTER_H
#define POSED_TOOLS_PLOT_REGISTER_H

#include "proto/log.h"
#include "proto/types.h"

// Draws to a PNG file (an old one is replaced). The upper row shows the source as it is, the lower
// one as T_target_source moves it. Returns 0, -EIO with the reason in the log, or -ENOMEM.
__attribute__((warn_unused_result)) int
plot_registration(const char *path, const struct point_set *source, const struct point_set *target,
                  const struct se3 *T_target_source, const struct log_sink *log);

#endif
