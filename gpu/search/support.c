// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/support.h"

#include <math.h>
#include <string.h>

// The image is looked at in a grid of so many cells at most, one pixel each, and every fourth one
// in both directions is asked which plane it may lie on.
#define COLUMNS 64
#define ROWS    48
#define N_CELLS (COLUMNS * ROWS)
#define ASKED   4
#define AROUND  2 // cells each way that tell the plane of one
#define LEAST   8 // of them

#define N_REFITS 3

#define N_TRIES 6 // planes that are looked at, those of the most pixels first

// A face of an object fits into a circle of its radius, so that it is smaller than pi radii
// squared.
#define AREA_LEAST 6.f

// Of a plane's inverse depth [1/m]: 4 mm, and two and a half steps of a Kinect's disparity.
#define FLAT_M 0.004f
#define STEPS  (2.5f * 0.00285f)
#define APART  6 // neighbours farther off are another surface's
#define TAKEN  1.5f
#define BEHIND 2 // who looks so far behind a plane looks past its edge

struct cells {
    int width, height, step_px;
    float u[N_CELLS], v[N_CELLS]; // of the pixel, from the principal point [px]
    float inverse[N_CELLS];       // of its depth [1/m], 0: none, or taken by a plane
    float z3[N_CELLS];
};

// 1/z = a u + b v + c.
struct plane_fit {
    float a, b, c;
};

static float tolerance(float inverse)
{
    return FLAT_M * inverse * inverse + STEPS;
}

static float expected_at(const struct plane_fit *fit, float u, float v)
{
    return fit->a * u + fit->b * v + fit->c;
}

static float pixel_inverse(const struct search_image *image, size_t u, size_t v)
{
    const uint16_t depth = image->frame.depth[v * image->frame.width_px + u];
    return depth ? (float)image->frame.units_per_m / (float)depth : 0;
}

static void cells_of(const struct search_image *image, struct cells *out)
{
    const int width = (int)image->frame.width_px, height = (int)image->frame.height_px;
    const int across = (width + COLUMNS - 1) / COLUMNS, down = (height + ROWS - 1) / ROWS;
    const int step = across > down ? across : down;
    out->step_px = step;
    out->width = width / step;
    out->height = height / step;
    for (int row = 0; row < out->height; row++)
        for (int column = 0; column < out->width; column++) {
            const int u = column * step + step / 2, v = row * step + step / 2;
            const int i = row * out->width + column;
            const float inverse = pixel_inverse(image, (size_t)u, (size_t)v);
            const float z = inverse > 0 ? 1 / inverse : 0;
            out->u[i] = (float)(u - image->camera.cx_px);
            out->v[i] = (float)(v - image->camera.cy_px);
            out->inverse[i] = inverse;
            out->z3[i] = z * z * z;
        }
}

struct plane_sums {
    double uu, uv, u, vv, v, n, ud, vd, d;
};

static void add_cell(const struct cells *cells, int i, struct plane_sums *io)
{
    const double u = (double)cells->u[i], v = (double)cells->v[i], d = (double)cells->inverse[i];
    io->uu += u * u;
    io->uv += u * v;
    io->u += u;
    io->vv += v * v;
    io->v += v;
    io->n += 1;
    io->ud += u * d;
    io->vd += v * d;
    io->d += d;
}

static bool solve(const struct plane_sums *s, struct plane_fit *out)
{
    const double n = s->n > 0 ? s->n : 1;
    const double uu = s->uu - s->u * s->u / n, uv = s->uv - s->u * s->v / n;
    const double vv = s->vv - s->v * s->v / n, ud = s->ud - s->u * s->d / n;
    const double vd = s->vd - s->v * s->d / n, determinant = uu * vv - uv * uv;
    if (s->n < LEAST || !(determinant > 1e-6 * uu * vv))
        return false;
    const double a = (ud * vv - vd * uv) / determinant, b = (uu * vd - uv * ud) / determinant;
    *out = (struct plane_fit){(float)a, (float)b, (float)((s->d - a * s->u - b * s->v) / n)};
    return true;
}

