// SPDX-License-Identifier: Apache-2.0
// Each bound of each setting: what lies on it is taken, the next number beyond is refused, and the
// log names the setting and its range.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/base/range.h"
#include "gpu/model/model.h"
#include "gpu/model/pose_graph.h"
#include "gpu/track/settings.h"

static char said[512];

static void keep_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    snprintf(said, sizeof said, "%s", line);
}

static const struct log_sink sink = {keep_line, NULL};

static struct gpu_settings gpu;
static struct track_settings track;
static struct model_settings model;
static struct graph_settings graph;

enum room { GPU, TRACK, MODEL, GRAPH };
enum kind { DOUBLE, FLOAT, UINT, UINT64 };

static int check(enum room room)
{
    said[0] = 0;
    gpu.log = sink;
    return room == GPU     ? gpu_settings_check(&gpu)
           : room == TRACK ? track_settings_check(&track, &sink)
           : room == MODEL ? model_settings_check(&model, &sink)
                           : graph_settings_check(&graph, &sink);
}

// The bounds again, by hand: a range that changes is seen here.
static const struct row {
    const char *name;
    enum room room;
    enum kind kind;
    void *field;
    double low, high;
} rows[] = {
    {"|camera.fx| [px]", GPU, DOUBLE, &gpu.camera.fx_px, 1, 1e5},
    {"|camera.fy| [px]", GPU, DOUBLE, &gpu.camera.fy_px, 1, 1e5},
    {"camera.depth_scale [units/m]", GPU, DOUBLE, &gpu.units_per_m, 1, 1e6},
    {"gpu.depth_min_m", GPU, FLOAT, &gpu.depth_min_m, 0.05, 19.9},
    {"gpu.depth_max_m", GPU, FLOAT, &gpu.depth_max_m, 0.1, 20},
    {"gpu.bilateral_radius_px", GPU, UINT, &gpu.bilateral_radius_px, 0, 6},
    {"gpu.bilateral_sigma_px", GPU, FLOAT, &gpu.bilateral_sigma_px, 0.1, 100},
    {"gpu.bilateral_cut_sigmas", GPU, FLOAT, &gpu.bilateral_cut_sigmas, 0.1, 20},
    {"gpu.threads", GPU, UINT, &gpu.n_threads, 0, 1024},
    {"gpus on one device", GPU, UINT, &gpu.n_sharing, 1, 64},
    {"tracker.iterations, finest level", TRACK, UINT, &track.align.iterations[0], 0, 100},
    {"tracker.iterations, middle level", TRACK, UINT, &track.align.iterations[1], 0, 100},
    {"tracker.iterations, coarsest level", TRACK, UINT, &track.align.iterations[2], 0, 100},
    {"tracker.gate_distance_m", TRACK, FLOAT, &track.align.gate_distance_m, 1e-4, 10},
    {"tracker.gate_angle_rad", TRACK, FLOAT, &track.align.gate_angle_rad, 1e-3, 1.5707964},
    {"tracker.min_valid_share", TRACK, DOUBLE, &track.min_valid_share, 0, 1},
    {"tracker.min_pair_ratio", TRACK, DOUBLE, &track.min_pair_ratio, 0, 1},
    {"tracker.max_step_m", TRACK, DOUBLE, &track.max_step_m, 1e-9, 10},
    {"tracker.max_residual_sigmas", TRACK, DOUBLE, &track.max_residual_sigmas, 0.1, 1e6},
    {"tracker.max_speed_m_s", TRACK, DOUBLE, &track.max_speed_m_s, 1e-3, 1e6},
    {"tracker.max_turn_rad_s", TRACK, DOUBLE, &track.max_turn_rad_s, 1e-3, 1e6},
    {"tracker.restart_s", TRACK, DOUBLE, &track.restart_s, 0, 1e6},
    {"tracker.min_eigenvalue", TRACK, DOUBLE, &track.min_eigenvalue, 0, 1},
    {"tracker.hold_std_m", TRACK, DOUBLE, &track.hold_std_m, 1e-9, 10},
    {"tracker.gap_s", TRACK, DOUBLE, &track.gap_s, 1e-3, 1e6},
    {"tracker.still_m", TRACK, DOUBLE, &track.still_m, 0, 10},
    {"tracker.keyframe_distance", TRACK, DOUBLE, &track.keyframe_distance, 1e-6, 100},
    {"tracker.keyframe_turn_rad", TRACK, DOUBLE, &track.keyframe_turn_rad, 1e-6, 3.1415927},
    {"tracker.keyframe_overlap", TRACK, DOUBLE, &track.keyframe_overlap, 0, 1},
    {"map.voxel_m", MODEL, FLOAT, &model.voxel_m, 0.002, 0.1},
    {"map.memory_bytes", MODEL, UINT64, &model.memory_bytes, 1048576, 68719476736.0},
    {"map.far_bytes", MODEL, UINT64, &model.far_bytes, 0, 68719476736.0},
    {"map.keyframes", GRAPH, UINT, &graph.max_keyframes, 4, 1024},
    {"links of a keyframe", GRAPH, UINT, &graph.max_links, 1, 16},
};

