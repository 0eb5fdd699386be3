// SPDX-License-Identifier: Apache-2.0
// Requests for the map and those that give it up, in other orders than they were taken on in. The
// frame loop is this file's: its map is one keyframe with the epoch's number.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/handlers/handlers.h"
#include "proto/clock.h"

static struct config config;
static struct handlers handlers;
static struct handlers_common common;
static posed_Reply reply;
static pthread_t loop;
static atomic_bool end, is_stuck;
static atomic_int n_reads;
static atomic_uint n_blocks, n_left_out; // of the map

static void answer(const struct shared_command *command, uint32_t *epoch, struct shared_answer *out)
{
    if (command->kind == SHARED_RESET) {
        shared_set_map_epoch(handlers.shared, ++*epoch);
    } else if (command->map_epoch != shared_map_epoch(handlers.shared)) {
        out->error = -ESTALE;
    } else if (command->kind == SHARED_READ_MAP) {
        n_reads++;
        command->map->epoch = *epoch;
        command->map->keyframes = calloc(1, sizeof *command->map->keyframes);
        command->map->n_keyframes = 1;
        command->map->blocks = calloc(1, sizeof *command->map->blocks);
        command->map->n_blocks = n_blocks;
        command->map->n_left_out = n_left_out;
    }
}

static void *run_loop(void *user)
{
    uint32_t epoch = 1;
    struct shared_command command;
    (void)user;
    for (; !end; nanosleep(&(struct timespec){0, 100000}, NULL)) {
        struct shared_answer out = {0};
        if (is_stuck || !shared_take_command(handlers.shared, &command))
            continue;
        answer(&command, &epoch, &out);
        shared_finish_command(handlers.shared, &out);
    }
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    const struct shared_info info = {.n_history = 2};
    config_default(&config);
    common = (struct handlers_common){0};
    handlers = (struct handlers){.camera = "", .config = &config};
    end = is_stuck = false;
    n_reads = 0;
    n_blocks = 1;
    n_left_out = 0;
    if (shared_create(&handlers.shared, &info) != 0)
        return -1;
    shared_set_map_epoch(handlers.shared, 1);
    handlers_open(&common, &handlers, 1);
    return pthread_create(&loop, NULL, run_loop, NULL);
}

static int teardown(void **state)
{
    (void)state;
    end = true;
    pthread_join(loop, NULL);
    handlers_close(&common);
    shared_destroy(&handlers.shared);
    return 0;
}

static posed_Request of_kind(pb_size_t kind)
{
    posed_Request request = posed_Request_init_zero;
    request.which_what = kind;
    return request;
}

static struct handlers_call begin(const posed_Request *request, struct map_turn *turn)
{
    memset(&reply, 0, sizeof reply);
    return (struct handlers_call){.request = request,
                                  .reply = &reply,
                                  .turn = turn,
                                  .deadline_ns = clock_monotonic_ns() + 5000000000};
}

static posed_Code reset(struct map_turn *turn, int64_t within_ns)
{
    const posed_Request request = of_kind(posed_Request_reset_tag);
    struct handlers_call call = begin(&request, turn);
    call.deadline_ns = clock_monotonic_ns() + within_ns;
    handlers_run(&handlers, &call);
    return reply.code;
}

// The epoch whose map a request gets; 0: none, the reply says why.
static uint32_t epoch_read(const posed_Request *request, struct map_turn *turn)
{
    const struct handlers_call call = begin(request, turn);
    struct map_contents map;
    struct intrinsics camera;
    if (!handlers_read_map(&handlers, &call, &map, &camera))
        return 0;
    const uint32_t epoch = map.epoch;
    assert_int_equal(map.n_keyframes, 1);
    map_contents_free(&map);
    return epoch;
}

