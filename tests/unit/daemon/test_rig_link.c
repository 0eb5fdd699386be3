// SPDX-License-Identifier: Apache-2.0
// Which epochs of a rig cut its way, and what ends that.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/rig_link.h"

static struct rig_link link_of_two(void)
{
    struct rig_link link = {.n_cameras = 2};
    rig_link_put(&link, 0, 0, 0, false);
    rig_link_put(&link, 1, 0, 0, false);
    rig_link_follow(&link, 0);
    assert_false(link.is_cut);
    return link;
}

static void test_one_carries_the_other(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 1, 0, 1, true); // it was lost, and begins anew
    rig_link_follow(&link, 0);
    assert_false(link.is_cut);
    rig_link_put(&link, 1, 0, 2, false); // it is reset
    rig_link_follow(&link, 0);
    assert_false(link.is_cut);
}

static void test_lost_together(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 0, 0, 1, true);
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
    rig_link_put(&link, 1, 0, 0, false); // back in its old epoch, of which the rig has no place
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
    rig_link_put(&link, 0, 0, 2, false); // a reset of one
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
    rig_link_put(&link, 1, 0, 1, false); // and of the other
    rig_link_follow(&link, 1);
    assert_false(link.is_cut);
}

static void test_reset_begins_the_poses(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 0, 0, 1, true);
    rig_link_follow(&link, 1);
    rig_link_put(&link, 0, 0, 2, false); // nobody else is tracked
    rig_link_follow(&link, 2);
    assert_false(link.is_cut);
    rig_link_put(&link, 0, 0, 2, false);
    rig_link_follow(&link, 3); // for the other one, which was not asked to
    assert_true(link.is_cut);
}

static void test_newest_counts(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 0, 0, 1, false); // a reset, while the other carries the rig
    rig_link_follow(&link, 0);
    rig_link_put(&link, 1, 0, 1, true); // then both are lost, and this one is back first
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
}

static void test_ended_and_found(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 0, 0, 1, true);
    rig_link_follow(&link, 1);
    rig_link_end(&link, 1);
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
    rig_link_put(&link, 0, 0, 1, false); // found in the map that was loaded
    rig_link_follow(&link, 1);
    assert_false(link.is_cut);
}

// One that was unplugged gets no reset; nor does one that never came.
static void test_gone(void **state)
{
    (void)state;
    const int64_t t = INT64_C(5000000000);
    for (int has_come = 0; has_come < 2; has_come++) {
        struct rig_link link = {.n_cameras = 3};
        for (uint32_t i = 0; i < 2U + (uint32_t)has_come; i++)
            rig_link_put(&link, i, t, 0, false);
        rig_link_follow(&link, 0);
        rig_link_put(&link, 0, t, 1, true);
        rig_link_follow(&link, 1); // all were lost together
        assert_true(link.is_cut);
        rig_link_put(&link, 0, t + RIG_LINK_GONE_NS, 2, false); // both are reset
        rig_link_put(&link, 1, t + RIG_LINK_GONE_NS, 1, false);
        rig_link_follow(&link, 1);
        assert_int_equal(link.is_cut, has_come); // it may just be late
        rig_link_put(&link, 0, t + RIG_LINK_GONE_NS + 1, 2, false);
        rig_link_follow(&link, 1);
        assert_false(link.is_cut);
        // it is back, and begins anew by itself: the others carry the rig
        rig_link_put(&link, 2, t + RIG_LINK_GONE_NS + 2, 1, true);
        rig_link_follow(&link, 1);
        assert_false(link.is_cut);
        // lost together once more: that it was away does not count now
        rig_link_put(&link, 0, t + RIG_LINK_GONE_NS + 3, 3, true);
        rig_link_follow(&link, 2);
        rig_link_put(&link, 0, t + RIG_LINK_GONE_NS + 4, 4, false);
        rig_link_put(&link, 1, t + RIG_LINK_GONE_NS + 4, 2, false);
        rig_link_follow(&link, 2);
        assert_true(link.is_cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_carries_the_other),  cmocka_unit_test(test_lost_together),
        cmocka_unit_test(test_reset_begins_the_poses), cmocka_unit_test(test_newest_counts),
        cmocka_unit_test(test_ended_and_found),        cmocka_unit_test(test_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
