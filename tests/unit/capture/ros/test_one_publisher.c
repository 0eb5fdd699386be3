// SPDX-License-Identifier: Apache-2.0
// Whose images are taken of several publishers on a topic: the first one's, until it is silent for
// too long while another one delivers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "capture/ros/one_publisher.h"

#define MS INT64_C(1000000)
#define A  UINT64_C(11)
#define B  UINT64_C(22)

static struct ros_one_publisher one;

static int setup(void **state)
{
    (void)state;
    one = (struct ros_one_publisher){0};
    return 0;
}

static enum ros_image_of image(uint64_t publisher, int64_t at_ms)
{
    return ros_one_publisher_judge(&one, publisher, true, 5000 * MS + at_ms * MS);
}

static void first_is_taken_while_it_lives(void **state)
{
    (void)state;
    assert_int_equal(image(A, 0), ROS_IMAGE_OF_NEXT);
    assert_int_equal(image(B, 1), ROS_IMAGE_OF_SECOND);
    assert_false(one.are_two); // not known before ours delivers again
    for (int i = 1; i < 100; i++) {
        assert_int_equal(image(A, 33 * i), ROS_IMAGE_OF_OURS);
        assert_true(one.are_two);
        assert_int_equal(image(B, 33 * i + 1), ROS_IMAGE_OF_SECOND);
    }
}

static void after_its_end_the_next_is_taken(void **state)
{
    (void)state;
    assert_int_equal(image(A, 0), ROS_IMAGE_OF_NEXT);
    assert_int_equal(ros_one_publisher_judge(&one, B, false, 5001 * MS), ROS_IMAGE_OF_NEXT);
    assert_int_equal(image(B, 40), ROS_IMAGE_OF_OURS);
    assert_false(one.are_two);
}

// Of two that delivered in turn, whichever was heard last.
static void the_second_is_heir_of_the_first(void **state)
{
    (void)state;
    for (int n_last = 0; n_last < 2; n_last++) {
        one = (struct ros_one_publisher){0};
        for (int i = 0; i < 20; i++) {
            image(A, 33 * i);
            image(B, 33 * i + 5);
        }
        if (n_last == 0)
            image(A, 660);
        assert_int_equal(ros_one_publisher_judge(&one, B, false, 5700 * MS), ROS_IMAGE_OF_HEIR);
        assert_int_equal(one.n_before, 20);
        // it has none itself
        assert_int_equal(image(B, 733), ROS_IMAGE_OF_OURS);
        assert_int_equal(ros_one_publisher_judge(&one, A, false, 5800 * MS), ROS_IMAGE_OF_NEXT);
    }
}

// Killed: the successor counts after a second, at any rate that has five images in it.
static void successor_of_a_silent_one(void **state)
{
    (void)state;
    static const int periods_ms[] = {10, 33, 100, 200};
    for (size_t k = 0; k < sizeof periods_ms / sizeof *periods_ms; k++) {
        one = (struct ros_one_publisher){0};
        const int period_ms = periods_ms[k];
        for (int i = 0; i < 20; i++)
            image(A, i * period_ms);
        const int64_t last_ms = INT64_C(19) * period_ms;
        for (int i = 1; i <= 20; i++)
            assert_int_equal(image(B, last_ms + 50 * i), ROS_IMAGE_OF_SECOND);
        assert_int_equal(image(B, last_ms + 1001), ROS_IMAGE_OF_SUCCESSOR);
        assert_int_equal(one.n_before, 20);
        assert_int_equal(one.silence_ns, 1001 * MS);
        assert_int_equal(image(B, last_ms + 1050), ROS_IMAGE_OF_OURS);
        assert_false(one.are_two); // the first one was never seen to live beside it
        // the one that comes back is the second
        assert_int_equal(image(A, last_ms + 1060), ROS_IMAGE_OF_SECOND);
        assert_int_equal(image(B, last_ms + 1070), ROS_IMAGE_OF_OURS);
        assert_true(one.are_two);
    }
}

