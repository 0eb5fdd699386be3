// SPDX-License-Identifier: Apache-2.0
// Can this recording be what its calibration says? A wrong depth scale or another camera's
// intrinsics give poses that look fine and are wrong, so they are looked for when a source opens.
#ifndef POSED_CAPTURE_PLAUSIBLE_H
#define POSED_CAPTURE_PLAUSIBLE_H

#include "proto/log.h"
#include "proto/types.h"

// Limits for the median depth of a scene [m].
#define PLAUSIBLE_MEDIAN_MIN_M 0.2
#define PLAUSIBLE_MEDIAN_MAX_M 12.0

// Focal lengths for a field of view of 10..150 degrees and equal within a factor 2, principal point
// inside the image and within its middle part (20..80 % of each side: a calibration made for twice
// the image size fails this). Returns 0, or -ERANGE after logging the reason at `level`.
__attribute__((warn_unused_result)) int plausible_intrinsics(const struct intrinsics *camera,
                                                             const struct log_sink *log,
                                                             enum log_level level);

// The same of what is given of them, 0 = not: whether an image of any size could have it. Returns
// 0, or -ERANGE after logging the reason.
__attribute__((warn_unused_result)) int plausible_for_any_image(const struct intrinsics *given,
                                                                const struct log_sink *log);

// Median of the valid depths [m]; NaN when less than 1 % of the pixels are valid.
double plausible_median_m(const struct depth_frame *frame);

// A Kinect's kind of camera (also Xtion, Astra) measures a whole number of eighths of a pixel of
// disparity: its depths lie on steps of constant size in 1/z, which depends on the baseline and the
// focal length of its own optics alone, not on what anybody calls the depth's unit. Returns that
// size as a multiple of a Kinect's; NaN where the depths do not lie on such steps (other kinds of
// cameras, depth that was filtered, or too little of it).
double plausible_steps(const struct depth_frame *frame);

// In both of these float_per_m is of images that are floats in their source: the units per metre
// that these are read with, as camera.float_scale sets them; 0 of others, for which
// camera.depth_scale does that.

// What the steps of a few frames say of the depth scale and the focal length in force. Nothing is
// said where the frames do not agree. Returns 0, or after a warning in words -ERANGE (the depth
// scale seems wrong) or -EDOM (the focal length).
__attribute__((warn_unused_result)) int plausible_scale(const double *steps, size_t n_frames,
                                                        const struct intrinsics *camera,
                                                        double units_per_m, double float_per_m,
                                                        const struct log_sink *log);

// Returns 0 when median_m is within the limits, or -ERANGE after logging the reason at `level`.
__attribute__((warn_unused_result)) int plausible_depth(double median_m, double units_per_m,
                                                        double float_per_m,
                                                        const struct log_sink *log,
                                                        enum log_level level);

#endif
