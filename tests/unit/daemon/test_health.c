// SPDX-License-Identifier: Apache-2.0
// What the daemon says of a camera from which no poses come.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/health.h"
#include "proto/clock.h"

static char said[4096];

static void hear(void *user, enum log_level level, const char *line)
{
    const size_t n = strlen(said);
    (void)user;
    snprintf(said + n, sizeof said - n, "%d %s\n", level, line);
}

static const struct log_sink sink = {.write = hear};

struct watched {
    struct health health;
    struct epoch_link link;
    struct shared *shared;
    posed_State state;
};

static struct watched watch(void)
{
    struct watched watched = {.state = posed_State_STATE_NO_INPUT};
    const struct shared_info info = {.session = 7, .n_history = 64};
    assert_int_equal(shared_create(&watched.shared, &info), 0);
    said[0] = 0;
    return watched;
}

static void set_state(struct watched *watched, posed_State state, const char *reason)
{
    watched->state = state;
    shared_set_state(watched->shared, state, posed_Reason_REASON_NONE, reason, 0);
}

// A second in which these came.
static void beat(struct watched *watched, uint32_t n_tracked, uint32_t n_damaged,
                 uint32_t n_dropped)
{
    const struct health_outputs outputs = {.shared = watched->shared, .log = &sink};
    shared_add(watched->shared, SHARED_CAPTURED, n_tracked + n_damaged + n_dropped);
    shared_add(watched->shared, SHARED_TRACKED, n_tracked);
    shared_add(watched->shared, SHARED_DAMAGED, n_damaged);
    shared_add(watched->shared, SHARED_DROPPED, n_dropped);
    health_beat(&watched->health, &outputs, watched->state, 30);
}

static void diagnosed(struct watched *watched, int level, const char *message)
{
    struct ros_health diagnosis;
    const struct health_outputs outputs = {.shared = watched->shared, .link = &watched->link};
    health_diagnose(&outputs, watched->state, 30, &diagnosis);
    assert_string_equal(diagnosis.message, message);
    assert_int_equal(diagnosis.is_error ? 2 : diagnosis.is_warning, level);
}

static void test_none_of_the_last_frames(void **state)
{
    (void)state;
    char fault[SHARED_FAULT_BYTES];
    struct watched watched = watch();
    set_state(&watched, posed_State_STATE_TRACKING, "");
    for (int i = 0; i < 5; i++)
        beat(&watched, 30, 0, 0);
    set_state(&watched, posed_State_STATE_DEGRADED, "dropped");
    beat(&watched, 1, 29, 0);
    beat(&watched, 0, 30, 0); // the second before had a pose
    assert_false(shared_fault(watched.shared, fault));
    assert_string_equal(fault, "");
    diagnosed(&watched, 1, "DEGRADED: dropped");
    assert_string_equal(said, "");
    beat(&watched, 0, 28, 2);
    const char *why = "none of the last 60 frames could be tracked: 58 damaged, 2 dropped";
    assert_true(shared_fault(watched.shared, fault));
    assert_string_equal(fault, why);
    diagnosed(&watched, 2,
              "DEGRADED: none of the last 60 frames could be tracked: 58 damaged, 2 dropped");
    // after another camera's calibration nothing is lost, but there is still no pose
    set_state(&watched, posed_State_STATE_INIT, "dropped");
    beat(&watched, 0, 30, 0);
    diagnosed(&watched, 2,
              "INIT: none of the last 60 frames could be tracked: 58 damaged, 2 dropped");
    // said at once, and once a minute
    char line[120];
    snprintf(line, sizeof line, "%d %s\n", LOG_LEVEL_WARNING, why);
    assert_string_equal(said, line);
    for (int i = 0; i < 58; i++)
        beat(&watched, 0, 30, 0);
    assert_string_equal(said, line);
    beat(&watched, 0, 30, 0);
    assert_non_null(strstr(said, "tracked: 60 damaged, 0 dropped\n"));
    set_state(&watched, posed_State_STATE_TRACKING, "");
    beat(&watched, 1, 29, 0);
    assert_false(shared_fault(watched.shared, fault));
    diagnosed(&watched, 0, "TRACKING");
    assert_non_null(strstr(said, "frames are tracked again\n"));
    shared_destroy(&watched.shared);
}

