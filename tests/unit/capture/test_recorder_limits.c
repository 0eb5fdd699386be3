// SPDX-License-Identifier: Apache-2.0
// The recorder at its limits: time and bytes, old recordings that make room, a full disk, a killed
// process, and a frame loop that is never held up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/capture/recording.h"

#define MINUTE_NS INT64_C(60000000000)

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void limits_stop_the_recording(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    settings.max_duration_s = 0.5; // 16 frames: 0, 33, ... 500 ms
    struct recorder *recorder;
    struct recorder_status status;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_KLG, &recording_info), 0);
    recording_push(recorder, 0, 30);
    recording_wait_until_idle(recorder);
    assert_int_equal(recording.last_event, RECORDER_EVENT_LIMIT);
    assert_int_equal(assert_recording_replays("klg", "a", 0), 16);
    recorder_destroy(&recorder);

    // What the machine's clock was set by is no time, in whichever direction.
    for (int i = 0; i < 2; i++) {
        assert_int_equal(recorder_create(&recorder, &settings), 0);
        assert_int_equal(
            recorder_start_one(recorder, i ? "e" : "f", RECORDER_FORMAT_MCAP, &recording_info), 0);
        recording_push(recorder, 0, 8);
        recording_push_set(recorder, 8, 30, i ? INT64_C(3600000000000) : -200000000);
        recording_wait_until_idle(recorder);
        assert_int_equal(recording.last_event, RECORDER_EVENT_LIMIT);
        recorder_status(recorder, &status);
        assert_int_equal(status.n_frames, 16);
        recorder_destroy(&recorder);
    }

    // Nor is another clock, of which even that is not known.
    for (int i = 0; i < 2; i++) {
        assert_int_equal(recorder_create(&recorder, &settings), 0);
        assert_int_equal(
            recorder_start_one(recorder, i ? "c" : "d", RECORDER_FORMAT_MCAP, &recording_info), 0);
        recording_push(recorder, 0, 8);
        recording_push_later(recorder, 8, 30, i ? INT64_C(3600000000000) : -200000000);
        recording_wait_until_idle(recorder);
        assert_int_equal(recording.last_event, RECORDER_EVENT_LIMIT);
        recorder_status(recorder, &status);
        assert_int_equal(status.n_frames, 17);
        recorder_destroy(&recorder);
    }

    settings.max_duration_s = 0;
    settings.max_bytes = 20000;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "b", RECORDER_FORMAT_FAKENECT, &recording_info),
                     0);
    recording_push(recorder, 0, 30);
    recording_wait_until_idle(recorder);
    assert_int_equal(recording.last_event, RECORDER_EVENT_LIMIT);
    recorder_status(recorder, &status);
    assert_true(status.n_bytes <= 20000 && status.n_frames == 3);
    assert_int_equal(assert_recording_replays("fakenect", "b", 0), 3);
    recorder_destroy(&recorder);
}

// Chunks are held back and shrink; messages take room, too.
static void an_mcap_file_keeps_within_its_limit(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    settings.max_bytes = 60000;
    struct recorder *recorder;
    struct recorder_status status;
    struct stat st;
    char path[256];
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "c", RECORDER_FORMAT_MCAP, &recording_info), 0);
    for (uint64_t i = 0; i < 300; i++) {
        static const unsigned char message[1000] = {1};
        recording_push(recorder, i, i + 1);
        recorder_push_message(recorder, 0, RECORDER_TOPIC_POSE, (int64_t)i * 33333333, message,
                              sizeof message);
    }
    recording_wait_until_idle(recorder);
    assert_int_equal(recording.last_event, RECORDER_EVENT_LIMIT);
    recorder_status(recorder, &status);
    assert_int_equal(stat(scratch_name(&recording.scratch, "c.mcap", path), &st), 0);
    print_message("%llu frames in %lld bytes, said to be %llu\n",
                  (unsigned long long)status.n_frames, (long long)st.st_size,
                  (unsigned long long)status.n_bytes);
    assert_in_range(st.st_size, 40000, 60000);
    assert_true(status.n_bytes >= (uint64_t)st.st_size && status.n_bytes < 60000);
    assert_true(assert_recording_replays("mcap", "c", 0) == status.n_frames);
    recorder_destroy(&recorder);
}

