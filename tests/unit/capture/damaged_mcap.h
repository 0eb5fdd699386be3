// SPDX-License-Identifier: Apache-2.0
// Recordings of our recorder, in our messages or those of ROS, whose bytes a test changes; they are
// read and repaired. One inclusion a program, after cmocka's.
#ifndef POSED_TESTS_UNIT_CAPTURE_DAMAGED_MCAP_H
#define POSED_TESTS_UNIT_CAPTURE_DAMAGED_MCAP_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture/driver.h"
#include "capture/mcap/footer.h"
#include "capture/mcap/format.h"
#include "capture/mcap/repair.h"
#include "capture/recorder/recorder.h"
#include "tests/unit/camera.h"
#include "tests/unit/scratch.h"

#define W        8u
#define H        6u
#define N        (W * H)
#define N_FRAMES 40 // at 30 Hz: three chunks
#define N_CHUNKS 3u
#define FIRST_NS INT64_C(1700000000000000000)

static struct scratch scratch;
static unsigned char file[1 << 17];
static size_t n_file, chunks[N_CHUNKS], data_end, summary, n_each[N_CHUNKS];
static char said[8000];
static struct intrinsics camera; // of the file that was read last

static inline void hear(void *user, enum log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

// Where the chunks and the end of the data are, by walking through the records.
static inline void find_chunks(void)
{
    size_t n = 0, at = MCAP_MAGIC_BYTES;
    for (; file[at] != MCAP_DATA_END; at += MCAP_RECORD_BYTES + mcap_get(file + at + 1, 8)) {
        if (file[at] != MCAP_CHUNK)
            continue;
        assert_in_range(n, 0, N_CHUNKS - 1);
        chunks[n++] = at;
    }
    assert_int_equal(n, N_CHUNKS);
    data_end = at;
    summary = at + MCAP_RECORD_BYTES + MCAP_DATA_END_BYTES;
}

static inline void record(enum recorder_format format, const char *name)
{
    static const struct capture_info info = {.camera = {8, 8.5, 4.25, 3, W, H},
                                             .units_per_m = 1000};
    struct recorder_settings settings = {.folder = scratch.path, .queue_frames = N_FRAMES};
    struct buffers *pushed = camera_create(N, N_FRAMES);
    struct recorder *recorder;
    uint16_t pixels[N];
    char path[256];
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "a", format, &info), 0);
    for (int i = 0; i < N_FRAMES; i++) {
        for (size_t k = 0; k < N; k++)
            pixels[k] = (uint16_t)(1000 + i);
        camera_push(pushed, recorder,
                    (struct capture_frame){
                        .image = {pixels, W, H, 1000, FIRST_NS + i * INT64_C(33333333)}});
    }
    recorder_destroy(&recorder);
    camera_destroy(pushed);
    FILE *recorded = fopen(scratch_name(&scratch, name, path), "rb");
    assert_non_null(recorded);
    n_file = fread(file, 1, sizeof file, recorded);
    fclose(recorded);
    find_chunks();
}

// A bit for each frame that can be read, of the file or of a repaired one.
static inline uint64_t read_frames(const char *name)
{
    char path[256];
    const struct capture_settings settings = {.allow_implausible = true, .log = {hear, NULL}};
    struct capture_info info = {0};
    struct capture_frame frame = {0};
    uint16_t pixels[N];
    uint64_t seen = 0;
    camera = (struct intrinsics){0};
    void *source;
    said[0] = 0;
    if (capture_driver_mcap.open(&source, scratch_name(&scratch, name, path), &settings, &info)) {
        print_error("%s\n", said);
        return 0;
    }
    camera = info.camera;
    for (uint64_t i = 0; i < info.n_frames; i++) {
        if (capture_driver_mcap.decode(source, i, pixels, &frame))
            continue;
        assert_in_range(pixels[0], 1000, 1000 + N_FRAMES - 1);
        seen |= UINT64_C(1) << (pixels[0] - 1000);
    }
    capture_driver_mcap.close(source);
    return seen;
}

static inline uint64_t read_file(void)
{
    scratch_write(&scratch, "b.mcap", file, n_file);
    return read_frames("b.mcap");
}

static inline struct mcap_repaired repair_file(void)
{
    struct mcap_repaired repaired;
    struct log_sink log = {hear, NULL};
    char path[256];
    scratch_write(&scratch, "b.mcap", file, n_file);
    const int in = open(scratch_name(&scratch, "b.mcap", path), O_RDONLY);
    const int out = open(scratch_name(&scratch, "c.mcap", path), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(in >= 0 && out >= 0);
    assert_int_equal(mcap_repair(in, out, "b.mcap", &log, &repaired), 0);
    close(in);
    close(out);
    return repaired;
}

// The frames of some chunks.
static inline uint64_t of_chunks(unsigned chosen)
{
    uint64_t frames = 0;
    unsigned i = 0;
    for (unsigned c = 0; c < N_CHUNKS; c++)
        for (size_t k = 0; k < n_each[c]; k++, i++)
            frames |= (uint64_t)(chosen >> c & 1) << i;
    return frames;
}

__attribute__((format(printf, 1, 2))) static inline void assert_said(const char *format, ...)
{
    char wanted[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wanted, sizeof wanted, format, arguments);
    va_end(arguments);
    if (!strstr(said, wanted))
        print_error("%s\nwanted: %s\n", said, wanted);
    assert_non_null(strstr(said, wanted));
}

static inline void assert_goes_on(size_t from, size_t to)
{
    assert_said("b.mcap: damaged at byte %zu: %zu bytes not read, goes on at byte %zu by the "
                "index\n",
                from, to - from, to);
    assert_null(strstr(said, "incomplete"));
    const struct mcap_repaired repaired = repair_file();
    const uint64_t seen = read_frames("b.mcap");
    assert_int_equal(repaired.n_lost_bytes, to - from);
    assert_false(repaired.was_complete);
    assert_true(read_frames("c.mcap") == seen);
    assert_null(strstr(said, "damaged"));
    assert_null(strstr(said, "incomplete"));
}

static inline int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// A new recording in a new folder: ours, or one of ROS.
static inline void begin(int k)
{
    scratch_remove(&scratch);
    scratch_create(&scratch);
    record(k ? RECORDER_FORMAT_ROS2MCAP : RECORDER_FORMAT_MCAP, k ? "a.ros2.mcap" : "a.mcap");
    n_each[0] = n_each[1] = 16;
    n_each[2] = N_FRAMES - 32;
}

#endif
