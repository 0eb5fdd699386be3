// SPDX-License-Identifier: Apache-2.0
// The hint while frames are dropped: when it comes, and what it names.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/health.h"

static char said[240];
static unsigned n_said;

static void say(void *user, enum log_level level, const char *text)
{
    (void)user;
    assert_int_equal(level, LOG_LEVEL_NOTICE);
    snprintf(said, sizeof said, "%s", text);
    n_said++;
}

// A second of 30 frames of which 10 are dropped, and the others searched for so long each.
static void beat(struct health *health, struct shared *shared, int64_t search_ns)
{
    const struct log_sink log = {say, NULL};
    shared_add(shared, SHARED_CAPTURED, 30);
    shared_add(shared, SHARED_DROPPED, 10);
    shared_add(shared, SHARED_LOST, 20);
    for (int i = 0; i < 20; i++)
        health_searched(health, search_ns);
    health_beat(health, &(struct health_outputs){.shared = shared, .log = &log},
                posed_State_STATE_LOST, 30);
}

static void the_hint_names_the_search(void **state)
{
    (void)state;
    const struct shared_info info = {.session = 7, .n_history = 64};
    struct shared *shared;
    assert_int_equal(shared_create(&shared, &info), 0);
    struct health health = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(n_said, 0);
        beat(&health, shared, 13000000);
    }
    assert_int_equal(n_said, 1);
    assert_string_equal(said, "10 of the last 30 frames were dropped: the search for the lost "
                              "camera takes 13 ms a frame, until it is found");
    struct health other = {0};
    for (int i = 0; i < 3; i++)
        beat(&other, shared, i < 2 ? 13000000 : 12000000); // of the last second alone
    assert_int_equal(n_said, 2);
    assert_non_null(strstr(said, "frames were dropped: this machine is too slow"));
    shared_destroy(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hint_names_the_search),
    };
    return cmocka_run_group_tests_name("health_hint", tests, NULL, NULL);
}
