// SPDX-License-Identifier: Apache-2.0
// calib.txt of a recording of raw Kinect disparity; the layout stands in rawpgm.c.
#ifndef POSED_CAPTURE_RECORDING_RAWPGM_H
#define POSED_CAPTURE_RECORDING_RAWPGM_H

#include "capture/kinect/disparity.h"
#include "proto/log.h"

// Parses 0-terminated text; what follows the 26 numbers is ignored. Returns 0, or -EINVAL after
// logging "<name>: <reason>".
__attribute__((warn_unused_result)) int rawpgm_parse_calib(const char *text, const char *name,
                                                           const struct log_sink *log,
                                                           struct intrinsics *out_camera,
                                                           struct disparity_model *out_model);

#endif
