// SPDX-License-Identifier: Apache-2.0
// The live driver against a libfreenect of our own making, linked in place of the library (see
// tests/fake_freenect.h). It counts what is open, so that a leak shows.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/kinect/disparity.h"
#include "proto/clock.h"
#include "tests/fake_freenect.h"
#include "tests/unit/capture/wall.h"

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static struct capture *open_kinect(const char *source)
{
    struct capture_settings settings = {.source = source};
    struct capture *capture;
    assert_int_equal(capture_open(&capture, &settings), 0);
    return capture;
}

static int setup(void **state)
{
    (void)state;
    memset(fake, 0, sizeof *fake);
    fake->plugged = true;
    fake->raw_value = 700;
    return 0;
}

static void assert_all_closed(void)
{
    assert_int_equal(fake->n_contexts, 0);
    assert_int_equal(fake->n_devices, 0);
    assert_int_equal(fake->n_streams, 0);
    assert_int_equal(fake->n_wrong, 0);
}

// Reads until a frame with pixels comes.
static void read_good(struct capture *capture, struct capture_frame *frame)
{
    for (int i = 0; i < 200; i++) {
        assert_int_equal(capture_read(capture, 5000, frame), 0);
        if (frame->image.depth)
            return;
    }
    fail_msg("no frame with pixels");
}

static void frames_have_depth_time_and_gravity(void **state)
{
    (void)state;
    fake->next_ticks = 4294000000u; // wraps on the way
    struct capture *capture = open_kinect("kinect:");
    const struct capture_info *info = capture_info(capture);
    assert_true(info->live);
    assert_int_equal(info->camera.width_px, 640);
    assert_true(fabs(info->camera.fx_px - 575.8) < 0.1);
    struct capture_frame frame;
    uint64_t index = 0, ticks = 4294000000u;
    int64_t time_ns = 0;
    bool gravity = false;
    for (int i = 0; i < 300; i++) {
        assert_int_equal(capture_read(capture, 5000, &frame), 0);
        assert_int_equal(frame.index, index++);
        assert_int_equal(frame.device_ticks, ticks);
        assert_true(frame.image.time_ns > time_ns);
        assert_true((frame.image.depth == NULL) == ((frame.flags & CAPTURE_LATE) != 0));
        if (frame.image.depth)
            assert_int_equal(frame.image.depth[1000], 887);
        gravity = gravity || fabsf(frame.gravity_m_s2[1] - 9.80665f) < 1e-4f;
        ticks += 2000000;
        time_ns = frame.image.time_ns;
    }
    assert_true(gravity);
    capture_close(&capture);
    assert_all_closed();
}

static void own_parameters_are_used(void **state)
{
    (void)state;
    fake->own_parameters = fake->no_motor = true;
    struct capture *capture = open_kinect("kinect:" FAKE_FREENECT_SERIAL);
    assert_true(fabs(capture_info(capture)->camera.fx_px - 570.3) < 0.1);
    assert_true(capture_info(capture)->zero_plane[2] == 120);
    struct disparity_model model = disparity_from_zero_plane(200, (double)0.1052f, 120, 7.5);
    struct disparity_table table;
    assert_int_equal(disparity_table_fill(&model, &table), 0);
    struct capture_frame frame;
    read_good(capture, &frame);
    assert_int_equal(frame.image.depth[0], table.mm[700]);
    assert_true(isnan(frame.gravity_m_s2[1])); // no motor, no accelerometer, but a camera
    capture_close(&capture);
    assert_all_closed();
}

static void lost_packets_are_counted(void **state)
{
    (void)state;
    struct capture *capture = open_kinect("kinect:0");
    struct capture_frame frame;
    read_good(capture, &frame);
    fake->lose_packets = 7;
    int n_lost = 0, n_damaged = 0;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(capture_read(capture, 5000, &frame), 0);
        n_lost += (int)frame.n_lost_packets;
        n_damaged += (frame.flags & CAPTURE_DAMAGED) != 0;
    }
    assert_int_equal(n_lost, 7);
    assert_int_equal(n_damaged, 1);
    capture_close(&capture);
    assert_all_closed();
}

