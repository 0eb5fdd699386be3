// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/resample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int align_image_scatter(struct align_image *image)
{
    int32_t width = (int32_t)image->width, height = (int32_t)image->height;
    size_t n_cells = (size_t)image->width * image->height;
    float *off = malloc(n_cells * sizeof *off);
    struct pair_plane *own = malloc(image->n_level[0] * sizeof *own);
    if (!off || !own) {
        free(off);
        free(own);
        return -ENOMEM;
    }
    for (uint32_t k = 0; k < image->n_level[0]; k++)
        own[k] = image->planes[image->cell[k]];
    for (size_t at = 0; at < n_cells; at++) {
        off[at] = INFINITY;
        image->planes[at] = (struct pair_plane){0, 0, 0, 0};
    }
    const float *m = image->projection;
    for (uint32_t k = 0; k < image->n_level[0]; k++) {
        float x = image->x_m[k], y = image->y_m[k], z = image->z_m[k];
        struct pair_vec3 p = {x, y, z};
        struct pair_cell cell = pair_project(m, width, height, p);
        if (!cell.inside)
            continue;
        float w = m[8] * x + m[9] * y + m[10] * z + m[11];
        float du = (m[0] * x + m[1] * y + m[2] * z + m[3]) / w - (float)cell.u;
        float dv = (m[4] * x + m[5] * y + m[6] * z + m[7]) / w - (float)cell.v;
        size_t at = (size_t)cell.v * image->width + (size_t)cell.u;
        image->cell[k] = (uint32_t)at;
        if (du * du + dv * dv < off[at]) {
            off[at] = du * du + dv * dv;
            image->planes[at] = own[k];
        }
    }
    for (int32_t v = 1; v + 1 < height; v++) // off stays infinite: filled cells fill no others
        for (int32_t u = 1; u + 1 < width; u++) {
            size_t at = (size_t)v * image->width + (size_t)u;
            const size_t near[4] = {at - image->width, at + image->width, at - 1, at + 1};
            for (int i = 0; i < 4 && isinf(off[at]); i++)
                if (!isinf(off[near[i]]) && !isinf(off[near[i ^ 1]])) {
                    image->planes[at] = image->planes[near[i]];
                    break;
                }
        }
    free(off);
    free(own);
    return 0;
}