// The plane of a cell and those around it that are not of another surface.
static bool fit_around(const struct cells *cells, int column, int row, struct plane_fit *out)
{
    struct plane_sums sums = {0};
    const float here = cells->inverse[row * cells->width + column];
    if (here == 0.f)
        return false;
    for (int y = row - AROUND; y <= row + AROUND; y++)
        for (int x = column - AROUND; x <= column + AROUND; x++) {
            const int i = y * cells->width + x;
            if (cells->inverse[i] != 0.f &&
                fabsf(cells->inverse[i] - here) < APART * tolerance(here))
                add_cell(cells, i, &sums);
        }
    return solve(&sums, out);
}

static bool lies_on(const struct cells *cells, int i, const struct plane_fit *fit, float times)
{
    const float expected = expected_at(fit, cells->u[i], cells->v[i]);
    return cells->inverse[i] != 0.f &&
           fabsf(cells->inverse[i] - expected) < times * tolerance(expected);
}

static bool refit(const struct cells *cells, struct plane_fit *io)
{
    struct plane_sums sums = {0};
    for (int i = 0; i < cells->width * cells->height; i++)
        if (lies_on(cells, i, io, 1))
            add_cell(cells, i, &sums);
    return solve(&sums, io);
}

static void normal_of(const struct intrinsics *camera, const struct plane_fit *fit, double out[3])
{
    out[0] = (double)fit->a * camera->fx_px;
    out[1] = (double)fit->b * camera->fy_px;
    out[2] = (double)fit->c;
}

static double length_of(const double m[3])
{
    return sqrt(m[0] * m[0] + m[1] * m[1] + m[2] * m[2]);
}

static uint32_t count_on(const struct cells *cells, const struct plane_fit *fit, int stride)
{
    uint32_t n = 0;
    for (int row = 0; row < cells->height; row += stride)
        for (int column = 0; column < cells->width; column += stride)
            n += lies_on(cells, row * cells->width + column, fit, 1);
    return n;
}

// z^3 |m| / (fx fy) a pixel [m^2].
static float area_m2(const struct cells *cells, const struct intrinsics *camera,
                     const struct plane_fit *fit)
{
    double m[3];
    float z3 = 0;
    normal_of(camera, fit, m);
    for (int i = 0; i < cells->width * cells->height; i++)
        z3 += lies_on(cells, i, fit, 1) ? cells->z3[i] : 0;
    const float pixels = (float)(cells->step_px * cells->step_px);
    return pixels * z3 * (float)(length_of(m) / fabs(camera->fx_px * camera->fy_px));
}

// Of the planes of some cells the one on which the most lie.
static bool most_seen_plane(const struct cells *cells, struct plane_fit *out)
{
    uint32_t most = 0;
    for (int row = AROUND; row < cells->height - AROUND; row += ASKED)
        for (int column = AROUND; column < cells->width - AROUND; column += ASKED) {
            struct plane_fit fit;
            if (!fit_around(cells, column, row, &fit))
                continue;
            const uint32_t n = count_on(cells, &fit, 2);
            if (n > most) {
                most = n;
                *out = fit;
            }
        }
    for (int round = 0; round < N_REFITS && most > 0; round++)
        if (!refit(cells, out))
            return false;
    return most > 0;
}

static void take(struct cells *cells, const struct plane_fit *fit)
{
    for (int i = 0; i < cells->width * cells->height; i++)
        if (lies_on(cells, i, fit, TAKEN))
            cells->inverse[i] = 0;
}

void search_find_supports(const struct search_image *image, float radius_m,
                          struct search_supports *out)
{
    struct cells cells;
    struct plane_fit fit;
    out->n = 0;
    cells_of(image, &cells);
    for (int i = 0; i < N_TRIES && out->n < SEARCH_SUPPORTS_MAX; i++) {
        if (!most_seen_plane(&cells, &fit))
            return;
        if (area_m2(&cells, &image->camera, &fit) >= AREA_LEAST * radius_m * radius_m)
            normal_of(&image->camera, &fit, out->of[out->n++].m);
        take(&cells, &fit);
    }
}

