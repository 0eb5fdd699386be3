// SPDX-License-Identifier: Apache-2.0
// The recorder: what it writes replays to the same values, times and calibration in each format;
// names and settings. Limits: test_recorder_limits.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/capture/recording.h"

static void each_format_replays_exactly(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    struct recorder_status status;
    settings.log = scratch_log(&recording.scratch);
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (int format = 0; format < RECORDER_N_FORMATS; format++) {
        const char *name = recorder_format_name((enum recorder_format)format);
        assert_int_equal(recorder_format_from_name(name), format);
        assert_int_equal(
            recorder_start_one(recorder, name, (enum recorder_format)format, &recording_info), 0);
        assert_int_equal(recording.last_event, RECORDER_EVENT_STARTED);
        assert_int_equal(
            recorder_start_one(recorder, "other", RECORDER_FORMAT_KLG, &recording_info), -EBUSY);
        recording_push(recorder, 0, 40);
        assert_int_equal(recorder_stop(recorder), 0);
        assert_int_equal(recorder_stop(recorder), -ENOENT);
        recording_wait_until_idle(recorder);
        assert_int_equal(recording.last_event, RECORDER_EVENT_STOPPED);
        recorder_status(recorder, &status);
        assert_int_equal(status.n_frames, 40);
        assert_true(status.n_bytes > 1000);
        assert_int_equal(assert_recording_replays(name, name, 0), 40);
        assert_int_equal(
            recorder_start_one(recorder, name, (enum recorder_format)format, &recording_info),
            -EEXIST);
        assert_true(scratch_said(&recording.scratch, "is there already: take another"));
    }
    struct recorder_entry *entries;
    assert_int_equal(recorder_list(recorder, &entries), RECORDER_N_FORMATS);
    for (int i = 0; i < RECORDER_N_FORMATS; i++) {
        assert_string_equal(entries[i].name, recorder_format_name(entries[i].format));
        assert_true(entries[i].n_bytes > 1000);
    }
    free(entries);
    recorder_destroy(&recorder);
    recorder_destroy(&recorder);
}

// A name that is taken is numbered, of a long one the end gives way; what is there stays.
static void taken_names_are_numbered(void **state)
{
    (void)state;
    static const char *const ends[] = {"y", "-2", "-3"};
    struct recorder_settings settings = recording_settings();
    const struct recorder_camera camera = {.name = "", .info = &recording_info};
    struct recorder *recorder;
    struct recorder_status status;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (int i = 0; i < 3 * RECORDER_N_FORMATS; i++) {
        const enum recorder_format format = (enum recorder_format)(i / 3);
        const char *kind = recorder_format_name(format), *end = ends[i % 3];
        char name[RECORDER_NAME_BYTES] = "", expected[RECORDER_NAME_BYTES];
        memset(name, 'y', sizeof name - 1);
        memcpy(name, kind, strlen(kind));
        snprintf(expected, sizeof expected, "%.*s%s", (int)(64 - strlen(end)), name, end);
        assert_int_equal(recorder_start_numbered(recorder, name, format, &camera, 1), 0);
        recorder_status(recorder, &status);
        assert_string_equal(status.name, expected);
        const uint64_t n = (uint64_t)(i % 3) + 2;
        recording_push(recorder, 0, n);
        assert_int_equal(recorder_stop(recorder), 0);
        recording_wait_until_idle(recorder);
        assert_int_equal(assert_recording_replays(kind, expected, 0), n);
        if (i % 3 == 2) // the first one stayed
            assert_int_equal(assert_recording_replays(kind, name, 0), 2);
    }
    recorder_destroy(&recorder);
}

