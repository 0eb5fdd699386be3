// SPDX-License-Identifier: Apache-2.0
#include "proto/evaluate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/eigen.h"
#include "proto/se3.h"

struct se3 evaluate_align(const double (*a_m)[3], const double (*b_m)[3], size_t n)
{
    double mean_a[3] = {0}, mean_b[3] = {0}, s[3][3] = {{0}};
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            mean_a[k] += a_m[i][k] / (double)n;
            mean_b[k] += b_m[i][k] / (double)n;
        }
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++)
                s[j][k] += (b_m[i][j] - mean_b[j]) * (a_m[i][k] - mean_a[k]);
    // Horn's matrix, quaternion in order w x y z. With no motion at all it is 0: of equal values
    // the first one's vector is taken, the identity.
    double m[4][4] = {
        {s[0][0] + s[1][1] + s[2][2], s[1][2] - s[2][1], s[2][0] - s[0][2], s[0][1] - s[1][0]},
        {0, s[0][0] - s[1][1] - s[2][2], s[0][1] + s[1][0], s[2][0] + s[0][2]},
        {0, 0, s[1][1] - s[0][0] - s[2][2], s[1][2] + s[2][1]},
        {0, 0, 0, s[2][2] - s[0][0] - s[1][1]},
    };
    for (int i = 1; i < 4; i++)
        for (int j = 0; j < i; j++)
            m[i][j] = m[j][i];
    double values[4], vectors[4][4];
    int best = 0;
    eigen_symmetric(m[0], 4, values, vectors[0]);
    for (int i = 1; i < 4; i++)
        best = values[i] > values[best] ? i : best;
    const double *q = vectors[best];
    struct se3 T = se3_from_quaternion((double[4]){q[1], q[2], q[3], q[0]}, (double[3]){0, 0, 0});
    double turned[3];
    se3_apply(&T, mean_b, turned);
    for (int k = 0; k < 3; k++)
        T.t_m[k] = mean_a[k] - turned[k];
    return T;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Sorts the values.
static struct error_summary summarize(double *values, size_t n)
{
    struct error_summary out = {.n = n};
    if (n == 0)
        return out;
    qsort(values, n, sizeof *values, compare_doubles);
    double sum = 0, sum2 = 0;
    for (size_t i = 0; i < n; i++) {
        sum += values[i];
        sum2 += values[i] * values[i];
    }
    out.rmse = sqrt(sum2 / (double)n);
    out.mean = sum / (double)n;
    out.median = 0.5 * (values[(n - 1) / 2] + values[n / 2]);
    out.max = values[n - 1];
    return out;
}

