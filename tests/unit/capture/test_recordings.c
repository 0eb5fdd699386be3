// SPDX-License-Identifier: Apache-2.0
// Folder recordings through the public contract: what the readers accept, and the reason they give
// for what they refuse. Each recording is written by the test.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/recording/sidecar.h"
#include "tests/unit/capture/folder_recording.h"

static void tum_reads_what_is_written(void **state)
{
    (void)state;
    write_tum("# depth maps\r\n# timestamp filename\r\n1305031102.160407 depth/a.png\r\n"
              "1305031102.194330 depth/b.png\r\n\r\n1305031102.226738123 depth/c.png");
    struct capture_settings settings = settings_of("tum");
    struct capture *capture;
    assert_int_equal(capture_open(&capture, &settings), 0);
    const struct capture_info *info = capture_info(capture);
    assert_string_equal(info->driver, "tum");
    assert_int_equal(info->n_frames, 3);
    assert_int_equal(info->camera.width_px, W);
    assert_int_equal(info->camera.height_px, H);
    assert_true(info->camera.fx_px == 52.5 && info->camera.fy_px == -52.5);
    assert_true(info->camera.cx_px == 31.5 && info->camera.cy_px == 23.5);
    assert_true(info->units_per_m == 5000);
    static const int64_t times_ns[3] = {1305031102160407000, 1305031102194330000,
                                        1305031102226738123};
    struct capture_frame frame;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_int_equal(frame.image.time_ns, times_ns[i]);
        assert_int_equal(frame.image.depth[W * H - 1], 10000 + i);
        assert_int_equal(frame.flags, 0);
    }
    assert_int_equal(capture_read(capture, -1, &frame), -ENODATA);
    struct stamped_pose *truth;
    assert_int_equal(capture_ground_truth(capture, &truth), 0);
    assert_null(truth);
    capture_close(&capture);
    assert_int_equal(scratch.n_lines, 0);
}

static void tum_ground_truth_is_offered(void **state)
{
    (void)state;
    write_tum("1 depth/a.png\n2 depth/b.png\n");
    scratch_write_text(&scratch, "groundtruth.txt",
                       "# x\n1 1 2 3 0 0 0 1\n# map epoch 1\n2 1 2 4 0 0 0 1\n");
    struct capture_settings settings = settings_of("tum");
    struct capture *capture;
    assert_int_equal(capture_open(&capture, &settings), 0);
    struct stamped_pose *truth;
    assert_int_equal(capture_ground_truth(capture, &truth), 2);
    assert_int_equal(truth[1].time_ns, 2000000000);
    assert_true(truth[1].T_world_camera.t_m[2] == 4);
    free(truth);
    capture_close(&capture);
}

// ICL-NUIM's name; a folder that a shell would take for a pattern; links within it and out of it.
static void ground_truth_is_found_beneath_the_folder(void **state)
{
    (void)state;
    char inside[256], outside[256], source[300];
    write_tum("1 depth/a.png\n2 depth/b.png\n");
    scratch_write_text(&scratch, "depth/x.txt", "1 1 2 3 0 0 0 1\n");
    scratch_make_folder(&scratch, "[a] *?");
    char *from = strdup(scratch_name(&scratch, "depth", inside));
    assert_int_equal(rename(from, scratch_name(&scratch, "[a] *?/depth", outside)), 0);
    free(from);
    scratch_write_text(&scratch, "[a] *?/calibration.txt", "52.5 -52.5 31.5 23.5\n");
    scratch_write_text(&scratch, "[a] *?/depth.txt", "1 depth/a.png\n2 depth/b.png\n");
    scratch_write_text(&scratch, "secret", "1 1 2 3 0 0 0 1\n");
    static const struct {
        const char *target, *name;
        long n_poses;
        const char *reason;
    } cases[] = {
        {"depth/x.txt", "traj2.gt.freiburg", 1, ""},
        {"depth/x.txt", "groundtruth.txt", 1, ""},
        {"../secret", "groundtruth.txt", -EXDEV, "leads out of the recording's folder"},
        {"groundtruth.txt", "groundtruth.txt", -ELOOP, "groundtruth.txt: Too many levels"},
    };
    snprintf(source, sizeof source, "tum:%s/[a] *?", scratch.path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[300];
        snprintf(name, sizeof name, "%s/[a] *?/%s", scratch.path, cases[i].name);
        assert_int_equal(symlink(cases[i].target, name), 0);
        struct capture_settings settings = settings_of("tum");
        settings.source = source;
        struct capture *capture;
        struct stamped_pose *truth;
        assert_int_equal(capture_open(&capture, &settings), 0);
        assert_int_equal(capture_ground_truth(capture, &truth), cases[i].n_poses);
        assert_true(scratch_said(&scratch, cases[i].reason));
        free(truth);
        capture_close(&capture);
        unlink(name);
    }
}

