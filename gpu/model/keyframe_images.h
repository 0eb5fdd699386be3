// SPDX-License-Identifier: Apache-2.0
// What the keyframes saw, small: every second pixel of the images that they are adjusted by, in mm.
// One thread.
#ifndef POSED_GPU_MODEL_KEYFRAME_IMAGES_H
#define POSED_GPU_MODEL_KEYFRAME_IMAGES_H

#include "gpu/model/deformation_field.h"

struct keyframe_images {
    struct intrinsics camera; // of the small images
    uint32_t width_px;        // of those that they are taken from
    uint32_t n_places;
    uint64_t *seq; // of each place: the frame, or that there is none
    uint16_t *z_mm;
};

// For n_places images of `camera`. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int keyframe_images_create(struct keyframe_images *out,
                                                               const struct intrinsics *camera,
                                                               uint32_t n_places);
void keyframe_images_free(struct keyframe_images *images);

// Keeps a frame's depth [m], row-major, 0 = none, if there is a place.
void keyframe_images_keep(struct keyframe_images *images, uint64_t seq, const float *z_m);

// Only those of the keyframes stay.
void keyframe_images_forget_but(struct keyframe_images *images,
                                const struct graph_keyframe *keyframes, uint32_t n_keyframes);

// Copies those of the keyframes, with them, to be freed by deformation_field_free. Returns 0 or
// -ENOMEM (*out is empty).
__attribute__((warn_unused_result)) int
keyframe_images_correction(const struct keyframe_images *images,
                           const struct graph_keyframe *keyframes, uint32_t n_keyframes,
                           struct deformation_field *out);

#endif
