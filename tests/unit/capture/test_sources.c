// SPDX-License-Identifier: Apache-2.0
// Which driver and file a source means, by its name and by what stands at its place; what is said
// of one that means none, of settings that are none, and of places that nobody may read.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "capture/capture.h"
#include "tests/unit/capture/folder_recording.h"

static void folder_missing_or_empty(void **state)
{
    (void)state;
    struct capture_settings settings = settings_of("tum");
    assert_int_equal(open_result(&settings), -ENOENT);
    assert_true(scratch_said(&scratch, "depth.txt: no such file"));
    assert_false(scratch_said(&scratch, "did you mean"));
    settings = settings_of("sevenscenes");
    assert_int_equal(open_result(&settings), -ENOENT);
    assert_true(scratch_said(&scratch, "frame-000000.depth.png"));
    // of another format: that one is named
    scratch_write_text(&scratch, "frame-000000.depth.png", "");
    settings = settings_of("tum");
    assert_int_equal(open_result(&settings), -ENOENT);
    assert_true(scratch_said(&scratch, "did you mean sevenscenes:/"));
    // a folder of all kinds of files is no recording for the one that looks like it
    static const char *const others[] = {"a.txt", "b.txt", "c.txt", "d.txt"};
    for (size_t i = 0; i < 4; i++)
        scratch_write_text(&scratch, others[i], "");
    assert_int_equal(open_result(&settings), -ENOENT);
    assert_false(scratch_said(&scratch, "did you mean"));
    settings.source = "tum:/nonexistent/folder";
    assert_int_equal(open_result(&settings), -ENOENT);
    assert_true(scratch_said(&scratch, "/nonexistent/folder: No such file"));
    settings.source = "tum:/etc/passwd";
    assert_int_equal(open_result(&settings), -ENOTDIR);
    settings.source = "tum:";
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "a place is missing"));
}

// A recording of ROS 2 is in the files that its metadata.yaml lists.
static void folder_of_both_formats(void **state)
{
    (void)state;
    static const struct {
        const char *metadata, *told;
    } cases[] = {{NULL, "stray.mcap"},
                 {"relative_file_paths:\n- walk_0.db3\n", "walk_0.db3"},
                 {"relative_file_paths:\n- \"walk/walk_0.db3.zstd\"\n", "walk_0.db3"},
                 {"relative_file_paths:\n- gone.db3\n- stray.mcap\n", "stray.mcap"},
                 {"relative_file_paths:\n- gone.db3\n", "stray.mcap"},
                 {"relative_file_paths: [walk_0.db3]\n", "stray.mcap"}};
    char folder[256];
    scratch_make_folder(&scratch, "walk");
    scratch_write_text(&scratch, "walk/stray.mcap", "");
    scratch_write_text(&scratch, "walk/walk_0.db3", "");
    scratch_name(&scratch, "walk", folder);
    struct capture_settings settings = settings_of("mcap");
    settings.source = folder;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].metadata)
            scratch_write_text(&scratch, "walk/metadata.yaml", cases[i].metadata);
        assert_true(open_result(&settings) < 0);
        char wanted[300];
        snprintf(wanted, sizeof wanted, "%s/%s: ", folder, cases[i].told);
        assert_true(scratch_said(&scratch, wanted));
    }
}