// Unreadable files before the first good one are warnings: the recording opens.
static void first_images_may_be_unreadable(void **state)
{
    (void)state;
    write_tum("1 depth/empty.png\n2 depth/text.png\n3 depth/a.png\n");
    scratch_write_text(&scratch, "depth/empty.png", "");
    scratch_write_text(&scratch, "depth/text.png", "hello");
    struct capture_settings settings = settings_of("tum");
    assert_int_equal(open_result(&settings), 0);
    assert_true(scratch.n_lines >= 2);
    assert_int_equal(scratch.worst, LOG_LEVEL_WARNING);
    settings.duration_s = 1.5; // the two alone
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_int_equal(scratch.worst, LOG_LEVEL_ERROR);
    scratch_write_text(&scratch, "depth.txt", "1 depth/empty.png\n2 depth/text.png\n");
    settings.duration_s = 0;
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "none of the 2 images looked at is readable"));
}

// A folder of links to a recording elsewhere is told once, with what to do.
static void links_out_of_the_folder_are_told_once(void **state)
{
    (void)state;
    char name[256];
    write_tum("1 depth/x.png\n2 depth/y.png\n3 depth/z.png\n");
    for (const char *p = "xyz"; *p; p++) {
        char link[] = "depth/?.png";
        link[6] = *p;
        assert_int_equal(symlink("/etc/hostname", scratch_name(&scratch, link, name)), 0);
    }
    struct capture_settings settings = settings_of("tum");
    const int n_before = scratch.n_lines;
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_int_equal(scratch.n_lines, n_before + 2);
    assert_true(scratch_said(&scratch, "images looked at is readable: 3 are links that lead out"));
}

static void tum_sorts_and_drops_repeated_times(void **state)
{
    (void)state;
    write_tum("3 depth/c.png\n1 depth/a.png\n2 depth/b.png\n1.0 depth/c.png\n");
    struct capture_settings settings = settings_of("tum");
    struct capture *capture;
    assert_int_equal(capture_open(&capture, &settings), 0);
    assert_int_equal(scratch.n_lines, 2);
    assert_true(scratch_said(&scratch, "1 lines repeat a time stamp"));
    assert_int_equal(capture_info(capture)->n_frames, 3);
    struct capture_frame frame;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_int_equal(frame.image.time_ns, (i + 1) * INT64_C(1000000000));
        assert_int_equal(frame.image.depth[0], 10000 + i);
    }
    capture_close(&capture);
}

