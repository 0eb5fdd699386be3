// SPDX-License-Identifier: Apache-2.0
// Raw 11-bit values of the Kinect v1 to depth and back. The sensor reports a shifted disparity in
// eighths of a pixel, growing with depth; 2047 means no measurement. Depth is
//     depth_mm = scale_mm / (offset - raw)
// which both known ways of calibration reduce to (see the two makers below).
#ifndef POSED_CAPTURE_KINECT_DISPARITY_H
#define POSED_CAPTURE_KINECT_DISPARITY_H

#include "proto/types.h"

#define DISPARITY_NONE        2047u
#define DISPARITY_N_RAW       2048u
#define DISPARITY_MAX_MM      10000u // beyond this one step is over 25 cm: no measurement
#define DISPARITY_UNITS_PER_M 1000.0

struct disparity_model {
    double scale_mm, offset;
};

// What the device says of itself (libfreenect's zero plane): the plane at reference_cm, which its
// emitter, emitter_cm beside the camera, was calibrated on, seen with pixels of pixel_size_mm.
// libfreenect 0.5.3 src/registration.c computes x = (raw - 4 const_shift) / 4 - 0.375,
// m = x pixel_size, mm = 10 (m reference / (emitter - m) + reference); this is the same in one
// step.
struct disparity_model disparity_from_zero_plane(double const_shift, double pixel_size_mm,
                                                 double reference_cm, double emitter_cm);

// The values of a usual device, for recordings that do not tell: const_shift 200, pixel size
// 0.1042 mm, reference 120 cm, emitter 7.5 cm.
struct disparity_model disparity_default(void);

// From a stereo calibration: depth = 8 baseline f / (offset - raw).
struct disparity_model disparity_from_baseline(double offset, double baseline_m, double f_px);

// Depth of every raw value [mm], 0 = no measurement (also beyond DISPARITY_MAX_MM).
struct disparity_table {
    uint16_t mm[DISPARITY_N_RAW];
};

// Returns 0, or -EINVAL when the model is not finite or gives no depth for any value.
__attribute__((warn_unused_result)) int disparity_table_fill(const struct disparity_model *model,
                                                             struct disparity_table *out);

// n raw values to mm; `out` may be `raw`. Values above 2047 are no measurement.
void disparity_to_mm(const struct disparity_table *table, const uint16_t *raw, size_t n,
                     uint16_t *out_mm);

// The way back: the raw value whose depth is nearest, DISPARITY_NONE for 0 and for depths that the
// sensor cannot report (outside the table's range by more than one step). Depths that come out of
// the table go through here and the table unchanged.
struct disparity_inverse {
    uint16_t raw[65536];
};
void disparity_inverse_fill(const struct disparity_table *table, struct disparity_inverse *out);

#endif
