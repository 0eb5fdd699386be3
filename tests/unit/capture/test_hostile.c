// SPDX-License-Identifier: Apache-2.0
// Every format of recording, good at first, then damaged in every way that a file can be: cut at
// each byte, each number as large as it gets, replaced by a link that loops, by a link that leaves
// the folder, a pipe, a folder, nothing. Through the public contract: an error with a reason, or
// frames that are right or flagged as damaged; never anything else, and never a wait.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/io/image.h"
#include "capture/kinect/disparity.h"
#include "tests/unit/camera.h"
#include "tests/unit/scratch.h"

#define W        8u
#define H        6u
#define N        (W * H)
#define N_FRAMES 3

// Every so many bytes; the sanitizers, ten times as slow, leave most to the fuzz targets.
#ifdef POSED_SANITIZED
#define STRIDE 11
#else
#define STRIDE 1
#endif

enum kind { TUM, KLG, FAKENECT, MCAP, ROS2MCAP, SEVENSCENES, PNG, RAWPGM, N_KINDS };

// Files of a recording, relative to the scratch folder. `own`: the user names it, so it may be a
// link to anywhere.
static const struct format {
    const char *driver, *place;
    struct {
        const char *name;
        bool own;
    } files[10];
} formats[N_KINDS] = {
    [TUM] = {"tum",
             "tum",
             {{"tum/depth.txt", false},
              {"tum/calibration.txt", false},
              {"tum/groundtruth.txt", false},
              {"tum/depth/1700000000.000000000.png", false},
              {"tum/depth/1700000000.033333333.png", false},
              {"tum/depth/1700000000.066666666.png", false}}},
    [KLG] = {"klg", "klg.klg", {{"klg.klg", true}, {"klg.klg.calibration.txt", false}}},
    [FAKENECT] = {"fakenect",
                  "fakenect",
                  {{"fakenect/INDEX.txt", false},
                   {"fakenect/calibration.txt", false},
                   {"fakenect/disparity.txt", false},
                   {"fakenect/a-1700000000.000000000-1000000.dump", false},
                   {"fakenect/d-1700000000.000000000-1000000.pgm", false},
                   {"fakenect/d-1700000000.033333333-3000000.pgm", false}}},
    [MCAP] = {"mcap", "mcap.mcap", {{"mcap.mcap", true}}},
    [ROS2MCAP] = {"mcap", "ros2mcap.ros2.mcap", {{"ros2mcap.ros2.mcap", true}}},
    [SEVENSCENES] = {"sevenscenes",
                     "sevenscenes",
                     {{"sevenscenes/camera-intrinsics.txt", false},
                      {"sevenscenes/frame-000001.depth.png", false},
                      {"sevenscenes/frame-000001.pose.txt", false}}},
    [PNG] = {"png", "png", {{"png/calibration.txt", false}, {"png/1.png", false}}},
    [RAWPGM] = {"rawpgm", "rawpgm", {{"rawpgm/calib.txt", false}, {"rawpgm/1.pgm", false}}},
};

static struct scratch scratch;
static struct buffers *camera;
static struct disparity_table table;

static int64_t time_of(int64_t i)
{
    return 1700000000000000000 + i * INT64_C(33333333);
}

static uint16_t raw_of(int i, size_t k)
{
    return (uint16_t)(700 + 10 * i + (int)(k % 7));
}

static void fill(int i, uint16_t pixels[N])
{
    for (size_t k = 0; k < N; k++)
        pixels[k] = table.mm[raw_of(i, k)];
}

static void stop_and_wait(struct recorder *recorder)
{
    struct recorder_status status;
    assert_int_equal(recorder_stop(recorder), 0);
    do {
        usleep(1000);
        recorder_status(recorder, &status);
    } while (status.active || status.busy);
}

