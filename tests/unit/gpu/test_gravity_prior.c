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
static int n_lines, n_used, n_trusted; // warnings; that it is there; that it is believed

static void keep_line(void *user, enum log_level level, const char *text)
{
    (void)user;
    if (level == LOG_LEVEL_INFO) {
        *(strstr(text, "is watched") ? &n_used : &n_trusted) += 1;
        return;
    }
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
    n_lines = n_trusted = 0;
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
    assert_int_equal(n_trusted, 0);
    assert_true(follow(9.80665, 0, false, true, 0.05) < 0.02);
    assert_int_equal(n_lines, 0);
    assert_int_equal(n_trusted, 1);
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
    assert_int_equal(n_trusted, 0);
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

// A prior in the middle of things: gravity is +y, the view's axis is not held, the camera rests.
static struct gravity_prior in_between(void)
{
    return (struct gravity_prior){.reading = {0, 1, 0},
                                  .has_reading = true,
                                  .down = {0, 1, 0},
                                  .n_down = 300,
                                  .axes = {0, 0, 1},
                                  .n_axes = 1,
                                  .n_compared = 100,
                                  .trusted = true};
}

static void not_held_about_z(struct conditioning *out)
{
    memset(out, 0, sizeof *out);
    out->n_degenerate = 1;
    out->vectors[5] = 1;
}

// One more frame of it, so short after the last that the means stay what they are.
static void follow_once(struct gravity_prior *prior)
{
    const struct se3 rests = se3_identity();
    struct conditioning conditioning;
    not_held_about_z(&conditioning);
    n_lines = 0;
    prior->has_reading = true;
    gravity_prior_follow(prior, &rests, &rests, &conditioning, 1e-9, &sink);
}

// With a pole at 6 rad/s, towards a reading that is at most half a radian's sine away.
static void the_prediction_goes_to_a_reading_that_is_near(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++) {
        struct gravity_prior prior = in_between();
        struct se3 predicted = se3_identity();
        const double sine = far ? 0.5025 : 0.4975;
        double twist[6];
        prior.reading[0] = sine;
        prior.reading[1] = sqrt(1 - sine * sine);
        gravity_prior_hold(&prior, FRAME_S, &predicted);
        se3_log(&predicted, twist);
        assert_true(fabs(twist[5] - (far ? 0 : sine * (1 - exp(-12 * FRAME_S)))) < 1e-9);
        assert_true(fabs(twist[3]) + fabs(twist[4]) < 1e-12);
    }
}

// The mean over three seconds of how far a reading is off in a direction that is held.
static void disagreement_is_a_mean_over_three_seconds(void **state)
{
    (void)state;
    struct gravity_prior prior = in_between();
    const struct se3 rests = se3_identity();
    const double sine = 0.05;
    struct conditioning conditioning;
    not_held_about_z(&conditioning);
    for (int i = 0; i < 60; i++) {
        prior.reading[1] = sqrt(1 - sine * sine);
        prior.reading[2] = sine;
        prior.has_reading = true;
        gravity_prior_follow(&prior, &rests, &rests, &conditioning, FRAME_S, &sink);
    }
    const double expected = sine * sine * (1 - pow(1 - FRAME_S / 3, 60));
    assert_true(fabs(prior.disagree2 - expected) < 1e-12);
    assert_true(prior.turned2 < 1e-12);
}

static bool trusts(double disagree_rad, double turned_rad, bool before)
{
    struct gravity_prior prior = in_between();
    prior.disagree2 = disagree_rad * disagree_rad;
    prior.turned2 = turned_rad * turned_rad;
    prior.trusted = before;
    follow_once(&prior);
    return prior.trusted;
}

// 0.1 rad of disagreement; to begin with half of what the readings turned by, 0.02 rad at least.
static void trust_has_its_limits(void **state)
{
    (void)state;
    assert_true(trusts(0.0995, 0.3, true));
    assert_false(trusts(0.1005, 0.3, true));
    assert_true(trusts(0.0995, 0, true));
    assert_true(trusts(0.0498, 0.1, false));
    assert_false(trusts(0.0502, 0.1, false));
    assert_true(trusts(0.001, 0.0201, false));
    assert_false(trusts(0.001, 0.0199, false));
}

