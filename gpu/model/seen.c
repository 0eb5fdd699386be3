// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/seen.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP    2u
#define NOTHING UINT64_MAX

static size_t n_px(const struct seen *seen)
{
    return (size_t)seen->camera.width_px * seen->camera.height_px;
}

int seen_create(struct seen *out, const struct intrinsics *camera, uint32_t n_places)
{
    *out = (struct seen){
        .camera = {camera->fx_px / STEP, camera->fy_px / STEP, camera->cx_px / STEP,
                   camera->cy_px / STEP, camera->width_px / STEP, camera->height_px / STEP},
        .width_px = camera->width_px,
        .n_places = n_places,
    };
    out->seq = malloc(n_places * sizeof *out->seq);
    out->z_mm = malloc(n_places * n_px(out) * sizeof *out->z_mm);
    if (!out->seq || !out->z_mm) {
        seen_free(out);
        return -ENOMEM;
    }
    seen_forget_but(out, NULL, 0);
    return 0;
}

void seen_free(struct seen *seen)
{
    free(seen->seq);
    free(seen->z_mm);
    *seen = (struct seen){0};
}

// The image of a frame, or of NOTHING a free place; NULL: there is none.
static uint16_t *find(const struct seen *seen, uint64_t seq, uint32_t *out_place)
{
    for (uint32_t i = 0; i < seen->n_places; i++)
        if (seen->seq[i] == seq) {
            *out_place = i;
            return seen->z_mm + i * n_px(seen);
        }
    return NULL;
}

void seen_keep(struct seen *seen, uint64_t seq, const float *z_m)
{
    const uint32_t width_px = seen->camera.width_px;
    uint32_t place;
    uint16_t *out = find(seen, NOTHING, &place);
    if (!out)
        return;
    seen->seq[place] = seq;
    for (uint32_t v = 0; v < seen->camera.height_px; v++)
        for (uint32_t u = 0; u < width_px; u++) {
            const float z = z_m[(size_t)STEP * (v * seen->width_px + u)];
            out[v * width_px + u] = (uint16_t)fminf(z * 1000 + 0.5f, UINT16_MAX);
        }
}

void seen_forget_but(struct seen *seen, const struct graph_keyframe *keyframes,
                     uint32_t n_keyframes)
{
    for (uint32_t i = 0; i < seen->n_places; i++) {
        bool stays = false;
        for (uint32_t k = 0; k < n_keyframes; k++)
            stays = stays || keyframes[k].seq == seen->seq[i];
        if (!stays)
            seen->seq[i] = NOTHING;
    }
}

int seen_correction(const struct seen *seen, const struct graph_keyframe *keyframes,
                    uint32_t n_keyframes, struct correction *out)
{
    uint32_t place;
    int rc = correction_create(out, &seen->camera, n_keyframes);
    for (uint32_t i = 0; i < n_keyframes && rc == 0; i++) {
        const struct graph_keyframe *k = &keyframes[i];
        const uint16_t *z_mm = find(seen, k->seq, &place);
        if (z_mm)
            memcpy(correction_add(out, &k->T_odom_camera, &k->T_map_camera), z_mm,
                   n_px(seen) * sizeof *z_mm);
    }
    return rc;
}
