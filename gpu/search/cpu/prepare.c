// SPDX-License-Identifier: Apache-2.0
// The host's side of an image: depth in metres, normals, planes larger than the object.
#include <errno.h>
#include <stdlib.h>

#include "gpu/base/parallel.h"
#include "gpu/search/cpu/plane.h"
#include "gpu/search/host.h"
#include "gpu/search/kernels/normal.h"

static int ensure_pixels(struct search *search, size_t n)
{
    if (n <= search->n_pixels)
        return 0;
    free(search->z_m);
    free(search->normal_z);
    free(search->planes);
    search->z_m = malloc(n * sizeof *search->z_m);
    search->normal_z = malloc(4 * n * sizeof *search->normal_z);
    search->planes = malloc(n / 4 * sizeof *search->planes + 64);
    search->n_pixels = search->z_m && search->normal_z && search->planes ? n : 0;
    return search->n_pixels ? 0 : -ENOMEM;
}

struct prepare_job {
    const struct search_image *image;
    struct search_camera camera;
    float *z_m, *normal_z;
};

#define PREPARE_ROWS 16

static void prepare_depth(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct prepare_job *job = user;
    const struct search_image *image = job->image;
    uint32_t width = image->frame.width_px, height = image->frame.height_px;
    bool whole = image->u1 == 0;
    uint32_t end = (item + 1) * PREPARE_ROWS < height ? (item + 1) * PREPARE_ROWS : height;
    const float scale = (float)(1 / image->frame.units_per_m);
    for (uint32_t v = item * PREPARE_ROWS; v < end; v++)
        for (uint32_t u = 0; u < width; u++) {
            size_t at = (size_t)v * width + u;
            float z = search_depth_m(image->frame.depth[at], scale);
            bool used =
                whole || (u >= image->u0 && u < image->u1 && v >= image->v0 && v < image->v1);
            job->z_m[at] = used && (!image->mask || image->mask[at]) ? z : 0;
        }
}

static void prepare_normals(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct prepare_job *job = user;
    const struct search_camera *c = &job->camera;
    int first = (int)item * PREPARE_ROWS, end = first + PREPARE_ROWS;
    for (int v = first; v < end && v < c->height; v++)
        for (int u = 0; u < c->width; u++)
            search_normal_at(job->z_m, c, u, v,
                             job->normal_z + 4 * ((size_t)v * (size_t)c->width + (size_t)u));
}

// Marked planes are marked beside the normals, too.
static void prepare_signs(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct prepare_job *job = user;
    const size_t width = (size_t)job->camera.width, first = item * PREPARE_ROWS * width;
    const size_t all = width * (size_t)job->camera.height, end = first + PREPARE_ROWS * width;
    for (size_t i = first; i < end && i < all; i++)
        job->normal_z[4 * i + 3] = job->z_m[i];
}

int search_prepare(struct search *search, const struct search_image *image,
                   const struct search_object *object, struct search_scene *out_scene)
{
    size_t n = (size_t)image->frame.width_px * image->frame.height_px;
    int err = ensure_pixels(search, n);
    if (err)
        return err;
    const struct intrinsics *c = &image->camera;
    struct prepare_job job = {image,
                              {(float)c->fx_px, (float)c->fy_px, (float)c->cx_px, (float)c->cy_px,
                               (int)c->width_px, (int)c->height_px},
                              search->z_m,
                              search->normal_z};
    uint32_t n_items = (image->frame.height_px + PREPARE_ROWS - 1) / PREPARE_ROWS;
    parallel_for(search->pool, n_items, prepare_depth, &job);
    parallel_for(search->pool, n_items, prepare_normals, &job);
    size_t n_valid = 0;
    for (size_t i = 0; i < n; i++)
        n_valid += search->z_m[i] > 0;
    if (n_valid == 0)
        return -ENODATA;
    out_scene->normal_z = search->normal_z;
    out_scene->camera = job.camera;
    if (object) { // the grid and its fits: n / 16 and 3 n / 16 floats
        search_mark_planes(search->pool, search->z_m, &job.camera, object->info.radius_m,
                           search->planes, search->planes + n / 16);
        parallel_for(search->pool, n_items, prepare_signs, &job);
    }
    struct search_depth depth = {search->z_m, image->camera};
    return search->ops->image(search->device, &depth);
}