static void unreadable_image_is_a_damaged_frame(void **state)
{
    (void)state;
    write_tum("1 depth/a.png\n2 depth/missing.png\n3 depth/loop.png\n4 depth/pipe.png\n"
              "5 depth/out.png\n6 depth\n7 depth/eight.png\n8 depth/c.png\n");
    char loop[256], pipe[256], out[256];
    assert_int_equal(symlink("loop.png", scratch_name(&scratch, "depth/loop.png", loop)), 0);
    assert_int_equal(mkfifo(scratch_name(&scratch, "depth/pipe.png", pipe), 0600), 0);
    assert_int_equal(symlink("/etc/passwd", scratch_name(&scratch, "depth/out.png", out)), 0);
    scratch_write_text(&scratch, "depth/eight.png", "P5 64 48 255\n");
    for (int i = 0; i < 8; i++) { // one at a time, as the reader decodes ahead
        struct capture_settings settings = settings_of("tum");
        settings.start_s = i;
        settings.duration_s = 0.5;
        settings.allow_implausible = true;
        bool good = i == 0 || i == 7;
        assert_int_equal(open_result(&settings), good ? 0 : -EINVAL);
        assert_true(good == (scratch.n_lines == 0));
    }
    struct capture_settings settings = settings_of("tum");
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(capture_open(&capture, &settings), 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_int_equal(frame.index, i);
        assert_int_equal(frame.flags, i == 0 || i == 7 ? 0 : CAPTURE_DAMAGED);
    }
    capture_close(&capture);
}

static void tum_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *index;
        int err;
        const char *reason;
    } cases[] = {
        {"", -ENOENT, "depth.txt: no frames"},
        {"# only a comment\n", -ENOENT, "depth.txt: no frames"},
        {"1 depth/a.png\nhello\n", -EINVAL, "depth.txt:2: expected 'timestamp path'"},
        {"1 depth/a.png\n2\n", -EINVAL, "depth.txt:2: expected 'timestamp path'"},
        {"1 \n", -EINVAL, "depth.txt:1: no path"},
        {"nan depth/a.png\n", -EINVAL, "depth.txt:1: expected"},
        {"-1 depth/a.png\n", -EINVAL, "depth.txt:1: expected"},
        {"99999999999999999999 depth/a.png\n", -EINVAL, "depth.txt:1: expected"},
        {"1 /etc/passwd\n", -EINVAL, "depth.txt:1: the path leads out"},
        {"1 ../../etc/passwd\n", -EINVAL, "depth.txt:1: the path leads out"},
        {"1 depth/../../x.png\n", -EINVAL, "depth.txt:1: the path leads out"},
        {"1 depth/x.png\n2 depth/y.png\n", -ENOENT, "none of its 2 images is there"},
    };
    write_tum("");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write_text(&scratch, "depth.txt", cases[i].index);
        struct capture_settings settings = settings_of("tum");
        assert_int_equal(open_result(&settings), cases[i].err);
        assert_true(scratch_said(&scratch, cases[i].reason));
    }
    scratch_write(&scratch, "depth.txt", "1 depth/a.png\n\0\n", 16);
    struct capture_settings settings = settings_of("tum");
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "depth.txt: not a text file"));
}