static void record(struct recorder *recorder, enum recorder_format format)
{
    static const struct capture_info info = {.camera = {7, 7, 3.5, 2.5, W, H},
                                             .units_per_m = 1000,
                                             .zero_plane = {200, 0.1042, 120, 7.5}};
    uint16_t pixels[N];
    assert_int_equal(recorder_start_one(recorder, recorder_format_name(format), format, &info), 0);
    for (int i = 0; i < N_FRAMES; i++) {
        fill(i, pixels);
        struct capture_frame frame = {.image = {pixels, W, H, 1000, time_of(i)},
                                      .device_ticks = 1000000 + 2000000 * (uint64_t)i,
                                      .gravity_m_s2 = {0, 9.80665f, 0}};
        camera_push(camera, recorder, frame);
    }
    stop_and_wait(recorder);
}

static void write_images(void)
{
    uint16_t pixels[N];
    struct image_codec *codec;
    char name[64], path[256];
    assert_int_equal(image_codec_create(&codec), 0);
    for (int i = 0; i < N_FRAMES; i++) {
        fill(i, pixels);
        snprintf(name, sizeof name, "sevenscenes/frame-%06d.depth.png", i);
        scratch_name(&scratch, name, path);
        assert_int_equal(image_write_png(codec, path, pixels, W, H, 1), 0);
        snprintf(name, sizeof name, "png/%d.png", i);
        scratch_name(&scratch, name, path);
        assert_int_equal(image_write_png(codec, path, pixels, W, H, 1), 0);
        unsigned char file[64 + 2 * N];
        int n = snprintf((char *)file, 64, "P5 %u %u 65535\n", W, H);
        for (size_t k = 0; k < N; k++) {
            file[(size_t)n + 2 * k] = (unsigned char)(raw_of(i, k) >> 8);
            file[(size_t)n + 2 * k + 1] = (unsigned char)raw_of(i, k);
        }
        snprintf(name, sizeof name, "rawpgm/%d.pgm", i);
        scratch_write(&scratch, name, file, (size_t)n + 2 * N);
    }
    image_codec_destroy(&codec);
}

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    camera = camera_create(N, N_FRAMES);
    struct disparity_model model = disparity_default();
    assert_int_equal(disparity_table_fill(&model, &table), 0);
    struct recorder_settings settings = {.folder = scratch.path};
    struct recorder *recorder;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (int i = 0; i < RECORDER_N_FORMATS; i++)
        record(recorder, (enum recorder_format)i);
    recorder_destroy(&recorder);
    scratch_make_folder(&scratch, "sevenscenes");
    scratch_make_folder(&scratch, "png");
    scratch_make_folder(&scratch, "rawpgm");
    scratch_make_folder(&scratch, "outside");
    write_images();
    scratch_write_text(&scratch, "tum/groundtruth.txt",
                       "1700000000 0 0 0 0 0 0 1\n1700000001 0 0 1 0 0 0 1\n");
    scratch_write_text(&scratch, "sevenscenes/camera-intrinsics.txt", "7 0 3.5\n0 7 2.5\n0 0 1\n");
    scratch_write_text(&scratch, "sevenscenes/frame-000001.pose.txt",
                       "1 0 0 1\n0 1 0 2\n0 0 1 3\n0 0 0 1\n");
    scratch_write_text(&scratch, "png/calibration.txt", "7 7 3.5 2.5 8 6 1000\n");
    // the disparity model of the others, as offset and baseline
    scratch_write_text(&scratch, "rawpgm/calib.txt",
                       "8 6\n7 7\n3.5 2.5\n8 6\n7 7\n3.5 2.5\n1 0 0 0 0 1 0 0 0 0 1 0\n"
                       "1090 6.2\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    camera_destroy(camera);
    return 0;
}

static bool is_expected(enum kind kind, const struct depth_frame *image)
{
    if (kind == RAWPGM) // of another model: its own values
        return true;
    for (int i = 0; i < N_FRAMES; i++) {
        uint16_t pixels[N];
        fill(i, pixels);
        if (image->width_px == W && image->height_px == H &&
            !memcmp(image->depth, pixels, sizeof pixels))
            return true;
    }
    return false;
}

