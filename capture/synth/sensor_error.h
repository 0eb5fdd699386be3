// SPDX-License-Identifier: Apache-2.0
// What a real depth camera errs by and fresh noise does not: errors that stay. All in disparity,
// i.e. inverse depth [1/m], in which such a sensor measures, so that they grow with z^2 in metres:
//
//   field     fixed to the camera, smooth: a linear part and one of some 60 px, 4.5e-3 /m RMS,
//             i.e. 4.5 mm at 1 m. A camera's own: the seed draws it
//   pattern   fixed to the camera, some 10 px wide, another one for every 1.5 px of disparity: what
//             matching a fixed pattern of dots leaves. It pulls an alignment towards no motion
//   surface   tied to the place in the world and to where the camera sees it from: gone after some
//             150 px of flow; only several views average it
//   patches   noise of a frame that is correlated over 12 px
//
// and what it does not see: patches of dark surface, and bites out of depth edges.
//
// The sizes were chosen so that the tracker does on the synthetic room what it does on recordings
// of a Kinect (rotation too small by some per cent frame to frame, the same wrong way forwards and
// backwards, the same error over a second): tests/unit/capture/test_sensor_error.c, posed-bench
// synth.
#ifndef POSED_CAPTURE_SYNTH_SENSOR_ERROR_H
#define POSED_CAPTURE_SYNTH_SENSOR_ERROR_H

#include "proto/types.h"

// Apart from these, a lens of its own: the focal length up to 2.6 % and the centre up to 14 px off
// what the intrinsics say. So far apart are what three cameras of the TUM RGB-D recordings were
// calibrated to (517.3, 520.9 and 535.4 px; centres at (318.6, 255.3), (325.1, 249.7) and
// (320.1, 247.6)) and the 525 px and (319.5, 239.5) with which their depth is read.
struct intrinsics sensor_error_lens(const struct intrinsics *said, uint64_t camera_seed);

struct sensor_error; // one camera's

// Draws the camera. Returns 0 or -ENOMEM with *out NULL.
__attribute__((warn_unused_result)) int sensor_error_create(struct sensor_error **out,
                                                            const struct intrinsics *camera,
                                                            uint64_t camera_seed);
void sensor_error_destroy(struct sensor_error **error);

// The field alone, f(u, v) [1/m], row-major, of the image's size: what the camera says is 1/z - f,
// so that adding it mends the camera. Valid as long as the camera.
const float *sensor_error_field(const struct sensor_error *error);

// Takes the field off an exact image z_m (row-major, INFINITY = nothing there), in place.
void sensor_error_apply_field(const struct sensor_error *error, float *z_m);

// All of it: errors, and INFINITY where the sensor sees nothing. The output is a pure function of
// camera, pose, seed and frame (these two choose what is fresh), the same bits on every machine.
// One thread at a time.
void sensor_error_apply(struct sensor_error *error, const struct se3 *T_world_camera, uint64_t seed,
                        uint64_t frame, float *z_m);

// Leaves of a measured image what a close-range sensor with a sparse pattern has: 34 % of the
// pixels, most of them always the same, 3 % with four neighbours.
void sensor_error_thin(const struct sensor_error *error, uint64_t frame, uint16_t *depth);

#endif
