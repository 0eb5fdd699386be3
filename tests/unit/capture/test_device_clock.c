// SPDX-License-Identifier: Apache-2.0
// A camera's counter of 32 bits as a time that grows: over its end, over pauses of several rounds,
// and where it cannot be believed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/kinect/device_clock.h"

#define S    INT64_C(1000000000)
#define WRAP (INT64_C(1) << 32)

static struct device_clock device;
static uint64_t ticks;
static int64_t time_ns;

static bool update(uint64_t counter, int64_t host_ns)
{
    return device_clock_update(&device, (uint32_t)counter, host_ns, &ticks, &time_ns);
}

static void start(uint64_t counter, int64_t host_ns)
{
    device = (struct device_clock){0};
    assert_true(update(counter, host_ns));
    assert_true(ticks == (uint32_t)counter && time_ns == host_ns);
}

// Frames at 30 Hz past the counter's end, to the tick.
static void past_the_end(void **state)
{
    (void)state;
    const uint64_t begin = (uint64_t)WRAP - 5 * (DEVICE_CLOCK_HZ / 30), step = DEVICE_CLOCK_HZ / 30;
    start(begin, 100 * S);
    for (uint64_t i = 1; i < 20; i++) {
        assert_true(update(begin + i * step, 100 * S + (int64_t)i * S / 30));
        assert_true(ticks == begin + i * step);
        assert_true(time_ns == 100 * S + (int64_t)(i * step) * S / DEVICE_CLOCK_HZ);
    }
    // The last tick and the first are neighbours.
    start((uint64_t)WRAP - 1, 50 * S);
    assert_true(update((uint64_t)WRAP, 50 * S + S / DEVICE_CLOCK_HZ));
    assert_true(ticks == (uint64_t)WRAP);
}

// The host's clock says how many rounds a pause took, within 2 s.
static void pauses(void **state)
{
    (void)state;
    for (int rounds = 0; rounds < 4; rounds++)
        for (int off = -1; off <= 1; off++) {
            const int64_t step = rounds * WRAP + DEVICE_CLOCK_HZ * INT64_C(3);
            const int64_t passed_ns =
                step / DEVICE_CLOCK_HZ * S + step % DEVICE_CLOCK_HZ * S / DEVICE_CLOCK_HZ;
            start(1000, 100 * S);
            assert_true(update(1000 + (uint64_t)step, 100 * S + passed_ns + off * 19 * S / 10));
            assert_true(ticks == 1000 + (uint64_t)step);
            assert_true(time_ns == 100 * S + passed_ns);
        }
}

// Farther apart than 2 s: the counter began anew, and the host's clock is taken from there.
static void disagreement(void **state)
{
    (void)state;
    start(1000, 100 * S);
    assert_true(update(1000 + DEVICE_CLOCK_HZ, 103 * S)); // 1 s and 3 s: just believed
    assert_true(time_ns == 101 * S);
    start(1000, 100 * S);
    assert_true(update(1000 + DEVICE_CLOCK_HZ, 103 * S + S / 100));
    assert_true(time_ns == 103 * S + S / 100);
    assert_true(ticks == 1000 + DEVICE_CLOCK_HZ);
    assert_true(update(1000 + 2 * DEVICE_CLOCK_HZ, 104 * S + S / 100)); // and on from there
    assert_true(time_ns == 104 * S + S / 100);
}

// The counter stands, or goes back while the host's clock does not go on: no frame.
static void never_back(void **state)
{
    (void)state;
    start(1000, 100 * S);
    assert_false(update(1000, 100 * S));
    assert_false(update(999, 100 * S));
    assert_false(update(1000 + DEVICE_CLOCK_HZ, 97 * S));
    assert_true(update(1001, 100 * S));
    assert_true(ticks == 1001);
    assert_false(update(1002, 100 * S + 2 * 86400 * 365 * S)); // no clock does this
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(past_the_end), cmocka_unit_test(pauses),
                                       cmocka_unit_test(disagreement),
                                       cmocka_unit_test(never_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
