// SPDX-License-Identifier: Apache-2.0
// proto/trajectory: both formats, what real files hold (CRLF, comments, disorder, repeats), what
// must be refused with file and line, and interpolation against poses known in closed form.
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

#include "proto/se3.h"
#include "proto/trajectory.h"

static char folder[64];
static char last_line[1024];

static void remember_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static const struct log_sink sink = {remember_line, NULL};

static const char *write_file(const char *name, const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/posed-trajectory-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static void assert_close(double a, double b, double limit)
{
    if (!(fabs(a - b) <= limit))
        fail_msg("%.17g differs from %.17g, limit %.3g", a, b, limit);
}

static void test_reads_what_real_files_hold(void **state)
{
    (void)state;
    const char *path = write_file("gt.txt", "# comment\r\n"
                                            "\n"
                                            "1305031101.665812345 1 2 3 0 0 0 1\r\n"
                                            "1305031100.5 4 5 6 0 0 0.70710678 0.70710678\n"
                                            "  1305031101.665812345 9 9 9 0 0 0 1 # repeated\n"
                                            "1.305031102e+09,7,8,9,0,0,0,-2\n");
    struct trajectory read;
    assert_int_equal(trajectory_read_tum(path, &sink, &read), 0);
    assert_non_null(strstr(last_line, "1 poses repeat a time"));
    assert_int_equal(read.n_poses, 3);
    assert_int_equal(read.poses[0].time_ns, 1305031100500000000);
    assert_int_equal(read.poses[1].time_ns, 1305031101665812345);
    assert_int_equal(read.poses[2].time_ns, 1305031102000000000);
    assert_close(read.poses[1].T_world_camera.t_m[0], 1, 0); // the first of the two
    assert_close(read.poses[0].T_world_camera.r[3], 1, 1e-8);
    assert_close(read.poses[2].T_world_camera.r[0], 1, 0);
    trajectory_free(&read);
    assert_null(read.poses);
}

static void test_writes_what_it_reads(void **state)
{
    (void)state;
    double twist[6] = {0.3, -0.2, 5, 0.5, -1, 2};
    struct stamped_pose pose = {1305031101000000007, se3_exp(twist)},
                        early = {.time_ns = -1500000000};
    early.T_world_camera = se3_identity();
    char path[256];
    snprintf(path, sizeof path, "%s/out.txt", folder);
    FILE *file = fopen(path, "w");
    assert_int_equal(trajectory_write_tum(file, &early), 0);
    assert_int_equal(trajectory_write_tum(file, &pose), 0);
    fclose(file);
    struct trajectory read;
    assert_int_equal(trajectory_read_tum(path, &sink, &read), 0);
    assert_int_equal(read.n_poses, 2);
    assert_int_equal(read.poses[0].time_ns, -1500000000);
    assert_int_equal(read.poses[1].time_ns, pose.time_ns);
    for (int i = 0; i < 9; i++)
        assert_close(read.poses[1].T_world_camera.r[i], pose.T_world_camera.r[i], 5e-9);
    for (int i = 0; i < 3; i++)
        assert_close(read.poses[1].T_world_camera.t_m[i], pose.T_world_camera.t_m[i], 1e-9);
    trajectory_free(&read);
    file = fopen(path, "w+");
    assert_int_equal(trajectory_write(file, TRAJECTORY_FORMAT_KITTI, &pose, NULL), 0);
    rewind(file);
    for (int i = 0; i < 12; i++) {
        const struct se3 *T = &pose.T_world_camera;
        double value;
        assert_int_equal(fscanf(file, "%lf", &value), 1);
        assert_close(value, i % 4 == 3 ? T->t_m[i / 4] : T->r[3 * (i / 4) + i % 4], 1e-9);
    }
    assert_int_equal(fgetc(file), '\n');
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    file = fopen("/dev/full", "w");
    setvbuf(file, NULL, _IONBF, 0);
    assert_int_equal(trajectory_write_tum(file, &pose), -EIO);
    assert_int_equal(trajectory_write(file, TRAJECTORY_FORMAT_KITTI, &pose, NULL), -EIO);
    fclose(file);
}

// Frames of epochs 0, 0, 2 (lost), 2 (predicted), 2: a comment each for the new epoch and the
// frames that were not measured, in every format that has comments.
static void test_marks(void **state)
{
    (void)state;
    static const char *const lines[] = {"0.000000000 ",
                                        "1.500000000 ",
                                        "# map epoch 2, not connected to the lines before\n",
                                        "# 3.000000000 lost: no pose\n",
                                        "# 4.500000000 predicted: no measurement\n",
                                        "6.000000000 "};
    static const enum trajectory_origin origins[] = {
        TRAJECTORY_ORIGIN_MEASURED, TRAJECTORY_ORIGIN_MEASURED, TRAJECTORY_ORIGIN_LOST,
        TRAJECTORY_ORIGIN_PREDICTED, TRAJECTORY_ORIGIN_MEASURED};
    const enum trajectory_format formats[] = {TRAJECTORY_FORMAT_TUM, TRAJECTORY_FORMAT_COVARIANCE,
                                              TRAJECTORY_FORMAT_KITTI};
    const struct pose_error none = {0};
    char path[256], line[4096];
    snprintf(path, sizeof path, "%s/marks.txt", folder);
    for (int f = 0; f < 3; f++) {
        const bool is_kitti = formats[f] == TRAJECTORY_FORMAT_KITTI;
        struct trajectory_marks marks = {0};
        FILE *file = fopen(path, "w+");
        for (int i = 0; i < 5; i++) {
            const struct stamped_pose pose = {i * 1500000000LL, se3_identity()};
            const struct trajectory_part its = {.epoch = i < 2 ? 0 : 2};
            assert_int_equal(
                trajectory_write_marked(file, formats[f], &marks, &its, origins[i], &pose, &none),
                0);
        }
        rewind(file);
        for (int i = 0; i < (is_kitti ? 5 : 6); i++) {
            assert_non_null(fgets(line, sizeof line, file));
            assert_int_equal(strncmp(line, is_kitti ? "1.000000000 0.000000000" : lines[i],
                                     strlen(is_kitti ? "1.000000000 0.000000000" : lines[i])),
                             0);
        }
        assert_null(fgets(line, sizeof line, file));
        fclose(file);
        struct trajectory read, part;
        if (is_kitti)
            continue;
        assert_int_equal(trajectory_read_tum(path, &sink, &read), 0);
        assert_int_equal(read.n_poses, 3);
        assert_non_null(read.parts);
        assert_true(read.parts[0].epoch == 0 && read.parts[1].epoch == 0 &&
                    read.parts[2].epoch == 2);
        assert_int_equal(trajectory_of_part(&read, &(struct trajectory_part){2, 0}, &part), 0);
        assert_int_equal(part.n_poses, 1);
        assert_int_equal(part.poses[0].time_ns, 6000000000);
        assert_int_equal(part.errors != NULL, formats[f] == TRAJECTORY_FORMAT_COVARIANCE);
        trajectory_free(&part);
        assert_int_equal(trajectory_of_part(&read, &(struct trajectory_part){1, 0}, &part), 0);
        assert_int_equal(part.n_poses, 0);
        trajectory_free(&part);
        trajectory_free(&read);
    }
}

// What begins an epoch, and what only looks like it; epochs go with their poses when those are
// sorted.
static void test_reads_epochs(void **state)
{
    (void)state;
    struct trajectory read;
    assert_int_equal(trajectory_read_tum(write_file("e.txt", "# map epoch 3\r\n"
                                                             "5 0 0 0 0 0 0 1\n"
                                                             "# map epoch 4, not connected to the "
                                                             "lines before\r\n"
                                                             "1 0 0 0 0 0 0 1\n"
                                                             "5 0 0 0 0 0 0 1\n"
                                                             "# map epoch 5 is what I call it\n"
                                                             "# map epoch of mine\n"
                                                             "6 0 0 0 0 0 0 1\n"),
                                         &sink, &read),
                     0);
    assert_int_equal(read.n_poses, 3);
    assert_non_null(read.parts);
    assert_true(read.parts[0].epoch == 4 && read.parts[1].epoch == 3 && read.parts[2].epoch == 4);
    trajectory_free(&read);
    assert_null(read.parts);
    assert_int_equal(trajectory_read_tum(write_file("e.txt", "# map epoch 3\n"
                                                             "5 0 0 0 0 0 0 1\n"),
                                         &sink, &read),
                     0);
    assert_null(read.parts); // all of one
    trajectory_free(&read);
}

// A clock that was set back: the poses by each clock are a part, and none is left out. Set back to
// what it was, the first part goes on.
static void test_set_clock(void **state)
{
    (void)state;
    static const int64_t set_ns[] = {0, 0, 0, -2000000000, -2000000000, -2000000000, 0};
    const enum trajectory_format formats[] = {TRAJECTORY_FORMAT_TUM, TRAJECTORY_FORMAT_COVARIANCE};
    char path[256], text[16384];
    struct trajectory read;
    snprintf(path, sizeof path, "%s/set.txt", folder);
    for (int f = 0; f < 2; f++) {
        struct trajectory_marks marks = {0};
        FILE *file = fopen(path, "w+");
        for (int i = 0; i < 7; i++) {
            struct stamped_pose pose = {i * 1000000000LL + set_ns[i], se3_identity()};
            const struct trajectory_part its = {4, set_ns[i]};
            const struct pose_error error = {.own = {i + 1}};
            pose.T_world_camera.t_m[0] = i;
            assert_int_equal(trajectory_write_marked(file, formats[f], &marks, &its,
                                                     TRAJECTORY_ORIGIN_MEASURED, &pose, &error),
                             0);
        }
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        assert_int_equal(strncmp(text, "# map epoch 4\n0.0", 17), 0);
        assert_non_null(strstr(text, "\n# clock set -2.000000000 s since the beginning\n1.0"));
        assert_non_null(strstr(text, "\n# clock set 0.000000000 s since the beginning\n6.0"));
        struct trajectory part;
        last_line[0] = 0;
        assert_int_equal(trajectory_read_tum(path, &sink, &read), 0);
        assert_int_equal(read.n_poses, 7);
        assert_string_equal(last_line, ""); // nothing is out of order
        for (int which = 0; which < 2; which++) {
            static const int wanted[2][4] = {{0, 1, 2, 6}, {3, 4, 5}};
            const struct trajectory_part its = {4, set_ns[which * 3]};
            assert_int_equal(trajectory_of_part(&read, &its, &part), 0);
            assert_int_equal(part.n_poses, which ? 3 : 4);
            for (size_t k = 0; k < part.n_poses; k++) {
                assert_true(part.poses[k].T_world_camera.t_m[0] == wanted[which][k]);
                if (f == 1)
                    assert_close(part.errors[k].own[0], wanted[which][k] + 1, 1e-6);
            }
            trajectory_free(&part);
        }
        trajectory_free(&read);
    }
    assert_int_equal(trajectory_read_tum(write_file("s.txt", "# clock set tomorrow\n"
                                                             "# clock set nan s since the "
                                                             "beginning\n"
                                                             "# clock set 1e300 s since the "
                                                             "beginning\n"
                                                             "# clock set 5 s too late\n"
                                                             "1 0 0 0 0 0 0 1\n"
                                                             "# clock set 3 s since the "
                                                             "beginning\r\n"
                                                             "1 0 0 0 0 0 0 1\n"),
                                         &sink, &read),
                     0);
    assert_int_equal(read.n_poses, 2); // of one time, by two clocks
    assert_true(read.parts[0].clock_set_ns == 0 && read.parts[1].clock_set_ns == 3000000000);
    trajectory_free(&read);
}

static void test_refuses_bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"1 0 0 0 0 0 0 1\n2 0 0 0 0 0 1\n", ":2: too few fields"},
        {"1 0 0 0 0 0 0 1 5\n", ":1: more than 8 fields"},
        {"1 0 0 nan 0 0 0 1\n", ":1: NaN or infinity"},
        {"1 0 0 inf 0 0 0 1\n", ":1: NaN or infinity"},
        {"1 0 0 0 0 0 0 0\n", ":1: zero quaternion"},
        {"# a\n1 0 x 0 0 0 0 1\n", ":2: field 3 is not a number"},
        {"1305031101665812345 0 0 0 0 0 0 1\n", ":1: time out of range"},
        {"1 1e300 0 0 0 0 0 1\n", ":1: position out of range"},
        {"1 0 0 0 1e300 0 0 1\n", ":1: quaternion out of range"},
        {"", "holds no pose"},
        {"# only a comment\n", "holds no pose"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct trajectory read;
        const char *path = write_file("bad.txt", cases[c].text);
        assert_int_equal(trajectory_read_tum(path, &sink, &read), -EINVAL);
        assert_null(read.poses);
        assert_int_equal(strncmp(last_line, path, strlen(path)), 0);
        if (!strstr(last_line, cases[c].reason))
            fail_msg("\"%s\" does not say \"%s\"", last_line, cases[c].reason);
    }
    struct trajectory read;
    assert_int_equal(trajectory_read_tum("/nonexistent/gt.txt", &sink, &read), -ENOENT);
    assert_int_equal(trajectory_read_tum(folder, &sink, &read), -EIO);
    assert_int_equal(trajectory_read_tum("/nonexistent/gt.txt", NULL, &read), -ENOENT);
}

