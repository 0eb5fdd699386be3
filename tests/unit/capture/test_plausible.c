// SPDX-License-Identifier: Apache-2.0
// What the steps of depth say of the depth scale and the focal length: made depth of several kinds
// of cameras, and recordings of real ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/plausible.h"

#define W        640
#define H        480
#define N_FRAMES 5

static char said[1024];
static unsigned n_said;

static void remember(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (level > LOG_LEVEL_WARNING)
        return;
    n_said++;
    snprintf(said, sizeof said, "%s", line);
}

static const struct log_sink sink = {remember, NULL};

enum kind { KINECT, TIME_OF_FLIGHT, RENDERED, REALSENSE };

// A slanted wall from 0.8 to 3.5 m with a box before it.
static void fill(enum kind kind, double units_per_m, unsigned frame, uint16_t *out)
{
    for (int v = 0; v < H; v++)
        for (int u = 0; u < W; u++) {
            double z = 0.8 + 2.7 * (u + 0.37 * v + 3 * frame) / (W + 0.37 * H + 15);
            if (u > 200 && u < 260 && v > 200)
                z = 1.3;
            if (kind == KINECT || kind == REALSENSE) {
                const double steps = kind == KINECT ? 580 * 0.075 * 8 : 385 * 0.05 * 32;
                z = steps / round(steps / z);
            }
            out[W * v + u] = (uint16_t)lround(z * units_per_m);
            if (kind == TIME_OF_FLIGHT)
                out[W * v + u] = (uint16_t)(out[W * v + u] / 10 * 10); // centimetres
        }
}

static double told_float_per_m; // of images of floats

static int look(enum kind kind, double units_per_m, double told_units_per_m, double fx_px)
{
    static uint16_t depth[W * H];
    const struct intrinsics camera = {fx_px, fx_px, 319.5, 239.5, W, H};
    double steps[N_FRAMES];
    for (unsigned i = 0; i < N_FRAMES; i++) {
        fill(kind, units_per_m, i, depth);
        const struct depth_frame frame = {
            .depth = depth, .width_px = W, .height_px = H, .units_per_m = told_units_per_m};
        steps[i] = plausible_steps(&frame);
    }
    n_said = 0;
    said[0] = 0;
    return plausible_scale(steps, N_FRAMES, &camera, told_units_per_m, told_float_per_m, &sink);
}

static void steps_are_those_of_the_camera(void **state)
{
    (void)state;
    static uint16_t depth[W * H];
    struct depth_frame frame = {.depth = depth, .width_px = W, .height_px = H, .units_per_m = 5000};
    fill(KINECT, 5000, 0, depth);
    assert_true(fabs(plausible_steps(&frame) - 1) < 0.01);
    frame.units_per_m = 2500;
    assert_true(fabs(plausible_steps(&frame) - 0.5) < 0.01);
    frame.units_per_m = 1000;
    fill(KINECT, 1000, 0, depth);
    assert_true(fabs(plausible_steps(&frame) - 1) < 0.02);
    fill(RENDERED, 1000, 0, depth);
    assert_true(isnan(plausible_steps(&frame)));
    memset(depth, 0, sizeof depth);
    assert_true(isnan(plausible_steps(&frame)));
}

// Exactly a Kinect's steps, each on four pixels or on three: fewer than four are no level.
static void levels_have_four_pixels(void **state)
{
    (void)state;
    static uint16_t depth[W * H];
    const double steps = 580 * 0.075 * 8;
    struct depth_frame frame = {
        .depth = depth, .width_px = W, .height_px = H, .units_per_m = 20000};
    for (int n = 3; n <= 4; n++) {
        memset(depth, 0, sizeof depth);
        for (int i = 0; i < 200; i++)
            for (int k = 0; k < n; k++)
                depth[4 * i + k] = (uint16_t)lround(20000 * steps / (150 + i));
        const double found = plausible_steps(&frame);
        // 150 to 349 steps of 1/z: 2.3 to 1.0 m; units are rounding of 0.2 %.
        assert_true(n == 3 ? isnan(found) : fabs(found - 1) < 0.003);
    }
}

