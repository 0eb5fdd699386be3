// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/ros/lost_images.h"

#define MS      INT64_C(1000000)
#define SENT_NS (1000000 * MS) // the publisher's clock is another one
#define PERIOD  (50 * MS)

static struct ros_lost_images lost;
static int64_t now_ns;

// Image k, after `passed_ns` of which nobody looked.
static uint64_t image(int64_t k, int64_t passed_ns)
{
    now_ns += passed_ns;
    ros_lost_images_look(&lost, now_ns);
    return ros_lost_images_judge(&lost, SENT_NS + k * PERIOD, now_ns);
}

static int begin(void **state)
{
    (void)state;
    lost = (struct ros_lost_images){0};
    now_ns = MS;
    for (int64_t k = 0; k < 20; k++)
        assert_int_equal(image(k, PERIOD), 0);
    return 0;
}

// Stopped for 1.5 s: of 30 images the newest 16 were kept.
static void a_history_that_overflows(void **state)
{
    (void)state;
    uint64_t n = image(34, 1500 * MS);
    for (int64_t k = 35; k < 90; k++) {
        assert_int_equal(n, 0);
        n = image(k, k < 50 ? 0 : PERIOD);
        if (n > 0)
            break;
    }
    assert_int_equal(n, 14);
    for (int64_t k = 90; k < 120; k++)
        assert_int_equal(image(k, PERIOD), 0);
}

// A pause says nothing of the rate; another rate does.
static void pauses_before(void **state)
{
    (void)state;
    int64_t k = 20;
    for (int i = 0; i < 3; i++) { // of 60 s
        for (int64_t passed_ns = 0; passed_ns < 1200 * PERIOD; passed_ns += 200 * MS) {
            now_ns += 200 * MS;
            ros_lost_images_look(&lost, now_ns);
        }
        k += 1200;
        for (int n = 0; n < 40; n++)
            assert_int_equal(image(k++, PERIOD), 0);
    }
    assert_int_equal(image(k += 14, 1500 * MS), 0);
    assert_int_equal(image(++k, 0), 0);
    assert_int_equal(ros_lost_images_end(&lost), 14);
    for (int i = 0; i < 300; i++) // a fifth of the rate
        assert_int_equal(image(k += 5, 5 * PERIOD), 0);
    assert_int_equal(image(k += 5, 1500 * MS), 0);
    assert_int_equal(ros_lost_images_end(&lost), 0);
}

static void a_publisher_that_ends_then(void **state)
{
    (void)state;
    assert_int_equal(image(34, 1500 * MS), 0);
    assert_int_equal(image(35, 0), 0);
    assert_int_equal(ros_lost_images_end(&lost), 14);
    assert_int_equal(ros_lost_images_end(&lost), 0);
}

static void what_was_kept_is_not_lost(void **state)
{
    (void)state;
    for (int64_t k = 20; k < 60; k++)
        assert_int_equal(image(k, k == 20 ? 500 * MS : k < 30 ? 0 : PERIOD), 0);
}

// While it was looked for images all the time, or the clock was set, or another's.
static void pauses_of_the_publisher(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        now_ns += 200 * MS;
        ros_lost_images_look(&lost, now_ns);
    }
    assert_int_equal(image(60, 0), 0);
    for (int64_t k = 500; k < 530; k++) // its clock was set
        assert_int_equal(image(k, k == 500 ? 600 * MS : PERIOD), 0);
    ros_lost_images_new_source(&lost);
    assert_int_equal(image(520, 1000 * MS), 0);
    assert_int_equal(image(2, PERIOD), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_history_that_overflows, begin),
        cmocka_unit_test_setup(pauses_before, begin),
        cmocka_unit_test_setup(a_publisher_that_ends_then, begin),
        cmocka_unit_test_setup(what_was_kept_is_not_lost, begin),
        cmocka_unit_test_setup(pauses_of_the_publisher, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
