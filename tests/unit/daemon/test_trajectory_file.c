// SPDX-License-Identifier: Apache-2.0
// daemon/trajectory_file: at its end the file holds every frame where the keyframes around it, as
// finally adjusted, say; without keyframes, and where it cannot be completed, what came.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "daemon/trajectory_file.h"
#include "proto/se3.h"
#include "tests/unit/scratch.h"

#define N_FRAMES 40
#define ROUNDING 2e-9 // of nine decimals

static struct scratch scratch;

static int make(void **state)
{
    (void)state;
    scratch_create(&scratch);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// A camera that goes forward and turns about its y axis.
static struct se3 tracked(uint64_t seq)
{
    const double twist[6] = {0.01 * (double)seq, 0.002 * (double)seq, 0, 0, 0.01 * (double)seq, 0};
    return se3_exp(twist);
}

// What adjusting does to keyframe `seq`: 1 mm a frame along z, and a small turn.
static struct se3 moved(uint64_t seq)
{
    const double twist[6] = {0, 0, 0.001 * (double)seq, 0, 0, 0.0002 * (double)seq};
    return se3_exp(twist);
}

static struct graph_keyframe keyframe(uint64_t seq)
{
    const struct se3 T = tracked(seq), T_map_odom = moved(seq);
    return (struct graph_keyframe){
        .seq = seq, .T_odom_camera = T, .T_map_camera = se3_compose(&T_map_odom, &T)};
}

static void push(struct trajectory_file *file, uint64_t seq, uint32_t epoch)
{
    const struct se3 none = se3_identity();
    const struct track_result result = {.T_odom_camera = tracked(seq), .map_epoch = epoch};
    trajectory_file_push(file, (int64_t)seq * 33000000, &none, &result);
}

static struct trajectory_file *open_file(const char *path, enum trajectory_format format,
                                         bool adjusted)
{
    const struct log_sink log = scratch_log(&scratch);
    struct trajectory_file *file;
    assert_int_equal(trajectory_file_create(&file, path, format, true, adjusted, &log), 0);
    return file;
}

static void read_poses(const char *path, struct trajectory *out)
{
    const struct log_sink log = scratch_log(&scratch);
    assert_int_equal(trajectory_read_tum(path, &log, out), 0);
    assert_int_equal(out->n_poses, N_FRAMES);
}

static double apart_m(const struct se3 *a, const struct se3 *b)
{
    return hypot(hypot(a->t_m[0] - b->t_m[0], a->t_m[1] - b->t_m[1]), a->t_m[2] - b->t_m[2]);
}

static void assert_pose(const struct trajectory *t, uint64_t seq, const struct se3 *T_map_odom)
{
    const struct se3 T = tracked(seq), wanted = se3_compose(T_map_odom, &T);
    assert_true(apart_m(&t->poses[seq].T_world_camera, &wanted) <= ROUNDING);
    const struct se3 turn = se3_between(&wanted, &t->poses[seq].T_world_camera);
    assert_true(se3_angle(&turn) <= 1e-8);
}

static void assert_alone(void) // no other file is left
{
    char command[128];
    snprintf(command, sizeof command, "test $(ls -A '%s' | wc -l) = 1", scratch.path);
    assert_int_equal(system(command), 0);
}

static void test_adjusted(void **state)
{
    (void)state;
    // Two epochs with keyframes and one without.
    const struct graph_keyframe first[] = {keyframe(2), keyframe(7), keyframe(15)};
    const struct graph_keyframe last[] = {keyframe(31)};
    const struct se3 none = se3_identity();
    char path[256];
    struct trajectory published, t;
    scratch_name(&scratch, "t.txt", path);
    struct trajectory_file *file = open_file(path, TRAJECTORY_FORMAT_TUM, true);
    assert_true(trajectory_file_is_adjusted(file));
    for (uint64_t seq = 0; seq < N_FRAMES; seq++) {
        if (seq == 20)
            trajectory_file_adjust(file, 4, first, 3);
        if (seq == 30)
            trajectory_file_adjust(file, 5, NULL, 0);
        push(file, seq, seq < 20 ? 4 : seq < 30 ? 5 : 9);
    }
    trajectory_file_adjust(file, 9, last, 1);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    assert_null(file);
    assert_alone();
    read_poses(path, &t);
    for (uint64_t seq = 0; seq < N_FRAMES; seq++) {
        const struct se3 of_2 = moved(2), of_7 = moved(7), of_15 = moved(15), of_31 = moved(31);
        if (seq <= 2)
            assert_pose(&t, seq, &of_2);
        else if (seq == 7)
            assert_pose(&t, seq, &of_7);
        else if (seq >= 15 && seq < 20)
            assert_pose(&t, seq, &of_15);
        else if (seq >= 20 && seq < 30)
            assert_pose(&t, seq, &none);
        else if (seq >= 30)
            assert_pose(&t, seq, &of_31);
        if (seq > 2 && seq <= 15) {
            // What moves grows evenly with the motion here: no step, and each frame near its own.
            const struct se3 T = tracked(seq), T_map_odom = moved(seq),
                             wanted = se3_compose(&T_map_odom, &T);
            assert_true(apart_m(&t.poses[seq].T_world_camera, &wanted) <= 1e-4);
        }
    }
    trajectory_free(&t);
    // Without keyframes the file stays.
    file = open_file(path, TRAJECTORY_FORMAT_TUM, true);
    for (uint64_t seq = 0; seq < N_FRAMES; seq++)
        push(file, seq, 0);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    read_poses(path, &published);
    for (uint64_t seq = 0; seq < N_FRAMES; seq++)
        assert_pose(&published, seq, &none);
    trajectory_free(&published);
}

static void test_not_adjusted(void **state)
{
    (void)state;
    const struct graph_keyframe only = keyframe(20);
    const struct se3 none = se3_identity();
    char path[256], elsewhere[256];
    struct trajectory t;
    scratch_name(&scratch, "n.txt", path);
    scratch_name(&scratch, "elsewhere.txt", elsewhere);
    // Not wanted; of odom, as covariances are; moved away by somebody.
    for (int which = 0; which < 3; which++) {
        struct trajectory_file *file = open_file(
            path, which == 1 ? TRAJECTORY_FORMAT_COVARIANCE : TRAJECTORY_FORMAT_TUM, which > 0);
        assert_int_equal(trajectory_file_is_adjusted(file), which == 2);
        for (uint64_t seq = 0; seq < N_FRAMES; seq++)
            push(file, seq, 1);
        trajectory_file_adjust(file, 1, &only, 1);
        if (which == 2)
            assert_int_equal(rename(path, elsewhere), 0);
        assert_int_equal(trajectory_file_destroy(&file), 0);
        read_poses(which == 2 ? elsewhere : path, &t);
        for (uint64_t seq = 0; seq < N_FRAMES; seq++)
            assert_pose(&t, seq, &none);
        trajectory_free(&t);
    }
    assert_true(scratch_said(&scratch, "moved away"));
    assert_int_equal(access(path, F_OK), -1);
    struct trajectory_file *file = open_file("/dev/null", TRAJECTORY_FORMAT_TUM, true);
    assert_false(trajectory_file_is_adjusted(file));
    assert_int_equal(trajectory_file_destroy(&file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_adjusted, make, clean),
        cmocka_unit_test_setup_teardown(test_not_adjusted, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