static void write_bytes(const char *name, const char *data, size_t n_bytes, char path[256])
{
    snprintf(path, 256, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n_bytes, file), n_bytes);
    fclose(file);
}

static void test_lines_have_no_nul_and_a_bound(void **state)
{
    (void)state;
    static char data[1 << 20];
    char path[256];
    struct trajectory read;
    static const char nul[] = "1 0 0 0 0 0 0 1\n2 0 0 0 0 0 0 1\0 and more\n";
    write_bytes("nul.txt", nul, sizeof nul - 1, path);
    assert_int_equal(trajectory_read_tum(path, &sink, &read), -EINVAL);
    assert_non_null(strstr(last_line, ":2: NUL byte"));
    memset(data, ' ', sizeof data); // a megabyte without a newline
    memcpy(data, nul, 16);
    write_bytes("long.txt", data, sizeof data, path);
    assert_int_equal(trajectory_read_tum(path, &sink, &read), -EINVAL);
    assert_non_null(strstr(last_line, ":2: line too long"));
    write_bytes("fits.txt", data, 16 + 4095, path); // the longest that is read
    assert_int_equal(trajectory_read_tum(path, &sink, &read), 0);
    assert_int_equal(read.n_poses, 1);
    trajectory_free(&read);
}

static void test_every_truncation(void **state)
{
    (void)state;
    static const char text[] = "# x\n1 0 0 0 0 0 0 1\r\n2.5 1 2 3 0 0 0.6 0.8\n";
    char path[256];
    struct trajectory read;
    size_t n_most = 0;
    for (size_t n = 0; n < sizeof text; n++) {
        write_bytes("cut.txt", text, n, path);
        int err = trajectory_read_tum(path, &sink, &read);
        assert_true(err == 0 || err == -EINVAL);
        n_most = err ? n_most : read.n_poses;
        trajectory_free(&read);
    }
    assert_int_equal(n_most, 2);
}

