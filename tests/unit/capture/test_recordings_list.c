// SPDX-License-Identifier: Apache-2.0
// The folder of recordings: what lies in it by name, format and size, what is deleted to keep its
// limits, and what happens where it cannot be read.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/recorder/recordings.h"
#include "tests/unit/fails.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;
static int folder;

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    folder = open(scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(folder);
    scratch_remove(&scratch);
    return 0;
}

static void write_at(const char *name, const char *text, time_t age_s)
{
    char path[256];
    const time_t then = time(NULL) - age_s;
    scratch_write_text(&scratch, name, text);
    const struct timespec times[2] = {{then, 0}, {then, 0}};
    assert_int_equal(utimensat(AT_FDCWD, scratch_name(&scratch, name, path), times, 0), 0);
}

// The names in their order, each with its size.
static void assert_listed(const char *wanted)
{
    char got[600] = "";
    struct recorder_entry *entries;
    const long n = recordings_list(folder, &entries);
    assert_true(n >= 0);
    for (long i = 0; i < n; i++) {
        const size_t at = strlen(got);
        snprintf(got + at, sizeof got - at, "%s%s:%llu", i ? " " : "", entries[i].name,
                 (unsigned long long)entries[i].n_bytes);
    }
    free(entries);
    assert_string_equal(got, wanted);
}

static void the_oldest_come_first(void **state)
{
    (void)state;
    char long_name[120], path[256];
    assert_listed("");
    memset(long_name, 'x', sizeof long_name);
    strcpy(long_name + 100, ".klg"); // longer than a recording's name may be
    write_at("c.klg", "12345", 50);
    write_at("b.mcap", "123", 100);
    write_at("a.klg", "1", 50); // of one time: by name
    write_at("notes.txt", "no recording", 10);
    write_at(".hidden.klg", "1", 10);
    write_at(long_name, "1", 10);
    assert_int_equal(symlink("c.klg", scratch_name(&scratch, "link.klg", path)), 0);
    scratch_make_folder(&scratch, "empty");
    scratch_make_folder(&scratch, "t");
    scratch_make_folder(&scratch, "t/depth");
    scratch_make_folder(&scratch, "t/depth/deeper");
    write_at("t/depth/deeper/1.png", "not counted", 1);
    write_at("t/depth/1.png", "1234567", 1);
    write_at("t/.part", "not counted", 1);
    write_at("t/depth.txt", "123", 10);
    assert_listed("b:3 a:1 c:5 t:10");
    fails_at("fdopendir", 2, EMFILE); // of the folder inside: its size is not known
    assert_listed("b:3 a:1 c:5 t:0");
    fails_at("openat", 2, EMFILE);
    assert_listed("b:3 a:1 c:5 t:0");
    fails_end();
}

static void what_cannot_be_listed(void **state)
{
    (void)state;
    struct recorder_entry *entries;
    write_at("c.klg", "12345", 50);
    fails_at("openat", 1, EMFILE);
    assert_int_equal(recordings_list(folder, &entries), -EMFILE);
    fails_at("fdopendir", 1, ENOMEM);
    assert_int_equal(recordings_list(folder, &entries), -ENOMEM);
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(recordings_list(folder, &entries), -ENOMEM);
    assert_null(entries);
    fails_end();
    const struct log_sink log = scratch_log(&scratch);
    fails_at("openat", 1, EMFILE);
    recordings_keep_limits(folder, 1, 1, &log); // nothing is deleted then
    fails_end();
    assert_int_equal(scratch.n_lines, 0);
    assert_listed("c:5");
}

static void limits_of_the_folder(void **state)
{
    (void)state;
    const struct log_sink log = scratch_log(&scratch);
    write_at("a.klg", "12345", 300);
    write_at("a.klg.calibration.txt", "1", 300);
    write_at("b.mcap", "12345", 200);
    write_at("c.klg", "12345", 100);
    scratch_make_folder(&scratch, "t");
    scratch_make_folder(&scratch, "t/depth");
    write_at("t/depth/1.000000002.png", "12", 1);
    write_at("t/depth.txt", "123", 50);
    recordings_keep_limits(folder, 0, 0, &log);
    recordings_keep_limits(folder, 20, 1000, &log);
    assert_listed("a:5 b:5 c:5 t:5");
    recordings_keep_limits(folder, 0, 250, &log);
    assert_string_equal(scratch.line, "recording a deleted, to keep within the folder's limits");
    assert_listed("b:5 c:5 t:5");
    assert_int_equal(faccessat(folder, "a.klg.calibration.txt", F_OK, 0), -1);
    recordings_keep_limits(folder, 9, 0, &log);
    assert_listed("t:5");
    recordings_delete(folder, "t", RECORDER_FORMAT_TUM);
    assert_listed("");
    assert_int_equal(faccessat(folder, "t", F_OK, 0), -1);
    recordings_delete(folder, "t", RECORDER_FORMAT_TUM); // it is not there
    scratch_make_folder(&scratch, "kept");
    fails_at("fdopendir", 1, ENOMEM);
    recordings_delete(folder, "kept", RECORDER_FORMAT_TUM);
    fails_end();
}