static void a_reset_overtakes(void **state)
{
    (void)state;
    const posed_Request save = of_kind(posed_Request_save_map_tag);
    const posed_Request cloud = of_kind(posed_Request_get_map_cloud_tag);
    const posed_Request other = of_kind(posed_Request_reset_tag);
    struct map_turn saves, looks, resets, saves_later, given_up;
    handlers_accept(&handlers, &save, &saves);
    handlers_accept(&handlers, &cloud, &looks);
    handlers_accept(&handlers, &cloud, &given_up);
    handlers_accept(&handlers, &other, &resets);
    handlers_accept(&handlers, &save, &saves_later);
    assert_int_equal(reset(&resets, 5000000000), posed_Code_OK);
    map_turn_leave(&resets);
    assert_int_equal(n_reads, 3); // for those before it
    map_turn_leave(&given_up);
    assert_int_equal(epoch_read(&save, &saves), 1);
    assert_int_equal(epoch_read(&cloud, &looks), 1);
    assert_int_equal(n_reads, 3);
    map_turn_leave(&saves);
    map_turn_leave(&looks);
    // It has its turn in the epoch that the reset ended.
    assert_int_equal(epoch_read(&save, &saves_later), 0);
    assert_int_equal(reply.code, posed_Code_ABORTED);
    assert_string_equal(reply.message,
                        "the map of epoch 1 was given up before it was saved: epoch 2 has begun");
    map_turn_leave(&saves_later);
}

// Nobody asked for the end of the epoch: the tracker began anew.
static void the_tracker_begins_anew(void **state)
{
    (void)state;
    const posed_Request cloud = of_kind(posed_Request_get_map_cloud_tag);
    const posed_Request keyframes = of_kind(posed_Request_get_keyframes_tag);
    struct map_turn looks, asks, resets;
    handlers_accept(&handlers, &cloud, &looks);
    handlers_accept(&handlers, &keyframes, &asks);
    shared_set_map_epoch(handlers.shared, 7);
    handlers_accept(&handlers, &cloud, &resets);
    assert_int_equal(reset(&resets, 5000000000), posed_Code_OK); // what it cannot copy stays
    map_turn_leave(&resets);
    assert_int_equal(epoch_read(&cloud, &looks), 0);
    assert_int_equal(reply.code, posed_Code_ABORTED);
    assert_non_null(strstr(reply.message, "the map of epoch 1 was given up before it was read"));
    const struct handlers_call call = begin(&keyframes, &asks);
    handlers_run(&handlers, &call);
    assert_int_equal(reply.code, posed_Code_ABORTED);
    map_turn_leave(&looks);
    map_turn_leave(&asks);
}

// Then nothing is given up, and the copy can be had later.
static void no_time_for_the_copy(void **state)
{
    (void)state;
    const posed_Request save = of_kind(posed_Request_save_map_tag);
    const posed_Request other = of_kind(posed_Request_reset_tag);
    struct map_turn saves, resets;
    struct map_contents map;
    struct intrinsics camera;
    handlers_accept(&handlers, &save, &saves);
    handlers_accept(&handlers, &other, &resets);
    is_stuck = true;
    assert_int_equal(reset(&resets, 50000000), posed_Code_DEADLINE_EXCEEDED);
    is_stuck = false;
    assert_int_equal(epoch_read(&save, &saves), 1);
    map_turn_leave(&saves);

    handlers_accept(&handlers, &save, &saves);
    map_turn_leave(&resets);
    handlers_accept(&handlers, &other, &resets);
    assert_false(map_turn_begin(&saves, &map, &camera)); // it makes its own
    assert_int_equal(reset(&resets, 50000000), posed_Code_DEADLINE_EXCEEDED);
    assert_non_null(strstr(reply.message, "nothing was changed"));
    map_turn_end(&saves);
    assert_int_equal(reset(&resets, 5000000000), posed_Code_OK);
    map_turn_leave(&saves);
    map_turn_leave(&resets);
}

// Nothing of it could be loaded again.
static void a_map_of_nothing_is_refused(void **state)
{
    (void)state;
    const posed_Request save = of_kind(posed_Request_save_map_tag);
    n_blocks = 0;
    assert_int_equal(epoch_read(&save, NULL), 0);
    assert_int_equal(reply.code, posed_Code_FAILED_PRECONDITION);
    assert_non_null(strstr(reply.message, "has seen nothing yet"));
    n_left_out = 3;
    assert_int_equal(epoch_read(&save, NULL), 0);
    assert_int_equal(reply.code, posed_Code_FAILED_PRECONDITION);
    assert_non_null(strstr(reply.message, "map.memory_bytes is too small for what one frame sees"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_reset_overtakes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_tracker_begins_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(no_time_for_the_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(a_map_of_nothing_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
