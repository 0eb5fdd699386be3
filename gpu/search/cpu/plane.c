// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/cpu/plane.h"

#include "gpu/base/parallel.h"
#include "gpu/search/kernels/plane.h"

struct plane_job {
    struct search_planes planes;
    float *z_m, *fit; // fit: three floats a cell
};

static void fit_row(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct plane_job *job = user;
    for (int u = 0; u < job->planes.width; u++)
        search_plane_fit(&job->planes, u, (int)item,
                         job->fit + 3 * ((int)item * job->planes.width + u));
}

static void mark_row(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    enum { STEP = SEARCH_PLANE_STEP };
    const struct plane_job *job = user;
    const struct search_planes *p = &job->planes;
    const int v = (int)item;
    const float far_m = search_plane_far_m(p->radius_m);
    for (int u = 0; u < p->width; u++) {
        const float *fit = job->fit + 3 * (v * p->width + u);
        if (!(fit[2] > 0))
            continue;
        int n = 0;
        for (int k = 0; k < SEARCH_PLANE_DIRECTIONS && n < SEARCH_PLANE_NEEDED; k++) {
            float there = search_plane_along(p, fit, u, v, k, false);
            n += there >= far_m || there + search_plane_along(p, fit, u, v, k, true) >= far_m;
        }
        if (n < SEARCH_PLANE_NEEDED)
            continue;
        for (int y = 0; y < STEP; y++)
            for (int x = 0; x < STEP; x++) {
                float *z = job->z_m + (v * STEP + y) * p->camera.width + u * STEP + x;
                *z = search_plane_mark(p, fit, x, y, *z);
            }
    }
}

void search_mark_planes(struct pool *pool, float *z_m, const struct search_camera *camera,
                        float radius_m, float *grid, float *fit)
{
    struct plane_job job = {{*camera, radius_m, grid, camera->width / SEARCH_PLANE_STEP,
                             camera->height / SEARCH_PLANE_STEP},
                            z_m,
                            fit};
    for (int v = 0; v < job.planes.height; v++)
        for (int u = 0; u < job.planes.width; u++)
            grid[v * job.planes.width + u] = search_plane_cell(z_m, camera->width, u, v);
    parallel_for(pool, (uint32_t)job.planes.height, fit_row, &job);
    parallel_for(pool, (uint32_t)job.planes.height, mark_row, &job);
}