static void intrinsics_at_their_limits(void **state)
{
    (void)state;
    static const struct {
        struct intrinsics camera;
        int error;
    } cases[] = {
        {{525, 525, 319.5, 239.5, W, H}, 0},
        {{525, -525, 319.5, 239.5, W, H}, 0}, // fy may be negative
        {{-525, 525, 319.5, 239.5, W, H}, -ERANGE},
        {{525, 0, 319.5, 239.5, W, H}, -ERANGE},
        {{INFINITY, 525, 319.5, 239.5, W, H}, -ERANGE},
        {{525, 525, NAN, 239.5, W, H}, -ERANGE},
        // Twice as long one way as the other, and a little more.
        {{600, 300.1, 319.5, 239.5, W, H}, 0},
        {{600, 299.9, 319.5, 239.5, W, H}, -ERANGE},
        {{300.1, 600, 319.5, 239.5, W, H}, 0},
        {{299.9, 600, 319.5, 239.5, W, H}, -ERANGE},
        // 10 degrees: 320 / tan(5 deg) = 3657.6 px, and 150: 240 / tan(75 deg) = 64.3.
        {{2740, 2740, 319.5, 239.5, W, H}, 0},
        {{2745, 2745, 319.5, 239.5, W, H}, -ERANGE}, // 240 / tan(5 deg) = 2743.2
        {{86, 86, 319.5, 239.5, W, H}, 0},           // 320 / tan(75 deg) = 85.7
        {{85, 85, 319.5, 239.5, W, H}, -ERANGE},
        // The middle three fifths.
        {{525, 525, 127.5, 239.5, W, H}, 0},
        {{525, 525, 127.4, 239.5, W, H}, -ERANGE},
        {{525, 525, 511.5, 239.5, W, H}, 0},
        {{525, 525, 511.6, 239.5, W, H}, -ERANGE},
        {{525, 525, 319.5, 383.6, W, H}, -ERANGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (plausible_intrinsics(&cases[i].camera, &sink, LOG_LEVEL_ERROR) != cases[i].error)
            fail_msg("case %zu", i);
}

// Of the valid pixels alone; of fewer than a hundredth none.
static void medians(void **state)
{
    (void)state;
    static uint16_t depth[W * H];
    const struct depth_frame frame = {
        .depth = depth, .width_px = W, .height_px = H, .units_per_m = 1000};
    memset(depth, 0, sizeof depth);
    for (int i = 0; i < W * H / 3; i++)
        depth[i] = i < W * H / 9 ? 1000 : 2500; // a third of them
    for (int i = W * H / 3; i < W * H / 2; i++)
        depth[i] = 65535;
    assert_true(plausible_median_m(&frame) == 2.5);
    for (int i = 0; i < W * H / 4; i++)
        depth[i] = 1000; // three quarters
    assert_true(plausible_median_m(&frame) == 1);
    memset(depth, 0, sizeof depth);
    for (int i = 0; i < W * H / 100; i++)
        depth[i] = 3000;
    assert_true(plausible_median_m(&frame) == 3);
    depth[0] = 0;
    assert_true(isnan(plausible_median_m(&frame)));
    for (int k = 0; k < 2; k++) {
        assert_int_equal(plausible_depth(k ? PLAUSIBLE_MEDIAN_MAX_M : PLAUSIBLE_MEDIAN_MIN_M, 1000,
                                         0, &sink, LOG_LEVEL_ERROR),
                         0);
        assert_int_equal(
            plausible_depth(k ? PLAUSIBLE_MEDIAN_MAX_M * 1.01 : PLAUSIBLE_MEDIAN_MIN_M * 0.99, 1000,
                            0, &sink, LOG_LEVEL_ERROR),
            -ERANGE);
        assert_non_null(strstr(said, "check the depth scale, camera.depth_scale (TUM 5000"));
    }
}

// Of images of floats camera.depth_scale changes no distance: the setting that does is told, with
// the value that makes it right.
static void floats_have_a_setting_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(plausible_depth(0.0015, 5000, 1000, &sink, LOG_LEVEL_ERROR), -ERANGE);
    assert_non_null(strstr(said,
                           "with 1000 units per metre half of the scene is nearer than 0.0015 "
                           "m"));
    assert_non_null(strstr(said, "camera.float_scale (metres 1, millimetres 1000)"));
    assert_null(strstr(said, "depth_scale"));
    told_float_per_m = 1;
    assert_int_equal(look(KINECT, 5000, 4000, 525), -ERANGE);
    told_float_per_m = 0;
    const char *about = strstr(said, "about ");
    assert_non_null(about);
    assert_true(fabs(strtod(about + strlen("about "), NULL) / 1.25 - 1) < 0.03);
    assert_non_null(strstr(said, "(camera.float_scale)"));
}

static void a_wrong_scale_is_said(void **state)
{
    (void)state;
    static const double wrong[] = {0.2, 0.5, 0.8, 0.91, 1.18, 1.25, 2, 5};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int k = 0; k < 2; k++) {
            const double units_per_m = k ? 5000 : 1000;
            assert_int_equal(look(KINECT, units_per_m, units_per_m * wrong[i], 525), -ERANGE);
            assert_int_equal(n_said, 1);
            assert_non_null(strstr(said, "camera.depth_scale"));
            const char *about = strstr(said, "about ");
            assert_non_null(about);
            assert_true(fabs(strtod(about + strlen("about "), NULL) / units_per_m - 1) < 0.03);
        }
    assert_int_equal(look(KINECT, 1000, 1000, 525), 0);
    assert_int_equal(look(KINECT, 5000, 5000, 594), 0);
    assert_int_equal(n_said, 0);
}

