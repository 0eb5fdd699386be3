// SPDX-License-Identifier: Apache-2.0
// The unkind sensor: each of its errors has the size and the kinship that recordings of real
// cameras show, and is the same bits on every machine.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/synth/scene.h"
#include "capture/synth/sensor_error.h"
#include "capture/synth/synth.h"
#include "proto/se3.h"

#define WIDTH  640
#define HEIGHT 480
#define N_PX   (WIDTH * HEIGHT)

static float exact_m[N_PX], first_m[N_PX], second_m[N_PX];
static uint16_t depth[N_PX], again[N_PX];

static void assert_in(double value, double low, double high, const char *what)
{
    print_message("%s: %.4g (%.4g .. %.4g)\n", what, value, low, high);
    if (!(value >= low && value <= high))
        fail_msg("%s: %.6g, expected %.4g .. %.4g", what, value, low, high);
}

static double correlation(const float *a, const float *b)
{
    double sa = 0, sb = 0, saa = 0, sbb = 0, sab = 0;
    for (int i = 0; i < N_PX; i++) {
        double x = (double)a[i], y = (double)b[i];
        sa += x, sb += y, saa += x * x, sbb += y * y, sab += x * y;
    }
    return (sab - sa * sb / N_PX) / sqrt((saa - sa * sa / N_PX) * (sbb - sb * sb / N_PX));
}

// 4 to 5e-3 /m RMS, 69 to 85 % of it linear, and every camera's another one.
static void test_field(void **state)
{
    (void)state;
    const struct intrinsics camera = scene_default_camera();
    double worst = 0;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct sensor_error *one, *other;
        assert_int_equal(sensor_error_create(&one, &camera, seed), 0);
        assert_int_equal(sensor_error_create(&other, &camera, seed + 1), 0);
        const float *f = sensor_error_field(one);
        double sum2 = 0, su = 0, sv = 0, uu = 0, vv = 0;
        for (int i = 0; i < N_PX; i++) {
            double u = i % WIDTH - 319.5, v = i / WIDTH - 239.5, value = (double)f[i];
            sum2 += value * value;
            su += u * value, sv += v * value, uu += u * u, vv += v * v;
        }
        assert_in(sqrt(sum2 / N_PX), 4e-3, 5e-3, "RMS of the field [1/m]");
        assert_in((su * su / uu + sv * sv / vv) / sum2, 0.65, 0.9, "share of the linear part");
        worst = fmax(worst, fabs(correlation(f, sensor_error_field(other))));
        sensor_error_destroy(&one);
        sensor_error_destroy(&other);
        assert_null(one);
    }
    assert_true(worst < 0.95);
}

// Disparity error of an image against the field's mended exact one.
static void errors_of(struct sensor_error *error, const struct se3 *T, uint64_t frame, double z_m,
                      float *out)
{
    const float *f = sensor_error_field(error);
    for (int i = 0; i < N_PX; i++)
        out[i] = exact_m[i] = (float)z_m;
    sensor_error_apply(error, T, 1, frame, out);
    for (int i = 0; i < N_PX; i++)
        out[i] = out[i] < 100 ? 1 / out[i] - 1 / (float)z_m + f[i] : 0;
}

