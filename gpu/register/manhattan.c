// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/manhattan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/candidates.h"
#include "gpu/register/kernels/solve.h"

#define N_TRIED      256u  // normals that are tried
#define SAME_COSINE  0.97  // 14 degrees: normals of noisy far walls are 4 to 6 off
#define RIGHT_COSINE 0.1   // of directions at right angles, at most: a normal is 6 degrees off
#define LEAST_SHARE  0.015 // of the points: the strip of floor below a wall that fills the view
#define LEAST_AGREED 3u    // correspondences, for a shift; two agree by chance everywhere
#define LEAST_FITTED 6u    // twice what a pose needs
#define N_SETTLED    3     // rounds, each
#define NARROWER     0.8   // of the distance of the one before

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

// How many normals are along `direction`, and their mean.
static uint32_t gather(const struct register_cell_point *normals, uint32_t n,
                       const double direction[3], double out_mean[3])
{
    uint32_t n_along = 0;
    double sum[3] = {0};
    for (uint32_t i = 0; i < n; i++) {
        const double m[3] = {(double)normals[i].x, (double)normals[i].y, (double)normals[i].z};
        const double cosine = dot(m, direction);
        if (!(fabs(cosine) >= SAME_COSINE))
            continue;
        n_along++;
        for (int a = 0; a < 3; a++)
            sum[a] += cosine < 0 ? -m[a] : m[a];
    }
    const double length = sqrt(dot(sum, sum));
    for (int a = 0; a < 3; a++)
        out_mean[a] = length > 0 ? sum[a] / length : direction[a];
    return n_along;
}

// The direction that most normals have, at right angles to `across` unless NULL.
static bool find_direction(const struct register_cell_point *normals, uint32_t n,
                           const double *across, double out[3])
{
    const uint32_t n_tried = n < N_TRIED ? n : N_TRIED;
    uint32_t most = 0;
    double best[3] = {0};
    for (uint32_t tried = 0; tried < n_tried; tried++) {
        const uint32_t i = (uint32_t)((uint64_t)tried * n / n_tried);
        const double m[3] = {(double)normals[i].x, (double)normals[i].y, (double)normals[i].z};
        double mean[3];
        if (!(dot(m, m) >= 0.5) || (across && fabs(dot(m, across)) > RIGHT_COSINE))
            continue;
        const uint32_t n_along = gather(normals, n, m, mean);
        if (n_along > most) {
            most = n_along;
            memcpy(best, mean, sizeof best);
        }
    }
    if (most <= LEAST_SHARE * n)
        return false;
    gather(normals, n, best, out);
    return true;
}

void register_axes_find(const struct register_cell_point *normals, uint32_t n,
                        struct register_axes *out)
{
    double *x = out->row[0], *y = out->row[1], *z = out->row[2];
    memset(out, 0, sizeof *out);
    if (!find_direction(normals, n, NULL, x) || !find_direction(normals, n, x, y))
        return;
    const double cosine = dot(x, y), sine = sqrt(1 - cosine * cosine);
    for (int k = 0; k < 3; k++)
        y[k] = (y[k] - cosine * x[k]) / sine;
    for (int k = 0; k < 3; k++)
        z[k] = x[(k + 1) % 3] * y[(k + 2) % 3] - x[(k + 2) % 3] * y[(k + 1) % 3];
    out->valid = true;
}

// The rotation of number c: which axis each axis goes to, even orders and odd ones in turns, and
// which of them change sides.
static struct se3 rotation(const struct register_axes *source, const struct register_axes *target,
                           uint32_t c)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 2, 0},
                                     {1, 0, 2}, {2, 0, 1}, {2, 1, 0}};
    const int *order = orders[c % 6];
    double sign[3] = {c / 6 & 1 ? -1 : 1, c / 6 & 2 ? -1 : 1, 1};
    sign[2] = sign[0] * sign[1] * (c % 2 ? -1 : 1); // no mirror image
    struct se3 T = se3_identity();
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double sum = 0;
            for (int k = 0; k < 3; k++)
                sum += sign[k] * target->row[order[k]][i] * source->row[k][j];
            T.r[3 * i + j] = sum;
        }
    return se3_normalized(&T);
}