static void record_four(struct recorder *recorder, const char *name)
{
    assert_int_equal(recorder_start_one(recorder, name, RECORDER_FORMAT_TUM, &recording_info), 0);
    recording_push(recorder, 0, 4);
    assert_int_equal(recorder_stop(recorder), 0);
    recording_wait_until_idle(recorder);
    nanosleep(&(struct timespec){0, 20000000}, NULL); // distinct times of modification
}

static void old_recordings_make_room(void **state)
{
    (void)state;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    struct recorder_entry *entries;
    scratch_write_text(&recording.scratch, "notes.txt", "not a recording: stays");
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    record_four(recorder, "z");
    assert_int_equal(recorder_list(recorder, &entries), 1);
    settings.keep_bytes = entries[0].n_bytes * 3 / 2;
    free(entries);
    recorder_destroy(&recorder);

    assert_int_equal(recorder_create(&recorder, &settings), 0);
    record_four(recorder, "y"); // one and a half fit: z stays
    record_four(recorder, "x"); // z goes
    char path[256];
    assert_int_equal(recorder_list(recorder, &entries), 2);
    assert_string_equal(entries[0].name, "y");
    assert_string_equal(entries[1].name, "x");
    assert_int_equal(access(scratch_name(&recording.scratch, "z", path), F_OK), -1);
    assert_int_equal(access(scratch_name(&recording.scratch, "notes.txt", path), F_OK), 0);
    free(entries);
    recorder_destroy(&recorder);

    settings.keep_bytes = 0;
    settings.keep_age_s = 1e-3;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    record_four(recorder, "w");
    assert_int_equal(recorder_list(recorder, &entries), 1);
    free(entries);
    recorder_destroy(&recorder);
}

static void full_disk_stops_the_recording_only(void **state)
{
    (void)state;
    // a limit of the file size fails the write like a full disk
    struct rlimit old, small = {30000, 30000};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_KLG, &recording_info), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint16_t pixels[RECORDING_N_PIXELS];
    struct capture_frame frame;
    for (uint64_t i = 0; i < 40; i++) { // whatever happens, push returns
        recording_make_frame(i, pixels, &frame);
        camera_push(recording.camera, recorder, frame);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    recording_wait_until_idle(recorder);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(recording.last_event, RECORDER_EVENT_FAILED);
    assert_non_null(strstr(recording.last_detail, strerror(EFBIG)));
    struct recorder_status status;
    recorder_status(recorder, &status);
    assert_true(status.n_frames >= 2);
    assert_int_equal(assert_recording_replays("klg", "a", 0), status.n_frames);
    assert_true(status.failed &&
                llabs(clock_ns(CLOCK_REALTIME) - status.ended_unix_ns) < MINUTE_NS);
    assert_string_equal(status.ended, recording.last_detail);
    assert_non_null(strstr(status.ended, "; kept as a.klg"));
    struct stat st;
    char path[256];
    assert_int_equal(stat(scratch_name(&recording.scratch, "a.klg", path), &st), 0);
    assert_int_equal(status.n_bytes, st.st_size);
    // It is told until the next one begins, which works.
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_KLG, &recording_info),
                     -EEXIST);
    recorder_status(recorder, &status);
    assert_true(status.failed && strcmp(status.name, "a") == 0);
    assert_int_equal(recorder_start_one(recorder, "b", RECORDER_FORMAT_TUM, &recording_info), 0);
    recording_push(recorder, 0, 3);
    recorder_destroy(&recorder);
    assert_int_equal(assert_recording_replays("tum", "b", 0), 3);
}

