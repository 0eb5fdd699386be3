// SPDX-License-Identifier: Apache-2.0
// The replay over a recording made of numbers: order, choice of frames, pacing, lateness, loop,
// duplicates, damage, interruption.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "capture/replay.h"
#include "proto/clock.h"

#define W 8u
#define H 4u

struct numbers {
    int64_t period_ns, jump_ns; // frame i at i * period, from frame 5 on jump later
    uint64_t damaged_from, damaged_to, broken_at;
    bool all_equal, last_differs; // pixels of all frames; but for the last one
    int decode_ms;
    atomic_int n_decoded;
    atomic_int policy; // of the thread that decodes
};

static void numbers_stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    const struct numbers *numbers = state;
    *out_time_ns = 1000 + (int64_t)i * numbers->period_ns + (i >= 5 ? numbers->jump_ns : 0);
    *out_index = 100 + i;
}

static int numbers_decode(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    (void)frame;
    struct numbers *numbers = state;
    atomic_store(&numbers->policy, sched_getscheduler(0));
    atomic_fetch_add(&numbers->n_decoded, 1);
    if (numbers->decode_ms)
        nanosleep(&(struct timespec){0, numbers->decode_ms * 1000000}, NULL);
    for (size_t k = 0; k < W * H; k++)
        pixels[k] = numbers->all_equal ? 7 : (uint16_t)(1000 + i);
    if (numbers->last_differs)
        pixels[W * H - 1] = (uint16_t)(1000 + i);
    if (numbers->broken_at && i == numbers->broken_at)
        return -EIO;
    return i >= numbers->damaged_from && i < numbers->damaged_to ? -EBADMSG : 0;
}

static const struct capture_driver driver = {
    .name = "numbers", .stamp = numbers_stamp, .decode = numbers_decode};

static struct replay *start(struct numbers *numbers, struct capture_settings settings,
                            uint64_t n_frames, struct capture_info *out_info)
{
    struct replay *replay;
    *out_info = (struct capture_info){
        .camera = {.width_px = W, .height_px = H}, .units_per_m = 1000, .n_frames = n_frames};
    assert_int_equal(replay_create(&replay, &driver, numbers, &settings, out_info), 0);
    assert_int_equal(replay_start(replay), 0);
    return replay;
}

static void as_fast_as_possible_nothing_is_lost(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1000};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){0}, 500, &info);
    assert_int_equal(info.n_frames, 500);
    assert_int_equal(info.period_ns, 1000);
    for (uint64_t i = 0; i < 500; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.index, 100 + i);
        assert_int_equal(frame.image.time_ns, 1000 + 1000 * i);
        assert_int_equal(frame.flags, 0);
        for (size_t k = 0; k < W * H; k++)
            assert_int_equal(frame.image.depth[k], 1000 + i);
    }
    assert_int_equal(replay_read(replay, -1, &frame), -ENODATA);
    assert_int_equal(replay_read(replay, 0, &frame), -ENODATA);
    replay_destroy(&replay);
    assert_null(replay);
    replay_destroy(&replay);
}

static void decoding_takes_no_processor_from_who_is_at_work(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1000};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){0}, 1, &info);
    assert_int_equal(replay_read(replay, -1, &frame), 0);
    assert_int_equal(atomic_load(&numbers.policy), SCHED_BATCH);
    replay_destroy(&replay);
}

static void start_duration_and_step_choose(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 100000000};
    struct capture_info info;
    struct capture_frame frame;
    struct capture_settings settings = {.start_s = 1.0, .duration_s = 1.0, .step = 3};
    struct replay *replay = start(&numbers, settings, 100, &info);
    assert_int_equal(info.n_frames, 4); // frames 10, 13, 16, 19
    assert_int_equal(info.period_ns, 300000000);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.index, 110 + 3 * i);
    }
    assert_int_equal(replay_read(replay, -1, &frame), -ENODATA);
    replay_destroy(&replay);

    settings.start_s = 10;
    info.n_frames = 100;
    assert_int_equal(replay_create(&replay, &driver, &numbers, &settings, &info), -ENOENT);
    assert_null(replay);
}

