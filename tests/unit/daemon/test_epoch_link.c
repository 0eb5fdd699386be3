// SPDX-License-Identifier: Apache-2.0
// Which map epochs cut the way, and what ends that.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/epoch_link.h"

#define S INT64_C(1000000000)

static void test_what_cuts(void **state)
{
    (void)state;
    static const struct {
        enum epoch_cause cause;
        bool cuts;
    } cases[] = {{EPOCH_BY_TRACKER, true}, {EPOCH_BY_REQUEST, false}, {EPOCH_BY_MAP, false},
                 {EPOCH_BY_CLOCK, true},   {EPOCH_BY_CAMERA, true},   {EPOCH_BY_DEVICE, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct epoch_link link = {0};
        epoch_link_expect(&link, cases[i].cause); // before the first frame there is nothing
        epoch_link_follow(&link, 3, false, S);
        assert_false(link.is_cut);
        epoch_link_expect(&link, cases[i].cause); // a device that another took the frame of
        epoch_link_follow(&link, 3, false, S);
        epoch_link_follow(&link, 3, false, S);
        assert_false(link.is_cut);
        epoch_link_expect(&link, cases[i].cause);
        epoch_link_follow(&link, 4, cases[i].cause == EPOCH_BY_MAP, S);
        epoch_link_follow(&link, 4, cases[i].cause == EPOCH_BY_MAP, S);
        assert_int_equal(link.is_cut, cases[i].cuts);
    }
}

static void test_what_is_told(void **state)
{
    (void)state;
    char text[EPOCH_LINK_TEXT_BYTES];
    struct epoch_link link = {0};
    epoch_link_follow(&link, 0, false, S);
    assert_false(epoch_link_tell(&link, S, text));
    epoch_link_follow(&link, 1, false, 20 * S);
    assert_true(epoch_link_tell(&link, 30 * S - 1, text));
    assert_string_equal(text, "the way since map epoch 1 began is not connected to that before: "
                              "tracking was lost, and began anew at the last pose");
    assert_false(epoch_link_tell(&link, 30 * S, text));
    assert_true(link.is_cut); // as long as nobody asks for another beginning
    epoch_link_expect(&link, EPOCH_BY_CLOCK);
    epoch_link_follow(&link, 2, false, 40 * S);
    assert_true(epoch_link_tell(&link, 41 * S, text));
    assert_string_equal(text, "the way since map epoch 2 began is not connected to that before: "
                              "the images' clock was set");
    epoch_link_expect(&link, EPOCH_BY_REQUEST);
    epoch_link_follow(&link, 3, false, 42 * S);
    assert_false(link.is_cut);
    assert_false(epoch_link_tell(&link, 42 * S, text));
}

// A loaded map changes nothing until the camera is found in it.
static void test_a_loaded_map(void **state)
{
    (void)state;
    struct epoch_link link = {0};
    epoch_link_follow(&link, 0, false, S);
    epoch_link_follow(&link, 1, false, S);
    epoch_link_expect(&link, EPOCH_BY_MAP);
    epoch_link_follow(&link, 2, true, S);
    epoch_link_follow(&link, 2, true, S);
    assert_true(link.is_cut);
    epoch_link_follow(&link, 2, false, S);
    assert_false(link.is_cut);
    epoch_link_follow(&link, 3, true, S); // lost for long: it is looked for in the map again
    assert_true(link.is_cut);
    epoch_link_follow(&link, 3, false, S);
    assert_false(link.is_cut);
}

// The loaded map goes with its camera or device: nothing has been found.
static void test_a_loaded_map_is_lost(void **state)
{
    (void)state;
    const enum epoch_cause causes[] = {EPOCH_BY_CAMERA, EPOCH_BY_DEVICE, EPOCH_BY_CLOCK};
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        struct epoch_link link = {0};
        epoch_link_follow(&link, 0, false, S);
        epoch_link_expect(&link, EPOCH_BY_MAP);
        epoch_link_follow(&link, 1, true, S);
        epoch_link_expect(&link, causes[i]);
        epoch_link_follow(&link, 2, false, S);
        epoch_link_follow(&link, 2, false, S);
        assert_true(link.is_cut);
    }
    struct epoch_link link = {0}; // a device that another took the frame of, in the same epoch
    epoch_link_follow(&link, 0, false, S);
    epoch_link_follow(&link, 1, false, S);
    epoch_link_expect(&link, EPOCH_BY_MAP);
    epoch_link_follow(&link, 2, true, S);
    epoch_link_expect(&link, EPOCH_BY_DEVICE);
    epoch_link_follow(&link, 2, false, S);
    assert_true(link.is_cut);
}

// A device that failed before a map is loaded has cut the way.
static void test_a_cut_before_a_map(void **state)
{
    (void)state;
    struct epoch_link link = {0};
    epoch_link_follow(&link, 0, false, S);
    epoch_link_expect(&link, EPOCH_BY_DEVICE);
    epoch_link_expect(&link, EPOCH_BY_MAP);
    epoch_link_follow(&link, 1, true, S);
    assert_true(link.is_cut);
}

// A reset whose epoch a loaded map begins is one all the same.
static void test_a_reset_before_a_map(void **state)
{
    (void)state;
    struct epoch_link link = {0};
    epoch_link_follow(&link, 0, false, S);
    epoch_link_follow(&link, 1, false, S);
    assert_true(link.is_cut);
    epoch_link_expect(&link, EPOCH_BY_REQUEST);
    epoch_link_expect(&link, EPOCH_BY_MAP);
    epoch_link_follow(&link, 3, true, S);
    assert_false(link.is_cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_cuts),          cmocka_unit_test(test_what_is_told),
        cmocka_unit_test(test_a_loaded_map),       cmocka_unit_test(test_a_loaded_map_is_lost),
        cmocka_unit_test(test_a_cut_before_a_map), cmocka_unit_test(test_a_reset_before_a_map)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