static double length(const double v[3])
{
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

// Room for one value a pose of the estimate.
struct scratch {
    struct se3 *T_truth; // at the pose's time, where matched
    bool *matched;
    double (*truth_m)[3], (*estimate_m)[3]; // of the matched ones
    double *values, *angles;
};

static void match(const struct trajectory *truth, const struct trajectory *estimate,
                  int64_t max_gap_ns, struct scratch *scratch, struct evaluation *out)
{
    for (size_t i = 0; i < estimate->n_poses; i++) {
        const struct stamped_pose *pose = &estimate->poses[i];
        struct se3 *T = &scratch->T_truth[i];
        scratch->matched[i] = trajectory_at(truth, pose->time_ns, max_gap_ns, T) == 0;
        if (!scratch->matched[i])
            continue;
        struct evaluated_pose *e = &out->poses[out->n_matched];
        e->time_ns = pose->time_ns;
        for (int k = 0; k < 3; k++) {
            scratch->truth_m[out->n_matched][k] = e->truth_m[k] = T->t_m[k];
            scratch->estimate_m[out->n_matched][k] = pose->T_world_camera.t_m[k];
        }
        out->n_matched++;
    }
}

static void measure_absolute(struct scratch *scratch, struct evaluation *out)
{
    out->T_truth_estimate = evaluate_align((const double(*)[3])scratch->truth_m,
                                           (const double(*)[3])scratch->estimate_m, out->n_matched);
    for (size_t i = 0; i < out->n_matched; i++) {
        struct evaluated_pose *e = &out->poses[i];
        double error[3];
        se3_apply(&out->T_truth_estimate, scratch->estimate_m[i], e->estimate_m);
        for (int k = 0; k < 3; k++)
            error[k] = e->estimate_m[k] - e->truth_m[k];
        scratch->values[i] = e->error_m = length(error);
    }
    out->ate_m = summarize(scratch->values, out->n_matched);
}

// ATE RMSE with the truth read offset_ns later; *out_n poses of the estimate have a partner.
static double offset_rmse_m(const struct trajectory *truth, const struct trajectory *estimate,
                            int64_t max_gap_ns, int64_t offset_ns, double (*truth_m)[3],
                            double (*estimate_m)[3], size_t *out_n)
{
    size_t n = 0;
    for (size_t i = 0; i < estimate->n_poses; i++) {
        const struct stamped_pose *pose = &estimate->poses[i];
        struct se3 T;
        if (trajectory_at(truth, pose->time_ns + offset_ns, max_gap_ns, &T) < 0)
            continue;
        memcpy(truth_m[n], T.t_m, sizeof truth_m[n]);
        memcpy(estimate_m[n], pose->T_world_camera.t_m, sizeof estimate_m[n]);
        n++;
    }
    *out_n = n;
    if (n == 0)
        return 0;
    struct se3 T = evaluate_align((const double(*)[3])truth_m, (const double(*)[3])estimate_m, n);
    double sum2_m2 = 0;
    for (size_t i = 0; i < n; i++) {
        double p[3];
        se3_apply(&T, estimate_m[i], p);
        for (int k = 0; k < 3; k++)
            sum2_m2 += (p[k] - truth_m[i][k]) * (p[k] - truth_m[i][k]);
    }
    return sqrt(sum2_m2 / (double)n);
}

int evaluate_time_offset(const struct trajectory *truth, const struct trajectory *estimate,
                         int64_t max_gap_ns, int64_t search_ns, int64_t *out_ns)
{
    double(*truth_m)[3] = calloc(estimate->n_poses + 1, sizeof *truth_m);
    double(*estimate_m)[3] = calloc(estimate->n_poses + 1, sizeof *estimate_m);
    size_t n_least = 0, n_matched;
    int status = truth_m && estimate_m ? 0 : -ENOMEM;
    *out_ns = 0;
    if (status)
        goto free_points;
    offset_rmse_m(truth, estimate, max_gap_ns, 0, truth_m, estimate_m, &n_matched);
    // An offset must not win by what it pushes out of the truth's times.
    n_least = n_matched - n_matched / 10;
    status = n_matched ? 0 : -ENODATA;
    // From coarse to fine: forty steps over the range, then over a fifth of it around the best.
    double best_m = INFINITY;
    int64_t centre_ns = 0;
    for (int64_t half_ns = search_ns; !status && half_ns >= 1000; half_ns /= 5) {
        const int64_t from_ns = centre_ns;
        for (int k = -20; k <= 20; k++) {
            int64_t offset_ns = from_ns + k * half_ns / 20;
            if (offset_ns < -search_ns || offset_ns > search_ns)
                continue;
            double m = offset_rmse_m(truth, estimate, max_gap_ns, offset_ns, truth_m, estimate_m,
                                     &n_matched);
            if (n_matched >= n_least && m < best_m) {
                best_m = m;
                centre_ns = offset_ns;
            }
        }
    }
    *out_ns = centre_ns;
free_points:
    free(truth_m);
    free(estimate_m);
    return status;
}

static void measure_relative(const struct trajectory *estimate, size_t delta_frames,
                             struct scratch *scratch, struct evaluation *out)
{
    size_t n_pairs = 0;
    for (size_t i = 0; i + delta_frames < estimate->n_poses; i++) {
        size_t j = i + delta_frames;
        if (!scratch->matched[i] || !scratch->matched[j])
            continue;
        struct se3 true_motion = se3_between(&scratch->T_truth[i], &scratch->T_truth[j]);
        struct se3 motion =
            se3_between(&estimate->poses[i].T_world_camera, &estimate->poses[j].T_world_camera);
        struct se3 error = se3_between(&true_motion, &motion);
        scratch->values[n_pairs] = length(error.t_m);
        scratch->angles[n_pairs++] = se3_angle(&error);
    }
    out->rpe_m = summarize(scratch->values, n_pairs);
    out->rpe_rad = summarize(scratch->angles, n_pairs);
}

int evaluate_trajectory(const struct trajectory *truth, const struct trajectory *estimate,
                        int64_t max_gap_ns, size_t delta_frames, struct evaluation *out)
{
    const size_t n = estimate->n_poses + 1; // never 0
    int status = -ENOMEM;
    *out = (struct evaluation){.n_poses = estimate->n_poses};
    struct scratch s = {.T_truth = calloc(n, sizeof *s.T_truth),
                        .matched = calloc(n, sizeof *s.matched),
                        .truth_m = calloc(n, sizeof *s.truth_m),
                        .estimate_m = calloc(n, sizeof *s.estimate_m),
                        .values = calloc(n, sizeof *s.values),
                        .angles = calloc(n, sizeof *s.angles)};
    out->poses = calloc(n, sizeof *out->poses);
    if (!out->poses || !s.T_truth || !s.matched || !s.truth_m || !s.estimate_m || !s.values ||
        !s.angles)
        goto free_scratch;
    match(truth, estimate, max_gap_ns, &s, out);
    status = out->n_matched ? 0 : -ENODATA;
    if (status)
        goto free_scratch;
    measure_absolute(&s, out);
    measure_relative(estimate, delta_frames, &s, out);
free_scratch:
    free(s.T_truth);
    free(s.matched);
    free(s.truth_m);
    free(s.estimate_m);
    free(s.values);
    free(s.angles);
    if (status < 0)
        evaluation_free(out);
    return status;
}

void evaluation_free(struct evaluation *evaluation)
{
    free(evaluation->poses);
    *evaluation = (struct evaluation){0};
}
