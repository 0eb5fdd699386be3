// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/support.h"

#include <math.h>

#include "gpu/search/image_reduction.h"

// The image is looked at in a grid of so many cells at most, one pixel each. Every second one in
// both directions is the middle of a patch, every eighth patch is asked which plane it lies on.
#define COLUMNS     64
#define ROWS        48
#define N_CELLS     (COLUMNS * ROWS)
#define PATCH_STEP  2
#define N_PATCHES   (N_CELLS / PATCH_STEP / PATCH_STEP)
#define ASKED       8
#define AROUND      2    // cells each way that make a patch
#define PATCH_LEAST 12   // of them are measured at least,
#define PATCH_FLAT  0.8f // and so many of these lie on its plane

#define N_REFITS 3
#define N_TRIES  6     // planes that are looked at
#define SAME_WAY 0.95f // cosine of the normals of a patch and of the plane that it belongs to
#define TAKEN    1.5f

// A face of an object fits into a circle of its radius, so that it is smaller than pi radii
// squared. And what a heap of small things has in common by chance is a part of the image of few
// patches.
#define AREA_LEAST    6.f
#define PATCHES_LEAST 30

// Of a plane's inverse depth [1/m]: 4 mm, and two and a half steps of a Kinect's disparity.
#define FLAT_M 0.004f
#define STEPS  (2.5f * 0.00285f)
#define BEHIND 2 // who looks so far behind a plane looks past its edge

// So far from an object's middle, in what it reaches along a plane, is beside it.
#define BESIDE 1.2f

// 1/z = a u + b v + c; u, v from the principal point [px].
struct plane_fit {
    float a, b, c;
};

struct cells {
    int width, height, step_px;
    float u[N_CELLS], v[N_CELLS];
    float inverse[N_CELLS]; // of its depth [1/m], 0: none
};

// Of the middle of each, with the plane's normal towards the camera's far side, of length 1.
struct patches {
    uint32_t n;
    float u[N_PATCHES], v[N_PATCHES], inverse[N_PATCHES];
    float x[N_PATCHES], y[N_PATCHES], z[N_PATCHES];
    struct plane_fit fit[N_PATCHES];
    float area_m2[N_PATCHES];
};

static float tolerance(float inverse)
{
    return FLAT_M * inverse * inverse + STEPS;
}

static float expected_at(const struct plane_fit *fit, float u, float v)
{
    return fit->a * u + fit->b * v + fit->c;
}

static float pixel_inverse(const struct search_image *image, uint32_t u, uint32_t v)
{
    const uint16_t depth = image->frame.depth[(size_t)v * image->frame.width_px + u];
    return search_pixel_is_used(image, u, v) ? (float)image->frame.units_per_m / (float)depth : 0;
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
            out->u[i] = (float)(u - image->camera.cx_px);
            out->v[i] = (float)(v - image->camera.cy_px);
            out->inverse[i] = pixel_inverse(image, (uint32_t)u, (uint32_t)v);
        }
}

struct plane_sums {
    double uu, uv, u, vv, v, n, ud, vd, d;
};

