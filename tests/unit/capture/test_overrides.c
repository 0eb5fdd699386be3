// SPDX-License-Identifier: Apache-2.0
// Settings that contradict what a source says of its own camera are told, with both values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "capture/overrides.h"

static char said[1024];
static unsigned n_said;

static void say(void *user, enum log_level level, const char *text)
{
    (void)user;
    assert_int_equal(level, LOG_LEVEL_WARNING);
    snprintf(said, sizeof said, "%s", text);
    n_said++;
}

static const struct log_sink sink = {say, NULL};
static const struct capture_info calibrated = {
    .camera = {525, -525, 319.5, 239.5, 640, 480},
    .units_per_m = 5000,
    .told = {.camera_by = "calibration.txt", .units_by = "calibration.txt"},
};

// What is said of the settings, lines.
static unsigned told(const struct capture_info *source, const struct capture_settings *settings)
{
    struct capture_info info = *source;
    n_said = 0;
    said[0] = 0;
    overrides_apply(&info, settings);
    overrides_tell(&info, settings, &sink);
    return n_said;
}

static void settings_take_the_place(void **state)
{
    (void)state;
    struct capture_info info = calibrated;
    const struct capture_settings settings = {.fx_px = 600, .cy_px = 200, .depth_scale = 1000};
    overrides_apply(&info, &settings);
    assert_true(info.camera.fx_px == 600 && info.camera.fy_px == -525);
    assert_true(info.camera.cx_px == 319.5 && info.camera.cy_px == 200);
    assert_true(info.units_per_m == 1000);
    assert_true(info.told.camera.fx_px == 525 && info.told.units_per_m == 5000);
}

static void a_scale_that_contradicts_is_told(void **state)
{
    (void)state;
    static const struct {
        double set;
        bool is_told;
    } scales[] = {{5500, true},  {4500, true},  {5251, true}, {4761, true},  {5249, false},
                  {4763, false}, {5208, false}, {1000, true}, {5000, false}, {0, false}};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        const struct capture_settings settings = {.depth_scale = scales[i].set};
        assert_int_equal(told(&calibrated, &settings), scales[i].is_told);
    }
    assert_int_equal(told(&calibrated, &(struct capture_settings){.depth_scale = 5500}), 1);
    assert_non_null(strstr(said, "camera.depth_scale = 5500 units per metre: contradicts "
                                 "calibration.txt, which has 5000, and counts: distances are 0.91 "
                                 "times those"));
}

// Some write other units into a format: that of millimetres is no error, 10 % are.
static void a_formats_scale_may_be_another_unit(void **state)
{
    (void)state;
    struct capture_info info = calibrated;
    info.told.units_are_usual = true;
    snprintf(info.told.units_by, sizeof info.told.units_by, "the format");
    assert_int_equal(told(&info, &(struct capture_settings){.depth_scale = 1000}), 0);
    assert_int_equal(told(&info, &(struct capture_settings){.depth_scale = 10001}), 0);
    assert_int_equal(told(&info, &(struct capture_settings){.depth_scale = 9999}), 1);
    assert_int_equal(told(&info, &(struct capture_settings){.depth_scale = 4500}), 1);
    assert_non_null(strstr(said, "contradicts the format, which has 5000"));
}

static void intrinsics_that_contradict_are_one_line(void **state)
{
    (void)state;
    const struct capture_settings all = {
        .fx_px = 600, .fy_px = 600, .cx_px = 352, .cy_px = 215, .depth_scale = 5000};
    assert_int_equal(told(&calibrated, &all), 1);
    assert_non_null(strstr(said, "camera.fx = 600 (there 525), camera.fy = 600 (there 525), "
                                 "camera.cx = 352 (there 319.5), camera.cy = 215 (there 239.5): "
                                 "contradicts calibration.txt"));
    const struct capture_settings near = {
        .fx_px = 551, .fy_px = 499, .cx_px = 351, .cy_px = 216, .depth_scale = 5000};
    assert_int_equal(told(&calibrated, &near), 0);
    assert_int_equal(told(&calibrated, &(struct capture_settings){.fy_px = 552}), 1);
    assert_null(strstr(said, "camera.fx"));
}

// A default, which nothing in the source says, is there to be replaced.
static void a_default_is_not_contradicted(void **state)
{
    (void)state;
    struct capture_info info = calibrated;
    const struct capture_settings settings = {.fx_px = 600, .depth_scale = 5500};
    memset(&info.told, 0, sizeof info.told);
    assert_int_equal(told(&info, &settings), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_take_the_place),
        cmocka_unit_test(a_scale_that_contradicts_is_told),
        cmocka_unit_test(a_formats_scale_may_be_another_unit),
        cmocka_unit_test(intrinsics_that_contradict_are_one_line),
        cmocka_unit_test(a_default_is_not_contradicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
