// SPDX-License-Identifier: Apache-2.0
// The wall's time of a live camera's frames: it is the monotonic clock's with one difference, until
// the wall's clock is set, either way.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "capture/live_clock.h"

#define MS     INT64_C(1000000)
#define S      (1000 * MS)
#define PERIOD (33 * MS)

static char said[2000];
static struct live_clock frames;
static int64_t mono_ns = 20 * S, offset_ns, slept_ns; // of the machine
static int64_t begun_ns;                              // set_ns of a source that has just begun

static void hear(void *user, enum log_level level, const char *text)
{
    (void)user;
    assert_int_equal(level, LOG_LEVEL_WARNING);
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", text);
}

static struct live_clock_reading reading(int64_t took_ns)
{
    const int64_t middle_ns = mono_ns + took_ns / 2;
    return (struct live_clock_reading){mono_ns, middle_ns + offset_ns, middle_ns + slept_ns,
                                       mono_ns + took_ns};
}

// A frame a period later: its time on the wall.
static int64_t next(void)
{
    mono_ns += PERIOD;
    const struct live_clock_reading now = reading(200);
    live_clock_follow(&frames, &now);
    return live_clock_wall_ns(&frames, mono_ns);
}

static int setup(void **state)
{
    (void)state;
    said[0] = 0;
    mono_ns += 20 * S;
    offset_ns = 1700000000 * S;
    slept_ns = 5 * S;
    const struct live_clock_reading now = reading(0);
    live_clock_begin(&frames, "v4l2:2", &(struct log_sink){.write = hear}, &now);
    begun_ns = frames.offsets.set_ns;
    return 0;
}

static void times_are_even(void **state)
{
    (void)state;
    assert_true(live_clock_wall_ns(&frames, mono_ns) == mono_ns + offset_ns);
    for (int i = 0; i < 3000; i++)
        assert_true(next() == mono_ns + 1700000000 * S);
    assert_true(frames.offsets.set_ns == begun_ns);
    assert_string_equal(said, "");
}

// Each time at the next frame, with one line.
static void check_step(int64_t step_ns, const char *line)
{
    const int64_t before_ns = frames.offsets.set_ns;
    said[0] = 0;
    offset_ns += step_ns;
    for (int i = 0; i < 100; i++) {
        assert_true(next() == mono_ns + offset_ns);
        assert_true(frames.offsets.set_ns == before_ns + step_ns);
    }
    assert_string_equal(said, line);
}

#define FOLLOWS "the frames' times follow it from here on, and tracking goes on\n"

static void a_clock_that_is_set(void **state)
{
    (void)state;
    check_step(3600 * S, "v4l2:2: the machine's clock was set 3600.000 s forward: " FOLLOWS);
    check_step(-3600 * S, "v4l2:2: the machine's clock was set 3600.000 s back: " FOLLOWS);
    check_step(-1001 * MS, "v4l2:2: the machine's clock was set 1.001 s back: " FOLLOWS);
    check_step(999 * MS, "v4l2:2: the machine's clock was set 0.999 s forward: " FOLLOWS);
    check_step(-130 * MS, "v4l2:2: the machine's clock was set 0.130 s back: " FOLLOWS);
}

// A machine that starts without the time, and NTP sets it.
static void from_1970_on(void **state)
{
    (void)state;
    offset_ns = 0;
    const struct live_clock_reading now = reading(0);
    live_clock_begin(&frames, "kinect 0", &(struct log_sink){.write = hear}, &now);
    check_step(1700000000 * S,
               "kinect 0: the machine's clock was set 1700000000.000 s forward: " FOLLOWS);
}

// Times that are a tenth of a second off fit to what else there is; some of them are too much.
static void a_small_step_is_none(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        offset_ns += i == 0 ? 120 * MS : 0;
        assert_true(next() == mono_ns + offset_ns - 120 * MS);
    }
    offset_ns -= 240 * MS;
    for (int i = 0; i < 100; i++)
        assert_true(next() == mono_ns + offset_ns + 120 * MS);
    assert_string_equal(said, "");
    offset_ns -= 6 * MS; // 126 in all
    assert_true(next() == mono_ns + offset_ns);
    assert_true(frames.offsets.set_ns == begun_ns - 126 * MS);
}

