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

// Forward, back, and back to the seventies: within a second or so the frames follow, one of them
// says so, none is left out, and none but that one is further from the one before than in time.
static void assert_follows_wall(struct capture *capture)
{
    static const int set_s[] = {3600, 0, -3600, -1700000000, 0};
    struct capture_frame frame, before;
    assert_int_equal(capture_read(capture, 5000, &before), 0);
    for (size_t k = 0; k < sizeof set_s / sizeof *set_s; k++) {
        fake_wall->set_s = set_s[k];
        int n_new = 0, n_read = 0;
        for (int n_after = 0; n_after < 30; n_after += n_new) {
            assert_true(n_read++ < 300);
            assert_int_equal(capture_read(capture, 1000, &frame), 0);
            assert_int_equal(frame.index, before.index + 1);
            const int64_t step_ns = frame.image.time_ns - before.image.time_ns;
            const int64_t passed_ns = frame.capture_mono_ns - before.capture_mono_ns;
            if (frame.flags & CAPTURE_NEW_CLOCK)
                n_new++;
            else
                assert_true(step_ns > 0 && llabs(step_ns - passed_ns) < NEAR_NS);
            before = frame;
        }
        assert_int_equal(n_new, 1);
        // It may have waited for its reader.
        const int64_t waited_ns = clock_monotonic_ns() - frame.capture_mono_ns;
        assert_true(llabs(clock_wall_ns() - waited_ns - frame.image.time_ns) < NEAR_NS);
    }
}

#endif
