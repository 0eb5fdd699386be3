// SPDX-License-Identifier: Apache-2.0
// Kept frames are lent, not copied: what is read back is the source's own memory, which the source
// does not hand out again until the frame is pushed out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "daemon/frames.h"
#include "tests/unit/camera.h"

#define N_PIXELS 12 // 4 x 3
#define N_KEPT   3

static struct buffers *camera;

// Frame seq as the source hands it out: all pixels seq. Its memory goes back when the next comes.
static uint16_t *put(struct frames *frames, uint64_t seq)
{
    const struct intrinsics intrinsics = {.fx_px = 500 + (double)seq};
    uint16_t *pixels = buffers_take(camera);
    assert_non_null(pixels);
    for (int i = 0; i < N_PIXELS; i++)
        pixels[i] = (uint16_t)seq;
    const struct capture_frame frame = {
        .image = {.depth = pixels, .width_px = 4, .height_px = 3, .time_ns = (int64_t)seq * 7},
        .buffers = camera};
    frames_put(frames, seq, &frame, &intrinsics);
    buffers_give(camera, pixels);
    return pixels;
}

static void assert_kept(struct frames *frames, uint64_t seq, uint16_t pixel)
{
    uint16_t depth[N_PIXELS];
    struct depth_frame image;
    struct intrinsics intrinsics;
    assert_int_equal(frames_get(frames, seq, depth, &image, &intrinsics), 0);
    assert_ptr_equal(image.depth, depth);
    assert_int_equal(image.time_ns, seq * 7);
    assert_true(intrinsics.fx_px == 500 + (double)seq);
    for (int i = 0; i < N_PIXELS; i++)
        assert_int_equal(depth[i], pixel);
}

static void assert_not_kept(struct frames *frames, uint64_t seq)
{
    uint16_t depth[N_PIXELS];
    struct depth_frame image;
    struct intrinsics intrinsics;
    assert_int_equal(frames_get(frames, seq, depth, &image, &intrinsics), -ENOENT);
}

static void test_lent(void **state)
{
    (void)state;
    struct frames *frames;
    camera = camera_create(N_PIXELS, N_KEPT);
    assert_int_equal(frames_create(&frames, N_KEPT), 0);
    uint16_t *first = put(frames, 0);
    assert_kept(frames, 0, 0);
    first[0] = 999; // the source's own pixels, not a copy of them
    uint16_t depth[N_PIXELS];
    struct depth_frame image;
    struct intrinsics intrinsics;
    assert_int_equal(frames_get(frames, 0, depth, &image, &intrinsics), 0);
    assert_int_equal(depth[0], 999);
    first[0] = 0;
    // As long as it is kept no other frame gets its memory; pushed out, it comes back.
    for (uint64_t seq = 1; seq < N_KEPT; seq++)
        assert_ptr_not_equal(put(frames, seq), first);
    assert_kept(frames, 0, 0);
    assert_kept(frames, N_KEPT - 1, N_KEPT - 1);
    put(frames, N_KEPT);
    assert_not_kept(frames, 0);
    bool came_back = false;
    for (uint64_t seq = N_KEPT + 1; seq <= 3 * N_KEPT; seq++)
        came_back = put(frames, seq) == first || came_back;
    assert_true(came_back);
    frames_destroy(&frames);
    assert_null(frames);
    assert_int_equal(camera->n_keepable, N_KEPT); // all of it is given back
    camera_destroy(camera);
}

static void test_newest(void **state)
{
    (void)state;
    struct frames *frames;
    uint16_t depth[N_PIXELS];
    struct depth_frame image;
    struct intrinsics intrinsics;
    uint64_t seq = 77;
    camera = camera_create(N_PIXELS, N_KEPT);
    assert_int_equal(frames_create(&frames, N_KEPT), 0);
    assert_int_equal(frames_get_newest(frames, depth, &image, &intrinsics, &seq), -ENOENT);
    for (uint64_t i = 0; i < 8; i++) {
        put(frames, i);
        assert_int_equal(frames_get_newest(frames, depth, &image, &intrinsics, &seq), 0);
        assert_int_equal(seq, i);
        assert_int_equal(depth[N_PIXELS - 1], i);
        assert_not_kept(frames, i + 1);
    }
    for (uint64_t i = 0; i < 8; i++)
        if (i < 8 - N_KEPT)
            assert_not_kept(frames, i);
        else
            assert_kept(frames, i, (uint16_t)i);
    frames_destroy(&frames);
    camera_destroy(camera);
}

// None are to be kept, or the source lends none.
static void test_none(void **state)
{
    (void)state;
    struct frames *frames;
    uint16_t depth[N_PIXELS];
    struct depth_frame image;
    struct intrinsics intrinsics;
    uint64_t seq;
    camera = camera_create(N_PIXELS, 0);
    for (uint32_t n = 0; n < 2; n++) {
        assert_int_equal(frames_create(&frames, n), 0);
        put(frames, 0);
        assert_not_kept(frames, 0);
        assert_int_equal(frames_get_newest(frames, depth, &image, &intrinsics, &seq), -ENOENT);
        frames_destroy(&frames);
    }
    frames_destroy(&frames);
    camera_destroy(camera);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lent),
        cmocka_unit_test(test_newest),
        cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