static void add_point(float u_px, float v_px, float inverse, struct plane_sums *io)
{
    const double u = (double)u_px, v = (double)v_px, d = (double)inverse;
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

static bool solve(const struct plane_sums *s, uint32_t least, struct plane_fit *out)
{
    const double n = s->n > 0 ? s->n : 1;
    const double uu = s->uu - s->u * s->u / n, uv = s->uv - s->u * s->v / n;
    const double vv = s->vv - s->v * s->v / n, ud = s->ud - s->u * s->d / n;
    const double vd = s->vd - s->v * s->d / n, determinant = uu * vv - uv * uv;
    if (s->n < least || !(determinant > 1e-6 * uu * vv))
        return false;
    const double a = (ud * vv - vd * uv) / determinant, b = (uu * vd - uv * ud) / determinant;
    *out = (struct plane_fit){(float)a, (float)b, (float)((s->d - a * s->u - b * s->v) / n)};
    return true;
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

// Whether what is around a cell is flat: its plane.
static bool is_flat(const struct cells *cells, int column, int row, struct plane_fit *out)
{
    struct plane_sums sums = {0};
    float n = 0, n_on = 0;
    for (int y = row - AROUND; y <= row + AROUND; y++)
        for (int x = column - AROUND; x <= column + AROUND; x++) {
            const int i = y * cells->width + x;
            if (cells->inverse[i] > 0)
                add_point(cells->u[i], cells->v[i], cells->inverse[i], &sums);
        }
    if (!solve(&sums, PATCH_LEAST, out))
        return false;
    for (int y = row - AROUND; y <= row + AROUND; y++)
        for (int x = column - AROUND; x <= column + AROUND; x++) {
            const int i = y * cells->width + x;
            const float expected = expected_at(out, cells->u[i], cells->v[i]);
            const float measured = cells->inverse[i] > 0 ? 1 : 0;
            n += measured;
            n_on += fabsf(cells->inverse[i] - expected) < tolerance(expected) ? measured : 0;
        }
    return n_on >= PATCH_FLAT * n;
}

// Area of a pixel of a plane: z^3 |m| / (fx fy).
static void patches_of(const struct cells *cells, const struct intrinsics *camera,
                       struct patches *out)
{
    const float pixels = (float)(PATCH_STEP * PATCH_STEP * cells->step_px * cells->step_px);
    const float unit = pixels / (float)fabs(camera->fx_px * camera->fy_px);
    uint32_t n = 0;
    for (int row = AROUND; row < cells->height - AROUND; row += PATCH_STEP)
        for (int column = AROUND; column < cells->width - AROUND; column += PATCH_STEP) {
            const int i = row * cells->width + column;
            if (!(cells->inverse[i] > 0) || !is_flat(cells, column, row, &out->fit[n]))
                continue;
            const float z = 1 / cells->inverse[i];
            double m[3];
            normal_of(camera, &out->fit[n], m);
            const double length = length_of(m);
            out->u[n] = cells->u[i];
            out->v[n] = cells->v[i];
            out->inverse[n] = cells->inverse[i];
            out->x[n] = (float)(m[0] / length);
            out->y[n] = (float)(m[1] / length);
            out->z[n] = (float)(m[2] / length);
            out->area_m2[n++] = unit * z * z * z * (float)length;
        }
    out->n = n;
}

// A plane, and its normal of length 1.
struct plane {
    struct plane_fit fit;
    float x, y, z;
};

static struct plane plane_of(const struct intrinsics *camera, const struct plane_fit *fit)
{
    double m[3];
    normal_of(camera, fit, m);
    const double length = length_of(m);
    return (struct plane){*fit, (float)(m[0] / length), (float)(m[1] / length),
                          (float)(m[2] / length)};
}

static bool lies_on(const struct patches *p, uint32_t i, const struct plane *plane, float times)
{
    const float expected = expected_at(&plane->fit, p->u[i], p->v[i]);
    const float cosine = plane->x * p->x[i] + plane->y * p->y[i] + plane->z * p->z[i];
    return (fabsf(p->inverse[i] - expected) < times * tolerance(expected)) & (cosine > SAME_WAY);
}

static uint32_t count_on(const struct patches *patches, const struct plane *plane)
{
    uint32_t n = 0;
#pragma omp simd reduction(+ : n)
    for (uint32_t i = 0; i < patches->n; i++)
        n += lies_on(patches, i, plane, 1);
    return n;
}

static bool refit(const struct patches *patches, const struct plane *plane, struct plane_fit *out)
{
    struct plane_sums sums = {0};
    for (uint32_t i = 0; i < patches->n; i++)
        if (lies_on(patches, i, plane, 1))
            add_point(patches->u[i], patches->v[i], patches->inverse[i], &sums);
    return solve(&sums, PATCHES_LEAST, out);
}

// Of the planes of some patches the one on which the most lie.
static bool most_seen_plane(const struct patches *patches, const struct intrinsics *camera,
                            struct plane *out)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < patches->n; i += ASKED) {
        const struct plane plane = plane_of(camera, &patches->fit[i]);
        const uint32_t n = count_on(patches, &plane);
        if (n > most) {
            most = n;
            *out = plane;
        }
    }
    for (int round = 0; round < N_REFITS && most > 0; round++) {
        struct plane_fit fit;
        if (!refit(patches, out, &fit))
            return false;
        *out = plane_of(camera, &fit);
    }
    return most > 0;
}

