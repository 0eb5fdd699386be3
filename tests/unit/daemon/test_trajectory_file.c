// SPDX-License-Identifier: Apache-2.0
// daemon/trajectory_file: at its end the file holds every frame where the keyframes around it, as
// finally adjusted, say; without keyframes, and where it cannot be completed, what came.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sys/stat.h>

#include "daemon/trajectory_file.h"
#include "proto/se3.h"
#include "tests/unit/scratch.h"

#define N_FRAMES 40
#define FOUND_AT 36   // after a loss in epoch 9: no keyframe comes since
#define ROUNDING 2e-9 // of nine decimals

static struct scratch scratch;

static int make(void **state)
{
    (void)state;
    scratch_create(&scratch);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// A camera that goes forward and turns about its y axis.
static struct se3 tracked(uint64_t seq)
{
    const double twist[6] = {0.01 * (double)seq, 0.002 * (double)seq, 0, 0, 0.01 * (double)seq, 0};
    return se3_exp(twist);
}

// What adjusting does to keyframe `seq`: 1 mm a frame along z, and a small turn.
static struct se3 moved(uint64_t seq)
{
    const double twist[6] = {0, 0, 0.001 * (double)seq, 0, 0, 0.0002 * (double)seq};
    return se3_exp(twist);
}

static struct graph_keyframe keyframe(uint64_t seq)
{
    const struct se3 T = tracked(seq), T_map_odom = moved(seq);
    return (struct graph_keyframe){
        .seq = seq, .T_odom_camera = T, .T_map_camera = se3_compose(&T_map_odom, &T)};
}

static void push(struct trajectory_file *file, uint64_t seq, uint32_t epoch)
{
    const struct se3 none = se3_identity();
    const struct track_result result = {.T_odom_camera = tracked(seq),
                                        .map_epoch = epoch,
                                        .n_finds = epoch == 9 && seq >= FOUND_AT};
    trajectory_file_push(file, (int64_t)seq * 33000000, 0, &none, &result);
}

static struct trajectory_file *open_file(const char *path, enum trajectory_format format,
                                         bool adjusted)
{
    const struct log_sink log = scratch_log(&scratch);
    struct trajectory_file *file;
    assert_int_equal(trajectory_file_create(&file, path, format, true, adjusted, &log), 0);
    return file;
}

static void read_poses(const char *path, struct trajectory *out)
{
    const struct log_sink log = scratch_log(&scratch);
    assert_int_equal(trajectory_read_tum(path, &log, out), 0);
    assert_int_equal(out->n_poses, N_FRAMES);
}

static double apart_m(const struct se3 *a, const struct se3 *b)
{
    return hypot(hypot(a->t_m[0] - b->t_m[0], a->t_m[1] - b->t_m[1]), a->t_m[2] - b->t_m[2]);
}

static void assert_pose(const struct trajectory *t, uint64_t seq, const struct se3 *T_map_odom)
{
    const struct se3 T = tracked(seq), wanted = se3_compose(T_map_odom, &T);
    assert_true(apart_m(&t->poses[seq].T_world_camera, &wanted) <= ROUNDING);
    const struct se3 turn = se3_between(&wanted, &t->poses[seq].T_world_camera);
    assert_true(se3_angle(&turn) <= 1e-8);
}

static void assert_alone(void) // no other file is left
{
    char command[128];
    snprintf(command, sizeof command, "test $(ls -A '%s' | wc -l) = 1", scratch.path);
    assert_int_equal(system(command), 0);
}

static void test_adjusted(void **state)
{
    (void)state;
    // Two epochs with keyframes and one without.
    const struct graph_keyframe first[] = {keyframe(2), keyframe(7), keyframe(15)};
    const struct graph_keyframe last[] = {keyframe(31)};
    const struct se3 none = se3_identity();
    char path[256];
    struct trajectory published, t;
    scratch_name(&scratch, "t.txt", path);
    struct trajectory_file *file = open_file(path, TRAJECTORY_FORMAT_TUM, true);
    assert_true(trajectory_file_is_adjusted(file));
    for (uint64_t seq = 0; seq < N_FRAMES; seq++) {
        if (seq == 20)
            trajectory_file_adjust(file, 4, first, 3);
        if (seq == 30)
            trajectory_file_adjust(file, 5, NULL, 0);
        push(file, seq, seq < 20 ? 4 : seq < 30 ? 5 : 9);
    }
    trajectory_file_adjust(file, 9, last, 1);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    assert_null(file);
    assert_alone();
    read_poses(path, &t);
    for (uint64_t seq = 0; seq < N_FRAMES; seq++) {
        const struct se3 of_2 = moved(2), of_7 = moved(7), of_15 = moved(15), of_31 = moved(31);
        if (seq <= 2)
            assert_pose(&t, seq, &of_2);
        else if (seq == 7)
            assert_pose(&t, seq, &of_7);
        else if (seq >= 15 && seq < 20)
            assert_pose(&t, seq, &of_15);
        else if ((seq >= 20 && seq < 30) || seq >= FOUND_AT)
            assert_pose(&t, seq, &none);
        else if (seq >= 30)
            assert_pose(&t, seq, &of_31);
        if (seq > 2 && seq <= 15) {
            // What moves grows evenly with the motion here: no step, and each frame near its own.
            const struct se3 T = tracked(seq), T_map_odom = moved(seq),
                             wanted = se3_compose(&T_map_odom, &T);
            assert_true(apart_m(&t.poses[seq].T_world_camera, &wanted) <= 1e-4);
        }
    }
    trajectory_free(&t);
    // Without keyframes the file stays.
    file = open_file(path, TRAJECTORY_FORMAT_TUM, true);
    for (uint64_t seq = 0; seq < N_FRAMES; seq++)
        push(file, seq, 0);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    read_poses(path, &published);
    for (uint64_t seq = 0; seq < N_FRAMES; seq++)
        assert_pose(&published, seq, &none);
    trajectory_free(&published);
}

// Where a map epoch begins, and which frames were lost or predicted, is told by comments, as the
// lines come and in what takes their place at the end. What is DEGRADED but was measured has its
// pose.
static void test_marks(void **state)
{
    (void)state;
    const struct graph_keyframe first[] = {keyframe(0)};
    const struct se3 none = se3_identity();
    char path[256], text[4096];
    scratch_name(&scratch, "m.txt", path);
    for (int which = 0; which < 3; which++) { // adjusted, published, with covariances
        struct trajectory_file *file = open_file(
            path, which == 2 ? TRAJECTORY_FORMAT_COVARIANCE : TRAJECTORY_FORMAT_TUM, which == 0);
        for (int i = 0; i < 8; i++) {
            static const struct {
                enum track_state state;
                enum track_reason reason;
            } frames[] = {{TRACK_STATE_INIT, TRACK_REASON_DROPPED}, // before the first pose
                          {TRACK_STATE_INIT, TRACK_REASON_FIRST_FRAME},
                          {TRACK_STATE_LOST, TRACK_REASON_FEW_PAIRS},
                          {TRACK_STATE_LOST, TRACK_REASON_DROPPED},
                          {TRACK_STATE_TRACKING, TRACK_REASON_NONE},
                          {TRACK_STATE_DEGRADED, TRACK_REASON_DROPPED},
                          {TRACK_STATE_DEGRADED, TRACK_REASON_DEGENERATE},
                          {TRACK_STATE_DEGRADED, TRACK_REASON_TIME_GAP}};
            const struct track_result result = {.T_odom_camera = tracked(0),
                                                .map_epoch = i >= 4,
                                                .state = frames[i].state,
                                                .reason = frames[i].reason};
            trajectory_file_push(file, i * 1000000000LL, 0, &none, &result);
        }
        trajectory_file_adjust(file, 0, first, 1);
        assert_int_equal(trajectory_file_destroy(&file), 0);
        FILE *written = fopen(path, "r");
        assert_non_null(written);
        text[fread(text, 1, sizeof text - 1, written)] = 0;
        fclose(written);
        assert_non_null(strstr(text, "\n# 2.000000000 lost: no pose\n# 3.000000000 lost: no pose\n"
                                     "# map epoch 1, not connected to the lines before\n4.0"));
        assert_non_null(strstr(text, "\n# 5.000000000 predicted: no measurement\n6.0"));
        assert_non_null(strstr(text, "\n7.000000000 "));
        const char *begin = "# 0.000000000 predicted: no measurement\n1.000000000 ";
        assert_int_equal(strncmp(text, begin, strlen(begin)), 0);
        assert_int_equal(unlink(path), 0);
    }
}

// Where the machine's clock was set a comment says so, in both.
static void test_set_clock(void **state)
{
    (void)state;
    const struct graph_keyframe only = keyframe(0);
    const struct se3 none = se3_identity();
    char path[256];
    const struct log_sink log = scratch_log(&scratch);
    scratch_name(&scratch, "s.txt", path);
    for (int adjusted = 0; adjusted < 2; adjusted++) {
        struct trajectory_file *file = open_file(path, TRAJECTORY_FORMAT_TUM, adjusted);
        struct trajectory written;
        for (int i = 0; i < 9; i++) {
            const struct track_result result = {.T_odom_camera = tracked(0)};
            const int64_t set_ns = i < 4 ? 0 : -3000000000;
            trajectory_file_push(file, i * 1000000000LL + set_ns, set_ns, &none, &result);
        }
        trajectory_file_adjust(file, 0, &only, 1);
        assert_int_equal(trajectory_file_destroy(&file), 0);
        assert_int_equal(trajectory_read_tum(path, &log, &written), 0);
        assert_int_equal(written.n_poses, 9);
        for (size_t i = 0, n_set = 0; i < 9; i++) {
            n_set += written.parts[i].clock_set_ns == -3000000000;
            assert_true(i < 8 || n_set == 5);
        }
        trajectory_free(&written);
        assert_int_equal(unlink(path), 0);
    }
}

static void test_not_adjusted(void **state)
{
    (void)state;
    const struct graph_keyframe only = keyframe(20);
    const struct se3 none = se3_identity();
    char path[256], elsewhere[256];
    struct trajectory t;
    scratch_name(&scratch, "n.txt", path);
    scratch_name(&scratch, "elsewhere.txt", elsewhere);
    // Not wanted; of odom, as covariances are; moved away by somebody.
    for (int which = 0; which < 3; which++) {
        struct trajectory_file *file = open_file(
            path, which == 1 ? TRAJECTORY_FORMAT_COVARIANCE : TRAJECTORY_FORMAT_TUM, which > 0);
        assert_int_equal(trajectory_file_is_adjusted(file), which == 2);
        for (uint64_t seq = 0; seq < N_FRAMES; seq++)
            push(file, seq, 1);
        trajectory_file_adjust(file, 1, &only, 1);
        if (which == 2)
            assert_int_equal(rename(path, elsewhere), 0);
        assert_int_equal(trajectory_file_destroy(&file), 0);
        read_poses(which == 2 ? elsewhere : path, &t);
        for (uint64_t seq = 0; seq < N_FRAMES; seq++)
            assert_pose(&t, seq, &none);
        trajectory_free(&t);
    }
    assert_true(scratch_said(&scratch, "moved away"));
    assert_int_equal(access(path, F_OK), -1);
    struct trajectory_file *file = open_file("/dev/null", TRAJECTORY_FORMAT_TUM, true);
    assert_false(trajectory_file_is_adjusted(file));
    assert_int_equal(trajectory_file_destroy(&file), 0);
}

// As /dev/stdout does where the shell leads it to a file that has text: the link stays, and so does
// the text.
static void test_descriptor(void **state)
{
    (void)state;
    const struct graph_keyframe only = keyframe(20);
    char path[256], link[256], target[64];
    struct stat info;
    struct trajectory t;
    scratch_name(&scratch, "d.txt", path);
    scratch_name(&scratch, "d.link", link);
    const int fd = open(path, O_WRONLY | O_CREAT, 0600); // as a shell gives it
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "# before\n", 9), 9);
    snprintf(target, sizeof target, "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(target, link), 0);
    struct trajectory_file *file = open_file(link, TRAJECTORY_FORMAT_TUM, true);
    assert_false(trajectory_file_is_adjusted(file));
    for (uint64_t seq = 0; seq < N_FRAMES; seq++)
        push(file, seq, 1);
    trajectory_file_adjust(file, 1, &only, 1);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    read_poses(path, &t);
    trajectory_free(&t);
    char head[10] = "";
    const int in = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(in, head, 9), 9);
    assert_string_equal(head, "# before\n");
    close(in);
    close(fd);
    // Of another link it is the file behind it that gets another name.
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink(path, link), 0);
    file = open_file(link, TRAJECTORY_FORMAT_TUM, false);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    strcat(path, ".1");
    read_poses(path, &t);
    trajectory_free(&t);
}

