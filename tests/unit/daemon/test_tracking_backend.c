// SPDX-License-Identifier: Apache-2.0
// What happens when the device fails, and to the source's memory, on the device, tracker and source
// of fake_device.h, which fail when they are told to.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/tracking_map.h"
#include "proto/se3.h"
#include "tests/unit/daemon/fake_device.h"
#include "tests/unit/daemon/fake_map.h"

// Two good frames, a failure, and what comes after: the failed frame is computed on the device that
// takes over, aligned to the one before it, in the same epoch.
static void check_recovery(enum config_gpu_error on_error, const char *expected)
{
    struct backend *backend = fake_open_as(on_error);
    struct track_result result;
    for (int i = 0; i < 3; i++) {
        fake_trackers[fake_n_trackers - 1].n_finds = i > 0 ? 2 : 0;
        assert_int_equal(fake_track(backend, &result), 0);
    }
    assert_int_equal(result.n_finds, 2);
    fake_n_failures = 1;
    assert_int_equal(fake_track(backend, &result), BACKEND_REPLACED);
    assert_int_equal(result.state, TRACK_STATE_TRACKING);
    assert_true(result.T_odom_camera.t_m[0] == 0.03);
    assert_int_equal(result.map_epoch, 0);
    assert_int_equal(result.n_finds, 2); // the new tracker's are counted on
    assert_int_equal(result.reference_seq, 2);
    assert_string_equal(backend_description(backend), expected);
    assert_int_equal(fake_n_open, 1);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_true(result.T_odom_camera.t_m[0] == 0.04);
    assert_int_equal(result.reference_seq, 3);
    assert_int_equal(result.n_finds, 2);
    uint64_t seq = 0;
    assert_int_equal(backend_set_keyframe(backend, &seq), 0);
    assert_int_equal(seq, 4);
    assert_int_equal(result.map_epoch, 0);
    backend_close(&backend);
    assert_null(backend);
    assert_null(fake_kept);
    assert_int_equal(fake_n_open, 0);
}

static void goes_on_on_the_cpu(void **state)
{
    (void)state;
    check_recovery(CONFIG_GPU_ERROR_CPU, "cpu");
}

static void opens_the_device_again(void **state)
{
    (void)state;
    check_recovery(CONFIG_GPU_ERROR_REBUILD, "cuda");
}

// A frame was dropped in between, or the poses were reset: nothing to align to, so a new epoch
// begins at the last pose.
static void without_the_frame_before_an_epoch_begins(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct backend *backend = fake_open_as(CONFIG_GPU_ERROR_CPU);
        struct track_result result;
        for (int i = 0; i < 3; i++)
            assert_int_equal(fake_track(backend, &result), 0);
        struct se3 T = result.T_odom_camera;
        const struct capture_frame dropped = {0};
        T.t_m[0] = 0.5; // where it is reset to, in round 1
        if (round == 0)
            assert_int_equal(backend_track(backend, &dropped, false, &result), 0);
        else
            backend_reset(backend, &T);
        const uint32_t epoch = (uint32_t)round; // as the tracker counts a reset
        fake_n_failures = 1;
        assert_int_equal(fake_track(backend, &result), BACKEND_REPLACED);
        assert_int_equal(result.state, TRACK_STATE_INIT);
        assert_true(result.T_odom_camera.t_m[0] == (round == 0 ? 0.02 : 0.5));
        assert_true(result.map_epoch > epoch || round == 1);
        assert_int_equal(result.reference_seq, round == 0 ? 4 : 3);
        backend_close(&backend);
        assert_null(fake_kept);
    }
}