static void implausible_is_refused_or_warned_about(void **state)
{
    (void)state;
    write_tum("1 depth/a.png\n2 depth/b.png\n");
    static const struct {
        const char *calibration;
        double depth_scale, cx_px;
        int err;
        const char *reason;
    } cases[] = {
        {"52.5 52.5 31.5 23.5", 0, 0, 0, ""},
        {"52.5 52.5 31.5 23.5", 500, 0, -ERANGE, ": frame 0: implausible depth: with 500 units"},
        {"52.5 52.5 31.5 23.5", 100000, 0, -ERANGE, "check the depth scale"},
        {"52.5 52.5 31.5 23.5", 0, 70, -ERANGE, "outside the image"},
        {"525 525 319.5 239.5", 0, 0, -ERANGE, "outside the image"},
        {"52.5 52.5 31.5 23.5 640 480", 0, 0, -ERANGE, "is for 640x480"},
        {"26 26 10 23.5", 0, 0, -ERANGE, "another image size"},
        {"5250 5250 31.5 23.5", 0, 0, -ERANGE, "field of view"},
        {"52 20 31.5 23.5", 0, 0, -ERANGE, "factor 2"},
        {NULL, 0, 0, -ERANGE, "is for 640x480"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[256];
        unlink(scratch_name(&scratch, "calibration.txt", path));
        if (cases[i].calibration)
            scratch_write_text(&scratch, "calibration.txt", cases[i].calibration);
        struct capture_settings settings = settings_of("tum");
        settings.depth_scale = cases[i].depth_scale;
        settings.cx_px = cases[i].cx_px;
        assert_int_equal(open_result(&settings), cases[i].err);
        assert_true(scratch_said(&scratch, cases[i].reason));
        assert_true(!cases[i].err || scratch_said(&scratch, scratch.path));
        settings.allow_implausible = true;
        scratch.n_lines = 0;
        assert_int_equal(open_result(&settings), 0);
        assert_true(cases[i].err ? scratch.n_lines > 0 : scratch.n_lines == 0);
    }
}

static void overrides_replace_the_calibration(void **state)
{
    (void)state;
    write_tum("1 depth/a.png\n");
    scratch_write_text(&scratch, "calibration.txt", "525 525 319.5 239.5 640 480\n");
    struct capture_settings settings = settings_of("tum");
    settings.fx_px = 50;
    settings.fy_px = -51;
    settings.cx_px = 30;
    settings.cy_px = 22;
    settings.depth_scale = 5208;
    struct capture *capture;
    assert_int_equal(capture_open(&capture, &settings), 0);
    assert_true(scratch_said(&scratch, "camera.fy is -51, but 525 in calibration.txt"));
    const struct capture_info *info = capture_info(capture);
    assert_true(info->camera.fx_px == 50 && info->camera.fy_px == -51);
    assert_true(info->camera.cx_px == 30 && info->camera.cy_px == 22);
    assert_true(info->units_per_m == 5208);
    capture_close(&capture);
}

static void covered_lens_at_the_start_is_no_reason_to_refuse(void **state)
{
    (void)state;
    write_tum("1 depth/zero.png\n2 depth/zero.png\n3 depth/a.png\n");
    write_depth("depth/zero.png", 0);
    struct capture_settings settings = settings_of("tum");
    assert_int_equal(open_result(&settings), 0);
    assert_int_equal(scratch.n_lines, 0);
    settings.duration_s = 1.5;
    assert_int_equal(open_result(&settings), 0);
    assert_true(scratch_said(&scratch, "the depth scale was not checked"));
}

static void sevenscenes_reads_what_is_written(void **state)
{
    (void)state;
    write_depth("frame-000007.depth.png", 2000);
    write_depth("frame-000003.depth.png", 2003);
    write_depth("frame-000030.depth.png", 2030);
    write_depth("frame-0000031.depth.png", 1); // not of the format
    scratch_write_text(&scratch, "camera-intrinsics.txt", "58.5 0 32\n0 58.5 24\n0 0 1\n");
    scratch_write_text(&scratch, "frame-000003.pose.txt", "1 0 0 1\n0 1 0 2\n0 0 1 3\n0 0 0 1\n");
    struct capture_settings settings = settings_of("sevenscenes");
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(capture_open(&capture, &settings), 0);
    const struct capture_info *info = capture_info(capture);
    assert_int_equal(info->n_frames, 3);
    assert_true(info->camera.fx_px == 58.5 && info->camera.cx_px == 32);
    assert_true(info->units_per_m == 1000);
    static const uint64_t numbers[3] = {3, 7, 30};
    static const int64_t times_ns[3] = {100000000, 233333333, 1000000000};
    static const uint16_t depths[3] = {2003, 2000, 2030};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        assert_int_equal(frame.index, numbers[i]);
        assert_int_equal(frame.image.time_ns, times_ns[i]);
        assert_int_equal(frame.image.depth[5], depths[i]);
    }
    struct stamped_pose *truth;
    assert_int_equal(capture_ground_truth(capture, &truth), 1);
    assert_int_equal(truth[0].time_ns, 100000000);
    assert_true(truth[0].T_world_camera.t_m[1] == 2);
    free(truth);
    capture_close(&capture);
}

