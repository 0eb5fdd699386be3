// SPDX-License-Identifier: Apache-2.0
// Intrinsics beside a recording: `calibration.txt`, one line `fx fy cx cy` as ETH3D writes it,
// which may go on with `width height` and then with `units` (of depth per metre; the recorder
// writes all seven), or `camera-intrinsics.txt`, the 3x3 camera matrix of 7-Scenes. '#' starts a
// comment.
#ifndef POSED_CAPTURE_RECORDING_SIDECAR_H
#define POSED_CAPTURE_RECORDING_SIDECAR_H

#include "capture/capture.h"

// Parses the text of calibration.txt; `name` is for messages. Width, height and units are 0 when
// the file does not give them. Returns 0, or -EINVAL after logging file and reason.
__attribute__((warn_unused_result)) int
sidecar_parse_calibration(const char *text, const char *name, const struct log_sink *log,
                          struct intrinsics *out, double *out_units_per_m);

// Parses a 3x3 camera matrix. Zero skew and a last row of 0 0 1 are required. Returns as above.
__attribute__((warn_unused_result)) int sidecar_parse_matrix(const char *text, const char *name,
                                                             const struct log_sink *log,
                                                             struct intrinsics *out);

// Writes a calibration.txt with all seven numbers. Returns the length, or -EINVAL when it does not
// fit.
__attribute__((warn_unused_result)) int
sidecar_print(const struct intrinsics *camera, double units_per_m, char *out, size_t n_out_bytes);

// Fills in out_info->camera's focal lengths and principal point for a folder recording whose image
// size and units_per_m (the format's default) are already there, and who tells them: from
// calibration.txt, which may replace the units too, else camera-intrinsics.txt, else `fallback`.
// That is what the file `fallback_name` says, or with NULL the format's default: then a notice says
// so, unless the settings override all four numbers. A calibration made for another image size is
// refused, unless the settings override all four numbers or allow_implausible is set (then it
// warns). Returns 0, -EINVAL (malformed file), -ERANGE (other size) or a negative errno of reading,
// after logging the reason.
__attribute__((warn_unused_result)) int sidecar_intrinsics(int folder, const char *path,
                                                           const struct intrinsics *fallback,
                                                           const char *fallback_name,
                                                           const struct capture_settings *settings,
                                                           struct capture_info *out_info);

#endif
