// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/capture/recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "capture/kinect/disparity.h"

struct recording_test recording;
static pthread_mutex_t event_lock = PTHREAD_MUTEX_INITIALIZER;

int recording_setup(void **state)
{
    (void)state;
    scratch_create(&recording.scratch);
    recording.camera = camera_create(RECORDING_N_PIXELS, 30);
    return 0;
}

int recording_teardown(void **state)
{
    (void)state;
    scratch_remove(&recording.scratch);
    camera_destroy(recording.camera);
    return 0;
}

static void on_event(void *user, enum recorder_event event, const char *name, const char *detail)
{
    (void)user;
    (void)name;
    pthread_mutex_lock(&event_lock);
    recording.last_event = event;
    snprintf(recording.last_detail, sizeof recording.last_detail, "%s", detail);
    pthread_mutex_unlock(&event_lock);
}

struct recorder_settings recording_settings(void)
{
    return (struct recorder_settings){.folder = recording.scratch.path, .event = on_event};
}

const struct capture_info recording_info = {
    .camera = {57.6, 57.6, 31.4, 23.5, RECORDING_WIDTH, RECORDING_HEIGHT},
    .units_per_m = 1000,
    .live = true};

static struct disparity_table table;

void recording_make_frame(uint64_t i, uint16_t pixels[RECORDING_N_PIXELS],
                          struct capture_frame *out)
{
    struct disparity_model model = disparity_default();
    if (!table.mm[500])
        assert_int_equal(disparity_table_fill(&model, &table), 0);
    uint32_t seed = (uint32_t)i + 1;
    for (size_t k = 0; k < RECORDING_N_PIXELS; k++) {
        seed = seed * 1664525u + 1013904223u;
        pixels[k] = seed >> 28 ? table.mm[600 + (seed >> 12) % 300] : 0;
    }
    *out = (struct capture_frame){.image = {pixels, RECORDING_WIDTH, RECORDING_HEIGHT, 1000,
                                            1700000000123456789 + (int64_t)i * 33333317},
                                  .index = i,
                                  .device_ticks = 4294000000 + i * 1999999,
                                  .gravity_m_s2 = {0, i % 2 ? 9.80665f : NAN, 0}};
    if (i % 2 == 0)
        out->gravity_m_s2[0] = NAN;
}

void recording_wait_until_idle(struct recorder *recorder)
{
    struct recorder_status status;
    for (int i = 0; i < 5000; i++) {
        recorder_status(recorder, &status);
        if (!status.active && !status.busy)
            return;
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    fail_msg("the recorder does not come to an end");
}

static void push(struct recorder *recorder, uint64_t first, uint64_t end, int64_t by_ns,
                 int64_t set_ns)
{
    uint16_t pixels[RECORDING_N_PIXELS];
    struct capture_frame frame;
    for (uint64_t i = first; i < end; i++) {
        struct recorder_status before, after;
        recording_make_frame(i, pixels, &frame);
        frame.image.time_ns += by_ns + set_ns;
        frame.clock_set_ns = set_ns;
        frame.flags |= by_ns && i == first ? CAPTURE_NEW_CLOCK : 0;
        do { // the test must not depend on the disk
            recorder_status(recorder, &before);
            camera_push(recording.camera, recorder, frame);
            recorder_status(recorder, &after);
            if (after.n_dropped > before.n_dropped)
                nanosleep(&(struct timespec){0, 1000000}, NULL);
        } while (after.n_dropped > before.n_dropped);
    }
}

void recording_push(struct recorder *recorder, uint64_t first, uint64_t end)
{
    recording_push_later(recorder, first, end, 0);
}

void recording_push_later(struct recorder *recorder, uint64_t first, uint64_t end, int64_t by_ns)
{
    push(recorder, first, end, by_ns, 0);
}

void recording_push_set(struct recorder *recorder, uint64_t first, uint64_t end, int64_t set_ns)
{
    push(recorder, first, end, 0, set_ns);
}

struct capture *recording_open(const char *format, const char *name)
{
    char source[256];
    bool is_ros2 = !strcmp(format, "ros2mcap");
    const char *driver = is_ros2 ? "mcap" : format;
    const char *suffix = is_ros2                   ? ".ros2.mcap"
                         : !strcmp(format, "klg")  ? ".klg"
                         : !strcmp(format, "mcap") ? ".mcap"
                                                   : "";
    snprintf(source, sizeof source, "%s:%s/%s%s", driver, recording.scratch.path, name, suffix);
    struct capture_settings settings = {.source = source};
    struct capture *capture;
    assert_int_equal(capture_open(&capture, &settings), 0);
    return capture;
}

uint64_t assert_recording_replays(const char *format, const char *name, uint64_t first)
{
    struct capture *capture = recording_open(format, name);
    const struct capture_info *got = capture_info(capture);
    assert_memory_equal(&got->camera, &recording_info.camera, sizeof recording_info.camera);
    assert_true(got->units_per_m == 1000);
    uint16_t pixels[RECORDING_N_PIXELS];
    struct capture_frame expected, frame;
    uint64_t n = 0;
    for (; !capture_read(capture, -1, &frame); n++) {
        recording_make_frame(first + n, pixels, &expected);
        assert_non_null(frame.image.depth);
        assert_memory_equal(frame.image.depth, pixels, sizeof pixels);
        assert_int_equal(frame.image.time_ns, expected.image.time_ns);
        if (!strcmp(format, "fakenect")) {
            assert_int_equal(frame.device_ticks, expected.device_ticks);
            // the last reading stays valid until the next
            assert_true(n == 0 || fabsf(frame.gravity_m_s2[1] - 9.80665f) < 1e-5f);
        }
    }
    capture_close(&capture);
    return n;
}
