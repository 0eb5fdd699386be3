// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/keyframe_map.h"

#include <string.h>

struct intrinsics keyframe_map_camera(const struct intrinsics *camera)
{
    return (struct intrinsics){
        camera->fx_px * KEYFRAME_MAP_SCALE,     camera->fy_px * KEYFRAME_MAP_SCALE,
        camera->cx_px * KEYFRAME_MAP_SCALE,     camera->cy_px * KEYFRAME_MAP_SCALE,
        camera->width_px << KEYFRAME_MAP_LEVEL, camera->height_px << KEYFRAME_MAP_LEVEL};
}

void keyframe_map_fill(const struct intrinsics *camera, const struct align_image *image,
                       const float *z_m, float *out)
{
    const size_t n_px = (size_t)camera->width_px * camera->height_px;
    memset(out, 0, 4 * n_px * sizeof *out);
    for (uint32_t i = 0; i < image->n_level[0]; i++) {
        uint32_t u = image->cell[i] % image->width + image->left;
        uint32_t v = image->cell[i] / image->width + image->top;
        size_t px = (size_t)v * camera->width_px + u;
        const float map[4] = {image->nx[i], image->ny[i], image->nz[i], z_m[px]};
        memcpy(out + 4 * px, map, sizeof map);
    }
}
