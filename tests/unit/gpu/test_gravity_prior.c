// SPDX-License-Identifier: Apache-2.0
// A camera before a wall that turns about its view while nothing but gravity says so: the exact
// orientation against what the predictions and gravity_prior_hold make of it, as the tracker uses
// them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/track/gravity_prior.h"
#include "proto/se3.h"

#define FRAME_S  (1.0 / 30)
#define N_FRAMES 300
#define TURN_RAD 0.2

static char last_line[256];
static int n_lines;

static void keep_line(void *user, enum log_level level, const char *text)
{
    (void)user;
    (void)level;
    n_lines++;
    snprintf(last_line, sizeof last_line, "%s", text);
}

static const struct log_sink sink = {keep_line, NULL};

// Of the camera: pitch and yaw that the wall holds, and the roll that it does not.
static struct se3 exact_pose(double t_s, double roll_rad)
{
    const double pitch[6] = {0, 0, 0, -0.2 + 0.15 * sin(t_s), 0, 0};
    const double roll[6] = {0, 0, 0, 0, 0, roll_rad};
    const struct se3 a = se3_exp(pitch), b = se3_exp(roll);
    return se3_compose(&a, &b);
}

static void read_gravity(const struct se3 *T, double scale, double bias, bool turned, float out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = (float)(scale * T->r[3 + i]); // the world's y is down
    out[0] += (float)bias;
    if (turned) {
        out[0] = -out[0];
        out[2] = -out[2];
    }
}

// Follows the camera; what is not held goes on as it last did, from a start that turns by
// first_rad_s. Returns the RMS error of the roll after the first three seconds.
static double follow(double scale, double bias, bool turned, bool felt, double first_rad_s)
{
    struct gravity_prior prior = {.n_axes = 0};
    struct conditioning conditioning = {.n_degenerate = 1};
    double speed_rad_s = first_rad_s, known_roll = 0, sum2 = 0;
    int n = 0;
    n_lines = 0;
    for (int i = 0; i < N_FRAMES; i++) {
        const double t_s = i * FRAME_S, roll = TURN_RAD * sin(1.3 * t_s);
        const struct se3 truth = exact_pose(t_s, roll);
        float gravity[3];
        read_gravity(&truth, scale, bias, turned, gravity);
        if (felt)
            gravity_prior_read(&prior, gravity, &sink);
        struct se3 predicted = exact_pose(t_s, known_roll + speed_rad_s * FRAME_S);
        gravity_prior_hold(&prior, FRAME_S, &predicted);
        // The scene holds the rest, whatever was predicted: only the roll stays.
        const double next = atan2(-predicted.r[1], predicted.r[0]);
        const struct se3 pose = exact_pose(t_s, next);
        speed_rad_s = (next - known_roll) / FRAME_S;
        known_roll = next;
        memset(conditioning.vectors, 0, sizeof conditioning.vectors);
        conditioning.vectors[5] = 1; // about the view's axis, in the reference's camera
        gravity_prior_follow(&prior, &pose, &pose, &conditioning, FRAME_S, &sink);
        if (t_s > 3) {
            sum2 += (known_roll - roll) * (known_roll - roll);
            n++;
        }
    }
    return sqrt(sum2 / n);
}

static void gravity_holds_the_roll(void **state)
{
    (void)state;
    assert_true(follow(9.80665, 0, false, false, 0.05) > 0.2); // without it the roll runs away
    assert_true(follow(9.80665, 0, false, true, 0.05) < 0.02);
    assert_int_equal(n_lines, 0);
    assert_true(follow(9.6, 0.15, false, true, 0.05) < 0.02); // off by a Kinect's bias
}

static void a_bent_one_keeps_its_share(void **state)
{
    (void)state;
    assert_true(follow(9.80665, 0.86, false, true, 0) < 0.03); // 5 degrees, the same all along
}

static void wrong_ones_are_left_out(void **state)
{
    (void)state;
    const double without = follow(9.80665, 0, false, false, 0);
    assert_true(fabs(follow(0, 0, false, true, 0) - without) < 1e-12);
    assert_int_equal(n_lines, 1);
    assert_non_null(strstr(last_line, "not gravity"));
    assert_true(fabs(follow(9.80665, 0, true, true, 0) - without) < 1e-12);
    assert_int_equal(n_lines, 1);
    assert_non_null(strstr(last_line, "does not turn as the camera does"));
}

static void nothing_is_touched_that_is_held(void **state)
{
    (void)state;
    struct gravity_prior prior = {.n_axes = 0};
    const struct conditioning held = {.n_degenerate = 0};
    const double turn[6] = {0.1, 0, 0, 0.2, 0.1, 0};
    const float gravity[3] = {1, 9.7f, 0.5f};
    const struct se3 pose = se3_exp(turn);
    for (int i = 0; i < 20; i++) {
        struct se3 predicted = pose;
        gravity_prior_read(&prior, gravity, &sink);
        gravity_prior_hold(&prior, FRAME_S, &predicted);
        assert_memory_equal(&predicted, &pose, sizeof pose);
        gravity_prior_follow(&prior, &pose, &pose, &held, FRAME_S, &sink);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gravity_holds_the_roll),
        cmocka_unit_test(a_bent_one_keeps_its_share),
        cmocka_unit_test(wrong_ones_are_left_out),
        cmocka_unit_test(nothing_is_touched_that_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
