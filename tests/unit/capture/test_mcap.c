// SPDX-License-Identifier: Apache-2.0
// MCAP: what the recorder writes is read by our reader, however it is cut or damaged, and by the
// official Python library (read_mcap.py; the program's arguments are the interpreter and the
// script. POSED_MCAP_PYTHON is an interpreter that has the library, see tools/test).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/mcap/foxglove.h"
#include "capture/mcap/index.h"
#include "tests/unit/camera.h"
#include "tests/unit/scratch.h"

#define W        9u
#define H        7u
#define N        (W * H)
#define N_FRAMES 40

static const char *python, *script;
static struct scratch scratch;
static char path[256], path_of_mm[256];

// One of each frame is no measurement, in the way that 16UC1 does not know.
static uint16_t pixel(int frame, size_t k)
{
    return k == 5 ? DEPTH_INVALID_MAX : (uint16_t)(1000 + 100 * frame + (int)k);
}

// 40 frames at 30 Hz: three chunks; a pose message with each, a field of its own behind
// foxglove.Odometry's.
static void record(const char *name, double units_per_m)
{
    const struct capture_info info = {.camera = {8, -8.5, 4.25, 3, W, H},
                                      .units_per_m = units_per_m};
    static const unsigned char pose[] = {0x12, 4,   'o', 'd', 'o', 'm',  0x1A, 6, 'c',
                                         'a',  'm', 'e', 'r', 'a', 0xC8, 0x3E, 7};
    struct recorder_settings settings = {.folder = scratch.path, .queue_frames = N_FRAMES};
    struct buffers *camera = camera_create(N, N_FRAMES);
    struct recorder *recorder;
    uint16_t pixels[N];
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, name, RECORDER_FORMAT_MCAP, &info), 0);
    for (int i = 0; i < N_FRAMES; i++) {
        for (size_t k = 0; k < N; k++)
            pixels[k] = pixel(i, k);
        struct capture_frame frame = {
            .image = {pixels, W, H, units_per_m, 1700000000000000000 + i * INT64_C(33333333)}};
        camera_push(camera, recorder, frame);
        recorder_push_message(recorder, 0, RECORDER_TOPIC_POSE, frame.image.time_ns, pose,
                              sizeof pose);
    }
    recorder_destroy(&recorder);
    camera_destroy(camera);
}

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    record("a", 5000);
    record("mm", 1000);
    scratch_name(&scratch, "a.mcap", path);
    scratch_name(&scratch, "mm.mcap", path_of_mm);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// Reads all that can be read; pixels must be right wherever decoding says that it succeeded.
static long count_good(int fd, int *out_err)
{
    struct log_sink log = scratch_log(&scratch);
    struct mcap_reader *reader;
    struct mcap_index index;
    uint16_t pixels[4 * N];
    long n_good = 0;
    scratch.n_lines = 0;
    assert_int_equal(mcap_reader_create(&reader, fd), 0);
    *out_err = mcap_scan(reader, "a.mcap", NULL, &log, &index);
    for (size_t i = 0; !*out_err && i < index.n_frames; i++) {
        char reason[MCAP_REASON_BYTES];
        assert_true(i == 0 || index.frames[i].time_ns > index.frames[i - 1].time_ns);
        if ((uint64_t)index.width_px * index.height_px > 4 * N ||
            mcap_decode(reader, &index, i, pixels, reason))
            continue;
        int64_t since_ns = index.frames[i].time_ns - 1700000000000000000;
        bool same = index.width_px == W && index.height_px == H && since_ns >= 0 &&
                    since_ns % 33333333 == 0;
        for (size_t k = 0; same && k < N; k++)
            same = pixels[k] == pixel((int)(since_ns / 33333333), k);
        n_good += same;
    }
    mcap_index_free(&index);
    mcap_reader_destroy(&reader);
    return n_good;
}

static void assert_comes_back(const char *of, double units_per_m)
{
    char source[300];
    snprintf(source, sizeof source, "mcap:%s", of);
    struct capture_settings settings = {.source = source, .log = scratch_log(&scratch)};
    struct capture *capture;
    struct capture_frame frame;
    scratch.n_lines = 0;
    settings.allow_implausible = true; // a camera of 9x7
    assert_int_equal(capture_open(&capture, &settings), 0);
    const struct capture_info *info = capture_info(capture);
    assert_true(info->camera.fx_px == 8 && info->camera.fy_px == -8.5);
    assert_true(info->camera.cx_px == 4.25 && info->camera.cy_px == 3);
    assert_true(info->units_per_m == units_per_m);
    for (int i = 0; i < N_FRAMES; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_int_equal(frame.image.time_ns, 1700000000000000000 + i * INT64_C(33333333));
        for (size_t k = 0; k < N; k++)
            assert_int_equal(frame.image.depth[k], pixel(i, k));
    }
    assert_int_equal(capture_read(capture, -1, &frame), -ENODATA);
    capture_close(&capture);
}