// An image that comes once more is not tracked once more, and the map has it already. One that
// there is no pose for yet is.
static void a_repeated_image_is_no_new_frame(void **state)
{
    (void)state;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 4;
    struct backend *backend = fake_open();
    const struct capture_frame again = {.image = {.depth = fake_depth}, .flags = CAPTURE_DUPLICATE};
    struct track_result result;
    double moved_m;
    assert_int_equal(fake_track(backend, &result), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(backend_track(backend, &again, true, &result), 0);
        assert_true(result.T_odom_camera.t_m[0] == 0.01);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_window.n_followed, 1);
    }
    uint64_t seq = 0;
    assert_int_equal(fake_track(backend, &result), 0);
    assert_true(result.T_odom_camera.t_m[0] == 0.02);
    assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
    assert_int_equal(fake_window.n_followed, 2);
    assert_int_equal(backend_set_keyframe(backend, &seq), 0);
    assert_int_equal(seq, 4);
    backend_close(&backend);
}

// Who looks for a lost camera is told that an image was tracked before, also where frames without
// an image, which were late or damaged, came between.
static void a_repeated_image_is_called_so(void **state)
{
    (void)state;
    memset(&fake_config, 0, sizeof fake_config);
    struct backend *backend = fake_open();
    struct track_result result;
    const struct depth_frame image = {.depth = fake_depth};
    const struct {
        struct capture_frame frame;
        bool expected;
    } frames[] = {
        {{.image = image}, false},
        {{.image = image, .flags = CAPTURE_DUPLICATE}, true},
        {{.flags = CAPTURE_LATE}, false},
        {{.image = image, .flags = CAPTURE_DUPLICATE}, true},
        {{.image = image}, false},
        {{.flags = CAPTURE_DAMAGED}, false},
        {{.image = image, .flags = CAPTURE_DUPLICATE}, true},
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        const struct capture_frame *frame = &frames[i].frame;
        assert_int_equal(backend_track(backend, frame, frame->image.depth != NULL, &result), 0);
        assert_int_equal(result.is_repeat, frames[i].expected);
    }
    backend_close(&backend);
}

static void the_first_frame_may_fail(void **state)
{
    (void)state;
    struct backend *backend = fake_open_as(CONFIG_GPU_ERROR_CPU);
    struct track_result result;
    fake_n_failures = 1;
    assert_int_equal(fake_track(backend, &result), BACKEND_REPLACED);
    assert_int_equal(result.state, TRACK_STATE_INIT);
    assert_int_equal(result.reference_seq, 0);
    backend_close(&backend);
}

static void stops_where_it_is_told_to(void **state)
{
    (void)state;
    struct backend *backend = fake_open_as(CONFIG_GPU_ERROR_STOP);
    struct track_result result;
    for (int i = 0; i < 3; i++)
        assert_int_equal(fake_track(backend, &result), 0);
    fake_n_failures = 1;
    assert_int_equal(fake_track(backend, &result), -EIO);
    assert_int_equal(result.state, TRACK_STATE_LOST);
    assert_int_equal(result.reason, TRACK_REASON_DEVICE);
    assert_true(result.T_odom_camera.t_m[0] == 0.02 && result.T_odom_camera.r[0] == 1);
    assert_true(result.covariance[0] == POSE_ERROR_LOST);
    assert_int_equal(result.map_epoch, 0);
    backend_close(&backend);
}

static void a_device_that_is_gone_is_replaced(void **state)
{
    (void)state;
    struct backend *backend = fake_open_as(CONFIG_GPU_ERROR_REBUILD);
    struct track_result result;
    fake_cuda_is_gone = true;
    fake_n_failures = 1;
    assert_int_equal(fake_track(backend, &result), BACKEND_REPLACED);
    assert_string_equal(backend_description(backend), "cpu");
    backend_close(&backend);
}

// A device that fails on every try is given up after BACKEND_MAX_REBUILDS; one that works in
// between is not.
static void does_not_try_for_ever(void **state)
{
    (void)state;
    struct backend *backend = fake_open_as(CONFIG_GPU_ERROR_REBUILD);
    struct track_result result;
    assert_int_equal(fake_track(backend, &result), 0);
    for (int round = 0; round < 3; round++) {
        fake_n_failures = BACKEND_MAX_REBUILDS;
        assert_int_equal(fake_track(backend, &result), BACKEND_REPLACED);
        assert_int_equal(fake_track(backend, &result), 0);
        assert_int_equal(result.map_epoch, 0);
    }
    fake_n_failures = BACKEND_MAX_REBUILDS + 1;
    assert_int_equal(fake_track(backend, &result), -EIO);
    assert_int_equal(result.state, TRACK_STATE_LOST);
    backend_close(&backend);
}

