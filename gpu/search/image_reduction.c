// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/image_reduction.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "gpu/base/parallel.h"
#include "gpu/search/kernels/normal.h"

uint32_t search_reduction(const struct intrinsics *camera)
{
    const double focal_px = fmin(camera->fx_px, fabs(camera->fy_px));
    const double n = floor(focal_px / SEARCH_FOCAL_PX + 0.5);
    return n > 1 ? (uint32_t)n : 1;
}

struct reduction_job {
    const struct search_image *image;
    uint32_t n, width, height; // of the reduced image
    uint16_t *depth;
};

bool search_pixel_is_used(const struct search_image *image, uint32_t u, uint32_t v)
{
    const uint16_t raw = image->frame.depth[(size_t)v * image->frame.width_px + u];
    const bool inside =
        image->u1 == 0 || (u >= image->u0 && u < image->u1 && v >= image->v0 && v < image->v1);
    return search_depth_m(raw, (float)(1 / image->frame.units_per_m)) > 0 && inside &&
           (!image->mask || image->mask[(size_t)v * image->frame.width_px + u]);
}

static uint16_t reduce_block(const struct search_image *image, uint32_t n, uint32_t u0, uint32_t v0)
{
    uint32_t nearest = DEPTH_INVALID_MAX, count = 0;
    uint64_t sum = 0;
    for (uint32_t v = v0; v < v0 + n; v++)
        for (uint32_t u = u0; u < u0 + n; u++) {
            const uint32_t raw = image->frame.depth[(size_t)v * image->frame.width_px + u];
            if (search_pixel_is_used(image, u, v) && raw < nearest)
                nearest = raw;
        }
    for (uint32_t v = v0; v < v0 + n; v++)
        for (uint32_t u = u0; u < u0 + n; u++) {
            const uint32_t raw = image->frame.depth[(size_t)v * image->frame.width_px + u];
            const bool same = search_pixel_is_used(image, u, v) &&
                              (double)(raw - nearest) <= SEARCH_SAME_SURFACE * (double)nearest;
            sum += same ? raw : 0;
            count += same;
        }
    if (2 * count < n * n)
        return 0;
    return (uint16_t)((sum + count / 2) / count);
}

static void reduce_row(void *user, uint32_t v, uint32_t thread)
{
    (void)thread;
    const struct reduction_job *job = user;
    for (uint32_t u = 0; u < job->width; u++)
        job->depth[(size_t)v * job->width + u] =
            reduce_block(job->image, job->n, u * job->n, v * job->n);
}

int search_reduce_image(struct search *search, const struct search_image *image,
                        struct search_image *out)
{
    const uint32_t n = search_reduction(&image->camera);
    *out = *image;
    if (n == 1)
        return 0;
    const uint32_t width = image->frame.width_px / n, height = image->frame.height_px / n;
    const size_t n_pixels = (size_t)width * height;
    if (n_pixels > search->n_reduced) {
        free(search->reduced);
        search->reduced = malloc(n_pixels * sizeof *search->reduced);
        search->n_reduced = search->reduced ? n_pixels : 0;
        if (!search->reduced)
            return -ENOMEM;
    }
    struct reduction_job job = {image, n, width, height, search->reduced};
    parallel_for(search->pool, height, reduce_row, &job);
    out->frame.depth = search->reduced;
    out->frame.width_px = out->camera.width_px = width;
    out->frame.height_px = out->camera.height_px = height;
    out->camera.fx_px /= n;
    out->camera.fy_px /= n;
    out->camera.cx_px = (image->camera.cx_px + 0.5) / n - 0.5;
    out->camera.cy_px = (image->camera.cy_px + 0.5) / n - 0.5;
    out->mask = NULL;
    out->u0 = out->v0 = out->u1 = out->v1 = 0;
    return 0;
}