// That time has passed: nobody set a clock.
static void a_machine_that_slept(void **state)
{
    (void)state;
    offset_ns += 600 * S;
    slept_ns += 600 * S;
    for (int i = 0; i < 100; i++)
        assert_true(next() == mono_ns + offset_ns);
    assert_true(frames.offsets.set_ns == begun_ns);
    assert_string_equal(said, "v4l2:2: the machine slept for 600.000 s\n");
    said[0] = 0;
    offset_ns += 1000 * S; // and meanwhile somebody did
    slept_ns += 600 * S;
    assert_true(next() == mono_ns + offset_ns);
    assert_true(frames.offsets.set_ns == begun_ns + 400 * S);
    assert_string_equal(said, "v4l2:2: the machine slept for 600.000 s\n"
                              "v4l2:2: the machine's clock was set 400.000 s forward: " FOLLOWS);
}

// One that begins after the clock was set knows by how much: its even times meet those of one that
// began before, whichever of them tells of it first, and each tells of what was set since it began.
static void sources_that_begin_at_different_times(void **state)
{
    (void)state;
    static const int64_t step_ms[] = {20000, -3600000, 130};
    struct live_clock other;
    for (size_t i = 0; i < sizeof step_ms / sizeof *step_ms; i++) {
        const int64_t before_ns = frames.offsets.set_ns;
        offset_ns += step_ms[i] * MS;
        mono_ns += PERIOD;
        struct live_clock_reading now = reading(200);
        live_clock_begin(&other, "v4l2:3", &(struct log_sink){.write = hear}, &now);
        assert_string_equal(said, "");
        next();
        assert_true(frames.offsets.set_ns == before_ns + step_ms[i] * MS &&
                    other.offsets.set_ns == frames.offsets.set_ns);
        assert_true(live_clock_wall_ns(&other, mono_ns) == mono_ns + offset_ns);
        assert_true(live_clock_wall_ns(&other, mono_ns) == live_clock_wall_ns(&frames, mono_ns));
        assert_non_null(strstr(said, "v4l2:2: the machine's clock was set "));
        said[0] = 0;
        // What one has read before the other tells of a step says nothing of it.
        const struct live_clock_reading early = reading(200);
        offset_ns += 5 * S;
        next();
        said[0] = 0;
        live_clock_follow(&other, &early);
        assert_non_null(strstr(said, "v4l2:3: the machine's clock was set 5.000 s forward: "));
        assert_true(other.offsets.set_ns == frames.offsets.set_ns &&
                    other.offsets.wall_ns == frames.offsets.wall_ns);
        said[0] = 0;
    }
}

// Stopped between the readings, as by a debugger: the clock was not set.
static void a_thread_that_stood_still(void **state)
{
    (void)state;
    mono_ns += 2 * S;
    const struct live_clock_reading before = {mono_ns, mono_ns + offset_ns, mono_ns + slept_ns,
                                              mono_ns + 60 * S};
    live_clock_follow(&frames, &before);
    mono_ns += 60 * S;
    const struct live_clock_reading after = {mono_ns - 60 * S, mono_ns + offset_ns,
                                             mono_ns + slept_ns, mono_ns};
    live_clock_follow(&frames, &after);
    for (int i = 0; i < 100; i++)
        assert_true(next() == mono_ns + offset_ns);
    assert_true(frames.offsets.set_ns == begun_ns);
    assert_string_equal(said, "");
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(times_are_even),
        TEST(a_clock_that_is_set),
        TEST(from_1970_on),
        TEST(a_small_step_is_none),
        TEST(a_machine_that_slept),
        TEST(a_thread_that_stood_still),
        TEST(sources_that_begin_at_different_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