// As many frames as asked for, of each round; a shorter recording is shorter.
static void a_number_of_frames_ends_it(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1000};
    struct capture_info info;
    struct capture_frame frame;
    struct capture_settings settings = {.step = 2, .n_frames = 3};
    struct replay *replay = start(&numbers, settings, 100, &info);
    assert_int_equal(info.n_frames, 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.index, 100 + 2 * i);
    }
    assert_int_equal(replay_read(replay, -1, &frame), -ENODATA);
    replay_destroy(&replay);

    settings.loop = true;
    replay = start(&numbers, settings, 100, &info);
    for (uint64_t i = 0; i < 7; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.index, 100 + 2 * (i % 3));
        assert_int_equal(frame.flags, i == 3 || i == 6 ? CAPTURE_LOOPED : 0);
    }
    replay_destroy(&replay);

    replay = start(&numbers, (struct capture_settings){.n_frames = 9}, 4, &info);
    assert_int_equal(info.n_frames, 4);
    replay_destroy(&replay);
}

static void loop_goes_on_in_time(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 50};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.loop = true}, 7, &info);
    assert_int_equal(info.n_frames, 0);
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.index, 100 + i % 7);
        assert_int_equal(frame.image.time_ns, 1000 + 50 * i);
        assert_int_equal(frame.flags, i > 0 && i % 7 == 0 ? CAPTURE_LOOPED : 0);
    }
    replay_destroy(&replay);
}

static void paced_frames_come_when_due(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 40000000};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 2}, 10, &info);
    int64_t begin_ns = clock_monotonic_ns(), first_ns = 0;
    for (int64_t i = 0; i < 10; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.index, 100 + i);
        first_ns = i ? first_ns : frame.capture_mono_ns;
        assert_int_equal(frame.capture_mono_ns, first_ns + i * 20000000);
        assert_true(clock_monotonic_ns() >= frame.capture_mono_ns); // not before it is due
    }
    assert_true(first_ns >= begin_ns);
    replay_destroy(&replay);
}

static void what_cannot_be_processed_in_time_is_late(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 10000000};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1}, 100, &info);
    int n_late = 0, n_good = 0;
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.index, 100 + i); // late frames are told, not left out
        if (frame.flags & CAPTURE_LATE) {
            assert_null(frame.image.depth);
            n_late++;
        } else {
            assert_non_null(frame.image.depth);
            assert_int_equal(frame.image.depth[0], 1000 + i);
            n_good++;
            nanosleep(&(struct timespec){0, 120000000}, NULL);
        }
    }
    assert_true(n_late >= 50 && n_good >= 2);
    assert_true(numbers.n_decoded < 100 - n_late / 4); // and mostly not decoded
    replay_destroy(&replay);
}

// With patience frames wait, and say how many wait behind them.
static void who_is_patient_gets_them_all_the_same(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 400000000};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1}, 8, &info);
    assert_int_equal(replay_read(replay, -1, &frame), 0);
    assert_true(frame.paced && frame.n_waiting == 0);
    atomic_store(&replay_buffers(replay)->max_waiting, 3);
    nanosleep(&(struct timespec){1, 0}, NULL); // frame 2 has been due for a half of its time
    assert_int_equal(replay_read(replay, -1, &frame), 0);
    assert_int_equal(frame.index, 101);
    assert_int_equal(frame.flags, 0);
    assert_int_equal(frame.image.depth[0], 1001);
    assert_true(frame.n_waiting >= 1 && frame.n_waiting <= 3);
    atomic_store(&replay_buffers(replay)->max_waiting, 1);
    nanosleep(&(struct timespec){1, 0}, NULL); // and now frame 5 is
    assert_int_equal(replay_read(replay, -1, &frame), 0);
    assert_int_equal(frame.index, 102);
    assert_int_equal(frame.flags, CAPTURE_LATE);
    assert_true(frame.n_waiting >= 2);
    replay_destroy(&replay);
}

