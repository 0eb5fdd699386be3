// SPDX-License-Identifier: Apache-2.0
// The readers of foreign logs - png, rawpgm, fakenect, klg - and what they share: disparity and the
// Kinect's clock. Each recording is written by the test.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "capture/capture.h"
#include "capture/driver.h"
#include "capture/io/image.h"
#include "capture/kinect/device_clock.h"
#include "capture/kinect/disparity.h"
#include "capture/kinect/gravity.h"
#include "capture/recording/fakenect.h"
#include "capture/recording/klg.h"
#include "capture/recording/rawpgm.h"
#include "tests/unit/scratch.h"

#define W 64u
#define H 48u
#define N (W * H)

static struct scratch scratch;

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

static struct capture_settings settings_of(const char *driver, const char *file)
{
    static char source[256];
    snprintf(source, sizeof source, "%s:%s%s%s", driver, scratch.path, *file ? "/" : "", file);
    scratch.line[0] = '\0';
    scratch.n_lines = 0;
    return (struct capture_settings){.source = source, .log = scratch_log(&scratch)};
}

static int open_result(const struct capture_settings *settings)
{
    struct capture *capture;
    int err = capture_open(&capture, settings);
    capture_close(&capture);
    return err;
}

static void disparity_has_the_known_depths(void **state)
{
    (void)state;
    static const uint16_t known[][2] = {{500, 586}, {700, 887}, {900, 1824}, {1000, 3864}};
    struct disparity_model model = disparity_default();
    struct disparity_table table;
    assert_int_equal(disparity_table_fill(&model, &table), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(table.mm[known[i][0]], known[i][1]);
    assert_int_equal(table.mm[2047], 0);
    assert_int_equal(table.mm[1085], 0);
    uint16_t raw[4] = {500, 2047, 2048, 65535}, mm[4];
    disparity_to_mm(&table, raw, 4, mm);
    assert_int_equal(mm[0], 586);
    for (int i = 1; i < 4; i++)
        assert_int_equal(mm[i], 0);
    // the formula step by step, as libfreenect has it
    for (int r = 0; r < 1050; r++) {
        double m = ((r - 4 * 200) / 4.0 - 0.375) * 0.1042;
        double expected = 10 * (m * 120 / (7.5 - m) + 120);
        assert_true(fabs(table.mm[r] - expected) <= 0.5001);
    }
    static const struct disparity_model bad[] = {
        {NAN, 1000}, {-1, 1000}, {1e6, -5}, {1e6, INFINITY}};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(disparity_table_fill(&bad[i], &table), -EINVAL);
}

static void disparity_inverse_is_exact_on_its_own_depths(void **state)
{
    (void)state;
    struct disparity_model model = disparity_default();
    struct disparity_table table;
    struct disparity_inverse *inverse = malloc(sizeof *inverse);
    assert_int_equal(disparity_table_fill(&model, &table), 0);
    disparity_inverse_fill(&table, inverse);
    for (uint32_t raw = 0; raw < DISPARITY_N_RAW; raw++) {
        uint16_t mm = table.mm[raw];
        if (mm)
            assert_int_equal(table.mm[inverse->raw[mm]], mm);
    }
    assert_int_equal(inverse->raw[0], DISPARITY_NONE);
    assert_int_equal(inverse->raw[65535], DISPARITY_NONE);
    assert_int_equal(inverse->raw[1], DISPARITY_NONE);
    for (uint32_t mm = 600; mm < 3000; mm++) // half a step: z^2 * 2.9e-6 / 2
        assert_true(abs((int)table.mm[inverse->raw[mm]] - (int)mm) <= 1 + mm * mm * 1.5e-6);
    free(inverse);
}

static void clock_unwraps(void **state)
{
    (void)state;
    struct device_clock clock = {0};
    uint64_t ticks;
    int64_t time_ns, before_ns = 0;
    uint64_t true_ticks = 4000000000u;
    // 10 minutes at 30 Hz, host stamps up to 20 ms late
    for (int i = 0; i < 18000; i++, true_ticks += 2000000) {
        int64_t host_ns = 1000000000000 + (int64_t)i * 1000000000 / 30 + (i * 7919 % 20) * 1000000;
        assert_true(device_clock_update(&clock, (uint32_t)true_ticks, host_ns, &ticks, &time_ns));
        assert_int_equal(ticks, true_ticks);
        assert_true(time_ns > before_ns);
        assert_true(i == 0 || llabs(time_ns - before_ns - 33333333) <= 1);
        before_ns = time_ns;
    }
    uint32_t last = (uint32_t)(true_ticks - 2000000);
    int64_t host_ns = 1000000000000 + 600000000000;
    assert_false(device_clock_update(&clock, last, host_ns, &ticks, &time_ns));
    assert_false(device_clock_update(&clock, last - 5, host_ns - 1000000000, &ticks, &time_ns));
    // silent for five wraps and a bit
    true_ticks += 5 * (UINT64_C(1) << 32);
    host_ns += INT64_C(71582788266) * 5;
    assert_true(device_clock_update(&clock, (uint32_t)true_ticks, host_ns, &ticks, &time_ns));
    assert_int_equal(ticks, true_ticks);
    // restarted device: the counter begins anew, time goes on
    assert_true(device_clock_update(&clock, 17, host_ns + 30000000000, &ticks, &time_ns));
    assert_true(time_ns == host_ns + 30000000000);
    assert_true(device_clock_update(&clock, 2000017, host_ns + 30033000000, &ticks, &time_ns));
    assert_true(time_ns == host_ns + 30033333333);
    // restarted, and at the very count where it ended: later all the same
    uint64_t before = ticks;
    assert_true(device_clock_update(&clock, 2000017, host_ns + 40000000000, &ticks, &time_ns));
    assert_true(ticks > before && time_ns == host_ns + 40000000000);
    host_ns += 10000000000;
    // the same by less than the two seconds: only the host goes forward
    before_ns = time_ns;
    assert_true(device_clock_update(&clock, 5, host_ns + 30100000000, &ticks, &time_ns));
    assert_true(time_ns > before_ns);
}

static void gravity_points_down(void **state)
{
    (void)state;
    static const int16_t level[3] = {0, 819, 0};
    float gravity[3];
    int16_t back[3];
    gravity_from_counts(level, gravity);
    assert_true(fabsf(gravity[1] - 9.80665f) < 1e-4f && gravity[0] == 0 && gravity[2] == 0);
    gravity_to_counts(gravity, back);
    assert_memory_equal(back, level, sizeof back);
}

static void write_pgm(const char *name, uint16_t value, bool big_endian)
{
    unsigned char file[64 + 2 * N];
    int n = snprintf((char *)file, 64, "P5 %u %u 65535\n", W, H);
    for (size_t i = 0; i < N; i++) {
        file[(size_t)n + 2 * i] = (unsigned char)(big_endian ? value >> 8 : value);
        file[(size_t)n + 2 * i + 1] = (unsigned char)(big_endian ? value : value >> 8);
    }
    scratch_write(&scratch, name, file, (size_t)n + 2 * N);
}

#define CALIB                                                                                     \
    "64 48\n50 50\n35 27\n\n64 48\n57.371 57.4394\n34.6 24.9\n\n1 0 0 0.02\n0 1 0 0\n0 0 1 0\n\n" \
    "1135.09 0.819141\n"

static void rawpgm_reads(void **state)
{
    (void)state;
    write_pgm("10.pgm", 800, true);
    write_pgm("9.pgm", 801, true);
    write_pgm("11.pgm", 2047, true);
    scratch_write_text(&scratch, "calib.txt", CALIB);
    struct capture_settings settings = settings_of("rawpgm", "");
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(capture_open(&capture, &settings), 0);
    const struct capture_info *info = capture_info(capture);
    assert_true(info->camera.fx_px == 57.371 && info->camera.cy_px == 24.9);
    assert_true(info->units_per_m == 1000);
    double model = 8 * 0.819141 * 57.371;
    long expected[3] = {lrint(1000 * model / (1135.09 - 801)),
                        lrint(1000 * model / (1135.09 - 800)), 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_int_equal(frame.image.depth[N - 1], expected[i]);
    }
    capture_close(&capture);

    scratch_write_text(&scratch, "calib.txt", "64 48 1 2 3");
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "calib.txt: expected 26 finite numbers"));
    char path[256];
    unlink(scratch_name(&scratch, "calib.txt", path));
    assert_int_equal(open_result(&settings), -ENOENT);
    assert_true(scratch_said(&scratch, "calib.txt: no such file"));
    settings = settings_of("fakenect", "");
    assert_int_equal(open_result(&settings), -ENOENT);
    assert_true(scratch_said(&scratch, "did you mean rawpgm:/"));
}