static void everything_comes_back(void **state)
{
    (void)state;
    assert_comes_back(path, 5000);
    assert_comes_back(path_of_mm, 1000);
}

static void truncated_anywhere(void **state)
{
    (void)state;
    int fd = open(path, O_RDWR), err;
    off_t n_bytes = lseek(fd, 0, SEEK_END);
    assert_int_equal(count_good(fd, &err), N_FRAMES);
    assert_int_equal(scratch.n_lines, 0);
    long before = N_FRAMES;
    for (off_t n = n_bytes; n-- > 0;) {
        assert_int_equal(ftruncate(fd, n), 0);
        long n_good = count_good(fd, &err);
        assert_true(err == 0 || err == -EINVAL || err == -ENOENT);
        assert_true(n_good <= before); // what was complete stays readable
        before = n_good;
    }
    assert_int_equal(before, 0);
    close(fd);
}

static void damaged_anywhere(void **state)
{
    (void)state;
    int fd = open(path, O_RDWR), err;
    off_t n_bytes = lseek(fd, 0, SEEK_END);
    long worst = N_FRAMES, n_intact = 0;
    for (off_t at = 0; at < n_bytes; at++) {
        unsigned char byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        for (int k = 0; k < 2; k++) {
            unsigned char other = k ? 0xFF : byte ^ 1;
            assert_int_equal(pwrite(fd, &other, 1, at), 1);
            long n_good = count_good(fd, &err);
            worst = n_good < worst ? n_good : worst;
            n_intact += n_good == N_FRAMES;
        }
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_true(n_intact > 100); // the summary, at least, is not needed
    assert_int_equal(worst, 0);  // and the head is
    close(fd);
}

// A message of 300 MB (of a hole) in front of the recording: nothing of ours, passed over.
static void a_huge_record_is_passed_over(void **state)
{
    (void)state;
    enum { HEAD = MCAP_MAGIC_BYTES + MCAP_RECORD_BYTES };
    const off_t n_huge = 300 << 20;
    unsigned char head[HEAD] = MCAP_MAGIC;
    static unsigned char rest[1 << 20];
    char other[256];
    int err, from = open(path, O_RDONLY);
    int fd = open(scratch_name(&scratch, "huge.mcap", other), O_RDWR | O_CREAT, 0600);
    head[MCAP_MAGIC_BYTES] = MCAP_MESSAGE;
    mcap_put(head + MCAP_MAGIC_BYTES + 1, (uint64_t)n_huge, 8);
    ssize_t n = pread(from, rest, sizeof rest, MCAP_MAGIC_BYTES);
    assert_true(n > 0 && n < (ssize_t)sizeof rest);
    assert_int_equal(pwrite(fd, head, HEAD, 0), HEAD);
    assert_int_equal(pwrite(fd, rest, (size_t)n, HEAD + n_huge), n);
    assert_int_equal(count_good(fd, &err), N_FRAMES);
    close(from);
    close(fd);
}

static void no_mcap_file(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "\x89MCAP0\r", "hello, world",
                                        "\x89MCAP1\r\n........."};
    int err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        scratch_write_text(&scratch, "b.mcap", texts[i]);
        char other[256];
        int fd = open(scratch_name(&scratch, "b.mcap", other), O_RDONLY);
        assert_int_equal(count_good(fd, &err), 0);
        assert_int_equal(err, -EINVAL);
        assert_non_null(strstr(scratch.line, "not an MCAP file"));
        close(fd);
    }
}

static void the_official_library_reads_it(void **state)
{
    (void)state;
    if (!python) {
        print_message("SKIP: no interpreter given for the official MCAP library\n");
        skip();
    }
    pid_t child = fork();
    if (child == 0) {
        execl(python, python, script, path, path_of_mm, NULL);
        _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

// google.protobuf.Timestamp in field 1: seconds (varint, field 1) and what is left (field 2).
static void stamp_of_an_image_is_exact(void **state)
{
    (void)state;
    static const unsigned char expected[] = {0x0A, 11,   0x08, 0x80, 0xE2, 0xCF, 0xAA,
                                             0x06, 0x10, 0x95, 0x9A, 0xEF, 0x3A};
    const struct depth_frame image = {
        .time_ns = 1700000000123456789, .width_px = W, .height_px = H};
    unsigned char bytes[FOXGLOVE_MAX_HEADER_BYTES];
    assert_true(foxglove_put_image_header(&image, "camera", bytes) > sizeof expected);
    assert_memory_equal(bytes, expected, sizeof expected);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
    if (argc == 3) {
        const char *own = getenv("POSED_MCAP_PYTHON");
        python = own && access(own, X_OK) == 0 ? own : argv[1];
        script = argv[2];
    }
    const struct CMUnitTest tests[] = {
        TEST(everything_comes_back),
        TEST(truncated_anywhere),
        TEST(damaged_anywhere),
        TEST(a_huge_record_is_passed_over),
        TEST(no_mcap_file),
        TEST(the_official_library_reads_it),
        TEST(stamp_of_an_image_is_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
