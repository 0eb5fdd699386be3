// SPDX-License-Identifier: Apache-2.0
// What a Kinect v1 makes of an exact depth image. Its measurement is a disparity in steps of 1/8
// px, so depth comes in steps that grow as z^2; before that quantisation it carries noise of the
// standard deviation that Nguyen, Izadi and Lovell measured ("Modeling Kinect Sensor Noise for
// Improved 3D Reconstruction and Tracking", 3DIMPVT 2012, eq. 3-5), correlated over about three
// pixels because the sensor matches windows. Edges are ragged by 0.8 px (their lateral noise).
// Nothing is seen in the projector's shadow (projector 75 mm to the right of the camera, so shadows
// lie to the left of things), at grazing angles, nearer than 0.4 m or farther than 8 m.
#ifndef POSED_CAPTURE_SYNTH_KINECT_NOISE_H
#define POSED_CAPTURE_SYNTH_KINECT_NOISE_H

#include "proto/types.h"

struct kinect_noise; // scratch memory for one image size

// Returns 0 or -ENOMEM with *out NULL.
__attribute__((warn_unused_result)) int kinect_noise_create(struct kinect_noise **out,
                                                            const struct intrinsics *camera);
void kinect_noise_destroy(struct kinect_noise **noise);

// Writes the depth image (units_per_m, 0 = no measurement) that the sensor would give for the exact
// image z_m (row-major, INFINITY = nothing there). Counter-based randomness: the output is a pure
// function of z_m, seed and frame, the same bits on every machine. Never fails; one thread at a
// time.
void kinect_noise_apply(struct kinect_noise *noise, const float *z_m, uint64_t seed, uint64_t frame,
                        double units_per_m, uint16_t *out_depth);

#endif
