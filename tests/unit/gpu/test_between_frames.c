// SPDX-License-Identifier: Apache-2.0
// Frames between keyframes: which are kept, that they are thinned evenly, and that a copy is one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/model/between_frames.h"
#include "proto/se3.h"

#define N_PX 2

static struct between_frames frames;

static int begin(void **state)
{
    (void)state;
    return between_frames_create(&frames, N_PX);
}

static int end(void **state)
{
    (void)state;
    between_frames_free(&frames);
    return frames.z_m != NULL;
}

// Offers frames from..to; frame i is at i ns and i m, and sees i and -i.
static void offer(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct se3 T = se3_identity();
        T.t_m[0] = i;
        float *z_m = between_frames_offer(&frames, i, &T);
        if (z_m) {
            z_m[0] = (float)i;
            z_m[1] = -(float)i;
        }
    }
}

static void assert_every(const struct between_frames *kept, uint32_t n, uint32_t step)
{
    assert_int_equal(kept->n, n);
    for (uint32_t i = 0; i < n; i++) {
        const float *z_m = between_frames_depth(kept, i);
        assert_int_equal(kept->frames[i].time_ns, i * step);
        assert_true(kept->frames[i].T_odom_camera.t_m[0] == i * step);
        assert_true(z_m[0] == (float)(i * step) && z_m[1] == -(float)(i * step));
    }
}

static void they_are_thinned_evenly(void **state)
{
    (void)state;
    const uint32_t first = BETWEEN_FRAMES_STEP * BETWEEN_FRAMES_MAX;
    offer(0, 1);
    assert_every(&frames, 1, BETWEEN_FRAMES_STEP);
    offer(1, first);
    assert_every(&frames, BETWEEN_FRAMES_MAX, BETWEEN_FRAMES_STEP);
    offer(first, first + 1);
    assert_every(&frames, BETWEEN_FRAMES_MAX / 2 + 1, 2 * BETWEEN_FRAMES_STEP);
    offer(first + 1, 2 * first);
    assert_every(&frames, BETWEEN_FRAMES_MAX, 2 * BETWEEN_FRAMES_STEP);
    offer(2 * first, 4 * first + 1);
    assert_every(&frames, BETWEEN_FRAMES_MAX / 2 + 1, 8 * BETWEEN_FRAMES_STEP);
    between_frames_clear(&frames);
    offer(0, 10);
    assert_every(&frames, 4, BETWEEN_FRAMES_STEP);
}

static void a_copy_stays(void **state)
{
    (void)state;
    struct between_frames copy;
    between_frames_clear(&frames);
    offer(0, 10);
    assert_int_equal(between_frames_copy(&copy, &frames), 0);
    between_frames_clear(&frames);
    offer(20, 40);
    assert_every(&copy, 4, BETWEEN_FRAMES_STEP);
    between_frames_free(&copy);
}

static void what_could_not_be_read_is_not_kept(void **state)
{
    (void)state;
    between_frames_clear(&frames);
    offer(0, 10);
    while (!between_frames_offer(&frames, 10, &(struct se3){{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0}}))
        ;
    between_frames_withdraw(&frames);
    assert_every(&frames, 4, BETWEEN_FRAMES_STEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_thinned_evenly),
        cmocka_unit_test(a_copy_stays),
        cmocka_unit_test(what_could_not_be_read_is_not_kept),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
