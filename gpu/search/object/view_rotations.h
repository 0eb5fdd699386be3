// SPDX-License-Identifier: Apache-2.0
// From which directions an object is seen: rotations spread evenly, and the seeds among its views.
// Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_VIEW_ROTATIONS_H
#define POSED_GPU_SEARCH_OBJECT_VIEW_ROTATIONS_H

#include "gpu/search/object.h"

// Rotation i of n, spread evenly over SO(3): super-Fibonacci spirals (Alexa, CVPR 2022). Row-major.
void search_rotation(uint32_t i, uint32_t n, float out[9]);

// Angle between two rotations [rad].
double search_rotation_angle(const float a[9], const float b[9]);

// Chooses object->seeds among the views and shares the views out among them. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int search_choose_seeds(struct search_object *object,
                                                            uint32_t n_seeds);

#endif
