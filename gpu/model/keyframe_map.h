// SPDX-License-Identifier: Apache-2.0
// A keyframe as gpu/track learns from it (calibrate.h, rig_adjustment.h): the packed map of its
// depth and of the normals of its image, and the camera whose pyramid's level that is. Pure.
#ifndef POSED_GPU_MODEL_KEYFRAME_MAP_H
#define POSED_GPU_MODEL_KEYFRAME_MAP_H

#include "gpu/align/image.h"
#include "gpu/gpu.h"
#include "proto/types.h"

#define KEYFRAME_MAP_LEVEL (GPU_LEVELS - 1)
#define KEYFRAME_MAP_SCALE (double)(1u << KEYFRAME_MAP_LEVEL)

// The camera whose level KEYFRAME_MAP_LEVEL the keyframe's camera is.
struct intrinsics keyframe_map_camera(const struct intrinsics *camera);

// nx ny nz z of each pixel of `camera`; no normal where the image has no vertex.
void keyframe_map_fill(const struct intrinsics *camera, const struct align_image *image,
                       const float *z_m, float *out);

#endif