static void absent_camera_may_come_later(void **state)
{
    (void)state;
    fake->plugged = false;
    int64_t begin_ns = clock_monotonic_ns();
    struct capture *capture = open_kinect("kinect:");
    assert_true(clock_monotonic_ns() - begin_ns < 2000000000);
    struct capture_frame frame;
    assert_int_equal(capture_read(capture, 50, &frame), -EAGAIN);
    fake->plugged = true;
    begin_ns = clock_monotonic_ns();
    read_good(capture, &frame);
    assert_true(clock_monotonic_ns() - begin_ns < 2000000000);
    capture_close(&capture);
    assert_all_closed();

    struct capture_settings settings = {.source = "kinect:no"};
    assert_int_equal(capture_open(&capture, &settings), -EINVAL);
}

// A camera that is plugged in later is converted with its own parameters, from its first frame on,
// which says that capture_info has changed; the same camera again says nothing.
static void another_camera_is_told_of(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        fake->plugged = !late;
        fake->own_parameters = !late;
        struct capture *capture = open_kinect("kinect:");
        struct capture_frame frame;
        const struct capture_info *info = capture_info(capture);
        assert_true(fabs(info->camera.fx_px - (late ? 575.8 : 570.3)) < 0.1);
        for (int i = 0; i < 3; i++) {
            fake->plugged = false;
            while (fake->n_devices)
                pause_ms(1);
            fake->own_parameters = late;
            while (capture_read(capture, 0, &frame) == 0)
                assert_false(frame.flags & CAPTURE_RECALIBRATED);
            fake->plugged = true;
            assert_int_equal(capture_read(capture, 5000, &frame), 0);
            assert_int_equal((frame.flags & CAPTURE_RECALIBRATED) != 0, i == 0);
            assert_true(fabs(info->camera.fx_px - (late ? 570.3 : 575.8)) < 0.1);
            assert_true(info->zero_plane[2] == (late ? 120 : 0));
            if (!frame.image.depth)
                read_good(capture, &frame);
            struct disparity_model model =
                late ? disparity_from_zero_plane(200, (double)0.1052f, 120, 7.5)
                     : disparity_default();
            struct disparity_table table;
            assert_int_equal(disparity_table_fill(&model, &table), 0);
            assert_int_equal(frame.image.depth[0], table.mm[700]);
        }
        capture_close(&capture);
        assert_all_closed();
    }
}

// What the user says of the camera holds for each.
static void overrides_hold_for_another_camera(void **state)
{
    (void)state;
    fake->plugged = false;
    struct capture_settings settings = {.source = "kinect:", .fx_px = 580, .depth_scale = 500};
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(capture_open(&capture, &settings), 0);
    fake->own_parameters = fake->plugged = true;
    read_good(capture, &frame);
    assert_true(capture_info(capture)->camera.fx_px == 580);
    assert_true(fabs(capture_info(capture)->camera.fy_px - 570.3) < 0.1);
    assert_true(capture_info(capture)->units_per_m == 500 && frame.image.units_per_m == 500);
    capture_close(&capture);
    assert_all_closed();
}

static int n_open_files(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

// What malloc has given out and not taken back, in all arenas: a leak counts byte by byte, what
// malloc keeps for later does not.
static long allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (long)(info.uordblks + info.hblkhd);
}

// A sanitizer keeps what was freed, so that growth says nothing there: fewer rounds will do.
#ifdef POSED_SANITIZED
#define N_UNPLUGGED 200
#else
#define N_UNPLUGGED 1000
#endif

static void unplugged_again_and_again(void **state)
{
    (void)state;
    struct capture *capture = open_kinect("kinect:");
    struct capture_frame frame;
    long before_bytes = 0;
    int before_files = 0;
    int64_t worst_ns = 0, last_time_ns = 0;
    for (int i = 0; i < N_UNPLUGGED; i++) {
        read_good(capture, &frame);
        assert_true(frame.image.time_ns > last_time_ns);
        fake->plugged = false;
        while (fake->n_contexts && fake->n_devices)
            pause_ms(1);
        while (capture_read(capture, 0, &frame) == 0)
            ; // what was on its way
        last_time_ns = frame.image.time_ns;
        if (i % 10 == 0)
            assert_int_equal(capture_read(capture, 30, &frame), -EAGAIN);
        fake->plugged = true;
        int64_t begin_ns = clock_monotonic_ns();
        read_good(capture, &frame);
        int64_t took_ns = clock_monotonic_ns() - begin_ns;
        worst_ns = took_ns > worst_ns ? took_ns : worst_ns;
        if (i == 100) {
            before_bytes = allocated_bytes();
            before_files = n_open_files();
        }
    }
    long grown_bytes = allocated_bytes() - before_bytes;
    print_message(
        "%d times unplugged: back after at most %.0f ms; since the 100th %ld bytes and %d "
        "files more\n",
        N_UNPLUGGED, (double)worst_ns * 1e-6, grown_bytes, n_open_files() - before_files);
    assert_true(worst_ns < 2000000000);
    assert_int_equal(n_open_files(), before_files);
    assert_true(N_UNPLUGGED < 1000 || grown_bytes < 16384);
    capture_close(&capture);
    assert_all_closed();
}

