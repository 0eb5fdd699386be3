// SPDX-License-Identifier: Apache-2.0
#include "proto/evaluate.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/se3.h"

// Eigenvector of the largest eigenvalue of a symmetric 4x4 matrix (cyclic Jacobi).
static void largest_eigenvector(double m[4][4], double out[4])
{
    double v[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    for (int sweep = 0; sweep < 50; sweep++) {
        double off = 0, on = 0;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                *(i == j ? &on : &off) += m[i][j] * m[i][j];
        if (off <= 1e-30 * on)
            break;
        for (int p = 0; p < 3; p++)
            for (int q = p + 1; q < 4; q++) {
                if (m[p][q] == 0)
                    continue;
                double theta = (m[q][q] - m[p][p]) / (2 * m[p][q]);
                double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int k = 0; k < 4; k++) {
                    double a = m[k][p], b = m[k][q];
                    m[k][p] = c * a - s * b;
                    m[k][q] = s * a + c * b;
                    a = v[k][p], b = v[k][q];
                    v[k][p] = c * a - s * b;
                    v[k][q] = s * a + c * b;
                }
                for (int k = 0; k < 4; k++) {
                    double a = m[p][k], b = m[q][k];
                    m[p][k] = c * a - s * b;
                    m[q][k] = s * a + c * b;
                }
            }
    }
    int best = 0;
    for (int i = 1; i < 4; i++)
        if (m[i][i] > m[best][best])
            best = i;
    for (int k = 0; k < 4; k++)
        out[k] = v[k][best];
}

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
    // Horn's matrix, quaternion in order w x y z: with no motion at all it is 0 and the first
    // eigenvector, the identity, is kept.
    double m[4][4] = {
        {s[0][0] + s[1][1] + s[2][2], s[1][2] - s[2][1], s[2][0] - s[0][2], s[0][1] - s[1][0]},
        {0, s[0][0] - s[1][1] - s[2][2], s[0][1] + s[1][0], s[2][0] + s[0][2]},
        {0, 0, s[1][1] - s[0][0] - s[2][2], s[1][2] + s[2][1]},
        {0, 0, 0, s[2][2] - s[0][0] - s[1][1]},
    };
    for (int i = 1; i < 4; i++)
        for (int j = 0; j < i; j++)
            m[i][j] = m[j][i];
    double q[4];
    largest_eigenvector(m, q);
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

int evaluate_trajectory(const struct trajectory *truth, const struct trajectory *estimate,
                        int64_t max_gap_ns, size_t delta_frames, struct evaluation *out)
{
    const size_t n = estimate->n_poses;
    int status = -ENOMEM;
    *out = (struct evaluation){.n_poses = n};
    out->poses = calloc(n + 1, sizeof *out->poses);
    struct se3 *T_truth = calloc(n + 1, sizeof *T_truth);
    bool *matched = calloc(n + 1, sizeof *matched);
    double(*a_m)[3] = calloc(n + 1, sizeof *a_m), (*b_m)[3] = calloc(n + 1, sizeof *b_m);
    double *values = calloc(n + 1, sizeof *values), *angles = calloc(n + 1, sizeof *angles);
    if (!out->poses || !T_truth || !matched || !a_m || !b_m || !values || !angles)
        goto free_scratch;

    for (size_t i = 0; i < n; i++) {
        const struct stamped_pose *pose = &estimate->poses[i];
        matched[i] = trajectory_at(truth, pose->time_ns, max_gap_ns, &T_truth[i]) == 0;
        if (!matched[i])
            continue;
        struct evaluated_pose *e = &out->poses[out->n_matched];
        e->time_ns = pose->time_ns;
        for (int k = 0; k < 3; k++) {
            a_m[out->n_matched][k] = e->truth_m[k] = T_truth[i].t_m[k];
            b_m[out->n_matched][k] = pose->T_world_camera.t_m[k];
        }
        out->n_matched++;
    }
    status = -ENODATA;
    if (out->n_matched == 0)
        goto free_scratch;

    out->T_truth_estimate =
        evaluate_align((const double(*)[3])a_m, (const double(*)[3])b_m, out->n_matched);
    for (size_t i = 0; i < out->n_matched; i++) {
        struct evaluated_pose *e = &out->poses[i];
        double error[3];
        se3_apply(&out->T_truth_estimate, b_m[i], e->estimate_m);
        for (int k = 0; k < 3; k++)
            error[k] = e->estimate_m[k] - e->truth_m[k];
        values[i] = e->error_m = length(error);
    }
    out->ate_m = summarize(values, out->n_matched);

    size_t n_pairs = 0;
    for (size_t i = 0; i + delta_frames < n; i++) {
        size_t j = i + delta_frames;
        if (!matched[i] || !matched[j])
            continue;
        struct se3 true_motion = se3_between(&T_truth[i], &T_truth[j]);
        struct se3 motion =
            se3_between(&estimate->poses[i].T_world_camera, &estimate->poses[j].T_world_camera);
        struct se3 error = se3_between(&true_motion, &motion);
        values[n_pairs] = length(error.t_m);
        angles[n_pairs++] = se3_angle(&error);
    }
    out->rpe_m = summarize(values, n_pairs);
    out->rpe_rad = summarize(angles, n_pairs);
    status = 0;

free_scratch:
    free(T_truth);
    free(matched);
    free(a_m);
    free(b_m);
    free(values);
    free(angles);
    if (status < 0)
        evaluation_free(out);
    return status;
}

void evaluation_free(struct evaluation *evaluation)
{
    free(evaluation->poses);
    *evaluation = (struct evaluation){0};
}
