// SPDX-License-Identifier: Apache-2.0
// A camera's frames while the wall's clock is set (tests/fake_wall.h), for the tests of its
// drivers. Include behind cmocka.h.
#ifndef POSED_TESTS_UNIT_CAPTURE_WALL_H
#define POSED_TESTS_UNIT_CAPTURE_WALL_H

#include <stdlib.h>

#include "capture/capture.h"
#include "proto/clock.h"
#include "tests/fake_wall.h"

// Threads of a busy machine stand still for as long; the clock is set by an hour and more.
#define NEAR_NS INT64_C(5000000000)

// Forward, back, back to the seventies, and by less than a second: the next frame follows, none is
// left out, and but for what the clock was set by none is further from the one before than in time.
static void assert_follows_wall(struct capture *capture)
{
    static const struct {
        int s, ms;
    } set[] = {{3600, 0}, {0, 0},   {-3600, 0}, {-1700000000, 0}, {0, 0}, {0, 150},
               {0, 1000}, {0, 130}, {0, 0}};
    struct capture_frame frame, before;
    assert_int_equal(capture_read(capture, 5000, &before), 0);
    for (size_t k = 0; k < sizeof set / sizeof *set; k++) {
        const int64_t set_ns = set[k].s * INT64_C(1000000000) + set[k].ms * INT64_C(1000000);
        fake_wall->set_s = set[k].s;
        fake_wall->set_ms = set[k].ms;
        int n_changes = 0, n_read = 0;
        for (int n_after = 0; n_after < 30; n_after += n_changes) {
            assert_true(n_read++ < 300);
            assert_int_equal(capture_read(capture, 1000, &frame), 0);
            assert_int_equal(frame.index, before.index + 1);
            assert_false(frame.flags & CAPTURE_NEW_CLOCK);
            const int64_t step_ns = capture_even_ns(&frame) - capture_even_ns(&before);
            const int64_t passed_ns = frame.capture_mono_ns - before.capture_mono_ns;
            assert_true(step_ns > 0 && llabs(step_ns - passed_ns) < NEAR_NS);
            n_changes += llabs(frame.clock_set_ns - before.clock_set_ns) > 100000000;
            before = frame;
        }
        assert_int_equal(n_changes, 1);
        assert_true(llabs(frame.clock_set_ns - set_ns) < 100000000);
        // It may have waited for its reader.
        const int64_t waited_ns = clock_monotonic_ns() - frame.capture_mono_ns;
        assert_true(llabs(clock_wall_ns() - waited_ns - frame.image.time_ns) < NEAR_NS);
    }
}

#endif