static void slow_decoding_still_gets_frames_through(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 4000000, .decode_ms = 10};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1}, 200, &info);
    int n_good = 0;
    for (int i = 0; i < 200; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        n_good += frame.image.depth != NULL;
    }
    assert_true(n_good >= 10); // 800 ms / 10 ms = 80 at the very most
    replay_destroy(&replay);
}

// The same when decoding takes as long as many frames: the decoder must look far enough ahead.
static void far_too_fast_replay_still_gets_frames_through(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 33333333, .decode_ms = 5};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 100}, 2000, &info);
    int n_good = 0;
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.index, 100 + i);
        n_good += frame.image.depth != NULL;
    }
    assert_true(n_good >= 10); // 667 ms / 5 ms = 133 at the very most
    replay_destroy(&replay);
}

static void repeated_pixels_are_flagged(void **state)
{
    (void)state;
    struct numbers numbers = {
        .period_ns = 1, .all_equal = true, .damaged_from = 3, .damaged_to = 5};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){0}, 10, &info);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        unsigned expected = i == 0 ? 0 : i == 3 || i == 4 ? CAPTURE_DAMAGED : CAPTURE_DUPLICATE;
        assert_int_equal(frame.flags, expected);
        assert_true((frame.image.depth == NULL) == (expected == CAPTURE_DAMAGED));
        assert_int_equal(frame.image.width_px, W);
    }
    replay_destroy(&replay);
}

static void one_pixel_makes_another_image(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1, .all_equal = true, .last_differs = true};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){0}, 5, &info);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        assert_int_equal(frame.flags, 0);
    }
    replay_destroy(&replay);
}

static void broken_source_ends_the_replay(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1, .broken_at = 2};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){0}, 10, &info);
    assert_int_equal(replay_read(replay, -1, &frame), 0);
    assert_int_equal(replay_read(replay, -1, &frame), 0);
    assert_int_equal(replay_read(replay, -1, &frame), -EIO);
    assert_int_equal(replay_read(replay, -1, &frame), -EIO);
    replay_destroy(&replay);
}

static void timeout_leaves_the_frame_alone(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 300000000};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1}, 3, &info);
    assert_int_equal(replay_read(replay, 1000, &frame), 0);
    frame.index = 12345;
    int64_t begin_ns = clock_monotonic_ns();
    assert_int_equal(replay_read(replay, 20, &frame), -EAGAIN);
    assert_true(clock_monotonic_ns() - begin_ns >= 20000000);
    assert_int_equal(frame.index, 12345);
    assert_int_equal(replay_read(replay, 0, &frame), -EAGAIN);
    assert_int_equal(replay_read(replay, -1, &frame), 0);
    assert_int_equal(frame.index, 101);
    replay_destroy(&replay);
}

static void *interrupt_soon(void *replay)
{
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    replay_interrupt(replay);
    return NULL;
}

static void interrupt_wakes_the_reader(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = INT64_C(9000000000)};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1}, 3, &info);
    assert_int_equal(replay_read(replay, -1, &frame), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, replay), 0);
    int64_t begin_ns = clock_monotonic_ns();
    assert_int_equal(replay_read(replay, -1, &frame), -EINTR);
    assert_true(clock_monotonic_ns() - begin_ns < 5000000000);
    assert_int_equal(replay_read(replay, -1, &frame), -EINTR);
    pthread_join(thread, NULL);
    replay_destroy(&replay);
}

static void long_pause_is_shortened(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1000000, .jump_ns = INT64_C(3600000000000000)};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1000}, 10, &info);
    int64_t begin_ns = clock_monotonic_ns();
    for (int i = 0; i < 10; i++)
        assert_int_equal(replay_read(replay, 60000, &frame), 0);
    assert_true(clock_monotonic_ns() - begin_ns < 30000000000);
    assert_int_equal(frame.image.time_ns, 1000 + 9000000 + numbers.jump_ns);
    replay_destroy(&replay);
}