static void set_defaults(void)
{
    gpu_settings_default(&gpu);
    track_settings_default(&track);
    model_settings_default(&model);
    graph_settings_default(&graph);
    gpu.depth_min_m = 0.05f; // so that depth_max_m may be least, and the other way round
    gpu.depth_max_m = 20;
}

// The value, or the next one that the field can hold above (step 1) or below it (-1).
static bool put(const struct row *row, double value, int step)
{
    const double towards = step < 0 ? -INFINITY : INFINITY;
    if (value == 0 && step < 0 && row->kind >= UINT)
        return false;
    switch (row->kind) {
    case DOUBLE:
        *(double *)row->field = step ? nextafter(value, towards) : value;
        return true;
    case FLOAT:
        *(float *)row->field = step ? nextafterf((float)value, (float)towards) : (float)value;
        return true;
    case UINT:
        *(uint32_t *)row->field = (uint32_t)(value + step);
        return true;
    default:
        *(uint64_t *)row->field = (uint64_t)(value + step);
        return true;
    }
}

static void bounds_are_taken_and_no_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int upper = 0; upper < 2; upper++) {
            const struct row *row = &rows[i];
            const double bound = upper ? row->high : row->low;
            set_defaults();
            assert_true(put(row, bound, 0));
            if (check(row->room) != 0)
                fail_msg("%s at %g: %s", row->name, bound, said);
            if (!put(row, bound, upper ? 1 : -1))
                continue;
            if (check(row->room) != -EINVAL || !strstr(said, row->name))
                fail_msg("%s beyond %g is taken: %s", row->name, bound, said);
        }
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_defaults();
        if (rows[i].kind == DOUBLE)
            *(double *)rows[i].field = NAN;
        else if (rows[i].kind == FLOAT)
            *(float *)rows[i].field = NAN;
        else
            continue;
        assert_int_equal(check(rows[i].room), -EINVAL);
    }
}

static void what_depends_on_another(void **state)
{
    (void)state;
    set_defaults();
    memset(track.align.iterations, 0, sizeof track.align.iterations);
    assert_int_equal(check(TRACK), -EINVAL);
    assert_non_null(strstr(said, "tracker.iterations, sum of the levels"));
    track.align.iterations[2] = 1;
    assert_int_equal(check(TRACK), 0);
    gpu.depth_min_m = 2;
    gpu.depth_max_m = 1.99f;
    assert_int_equal(check(GPU), -EINVAL);
    assert_string_equal(said, "gpu.depth_min_m = 2 is not below gpu.depth_max_m = 1.99000001");
    gpu.depth_max_m = 2;
    assert_int_equal(check(GPU), -EINVAL);
    gpu.depth_max_m = 2.01f;
    assert_int_equal(check(GPU), 0);
    gpu.camera.cx_px = -0.1;
    assert_int_equal(check(GPU), -EINVAL);
    gpu.camera.cx_px = 640.1;
    assert_int_equal(check(GPU), -EINVAL);
    gpu.camera.cx_px = 640;
    gpu.camera.cy_px = 480.1;
    assert_int_equal(check(GPU), -EINVAL);
    set_defaults();
    gpu.camera.width_px = 31;
    gpu.camera.cx_px = 15;
    assert_int_equal(check(GPU), -EINVAL);
    gpu.camera.width_px = 32;
    assert_int_equal(check(GPU), 0);
    gpu.camera.width_px = 4096;
    assert_int_equal(check(GPU), 0);
    gpu.camera.width_px = 4097;
    assert_int_equal(check(GPU), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_taken_and_no_more),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(what_depends_on_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