static void test_frame_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        long number;
    } cases[] = {{"frame-000000.pose.txt", 0},   {"frame-999999.pose.txt", 999999},
                 {"frame-00001.pose.txt", -1},   {"frame-0000001.pose.txt", -1},
                 {"frame-+00001.pose.txt", -1},  {"frame-000001.pose.txt~", -1},
                 {"frame-000001.depth.png", -1}, {"frame-.pose.txt", -1},
                 {"xframe-000001.pose.txt", -1}, {"frame", -1},
                 {"frame- 00001.pose.txt", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(trajectory_frame_number(cases[i].name, ".pose.txt"), cases[i].number);
    assert_int_equal(trajectory_frame_number("frame-000012.depth.png", ".depth.png"), 12);
}

static void test_reads_sevenscenes(void **state)
{
    (void)state;
    struct trajectory read;
    assert_int_equal(trajectory_read_sevenscenes("/nonexistent", &sink, &read), -ENOENT);
    char seq[128];
    snprintf(seq, sizeof seq, "%s/seq", folder);
    assert_int_equal(mkdir(seq, 0700), 0);
    assert_int_equal(trajectory_read_sevenscenes(seq, &sink, &read), -ENOENT);
    write_file("seq/frame-000031.pose.txt", "0 -1 0 1\r\n1 0 0 2\r\n0 0 1 3\r\n0 0 0 1\r\n");
    write_file("seq/frame-000001.pose.txt", "1 0 0 5 0 1 0 6 0 0 1 7 0 0 0 1");
    write_file("seq/frame-000001.depth.png", "not a pose");
    assert_int_equal(trajectory_read_sevenscenes(seq, &sink, &read), 0);
    assert_int_equal(read.n_poses, 2);
    assert_int_equal(read.poses[0].time_ns, 33333333);
    assert_int_equal(read.poses[1].time_ns, 1033333333);
    assert_close(read.poses[1].T_world_camera.r[1], -1, 1e-15);
    assert_close(read.poses[1].T_world_camera.t_m[2], 3, 0);
    trajectory_free(&read);
    static const char *const bad[] = {
        "1 0 0 0 0 1 0 0 0 0 1 0 0 0 0",        "1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1 1",
        "nan 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1",    "2 0 0 0 0 2 0 0 0 0 2 0 0 0 0 1",
        "1 0 0 0 0 1 0 0 0 0 -1 0 0 0 0 1",     "1 0 0 0 0 1 0 0 0 0 1 0 0 0 1 1",
        "1 0 0 4e3509 0 1 0 0 0 0 1 0 0 0 0 1", "4e3509 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1",
    };
    for (size_t c = 0; c < sizeof bad / sizeof *bad; c++) {
        write_file("seq/frame-000002.pose.txt", bad[c]);
        assert_int_equal(trajectory_read_sevenscenes(seq, &sink, &read), -EINVAL);
        assert_non_null(strstr(last_line, "frame-000002.pose.txt"));
        assert_null(read.poses);
    }
    static const char nul[] = "1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\n\0 and more";
    char path[256];
    write_bytes("seq/frame-000002.pose.txt", nul, sizeof nul - 1, path);
    assert_int_equal(trajectory_read_sevenscenes(seq, &sink, &read), -EINVAL);
    assert_non_null(strstr(last_line, "frame-000002.pose.txt: NUL byte"));
    static char blanks[4096];
    memset(blanks, ' ', sizeof blanks);
    memcpy(blanks, nul, 31);
    write_bytes("seq/frame-000002.pose.txt", blanks, sizeof blanks, path);
    assert_int_equal(trajectory_read_sevenscenes(seq, &sink, &read), -EINVAL);
    assert_non_null(strstr(last_line, "file too long"));
    for (int kind = 0; kind < 2; kind++) { // neither leaves the folder, nor hangs
        assert_int_equal(unlink(path), 0);
        assert_int_equal(kind ? mkfifo(path, 0600) : symlink("../gt.txt", path), 0);
        assert_int_equal(trajectory_read_sevenscenes(seq, &sink, &read), -EIO);
        assert_non_null(strstr(last_line, "frame-000002.pose.txt: not a regular file"));
    }
}

static void test_interpolates(void **state)
{
    (void)state;
    double turn[6] = {0, 0, 0, 0, 1, 0}, part[6] = {0, 0, 0, 0, 0.25, 0};
    struct stamped_pose poses[3] = {
        {1000, se3_identity()}, {2000, se3_exp(turn)}, {.time_ns = 9000}};
    poses[1].T_world_camera.t_m[0] = 8;
    poses[2].T_world_camera = poses[1].T_world_camera;
    struct trajectory trajectory = {.poses = poses, .n_poses = 3}, empty = {0};
    struct se3 T, expected = se3_exp(part);
    assert_int_equal(trajectory_at(&trajectory, 1250, 1000, &T), 0);
    assert_close(T.t_m[0], 2, 1e-15);
    for (int i = 0; i < 9; i++)
        assert_close(T.r[i], expected.r[i], 1e-15);
    assert_int_equal(trajectory_at(&trajectory, 999, 1000, &T), -ERANGE);
    assert_int_equal(trajectory_at(&trajectory, 9001, 10000, &T), -ERANGE);
    assert_int_equal(trajectory_at(&trajectory, 5000, 6999, &T), -ERANGE);
    assert_int_equal(trajectory_at(&trajectory, 5000, 7000, &T), 0);
    assert_int_equal(trajectory_at(&empty, 0, 1000, &T), -ERANGE);
    // A gap of more nanoseconds than fit an int64.
    struct stamped_pose far[2] = {{.time_ns = -9000000000000000000},
                                  {.time_ns = 9000000000000000000}};
    const struct trajectory wide = {.poses = far, .n_poses = 2};
    assert_int_equal(trajectory_at(&wide, 0, INT64_MAX, &T), -ERANGE);
    for (int i = 0; i < 3; i++) // exact hits need no neighbour
        assert_int_equal(trajectory_at(&trajectory, poses[i].time_ns, 0, &T), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_what_real_files_hold),
        cmocka_unit_test(test_writes_what_it_reads),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_reads_epochs),
        cmocka_unit_test(test_set_clock),
        cmocka_unit_test(test_refuses_bad_files),
        cmocka_unit_test(test_lines_have_no_nul_and_a_bound),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_frame_numbers),
        cmocka_unit_test(test_reads_sevenscenes),
        cmocka_unit_test(test_interpolates),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