// Slower than a second a period, from their first images on; also where a pause made them change.
static void slow_ones_do_not_take_turns(void **state)
{
    (void)state;
    static const int periods_ms[] = {900, 2000, 5000, 9000};
    for (size_t k = 0; k < sizeof periods_ms / sizeof *periods_ms; k++) {
        one = (struct ros_one_publisher){0};
        const int64_t period_ms = periods_ms[k];
        int n_changes = 0;
        image(A, 0);
        for (int i = 0; i < 200; i++) {
            n_changes += image(B, i * period_ms + period_ms * 3 / 5) == ROS_IMAGE_OF_SUCCESSOR;
            n_changes += image(A, (i + 1) * period_ms) == ROS_IMAGE_OF_SUCCESSOR;
        }
        assert_true(n_changes <= (period_ms > 3000));
    }
}

// One that pauses for long again and again.
static void pauses_need_more_each_time(void **state)
{
    (void)state;
    int n_changes = 0;
    int64_t ms = 0;
    for (int i = 0; i < 200; i++) { // in turn each is silent for 4 s
        for (int n = 0; n < 120; n++, ms += 33)
            n_changes += image(i % 2 ? A : B, ms) == ROS_IMAGE_OF_SUCCESSOR;
    }
    assert_true(n_changes >= 1 && n_changes <= 2);
    assert_true(one.least_silence_ns > 2000 * MS);
}

// Both delivered while this program stood still.
static void nobody_is_silent_while_nobody_listens(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        ros_one_publisher_listen(&one, (5000 + 33 * i) * MS);
        image(A, 33 * i);
    }
    ros_one_publisher_listen(&one, 9000 * MS);
    assert_int_equal(image(B, 4000), ROS_IMAGE_OF_SECOND);
    for (int i = 1; i < 20; i++) {
        ros_one_publisher_listen(&one, (9000 + 50 * i) * MS);
        assert_int_equal(image(B, 4000 + 50 * i), ROS_IMAGE_OF_SECOND);
    }
    ros_one_publisher_listen(&one, 10100 * MS);
    assert_int_equal(image(B, 5100), ROS_IMAGE_OF_SUCCESSOR);
}

// Both paused, and the other one is heard first: that is chance.
static void a_pause_of_both_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        image(A, 33 * i);
        image(B, 33 * i + 5);
    }
    assert_int_equal(image(B, 5700), ROS_IMAGE_OF_SECOND);
    assert_int_equal(image(A, 5705), ROS_IMAGE_OF_OURS);
    assert_int_equal(image(B, 5733), ROS_IMAGE_OF_SECOND);
    // Ours alone does not go on: that is its end.
    for (int i = 1; i <= 60; i++) {
        assert_int_equal(image(A, 5705 + 33 * i), ROS_IMAGE_OF_OURS);
        assert_int_equal(image(B, 5710 + 33 * i), ROS_IMAGE_OF_SECOND);
    }
    for (int i = 0; i < 40; i++)
        assert_int_equal(image(B, 7710 + 25 * i), ROS_IMAGE_OF_SECOND);
    assert_int_equal(image(B, 8710), ROS_IMAGE_OF_SUCCESSOR);
}

// However long one was away, the next silence is waited for half a minute at most, and an end that
// DDS tells of ends that, too.
static void a_long_absence_is_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        image(A, 33 * i);
    for (int i = 0; i < 100; i++)
        image(B, 2000 + 33 * i);
    assert_int_equal(one.ours, B);
    assert_int_equal(image(A, 3600000), ROS_IMAGE_OF_SECOND);
    assert_int_equal(one.least_silence_ns, ROS_SILENCE_MOST_NS);
    assert_int_equal(ros_one_publisher_judge(&one, A, false, 5000 * MS + 3700000 * MS),
                     ROS_IMAGE_OF_HEIR);
    assert_int_equal(one.least_silence_ns, 0);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(first_is_taken_while_it_lives),   TEST(after_its_end_the_next_is_taken),
        TEST(successor_of_a_silent_one),       TEST(slow_ones_do_not_take_turns),
        TEST(a_pause_of_both_changes_nothing), TEST(a_long_absence_is_forgotten),
        TEST(pauses_need_more_each_time),      TEST(nobody_is_silent_while_nobody_listens),
        TEST(the_second_is_heir_of_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