// Times that no rate explains: one frame; a pause of minutes; a clock that begins anew.
static void odd_times_come_back(void **state)
{
    (void)state;
    static const int64_t times_ns[][4] = {
        {1700000000123456789, 0, 0, 0},
        {1700000000123456789, 1700000000123456790, 1700000300000000000, 1700000300033333333},
        {33333333, 66666666, 100000000, 133333333},
    };
    static const uint32_t ticks[4] = {4294000000, 1032704, 12345, 2012345};
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    uint16_t pixels[RECORDING_N_PIXELS];
    struct capture_frame frame;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (int k = 0; k < 3; k++)
        for (int format = 0; format < RECORDER_N_FORMATS; format++) {
            const char *kind = recorder_format_name((enum recorder_format)format);
            char name[32];
            snprintf(name, sizeof name, "%s%d", kind, k);
            assert_int_equal(
                recorder_start_one(recorder, name, (enum recorder_format)format, &recording_info),
                0);
            int n = k ? 4 : 1;
            for (int i = 0; i < n; i++) {
                recording_make_frame((uint64_t)i, pixels, &frame);
                frame.image.time_ns = times_ns[k][i];
                frame.device_ticks = ticks[i];
                camera_push(recording.camera, recorder, frame);
            }
            assert_int_equal(recorder_stop(recorder), 0);
            recording_wait_until_idle(recorder);
            struct capture *capture = recording_open(kind, name);
            for (int i = 0; i < n; i++) {
                assert_int_equal(capture_read(capture, -1, &frame), 0);
                assert_int_equal(frame.image.time_ns, times_ns[k][i]);
            }
            assert_int_equal(capture_read(capture, -1, &frame), -ENODATA);
            capture_close(&capture);
        }
    recorder_destroy(&recorder);
}

static void destroy_finishes_the_recording(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_KLG, &recording_info), 0);
    recording_push(recorder, 5, 25);
    recorder_destroy(&recorder);
    assert_int_equal(recording.last_event, RECORDER_EVENT_STOPPED);
    assert_int_equal(assert_recording_replays("klg", "a", 5), 20);
}

static void damaged_frame_leaves_its_mark(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    uint16_t pixels[RECORDING_N_PIXELS];
    struct capture_frame frame;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_TUM, &recording_info), 0);
    for (uint64_t i = 0; i < 3; i++) {
        recording_make_frame(i, pixels, &frame);
        if (i == 1) {
            frame.image.depth = NULL;
            frame.flags = CAPTURE_DAMAGED;
        }
        camera_push(recording.camera, recorder, frame);
    }
    frame.image.depth = NULL;
    frame.flags = CAPTURE_LATE;
    camera_push(recording.camera, recorder, frame); // no part of the recording
    recorder_destroy(&recorder);
    struct capture *capture = recording_open("tum", "a");
    assert_int_equal(capture_info(capture)->n_frames, 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_int_equal(frame.flags, i == 1 ? CAPTURE_DAMAGED : 0);
    }
    capture_close(&capture);
}

// DEPTH_INVALID_MAX is a depth to whoever takes 16UC1 and 32FC1 for what they are in ROS: there it
// is 0 and NaN, and comes back as 0. Formats that hold the source's own numbers keep it.
static void invalid_max_is_no_measurement(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    uint16_t pixels[RECORDING_N_PIXELS];
    struct capture_frame frame;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (int i = 0; i < 2 * RECORDER_N_FORMATS; i++) {
        const enum recorder_format format = (enum recorder_format)(i / 2);
        const char *kind = recorder_format_name(format);
        const bool is_zero =
            format == RECORDER_FORMAT_ROS2MCAP || format == RECORDER_FORMAT_FAKENECT;
        struct capture_info info = recording_info;
        info.units_per_m = i % 2 ? 5000 : 1000;
        if (format == RECORDER_FORMAT_FAKENECT && i % 2)
            continue; // a Kinect's millimetres alone
        char name[32];
        snprintf(name, sizeof name, "%s%d", kind, i);
        assert_int_equal(recorder_start_one(recorder, name, format, &info), 0);
        for (uint64_t k = 0; k < 3; k++) {
            recording_make_frame(k, pixels, &frame);
            frame.image.units_per_m = info.units_per_m;
            if (k > 0)
                pixels[0] = pixels[RECORDING_N_PIXELS - 1] = DEPTH_INVALID_MAX;
            camera_push(recording.camera, recorder, frame);
        }
        assert_int_equal(recorder_stop(recorder), 0);
        recording_wait_until_idle(recorder);
        struct capture *capture = recording_open(kind, name);
        assert_true(capture_info(capture)->units_per_m == info.units_per_m);
        for (uint64_t k = 0; k < 3; k++) {
            struct capture_frame expected;
            assert_int_equal(capture_read(capture, -1, &frame), 0);
            recording_make_frame(k, pixels, &expected);
            if (k > 0)
                pixels[0] = pixels[RECORDING_N_PIXELS - 1] = is_zero ? 0 : DEPTH_INVALID_MAX;
            assert_memory_equal(frame.image.depth, pixels, sizeof pixels);
        }
        capture_close(&capture);
    }
    recorder_destroy(&recorder);
}