// A name that is a stream: written behind what is there, neither renamed nor replaced.
static void test_streams(void **state)
{
    (void)state;
    const struct graph_keyframe only = keyframe(20);
    char path[256], link[256], through[64];
    const int standard = dup(STDOUT_FILENO);
    assert_true(standard >= 0);
    scratch_name(&scratch, "out.txt", path);
    assert_int_equal(symlink("/dev/stdout", scratch_name(&scratch, "link", link)), 0);
    const int other = open(path, O_CREAT | O_WRONLY | O_APPEND, 0644);
    snprintf(through, sizeof through, "/proc/self/fd/%d", other);
    const char *const names[] = {link, path, through};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scratch_write_text(&scratch, "out.txt", "# what was there\n");
        const int out = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        fflush(stdout);
        if (names[i] != through)
            assert_int_equal(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
        struct trajectory_file *file = open_file(names[i], TRAJECTORY_FORMAT_TUM, true);
        const bool is_adjusted = trajectory_file_is_adjusted(file);
        for (uint64_t seq = 0; seq < N_FRAMES; seq++)
            push(file, seq, 1);
        trajectory_file_adjust(file, 1, &only, 1);
        const int error = trajectory_file_destroy(&file);
        dup2(standard, STDOUT_FILENO);
        close(out);
        assert_int_equal(error, 0);
        assert_false(is_adjusted);
        char text[32];
        struct trajectory t;
        FILE *written = fopen(path, "r");
        assert_non_null(written);
        assert_non_null(fgets(text, sizeof text, written));
        fclose(written);
        assert_string_equal(text, "# what was there\n");
        read_poses(path, &t);
        trajectory_free(&t);
        assert_int_equal(readlink(link, text, sizeof text), strlen("/dev/stdout"));
        assert_string_equal(scratch.line, "");
    }
    close(standard);
    const struct log_sink log = scratch_log(&scratch);
    struct trajectory_file *file;
    assert_int_equal(
        trajectory_file_create(&file, "/proc/none.txt", TRAJECTORY_FORMAT_TUM, true, true, &log),
        -ENOENT);
    // A descriptor that can be written and was given from outside: none of our own.
    const int flags[] = {FD_CLOEXEC, 0};
    for (int i = 0; i < 2; i++) {
        const int given = open(path, (i ? O_RDONLY : O_WRONLY));
        assert_int_equal(fcntl(given, F_SETFD, flags[i]), 0);
        snprintf(through, sizeof through, "/dev/fd/%d", given);
        assert_int_equal(
            trajectory_file_create(&file, through, TRAJECTORY_FORMAT_TUM, true, true, &log),
            -EBADF);
        close(given);
    }
    close(other);
}