static float along(int way, float u, float v)
{
    static const float cosines[SEARCH_SUPPORT_WAYS] = {
        1,  0.92388f,  0.70711f,  0.38268f,  0, -0.38268f, -0.70711f, -0.92388f,
        -1, -0.92388f, -0.70711f, -0.38268f, 0, 0.38268f,  0.70711f,  0.92388f};
    return cosines[way] * u +
           cosines[(way + 3 * SEARCH_SUPPORT_WAYS / 4) % SEARCH_SUPPORT_WAYS] * v;
}

// Takes the patches of a plane out; their area [m^2].
static float take(struct patches *p, const struct plane *plane, float margin_px,
                  struct search_support *out)
{
    float area_m2 = 0;
    uint32_t n = 0;
    for (int k = 0; k < SEARCH_SUPPORT_WAYS; k++)
        out->reach_px[k] = -INFINITY;
    for (uint32_t i = 0; i < p->n; i++) {
        if (lies_on(p, i, plane, TAKEN)) {
            area_m2 += p->area_m2[i];
            for (int k = 0; k < SEARCH_SUPPORT_WAYS; k++)
                out->reach_px[k] = fmaxf(out->reach_px[k], along(k, p->u[i], p->v[i]) + margin_px);
            continue;
        }
        p->u[n] = p->u[i];
        p->v[n] = p->v[i];
        p->inverse[n] = p->inverse[i];
        p->x[n] = p->x[i];
        p->y[n] = p->y[i];
        p->z[n] = p->z[i];
        p->fit[n] = p->fit[i];
        p->area_m2[n++] = p->area_m2[i];
    }
    p->n = n;
    return area_m2;
}

static bool is_in_reach(const struct search_support *support, float u, float v)
{
    bool within = true;
    for (int k = 0; k < SEARCH_SUPPORT_WAYS; k++)
        within &= along(k, u, v) <= support->reach_px[k];
    return within;
}

// Whether as many cells as lie on a plane are seen through it at least: then it is none, but what
// the things of a heap have in common.
static bool is_seen_through(const struct cells *cells, const struct plane_fit *fit,
                            const struct search_support *support)
{
    uint32_t n_on = 0, n_behind = 0;
    for (int i = 0; i < cells->width * cells->height; i++) {
        const float expected = expected_at(fit, cells->u[i], cells->v[i]);
        const float nearer = cells->inverse[i] - expected;
        if (cells->inverse[i] == 0.f || !is_in_reach(support, cells->u[i], cells->v[i]))
            continue;
        n_on += fabsf(nearer) < tolerance(expected);
        n_behind += nearer < -BEHIND * tolerance(expected);
    }
    return n_behind >= n_on;
}

void search_find_supports(const struct search_image *image, float radius_m,
                          struct search_supports *out)
{
    struct cells cells;
    struct patches patches;
    struct plane plane;
    out->n = 0;
    cells_of(image, &cells);
    patches_of(&cells, &image->camera, &patches);
    const float margin_px = (float)(AROUND * cells.step_px);
    for (int i = 0; i < N_TRIES && out->n < SEARCH_SUPPORTS_MAX; i++) {
        struct search_support *support = &out->of[out->n];
        if (!most_seen_plane(&patches, &image->camera, &plane))
            return;
        const float area_m2 = take(&patches, &plane, margin_px, support);
        normal_of(&image->camera, &plane.fit, support->m);
        out->n += area_m2 >= AREA_LEAST * radius_m * radius_m &&
                  !is_seen_through(&cells, &plane.fit, support);
    }
}

