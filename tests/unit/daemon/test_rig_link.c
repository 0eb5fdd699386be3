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
    rig_link_put(&link, 0, 0, false);
    rig_link_put(&link, 1, 0, false);
    rig_link_follow(&link, 0);
    assert_false(link.is_cut);
    return link;
}

static void test_one_carries_the_other(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 1, 1, true); // it was lost, and begins anew
    rig_link_follow(&link, 0);
    assert_false(link.is_cut);
    rig_link_put(&link, 1, 2, false); // it is reset
    rig_link_follow(&link, 0);
    assert_false(link.is_cut);
}

static void test_lost_together(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 0, 1, true);
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
    rig_link_put(&link, 1, 0, false); // back in its old epoch, of which the rig has no place
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
    rig_link_put(&link, 0, 2, false); // a reset of one
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
    rig_link_put(&link, 1, 1, false); // and of the other
    rig_link_follow(&link, 1);
    assert_false(link.is_cut);
}

static void test_reset_begins_the_poses(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 0, 1, true);
    rig_link_follow(&link, 1);
    rig_link_put(&link, 0, 2, false); // nobody else is tracked
    rig_link_follow(&link, 2);
    assert_false(link.is_cut);
    rig_link_put(&link, 0, 2, false);
    rig_link_follow(&link, 3); // for the other one, which was not asked to
    assert_true(link.is_cut);
}

static void test_newest_counts(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 0, 1, false); // a reset, while the other carries the rig
    rig_link_follow(&link, 0);
    rig_link_put(&link, 1, 1, true); // then both are lost, and this one is back first
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
}

static void test_ended_and_found(void **state)
{
    (void)state;
    struct rig_link link = link_of_two();
    rig_link_put(&link, 0, 1, true);
    rig_link_follow(&link, 1);
    rig_link_end(&link, 1);
    rig_link_follow(&link, 1);
    assert_true(link.is_cut);
    rig_link_put(&link, 0, 1, false); // found in the map that was loaded
    rig_link_follow(&link, 1);
    assert_false(link.is_cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_carries_the_other),  cmocka_unit_test(test_lost_together),
        cmocka_unit_test(test_reset_begins_the_poses), cmocka_unit_test(test_newest_counts),
        cmocka_unit_test(test_ended_and_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
