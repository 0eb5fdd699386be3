// SPDX-License-Identifier: Apache-2.0
// NEES on trajectories whose errors are drawn as proto/pose_error.h says that they hang together:
// noise of each frame, a walk of independent steps, a drift by a gain that wanders. The mean over
// many draws is 1 over every window, 95 % lie within the limit, and a claim that is off by a factor
// shows it. The file format keeps what it is given; normalised errors against a plain inverse.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/nees.h"
#include "proto/se3.h"

#define N_FRAMES 40
#define N_DRAWS  400
#define PERIOD   33333333
#define STEP_RAD 0.012

static uint64_t random_state = 20261122;

static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(random_state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

// Standard deviations of the parts, position and rotation; correlated by a fixed mixing matrix.
static const double own_std[6] = {1e-3, 2e-3, 5e-4, 1e-3, 4e-4, 7e-4};
static const double walk_std[6] = {3e-4, 2e-4, 5e-4, 2e-4, 3e-4, 1e-4};
static const double gain_std[6] = {0.02, 0.01, 0.03, 0.02, 0.015, 0.01}; // per rad of flow

static void mixed(const double std[6], double out[36])
{
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            out[6 * i + j] = i == j ? std[i] : (j < i ? 0.4 * std[i] : 0);
}

static void draw(const double std[6], double out[6])
{
    double l[36], n[6];
    mixed(std, l);
    for (int i = 0; i < 6; i++) {
        n[i] = normal();
        out[i] = 0;
        for (int j = 0; j <= i; j++)
            out[i] += l[6 * i + j] * n[j];
    }
}

static void covariance_of(const double std[6], double scale, double out[36])
{
    double l[36];
    mixed(std, l);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            out[6 * i + j] = 0;
            for (int k = 0; k < 6; k++)
                out[6 * i + j] += scale * l[6 * i + k] * l[6 * j + k];
        }
}

static struct se3 true_pose(int i)
{
    const double twist[6] = {0.3 * sin(0.2 * i), 0.02 * i, 0.4, 0.2, STEP_RAD * i, 0.1};
    return se3_exp(twist);
}

// The same error at a place `arm` away: a wrong orientation swings it.
static void move_error(const double arm_m[3], double e[6])
{
    e[0] += e[4] * arm_m[2] - e[5] * arm_m[1];
    e[1] += e[5] * arm_m[0] - e[3] * arm_m[2];
    e[2] += e[3] * arm_m[1] - e[4] * arm_m[0];
}

static struct se3 with_error(const struct se3 *T, const double e[6])
{
    const double turn[6] = {0, 0, 0, e[3], e[4], e[5]};
    struct se3 R = se3_exp(turn), out = *T;
    memset(out.t_m, 0, sizeof out.t_m);
    out = se3_compose(&R, &out);
    for (int i = 0; i < 3; i++)
        out.t_m[i] = T->t_m[i] + e[i];
    return out;
}

struct drawn {
    struct stamped_pose truth[N_FRAMES], poses[N_FRAMES];
    struct pose_error errors[N_FRAMES];
};

static void draw_trajectory(struct drawn *d, const double reference_std[6])
{
    const double keep = exp(-STEP_RAD / POSE_ERROR_COHERENCE_RAD);
    double gain[6], walk[6] = {0}, drift[6] = {0}, fresh[6], total[6];
    memset(d, 0, sizeof *d);
    draw(gain_std, gain);
    for (int i = 0; i < N_FRAMES; i++) {
        struct se3 T = true_pose(i);
        struct pose_error *e = &d->errors[i];
        e->flow_rad = STEP_RAD * i;
        covariance_of(own_std, 1, e->own);
        if (i > 0) {
            double arm_m[3], step[36];
            struct se3 last = true_pose(i - 1);
            for (int k = 0; k < 3; k++)
                arm_m[k] = T.t_m[k] - last.t_m[k];
            move_error(arm_m, walk);
            move_error(arm_m, drift);
            draw(walk_std, fresh);
            for (int k = 0; k < 6; k++) {
                walk[k] += fresh[k];
                drift[k] += gain[k] * STEP_RAD;
            }
            draw(gain_std, fresh);
            for (int k = 0; k < 6; k++)
                gain[k] = keep * gain[k] + sqrt(1 - keep * keep) * fresh[k];
            pose_error_carry(arm_m, d->errors[i - 1].walk, e->walk);
            pose_error_carry(arm_m, d->errors[i - 1].drift, e->drift);
            covariance_of(walk_std, 1, step);
            for (int k = 0; k < 36; k++)
                e->walk[k] += step[k];
            covariance_of(gain_std, 2 * POSE_ERROR_COHERENCE_RAD * STEP_RAD, step);
            for (int k = 0; k < 36; k++)
                e->drift[k] += step[k];
        }
        draw(own_std, fresh);
        for (int k = 0; k < 6; k++)
            total[k] = fresh[k] + walk[k] + drift[k];
        d->poses[i] = (struct stamped_pose){(int64_t)i * PERIOD, with_error(&T, total)};
        for (int k = 0; k < 6; k++)
            total[k] = reference_std[k] * normal();
        d->truth[i] = (struct stamped_pose){(int64_t)i * PERIOD, with_error(&T, total)};
    }
}