static void control(struct replay *replay, enum capture_control what, double value)
{
    struct capture_playback playback;
    assert_int_equal(replay_control(replay, what, value, &playback), 0);
}

// Reads one frame and returns its number.
static uint64_t read_index(struct replay *replay, struct capture_frame *out)
{
    assert_int_equal(replay_read(replay, 5000, out), 0);
    assert_non_null(out->image.depth);
    assert_int_equal(out->image.depth[0], 900 + out->index); // the pixels are those of the frame
    return out->index;
}

static void paused_it_stands_and_steps(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 100000000};
    struct capture_info info;
    struct capture_frame frame;
    struct capture_playback playback;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1}, 50, &info);
    assert_int_equal(read_index(replay, &frame), 100);
    control(replay, CAPTURE_PAUSE, 0);
    assert_int_equal(replay_read(replay, 250, &frame), -EAGAIN); // two frames would be due
    control(replay, CAPTURE_STEP, 3);
    int64_t begin_ns = clock_monotonic_ns();
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(read_index(replay, &frame), 100 + i);
    assert_true(clock_monotonic_ns() - begin_ns < 200000000); // not at the pace of the recording
    assert_int_equal(replay_read(replay, 50, &frame), -EAGAIN);
    assert_int_equal(replay_control(replay, CAPTURE_QUERY, 0, &playback), 0);
    assert_true(playback.paused && playback.rate == 1);
    assert_true(fabs(playback.position_s - 0.4) + fabs(playback.duration_s - 4.9) < 1e-12);
    control(replay, CAPTURE_RESUME, 0);
    begin_ns = clock_monotonic_ns();
    for (uint64_t i = 4; i <= 9; i++) // nothing is late, nothing is left out
        assert_int_equal(read_index(replay, &frame), 100 + i);
    int64_t took_ns = clock_monotonic_ns() - begin_ns;
    assert_true(took_ns > 490000000 && took_ns < 650000000);
    // Behind the last frame a recording that is paused does not end.
    control(replay, CAPTURE_STEP, 1000);
    while (replay_read(replay, 50, &frame) == 0)
        ;
    assert_int_equal(frame.index, 149);
    assert_int_equal(replay_control(replay, CAPTURE_STEP, 0, &playback), -ERANGE);
    assert_int_equal(replay_control(replay, CAPTURE_STEP, NAN, &playback), -ERANGE);
    control(replay, CAPTURE_RESUME, 0);
    assert_int_equal(replay_read(replay, 50, &frame), -ENODATA);
    replay_destroy(&replay);
}

static void the_speed_changes_under_way(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1000000000};
    struct capture_info info;
    struct capture_frame frame;
    struct capture_playback playback;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1}, 1000, &info);
    read_index(replay, &frame);
    control(replay, CAPTURE_RATE, 20);
    int64_t begin_ns = clock_monotonic_ns();
    for (uint64_t i = 1; i <= 11; i++)
        assert_int_equal(read_index(replay, &frame), 100 + i);
    int64_t took_ns = clock_monotonic_ns() - begin_ns;
    assert_true(took_ns > 490000000 && took_ns < 650000000);
    control(replay, CAPTURE_RATE, CAPTURE_RATE_MAX);
    begin_ns = clock_monotonic_ns();
    for (uint64_t i = 12; i <= 500; i++)
        assert_int_equal(read_index(replay, &frame), 100 + i);
    assert_true(clock_monotonic_ns() - begin_ns < 1000000000);
    control(replay, CAPTURE_RATE, 10);
    begin_ns = clock_monotonic_ns();
    for (uint64_t i = 501; i <= 504; i++)
        assert_int_equal(read_index(replay, &frame), 100 + i);
    took_ns = clock_monotonic_ns() - begin_ns;
    assert_true(took_ns > 290000000 && took_ns < 450000000);
    assert_int_equal(replay_control(replay, CAPTURE_RATE, -1, &playback), -ERANGE);
    assert_int_equal(replay_control(replay, CAPTURE_RATE, NAN, &playback), -ERANGE);
    assert_true(playback.rate == 10);
    replay_destroy(&replay);
}