// What stays beside the field: half of it is new in each frame or less; seen from elsewhere it is
// another one by and by; and it is the same for the same view.
static void test_what_stays(void **state)
{
    (void)state;
    const struct intrinsics camera = scene_default_camera();
    struct sensor_error *error;
    assert_int_equal(sensor_error_create(&error, &camera, 3), 0);
    struct se3 T = motion_pose(0, 0, 0, 0, 0, 0);
    errors_of(error, &T, 0, 1.5, first_m);
    double sum2 = 0;
    for (int i = 0; i < N_PX; i++)
        sum2 += (double)first_m[i] * (double)first_m[i];
    assert_in(sqrt(sum2 / N_PX), 1.2e-3, 3e-3, "RMS beside the field [1/m]");
    errors_of(error, &T, 1, 1.5, second_m);
    assert_in(correlation(first_m, second_m), 0.6, 0.95, "the same view in another frame");
    // 40, 100 and 200 px of flow at 1.5 m, by a camera that moves along its x axis.
    const double flow_px[] = {40, 100, 200}, low[] = {0.2, 0, -0.2}, high[] = {0.9, 0.5, 0.2};
    for (int k = 0; k < 3; k++) {
        T.t_m[0] = flow_px[k] * 1.5 / 525;
        errors_of(error, &T, 2, 1.5, second_m);
        float *a = exact_m, *b = second_m; // of the same places
        for (int i = 0; i < N_PX; i++) {
            int u = i % WIDTH - (int)flow_px[k];
            a[i] = u >= 0 ? first_m[i] : 0;
        }
        for (int i = N_PX - 1; i >= 0; i--) {
            int u = i % WIDTH - (int)flow_px[k];
            b[i] = u >= 0 ? second_m[i - (int)flow_px[k]] : 0;
        }
        assert_in(correlation(a, b), low[k], high[k], "the same surface from elsewhere");
    }
    sensor_error_destroy(&error);
}

// Each camera's is another one, within the spread of real ones; the same camera's is the same.
static void test_lens(void **state)
{
    (void)state;
    const struct intrinsics said = scene_default_camera();
    double sum2 = 0, sum2_px = 0;
    const int n = 400;
    for (int seed = 0; seed < n; seed++) {
        const struct intrinsics lens = sensor_error_lens(&said, (uint64_t)seed);
        const struct intrinsics same = sensor_error_lens(&said, (uint64_t)seed);
        assert_memory_equal(&lens, &same, sizeof lens);
        const double share = lens.fx_px / said.fx_px - 1;
        assert_true(fabs(share) <= 0.026 && fabs(lens.cx_px - said.cx_px) <= 14);
        assert_true(fabs(lens.cy_px - said.cy_px) <= 14);
        assert_true(fabs(lens.fy_px / said.fy_px - 1 - share) < 1e-12);
        sum2 += share * share;
        sum2_px += (lens.cx_px - said.cx_px) * (lens.cy_px - said.cy_px);
    }
    assert_in(sqrt(sum2 / n), 0.014, 0.016, "focal length, RMS");
    assert_in(sum2_px / n, -10, 10, "columns and rows are drawn apart [px^2]");
}

// Things are seen where the lens puts them, and without the option where the intrinsics say.
static void test_own_lens(void **state)
{
    (void)state;
    const struct intrinsics said = scene_default_camera();
    const struct log_sink quiet = {NULL, NULL};
    const char *places[] = {"room,noise=off,camera=4", "room,noise=off,camera=4,lens=said",
                            "room,noise=off,camera=4,lens=own"};
    static uint16_t images[3][N_PX];
    for (int i = 0; i < 3; i++) {
        struct synth_request request = {0};
        struct scene *scene;
        assert_int_equal(synth_parse(places[i], &quiet, &request), 0);
        assert_int_equal(scene_create(&scene, "room", &said), 0);
        assert_int_equal(synth_set_sensor(&request, scene), 0);
        synth_render(&request, scene, 0, images[i]);
        scene_destroy(&scene);
    }
    assert_memory_equal(images[0], images[1], sizeof images[0]);
    // What the lens sees in a pixel, the camera as it is said to be sees elsewhere.
    const struct intrinsics lens = sensor_error_lens(&said, 4);
    int n = 0, n_same = 0;
    for (int v = 60; v < HEIGHT - 60; v += 7)
        for (int u = 60; u < WIDTH - 60; u += 7) {
            double x = (u - lens.cx_px) / lens.fx_px, y = (v - lens.cy_px) / lens.fy_px;
            int u0 = (int)lrint(x * said.fx_px + said.cx_px);
            int v0 = (int)lrint(y * said.fy_px + said.cy_px);
            int d = images[2][v * WIDTH + u], d0 = images[0][v0 * WIDTH + u0];
            n++;
            n_same += abs(d - d0) < 50; // 10 mm, at 1 to 5 m
        }
    assert_in((double)n_same / n, 0.95, 1, "pixels that are where the lens puts them");
}

