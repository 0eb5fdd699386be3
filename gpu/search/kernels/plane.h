// SPDX-License-Identifier: Apache-2.0
// Surfaces that are larger than the object, a cell of the grid at a time. Planes in disparity: on a
// plane 1/z is affine in the pixel coordinates, and the noise of a structured-light camera is the
// same everywhere. Each cell gets the affine fit of its surroundings; then it walks in eight
// directions for as long as the image stays on that fit.
#ifndef POSED_GPU_SEARCH_KERNELS_PLANE_H
#define POSED_GPU_SEARCH_KERNELS_PLANE_H

#include "gpu/search/kernels/pose.h"

#define SEARCH_PLANE_STEP       4    // pixels of the image a cell of the grid
#define SEARCH_PLANE_MISSES     3    // cells in a row that may be off the plane: noise, holes
#define SEARCH_PLANE_REACH      2.4f // radii from end to end: 1.2 diameters
#define SEARCH_PLANE_DIRECTIONS 4
#define SEARCH_PLANE_NEEDED     2 // directions: two boxes of one height side by side make only one

// Cells' inverse depths [1/m], 0 = none.
struct search_planes {
    struct search_camera camera;
    float radius_m;
    const float *inverse;
    int width, height; // cells
};

// Inverse depth of the pixel that stands for a cell.
KERNEL_FN float search_plane_cell(const float *z_m, int image_width, int u, int v)
{
    enum { STEP = SEARCH_PLANE_STEP };
    float z = z_m[(v * STEP + STEP / 2) * image_width + u * STEP + STEP / 2];
    return z > 0 ? 1 / z : 0;
}

// Tolerance in 1/m: 4 % of the radius, and two and a half steps of a Kinect's disparity.
KERNEL_FN float search_plane_tolerance(float radius_m, float inverse)
{
    return 0.04f * radius_m * inverse * inverse + 2.5f * 0.00285f;
}

// The fit of a cell: slope u, slope v (a cell each), value; 0 0 0 when there is none.
KERNEL_FN void search_plane_fit(const struct search_planes *p, int u, int v, float out[3])
{
    const float centre = p->inverse[v * p->width + u];
    out[0] = out[1] = out[2] = 0;
    if (centre == 0.f)
        return;
    // Half an object's radius around, but no farther than the fit stays cheap.
    int r = (int)(0.4f * p->radius_m * kernel_abs(p->camera.fx) * centre / SEARCH_PLANE_STEP);
    r = r < 2 ? 2 : r > 6 ? 6 : r;
    double n = 0, su = 0, sv = 0, suu = 0, svv = 0, suv = 0, sd = 0, sud = 0, svd = 0;
    const float step = 8 * search_plane_tolerance(p->radius_m, centre);
    for (int y = v - r < 0 ? -v : -r; y <= r && v + y < p->height; y++)
        for (int x = u - r < 0 ? -u : -r; x <= r && u + x < p->width; x++) {
            float there = p->inverse[(v + y) * p->width + u + x], d = there - centre;
            if (there == 0.f || kernel_abs(d) > step)
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
        return;
    out[0] = (float)((f * c - g * b) / det);
    out[1] = (float)((a * g - b * f) / det);
    out[2] = (float)((double)centre + (sd - (double)out[0] * su - (double)out[1] * sv) / n);
}

// How far [m] the plane of cell (u, v) goes on in one direction.
KERNEL_FN float search_plane_walk(const struct search_planes *p, const float fit[3], int u, int v,
                                  int du, int dv, float most_m)
{
    const struct search_camera *c = &p->camera;
    const float step = SEARCH_PLANE_STEP;
    float z0 = 1 / fit[2], reached = 0;
    float x0 = ((float)u * step - c->cx) / c->fx * z0, y0 = ((float)v * step - c->cy) / c->fy * z0;
    int missed = 0, n_on = 0, n_behind = 0;
    for (int k = 1; missed <= SEARCH_PLANE_MISSES && reached < most_m; k++) {
        int x = u + k * du, y = v + k * dv;
        if (x < 0 || y < 0 || x >= p->width || y >= p->height)
            break;
        float expected = fit[2] + fit[0] * (float)(k * du) + fit[1] * (float)(k * dv);
        float inverse = p->inverse[y * p->width + x];
        if (inverse == 0.f ||
            !(kernel_abs(inverse - expected) < search_plane_tolerance(p->radius_m, expected))) {
            // A plane goes on behind what stands on it, as long as most of the way is seen.
            bool behind = inverse > expected && n_behind < n_on + SEARCH_PLANE_MISSES;
            n_behind += behind;
            missed += !behind;
            continue;
        }
        n_on++;
        missed = 0;
        float z = 1 / expected, px = ((float)x * step - c->cx) / c->fx * z - x0;
        float py = ((float)y * step - c->cy) / c->fy * z - y0, pz = z - z0;
        reached = sqrtf(px * px + py * py + pz * pz);
    }
    return reached;
}

// The extent [m] that is too long for the object.
KERNEL_FN float search_plane_far_m(float radius_m)
{
    return SEARCH_PLANE_REACH * radius_m;
}

// How far the plane of a cell goes on along line k of four, forwards or back.
KERNEL_FN float search_plane_along(const struct search_planes *p, const float fit[3], int u, int v,
                                   int k, bool back)
{
    const int du = k == 1 ? 0 : 1, dv = k == 0 ? 0 : k == 3 ? -1 : 1;
    return search_plane_walk(p, fit, u, v, back ? -du : du, back ? -dv : dv,
                             search_plane_far_m(p->radius_m));
}

// The depth of pixel (x, y) of a cell on a plane: negative when it lies on it.
KERNEL_FN float search_plane_mark(const struct search_planes *p, const float fit[3], int x, int y,
                                  float z_m)
{
    enum { STEP = SEARCH_PLANE_STEP };
    float expected =
        fit[2] + (fit[0] * (float)(x - STEP / 2) + fit[1] * (float)(y - STEP / 2)) / STEP;
    bool on =
        z_m > 0 && kernel_abs(1 / z_m - expected) < search_plane_tolerance(p->radius_m, expected);
    return on ? -z_m : z_m;
}

#endif