// What rosbag2 compresses as a whole file is called that, and how it is unpacked.
static void files_of_zstd(void **state)
{
    (void)state;
    static const char packed[] = "\x28\xb5\x2f\xfd\x24\x08\x41\x00";
    static const char all[] =
        "%s/bag/b_0.db3.zstd and 2 more: compressed as a whole (zstd), as `ros2 bag record "
        "--compression-mode file` does, which is not read; unpack them first: for f in "
        "\"%s/bag\"/*.zst*; do zstd -d \"$f\" -o \"${f%%.zst*}\"; done";
    static const struct {
        const char *source, *wanted; // NULL: nothing is said of it
    } cases[] = {{"%s/a.mcap.zstd", "zstd -d \"%s/a.mcap.zstd\" -o \"%s/a.mcap\""},
                 {"mcap:%s/a.mcap.zstd#/depth", "zstd -d \"%s/a.mcap.zstd\" -o \"%s/a.mcap\""},
                 {"%s/packed", "zstd -d \"%s/packed\" -o \"%s/packed.unpacked\""},
                 {"%s/one", "zstd -d \"%s/one/b_0.db3.zstd\" -o \"%s/one/b_0.db3\""},
                 {"%s/bag", all},
                 {"mcap:%s/bag", all},
                 {"%s/no", NULL},
                 {"mcap:%s/short.mcap.zst", NULL},
                 {"mcap:%s/part", NULL}};
    scratch_write(&scratch, "a.mcap.zstd", packed, 8);
    scratch_write(&scratch, "packed", packed, 8);
    scratch_write(&scratch, "short.mcap.zst", packed, 3);
    scratch_make_folder(&scratch, "bag");
    scratch_write_text(&scratch, "bag/metadata.yaml", "");
    scratch_write_text(&scratch, "bag/a_0.db3.zstd", "none");
    scratch_write(&scratch, "bag/b_1.db3.zstd", packed, 8);
    scratch_write(&scratch, "bag/b_0.db3.zstd", packed, 8);
    scratch_write(&scratch, "bag/b_2.db3.zst", packed, 8);
    scratch_make_folder(&scratch, "one");
    scratch_write_text(&scratch, "one/a_0.db3.zstd", "none");
    scratch_write(&scratch, "one/b_0.db3.zstd", packed, 8);
    char pipe[300]; // opening it would wait for ever
    assert_int_equal(mkfifo(scratch_name(&scratch, "bag/a.zst", pipe), 0600), 0);
    scratch_make_folder(&scratch, "no");
    scratch_write_text(&scratch, "no/a.zst", "none");
    scratch_write(&scratch, "no/a.txt", packed, 8);
    scratch_make_folder(&scratch, "part"); // it holds a recording: that is what is looked at
    scratch_write(&scratch, "part/a.mcap.zst", packed, 8);
    scratch_write_text(&scratch, "part/b.mcap", "x");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[300], wanted[600];
        snprintf(source, sizeof source, cases[i].source, scratch.path);
        struct capture_settings settings = settings_of("tum");
        settings.source = source;
        assert_true(open_result(&settings) < 0);
        if (cases[i].wanted) {
            snprintf(wanted, sizeof wanted, cases[i].wanted, scratch.path, scratch.path);
            assert_true(scratch_said(&scratch, wanted));
        }
        assert_int_equal(strstr(scratch.line, "compressed as a whole (zstd)") != NULL,
                         cases[i].wanted != NULL);
    }
}

static void settings_out_of_range(void **state)
{
    (void)state;
    write_tum("1 depth/a.png\n");
    static const struct capture_settings bad[] = {
        {.rate = -1},         {.rate = 1001},         {.rate = 0.0 / 0.0},
        {.start_s = -1},      {.duration_s = -1},     {.fx_px = -1},
        {.fx_px = 0.0 / 0.0}, {.depth_scale = -5},    {.depth_scale = 1e30},
        {.cx_px = 1e300},     {.start_s = 0.0 / 0.0}, {.n_kept = CAPTURE_MAX_KEPT + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct capture_settings settings = bad[i], good = settings_of("tum");
        settings.source = good.source;
        settings.log = good.log;
        assert_int_equal(open_result(&settings), -EINVAL);
        assert_true(scratch_said(&scratch, "must be"));
    }
    static const char *const sources[] = {"", ":", "nothing:x", "tumult:x", "tu:x"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct capture_settings settings = settings_of("tum");
        settings.source = sources[i];
        assert_int_equal(open_result(&settings), -EINVAL);
        assert_true(scratch_said(&scratch, "unknown driver"));
    }
    struct capture_settings settings = settings_of("tum");
    settings.source = "\"synth:room\"";
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "source \"synth:room\": values stand without quotes"));
    settings.source = "room.klg";
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "source 'room.klg': no such file or folder"));
    char path[256];
    scratch_write_text(&scratch, "room.klg", "");
    settings.source = scratch_name(&scratch, "room.klg", path);
    assert_int_equal(open_result(&settings), -EINVAL);
    assert_true(scratch_said(&scratch, "room.klg': the file is empty"));
    settings.source = NULL;
    assert_int_equal(open_result(&settings), -EINVAL);
}