struct outcome {
    int err;          // of opening
    int n_good;       // frames with pixels
    int n_bad;        // flagged
    int n_unexpected; // pixels that were never recorded
    long n_truth;     // poses, or a negative errno
};

static struct outcome play(enum kind kind)
{
    char source[300];
    snprintf(source, sizeof source, "%s:%s/%s", formats[kind].driver, scratch.path,
             formats[kind].place);
    struct capture_settings settings = {
        .source = source, .allow_implausible = true, .log = scratch_log(&scratch)};
    struct capture *capture;
    struct outcome outcome = {0};
    int64_t before_ns = INT64_MIN;
    scratch.n_lines = 0;
    outcome.err = capture_open(&capture, &settings);
    if (outcome.err) {
        assert_null(capture);
        assert_true(outcome.err < 0);
        assert_true(scratch.n_lines > 0 || outcome.err == -ENOMEM); // with a reason
        return outcome;
    }
    struct capture_frame frame;
    int err;
    while (!(err = capture_read(capture, 20000, &frame))) {
        assert_true(frame.image.time_ns > before_ns);
        before_ns = frame.image.time_ns;
        assert_true(frame.image.depth || (frame.flags & CAPTURE_DAMAGED));
        outcome.n_good += frame.image.depth != NULL;
        outcome.n_bad += frame.image.depth == NULL;
        outcome.n_unexpected += frame.image.depth && !is_expected(kind, &frame.image);
    }
    assert_true(err == -ENODATA || err == -EIO);
    struct stamped_pose *truth;
    outcome.n_truth = capture_ground_truth(capture, &truth);
    free(truth);
    capture_close(&capture);
    return outcome;
}

struct content {
    unsigned char *data;
    size_t n_bytes;
};

static struct content read_all(const char *path)
{
    struct content content = {malloc(1 << 20), 0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    content.n_bytes = fread(content.data, 1, 1 << 20, file);
    fclose(file);
    return content;
}

// Calls `damage` for each file of each format, with its content, and puts the file back.
static void for_each_file(void (*damage)(enum kind kind, const char *path, bool own,
                                         const struct content *content))
{
    for (int kind = 0; kind < N_KINDS; kind++)
        for (size_t f = 0; formats[kind].files[f].name; f++) {
            char path[256];
            scratch_name(&scratch, formats[kind].files[f].name, path);
            struct content content = read_all(path);
            damage((enum kind)kind, path, formats[kind].files[f].own, &content);
            remove(path);
            scratch_write(&scratch, formats[kind].files[f].name, content.data, content.n_bytes);
            free(content.data);
            struct outcome outcome = play((enum kind)kind);
            assert_int_equal(outcome.n_good, N_FRAMES);
        }
}

static void good_ones_are_good(void **state)
{
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++) {
        struct outcome outcome = play((enum kind)kind);
        assert_int_equal(outcome.err, 0);
        assert_int_equal(outcome.n_good, N_FRAMES);
        assert_int_equal(outcome.n_unexpected, 0);
        assert_int_equal(outcome.n_truth, kind == TUM ? 2 : kind == SEVENSCENES ? 1 : 0);
    }
}

static void cut(enum kind kind, const char *path, bool own, const struct content *content)
{
    (void)own;
    for (size_t n = content->n_bytes; n-- > 0;) {
        if (n % STRIDE)
            continue;
        assert_int_equal(truncate(path, (off_t)n), 0);
        struct outcome outcome = play(kind);
        // half a number is a number: another disparity
        assert_true(outcome.n_unexpected == 0 || strstr(path, "disparity.txt"));
        assert_true(outcome.n_good + outcome.n_bad <= N_FRAMES);
    }
}

static void cut_at_each_byte(void **state)
{
    (void)state;
    for_each_file(cut);
}

static void put(const char *path, size_t at, const void *data, size_t n_bytes)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, data, n_bytes, (off_t)at), n_bytes);
    close(fd);
}