static bool is_told(uint32_t n_compared, double contradicts, double turned_rad)
{
    struct gravity_prior prior = in_between();
    prior.n_compared = n_compared - 1; // and this frame
    prior.all_turned2 = turned_rad * turned_rad * n_compared;
    prior.contradict2 = contradicts * prior.all_turned2;
    follow_once(&prior);
    return n_lines == 1;
}

static void a_turned_axis_is_told_of_in_time(void **state)
{
    (void)state;
    assert_true(is_told(90, 0.7035, 0.1));
    assert_false(is_told(89, 0.7035, 0.1));
    assert_false(is_told(90, 0.6965, 0.1));
    assert_true(is_told(90, 1, 0.0201));
    assert_false(is_told(90, 1, 0.0199));
}

// Within a fifth of 9.80665; half of 30 that are not is told of.
static void what_is_no_gravity_is_no_reading(void **state)
{
    (void)state;
    const struct {
        float m_s2;
        bool is;
    } cases[] = {{11.747f, true}, {11.789f, false}, {7.866f, true}, {7.825f, false}};
    for (int i = 0; i < 4; i++) {
        struct gravity_prior prior = {.n_axes = 0};
        gravity_prior_read(&prior, (const float[3]){0, cases[i].m_s2, 0}, &sink);
        assert_int_equal(prior.has_reading, cases[i].is);
    }
    for (uint32_t n_off = 14; n_off <= 15; n_off++) {
        struct gravity_prior prior = {.n_read = 29, .n_off = n_off - 1};
        n_lines = 0;
        gravity_prior_read(&prior, (const float[3]){0, 1, 0}, &sink);
        assert_int_equal(n_lines, n_off == 15);
    }
    struct gravity_prior early = {.n_read = 28, .n_off = 28};
    n_lines = 0;
    gravity_prior_read(&early, (const float[3]){0, 1, 0}, &sink);
    assert_int_equal(n_lines, 0);
}

// Of ten that are gravity, once, also where odom begins anew.
static void that_it_is_used_is_said_once(void **state)
{
    (void)state;
    struct gravity_prior prior = {.n_axes = 0};
    n_lines = n_used = 0;
    for (int i = 0; i < 19; i++) {
        gravity_prior_read(&prior, (const float[3]){0, i % 2 ? 1.0f : 9.8f, 0}, &sink);
        assert_int_equal(n_used, i == 18);
    }
    gravity_prior_reset(&prior);
    for (int i = 0; i < 20; i++)
        gravity_prior_read(&prior, (const float[3]){0, 9.8f, 0}, &sink);
    assert_int_equal(n_used, 1);
    assert_int_equal(n_lines, 0);
}

// A tenth of a direction that is not held has to be rotation.
static void a_direction_of_translation_is_no_axis(void **state)
{
    (void)state;
    const struct se3 rests = se3_identity();
    for (int i = 0; i < 2; i++) {
        struct gravity_prior prior = in_between();
        struct conditioning conditioning;
        not_held_about_z(&conditioning);
        conditioning.vectors[5] = i ? 0.1005 : 0.0995;
        conditioning.vectors[0] = sqrt(1 - conditioning.vectors[5] * conditioning.vectors[5]);
        gravity_prior_follow(&prior, &rests, &rests, &conditioning, FRAME_S, &sink);
        assert_int_equal(prior.n_axes, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gravity_holds_the_roll),
        cmocka_unit_test(a_bent_one_keeps_its_share),
        cmocka_unit_test(wrong_ones_are_left_out),
        cmocka_unit_test(nothing_is_touched_that_is_held),
        cmocka_unit_test(the_prediction_goes_to_a_reading_that_is_near),
        cmocka_unit_test(disagreement_is_a_mean_over_three_seconds),
        cmocka_unit_test(trust_has_its_limits),
        cmocka_unit_test(a_turned_axis_is_told_of_in_time),
        cmocka_unit_test(what_is_no_gravity_is_no_reading),
        cmocka_unit_test(that_it_is_used_is_said_once),
        cmocka_unit_test(a_direction_of_translation_is_no_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