// How much nearer than the plane the image is behind point p of the camera's frame, in tolerances;
// INFINITY where nothing is measured.
static float nearer_than(const struct search_support *support, const struct search_image *image,
                         const double p[3])
{
    const double *m = support->m;
    const double u = image->camera.fx_px * p[0] / p[2] + image->camera.cx_px;
    const double v = image->camera.fy_px * p[1] / p[2] + image->camera.cy_px;
    if (!(p[2] > 0 && u > -0.5 && v > -0.5 && u < image->frame.width_px - 0.5 &&
          v < image->frame.height_px - 0.5))
        return INFINITY;
    const float inverse = pixel_inverse(image, (uint32_t)(u + 0.5), (uint32_t)(v + 0.5));
    const float plane = (float)((m[0] * p[0] + m[1] * p[1] + m[2] * p[2]) / p[2]);
    return inverse > 0 ? (inverse - plane) / tolerance(plane) : INFINITY;
}

static bool is_there(const struct search_support *support, const struct search_object *object,
                     const struct search_image *image, const struct search_candidate *c,
                     uint32_t corner, float gap_m)
{
    const double *m = support->m, length = length_of(m);
    float turned[3];
    double p[3], foot[3];
    search_turn(c->rotation, object->corners_m[corner], turned);
    for (int k = 0; k < 3; k++) {
        p[k] = (double)(turned[k] + c->t_m[k]);
        foot[k] = p[k] + (double)gap_m * m[k] / length;
    }
    return p[2] > 0 && foot[2] > 0 &&
           is_in_reach(support, (float)(image->camera.fx_px * foot[0] / foot[2]),
                       (float)(image->camera.fy_px * foot[1] / foot[2])) &&
           (gap_m >= 0 || nearer_than(support, image, p) >= -BEHIND);
}

// Two directions along the plane, at right angles, of length 1.
static void directions_of(const float up[3], float out[2][3])
{
    const int least = fabsf(up[0]) < fabsf(up[1]) ? 0 : 1;
    const float length = sqrtf(1 - up[least] * up[least]);
    for (int k = 0; k < 3; k++)
        out[0][k] = ((k == least) - up[least] * up[k]) / length;
    for (int k = 0; k < 3; k++)
        out[1][k] = up[(k + 1) % 3] * out[0][(k + 2) % 3] - up[(k + 2) % 3] * out[0][(k + 1) % 3];
}

// How far the object reaches along the plane from its middle, in directions of equal angles [m].
static void reaches_of(const struct search_object *object, const float directions[2][3],
                       float out_m[SEARCH_SUPPORT_WAYS])
{
    float x[SEARCH_CORNERS_MAX], y[SEARCH_CORNERS_MAX];
    for (uint32_t i = 0; i < object->n_corners; i++) {
        const float *p = object->corners_m[i], *right = directions[0], *away = directions[1];
        x[i] = right[0] * p[0] + right[1] * p[1] + right[2] * p[2];
        y[i] = away[0] * p[0] + away[1] * p[1] + away[2] * p[2];
    }
    for (int way = 0; way < SEARCH_SUPPORT_WAYS; way++) {
        const float along_x = along(way, 1, 0), along_y = along(way, 0, 1);
        float reach_m = 0;
#pragma omp simd reduction(max : reach_m)
        for (uint32_t i = 0; i < object->n_corners; i++) {
            const float there_m = along_x * x[i] + along_y * y[i];
            reach_m = there_m > reach_m ? there_m : reach_m;
        }
        out_m[way] = reach_m;
    }
}

// Whether the object is in a hole: just beside it the image looks past the plane in more directions
// than it shows it.
static bool is_in_hole(const struct search_support *support, const struct search_object *object,
                       const struct search_image *image, const struct search_candidate *c,
                       const float up[3], float centre_m)
{
    float directions[2][3], turned[2][3], reach_m[SEARCH_SUPPORT_WAYS];
    int n_past = 0, n_on = 0;
    directions_of(up, directions);
    for (int j = 0; j < 2; j++)
        search_turn_back(c->rotation, directions[j], turned[j]);
    reaches_of(object, turned, reach_m);
    for (int way = 0; way < SEARCH_SUPPORT_WAYS; way++) {
        double p[3];
        for (int k = 0; k < 3; k++)
            p[k] = (double)(c->t_m[k] - centre_m * up[k] +
                            BESIDE * reach_m[way] * along(way, directions[0][k], directions[1][k]));
        const float nearer = nearer_than(support, image, p);
        n_past += nearer < -BEHIND;
        n_on += fabsf(nearer) < 1;
    }
    return n_past > n_on;
}