// Somebody removes the file: it is there again at the end, beside what has its name meanwhile, and
// an error where its folder is gone.
static void test_removed(void **state)
{
    (void)state;
    const struct graph_keyframe only = keyframe(20);
    const struct se3 none = se3_identity(), of_20 = moved(20);
    char folder[256], path[256], beside[256];
    struct trajectory t;
    scratch_make_folder(&scratch, "folder");
    scratch_name(&scratch, "folder", folder);
    scratch_name(&scratch, "folder/r.txt", path);
    scratch_name(&scratch, "folder/r.txt.1", beside);
    // Adjusted; without keyframes; as published; its name taken; its folder gone.
    for (int which = 0; which < 5; which++) {
        struct trajectory_file *file = open_file(path, TRAJECTORY_FORMAT_TUM, which != 2);
        for (uint64_t seq = 0; seq < N_FRAMES; seq++)
            push(file, seq, 1);
        if (which != 1)
            trajectory_file_adjust(file, 1, &only, 1);
        assert_int_equal(unlink(path), 0);
        if (which == 3)
            scratch_write_text(&scratch, "folder/r.txt", "another's\n");
        if (which == 4)
            assert_int_equal(rmdir(folder), 0);
        assert_int_equal(trajectory_file_destroy(&file), which == 4 ? -ENOENT : 0);
        assert_true(scratch_said(&scratch, "removed meanwhile"));
        if (which == 4)
            continue;
        read_poses(which == 3 ? beside : path, &t);
        for (uint64_t seq = 0; seq < N_FRAMES; seq++)
            assert_pose(&t, seq, which == 1 || which == 2 ? &none : &of_20);
        trajectory_free(&t);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(unlink(beside), which == 3 ? 0 : -1);
    }
    assert_int_equal(scratch.worst, LOG_LEVEL_ERROR);
}