static double distance2(const double a[3], const double b[3])
{
    const double d[3] = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
    return dot(d, d);
}

// The densest places among n shifts. n_near: room for n.
static uint32_t find_dense(const double (*shift)[3], uint32_t n, double within_m, uint32_t *n_near,
                           double out[REGISTER_N_SHIFTS][3])
{
    const double within2 = within_m * within_m;
    uint32_t n_out = 0;
    for (uint32_t i = 0; i < n; i++)
        n_near[i] = 1;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i + 1; j < n; j++) {
            const bool near = distance2(shift[i], shift[j]) < within2;
            n_near[i] += near;
            n_near[j] += near;
        }
    for (; n_out < REGISTER_N_SHIFTS; n_out++) {
        uint32_t best = n, most = LEAST_AGREED - 1;
        for (uint32_t i = 0; i < n; i++) {
            bool known = false;
            for (uint32_t k = 0; k < n_out && !known; k++)
                known = distance2(shift[i], out[k]) < 4 * within2;
            if (!known && n_near[i] > most) {
                most = n_near[i];
                best = i;
            }
        }
        if (best == n)
            break;
        double sum[3] = {0};
        for (uint32_t j = 0; j < n; j++)
            for (int a = 0; a < 3 && distance2(shift[best], shift[j]) < within2; a++)
                sum[a] += shift[j][a];
        for (int a = 0; a < 3; a++)
            out[n_out][a] = sum[a] / most;
    }
    return n_out;
}

// The pose of the correspondences that T does: the directions are good to some degrees only.
static struct se3 settle(const struct register_matched_pair *pairs, uint32_t n, const struct se3 *T,
                         double within_m)
{
    struct se3 settled = *T;
    for (int round = 0; round < N_SETTLED; round++, within_m *= NARROWER) {
        double sums[REGISTER_N_SUMS] = {0};
        uint32_t n_fitted = 0;
        for (uint32_t i = 0; i < n; i++) {
            double y[3];
            se3_apply(&settled, pairs[i].source_m, y);
            if (distance2(y, pairs[i].target_m) < within_m * within_m) {
                register_add_pair(sums, 1, pairs[i].target_m, pairs[i].source_m);
                n_fitted++;
            }
        }
        struct se3 next;
        if (n_fitted < LEAST_FITTED || !register_solve_points(sums, &next))
            break;
        settled = next;
    }
    return settled;
}

int register_axes_poses(const struct register_axes *source, const struct register_axes *target,
                        const struct register_matched_pair *pairs, uint32_t n, double within_m,
                        struct se3 out[REGISTER_MOST_TURNED])
{
    const uint32_t step = n > 0 ? (n - 1) / REGISTER_AXES_PAIRS + 1 : 1;
    double(*shift)[3] = malloc((n / step + 1) * sizeof *shift);
    uint32_t *n_near = malloc((n / step + 1) * sizeof *n_near);
    int n_out = shift && n_near ? 0 : -ENOMEM;
    for (uint32_t c = 0; c < REGISTER_N_AXES && n_out >= 0 && source->valid && target->valid; c++) {
        const struct se3 turned = rotation(source, target, c);
        double dense[REGISTER_N_SHIFTS][3];
        uint32_t n_shifts = 0;
        for (uint32_t i = 0; i < n; i += step, n_shifts++) {
            double y[3];
            se3_apply(&turned, pairs[i].source_m, y);
            for (int a = 0; a < 3; a++)
                shift[n_shifts][a] = pairs[i].target_m[a] - y[a];
        }
        const uint32_t n_dense = find_dense(shift, n_shifts, within_m, n_near, dense);
        for (uint32_t k = 0; k < n_dense; k++) {
            struct se3 T = turned;
            memcpy(T.t_m, dense[k], sizeof T.t_m);
            out[n_out++] = settle(pairs, n, &T, within_m);
        }
    }
    free(shift);
    free(n_near);
    return n_out;
}