// Time goes on growing when the recording is wound back; it ends where it always does.
static void wound_forth_and_back(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1000000000, .decode_ms = 5};
    struct capture_info info;
    struct capture_frame frame;
    struct capture_playback playback;
    struct replay *replay = start(&numbers, (struct capture_settings){0}, 20, &info);
    assert_int_equal(read_index(replay, &frame), 100);
    control(replay, CAPTURE_SEEK, 9.5); // a decoder is at work on frame 1 or later
    assert_int_equal(read_index(replay, &frame), 110);
    assert_int_equal(frame.image.time_ns, 10000001000);
    control(replay, CAPTURE_SEEK, 10);
    assert_int_equal(read_index(replay, &frame), 110);
    assert_int_equal(frame.image.time_ns, 30000001000);
    assert_int_equal(replay_control(replay, CAPTURE_SEEK, 19.1, &playback), -ERANGE);
    assert_int_equal(replay_control(replay, CAPTURE_SEEK, -0.1, &playback), -ERANGE);
    assert_int_equal(replay_control(replay, CAPTURE_SEEK, NAN, &playback), -ERANGE);
    assert_int_equal(read_index(replay, &frame), 111);
    for (int i = 0; i < 30; i++) { // many times in a row, whatever the decoder does meanwhile
        control(replay, CAPTURE_SEEK, i % 20);
        if (i % 3)
            assert_int_equal(read_index(replay, &frame), 100 + i % 20);
    }
    control(replay, CAPTURE_SEEK, 18);
    int64_t before_ns = frame.image.time_ns;
    assert_int_equal(read_index(replay, &frame), 118);
    assert_true(frame.image.time_ns > before_ns);
    assert_int_equal(read_index(replay, &frame), 119);
    assert_int_equal(replay_read(replay, 50, &frame), -ENODATA);
    control(replay, CAPTURE_SEEK, 19); // also from behind the end
    assert_int_equal(read_index(replay, &frame), 119);
    assert_int_equal(replay_read(replay, 50, &frame), -ENODATA);
    replay_destroy(&replay);
}

// What was passed over because it was late is there when one stops to look.
static void stepping_shows_frames_that_were_late(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1000000, .decode_ms = 20};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.rate = 1}, 10000, &info);
    for (int i = 0; i < 100; i++)
        assert_int_equal(replay_read(replay, 5000, &frame), 0);
    uint64_t index = frame.index;
    control(replay, CAPTURE_STEP, 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(read_index(replay, &frame), ++index);
    replay_destroy(&replay);
}

static pthread_t written_by;
static atomic_int n_written, n_wrong;

// What the thread that decodes tells: complete frames in the replay's memory.
static void on_written(const void *pixels, size_t bytes)
{
    const uint16_t *depth = pixels;
    written_by = pthread_self();
    atomic_fetch_add(&n_wrong, bytes != W * H * sizeof *depth || depth[0] < 1000 ||
                                   depth[0] != depth[W * H - 1]);
    atomic_fetch_add(&n_written, 1);
}

