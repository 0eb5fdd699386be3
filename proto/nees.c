// SPDX-License-Identifier: Apache-2.0
#include "proto/nees.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/se3.h"

#define LOST_M2  (0.5 * POSE_ERROR_LOST) // from here on a pose was LOST, however it was written
#define SPEED_NS 10000000                // the truth's speed is that over so much to either side

// The difference of two motions that begin at the same pose, turned by r_odom_i: of position, and
// the rotation that takes the true orientation to the estimated one.
static void motion_error(const struct se3 *true_motion, const struct se3 *motion,
                         const double r_odom_i[9], double out[6])
{
    struct se3 turn = *motion, back = *true_motion;
    double in_i[6];
    for (int k = 0; k < 3; k++) {
        in_i[k] = motion->t_m[k] - true_motion->t_m[k];
        turn.t_m[k] = back.t_m[k] = 0;
    }
    back = se3_inverse(&back);
    turn = se3_compose(&turn, &back);
    se3_rotation_vector(&turn, in_i + 3);
    for (int half = 0; half < 6; half += 3)
        for (int k = 0; k < 3; k++) {
            out[half + k] = 0;
            for (int m = 0; m < 3; m++)
                out[half + k] += r_odom_i[3 * k + m] * in_i[half + m];
        }
}

// The reference's covariance at a time, along odom's axes.
static void reference_covariance(const struct trajectory *truth, int64_t time_ns,
                                 int64_t max_gap_ns, const struct nees_reference *reference,
                                 const struct se3 *T_odom_camera, double out[36])
{
    struct se3 before, after;
    double speed[6] = {0};
    for (int i = 0; i < 36; i++)
        out[i] = 0;
    for (int i = 0; i < 6; i++)
        out[7 * i] = i < 3 ? reference->sigma_m * reference->sigma_m
                           : reference->sigma_rad * reference->sigma_rad;
    if (!(reference->time_s > 0) ||
        trajectory_at(truth, time_ns - SPEED_NS, max_gap_ns, &before) < 0 ||
        trajectory_at(truth, time_ns + SPEED_NS, max_gap_ns, &after) < 0)
        return;
    struct se3 step = se3_between(&before, &after), still = se3_identity();
    motion_error(&still, &step, T_odom_camera->r, speed);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            out[6 * i + j] += speed[i] * speed[j] * reference->time_s * reference->time_s /
                              (4e-18 * SPEED_NS * SPEED_NS);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void summarize(double *values, struct nees_summary *out)
{
    size_t n = out->n_pairs, n_within = 0;
    if (n == 0)
        return;
    qsort(values, n, sizeof *values, compare_doubles);
    for (size_t i = 0; i < n; i++) {
        out->mean += values[i] / (double)n;
        n_within += values[i] <= NEES_LIMIT_95 / 6;
    }
    out->median = 0.5 * (values[(n - 1) / 2] + values[n / 2]);
    out->share_95 = (double)n_within / (double)n;
}

// NEES of one pair, not of one image; negative when it has none.
static double pair_nees(const struct trajectory *truth, const struct trajectory *estimate,
                        int64_t max_gap_ns, const struct nees_reference *reference,
                        int64_t offset_ns, size_t i, size_t j)
{
    const struct stamped_pose *from = &estimate->poses[i], *to = &estimate->poses[j];
    const int64_t from_ns = from->time_ns + offset_ns, to_ns = to->time_ns + offset_ns;
    const struct pose_error *error_i = &estimate->errors[i], *error_j = &estimate->errors[j];
    struct se3 T_true_i, T_true_j;
    double q[36], error[6], at_i[36], arm_m[3];
    if (error_i->own[0] >= LOST_M2 || error_j->own[0] >= LOST_M2 ||
        error_j->flow_rad < error_i->flow_rad || // another epoch: nothing ties the two
        trajectory_at(truth, from_ns, max_gap_ns, &T_true_i) < 0 ||
        trajectory_at(truth, to_ns, max_gap_ns, &T_true_j) < 0)
        return -1;
    pose_error_between(&from->T_world_camera, error_i, &to->T_world_camera, error_j, q);
    for (int k = 0; k < 3; k++)
        arm_m[k] = to->T_world_camera.t_m[k] - from->T_world_camera.t_m[k];
    reference_covariance(truth, from_ns, max_gap_ns, reference, &from->T_world_camera, at_i);
    pose_error_carry(arm_m, at_i, q);
    reference_covariance(truth, to_ns, max_gap_ns, reference, &to->T_world_camera, at_i);
    for (int k = 0; k < 36; k++)
        q[k] += at_i[k];
    struct se3 true_motion = se3_between(&T_true_i, &T_true_j);
    struct se3 motion = se3_between(&from->T_world_camera, &to->T_world_camera);
    motion_error(&true_motion, &motion, from->T_world_camera.r, error);
    return pose_error_normalised2(error, q) / 6;
}

int nees_evaluate(const struct trajectory *truth, const struct trajectory *estimate,
                  int64_t max_gap_ns, const struct nees_reference *reference, size_t window,
                  int64_t offset_ns, struct nees_summary *out)
{
    *out = (struct nees_summary){0};
    if (!estimate->errors)
        return -EINVAL;
    double *values = calloc(estimate->n_poses + 1, sizeof *values);
    if (!values)
        return -ENOMEM;
    for (size_t i = 0; i + window < estimate->n_poses; i++) {
        const size_t j = i + window;
        if (pose_error_is_repeated(&estimate->poses[i].T_world_camera, &estimate->errors[i],
                                   &estimate->poses[j].T_world_camera, &estimate->errors[j])) {
            out->n_repeated++;
            continue;
        }
        double nees = pair_nees(truth, estimate, max_gap_ns, reference, offset_ns, i, j);
        if (nees >= 0)
            values[out->n_pairs++] = nees;
        else
            out->n_excluded++;
    }
    summarize(values, out);
    free(values);
    return 0;
}

int nees_time_offset(const struct trajectory *truth, const struct trajectory *estimate,
                     int64_t max_gap_ns, const struct nees_reference *reference, size_t window,
                     int64_t search_ns, int64_t *out_ns)
{
    struct nees_summary s;
    *out_ns = 0;
    int status = nees_evaluate(truth, estimate, max_gap_ns, reference, window, 0, &s);
    if (status < 0 || s.n_pairs == 0)
        return status < 0 ? status : -ENODATA;
    const size_t n_least = s.n_pairs - s.n_pairs / 10; // nothing wins by what it pushes out
    double best = s.mean;
    for (int64_t half_ns = search_ns; half_ns >= 1000000; half_ns /= 5) {
        const int64_t centre_ns = *out_ns;
        for (int k = -20; k <= 20; k++) {
            const int64_t offset_ns = centre_ns + k * half_ns / 20;
            if (offset_ns < -search_ns || offset_ns > search_ns)
                continue;
            status = nees_evaluate(truth, estimate, max_gap_ns, reference, window, offset_ns, &s);
            if (status < 0)
                return status;
            if (s.n_pairs >= n_least && s.mean < best) {
                best = s.mean;
                *out_ns = offset_ns;
            }
        }
    }
    return 0;
}