// A data set that somebody put there looks like a recording, but for what else is in it.
static void others_folders_stay(void **state)
{
    (void)state;
    static const char *const foreign[] = {"t/groundtruth.txt",
                                          "t/.git",
                                          "t/rgb/",
                                          "t/depth/1.png",
                                          "t/depth/1.160407.png",
                                          "t/depth/1.000000002.png.bak",
                                          "t/depth/deeper/",
                                          "t/depth/1.000000003.png/",
                                          "f/r-1.000000002-3.ppm",
                                          "f/d-1.160407-3.pgm",
                                          "f/d-1.000000002-3.dump",
                                          "f/d-1.000000002.pgm",
                                          "f/a-1.000000002-3.dump.bak",
                                          "f/a-1.000000002-.dump",
                                          "f/depth/"};
    const struct log_sink log = scratch_log(&scratch);
    scratch_make_folder(&scratch, "t");
    scratch_make_folder(&scratch, "t/depth");
    scratch_make_folder(&scratch, "f");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const bool is_tum = foreign[i][0] == 't';
        const size_t n = strlen(foreign[i]);
        char name[64], path[256];
        strcpy(name, foreign[i]);
        write_at("t/depth/1.000000002.png", "12", 200);
        write_at("t/calibration.txt", "12", 200);
        write_at("t/depth.txt", "1", 200);
        write_at("f/a-1.000000002-3.dump", "1", 200);
        write_at("f/d-1.000000002-3.pgm", "1", 200);
        write_at("f/calibration.txt", "1", 200);
        write_at("f/disparity.txt", "1", 200);
        write_at("f/INDEX.txt", "1", 200);
        write_at("a.klg", "12345", 100);
        if (name[n - 1] == '/') {
            name[n - 1] = 0;
            scratch_make_folder(&scratch, name);
        } else {
            write_at(name, "123456789", 200);
        }
        scratch.n_lines = 0;
        recordings_keep_limits(folder, 5, 100000, &log); // room for a, and one of the two goes
        print_message("%s: %s\n", foreign[i], scratch.line);
        assert_int_equal(scratch.n_lines, 1);
        assert_int_equal(faccessat(folder, "a.klg", F_OK, 0), 0);
        assert_int_equal(faccessat(folder, is_tum ? "t/depth.txt" : "f/INDEX.txt", F_OK, 0), 0);
        assert_int_equal(faccessat(folder, is_tum ? "f" : "t", F_OK, 0), -1);
        assert_int_equal(remove(scratch_name(&scratch, name, path)), 0);
        scratch_make_folder(&scratch, is_tum ? "f" : "t");
        if (!is_tum)
            scratch_make_folder(&scratch, "t/depth");
    }
}

// What cannot be read is not known to be ours.
static void an_unreadable_folder_stays(void **state)
{
    (void)state;
    const struct log_sink log = scratch_log(&scratch);
    scratch_make_folder(&scratch, "t");
    scratch_make_folder(&scratch, "t/depth");
    write_at("t/depth.txt", "1", 200);
    fails_at("fdopendir", 4, EMFILE); // behind the list's three
    recordings_keep_limits(folder, 0, 100, &log);
    fails_at("openat", 5, EMFILE); // of the folder inside
    recordings_keep_limits(folder, 0, 100, &log);
    fails_end();
    assert_listed("t:1");
    recordings_keep_limits(folder, 0, 100, &log);
    assert_listed("");
}

static void names(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    ".a",    "-a",     "a/b",
                                      "a b", "a.klg", "a.mcap", "a.calibration.txt"};
    char long_name[RECORDER_NAME_BYTES + 1];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(recorder_name_is_plain(bad[i]));
    memset(long_name, 'x', sizeof long_name);
    long_name[RECORDER_NAME_BYTES] = 0;
    assert_false(recorder_name_is_plain(long_name));
    long_name[RECORDER_NAME_BYTES - 1] = 0;
    assert_true(recorder_name_is_plain(long_name));
    assert_true(recorder_name_is_plain("klg"));
    assert_string_equal(recorder_format_name((enum recorder_format)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_oldest_come_first, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_of_the_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(others_folders_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unreadable_folder_stays, setup, teardown),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