// The first seconds, and seconds without a frame, are none of these.
static void test_no_frames(void **state)
{
    (void)state;
    char fault[SHARED_FAULT_BYTES];
    struct watched watched = watch();
    beat(&watched, 0, 0, 0);
    assert_true(shared_fault(watched.shared, fault));
    assert_string_equal(fault, "no frame has arrived yet");
    set_state(&watched, posed_State_STATE_INIT, "dropped");
    beat(&watched, 0, 0, 9);
    assert_false(shared_fault(watched.shared, fault));
    beat(&watched, 0, 0, 9);
    assert_true(shared_fault(watched.shared, fault));
    set_state(&watched, posed_State_STATE_NO_INPUT, "no frame arrives");
    beat(&watched, 0, 0, 0);
    assert_true(shared_fault(watched.shared, fault));
    assert_string_equal(fault, "no frame arrives");
    diagnosed(&watched, 2, "NO_INPUT: no frame arrives");
    beat(&watched, 0, 0, 0);
    set_state(&watched, posed_State_STATE_DEGRADED, "dropped"); // a paused recording, say
    beat(&watched, 0, 0, 0);
    assert_false(shared_fault(watched.shared, fault));
    assert_null(strstr(said, "again"));
    shared_destroy(&watched.shared);
}

static void test_reasons(void **state)
{
    (void)state;
    struct watched watched = watch();
    set_state(&watched, posed_State_STATE_LOST, "no depth");
    shared_add(watched.shared, SHARED_LOST, 90);
    beat(&watched, 0, 0, 0);
    diagnosed(&watched, 2, "LOST: no depth");
    set_state(&watched, posed_State_STATE_DEGRADED, "high residual");
    diagnosed(&watched, 1, "DEGRADED: high residual");
    set_state(&watched, posed_State_STATE_INIT, "first frame");
    diagnosed(&watched, 0, "INIT");
    shared_destroy(&watched.shared);
}

// Which counts more than a reservation, and less than that there are no poses.
static void test_epoch(void **state)
{
    (void)state;
    struct watched watched = watch();
    epoch_link_follow(&watched.link, 4, false, 0);
    epoch_link_follow(&watched.link, 5, false, clock_monotonic_ns());
    set_state(&watched, posed_State_STATE_TRACKING, "");
    const char *told = "TRACKING: the way since map epoch 5 began is not connected to that before: "
                       "tracking was lost, and began anew at the last pose";
    diagnosed(&watched, 1, told);
    set_state(&watched, posed_State_STATE_DEGRADED, "high residual");
    struct ros_health diagnosis;
    const struct health_outputs outputs = {.shared = watched.shared, .link = &watched.link};
    shared_set_state(watched.shared, watched.state, posed_Reason_REASON_NONE, "high residual", 5);
    health_diagnose(&outputs, watched.state, 30, &diagnosis);
    assert_true(strncmp(diagnosis.message, "DEGRADED: the way since", 23) == 0);
    assert_int_equal(diagnosis.map_epoch, 5);
    set_state(&watched, posed_State_STATE_LOST, "no depth");
    diagnosed(&watched, 2, "LOST: no depth");
    set_state(&watched, posed_State_STATE_TRACKING, "");
    watched.link.cut_ns -= EPOCH_LINK_TOLD_NS;
    diagnosed(&watched, 0, "TRACKING");
    shared_destroy(&watched.shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none_of_the_last_frames), cmocka_unit_test(test_no_frames),
        cmocka_unit_test(test_reasons), cmocka_unit_test(test_epoch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