// A name as long as a folder has room for is completed, too.
static void test_long_name(void **state)
{
    (void)state;
    const struct graph_keyframe only = keyframe(20);
    const struct se3 of_20 = moved(20);
    char path[300], *name = path + sprintf(path, "long-");
    struct trajectory t;
    memset(name, 'n', NAME_MAX - 5);
    name[NAME_MAX - 5] = 0;
    const int here = open(".", O_PATH | O_CLOEXEC);
    assert_int_equal(chdir(scratch.path), 0);
    struct trajectory_file *file = open_file(path, TRAJECTORY_FORMAT_TUM, true);
    for (uint64_t seq = 0; seq < N_FRAMES; seq++)
        push(file, seq, 1);
    trajectory_file_adjust(file, 1, &only, 1);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    assert_alone();
    read_poses(path, &t);
    assert_int_equal(fchdir(here), 0);
    close(here);
    assert_pose(&t, 0, &of_20);
    trajectory_free(&t);
}

// Frames at 1, 2, 3, 6 and 6.5 s, all at x = their time, the last one of another epoch.
static void test_find(void **state)
{
    (void)state;
    static const struct {
        double time_s, wanted_m;
        uint64_t seq;
        bool is_known;
    } wanted[] = {
        {-0.1, 1, 0, false}, {0.1, 1, 0, true},   {1, 1, 0, true},   {1.25, 1.25, 0, true},
        {2, 2, 1, true},     {3, 3, 2, true},     {4, 4, 2, false},  {6, 6, 3, true},
        {6.1, 6.5, 4, true}, {6.5, 6.5, 4, true}, {7, 6.5, 4, true}, {7.6, 6.5, 4, false},
    };
    const uint32_t n = sizeof wanted / sizeof *wanted;
    const double times_s[] = {1, 2, 3, 6, 6.5};
    struct trajectory_find found[sizeof wanted / sizeof *wanted] = {{0}};
    char path[256];
    struct trajectory_file *file =
        open_file(scratch_name(&scratch, "f.txt", path), TRAJECTORY_FORMAT_TUM, true);
    for (int i = 0; i < 5; i++) {
        const struct se3 none = se3_identity();
        struct track_result result = {.T_odom_camera = none, .map_epoch = i == 4};
        result.T_odom_camera.t_m[0] = times_s[i];
        trajectory_file_push(file, llround(times_s[i] * 1e9), 0, &none, &result);
    }
    for (int twice = 0; twice < 2; twice++) {
        for (uint32_t i = 0; i < n; i++)
            found[i] = (struct trajectory_find){.time_ns = llround(wanted[i].time_s * 1e9)};
        assert_int_equal(trajectory_file_find(file, found, n, 1000000000), 0);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(found[i].is_known, wanted[i].is_known);
            assert_int_equal(found[i].seq, wanted[i].seq);
            assert_int_equal(found[i].epoch, wanted[i].time_s > 6);
            assert_true(fabs(found[i].T_odom_camera.t_m[0] - wanted[i].wanted_m) < 1e-12);
        }
    }
    // Frames that come later are written behind the others.
    const struct se3 none = se3_identity();
    const struct track_result last = {.T_odom_camera = none, .map_epoch = 1};
    trajectory_file_push(file, 8000000000, 0, &none, &last);
    struct trajectory_find one = {.time_ns = 8000000000};
    assert_int_equal(trajectory_file_find(file, &one, 1, 0), 0);
    assert_true(one.is_known && one.seq == 5);
    assert_int_equal(trajectory_file_destroy(&file), 0);
    file = open_file(path, TRAJECTORY_FORMAT_TUM, false);
    assert_int_equal(trajectory_file_find(file, &one, 1, 0), -ENODATA);
    assert_int_equal(trajectory_file_destroy(&file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_adjusted, make, clean),
        cmocka_unit_test_setup_teardown(test_marks, make, clean),
        cmocka_unit_test_setup_teardown(test_set_clock, make, clean),
        cmocka_unit_test_setup_teardown(test_not_adjusted, make, clean),
        cmocka_unit_test_setup_teardown(test_descriptor, make, clean),
        cmocka_unit_test_setup_teardown(test_streams, make, clean),
        cmocka_unit_test_setup_teardown(test_removed, make, clean),
        cmocka_unit_test_setup_teardown(test_long_name, make, clean),
        cmocka_unit_test_setup_teardown(test_find, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