static void frames_lie_in_one_block_and_are_told_of(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 1};
    struct capture_info info;
    struct capture_frame frame;
    struct replay *replay = start(&numbers, (struct capture_settings){.loop = true}, 100, &info);
    const struct buffers *buffers = replay_buffers(replay);
    const struct capture_hooks hooks = {.written = on_written};
    assert_int_equal((uintptr_t)buffers->block % 4096, 0);
    assert_int_equal(buffers->n_bytes % 4096, 0);
    atomic_store(&n_written, 0);
    atomic_store(&n_wrong, 0);
    for (int i = 0; i < 300; i++) {
        if (i == 100)
            buffers_set_hooks(replay_buffers(replay), &hooks);
        if (i == 200)
            buffers_set_hooks(replay_buffers(replay), NULL);
        assert_int_equal(replay_read(replay, -1, &frame), 0);
        const char *begin = (const char *)frame.image.depth;
        assert_true(begin >= buffers->block && begin + 4096 <= buffers->block + buffers->n_bytes);
        assert_int_equal((uintptr_t)begin % 4096, 0);
        assert_int_equal(frame.image.depth[0], 1000 + i % 100);
    }
    replay_destroy(&replay);
    // Seven buffers at most are ahead of the reader when it asks, and when it asks no more.
    assert_true(atomic_load(&n_written) >= 93 && atomic_load(&n_written) <= 107);
    assert_int_equal(atomic_load(&n_wrong), 0);
    assert_false(pthread_equal(written_by, pthread_self()));
}

static void on_soon(void *user)
{
    ++*(int *)user;
}

static void written_slowly(const void *pixels, size_t bytes)
{
    (void)pixels;
    (void)bytes;
    nanosleep(&(struct timespec){0, 10000000}, NULL); // the reader waits
}

// As fast as possible with a slow writer, and paced with a fast one: one notice a frame, before it
// comes, and the frame on time.
static void the_reader_is_told_before_a_frame_comes(void **state)
{
    (void)state;
    struct numbers numbers = {.period_ns = 5000000, .decode_ms = 2};
    struct capture_info info;
    struct capture_frame frame;
    int n_soon = 0;
    const struct capture_hooks hooks = {written_slowly, on_soon, &n_soon};
    struct replay *replay = start(&numbers, (struct capture_settings){0}, 60, &info);
    buffers_set_hooks(replay_buffers(replay), &hooks);
    for (int i = 0; i < 60; i++)
        assert_int_equal(replay_read(replay, 1000, &frame), 0);
    assert_int_equal(replay_read(replay, 1000, &frame), -ENODATA);
    assert_true(n_soon >= 30 && n_soon <= 60);
    replay_destroy(&replay);

    numbers.decode_ms = n_soon = 0;
    replay = start(&numbers, (struct capture_settings){.rate = 1}, 60, &info);
    buffers_set_hooks(replay_buffers(replay), &hooks);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(replay_read(replay, 1000, &frame), 0);
        assert_true(clock_monotonic_ns() >= frame.capture_mono_ns);
    }
    assert_true(n_soon >= 30 && n_soon <= 61);
    replay_destroy(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_fast_as_possible_nothing_is_lost),
        cmocka_unit_test(decoding_takes_no_processor_from_who_is_at_work),
        cmocka_unit_test(start_duration_and_step_choose),
        cmocka_unit_test(a_number_of_frames_ends_it),
        cmocka_unit_test(loop_goes_on_in_time),
        cmocka_unit_test(paced_frames_come_when_due),
        cmocka_unit_test(what_cannot_be_processed_in_time_is_late),
        cmocka_unit_test(who_is_patient_gets_them_all_the_same),
        cmocka_unit_test(slow_decoding_still_gets_frames_through),
        cmocka_unit_test(far_too_fast_replay_still_gets_frames_through),
        cmocka_unit_test(repeated_pixels_are_flagged),
        cmocka_unit_test(one_pixel_makes_another_image),
        cmocka_unit_test(broken_source_ends_the_replay),
        cmocka_unit_test(timeout_leaves_the_frame_alone),
        cmocka_unit_test(interrupt_wakes_the_reader),
        cmocka_unit_test(long_pause_is_shortened),
        cmocka_unit_test(frames_lie_in_one_block_and_are_told_of),
        cmocka_unit_test(paused_it_stands_and_steps),
        cmocka_unit_test(the_speed_changes_under_way),
        cmocka_unit_test(wound_forth_and_back),
        cmocka_unit_test(stepping_shows_frames_that_were_late),
        cmocka_unit_test(the_reader_is_told_before_a_frame_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