static void calibration_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"525.0 525.0 319.5 239.5\n", true},
        {"# ETH3D\n525 525 # f\r\n319.5 239.5", true},
        {"525 525 319.5 239.5 640 480", true},
        {"", false},
        {"525 525 319.5", false},
        {"525 525 319.5 239.5 640", false},
        {"525 525 319.5 239.5 640 480 1000", true},
        {"525 525 319.5 239.5 640 480 0", false},
        {"525 525 319.5 239.5 640 480 7 8", false},
        {"nan 525 319.5 239.5", false},
        {"525 inf 319.5 239.5", false},
        {"525,525,319.5,239.5", false},
        {"0 525 319.5 239.5", false},
        {"525 0 319.5 239.5", false},
        {"-525 525 319.5 239.5", false},
        {"525 525 319.5 239.5 1e9 480", false},
    };
    struct intrinsics camera;
    double units_per_m;
    struct log_sink log = scratch_log(&scratch);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch.line[0] = '\0';
        int err = sidecar_parse_calibration(cases[i].text, "c.txt", &log, &camera, &units_per_m);
        assert_int_equal(err, cases[i].good ? 0 : -EINVAL);
        assert_true(cases[i].good || !strncmp(scratch.line, "c.txt: ", 7));
    }
    assert_int_equal(sidecar_parse_matrix("585 0 320 0 585 240 0 0 1", "m.txt", &log, &camera), 0);
    assert_int_equal(sidecar_parse_matrix("585 1 320 0 585 240 0 0 1", "m.txt", &log, &camera),
                     -EINVAL);
    assert_int_equal(sidecar_parse_matrix("585 0 320 0 585 240", "m.txt", &log, &camera), -EINVAL);
}

// The recordings of POSED_DATA, when there: sizes, calibrations, number of frames.
static void real_recordings(void **state)
{
    (void)state;
    const char *data = getenv("POSED_DATA");
    if (!data) {
        print_message("SKIP: POSED_DATA is not set, no real recordings\n");
        skip();
    }
    static const struct {
        const char *source, *folder;
        uint64_t n_frames;
        double fx_px, fy_px;
        bool truth;
    } cases[] = {{"tum", "fr1_xyz", 300, 525, 525, true},
                 {"tum", "icl_lr_kt2", 150, 481.2, -480, true},
                 {"sevenscenes", "redkitchen", 200, 585, 585, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[512];
        snprintf(source, sizeof source, "%s:%s/%s", cases[i].source, data, cases[i].folder);
        struct capture_settings settings = settings_of("tum");
        settings.source = source;
        struct capture *capture;
        struct capture_frame frame;
        struct stamped_pose *truth;
        assert_int_equal(capture_open(&capture, &settings), 0);
        assert_true(capture_info(capture)->camera.fx_px == cases[i].fx_px);
        assert_true(capture_info(capture)->camera.fy_px == cases[i].fy_px);
        uint64_t n = 0;
        int err;
        while (!(err = capture_read(capture, -1, &frame))) {
            assert_non_null(frame.image.depth);
            n++;
        }
        assert_int_equal(err, -ENODATA);
        assert_int_equal(n, cases[i].n_frames);
        assert_true((capture_ground_truth(capture, &truth) > 0) == cases[i].truth);
        free(truth);
        capture_close(&capture);
        assert_int_equal(scratch.n_lines, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tum_reads_what_is_written),
        TEST(tum_ground_truth_is_offered),
        TEST(ground_truth_is_found_beneath_the_folder),
        TEST(first_images_may_be_unreadable),
        TEST(links_out_of_the_folder_are_told_once),
        TEST(tum_sorts_and_drops_repeated_times),
        TEST(unreadable_image_is_a_damaged_frame),
        TEST(tum_refuses),
        TEST(implausible_is_refused_or_warned_about),
        TEST(overrides_replace_the_calibration),
        TEST(covered_lens_at_the_start_is_no_reason_to_refuse),
        TEST(sevenscenes_reads_what_is_written),
        TEST(calibration_texts),
        TEST(real_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