// Mean NEES and the share within the limit over many draws, the claims multiplied by `claimed`.
static void measure(size_t window, double claimed, double sigma_m, double sigma_rad,
                    double *out_mean, double *out_share)
{
    static struct drawn d;
    const double std[6] = {sigma_m, sigma_m, sigma_m, sigma_rad, sigma_rad, sigma_rad};
    const struct nees_reference reference = {.sigma_m = sigma_m, .sigma_rad = sigma_rad};
    *out_mean = *out_share = 0;
    for (int n = 0; n < N_DRAWS; n++) {
        struct nees_summary s;
        draw_trajectory(&d, std);
        for (int i = 0; i < N_FRAMES; i++)
            for (int k = 0; k < 36; k++) {
                d.errors[i].own[k] *= claimed;
                d.errors[i].walk[k] *= claimed;
                d.errors[i].drift[k] *= claimed;
            }
        const struct trajectory truth = {.poses = d.truth, .n_poses = N_FRAMES};
        const struct trajectory estimate = {d.poses, N_FRAMES, d.errors, NULL};
        assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, window, 0, &s), 0);
        assert_int_equal(s.n_pairs, N_FRAMES - window);
        assert_int_equal(s.n_excluded, 0);
        *out_mean += s.mean / N_DRAWS;
        *out_share += s.share_95 / N_DRAWS;
    }
    print_message("window %zu, claims x %.1f: mean %.3f, within %.3f\n", window, claimed, *out_mean,
                  *out_share);
}

static void right_claims_have_a_mean_of_one(void **state)
{
    (void)state;
    const size_t windows[] = {1, 10, 30};
    double mean, share;
    for (int i = 0; i < 3; i++) {
        measure(windows[i], 1, 0, 0, &mean, &share);
        assert_true(fabs(mean - 1) < 0.08 && fabs(share - 0.95) < 0.02);
        measure(windows[i], 4, 0, 0, &mean, &share);
        assert_true(fabs(mean - 0.25) < 0.03);
    }
    measure(10, 1, 4e-3, 2e-3, &mean, &share);
    assert_true(fabs(mean - 1) < 0.08 && fabs(share - 0.95) < 0.02);
}

static void what_has_no_pose_is_left_out(void **state)
{
    (void)state;
    static struct drawn d;
    const double exact[6] = {0};
    const struct nees_reference reference = {0};
    struct nees_summary s;
    draw_trajectory(&d, exact);
    d.errors[5].own[0] = 1e6;
    struct trajectory truth = {.poses = d.truth, .n_poses = N_FRAMES};
    struct trajectory estimate = {d.poses, N_FRAMES, d.errors, NULL};
    assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, 10, 0, &s), 0);
    assert_int_equal(s.n_pairs, N_FRAMES - 11);
    assert_int_equal(s.n_excluded, 1);
    // Flow begins anew with an epoch: no pair from before it to behind.
    draw_trajectory(&d, exact);
    d.errors[5].own[0] = 1e6;
    for (int i = 25; i < N_FRAMES; i++)
        d.errors[i].flow_rad = STEP_RAD * (i - 25);
    assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, 10, 0, &s), 0);
    assert_int_equal(s.n_pairs, N_FRAMES - 11 - 10);
    assert_int_equal(s.n_excluded, 1 + 10);
    draw_trajectory(&d, exact);
    d.errors[5].own[0] = 1e6;
    truth.n_poses = 20;
    assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, 10, 0, &s), 0);
    assert_int_equal(s.n_pairs, 9);
    memset(d.errors, 0, sizeof d.errors);
    for (int i = 0; i < N_FRAMES; i++)
        d.errors[i].flow_rad = STEP_RAD * i;
    assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, 1, 0, &s), 0);
    assert_int_equal(s.n_pairs, 0);
    assert_int_equal(s.n_excluded, N_FRAMES - 1); // that claim nothing
    assert_true(s.mean == 0 && s.median == 0);
    estimate.errors = NULL;
    assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, 1, 0, &s), -EINVAL);
}