// Of which not one frame could be written, in each format.
static void an_empty_recording_is_taken_back(void **state)
{
    (void)state;
    struct rlimit old, small = {1500, 1500}; // an MCAP file's head takes more
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    struct recorder_entry *entries;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (int format = 0; format < RECORDER_N_FORMATS; format++) {
        const char *name = recorder_format_name((enum recorder_format)format);
        assert_int_equal(
            recorder_start_one(recorder, name, (enum recorder_format)format, &recording_info), 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        recording_push(recorder, 0, 1);
        recorder_end_camera(recorder, 0);
        recording_wait_until_idle(recorder);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        print_message("%s: %s\n", name, recording.last_detail);
        assert_int_equal(recording.last_event, RECORDER_EVENT_FAILED);
        assert_non_null(strstr(recording.last_detail, "after 0 frames, 0.0 MB"));
        assert_non_null(strstr(recording.last_detail, "; nothing of it is kept"));
        assert_int_equal(recorder_list(recorder, &entries), 0);
    }
    recorder_destroy(&recorder);
    assert_int_equal(rmdir(recording.scratch.path), 0); // no sidecar is left, either
}

static void killed_recorder_leaves_a_good_recording(void **state)
{
    (void)state;
    for (int format = 0; format < RECORDER_N_FORMATS; format++) {
        const char *name = recorder_format_name((enum recorder_format)format);
        int report[2];
        assert_int_equal(pipe(report), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct recorder_settings settings = {.folder = recording.scratch.path};
            struct recorder *recorder;
            uint16_t pixels[RECORDING_N_PIXELS];
            struct capture_frame frame;
            if (recorder_create(&recorder, &settings) ||
                recorder_start_one(recorder, name, (enum recorder_format)format, &recording_info))
                _exit(1);
            for (uint64_t i = 0;; i++) { // 100 frames/s until it is killed
                recording_make_frame(i, pixels, &frame);
                camera_push(recording.camera, recorder, frame);
                if (write(report[1], &i, sizeof i) != sizeof i)
                    _exit(1);
                nanosleep(&(struct timespec){0, 10000000}, NULL);
            }
        }
        uint64_t n_pushed = 0;
        while (n_pushed < 60)
            assert_int_equal(read(report[0], &n_pushed, sizeof n_pushed), sizeof n_pushed);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(report[0]);
        close(report[1]);
        uint64_t n = assert_recording_replays(name, name, 0);
        assert_true(n + 30 >= n_pushed); // a second at camera rate
    }
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// What recording costs the frame loop at 640x480, where a frame is not copied: some 10 us. The
// limit of 0.2 ms (99 % of the frames) is for a machine of one's own; the test allows it of
// processor time, which other processes disturb less, and prints both.
#ifdef __SANITIZE_THREAD__
#define PUSH_LIMIT_NS 200000000
#else
#define PUSH_LIMIT_NS 200000
#endif

static void push_is_quick(void **state)
{
    (void)state;
    enum { N_FRAMES = 90 };
    struct buffers *big_camera = camera_create(640 * 480, 30);
    struct capture_info big = recording_info;
    big.camera.width_px = 640;
    big.camera.height_px = 480;
    struct recorder_settings settings = recording_settings();
    struct recorder *recorder;
    int64_t spent_ns[2][N_FRAMES];
    static const clockid_t clocks[2] = {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID};
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "a", RECORDER_FORMAT_KLG, &big), 0);
    for (int i = 0; i < N_FRAMES; i++) {
        uint16_t *pixels = buffers_take(big_camera);
        for (size_t k = 0; k < 640 * 480; k++)
            pixels[k] = (uint16_t)(1000 + (k >> 6) + (size_t)i);
        struct capture_frame frame = {.image = {pixels, 640, 480, 1000, i * INT64_C(33333333)},
                                      .buffers = big_camera};
        for (int c = 0; c < 2; c++)
            spent_ns[c][i] = -clock_ns(clocks[c]);
        recorder_push(recorder, 0, &frame);
        for (int c = 0; c < 2; c++)
            spent_ns[c][i] += clock_ns(clocks[c]);
        buffers_give(big_camera, pixels);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    for (int c = 0; c < 2; c++) {
        qsort(spent_ns[c], N_FRAMES, sizeof **spent_ns, compare_ns);
        print_message("recorder_push, %s: median %.3f ms, p90 %.3f ms, max %.3f ms\n",
                      c ? "processor" : "elapsed", (double)spent_ns[c][N_FRAMES / 2] * 1e-6,
                      (double)spent_ns[c][N_FRAMES * 9 / 10] * 1e-6,
                      (double)spent_ns[c][N_FRAMES - 1] * 1e-6);
    }
    assert_true(spent_ns[1][N_FRAMES * 9 / 10] < PUSH_LIMIT_NS);
    recorder_destroy(&recorder);
    camera_destroy(big_camera);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, recording_setup, recording_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(limits_stop_the_recording),
        TEST(an_mcap_file_keeps_within_its_limit),
        TEST(old_recordings_make_room),
        TEST(full_disk_stops_the_recording_only),
        TEST(an_empty_recording_is_taken_back),
        TEST(killed_recorder_leaves_a_good_recording),
        TEST(push_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
