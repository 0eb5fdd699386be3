// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/search_metrics.h"

#include <math.h>

#include "proto/se3.h"

static void point_in(const struct metric_points *points, size_t i, const struct se3 *T,
                     double out[3])
{
    const float *p = points->xyz_m + 3 * i;
    double at[3] = {(double)p[0], (double)p[1], (double)p[2]};
    se3_apply(T, at, out);
}

static double square_between(const double a[3], const double b[3])
{
    double x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
    return x * x + y * y + z * z;
}

double metric_add(const struct metric_points *points, const struct se3 *T_estimate,
                  const struct se3 *T_truth)
{
    double sum = 0;
    for (size_t i = 0; i < points->n_points; i++) {
        double a[3], b[3];
        point_in(points, i, T_estimate, a);
        point_in(points, i, T_truth, b);
        sum += sqrt(square_between(a, b));
    }
    return sum / (double)points->n_points;
}

double metric_add_s(const struct metric_points *points, size_t stride, const struct se3 *T_estimate,
                    const struct se3 *T_truth)
{
    // In the estimate's frame, where the answers do not move.
    struct se3 T = se3_between(T_estimate, T_truth);
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < points->n_points; i += stride, n++) {
        double a[3], nearest = INFINITY;
        point_in(points, i, &T, a);
        for (size_t j = 0; j < points->n_points; j++) {
            const float *p = points->xyz_m + 3 * j;
            double b[3] = {(double)p[0], (double)p[1], (double)p[2]};
            nearest = fmin(nearest, square_between(a, b));
        }
        sum += sqrt(nearest);
    }
    return sum / (double)n;
}

double metric_mssd(const struct metric_points *points, const struct se3 *symmetries,
                   size_t n_symmetries, const struct se3 *T_estimate, const struct se3 *T_truth)
{
    const struct se3 identity = se3_identity();
    double best = INFINITY;
    for (size_t s = 0; s <= n_symmetries; s++) {
        struct se3 T = se3_compose(T_truth, s < n_symmetries ? &symmetries[s] : &identity);
        double worst = 0;
        for (size_t i = 0; i < points->n_points; i++) {
            double a[3], b[3];
            point_in(points, i, T_estimate, a);
            point_in(points, i, &T, b);
            worst = fmax(worst, square_between(a, b));
        }
        best = fmin(best, sqrt(worst));
    }
    return best;
}

static bool visible(float model_m, float scene_m, double delta_m)
{
    return model_m > 0 && (scene_m == 0.f || (double)model_m - (double)scene_m <= delta_m);
}

double metric_vsd(const float *estimate_m, const float *truth_m, const float *scene_m,
                  size_t n_pixels, double delta_m, double tau_m)
{
    size_t n = 0, n_bad = 0;
    for (size_t i = 0; i < n_pixels; i++) {
        bool truth = visible(truth_m[i], scene_m[i], delta_m);
        // The estimate also counts as visible where the true object is: it may hide itself there.
        bool estimate = visible(estimate_m[i], scene_m[i], delta_m) || (truth && estimate_m[i] > 0);
        if (!truth && !estimate)
            continue;
        n++;
        n_bad += !truth || !estimate || !(fabs((double)estimate_m[i] - (double)truth_m[i]) < tau_m);
    }
    return n ? (double)n_bad / (double)n : 1;
}

double metric_diameter(const struct metric_points *points)
{
    size_t stride = points->n_points / 2000 + 1;
    const struct se3 identity = se3_identity();
    double most = 0;
    for (size_t i = 0; i < points->n_points; i += stride)
        for (size_t j = i + stride; j < points->n_points; j += stride) {
            double a[3], b[3];
            point_in(points, i, &identity, a);
            point_in(points, j, &identity, b);
            most = fmax(most, square_between(a, b));
        }
    return sqrt(most);
}
