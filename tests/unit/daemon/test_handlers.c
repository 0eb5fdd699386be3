// SPDX-License-Identifier: Apache-2.0
// Requests that are only looked up, against a history and settings of this test's: the newest pose
// and one at a time, pages of the past and their end, keys by their beginning; and what is told of
// kinds and cameras.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "daemon/handlers/handlers.h"
#include "daemon/pose_history.h"
#include "proto/clock.h"
#include "tests/unit/camera.h"

#define N_HISTORY 50
#define N_PX      12

static struct config config;
static struct handlers handlers[2];
static struct handlers_common common;
static posed_Reply reply;

static int setup(void **state)
{
    (void)state;
    const struct shared_info info = {
        .session = 7, .n_history = N_HISTORY, .capture.camera = {4, 4, 1.5, 1, 4, 3}};
    config_default(&config);
    memset(&common, 0, sizeof common);
    if (settings_create(&common.settings, &config, NULL) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        handlers[i] = (struct handlers){.camera = i ? "right" : "left", .config = &config};
        if (shared_create(&handlers[i].shared, &info) != 0)
            return -1;
    }
    handlers_open(&common, handlers, 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    handlers_close(&common);
    for (int i = 0; i < 2; i++)
        shared_destroy(&handlers[i].shared);
    settings_destroy(&common.settings);
    return 0;
}

static posed_Code ask(const posed_Request *request)
{
    const struct handlers_call call = {.request = request, .reply = &reply};
    memset(&reply, 0, sizeof reply);
    handlers_run(&handlers[1], &call);
    return reply.code;
}

// Frames 0 to n - 1 of a camera, 100 ms apart.
static void put_poses(int camera, uint64_t n)
{
    for (uint64_t seq = 0; seq < n; seq++)
        pose_history_put(shared_history(handlers[camera].shared),
                         &(struct past_pose){.seq = seq,
                                             .time_ns = (int64_t)seq * 100000000,
                                             .q_xyzw = {0, 0, 0, 1},
                                             .t_m = {(double)seq, 0, camera},
                                             .state = posed_State_STATE_DEGRADED,
                                             .reason = seq % 2 ? posed_Reason_REASON_DROPPED
                                                               : posed_Reason_REASON_TIME_GAP});
}

static void one_pose(void **state)
{
    (void)state;
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_get_pose_tag;
    assert_int_equal(ask(&request), posed_Code_NOT_FOUND);
    put_poses(0, 1);
    assert_int_equal(ask(&request), posed_Code_OK);
    put_poses(0, 20);
    put_poses(1, 5);
    assert_int_equal(ask(&request), posed_Code_OK);
    assert_int_equal(reply.what.get_pose.seq, 19); // of the first camera
    assert_true(reply.what.get_pose.pose.position.x == 19);
    strcpy(request.camera, "right");
    assert_int_equal(ask(&request), posed_Code_OK);
    assert_int_equal(reply.what.get_pose.seq, 4);
    strcpy(request.camera, "top");
    assert_int_equal(ask(&request), posed_Code_NOT_FOUND);
    assert_string_equal(reply.field, "camera");
    assert_non_null(strstr(reply.message, "left, right"));
    request.camera[0] = 0;
    request.what.get_pose.has_time = true;
    request.what.get_pose.time = (posed_Timestamp){0, 250000000};
    assert_int_equal(ask(&request), posed_Code_OK);
    assert_true(reply.what.get_pose.pose.position.x == 2.5);
    request.what.get_pose.time.nanos = 1000000000;
    assert_int_equal(ask(&request), posed_Code_INVALID_ARGUMENT);
}

static void pages(void **state)
{
    (void)state;
    static const struct {
        uint64_t from;
        uint32_t limit, n;
        uint64_t first, next;
        bool end;
    } cases[] = {
        {0, 10, 10, 30, 40, false},  {40, 10, 10, 40, 50, false}, {50, 30, 30, 50, 80, true},
        {50, 29, 29, 50, 79, false}, {79, 1, 1, 79, 80, true},    {80, 5, 0, 0, 80, true},
        {90, 5, 0, 0, 90, true},     {31, 0, 49, 31, 80, true},
    };
    posed_Request request = posed_Request_init_zero;
    const posed_Trajectory *page = &reply.what.get_trajectory;
    request.which_what = posed_Request_get_trajectory_tag;
    put_poses(0, 80); // 30 to 79 are left
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        request.what.get_trajectory.from_seq = cases[i].from;
        request.what.get_trajectory.limit = cases[i].limit;
        assert_int_equal(ask(&request), posed_Code_OK);
        assert_int_equal(page->poses_count, cases[i].n);
        for (uint32_t k = 0; k < cases[i].n; k++)
            assert_int_equal(page->poses[k].seq, cases[i].first + k);
        for (uint32_t k = 0; k < cases[i].n; k++)
            assert_int_equal(page->poses[k].reason, page->poses[k].seq % 2
                                                        ? posed_Reason_REASON_DROPPED
                                                        : posed_Reason_REASON_TIME_GAP);
        assert_int_equal(page->next_seq, cases[i].next);
        assert_int_equal(page->oldest_seq, 30);
        assert_int_equal(page->end, cases[i].end);
    }
}