float search_support_gap_m(const struct search_support *support, const struct search_object *object,
                           const struct search_image *image, const struct search_candidate *c)
{
    const double *m = support->m, length = length_of(m);
    const float up[3] = {(float)(-m[0] / length), (float)(-m[1] / length), (float)(-m[2] / length)};
    const float centre =
        (float)(1 / length) + up[0] * c->t_m[0] + up[1] * c->t_m[1] + up[2] * c->t_m[2];
    float turned[3], gaps_m[SEARCH_CORNERS_MAX], highest = -INFINITY, through = 0;
    uint32_t lowest = 0;
    search_turn_back(c->rotation, up, turned);
    for (uint32_t i = 0; i < object->n_corners; i++) {
        const float *p = object->corners_m[i];
        gaps_m[i] = centre + turned[0] * p[0] + turned[1] * p[1] + turned[2] * p[2];
        highest = gaps_m[i] > highest ? gaps_m[i] : highest;
        lowest = gaps_m[i] < gaps_m[lowest] ? i : lowest;
    }
    if (!(highest > 0)) // below it
        return INFINITY;
    if (is_there(support, object, image, c, lowest, gaps_m[lowest])) {
        if (gaps_m[lowest] >= 0)
            return gaps_m[lowest];
        through = gaps_m[lowest];
    }
    for (uint32_t i = 0; i < object->n_corners; i++)
        if (gaps_m[i] < through && is_there(support, object, image, c, i, gaps_m[i]))
            through = gaps_m[i];
    return through < 0 && !is_in_hole(support, object, image, c, up, centre)
               ? fmaxf(through, -highest)
               : INFINITY;
}

// As in tools/bench/MEASURED.md: of right answers 5 in 100 reach through, of wrong ones 54. Those
// above are 15 and 34 there; a third of that, see support.h.
#define WORTH_THROUGH (-2.4f)
#define WORTH_ABOVE   (-0.3f)
#define ABOVE_LESS    1.f // in radii: who hangs higher has ever less to do with the plane,
#define ABOVE_NOTHING 2.f // and from here on nothing

// How far off a plane what touches it is: 2 mm, what a sensor bends a plane by, and how exact poses
// are. In these, from where to where the worth falls.
#define TOUCHES_M 0.002f
#define BENT_M    0.0025f // at 1 m; grows with the square
#define EXACT     0.01f   // in radii
#define FALLS_AT  1.5f
#define FALLEN_AT 4.f

float search_support_worth(float gap_m, float radius_m, float z_m)
{
    const float fixed_m = TOUCHES_M + BENT_M * z_m * z_m, exact_m = EXACT * radius_m;
    const float sigma_m = sqrtf(fixed_m * fixed_m + exact_m * exact_m);
    const float off = fabsf(gap_m) / sigma_m, above = gap_m / radius_m;
    if (off < FALLS_AT || above > ABOVE_NOTHING)
        return 0;
    const float share = fminf((off - FALLS_AT) / (FALLEN_AT - FALLS_AT), 1);
    const float concerned = fminf((ABOVE_NOTHING - above) / (ABOVE_NOTHING - ABOVE_LESS), 1);
    return share * (gap_m < 0 ? WORTH_THROUGH : concerned * WORTH_ABOVE);
}

void search_add_support(const struct search_supports *supports, const struct search_object *object,
                        const struct search_image *image, struct search_candidate *candidates,
                        uint32_t n)
{
    const float radius_m = object->info.radius_m;
    for (uint32_t i = 0; i < n; i++) {
        struct search_candidate *c = &candidates[i];
        float worth = 0;
        for (uint32_t k = 0; k < supports->n; k++) {
            const float gap_m = search_support_gap_m(&supports->of[k], object, image, c);
            worth = fminf(worth, search_support_worth(gap_m, radius_m, c->t_m[2]));
        }
        c->score += worth;
        c->sure += worth;
    }
}
