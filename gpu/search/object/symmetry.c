// SPDX-License-Identifier: Apache-2.0
// Rotational symmetry, found by looking: an object is symmetric under a rotation when it looks the
// same before and after from several sides. Axes to try are the principal axes of the surface and
// the coordinate axes of the model: an axis of symmetry is a principal axis, and where principal
// axes are not unique (a cube, a square tube) people model along the coordinate axes.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/depth_edges.h"
#include "gpu/search/object/build.h"
#include "gpu/search/object/view_rotations.h"
#include "proto/eigen.h"

#define N_SIDES  6
#define FOLD_MAX SEARCH_ROTATIONS_MAX

void search_about_axis(const double axis[3], double angle, float out[9])
{
    double c = cos(angle), s = sin(angle), k = 1 - c, x = axis[0], y = axis[1], z = axis[2];
    double r[9] = {c + x * x * k,     x * y * k - z * s, x * z * k + y * s,
                   y * x * k + z * s, c + y * y * k,     y * z * k - x * s,
                   z * x * k - y * s, z * y * k + x * s, c + z * z * k};
    for (int i = 0; i < 9; i++)
        out[i] = (float)r[i];
}

void search_rotation_product(const float a[9], const float b[9], float out[9])
{
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            out[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
}

void search_principal_axes(const struct search_object *o, double out[3][3])
{
    double m[3][3] = {{0}}, values[3];
    for (uint32_t i = 0; i < o->n_triangles; i++) {
        double p[3][3], n2 = 0;
        for (int k = 0; k < 3; k++) {
            uint32_t t = o->triangles[3 * (size_t)i + (size_t)k];
            p[k][0] = (double)o->x[t];
            p[k][1] = (double)o->y[t];
            p[k][2] = (double)o->z[t];
        }
        for (int k = 0; k < 3; k++) {
            int a = k, b = (k + 1) % 3;
            double n = (p[1][a] - p[0][a]) * (p[2][b] - p[0][b]) -
                       (p[1][b] - p[0][b]) * (p[2][a] - p[0][a]);
            n2 += n * n;
        }
        for (int k = 0; k < 3; k++)
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    m[a][b] += sqrt(n2) * p[k][a] * p[k][b];
    }
    double scale = m[0][0] + m[1][1] + m[2][2];
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            m[a][b] /= scale;
    eigen_symmetric(m[0], 3, values, out[0]);
}

struct symmetry_test {
    struct search *search;
    const struct search_object *object;
    const struct search_object_settings *settings;
    float sides[9 * N_SIDES];
    struct search_map before[N_SIDES], after[N_SIDES];
};

// Two maps show the same thing: few pixels of one that are background in the other, and depths
// within a pixel where both are seen. A pixel of tolerance at the silhouette, for sampling.
static bool is_same_map(const struct search_map *a, const struct search_map *b)
{
    enum { N = SEARCH_MAP_PX * SEARCH_MAP_PX };
    int n = 0, n_bad = 0;
    for (int i = 0; i < N; i++) {
        bool in_a = a->edt[i] >= 0, in_b = b->edt[i] >= 0;
        n += in_a || in_b;
        if (in_a && in_b)
            n_bad += abs(a->z[i] - b->z[i]) > SEARCH_UNIT && a->edt[i] > SEARCH_UNIT &&
                     b->edt[i] > SEARCH_UNIT;
        else if (in_a != in_b)
            n_bad += abs(in_a ? a->edt[i] : b->edt[i]) > SEARCH_UNIT;
    }
    return n_bad * 100 <= n;
}

static int looks_same(struct symmetry_test *test, const double axis[3], double angle, bool *out)
{
    float turn[9], turned[9 * N_SIDES];
    search_about_axis(axis, angle, turn);
    for (int i = 0; i < N_SIDES; i++)
        search_rotation_product(test->sides + 9 * i, turn, turned + 9 * i);
    int err =
        test->search->ops->maps(test->search->device, test->object, turned, N_SIDES, test->after);
    *out = !err;
    for (int i = 0; i < N_SIDES && *out; i++)
        *out = is_same_map(&test->before[i], &test->after[i]);
    return err ? err : search_tell_progress(test->settings, test->settings->n_views);
}

// The best that can be said of one axis: revolution, else the largest fold.
static int try_axis(struct symmetry_test *test, const double axis[3], bool *out_revolution,
                    uint32_t *out_fold)
{
    *out_fold = 1;
    *out_revolution = true;
    static const double odd_angles[] = {1.0, 2.37, 0.41}; // no fold up to 8 has these
    for (int i = 0; i < 3 && *out_revolution; i++) {
        int err = looks_same(test, axis, odd_angles[i], out_revolution);
        if (err)
            return err;
    }
    for (uint32_t fold = FOLD_MAX; fold > 1 && !*out_revolution && *out_fold == 1; fold--) {
        bool same;
        int err = looks_same(test, axis, 2 * M_PI / fold, &same);
        if (err)
            return err;
        *out_fold = same ? fold : 1;
    }
    return 0;
}

int search_find_symmetry(struct search *search, struct search_object *object,
                         const struct search_object_settings *settings)
{
    struct symmetry_test *test = malloc(sizeof *test);
    if (!test)
        return -ENOMEM;
    test->search = search;
    test->object = object;
    test->settings = settings;
    for (uint32_t i = 0; i < N_SIDES; i++)
        search_rotation(i, N_SIDES, test->sides + 9 * i);
    int err = search->ops->maps(search->device, object, test->sides, N_SIDES, test->before);
    double axes[6][3] = {{0}, {0}, {0}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}};
    search_principal_axes(object, axes);
    struct search_object_info *info = &object->info;
    int n_revolutions = 0;
    for (int i = 0; i < 6 && !err; i++) {
        bool revolution;
        uint32_t fold;
        err = try_axis(test, axes[i], &revolution, &fold);
        if (err)
            break;
        n_revolutions += revolution;
        bool better = revolution
                          ? info->symmetry < SEARCH_SYMMETRY_REVOLUTION
                          : info->symmetry <= SEARCH_SYMMETRY_FOLD && fold > 1 && fold > info->fold;
        if (!better)
            continue;
        info->symmetry = revolution ? SEARCH_SYMMETRY_REVOLUTION : SEARCH_SYMMETRY_FOLD;
        info->fold = revolution ? 0 : fold;
        memcpy(info->axis, axes[i], sizeof info->axis);
    }
    if (n_revolutions >= 4) {
        info->symmetry = SEARCH_SYMMETRY_SPHERE;
        memset(info->axis, 0, sizeof info->axis);
    }
    free(test);
    return err;
}

void search_rotations_of(const struct search_object_info *info, struct search_rotations *out)
{
    memset(out, 0, sizeof *out);
    out->sphere = info->symmetry == SEARCH_SYMMETRY_SPHERE;
    out->revolution = info->symmetry == SEARCH_SYMMETRY_REVOLUTION;
    for (int k = 0; k < 3; k++)
        out->axis[k] = (float)info->axis[k];
    for (uint32_t k = 1; info->symmetry == SEARCH_SYMMETRY_FOLD && k < info->fold; k++)
        search_about_axis(info->axis, 2 * M_PI * k / info->fold, out->of[out->n++]);
}
