// SPDX-License-Identifier: Apache-2.0
// The clock of an OpenNI camera on the machine's: even, near to when the frames come, and never
// back, whatever the camera's crystal, until the camera begins anew.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "capture/openni2/camera_clock.h"

#define MS     INT64_C(1000000)
#define PERIOD (33333 * INT64_C(1000))

static void a_crystal_that_is_off(void **state)
{
    (void)state;
    static const int64_t ppm[] = {0, 100, -100, 300, -300};
    for (size_t k = 0; k < sizeof ppm / sizeof *ppm; k++) {
        struct camera_clock clock = {.is_anchored = false};
        int64_t time_ns = 0;
        for (int64_t i = 0; i < 3000000; i++) { // a day
            const int64_t arrived_ns = 5000 * MS + i * PERIOD + i * 7919 % 5 * MS;
            const int64_t camera_us = (i * PERIOD + i * PERIOD / 1000000 * ppm[k]) / 1000;
            const int64_t newer_ns =
                camera_clock_monotonic_ns(&clock, (uint64_t)camera_us, arrived_ns);
            assert_true(i == 0 || llabs(newer_ns - time_ns - PERIOD) < PERIOD / 500);
            assert_true(llabs(newer_ns - arrived_ns) < 10 * MS);
            time_ns = newer_ns;
        }
    }
}

// A first frame that came late does not make all later ones late.
static void a_late_first_frame(void **state)
{
    (void)state;
    struct camera_clock clock = {.is_anchored = false};
    for (int64_t i = 0; i < 10000; i++) {
        const int64_t arrived_ns = 5000 * MS + i * PERIOD + (i == 0 ? 200 * MS : 0);
        const int64_t time_ns =
            camera_clock_monotonic_ns(&clock, (uint64_t)(i * PERIOD / 1000), arrived_ns);
        assert_true(i < 7000 || llabs(time_ns - arrived_ns) < MS);
    }
}

static void a_camera_that_begins_anew(void **state)
{
    (void)state;
    struct camera_clock clock = {.is_anchored = false};
    static const int64_t begins_us[] = {0, 5000000000, 100, INT64_MAX};
    int64_t arrived_ns = 5000 * MS;
    for (size_t k = 0; k < sizeof begins_us / sizeof *begins_us; k++)
        for (int64_t i = 0; i < 100; i++) {
            arrived_ns += PERIOD;
            const int64_t time_ns = camera_clock_monotonic_ns(
                &clock, (uint64_t)begins_us[k] + (uint64_t)(i * PERIOD / 1000), arrived_ns);
            assert_true(llabs(time_ns - arrived_ns) < MS);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crystal_that_is_off),
        cmocka_unit_test(a_late_first_frame),
        cmocka_unit_test(a_camera_that_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