// What stands at the place says which driver is meant, else what the driver is called elsewhere.
static void sources_that_are_called_otherwise(void **state)
{
    (void)state;
    static const struct {
        const char *source, *said; // %s: the folder
    } cases[] = {
        {"bag:%s/a.mcap", "unknown driver, did you mean mcap:%s/a.mcap?"},
        {"bag:%s/a.bag", "unknown driver, did you mean ros1bag:%s/a.bag?"},
        {"ros2bag:%s/a.db3", "unknown driver, did you mean ros2db3:%s/a.db3?"},
        {"ros2bag:%s/a.db3#/depth", "unknown driver, did you mean ros2db3:%s/a.db3#/depth?"},
        {"bag:x", "unknown driver, did you mean ros1bag:x? (of ROS 1; recordings of ROS 2 are "},
        {"rosbag:x", "unknown driver, did you mean ros1bag:x? (of ROS 1"},
        {"ros2bag:x", "unknown driver, did you mean mcap:x? (of a .db3 ros2db3:)"},
        {"db3:x", "unknown driver, did you mean ros2db3:x?"},
        {"sqlite3:x", "unknown driver, did you mean ros2db3:x?"},
        {"ros2mcap:x", "unknown driver, did you mean mcap:x?"},
        {"openni:x", "unknown driver, did you mean openni2:x?"},
        {"realsense:", "unknown driver, a RealSense is read through its ROS 2 driver, ros2:/"},
        {"tmu:x", "unknown driver, did you mean tum:x?"},
        {"%s/none.bag", "it is not what its name promises: a file of that kind begins with "
                        "\"#ROSBAG V2.0\" (ROS 1)"},
        {"%s/none.db3", "begins with \"SQLite format 3\" (ROS 2)"},
        {"%s/none.mcap", "begins with a byte of 0x89 and \"MCAP0\""},
        {"%s/none.txt", "no recording that is known, expected DRIVER:PLACE"},
        {"/nocamera/depth/image_raw",
         "no such file or folder, and no DRIVER:PLACE, e.g. tum:FOLDER "
         "or synth:room; did you mean the topic of ROS 2, ros2:/nocamera/depth/image_raw?\n"},
        {"nocamera/depth/image_raw",
         "no such file or folder, and no DRIVER:PLACE, e.g. tum:FOLDER "
         "or synth:room; did you mean the topic of ROS 2, ros2:/nocamera/depth/image_raw?\n"},
        {"nocamera/depth.mcap", "or synth:room\n"},
        {"$HOME/none.mcap", "synth:room; ~ and $HOME stand for themselves in quotes, in files of "
                            "settings, and ~ behind a colon: write the whole path\n"},
        {"~/none.mcap", "synth:room; ~ and $HOME stand for themselves in quotes"},
        {"/tmp/a$", "or synth:room\n"},
        {"/nocamera/depth.bag", "no such file or folder, and no DRIVER:PLACE, e.g. tum:FOLDER or "
                                "synth:room\n"},
        {"/tmp/nothing/here", "or synth:room\n"},
    };
    struct capture_settings settings = settings_of("tum");
    char source[256], wanted[400];
    scratch_write_text(&scratch, "a.mcap", "\x89MCAP0\r\n");
    scratch_write_text(&scratch, "a.bag", "#ROSBAG V2.0\n");
    scratch_write(&scratch, "a.db3", "SQLite format 3", 16);
    static const char *const none[] = {"none.bag", "none.db3", "none.mcap", "none.txt"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        scratch_write_text(&scratch, none[i], "something else, and long enough");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(source, sizeof source, cases[i].source, scratch.path);
        snprintf(wanted, sizeof wanted, cases[i].said, scratch.path);
        settings.source = source;
        assert_int_equal(open_result(&settings), -EINVAL);
        strcat(scratch.line, "\n");
        assert_true(scratch_said(&scratch, wanted));
    }
    static const char *const unexpanded[] = {"ros1bag:~/none.bag", "mcap:$HOME/none.mcap",
                                             "tum:${HOME}/none"};
    for (size_t i = 0; i < sizeof unexpanded / sizeof *unexpanded; i++) {
        settings.source = unexpanded[i];
        assert_int_equal(open_result(&settings), -ENOENT);
        snprintf(wanted, sizeof wanted, "source '%s': no such place; ~ and $HOME stand",
                 settings.source);
        assert_true(scratch_said(&scratch, wanted));
    }
}

// A recording that is there, as a folder or a file, by its path alone.
static void recording_that_may_not_be_read(void **state)
{
    (void)state;
    struct capture_settings settings = settings_of("tum");
    char path[256], topic[300], wanted[600];
    scratch_make_folder(&scratch, "closed");
    scratch_write_text(&scratch, "closed.mcap", "\x89MCAP0\r\n");
    static const char *const names[] = {"closed", "closed.mcap", "closed/room.klg"};
    chmod(scratch.path, 0755);
    chmod(scratch_name(&scratch, "closed", path), 0);
    chmod(scratch_name(&scratch, "closed.mcap", path), 0);
    snprintf(topic, sizeof topic, "%s#/depth", path);
    scratch_be_nobody();
    for (size_t i = 0; i <= sizeof names / sizeof *names; i++) {
        const bool is_named = i < sizeof names / sizeof *names;
        settings.source = is_named ? scratch_name(&scratch, names[i], path) : topic;
        assert_int_equal(open_result(&settings), -EINVAL);
        snprintf(wanted, sizeof wanted, "source '%s': Permission denied: who runs",
                 settings.source);
        assert_true(scratch_said(&scratch, wanted));
    }
    scratch_be_root_again();
    chmod(scratch_name(&scratch, "closed", path), 0700);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(folder_missing_or_empty),
        TEST(files_of_zstd),
        TEST(folder_of_both_formats),
        TEST(settings_out_of_range),
        TEST(sources_that_are_called_otherwise),
        TEST(recording_that_may_not_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