// Whose memory may not be kept cannot be recorded: dropped, and said so.
static void frames_that_cannot_be_kept_are_counted(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    struct recorder_status status;
    uint16_t pixels[RECORDING_N_PIXELS];
    struct capture_frame frame;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_KLG, &recording_info), 0);
    recording_make_frame(0, pixels, &frame);
    struct buffers *miser = camera_create(RECORDING_N_PIXELS, 0);
    camera_push(miser, recorder, frame);
    recorder_push(recorder, 0, &frame); // of no source
    camera_push(recording.camera, recorder, frame);
    frame.image.width_px = RECORDING_WIDTH / 2; // of another camera: no part of the recording
    recorder_push(recorder, 0, &frame);
    recorder_status(recorder, &status);
    assert_int_equal(status.n_dropped, 2);
    recorder_destroy(&recorder);
    camera_destroy(miser);
    assert_int_equal(assert_recording_replays("klg", "a", 0), 1);
}

// Who asks for room loses no frame, of two cameras whose queue is full all the time; damaged frames
// and messages take room, too.
static void who_asks_for_room_loses_no_frame(void **state)
{
    (void)state;
    static const unsigned char message[100] = {1};
    const struct recorder_camera cameras[] = {{.number = 0, .name = "a", .info = &recording_info},
                                              {.number = 1, .name = "b", .info = &recording_info}};
    const uint64_t n_frames = 60;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    struct recorder_status status;
    uint16_t pixels[RECORDING_N_PIXELS];
    struct capture_frame frame;
    uint32_t n_waits = 0;
    settings.queue_frames = 2;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_true(recorder_has_room(recorder, 0)); // nothing is recorded
    assert_int_equal(recorder_start(recorder, "a", RECORDER_FORMAT_MCAP, cameras, 2), 0);
    assert_true(recorder_has_room(recorder, 5)); // no part of it
    for (uint64_t i = 0; i < 2 * n_frames; i++) {
        const uint32_t camera = i % 2;
        recording_make_frame(i / 2, pixels, &frame);
        for (; !recorder_has_room(recorder, camera); n_waits++)
            nanosleep(&(struct timespec){0, 100000}, NULL);
        if (camera == 0) {
            camera_push(recording.camera, recorder, frame);
        } else {
            frame.image.depth = NULL;
            frame.flags = CAPTURE_DAMAGED;
            recorder_push(recorder, camera, &frame);
        }
        for (int k = 0; k < 2; k++)
            recorder_push_message(recorder, camera, RECORDER_TOPIC_POSE, frame.image.time_ns,
                                  message, sizeof message);
    }
    assert_int_equal(recorder_stop(recorder), 0);
    recording_wait_until_idle(recorder);
    recorder_status(recorder, &status);
    print_message("waited %u times\n", n_waits);
    assert_true(n_waits > 0);
    assert_int_equal(status.n_dropped, 0);
    assert_int_equal(status.n_frames, 2 * n_frames);
    recorder_destroy(&recorder);
}

static void names_and_settings_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    ".",      "..",       "../x",
                                      "a/b", "/etc/x", ".hide",    "a b",
                                      "a\n", "x.klg",  "\xc3\xa4", "a.klg.calibration.txt"};
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(recorder_start_one(recorder, bad[i], RECORDER_FORMAT_TUM, &recording_info),
                         -EINVAL);
    char name[67];
    memset(name, 'a', sizeof name);
    name[65] = '\0';
    assert_int_equal(recorder_start_one(recorder, name, RECORDER_FORMAT_TUM, &recording_info),
                     -EINVAL);
    name[64] = '\0';
    assert_int_equal(recorder_start_one(recorder, name, RECORDER_FORMAT_TUM, &recording_info), 0);
    recorder_destroy(&recorder);
    settings.queue_frames = 1;
    assert_int_equal(recorder_create(&recorder, &settings), -EINVAL);
    settings = recording_settings();
    settings.folder = "/etc/passwd";
    assert_int_equal(recorder_create(&recorder, &settings), -ENOTDIR);
    assert_int_equal(recorder_format_from_name("avi"), -EINVAL);
}

// Keeps all lines, one after the other.
static void keep_lines(void *user, enum log_level level, const char *line)
{
    char *lines = user;
    (void)level;
    snprintf(lines + strlen(lines), 1024 - strlen(lines), "%s\n", line);
}

