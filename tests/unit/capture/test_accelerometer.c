// SPDX-License-Identifier: Apache-2.0
// accelerometer.txt, and the synthetic accelerometer against the motion's own poses.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "capture/recording/accelerometer.h"
#include "capture/synth/accelerometer.h"

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

static void assert_gravity(const struct accelerometer *a, int64_t time_ns, double x, double y,
                           double z)
{
    float g[3];
    accelerometer_at(a, time_ns, g);
    assert_true(fabs((double)g[0] - x) < 1e-4 && fabs((double)g[1] - y) < 1e-4 &&
                fabs((double)g[2] - z) < 1e-4);
}

static void frames_get_means(void **state)
{
    (void)state;
    struct accelerometer a;
    float g[3];
    char text[] = "# timestamp ax ay az\r\n"
                  "10.000 1 9 -2\r\n"
                  "10.010 2 9 -2\n"
                  "\n"
                  "10.005 3 9 -5\n"
                  "10.100 0 8 0\n"
                  "11.000 0 7 1";
    n_lines = 0;
    assert_int_equal(accelerometer_parse(text, "f", &sink, &a), 0);
    assert_int_equal(n_lines, 0);
    assert_int_equal(a.n_samples, 5);
    assert_gravity(&a, 10005000000, 2, 9, 3);   // the three around it; z forward is turned
    assert_gravity(&a, 10055000000, 1, 8.5, 1); // half way between two
    accelerometer_at(&a, 10500000000, g);       // too far from both
    assert_true(isnan(g[0]) && isnan(g[1]) && isnan(g[2]));
    accelerometer_at(&a, 9000000000, g);
    assert_true(isnan(g[1]));
    accelerometer_free(&a);
}

// Between two samples by how near each is, where both are 0.1 s away at most.
static void between_two_samples(void **state)
{
    (void)state;
    struct accelerometer a;
    float g[3];
    char text[] = "1.000 0 9 0\n1.200 4 9 0\n1.301 8 9 0\n";
    assert_int_equal(accelerometer_parse(text, "f", &sink, &a), 0);
    assert_gravity(&a, 1100000000, 2, 9, 0); // 0.1 s from both
    accelerometer_at(&a, 1099999999, g);     // a nanosecond more from the one behind
    assert_true(isnan(g[0]));
    accelerometer_at(&a, 1100000001, g); // and from the one before
    assert_true(isnan(g[0]));
    assert_gravity(&a, 1220200000, 4.8, 9, 0); // a fifth of the way
    assert_gravity(&a, 1280800000, 7.2, 9, 0);
    accelerometer_free(&a);
}

static void bad_lines_are_named_and_left_out(void **state)
{
    (void)state;
    struct accelerometer a;
    char text[] = "1.0 0 9.8 0\n1.1 0 9.8\n1.2 0 nan 0\nx 0 9 0\n1.3 0 2000 0\n1.4 0 9x 0\n"
                  "1.01 0 9.8 0\n";
    n_lines = 0;
    assert_int_equal(accelerometer_parse(text, "dir/accelerometer.txt", &sink, &a), 0);
    assert_int_equal(a.n_samples, 2);
    assert_int_equal(n_lines, 1);
    assert_non_null(strstr(last_line, "dir/accelerometer.txt:2: expected"));
    assert_non_null(strstr(last_line, "5 such lines"));
    assert_gravity(&a, 1000000000, 0, 9.8, 0);
    accelerometer_free(&a);
    char none[] = "";
    float g[3];
    assert_int_equal(accelerometer_parse(none, "f", &sink, &a), 0);
    accelerometer_at(&a, 0, g);
    assert_true(isnan(g[0]));
    accelerometer_free(&a);
}

// In the mean over many frames of a still camera what is left of gravity is the bias; a moving one
// feels its motion.
static void synth_feels_gravity_and_motion(void **state)
{
    (void)state;
    struct synth_request request = {.n_frames = 0};
    float g[3];
    assert_int_equal(synth_parse("wall-still,accelerometer=on", &sink, &request), 0);
    const struct se3 T = synth_camera_pose(&request, 0);
    double off2 = 0, most = 0;
    for (uint64_t camera = 0; camera < 200; camera++) {
        double mean[3] = {0};
        request.camera = camera;
        for (uint64_t i = 0; i < 100; i++) {
            synth_gravity(&request, i, g);
            for (int k = 0; k < 3; k++)
                mean[k] += (double)g[k] / 100 - 9.80665 * T.r[3 + k] / 100;
        }
        off2 += mean[0] * mean[0] / 200;
        most = fmax(most, fabs(mean[0]));
    }
    assert_true(sqrt(off2) > 0.08 && sqrt(off2) < 0.16 && most < 0.5);
    request.accelerometer = SYNTH_ACCELEROMETER_NONE;
    synth_gravity(&request, 5, g);
    assert_true(isnan(g[0]));

    assert_int_equal(synth_parse("room-straight,accelerometer=on", &sink, &request), 0);
    float still[3], moved[3]; // it turns round at 5 s, starts at 0: opposite accelerations
    synth_gravity(&request, 1, still);
    synth_gravity(&request, 150, moved);
    double change = 0;
    for (int k = 0; k < 3; k++)
        change += pow((double)(moved[k] - still[k]), 2);
    // 0.7 m (2 pi / 10 s)^2 = 0.276 m/s^2 each way along a way of 0.55, -0.1, 0.83.
    assert_true(fabs(sqrt(change) - 0.55) < 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_get_means),
        cmocka_unit_test(between_two_samples),
        cmocka_unit_test(bad_lines_are_named_and_left_out),
        cmocka_unit_test(synth_feels_gravity_and_motion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