static double share_valid(const uint16_t *image, double *out_whole)
{
    long n = 0, whole = 0;
    for (int v = 1; v + 1 < HEIGHT; v++)
        for (int u = 1; u + 1 < WIDTH; u++) {
            const uint16_t *d = image + v * WIDTH + u;
            n += *d > 0;
            whole += *d && d[-1] && d[1] && d[-WIDTH] && d[WIDTH];
        }
    *out_whole = (double)whole / N_PX;
    return (double)n / N_PX;
}

// Edges are missing, a sparse sensor is sparse, poses are exact and the bits those of every
// machine.
static void test_images(void **state)
{
    (void)state;
    const struct intrinsics camera = scene_default_camera();
    struct scene *scene;
    assert_int_equal(scene_create(&scene, "room", &camera), 0);
    struct se3 T = synth_pose(synth_find("room"), 37);
    double kind_whole, whole;
    scene_render_noisy(scene, &T, 1, 37, depth);
    double kind = share_valid(depth, &kind_whole);
    assert_int_equal(scene_set_sensor(scene, SCENE_SENSOR_UNKIND, 5), 0);
    scene_render_noisy(scene, &T, 1, 37, depth);
    scene_render_noisy(scene, &T, 1, 37, again);
    assert_memory_equal(depth, again, sizeof depth);
    assert_in(share_valid(depth, &whole) / kind, 0.8, 0.98, "pixels left by the kind sensor's");
    assert_int_equal(scene_set_sensor(scene, SCENE_SENSOR_UNKIND, 6), 0);
    scene_render_noisy(scene, &T, 1, 37, again);
    assert_memory_not_equal(depth, again, sizeof depth);
    assert_int_equal(scene_set_sensor(scene, SCENE_SENSOR_SPARSE, 5), 0);
    scene_render_noisy(scene, &T, 1, 37, depth);
    double sparse = share_valid(depth, &whole);
    assert_in(sparse, 0.25, 0.38, "valid pixels of the sparse sensor");
    assert_in(whole, 0.005, 0.05, "with four neighbours");
    assert_int_equal(scene_set_sensor(scene, SCENE_SENSOR_KIND, 0), 0);
    scene_render_noisy(scene, &T, 1, 37, depth);
    assert_true(share_valid(depth, &whole) == kind && whole == kind_whole);
    scene_destroy(&scene);
}

static void test_locations_and_stamps(void **state)
{
    (void)state;
    struct synth_request request = {.seed = 5};
    const struct log_sink silent = {0};
    assert_int_equal(synth_parse("room,sensor=unkind", &silent, &request), 0);
    assert_int_equal(request.sensor, SCENE_SENSOR_UNKIND);
    assert_int_equal(request.camera, 5);
    assert_int_equal(synth_parse("room,camera=9,sensor=field,seed=2", &silent, &request), 0);
    assert_int_equal(request.camera, 9);
    assert_int_equal(synth_parse("room,sensor=bad", &silent, &request), -EINVAL);
    assert_int_equal(synth_parse("room,sensor=unkind,seed=3", &silent, &request), 0);
    int64_t last_ns = -1;
    double most_ms = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        int64_t ns = synth_stamp_ns(&request, i);
        assert_true(ns > last_ns);
        last_ns = ns;
        most_ms = fmax(most_ms, fabs((double)(ns - synth_time_ns(request.recording, i))) * 1e-6);
    }
    assert_in(most_ms, 4, 12.001, "largest jitter [ms]");
    assert_int_equal(synth_parse("room", &silent, &request), 0);
    assert_int_equal(synth_stamp_ns(&request, 77), synth_time_ns(request.recording, 77));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_field),  cmocka_unit_test(test_what_stays),
        cmocka_unit_test(test_lens),   cmocka_unit_test(test_own_lens),
        cmocka_unit_test(test_images), cmocka_unit_test(test_locations_and_stamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