static void a_wall_that_is_set_is_followed(void **state)
{
    (void)state;
    fake->period_ms = 33;
    struct capture *capture = open_kinect("kinect:");
    assert_follows_wall(capture);
    capture_close(&capture);
    assert_all_closed();
}

static void silent_camera_is_opened_anew(void **state)
{
    (void)state;
    struct capture *capture = open_kinect("kinect:");
    struct capture_frame frame;
    read_good(capture, &frame);
    fake->silent = true;
    while (fake->n_streams) // 1.5 s
        pause_ms(10);
    fake->silent = false;
    while (capture_read(capture, 0, &frame) == 0)
        ;
    read_good(capture, &frame);
    capture_close(&capture);
    assert_all_closed();
}

// Both calls that were seen to hang: the session is given up, and closing takes no longer than its
// limit. What hung is let go at the end, so that its thread ends and nothing is leaked.
static void hanging_calls_are_abandoned(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct capture *capture = open_kinect("kinect:");
        struct capture_frame frame;
        read_good(capture, &frame);
        fake->held = true;
        atomic_int *fault = which ? &fake->hang_stop : &fake->hang_events;
        *fault = true;
        if (which)
            fake->plugged = false; // leads to the stop
        pause_ms(200);
        while (capture_read(capture, 0, &frame) == 0)
            ;
        int64_t begin_ns = clock_monotonic_ns();
        pause_ms(200);
        *fault = false; // the next session finds a good camera
        fake->plugged = true;
        read_good(capture, &frame);
        assert_true(clock_monotonic_ns() - begin_ns < 4500000000);
        *fault = true;
        pause_ms(50);
        begin_ns = clock_monotonic_ns();
        capture_close(&capture);
        assert_true(clock_monotonic_ns() - begin_ns < 4500000000);
        *fault = false;
        fake->held = false;
        for (int i = 0; i < 500 && fake->n_contexts; i++)
            pause_ms(10);
        assert_all_closed();
    }
}

// Opening may take long, but closing must not wait for it.
static void hanging_open_does_not_delay_the_end(void **state)
{
    (void)state;
    fake->held = true;
    fake->hang_open = true;
    int64_t begin_ns = clock_monotonic_ns();
    struct capture *capture = open_kinect("kinect:"); // waits 3 s for the camera's parameters
    assert_true(clock_monotonic_ns() - begin_ns < 4500000000);
    begin_ns = clock_monotonic_ns();
    capture_close(&capture);
    assert_true(clock_monotonic_ns() - begin_ns < 4500000000);
    fake->hang_open = false;
    fake->held = false;
    for (int i = 0; i < 500 && fake->n_contexts; i++)
        pause_ms(10);
    assert_all_closed();
}

static void *interrupt_soon(void *capture)
{
    pause_ms(30);
    capture_interrupt(capture);
    return NULL;
}

static void interrupt_wakes_the_reader(void **state)
{
    (void)state;
    fake->plugged = false;
    struct capture *capture = open_kinect("kinect:");
    struct capture_frame frame;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, capture), 0);
    assert_int_equal(capture_read(capture, -1, &frame), -EINTR);
    assert_int_equal(capture_read(capture, -1, &frame), -EINTR);
    pthread_join(thread, NULL);
    capture_close(&capture);
    assert_all_closed();
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(frames_have_depth_time_and_gravity), TEST(own_parameters_are_used),
        TEST(lost_packets_are_counted),           TEST(absent_camera_may_come_later),
        TEST(another_camera_is_told_of),          TEST(overrides_hold_for_another_camera),
        TEST(a_wall_that_is_set_is_followed),     TEST(silent_camera_is_opened_anew),
        TEST(hanging_calls_are_abandoned),        TEST(hanging_open_does_not_delay_the_end),
        TEST(interrupt_wakes_the_reader),         TEST(unplugged_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
