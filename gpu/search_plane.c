// SPDX-License-Identifier: Apache-2.0
// Planes in disparity: on a plane 1/z is affine in the pixel coordinates, and the noise of a
// structured-light camera is the same everywhere. Each cell of a grid gets the affine fit of its
// surroundings; then it walks in eight directions for as long as the image stays on that fit.
#include "gpu/search_plane.h"

#include <math.h>
#include <stdbool.h>

#include "gpu/cpu/parallel.h"

#define STEP        SEARCH_PLANE_STEP
#define MISSES      3    // cells in a row that may be off the plane: noise, holes
#define REACH       2.4f // radii from end to end: 1.2 diameters
#define N_DIRECTION 4
#define N_NEEDED    2 // directions: two boxes of one height side by side make only one

// Cells' inverse depths [1/m], 0 = none, and affine fits (slope u, slope v, value) of a cell each.
struct planes {
    const struct search_camera *camera;
    float radius_m;
    float *z_m, *inverse, *fit;
    int width, height; // cells
};

// Tolerance in 1/m at depth z: 4 % of the radius, and two and a half steps of a Kinect's disparity.
static float tolerance(const struct planes *p, float inverse)
{
    return 0.04f * p->radius_m * inverse * inverse + 2.5f * 0.00285f;
}

static void fit_row(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct planes *p = user;
    int v = (int)item;
    for (int u = 0; u < p->width; u++) {
        const float centre = p->inverse[v * p->width + u];
        float *out = p->fit + 3 * (v * p->width + u);
        out[0] = out[1] = out[2] = 0;
        if (centre == 0.f)
            continue;
        // Half an object's radius around, but no farther than the fit stays cheap.
        int r = (int)(0.4f * p->radius_m * fabsf(p->camera->fx) * centre / STEP);
        r = r < 2 ? 2 : r > 6 ? 6 : r;
        double n = 0, su = 0, sv = 0, suu = 0, svv = 0, suv = 0, sd = 0, sud = 0, svd = 0;
        const float step = 8 * tolerance(p, centre);
        for (int y = v - r < 0 ? -v : -r; y <= r && v + y < p->height; y++)
            for (int x = u - r < 0 ? -u : -r; x <= r && u + x < p->width; x++) {
                float d = p->inverse[(v + y) * p->width + u + x] - centre;
                if (p->inverse[(v + y) * p->width + u + x] == 0.f || fabsf(d) > step)
                    continue;
                n += 1;
                su += x;
                sv += y;
                suu += x * x;
                svv += y * y;
                suv += x * y;
                sd += (double)d;
                sud += x * (double)d;
                svd += y * (double)d;
            }
        double a = suu - su * su / n, b = suv - su * sv / n, c = svv - sv * sv / n;
        double f = sud - su * sd / n, g = svd - sv * sd / n, det = a * c - b * b;
        if (n < 12 || !(det > 1e-6 * a * c))
            continue;
        out[0] = (float)((f * c - g * b) / det);
        out[1] = (float)((a * g - b * f) / det);
        out[2] = (float)((double)centre + (sd - (double)out[0] * su - (double)out[1] * sv) / n);
    }
}

// How far [m] the plane of cell (u, v) goes on in one direction.
static float walk(const struct planes *p, int u, int v, int du, int dv, float most_m)
{
    const float *fit = p->fit + 3 * (v * p->width + u);
    const struct search_camera *c = p->camera;
    float z0 = 1 / fit[2], reached = 0;
    float x0 = ((float)(u * STEP) - c->cx) / c->fx * z0,
          y0 = ((float)(v * STEP) - c->cy) / c->fy * z0;
    int missed = 0, n_on = 0, n_behind = 0;
    for (int k = 1; missed <= MISSES && reached < most_m; k++) {
        int x = u + k * du, y = v + k * dv;
        if (x < 0 || y < 0 || x >= p->width || y >= p->height)
            break;
        float expected = fit[2] + fit[0] * (float)(k * du) + fit[1] * (float)(k * dv);
        float inverse = p->inverse[y * p->width + x];
        if (inverse == 0.f || !(fabsf(inverse - expected) < tolerance(p, expected))) {
            // A plane goes on behind what stands on it, as long as most of the way is seen.
            bool behind = inverse > expected && n_behind < n_on + MISSES;
            n_behind += behind;
            missed += !behind;
            continue;
        }
        n_on++;
        missed = 0;
        float z = 1 / expected, px = ((float)(x * STEP) - c->cx) / c->fx * z - x0;
        float py = ((float)(y * STEP) - c->cy) / c->fy * z - y0, pz = z - z0;
        reached = sqrtf(px * px + py * py + pz * pz);
    }
    return reached;
}

static void mark_row(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    static const int du[N_DIRECTION] = {1, 0, 1, 1}, dv[N_DIRECTION] = {0, 1, 1, -1};
    const struct planes *p = user;
    const int v = (int)item, stride = p->camera->width;
    const float far = REACH * p->radius_m;
    for (int u = 0; u < p->width; u++) {
        const float *fit = p->fit + 3 * (v * p->width + u);
        if (!(fit[2] > 0))
            continue;
        int n = 0;
        for (int k = 0; k < N_DIRECTION && n < N_NEEDED; k++) {
            float there = walk(p, u, v, du[k], dv[k], far);
            n += there >= far || there + walk(p, u, v, -du[k], -dv[k], far) >= far;
        }
        if (n < N_NEEDED)
            continue;
        // The pixels of the cell that lie on its plane.
        for (int y = 0; y < STEP; y++)
            for (int x = 0; x < STEP; x++) {
                float *z = p->z_m + (v * STEP + y) * stride + u * STEP + x;
                float expected =
                    fit[2] +
                    (fit[0] * (float)(x - STEP / 2) + fit[1] * (float)(y - STEP / 2)) / STEP;
                if (*z > 0 && fabsf(1 / *z - expected) < tolerance(p, expected))
                    *z = -*z;
            }
    }
}

void search_mark_planes(struct pool *pool, float *z_m, const struct search_camera *camera,
                        float radius_m, float *grid, float *fit)
{
    struct planes p = {
        camera, radius_m, z_m, grid, fit, camera->width / STEP, camera->height / STEP};
    for (int v = 0; v < p.height; v++)
        for (int u = 0; u < p.width; u++) {
            float z = z_m[(v * STEP + STEP / 2) * camera->width + u * STEP + STEP / 2];
            grid[v * p.width + u] = z > 0 ? 1 / z : 0;
        }
    parallel_for(pool, (uint32_t)p.height, fit_row, &p);
    parallel_for(pool, (uint32_t)p.height, mark_row, &p);
}