// Two cameras that are one in topics of ROS 2 are told of, and no file is left; other formats hold
// them.
static void names_that_are_one_in_topics(void **state)
{
    (void)state;
    const struct recorder_camera cameras[] = {
        {.number = 0, .name = "left-1", .info = &recording_info},
        {.number = 1, .name = "left_1", .info = &recording_info}};
    char lines[1024] = "", path[300];
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    settings.log = (struct log_sink){keep_lines, lines};
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start(recorder, "a", RECORDER_FORMAT_ROS2MCAP, cameras, 2), -EINVAL);
    assert_non_null(strstr(lines, "recording 'a' not started: cameras left-1 and left_1 are both "
                                  "left_1 in topics of ROS 2"));
    assert_int_equal(access(scratch_name(&recording.scratch, "a.ros2.mcap", path), F_OK), -1);
    assert_int_equal(recorder_start(recorder, "a", RECORDER_FORMAT_MCAP, cameras, 2), 0);
    recorder_destroy(&recorder);
}

// A folder that is made is told of, one that cannot be names its setting and place: a warning, as
// it may come later.
static void log_names_the_folder(void **state)
{
    (void)state;
    char lines[1024] = "", path[300], inside[300];
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    settings.log = (struct log_sink){keep_lines, lines};
    settings.folder = scratch_name(&recording.scratch, "new", path);
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    recorder_destroy(&recorder);
    assert_non_null(strstr(lines, path));
    assert_non_null(strstr(lines, "did not exist: created"));
    lines[0] = '\0';
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_string_equal(lines, "");
    recorder_destroy(&recorder);
    assert_int_equal(rmdir(path), 0);
    settings.folder = scratch_name(&recording.scratch, "new/inside", inside);
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_non_null(strstr(lines, inside));
    assert_non_null(strstr(lines, ": No such file or directory: nothing can be recorded before"));
    lines[0] = '\0';
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_TUM, &recording_info),
                     -ENOENT);
    assert_non_null(strstr(lines, "'a' not started in recorder.folder "));
    assert_non_null(strstr(lines, inside));
    scratch_make_folder(&recording.scratch, "new");
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_TUM, &recording_info), 0);
    recording_push(recorder, 0, 2);
    recorder_destroy(&recorder);
    assert_int_equal(assert_recording_replays("tum", "new/inside/a", 0), 2);
    settings.folder = recording.scratch.path;
    assert_int_equal(chmod(settings.folder, 0555), 0);
    lines[0] = '\0';
    scratch_be_nobody();
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    scratch_be_root_again();
    recorder_destroy(&recorder);
    assert_int_equal(chmod(settings.folder, 0700), 0);
    assert_non_null(strstr(lines, ": Permission denied: nothing can be recorded before"));
    settings.folder = "/etc/passwd";
    assert_int_equal(recorder_create(&recorder, &settings), -ENOTDIR);
    assert_non_null(strstr(lines, "recorder.folder /etc/passwd cannot hold"));
}

// Where the folder is removed and another one stands in its place, that one has the recordings;
// where none does, it is made.
static void the_folder_is_looked_for_anew(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    struct recorder_entry *entries;
    char path[256];
    settings.folder = scratch_name(&recording.scratch, "f", path);
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(recorder_list(recorder, &entries), -ENOENT);
        assert_null(entries);
        if (i == 0)
            scratch_make_folder(&recording.scratch, "f");
        assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_KLG, &recording_info),
                         0);
        recording_push(recorder, 0, 3);
        assert_int_equal(recorder_stop(recorder), 0);
        recording_wait_until_idle(recorder);
        assert_int_equal(assert_recording_replays("klg", "f/a", 0), 3);
        assert_int_equal(recorder_list(recorder, &entries), 1);
        free(entries);
        unlink(scratch_name(&recording.scratch, "f/a.klg", path));
        unlink(scratch_name(&recording.scratch, "f/a.klg.calibration.txt", path));
        scratch_name(&recording.scratch, "f", path);
    }
    recorder_destroy(&recorder);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, recording_setup, recording_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_format_replays_exactly),
        TEST(taken_names_are_numbered),
        TEST(odd_times_come_back),
        TEST(destroy_finishes_the_recording),
        TEST(damaged_frame_leaves_its_mark),
        TEST(invalid_max_is_no_measurement),
        TEST(frames_that_cannot_be_kept_are_counted),
        TEST(who_asks_for_room_loses_no_frame),
        TEST(names_and_settings_are_checked),
        TEST(names_that_are_one_in_topics),
        TEST(log_names_the_folder),
        TEST(the_folder_is_looked_for_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