static void keys_by_their_beginning(void **state)
{
    (void)state;
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_get_params_tag;
    strcpy(request.what.get_params.prefix, "camera.f");
    assert_int_equal(ask(&request), posed_Code_OK);
    assert_true(reply.what.get_params.params_count >= 2);
    for (pb_size_t i = 0; i < reply.what.get_params.params_count; i++)
        assert_memory_equal(reply.what.get_params.params[i].name, "camera.f", 8);
    strcpy(request.what.get_params.prefix, "fx"); // in the middle of one
    assert_int_equal(ask(&request), posed_Code_NOT_FOUND);
    assert_string_equal(reply.field, "get_params.prefix");
}

// A kept frame of 4 x 3 pixels as its points.
static void clouds(void **state)
{
    (void)state;
    struct buffers *camera = camera_create(N_PX, 2);
    uint16_t *pixels = buffers_take(camera);
    struct handlers_payload payload = {.memory = NULL};
    posed_Request request = posed_Request_init_zero;
    const struct intrinsics intrinsics = {4, 4, 1.5, 1, 4, 3};
    assert_int_equal(frames_create(&handlers[0].frames, 2), 0);
    for (int i = 0; i < N_PX; i++)
        pixels[i] = (uint16_t)(1000 + 100 * i);
    const struct capture_frame frame = {
        .image = {.depth = pixels, .width_px = 4, .height_px = 3, .units_per_m = 1000},
        .buffers = camera};
    for (uint64_t seq = 0; seq < 2; seq++) {
        frames_put(handlers[0].frames, seq, &frame, &intrinsics);
        pose_history_put(shared_history(handlers[0].shared),
                         &(struct past_pose){.seq = seq,
                                             .q_xyzw = {0, 0, 0, 1},
                                             .state = seq ? posed_State_STATE_LOST
                                                          : posed_State_STATE_TRACKING});
    }
    request.which_what = posed_Request_get_cloud_tag;
    request.what.get_cloud.has_seq = true;
    request.what.get_cloud.stride = 1;
    for (uint64_t seq = 0; seq < 2; seq++)
        for (uint32_t most = N_PX - 1; most <= N_PX; most++) {
            const struct handlers_call call = {
                .request = &request, .reply = &reply, .pieces = &payload};
            request.what.get_cloud.seq = seq;
            config.requests.max_points = most;
            memset(&reply, 0, sizeof reply);
            payload = (struct handlers_payload){.memory = NULL};
            handlers_run(handlers, &call);
            assert_int_equal(reply.code, most < N_PX ? posed_Code_INVALID_ARGUMENT : posed_Code_OK);
            assert_int_equal(payload.n_pieces, most == N_PX);
            if (most == N_PX) {
                const float *points = payload.pieces[0].bytes;
                assert_int_equal(payload.pieces[0].n_bytes, 3 * N_PX * sizeof *points);
                // u 3, v 2 at 2.1 m: (3 - 1.5) / 4 and (2 - 1) / 4 of it.
                assert_true(fabsf(points[33] - 2.1f * 0.375f) < 1e-5f);
                assert_true(fabsf(points[34] - 2.1f * 0.25f) < 1e-5f);
                assert_true(fabsf(points[35] - 2.1f) < 1e-6f);
                assert_int_equal(reply.what.get_cloud.n_points, N_PX);
                assert_int_equal(reply.what.get_cloud.has_pose, seq == 0); // lost: it has none
            }
            free(payload.memory);
        }
    frames_destroy(&handlers[0].frames);
    buffers_give(camera, pixels);
    camera_destroy(camera);
}

