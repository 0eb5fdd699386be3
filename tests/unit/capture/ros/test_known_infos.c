// SPDX-License-Identifier: Apache-2.0
// Answers that hold: until publishers come or go, for a second, and for a few publishers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/ros/known_infos.h"

#define MS INT64_C(1000000)

static struct ros_known_infos known;
static struct ros_matched matched;
static int64_t now_ns;

// Whether it has to be asked for; then it is ours where the number is odd.
static bool asks(uint64_t publisher)
{
    bool are_ours;
    now_ns += 10 * MS;
    const bool is_known = ros_known_infos_find(&known, publisher, matched, now_ns, &are_ours);
    if (is_known)
        assert_int_equal(are_ours, publisher % 2);
    else
        ros_known_infos_add(&known, publisher, now_ns, publisher % 2);
    return !is_known;
}

static int setup(void **state)
{
    (void)state;
    known = (struct ros_known_infos){.n = 0};
    matched = (struct ros_matched){1, 1};
    return 0;
}

static void once_a_second(void **state)
{
    (void)state;
    int n_asked = 0;
    for (int i = 0; i < 1000; i++)
        n_asked += asks(7) + asks(8);
    assert_true(n_asked >= 30 && n_asked <= 40); // 20 s of two
}

static void a_publisher_comes_or_goes(void **state)
{
    (void)state;
    assert_true(asks(7));
    assert_false(asks(7));
    matched.images++;
    assert_true(asks(7));
    matched.infos++;
    assert_true(asks(7));
    assert_true(asks(8));
    assert_false(asks(7));
    assert_false(asks(8));
}

static void more_than_it_keeps(void **state)
{
    (void)state;
    for (uint64_t publisher = 1; publisher <= 3 * ROS_KNOWN_INFOS; publisher++) {
        assert_true(asks(publisher));
        assert_false(asks(publisher));
    }
    for (uint64_t back = 0; back < ROS_KNOWN_INFOS; back++)
        assert_false(asks(3 * ROS_KNOWN_INFOS - back));
    assert_true(asks(1));
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(once_a_second),
        TEST(a_publisher_comes_or_goes),
        TEST(more_than_it_keeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