// The repeated frame has the errors of the one before: a motion between the two is not claimed, and
// those to others are as they were.
static void a_pair_of_one_image_is_left_out(void **state)
{
    (void)state;
    static struct drawn d;
    const double exact[6] = {0};
    const struct nees_reference reference = {.sigma_m = 1e-3, .sigma_rad = 1e-3};
    const struct trajectory truth = {.poses = d.truth, .n_poses = N_FRAMES};
    const struct trajectory estimate = {d.poses, N_FRAMES, d.errors, NULL};
    struct nees_summary s;
    double q[36];
    draw_trajectory(&d, exact);
    d.poses[8].T_world_camera = d.poses[7].T_world_camera;
    d.errors[8] = d.errors[7];
    pose_error_between(&d.poses[7].T_world_camera, &d.errors[7], &d.poses[8].T_world_camera,
                       &d.errors[8], q);
    for (int i = 0; i < 36; i++)
        assert_true(q[i] == 0);
    assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, 1, 0, &s), 0);
    assert_int_equal(s.n_pairs, N_FRAMES - 2);
    assert_int_equal(s.n_repeated, 1);
    assert_int_equal(s.n_excluded, 0);
    assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, 10, 0, &s), 0);
    assert_int_equal(s.n_pairs, N_FRAMES - 10);
    assert_int_equal(s.n_repeated, 0);
    // Lost frames repeat a pose, too: nothing is known of the motion between them.
    d.errors[7].own[0] = d.errors[8].own[0] = POSE_ERROR_LOST;
    assert_false(pose_error_is_repeated(&d.poses[7].T_world_camera, &d.errors[7],
                                        &d.poses[8].T_world_camera, &d.errors[8]));
    assert_int_equal(nees_evaluate(&truth, &estimate, PERIOD, &reference, 1, 0, &s), 0);
    assert_int_equal(s.n_repeated, 0);
    assert_int_equal(s.n_excluded, 3);
}

// Stamps that are off by dt put the truth off by speed times dt.
static void stamps_of_the_reference_may_be_off(void **state)
{
    (void)state;
    struct stamped_pose truth[60], poses[2];
    struct pose_error errors[2];
    memset(errors, 0, sizeof errors);
    for (int i = 0; i < 60; i++) {
        truth[i] = (struct stamped_pose){(int64_t)i * PERIOD, se3_identity()};
        truth[i].T_world_camera.t_m[1] = 0.6 * i / 30; // 0.6 m/s
    }
    for (int i = 0; i < 2; i++) {
        poses[i] = truth[10 + 10 * i];
        for (int k = 0; k < 6; k++)
            errors[i].own[7 * k] = 1e-6;
    }
    poses[1].T_world_camera.t_m[1] += 0.003; // 5 ms
    const struct trajectory t = {.poses = truth, .n_poses = 60}, e = {poses, 2, errors, NULL};
    struct nees_reference reference = {0};
    struct nees_summary s;
    assert_int_equal(nees_evaluate(&t, &e, 2 * PERIOD, &reference, 1, 0, &s), 0);
    assert_true(fabs(s.mean - 9e-6 / 2e-6 / 6) < 1e-3);
    reference.time_s = 0.005;
    assert_int_equal(nees_evaluate(&t, &e, 2 * PERIOD, &reference, 1, 0, &s), 0);
    assert_true(fabs(s.mean - 9e-6 / (2e-6 + 2 * 9e-6) / 6) < 1e-3);
}

