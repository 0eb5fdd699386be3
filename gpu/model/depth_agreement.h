// SPDX-License-Identifier: Apache-2.0
// Whether two depth images of one camera show the same surfaces where both see any, pixel by pixel.
#ifndef POSED_GPU_MODEL_DEPTH_AGREEMENT_H
#define POSED_GPU_MODEL_DEPTH_AGREEMENT_H

#include "proto/types.h"

// Of an image's pixels with depth the share that falls on the other's surface, and the share of
// these that lie there.
struct depth_agreement {
    double known, agree;
};

// `camera` is that of the images; z_m [m]: row-major, 0 = none; so many floats from one pixel to
// the next. Depths agree within the sensor's noise and error, the pose's and a voxel's.
struct depth_agreement depth_agreement_of(const struct intrinsics *camera, const float *z_m,
                                          const float *other_z_m, uint32_t floats_a_pixel,
                                          const struct se3 *T_other_image);

#endif
