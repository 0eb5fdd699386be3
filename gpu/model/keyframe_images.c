// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/keyframe_images.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP    2u
#define NOTHING UINT64_MAX

static size_t n_px(const struct keyframe_images *images)
{
    return (size_t)images->camera.width_px * images->camera.height_px;
}

int keyframe_images_create(struct keyframe_images *out, const struct intrinsics *camera,
                           uint32_t n_places)
{
    *out = (struct keyframe_images){
        .camera = {camera->fx_px / STEP, camera->fy_px / STEP, camera->cx_px / STEP,
                   camera->cy_px / STEP, camera->width_px / STEP, camera->height_px / STEP},
        .width_px = camera->width_px,
        .n_places = n_places,
    };
    out->seq = malloc(n_places * sizeof *out->seq);
    out->z_mm = malloc(n_places * n_px(out) * sizeof *out->z_mm);
    if (!out->seq || !out->z_mm) {
        keyframe_images_free(out);
        return -ENOMEM;
    }
    keyframe_images_forget_but(out, NULL, 0);
    return 0;
}

void keyframe_images_free(struct keyframe_images *images)
{
    free(images->seq);
    free(images->z_mm);
    *images = (struct keyframe_images){0};
}

// The image of a frame, or of NOTHING a free place; NULL: there is none.
static uint16_t *find(const struct keyframe_images *images, uint64_t seq, uint32_t *out_place)
{
    for (uint32_t i = 0; i < images->n_places; i++)
        if (images->seq[i] == seq) {
            *out_place = i;
            return images->z_mm + i * n_px(images);
        }
    return NULL;
}

void keyframe_images_keep(struct keyframe_images *images, uint64_t seq, const float *z_m)
{
    const uint32_t width_px = images->camera.width_px;
    uint32_t place;
    uint16_t *out = find(images, NOTHING, &place);
    if (!out)
        return;
    images->seq[place] = seq;
    for (uint32_t v = 0; v < images->camera.height_px; v++)
        for (uint32_t u = 0; u < width_px; u++) {
            const float z = z_m[(size_t)STEP * (v * images->width_px + u)];
            out[v * width_px + u] = (uint16_t)fminf(z * 1000 + 0.5f, UINT16_MAX);
        }
}

void keyframe_images_forget_but(struct keyframe_images *images,
                                const struct graph_keyframe *keyframes, uint32_t n_keyframes)
{
    for (uint32_t i = 0; i < images->n_places; i++) {
        bool stays = false;
        for (uint32_t k = 0; k < n_keyframes; k++)
            stays = stays || keyframes[k].seq == images->seq[i];
        if (!stays)
            images->seq[i] = NOTHING;
    }
}

int keyframe_images_correction(const struct keyframe_images *images,
                               const struct graph_keyframe *keyframes, uint32_t n_keyframes,
                               struct deformation_field *out)
{
    uint32_t place;
    int rc = deformation_field_create(out, &images->camera, n_keyframes);
    for (uint32_t i = 0; i < n_keyframes && rc == 0; i++) {
        const struct graph_keyframe *k = &keyframes[i];
        const uint16_t *z_mm = find(images, k->seq, &place);
        if (z_mm)
            memcpy(deformation_field_add(out, &k->T_odom_camera, &k->T_map_camera), z_mm,
                   n_px(images) * sizeof *z_mm);
    }
    return rc;
}
