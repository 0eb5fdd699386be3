// SPDX-License-Identifier: Apache-2.0
// The way from a camera's thread to the reader: what is late, and what only came before anybody
// read.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/live_queue.h"

static struct live live;
static const struct live_camera camera = {.intrinsics = {60, 60, 3.5, 2.5, 8, 6}};

static int setup(void **state)
{
    (void)state;
    live = (struct live){0};
    return live_create(&live, &camera, 0);
}

static int teardown(void **state)
{
    (void)state;
    live_destroy(&live);
    return 0;
}

static void put(uint64_t index, unsigned flags)
{
    const struct capture_frame frame = {.index = index, .flags = flags};
    uint16_t *pixels = flags & CAPTURE_DAMAGED ? NULL : live_take(&live);
    for (size_t i = 0; pixels && i < 48; i++)
        pixels[i] = (uint16_t)(1000 + index);
    live_put(&live, &frame, pixels, &camera);
}

static void check_next(uint64_t index, unsigned flags)
{
    struct capture_frame frame;
    assert_int_equal(live_wait(&live, 0, &frame), 0);
    assert_int_equal(frame.index, index);
    assert_int_equal(frame.flags, flags);
    assert_true((frame.image.depth == NULL) == (flags != 0));
}

static void frames_from_before_the_first_read_are_early(void **state)
{
    (void)state;
    struct capture_frame frame;
    for (uint64_t i = 0; i < 12; i++) // more than there are buffers for
        put(i, i == 3 ? CAPTURE_DAMAGED : 0);
    for (uint64_t i = 0; i < 11; i++)
        check_next(i, i == 3 ? CAPTURE_DAMAGED : CAPTURE_LATE | CAPTURE_EARLY);
    check_next(11, CAPTURE_LATE | CAPTURE_EARLY); // its pixels found no buffer
    assert_int_equal(live_wait(&live, 0, &frame), -EAGAIN);
    put(12, 0);
    put(13, 0);
    check_next(12, CAPTURE_LATE); // the reader's own fault
    check_next(13, 0);
}

static void the_newest_of_them_is_taken(void **state)
{
    (void)state;
    put(0, 0);
    put(1, 0);
    check_next(0, CAPTURE_LATE | CAPTURE_EARLY);
    put(2, 0);
    check_next(1, CAPTURE_LATE | CAPTURE_EARLY); // it came before, too
    check_next(2, 0);
}

static void none_is_early_for_who_waits(void **state)
{
    (void)state;
    struct capture_frame frame;
    assert_int_equal(live_wait(&live, 0, &frame), -EAGAIN);
    put(0, 0);
    put(1, 0);
    check_next(0, CAPTURE_LATE);
    check_next(1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_from_before_the_first_read_are_early, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_newest_of_them_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(none_is_early_for_who_waits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