// Whether the image shows that there is no plane (m) in front of point p of the camera's frame.
static bool looks_past(const struct search_image *image, const double m[3], const double p[3])
{
    const double u = image->camera.fx_px * p[0] / p[2] + image->camera.cx_px;
    const double v = image->camera.fy_px * p[1] / p[2] + image->camera.cy_px;
    if (!(u > -0.5 && v > -0.5 && u < image->frame.width_px - 0.5 &&
          v < image->frame.height_px - 0.5))
        return false;
    const float inverse = pixel_inverse(image, (size_t)(u + 0.5), (size_t)(v + 0.5));
    const float plane = (float)((m[0] * p[0] + m[1] * p[1] + m[2] * p[2]) / p[2]);
    return inverse != 0.f && inverse < plane - BEHIND * tolerance(plane);
}

static float gap_m(const struct search_support *support, const struct search_object *object,
                   const struct search_image *image, const struct search_candidate *c)
{
    const double *m = support->m, length = length_of(m);
    float turned[3], gap = INFINITY;
    const float away[3] = {(float)(-m[0] / length), (float)(-m[1] / length),
                           (float)(-m[2] / length)};
    const float centre =
        (float)(1 / length) + away[0] * c->t_m[0] + away[1] * c->t_m[1] + away[2] * c->t_m[2];
    search_turn_back(c->rotation, away, turned);
    for (uint32_t i = 0; i < object->n_corners; i++) {
        const float *p = object->corners_m[i];
        const float here = centre + turned[0] * p[0] + turned[1] * p[1] + turned[2] * p[2];
        if (here >= gap)
            continue;
        float q[3];
        search_turn(c->rotation, p, q);
        const double at[3] = {(double)(q[0] + c->t_m[0]), (double)(q[1] + c->t_m[1]),
                              (double)(q[2] + c->t_m[2])};
        if (here > 0 || at[2] <= 0 || !looks_past(image, m, at))
            gap = here;
    }
    return gap;
}

float search_support_gap_m(const struct search_supports *supports,
                           const struct search_object *object, const struct search_image *image,
                           const struct search_candidate *c)
{
    float nearest = INFINITY;
    for (uint32_t i = 0; i < supports->n; i++) {
        const float gap = gap_m(&supports->of[i], object, image, c);
        nearest = fabsf(gap) < fabsf(nearest) ? gap : nearest;
    }
    return nearest;
}

// Of right poses (support.h).
#define SHARE_TOUCHES 0.3f
#define SHARE_ABOVE   0.6f
#define SHARE_ANY     0.1f

// In radii of the object: how high it stands on something else, and the density of wrong answers,
// a Cauchy distribution.
#define ABOVE       0.6f
#define WRONG_AT    (-0.15f)
#define WRONG_WIDTH 0.45f

// How far off a plane what touches it is: 2 mm, and what a sensor bends a plane by.
#define TOUCHES_M 0.002f
#define BENT_M    0.0025f // at 1 m; grows with the square

// gap, sigma: in radii.
static float likelihood_ratio(float gap, float sigma)
{
    const float pi = 3.14159265f;
    const float touches = expf(-0.5f * gap * gap / (sigma * sigma)) / (sigma * sqrtf(2 * pi));
    const float above = gap > 0 ? expf(-gap / ABOVE) / ABOVE : 0;
    const float off = (gap - WRONG_AT) / WRONG_WIDTH;
    const float wrong = 1 / (pi * WRONG_WIDTH * (1 + off * off));
    return (SHARE_TOUCHES * touches + SHARE_ABOVE * above) / wrong + SHARE_ANY;
}

float search_support_worth(float gap_m, float radius_m, float z_m)
{
    if (!isfinite(gap_m))
        return 0;
    const float sigma = (TOUCHES_M + BENT_M * z_m * z_m) / radius_m;
    return logf(likelihood_ratio(gap_m / radius_m, sigma) / likelihood_ratio(0, sigma));
}

void search_add_support(const struct search_object *object, const struct search_image *image,
                        struct search_candidate *candidates, uint32_t n)
{
    const float radius_m = object->info.radius_m;
    struct search_supports supports;
    search_find_supports(image, radius_m, &supports);
    for (uint32_t i = 0; i < n && supports.n > 0; i++) {
        struct search_candidate *c = &candidates[i];
        const float gap = search_support_gap_m(&supports, object, image, c);
        const float worth = search_support_worth(gap, radius_m, c->t_m[2]);
        c->score += worth;
        c->sure += worth;
    }
}