static void png_takes_times_from_names(void **state)
{
    (void)state;
    struct image_codec *codec;
    uint16_t pixels[N];
    char path[256];
    for (size_t i = 0; i < N; i++)
        pixels[i] = 1500;
    assert_int_equal(image_codec_create(&codec), 0);
    scratch_write_text(&scratch, "calibration.txt", "52 52 32 24\n");
    static const struct {
        const char *names[3];
        int64_t times_ns[3];
    } cases[] = {
        {{"1305031102.160407.png", "1305031102.194330.png", "1305031103.2.png"},
         {1305031102160407000, 1305031102194330000, 1305031103200000000}},
        {{"1403636579763555584.png", "1403636579813555456.png", "1403636579863555584.png"},
         {1403636579763555584, 1403636579813555456, 1403636579863555584}},
        {{"depth9.png", "depth10.png", "depth11.png"}, {0, 33333333, 66666666}},
        {{"1.5.png", "1.50.png", "x.png"}, {0, 33333333, 66666666}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int i = 0; i < 3; i++)
            assert_int_equal(image_write_png(codec, scratch_name(&scratch, cases[k].names[i], path),
                                             pixels, W, H, 1),
                             0);
        struct capture_settings settings = settings_of("png", "");
        struct capture *capture;
        struct capture_frame frame;
        assert_int_equal(capture_open(&capture, &settings), 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(capture_read(capture, -1, &frame), 0);
            assert_int_equal(frame.image.time_ns, cases[k].times_ns[i]);
            unlink(scratch_name(&scratch, cases[k].names[i], path));
        }
        assert_int_equal(capture_read(capture, -1, &frame), -ENODATA);
        capture_close(&capture);
    }
    struct capture_settings settings = settings_of("png", "");
    assert_int_equal(open_result(&settings), -ENOENT);
    assert_true(scratch_said(&scratch, "no *.png and no depth/*.png"));
    image_codec_destroy(&codec);
}

