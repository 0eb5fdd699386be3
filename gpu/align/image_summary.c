// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/image_summary.h"

#include <string.h>

void align_sketch_make(const struct align_image *image, struct align_sketch *out)
{
    memset(out, 0, sizeof *out);
    uint32_t longest = image->width > image->height ? image->width : image->height;
    uint32_t step = (longest + ALIGN_SKETCH_SIDE - 1) / ALIGN_SKETCH_SIDE;
    out->width = (image->width + step - 1) / step;
    out->height = (image->height + step - 1) / step;
    out->n_vertices = image->n_level[0];
    out->n_bytes = image->n_bytes;
    for (int i = 0; i < 12; i++)
        out->projection[i] = i < 8 ? image->projection[i] / (float)step : image->projection[i];
    for (uint32_t v = 0; v < out->height; v++)
        for (uint32_t u = 0; u < out->width; u++)
            out->planes[v * out->width + u] =
                image->planes[(size_t)v * step * image->width + (size_t)u * step];
    memcpy(out->low_m, image->low_m, sizeof out->low_m);
    memcpy(out->high_m, image->high_m, sizeof out->high_m);
    memcpy(out->view, image->view, sizeof out->view);
    memcpy(out->centre_m, image->centre_m, sizeof out->centre_m);
    memcpy(out->surface_m, image->surface_m, sizeof out->surface_m);
    out->spacing_m = image->spacing_m;
    out->noise_m = (double)image->noise.a_m;
    // A stride over the coarsest vertices: spread over the whole image, the same for every run.
    uint32_t n = image->n_level[ALIGN_LEVELS - 1];
    out->n_samples = n < ALIGN_SKETCH_SAMPLES ? n : ALIGN_SKETCH_SAMPLES;
    for (uint32_t k = 0; k < out->n_samples; k++) {
        uint32_t at = (uint32_t)((uint64_t)k * n / out->n_samples);
        out->sample_m[k][0] = image->x_m[at];
        out->sample_m[k][1] = image->y_m[at];
        out->sample_m[k][2] = image->z_m[at];
        out->sample_normal[k][0] = image->nx[at];
        out->sample_normal[k][1] = image->ny[at];
        out->sample_normal[k][2] = image->nz[at];
    }
}