// The truth's clock is 23 ms ahead.
static void the_clock_offset_is_found(void **state)
{
    (void)state;
    static struct drawn d;
    const double exact[6] = {0};
    const struct nees_reference reference = {0};
    int64_t offset_ns;
    struct stamped_pose *dense = calloc(40 * N_FRAMES, sizeof *dense);
    assert_non_null(dense);
    draw_trajectory(&d, exact);
    for (int i = 0; i < 40 * N_FRAMES; i++) {
        const double twist[6] = {0.3 * sin(0.2 * (i / 20.0 - 10)),
                                 0.02 * (i / 20.0 - 10),
                                 0.4,
                                 0.2,
                                 STEP_RAD * (i / 20.0 - 10),
                                 0.1};
        dense[i] = (struct stamped_pose){(int64_t)((i - 200) * (PERIOD / 20.0)) + 23000000,
                                         se3_exp(twist)};
    }
    const struct trajectory truth = {.poses = dense, .n_poses = 40 * N_FRAMES};
    const struct trajectory estimate = {d.poses, N_FRAMES, d.errors, NULL};
    assert_int_equal(
        nees_time_offset(&truth, &estimate, PERIOD, &reference, 10, 100000000, &offset_ns), 0);
    assert_true(llabs((long long)offset_ns - 23000000) < 3000000);
    free(dense);
}

static void normalised_by_a_plain_inverse(void **state)
{
    (void)state;
    // [4 2; 2 3] has the inverse [3 -2; -2 4] / 8.
    double q[36] = {0}, e[6] = {1, 2, 0, 0, 3, 0};
    for (int i = 0; i < 6; i++)
        q[7 * i] = 2;
    q[0] = 4, q[1] = q[6] = 2, q[7] = 3;
    assert_true(fabs(pose_error_normalised2(e, q) - (3 - 8 + 16) / 8.0 - 4.5) < 1e-12);
    q[7] = 1;
    assert_true(pose_error_normalised2(e, q) < 0);
}

static void the_file_keeps_what_it_is_given(void **state)
{
    (void)state;
    static struct drawn d;
    const double exact[6] = {0};
    const struct log_sink silent = {0};
    struct trajectory back;
    FILE *file = tmpfile();
    assert_non_null(file);
    draw_trajectory(&d, exact);
    for (int i = 0; i < N_FRAMES; i++)
        assert_int_equal(
            trajectory_write(file, TRAJECTORY_FORMAT_COVARIANCE, &d.poses[i], &d.errors[i]), 0);
    rewind(file);
    assert_int_equal(trajectory_parse_tum(file, "it", &silent, &back), 0);
    assert_int_equal(back.n_poses, N_FRAMES);
    assert_non_null(back.errors);
    for (int i = 0; i < N_FRAMES; i++) {
        const double *a[3] = {d.errors[i].own, d.errors[i].walk, d.errors[i].drift};
        const double *b[3] = {back.errors[i].own, back.errors[i].walk, back.errors[i].drift};
        assert_int_equal(back.poses[i].time_ns, d.poses[i].time_ns);
        assert_true(fabs(back.errors[i].flow_rad - d.errors[i].flow_rad) < 1e-8);
        for (int part = 0; part < 3; part++)
            for (int k = 0; k < 36; k++)
                assert_true(fabs(a[part][k] - b[part][k]) <= 1e-11 * fabs(a[part][k]));
    }
    trajectory_free(&back);
    // A line without them among others; a number too few.
    fprintf(file, "9 0 0 0 0 0 0 1\n");
    rewind(file);
    assert_int_equal(trajectory_parse_tum(file, "it", &silent, &back), -EINVAL);
    fclose(file);
    file = tmpfile();
    fprintf(file, "9 0 0 0 0 0 0 1");
    for (int i = 0; i < POSE_ERROR_COLUMNS - 1; i++)
        fprintf(file, " 1");
    fprintf(file, "\n");
    rewind(file);
    assert_int_equal(trajectory_parse_tum(file, "it", &silent, &back), -EINVAL);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_claims_have_a_mean_of_one),
        cmocka_unit_test(what_has_no_pose_is_left_out),
        cmocka_unit_test(a_pair_of_one_image_is_left_out),
        cmocka_unit_test(stamps_of_the_reference_may_be_off),
        cmocka_unit_test(the_clock_offset_is_found),
        cmocka_unit_test(normalised_by_a_plain_inverse),
        cmocka_unit_test(the_file_keeps_what_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