static void png_says_that_intrinsics_are_a_default(void **state)
{
    (void)state;
    enum { WIDTH = 640, HEIGHT = 480 };
    static uint16_t pixels[WIDTH * HEIGHT];
    struct image_codec *codec;
    char path[256];
    for (size_t i = 0; i < WIDTH * HEIGHT; i++)
        pixels[i] = 1500;
    assert_int_equal(image_codec_create(&codec), 0);
    assert_int_equal(
        image_write_png(codec, scratch_name(&scratch, "1.png", path), pixels, WIDTH, HEIGHT, 1), 0);
    image_codec_destroy(&codec);
    struct capture_settings settings = settings_of("png", "");
    assert_int_equal(open_result(&settings), 0);
    assert_true(
        scratch_said(&scratch, "no calibration.txt: the intrinsics are the format's default"));
    settings = settings_of("png", "");
    settings.fx_px = settings.fy_px = 525;
    settings.cx_px = 319.5;
    settings.cy_px = 239.5;
    assert_int_equal(open_result(&settings), 0);
    assert_int_equal(scratch.n_lines, 0);
}

static void fakenect_reads(void **state)
{
    (void)state;
    write_pgm("d-100.000000-4294000000.pgm", 800, false);
    write_pgm("d-100.040000-1032704.pgm", 801, false); // 2000000 ticks later, wrapped
    write_pgm("d-100.070000-3032704.pgm", 2047, false);
    static const unsigned char level[12] = {0, 0, 0x33, 0x03};
    scratch_write(&scratch, "a-100.010000-0.dump", level, sizeof level);
    scratch_write(&scratch, "a-100.050000-0.dump", level, 3);
    scratch_write_text(&scratch, "calibration.txt", "57.58 57.58 31.4 23.5\n");
    scratch_write_text(&scratch, "INDEX.txt",
                       "d-100.000000-4294000000.pgm\r\nr-100.000000-17.ppm\na-100.010000-0.dump\n"
                       "d-100.040000-1032704.pgm\nd-100.041000-1032704.pgm\n"
                       "a-100.050000-0.dump\nd-100.070000-3032704.pgm\n");
    struct capture_settings settings = settings_of("fakenect", "");
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(capture_open(&capture, &settings), 0);
    assert_true(scratch_said(&scratch, "1 frames skipped"));
    static const uint64_t ticks[3] = {4294000000, 4296000000, 4298000000};
    static const int64_t times_ns[3] = {100000000000, 100033333333, 100066666666};
    struct disparity_model model = disparity_default();
    struct disparity_table table;
    assert_int_equal(disparity_table_fill(&model, &table), 0);
    const uint16_t depths[3] = {table.mm[800], table.mm[801], 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_int_equal(frame.device_ticks, ticks[i]);
        assert_int_equal(frame.image.time_ns, times_ns[i]);
        assert_int_equal(frame.image.depth[0], depths[i]);
        assert_true(i == 1 ? fabsf(frame.gravity_m_s2[1] - 9.80665f) < 1e-3f
                           : isnan(frame.gravity_m_s2[1]));
    }
    capture_close(&capture);

    static const struct {
        const char *index, *reason;
        int err;
    } bad[] = {
        {"", "no depth frames", -ENOENT},
        {"r-1.0-1.ppm\n", "no depth frames", -ENOENT},
        {"d-1.0-1.pgm\n../d-2.0-2.pgm\n", "INDEX.txt:2: the name leads out", -EINVAL},
        {"/etc/passwd\n", "INDEX.txt:1: the name leads out", -EINVAL},
        {"d-1.0-99999999999.pgm\n", "INDEX.txt:1: expected a name", -EINVAL},
        {"d-1.0.pgm\n", "INDEX.txt:1: expected a name", -EINVAL},
        {"d-nan-1.pgm\n", "INDEX.txt:1: expected a name", -EINVAL},
        {"d-1.0-1.pgm\n", "none of its 1 images is there", -ENOENT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scratch_write_text(&scratch, "INDEX.txt", bad[i].index);
        assert_int_equal(open_result(&settings), bad[i].err);
        assert_true(scratch_said(&scratch, bad[i].reason));
    }
}

// A klg of three frames: zlib with a colour image, raw, zlib. Returns its length.
static size_t make_klg(unsigned char *out, const int64_t stamps[3], int32_t n_said)
{
    size_t at = 4;
    memcpy(out, &n_said, 4);
    for (int i = 0; i < 3; i++) {
        uint16_t pixels[N];
        unsigned char packed[2 * N + 1024];
        uLongf n_packed = sizeof packed;
        for (size_t k = 0; k < N; k++)
            pixels[k] = (uint16_t)(1000 + (size_t)i + k % 7);
        if (i == 1) {
            n_packed = sizeof pixels;
            memcpy(packed, pixels, sizeof pixels);
        } else {
            assert_int_equal(compress(packed, &n_packed, (unsigned char *)pixels, sizeof pixels),
                             0);
        }
        int32_t n_depth = (int32_t)n_packed, n_image = i == 0 ? 5 : 0;
        memcpy(out + at, &stamps[i], 8);
        memcpy(out + at + 8, &n_depth, 4);
        memcpy(out + at + 12, &n_image, 4);
        memcpy(out + at + 16, packed, n_packed);
        memcpy(out + at + 16 + n_packed, "image", (size_t)n_image);
        at += 16 + n_packed + (size_t)n_image;
    }
    return at;
}

static void klg_reads(void **state)
{
    (void)state;
    static const int64_t stamps[][3] = {
        {1000000, 1033333, 1066666}, {1000000000, 1033333333, 1066666666}, {1000, 1033, 1066}};
    static const int64_t second_ns[3] = {1033333000, 1033333333, 1033000000};
    unsigned char file[8 * N];
    scratch_write_text(&scratch, "a.klg.calibration.txt", "52 52 32 24 64 48\n");
    for (int k = 0; k < 3; k++) {
        size_t n = make_klg(file, stamps[k], k == 0 ? 0 : 3); // 0: the logger was killed
        scratch_write(&scratch, "a.klg", file, n);
        struct capture_settings settings = settings_of("klg", "a.klg");
        struct capture *capture;
        struct capture_frame frame;
        assert_int_equal(capture_open(&capture, &settings), 0);
        assert_int_equal(capture_info(capture)->n_frames, 3);
        for (uint16_t i = 0; i < 3; i++) {
            assert_int_equal(capture_read(capture, -1, &frame), 0);
            assert_true(i != 1 || frame.image.time_ns == second_ns[k]);
            for (size_t p = 0; p < N; p++)
                assert_int_equal(frame.image.depth[p], 1000 + i + p % 7);
        }
        assert_int_equal(capture_read(capture, -1, &frame), -ENODATA);
        capture_close(&capture);
        assert_int_equal(scratch.n_lines, 0);
    }
}

static void klg_says_that_intrinsics_are_a_default(void **state)
{
    (void)state;
    enum { WIDTH = 640, HEIGHT = 480, HEAD = 20 };
    static unsigned char file[HEAD + 2 * WIDTH * HEIGHT] = {1}; // one frame, raw
    const int32_t n_depth = sizeof file - HEAD;
    memcpy(file + 12, &n_depth, sizeof n_depth);
    for (size_t i = HEAD; i < sizeof file; i += 2)
        file[i + 1] = 1500 >> 8;
    scratch_write(&scratch, "b.klg", file, sizeof file);
    struct capture_settings settings = settings_of("klg", "b.klg");
    assert_int_equal(open_result(&settings), 0);
    assert_true(scratch_said(&scratch,
                             "no b.klg.calibration.txt: the intrinsics are the format's default"));
    settings = settings_of("klg", "b.klg");
    settings.fx_px = settings.fy_px = 525;
    settings.cx_px = 319.5;
    settings.cy_px = 239.5;
    assert_int_equal(open_result(&settings), 0);
    assert_int_equal(scratch.n_lines, 0);
}

// One frame has no step that would tell the unit: a stamp of today in nanoseconds is one, what is
// smaller counts microseconds.
static void klg_of_one_frame(void **state)
{
    (void)state;
    static const int64_t stamps[2] = {1700000000000000000, 1700000000000000};
    unsigned char file[8 * N];
    scratch_write_text(&scratch, "a.klg.calibration.txt", "52 52 32 24 64 48\n");
    for (int k = 0; k < 2; k++) {
        int32_t sizes[2];
        make_klg(file, (int64_t[3]){stamps[k], 0, 0}, 1);
        memcpy(sizes, file + 12, 8);
        scratch_write(&scratch, "a.klg", file, 20 + (size_t)sizes[0] + (size_t)sizes[1]);
        struct capture_settings settings = settings_of("klg", "a.klg");
        struct capture *capture;
        struct capture_frame frame;
        assert_int_equal(capture_open(&capture, &settings), 0);
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_true(frame.image.time_ns == 1700000000000000000);
        assert_int_equal(capture_read(capture, -1, &frame), -ENODATA);
        capture_close(&capture);
    }
}

static void klg_truncated_anywhere(void **state)
{
    (void)state;
    static const int64_t stamps[3] = {1000000, 1033333, 1066666};
    unsigned char file[8 * N];
    size_t n = make_klg(file, stamps, 0), ends[3], at = 4;
    for (int i = 0; i < 3; i++) {
        int32_t sizes[2];
        memcpy(sizes, file + at + 8, 8);
        ends[i] = at += 16 + (size_t)sizes[0] + (size_t)sizes[1];
    }
    assert_int_equal(at, n);
    char path[256];
    scratch_write(&scratch, "a.klg", file, n);
    int fd = open(scratch_name(&scratch, "a.klg", path), O_RDWR);
    struct log_sink log = scratch_log(&scratch);
    for (size_t length = n; length-- > 0;) {
        struct klg_index index;
        assert_int_equal(ftruncate(fd, (off_t)length), 0);
        size_t n_whole = 0;
        while (n_whole < 3 && ends[n_whole] <= length)
            n_whole++;
        int err = klg_scan(fd, "a.klg", &log, &index);
        assert_int_equal(err, length < 4 ? -EINVAL : n_whole == 0 ? -ENOENT : 0);
        if (!err)
            assert_int_equal(index.n_frames, n_whole);
        klg_index_free(&index);
    }
    close(fd);
}

// Cut anywhere, and as long as before or longer, in zeros: the last frame is whole, but for raw
// depth and colour, which nobody can tell.
static void klg_ends_in_zeros(void **state)
{
    (void)state;
    static const int64_t stamps[3] = {1000000, 1033333, 1066666};
    static const size_t n_more[] = {0, 7, 16, 70000}; // more than is read at once
    unsigned char file[8 * N], zeroed[8 * N];
    char path[256];
    const struct log_sink log = scratch_log(&scratch);
    const size_t n = make_klg(file, stamps, 0);
    size_t sizes_at[3], told_at[3], ends[3], at = 4; // who is cut behind told_at looks whole
    for (int i = 0; i < 3; i++) {
        int32_t sizes[2];
        memcpy(sizes, file + at + 8, 8);
        sizes_at[i] = at + 8;
        at += 16;
        told_at[i] = i == 1 ? at + 2 : at + (size_t)sizes[0];
        ends[i] = at += (size_t)sizes[0] + (size_t)sizes[1];
    }
    memcpy(zeroed, file, n);
    scratch_write(&scratch, "a.klg", file, n);
    const int fd = open(scratch_name(&scratch, "a.klg", path), O_RDWR | O_CLOEXEC);
    for (size_t length = n; length > 4;) {
        // raw depth looks alike wherever it is cut
        length -= length > told_at[1] + 300 && length < ends[1] - 50 ? 211 : 1;
        memset(zeroed + length, 0, n - length);
        assert_int_equal(pwrite(fd, zeroed, n, 0), n);
        for (size_t k = 0; k < sizeof n_more / sizeof *n_more; k++) {
            struct klg_index index;
            size_t n_whole = 0;
            while (n_whole < 3 && memcmp(zeroed, file, told_at[n_whole]) == 0)
                n_whole++;
            assert_int_equal(ftruncate(fd, (off_t)(n + n_more[k])), 0);
            const int err = klg_scan(fd, "a.klg", &log, &index);
            assert_int_equal(err, n_whole > 0 ? 0 : length > sizes_at[0] ? -ENOENT : -EINVAL);
            if (!err)
                assert_int_equal(index.n_frames + index.n_skipped, n_whole);
            klg_index_free(&index);
            if (length == ends[1] + 30) {
                char wanted[128];
                snprintf(wanted, sizeof wanted,
                         "incomplete after 2 frames (byte %zu), zeros from "
                         "byte %zu to the end: the rest is left out",
                         ends[1], length);
                assert_true(scratch_said(&scratch, wanted));
            }
        }
    }
    close(fd);
}

static void klg_with_hostile_sizes(void **state)
{
    (void)state;
    static const int64_t stamps[3] = {1000000, 1033333, 1066666};
    static const int32_t sizes[] = {-1, INT32_MAX, INT32_MIN, 0, 1, 2 * N - 1};
    unsigned char file[8 * N];
    scratch_write_text(&scratch, "a.klg.calibration.txt", "52 52 32 24 64 48\n");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t where = 8; where <= 12; where += 4) {
            size_t n = make_klg(file, stamps, 3);
            memcpy(file + 4 + where, &sizes[i], 4);
            scratch_write(&scratch, "a.klg", file, n);
            struct capture_settings settings = settings_of("klg", "a.klg");
            struct capture *capture;
            struct capture_frame frame;
            int err = capture_open(&capture, &settings);
            assert_true(err == 0 || err == -ENOENT || err == -EINVAL);
            while (!err)
                err = capture_read(capture, -1, &frame);
            capture_close(&capture);
            assert_true(scratch.n_lines > 0);
        }
    static const int64_t wild[][3] = {{5, 5, 5},
                                      {100000, 66667, 33333},
                                      {INT64_MIN, 0, INT64_MAX},
                                      {0, 33333, INT64_MAX / 2 - 1},
                                      {-1, -2, -3}};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        size_t n = make_klg(file, wild[i], 3);
        scratch_write(&scratch, "a.klg", file, n);
        struct capture_settings settings = settings_of("klg", "a.klg");
        int err = open_result(&settings);
        assert_true(err == 0 || err == -ENOENT);
        assert_true(scratch.n_lines > 0 || i == 3); // a jump of a century is a jump
    }
    scratch_write(&scratch, "a.klg", "\xff\xff\xff\xff....", 8);
    struct capture_settings settings = settings_of("klg", "a.klg");
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "not a klg log"));
    scratch_write_text(&scratch, "a.klg", "# depth maps\n# file: a.bag\n# timestamp filename\n");
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "not a klg log"));
    assert_false(scratch_said(&scratch, "incomplete"));
    // A first frame that breaks off: of a log as long as its depth bytes can be an image's.
    const uint32_t most = 3 * CAPTURE_MAX_SIDE_PX * CAPTURE_MAX_SIDE_PX;
    for (uint32_t more = 0; more < 2; more++) {
        uint32_t frame[5] = {1, 1000, 0, most + more, 0};
        scratch_write(&scratch, "a.klg", frame, sizeof frame);
        assert_int_equal(open_result(&settings), more ? -EINVAL : -ENOENT);
        assert_true(scratch_said(&scratch, more ? "not a klg log" : "no complete frame"));
    }
    settings = settings_of("klg", "missing.klg");
    assert_int_equal(open_result(&settings), -ENOENT);
    settings = settings_of("klg", "");
    assert_int_equal(open_result(&settings), -EINVAL);
}

