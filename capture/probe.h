// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: a source is looked at before it is played, whether it can be what its
// calibration says (plausible.h). Messages begin with the source's description.
#ifndef POSED_CAPTURE_PROBE_H
#define POSED_CAPTURE_PROBE_H

#include "capture/driver.h"
#include "capture/replay.h"

// Of any source. Returns 0, or -ERANGE unless settings->allow_implausible, with the reason in the
// log.
__attribute__((warn_unused_result)) int probe_intrinsics(const struct capture_info *info,
                                                         const struct capture_settings *settings);

// Of a recording, and some of its frames, too: fills in info->units_are_doubted. Before
// replay_start: decodes them itself. Returns 0, or with the reason in the log: -ERANGE as
// probe_intrinsics, -EINVAL (no frame is readable), -ENOMEM, another negative errno of the driver.
__attribute__((warn_unused_result)) int probe_recording(const struct capture_driver *driver,
                                                        void *state, const struct replay *replay,
                                                        struct capture_info *info,
                                                        const struct capture_settings *settings);

#endif