static void a_wrong_focal_length_is_said(void **state)
{
    (void)state;
    for (int way = -1; way <= 1; way += 2) {
        assert_int_equal(look(KINECT, 1000, 1000, 525 * (1 + way * 0.15)), -EDOM);
        assert_non_null(strstr(said, "focal length"));
        assert_int_equal(look(KINECT, 1000, 1000, 585 * (1 + way * 0.15)), -EDOM);
        assert_non_null(strstr(said, "camera.fx"));
    }
    assert_int_equal(look(KINECT, 1000, 1000, 517.3), 0);
    assert_int_equal(look(KINECT, 1000, 1000, 594.3), 0);
}

static void other_cameras_are_left_alone(void **state)
{
    (void)state;
    static const enum kind kinds[] = {TIME_OF_FLIGHT, RENDERED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(look(kinds[i], 1000, 1000, k == 0 ? 525 : k == 1 ? 365 : 610), 0);
    assert_int_equal(look(REALSENSE, 1000, 1000, 385), 0);
    assert_int_equal(n_said, 0);
}

static void frames_must_agree(void **state)
{
    (void)state;
    const struct intrinsics camera = {525, 525, 319.5, 239.5, W, H};
    const double few[5] = {NAN, 2, 2, NAN, NAN}, apart[5] = {2, 2.4, 2, 1.7, 2};
    n_said = 0;
    assert_int_equal(plausible_scale(few, 5, &camera, 1000, 0, &sink), 0);
    assert_int_equal(plausible_scale(apart, 5, &camera, 1000, 0, &sink), 0);
    assert_int_equal(n_said, 0);
}

// Of a whole recording as it opens: the warnings there are.
static unsigned warnings(const char *source, double depth_scale, double fx_px)
{
    struct capture_settings settings = {.source = source,
                                        .allow_implausible = true,
                                        .depth_scale = depth_scale,
                                        .fx_px = fx_px,
                                        .fy_px = fx_px,
                                        .log = sink};
    struct capture *capture;
    n_said = 0;
    assert_int_equal(capture_open(&capture, &settings), 0);
    capture_close(&capture);
    return n_said;
}

static void real_recordings(void **state)
{
    (void)state;
    const char *data = getenv("POSED_DATA");
    static const struct {
        const char *driver, *name;
        double units_per_m;
        bool has_steps;
    } recordings[] = {{"tum", "fr1_xyz", 5000, true},
                      {"tum", "fr1_rpy", 5000, true},
                      {"sevenscenes", "redkitchen", 1000, true},
                      {"tum", "icl_lr_kt2", 5000, false}};
    static const double wrong[] = {0.5, 0.8, 0.9, 1.2, 2, 5};
    if (!data) {
        print_message("SKIP: no recordings in POSED_DATA\n");
        return;
    }
    for (size_t i = 0; i < sizeof recordings / sizeof *recordings; i++) {
        char source[512];
        const double units_per_m = recordings[i].units_per_m;
        snprintf(source, sizeof source, "%s:%s/%s", recordings[i].driver, data, recordings[i].name);
        assert_int_equal(warnings(source, 0, 0), 0);
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong && recordings[i].has_steps; k++) {
            assert_true(warnings(source, units_per_m * wrong[k], 0) > 0);
            assert_non_null(strstr(said, "steps"));
        }
        if (recordings[i].has_steps)
            assert_int_equal(warnings(source, 0, 0.85 * 525), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_the_camera),
        cmocka_unit_test(levels_have_four_pixels),
        cmocka_unit_test(intrinsics_at_their_limits),
        cmocka_unit_test(medians),
        cmocka_unit_test(a_wrong_scale_is_said),
        cmocka_unit_test(floats_have_a_setting_of_their_own),
        cmocka_unit_test(a_wrong_focal_length_is_said),
        cmocka_unit_test(other_cameras_are_left_alone),
        cmocka_unit_test(frames_must_agree),
        cmocka_unit_test(real_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
