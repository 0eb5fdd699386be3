// SPDX-License-Identifier: Apache-2.0
// Intrinsics beside a recording: `calibration.txt`, one line `fx fy cx cy [width height]` as ETH3D
// writes it, or `camera-intrinsics.txt`, the 3x3 camera matrix of 7-Scenes. '#' starts a comment.
#ifndef POSED_CAPTURE_SIDECAR_H
#define POSED_CAPTURE_SIDECAR_H

#include "capture/capture.h"

// Parses the text of calibration.txt; `name` is for messages. Width and height are 0 when the file
// does not give them. Returns 0, or -EINVAL after logging file and reason.
__attribute__((warn_unused_result)) int sidecar_parse_calibration(const char *text,
                                                                  const char *name,
                                                                  const struct log_sink *log,
                                                                  struct intrinsics *out);

// Parses a 3x3 camera matrix. Zero skew and a last row of 0 0 1 are required. Returns as above.
__attribute__((warn_unused_result)) int sidecar_parse_matrix(const char *text, const char *name,
                                                             const struct log_sink *log,
                                                             struct intrinsics *out);

// Fills in out_info->camera's focal lengths and principal point for a folder recording whose image
// size is already there: calibration.txt, else camera-intrinsics.txt, else `fallback` (the
// format's default). A calibration made for another image size is refused, unless the settings
// override all four numbers or allow_implausible is set (then it warns). Returns 0, -EINVAL
// (malformed file), -ERANGE (other size) or a negative errno of reading, after logging the reason.
__attribute__((warn_unused_result)) int sidecar_intrinsics(int folder, const char *path,
                                                           const struct intrinsics *fallback,
                                                           const struct capture_settings *settings,
                                                           struct capture_info *out_info);

#endif