static void enlarge_binary(enum kind kind, const char *path, bool own,
                           const struct content *content)
{
    (void)own;
    static const unsigned char large[][8] = {{0xFF, 0xFF, 0xFF, 0x7F},
                                             {0x7F, 0xFF, 0xFF, 0xFF},
                                             {0xFF, 0xFF, 0xFF, 0x7F, 0, 0, 0, 0},
                                             {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F},
                                             {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};
    static const size_t n_large[] = {4, 4, 8, 8, 8};
    for (size_t v = 0; v < sizeof n_large / sizeof *n_large; v++)
        for (size_t at = 0; at + n_large[v] <= content->n_bytes; at += STRIDE) {
            put(path, at, large[v], n_large[v]);
            play(kind);
            put(path, at, content->data + at, n_large[v]);
        }
}

// Each number of a text in turn.
static void enlarge_text(enum kind kind, const char *path, bool own, const struct content *content)
{
    (void)own;
    static const char *const large[] = {"2147483647", "4294967295", "9223372036854775807", "-1",
                                        "nan",        "1e999",      "../../etc/passwd"};
    static const char digits[] = "0123456789.-+e";
    for (size_t v = 0; v < sizeof large / sizeof *large; v++)
        for (size_t at = 0; at < content->n_bytes;) {
            size_t n = 0;
            while (at + n < content->n_bytes && strchr(digits, content->data[at + n]))
                n++;
            if (n) {
                FILE *file = fopen(path, "wb");
                fwrite(content->data, 1, at, file);
                fputs(large[v], file);
                fwrite(content->data + at + n, 1, content->n_bytes - at - n, file);
                assert_int_equal(fclose(file), 0);
                struct outcome outcome = play(kind);
                assert_true(kind == FAKENECT || outcome.n_unexpected == 0); // another disparity
            }
            at += n + 1;
        }
}

static void enlarge(enum kind kind, const char *path, bool own, const struct content *content)
{
    size_t n = strlen(path);
    (n > 4 && !strcmp(path + n - 4, ".txt") ? enlarge_text : enlarge_binary)(kind, path, own,
                                                                             content);
}

static void each_number_enlarged(void **state)
{
    (void)state;
    for_each_file(enlarge);
}

// What a link leads to is the very file, so that following it would go unnoticed but for this.
static void replace(enum kind kind, const char *path, bool own, const struct content *content)
{
    char outside[256], other[256];
    scratch_write(&scratch, "outside/file", content->data, content->n_bytes);
    scratch_name(&scratch, "outside/file", outside);
    struct outcome with = play(kind);
    snprintf(other, sizeof other, "%s.other", path);
    for (int what = 0; what < 6; what++) {
        assert_int_equal(remove(path), 0);
        switch (what) {
        case 0:
            assert_int_equal(symlink(strrchr(path, '/') + 1, path), 0);
            break;
        case 1:
            assert_int_equal(symlink(outside, path), 0);
            break;
        case 2:
            assert_int_equal(symlink(strstr(path, "/depth/") ? "../../outside/file"
                                     : own || kind == KLG    ? "outside/file"
                                                             : "../outside/file",
                                     path),
                             0);
            break;
        case 3:
            assert_int_equal(mkfifo(path, 0600), 0);
            break;
        case 4:
            assert_int_equal(mkdir(path, 0700), 0);
            break;
        default:
            scratch_write(&scratch, path + strlen(scratch.path) + 1, "", 0);
        }
        struct outcome without = play(kind);
        bool is_dump = strstr(path, ".dump") != NULL; // no gravity then, which play does not see
        bool same =
            !without.err && without.n_good == with.n_good && without.n_truth == with.n_truth;
        if (own && (what == 1 || what == 2))
            assert_true(same);
        else if (!is_dump && same)
            fail_msg("%s replaced by %d: read all the same", path, what);
    }
}

static void each_file_replaced(void **state)
{
    (void)state;
    for_each_file(replace);
}

// Repeating, going backwards, jumping by centuries: in the index of each format that has times.
static void wild_times(void **state)
{
    (void)state;
    static const char *const stamps[][3] = {
        {"5.0", "5.0", "5.0"},
        {"5.0", "4.0", "3.0"},
        {"5.0", "6.0", "5.5"},
        {"0.0", "4000000000.0", "4000000000.000000001"},
        {"8999999999.0", "1.0", "8999999999.9"},
    };
    static const int n_frames[][2] = {{1, 1}, {3, 1}, {3, 2}, {3, 3}, {3, 2}};
    for (size_t c = 0; c < sizeof stamps / sizeof *stamps; c++) {
        char text[512] = "", name[128], from[256], to[256];
        for (int i = 0; i < N_FRAMES; i++) {
            char line[160];
            snprintf(line, sizeof line, "%s depth/1700000000.0%08d.png\n", stamps[c][i],
                     i * 33333333);
            strcat(text, line);
        }
        scratch_write_text(&scratch, "tum/depth.txt", text);
        struct outcome outcome = play(TUM);
        assert_int_equal(outcome.n_good, n_frames[c][0]);
        // fakenect: the images under these times; the counter repeats, runs backwards, wraps
        static const char *const ticks[] = {"7", "4294967295", "1000"};
        text[0] = '\0';
        for (int i = 0; i < N_FRAMES; i++) {
            snprintf(name, sizeof name, "d-%s-%s.pgm", stamps[c][i], ticks[i]);
            strcat(strcat(text, name), "\n");
            char inside[160];
            snprintf(inside, sizeof inside, "fakenect/%s", name);
            scratch_name(&scratch, inside, to);
            scratch_name(&scratch, "fakenect/d-1700000000.000000000-1000000.pgm", from);
            struct content content = read_all(from);
            scratch_write(&scratch, inside, content.data, content.n_bytes);
            free(content.data);
        }
        scratch_write_text(&scratch, "fakenect/INDEX.txt", text);
        outcome = play(FAKENECT);
        assert_true(outcome.n_good >= 1 && outcome.n_bad == 0);
    }
}

// MCAP and klg hold what they are given; the recorder is given wild times here.
static void wild_times_in_files(void **state)
{
    (void)state;
    static const struct capture_info info = {.camera = {7, 7, 3.5, 2.5, W, H}, .units_per_m = 1000};
    static const int64_t steps_ns[][3] = {{0, 0, 0},
                                          {0, -33333333, -66666666},
                                          {0, INT64_C(1) << 61, 33333333},
                                          {0, 66666666, 33333333}};
    static const int n_frames[][2] = {{1, 1}, {1, 3}, {2, 3}, {2, 3}}; // klg, mcap
    struct recorder_settings settings = {.folder = scratch.path};
    struct recorder *recorder;
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    for (size_t c = 0; c < sizeof steps_ns / sizeof *steps_ns; c++)
        for (int k = 0; k < 2; k++) {
            static const enum recorder_format which[] = {RECORDER_FORMAT_KLG, RECORDER_FORMAT_MCAP};
            const char *name = recorder_format_name(which[k]);
            char path[256];
            remove(scratch_name(&scratch, formats[k ? MCAP : KLG].place, path));
            remove(scratch_name(&scratch, "klg.klg.calibration.txt", path));
            uint16_t pixels[N];
            assert_int_equal(recorder_start_one(recorder, name, which[k], &info), 0);
            for (int i = 0; i < N_FRAMES; i++) {
                fill(i, pixels);
                struct capture_frame frame = {
                    .image = {pixels, W, H, 1000, time_of(3) + steps_ns[c][i]}};
                camera_push(camera, recorder, frame);
            }
            stop_and_wait(recorder);
            struct outcome outcome = play(k ? MCAP : KLG);
            assert_int_equal(outcome.n_good, n_frames[c][k]);
            assert_int_equal(outcome.n_unexpected, 0);
        }
    recorder_destroy(&recorder);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(good_ones_are_good), TEST(cut_at_each_byte), TEST(each_number_enlarged),
        TEST(each_file_replaced), TEST(wild_times),       TEST(wild_times_in_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
