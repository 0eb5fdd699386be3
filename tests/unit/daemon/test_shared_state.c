// SPDX-License-Identifier: Apache-2.0
// The shared: commands, the state and what is counted.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/shared_state.h"
#include "proto/clock.h"

static struct shared *create(void)
{
    struct shared *shared;
    const struct shared_info info = {.session = 7, .n_history = 64};
    assert_int_equal(shared_create(&shared, &info), 0);
    return shared;
}

static void *run_commands(void *user)
{
    struct shared *shared = user;
    struct shared_command command;
    for (int n = 0; n < 3;) {
        if (!shared_take_command(shared, &command))
            continue;
        const struct shared_answer answer = {
            .next_seq = 100 + (uint64_t)command.T_odom_camera.t_m[0],
            .error = command.T_odom_camera.t_m[0] == 2 ? -ERANGE : 0};
        shared_finish_command(shared, &answer);
        n++;
    }
    return NULL;
}

static void commands_are_done_timed_out_or_refused(void **state)
{
    (void)state;
    struct shared *shared = create();
    struct shared_command command = {.keep_pose = false};
    struct shared_answer answer;
    int64_t soon_ns = clock_monotonic_ns() + 20000000;
    assert_int_equal(shared_command(shared, &command, soon_ns, &answer), -ETIMEDOUT);
    struct shared_command taken;
    assert_false(shared_take_command(shared, &taken)); // withdrawn
    pthread_t loop;
    assert_int_equal(pthread_create(&loop, NULL, run_commands, shared), 0);
    for (int i = 0; i < 3; i++) {
        command.T_odom_camera.t_m[0] = i;
        int64_t deadline_ns = clock_monotonic_ns() + 5000000000;
        assert_int_equal(shared_command(shared, &command, deadline_ns, &answer), 0);
        assert_int_equal(answer.next_seq, 100 + i);
        assert_int_equal(answer.error, i == 2 ? -ERANGE : 0);
    }
    pthread_join(loop, NULL);
    shared_end_commands(shared);
    assert_int_equal(shared_command(shared, &command, INT64_MAX, &answer), -ECANCELED);
    shared_destroy(&shared);
}

static void status_counts(void **state)
{
    (void)state;
    struct shared *shared = create();
    posed_Status status;
    shared_status(shared, &status);
    assert_int_equal(status.state, posed_State_STATE_NO_INPUT);
    assert_true(status.resident_bytes > 100000);
    shared_count(shared, SHARED_LOST);
    shared_count(shared, SHARED_LOST);
    shared_set_state(shared, posed_State_STATE_LOST, posed_Reason_REASON_NO_DEPTH, "dark", 3);
    shared_status(shared, &status);
    assert_int_equal(status.lost_frames, 2);
    assert_int_equal(status.state, posed_State_STATE_LOST);
    assert_int_equal(status.reason, posed_Reason_REASON_NO_DEPTH);
    assert_int_equal(status.map_epoch, 3);
    assert_string_equal(status.reason_text, "dark");
    assert_string_equal(status.backend, "");
    shared_set_backend(shared, "cuda: of the start");
    shared_set_backend(shared, "cpu: after a failure");
    shared_status(shared, &status);
    assert_string_equal(status.backend, "cpu: after a failure");
    shared_destroy(&shared);
}

// One that failed is told until another has ended.
static void recordings(void **state)
{
    (void)state;
    struct shared *shared = create();
    posed_Status status;
    posed_EndedRecording ended = {.name = "a", .failed = true, .detail = "disk full", .frames = 7};
    shared_begin_recording(shared, "a");
    shared_status(shared, &status);
    assert_string_equal(status.recording, "a");
    assert_false(status.has_last_recording);
    shared_end_recording(shared, &ended);
    shared_begin_recording(shared, "b");
    shared_status(shared, &status);
    assert_string_equal(status.recording, "b");
    assert_true(status.has_last_recording && status.last_recording.failed);
    assert_string_equal(status.last_recording.detail, "disk full");
    ended.failed = false;
    shared_end_recording(shared, &ended);
    shared_status(shared, &status);
    assert_string_equal(status.recording, "");
    assert_false(status.last_recording.failed);
    assert_int_equal(status.failed_recordings, 1);
    shared_destroy(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_done_timed_out_or_refused),
        cmocka_unit_test(status_counts),
        cmocka_unit_test(recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