// The raw Kinect recording of POSED_DATA, when there.
static void real_raw_recording(void **state)
{
    (void)state;
    const char *data = getenv("POSED_DATA");
    if (!data) {
        print_message("SKIP: POSED_DATA is not set, no real raw recording\n");
        skip();
    }
    char source[512];
    snprintf(source, sizeof source, "rawpgm:%s/kinect_raw", data);
    struct capture_settings settings = settings_of("rawpgm", "");
    settings.source = source;
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(capture_open(&capture, &settings), 0);
    assert_int_equal(capture_info(capture)->n_frames, 30);
    assert_true(capture_info(capture)->camera.cx_px == 346.471);
    int n = 0;
    while (!capture_read(capture, -1, &frame))
        n += frame.flags == 0 && frame.image.depth[640 * 240 + 320] < 10000;
    assert_int_equal(n, 30);
    capture_close(&capture);
    assert_int_equal(scratch.n_lines, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disparity_has_the_known_depths),
        cmocka_unit_test(disparity_inverse_is_exact_on_its_own_depths),
        cmocka_unit_test(clock_unwraps),
        cmocka_unit_test(gravity_points_down),
        TEST(rawpgm_reads),
        TEST(png_takes_times_from_names),
        TEST(png_says_that_intrinsics_are_a_default),
        TEST(fakenect_reads),
        TEST(klg_reads),
        TEST(klg_says_that_intrinsics_are_a_default),
        TEST(klg_of_one_frame),
        TEST(klg_truncated_anywhere),
        TEST(klg_ends_in_zeros),
        TEST(klg_with_hostile_sizes),
        TEST(real_raw_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