static void kinds(void **state)
{
    (void)state;
    char field[64];
    assert_true(handlers_is_button(posed_Request_reset_tag));
    assert_true(handlers_is_button(posed_Request_stop_recording_tag));
    assert_false(handlers_is_button(posed_Request_set_params_tag));
    assert_false(handlers_is_button(posed_Request_save_map_tag));
    assert_false(handlers_is_button(999));
    handlers_text_field(posed_Request_add_object_tag, field, sizeof field);
    assert_string_equal(field, "add_object.name");
    handlers_text_field(posed_Request_search_pose_tag, field, sizeof field);
    assert_string_equal(field, "search_pose.objects");
    handlers_text_field(posed_Request_ping_tag, field, sizeof field);
    assert_string_equal(field, "what");
    handlers_text_field(999, field, sizeof field);
    assert_string_equal(field, "what");
    assert_int_equal(handlers_queue(handlers, posed_Request_ping_tag), HANDLERS_NOW);
    assert_int_equal(handlers_queue(handlers, posed_Request_reset_tag), HANDLERS_COMMAND);
    assert_int_equal(handlers_queue(handlers, posed_Request_register_sets_tag), HANDLERS_COMPUTE);
    // The objects are not open: whoever lists them waits for that.
    assert_int_equal(handlers_queue(handlers, posed_Request_list_objects_tag), HANDLERS_COMPUTE);
    assert_int_equal(handlers_queue(handlers, 999), HANDLERS_NOW);
    posed_Request request = posed_Request_init_zero;
    request.which_what = 999;
    assert_int_equal(ask(&request), posed_Code_UNIMPLEMENTED);
}

static int optimise_error;

static void *answer_two(void *user)
{
    struct shared *shared = user;
    struct shared_command command;
    for (int n = 0; n < 2;) {
        const struct shared_answer answer = {.error = n == 0 ? 0 : optimise_error};
        if (shared_take_command(shared, &command)) {
            shared_finish_command(shared, &answer);
            n++;
        }
        sched_yield();
    }
    return NULL;
}

static void check_unsolved(int error, const char *says, const char *ends)
{
    pthread_t loop;
    struct register_stop stop = {0};
    const struct handlers_call call = {
        .reply = &reply, .stop = &stop, .deadline_ns = clock_monotonic_ns() + 20000000000};
    optimise_error = error;
    memset(&reply, 0, sizeof reply);
    assert_int_equal(pthread_create(&loop, NULL, answer_two, handlers[1].shared), 0);
    handlers_optimise_map(&handlers[1], &call);
    assert_int_equal(pthread_join(loop, NULL), 0);
    assert_int_equal(reply.code, posed_Code_FAILED_PRECONDITION);
    assert_int_equal(reply.which_what, 0);
    assert_non_null(strstr(reply.message, says));
    assert_non_null(strstr(reply.message, ends)); // whole
}

// Keyframes that nothing holds together, or that nothing is measured between, are not told as a map
// that moved by nothing.
static void a_map_that_cannot_be_solved_for(void **state)
{
    (void)state;
    check_unsolved(-EDOM, "their links leave some of them free", "posectl reset)");
    check_unsolved(-ENOLINK, "cannot be solved for: nothing is measured between them",
                   "and ask again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_pose, setup, teardown),
        cmocka_unit_test_setup_teardown(pages, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_by_their_beginning, setup, teardown),
        cmocka_unit_test_setup_teardown(clouds, setup, teardown),
        cmocka_unit_test_setup_teardown(kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(a_map_that_cannot_be_solved_for, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