static void a_failure_can_be_ordered(void **state)
{
    (void)state;
    struct backend *backend = fake_open_as(CONFIG_GPU_ERROR_CPU);
    struct track_result result;
    fake_config.gpu_fail_every = 3;
    for (int i = 1; i <= 9; i++)
        assert_int_equal(fake_track(backend, &result), i % 3 ? 0 : BACKEND_REPLACED);
    assert_int_equal(result.map_epoch, 0);
    assert_true(result.T_odom_camera.t_m[0] > 0.0799 && result.T_odom_camera.t_m[0] < 0.0801);
    backend_close(&backend);
}

// The source's memory is locked and its thread at work for a device, as long as there is one; not
// for the CPU.
static void the_source_serves_the_device_that_is_there(void **state)
{
    (void)state;
    struct track_result result;
    struct backend *backend = fake_open_as(CONFIG_GPU_ERROR_REBUILD);
    assert_ptr_equal(fake_devices[0].locked, fake_source.memory);
    assert_true(fake_source.hooks.written == gpu_host_written);
    fake_source.hooks.soon(fake_source.hooks.user);
    assert_ptr_equal(fake_woken, &fake_devices[0]);
    fake_n_failures = 1;
    assert_int_equal(fake_track(backend, &result), BACKEND_REPLACED);
    assert_null(fake_devices[0].locked);
    assert_ptr_equal(fake_devices[1].locked, fake_source.memory);
    assert_true(fake_source.hooks.written == gpu_host_written);
    fake_source.hooks.soon(fake_source.hooks.user);
    assert_ptr_equal(fake_woken, &fake_devices[1]);
    fake_cuda_is_gone = true;
    fake_n_failures = 1;
    assert_int_equal(fake_track(backend, &result), BACKEND_REPLACED); // on to the CPU
    assert_null(fake_devices[1].locked);
    assert_null(fake_devices[2].locked);
    assert_true(!fake_source.hooks.written && !fake_source.hooks.soon);
    backend_close(&backend);

    backend = fake_open_as(CONFIG_GPU_ERROR_REBUILD);
    backend_close(&backend);
    assert_null(fake_devices[0].locked);
    assert_true(!fake_source.hooks.written && !fake_source.hooks.soon);
}

static void memory_that_cannot_be_locked_is_no_failure(void **state)
{
    (void)state;
    struct track_result result;
    struct backend *backend = fake_open_as(CONFIG_GPU_ERROR_REBUILD);
    fake_cannot_lock = true;
    fake_n_failures = 1;
    assert_int_equal(fake_track(backend, &result), BACKEND_REPLACED);
    assert_string_equal(backend_description(backend), "cuda");
    assert_true(!fake_source.hooks.written && !fake_source.hooks.soon);
    assert_int_equal(fake_track(backend, &result), 0);
    backend_close(&backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_on_the_cpu),
        cmocka_unit_test(opens_the_device_again),
        cmocka_unit_test(without_the_frame_before_an_epoch_begins),
        cmocka_unit_test(a_repeated_image_is_no_new_frame),
        cmocka_unit_test(a_repeated_image_is_called_so),
        cmocka_unit_test(the_first_frame_may_fail),
        cmocka_unit_test(stops_where_it_is_told_to),
        cmocka_unit_test(a_device_that_is_gone_is_replaced),
        cmocka_unit_test(does_not_try_for_ever),
        cmocka_unit_test(a_failure_can_be_ordered),
        cmocka_unit_test(the_source_serves_the_device_that_is_there),
        cmocka_unit_test(memory_that_cannot_be_locked_is_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
