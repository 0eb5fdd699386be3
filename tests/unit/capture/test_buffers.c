// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "capture/buffers.h"

#define FRAME_BYTES 100

static void frames_have_pages_of_their_own(void **state)
{
    (void)state;
    struct buffers buffers = {0};
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    buffers_destroy(&buffers); // never created
    assert_int_equal(buffers_create(&buffers, 2, 1, page + 1), 0);
    assert_int_equal(buffers.n_bytes, 3 * 2 * page);
    char *a = (char *)buffers_take(&buffers), *b = (char *)buffers_take(&buffers);
    assert_true((uintptr_t)a % page == 0 && (uintptr_t)b % page == 0);
    assert_true(a >= buffers.block && a + page < buffers.block + buffers.n_bytes);
    assert_true(a - b >= (long)(2 * page) || b - a >= (long)(2 * page));
    buffers_destroy(&buffers);
    assert_null(buffers.block);
}

// What is kept is not written again, and does not count against the source.
static void kept_frames_are_nobody_elses(void **state)
{
    (void)state;
    struct buffers buffers = {0};
    assert_int_equal(buffers_create(&buffers, 2, 2, FRAME_BYTES), 0);
    uint16_t *kept[2], *more[2];
    for (int i = 0; i < 2; i++) {
        kept[i] = buffers_take(&buffers);
        assert_true(buffers_keep(&buffers, kept[i]));
        buffers_give(&buffers, kept[i]);
    }
    for (int i = 0; i < 2; i++) {
        more[i] = buffers_take(&buffers);
        assert_non_null(more[i]);
        for (int k = 0; k < 2; k++)
            assert_ptr_not_equal(more[i], kept[k]);
    }
    assert_null(buffers_take(&buffers));
    assert_false(buffers_keep(&buffers, more[0])); // two are kept
    assert_true(buffers_keep(&buffers, kept[0]));  // again, by another one
    buffers_release(&buffers, kept[0]);
    assert_false(buffers_keep(&buffers, more[0]));
    buffers_release(&buffers, kept[0]);
    assert_true(buffers_keep(&buffers, more[0]));
    buffers_give(&buffers, more[1]);
    assert_ptr_equal(buffers_take(&buffers), more[1]); // what was given last is in the caches
    buffers_give(&buffers, more[0]);
    assert_ptr_equal(buffers_take(&buffers), kept[0]);
    assert_null(buffers_take(&buffers));
    buffers_give(&buffers, NULL);
    buffers_destroy(&buffers);
}

#define N_ROUNDS 20000
#define N_KEPT   3

struct line {
    struct buffers buffers;
    uint16_t *waiting[N_KEPT];
    int n_waiting;
    bool end;
    pthread_mutex_t lock;
};

// Every frame that was kept holds what the source wrote until it is released.
static void *release_frames(void *argument)
{
    struct line *line = argument;
    uintptr_t n_wrong = 0;
    for (bool end = false; !end;) {
        uint16_t *pixels = NULL;
        pthread_mutex_lock(&line->lock);
        if (line->n_waiting)
            pixels = line->waiting[--line->n_waiting];
        end = line->end && !pixels;
        pthread_mutex_unlock(&line->lock);
        if (!pixels)
            continue;
        n_wrong += pixels[0] != pixels[1];
        buffers_release(&line->buffers, pixels);
    }
    return (void *)n_wrong;
}

static void keeper_and_source_are_different_threads(void **state)
{
    (void)state;
    static struct line line = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    int n_kept = 0;
    void *n_wrong;
    assert_int_equal(buffers_create(&line.buffers, 1, N_KEPT, FRAME_BYTES), 0);
    assert_int_equal(pthread_create(&thread, NULL, release_frames, &line), 0);
    for (int i = 0; i < N_ROUNDS; i++) {
        uint16_t *pixels = buffers_take(&line.buffers);
        assert_non_null(pixels);
        pixels[0] = pixels[1] = (uint16_t)i;
        if (buffers_keep(&line.buffers, pixels)) {
            pthread_mutex_lock(&line.lock);
            line.waiting[line.n_waiting++] = pixels;
            pthread_mutex_unlock(&line.lock);
            n_kept++;
        }
        buffers_give(&line.buffers, pixels);
    }
    pthread_mutex_lock(&line.lock);
    line.end = true;
    pthread_mutex_unlock(&line.lock);
    pthread_join(thread, &n_wrong);
    print_message("%d of %d frames kept\n", n_kept, N_ROUNDS);
    assert_null(n_wrong);
    assert_true(n_kept >= N_KEPT);
    assert_int_equal(line.buffers.n_free, 1 + N_KEPT); // none was lost
    assert_int_equal(line.buffers.n_left, 1);
    assert_int_equal(line.buffers.n_keepable, N_KEPT);
    buffers_destroy(&line.buffers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_have_pages_of_their_own),
        cmocka_unit_test(kept_frames_are_nobody_elses),
        cmocka_unit_test(keeper_and_source_are_different_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
