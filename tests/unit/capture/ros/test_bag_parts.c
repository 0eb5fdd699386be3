// SPDX-License-Identifier: Apache-2.0
// Which files of a folder are one recording, in which order, and what is said of those that are
// not; and how a bag tells topics of several files apart.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "capture/ros/bag.h"
#include "capture/ros/bag_metadata.h"
#include "tests/unit/fails.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;
static struct bag_parts parts;
static char said[6000], folder[256];

static void hear(void *user, enum log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static const struct log_sink sink = {hear, NULL};

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    scratch_make_folder(&scratch, "bag");
    scratch_name(&scratch, "bag", folder);
    said[0] = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bag_parts_free(&parts);
    scratch_remove(&scratch);
    return 0;
}

static void assert_said(const char *wanted)
{
    if (!strstr(said, wanted))
        print_error("%s\nwanted: %s\n", said, wanted);
    assert_non_null(strstr(said, wanted));
    said[0] = 0;
}

static void put(const char *name, const char *text)
{
    char path[100];
    snprintf(path, sizeof path, "bag/%s", name);
    scratch_write_text(&scratch, path, text);
}

// Numbers from..to, of walk_N.mcap.
static void put_files(int from, int to)
{
    char name[40];
    for (int i = from; i <= to; i++) {
        snprintf(name, sizeof name, "walk_%d.mcap", i);
        put(name, "");
    }
}

static int find(void)
{
    bag_parts_free(&parts);
    return bag_parts_find(&parts, folder, ".mcap", true, &sink);
}

// Names without the folder, each with a space behind it.
static void assert_found(const char *wanted)
{
    char found[1000] = "";
    assert_int_equal(find(), 0);
    for (size_t i = 0; i < parts.n; i++) {
        assert_memory_equal(parts.paths[i], folder, strlen(folder));
        strcat(strcat(found, parts.paths[i] + strlen(folder) + 1), " ");
    }
    assert_string_equal(found, wanted);
}

static void by_the_number_in_the_name(void **state)
{
    (void)state;
    put_files(0, 10);
    put("walk.txt", "");
    assert_found("walk_0.mcap walk_1.mcap walk_2.mcap walk_3.mcap walk_4.mcap walk_5.mcap "
                 "walk_6.mcap walk_7.mcap walk_8.mcap walk_9.mcap walk_10.mcap ");
    assert_null(strstr(said, "not there"));
    assert_said("a recording in 11 files, walk_0.mcap to walk_10.mcap");
    put_files(13, 13);
    put_files(40, 40);
    assert_int_equal(find(), 0);
    assert_int_equal(parts.n, 13);
    assert_non_null(strstr(said, "/bag/walk_11.mcap: is not there"));
    assert_non_null(strstr(said, "/bag/walk_21.mcap: is not there"));
    assert_null(strstr(said, "walk_22.mcap")); // ten are told
    assert_null(strstr(said, "walk_13.mcap"));
    assert_said("/bag: and 18 more files are not there");
}

static void gaps(void **state)
{
    (void)state;
    put("r_0.mcap", "");
    put("r_100.mcap", "");
    assert_int_equal(find(), 0);
    assert_non_null(strstr(said, "/bag/r_10.mcap: is not there"));
    assert_null(strstr(said, "r_11.mcap"));
    assert_said("/bag: and 89 more files are not there");
    put("r_50.mcap.zstd", ""); // they are there
    put("r_50.mcap.zst", "");
    put("r_5.mcap.zst", "");
    put("s_60.mcap.zst", "");
    assert_int_equal(find(), 0);
    assert_null(strstr(said, "r_5.mcap: is not there"));
    assert_non_null(strstr(said, "/bag/r_11.mcap: is not there"));
    assert_said("/bag: and 87 more files are not there");
    put("r_12.mcap", "");
    put("r_999999999.mcap", ""); // at once
    assert_int_equal(find(), 0);
    assert_said("/bag: and 999999984 more files are not there");
}

static void gaps_of_padded_numbers(void **state)
{
    (void)state;
    put("r_00000.mcap", "");
    put("r_00002.mcap", "");
    put("r_00009.mcap", "");
    put("r_00014.mcap", "");
    assert_found("r_00000.mcap r_00002.mcap r_00009.mcap r_00014.mcap ");
    assert_non_null(strstr(said, "/bag/r_00001.mcap: is not there"));
    assert_non_null(strstr(said, "/bag/r_00010.mcap: is not there"));
    assert_said("/bag: and 1 more file is not there");
    put("r_2.mcap", ""); // that number again
    assert_int_equal(find(), -EINVAL);
    assert_string_equal(strchr(said, ':'), ": a folder with 5 files *.mcap, name one of them\n");
}

// As those of ROS 1.
static void several_that_cannot_be_one(void **state)
{
    (void)state;
    put_files(0, 0);
    put("walk_2.mcap.zst", "");
    assert_int_equal(bag_parts_find(&parts, folder, ".mcap", false, &sink), 0);
    assert_int_equal(parts.n, 1);
    assert_said("the first is walk_2.mcap.zst; ");
    bag_parts_free(&parts);
    put_files(3, 3);
    assert_int_equal(bag_parts_find(&parts, folder, ".mcap", false, &sink), -EINVAL);
    assert_string_equal(strchr(said, ':'), ": a folder with 2 files *.mcap, name one of them\n");
}

static void metadata_that_cannot_be_read(void **state)
{
    (void)state;
    scratch_make_folder(&scratch, "bag/" BAG_METADATA);
    put_files(0, 0);
    assert_found("walk_0.mcap ");
    assert_string_equal(said, ""); // it is no matter
    put_files(1, 1);
    assert_found("walk_0.mcap walk_1.mcap ");
    assert_said("files are taken by their names");
}

static void what_is_no_one_recording(void **state)
{
    (void)state;
    assert_int_equal(find(), -ENOENT);
    assert_said("a folder with 0 files *.mcap");
    put_files(1, 1);
    assert_found("walk_1.mcap "); // one may have any name
    assert_string_equal(said, "");
    put_files(2, 2); // walks of their own
    assert_int_equal(find(), -EINVAL);
    assert_said("a folder with 2 files *.mcap, name one of them");
    put_files(0, 0);
    assert_int_equal(find(), 0);
    static const char *const others[] = {"walk_0.b.mcap", "walk.mcap",   "walk_.mcap",
                                         "run_3.mcap",    "walk-3.mcap", "walk_1234567890.mcap",
                                         "3.mcap",        "_3.mcap"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[300];
        said[0] = 0;
        put(others[i], "");
        assert_int_equal(find(), -EINVAL);
        assert_said("a folder with 4 files *.mcap, name one of them");
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        assert_int_equal(unlink(path), 0);
    }
}

#define LIST "rosbag2_bagfile_information:\n  version: 5\n  relative_file_paths:\n"

static void as_the_metadata_says(void **state)
{
    (void)state;
    put_files(0, 3);
    put(BAG_METADATA, LIST "    - walk_3.mcap\n    - walk/walk_1.mcap\n    - walk_0.mcap.zstd\n"
                           "    - ../../walk_9.mcap\n    - walk_3.mcap\n  files:\n    - path: x\n");
    assert_found("walk_3.mcap walk_1.mcap walk_0.mcap ");
    assert_non_null(strstr(said, "/bag/walk_9.mcap: is not there"));
    assert_said("/bag: 1 file is not in its metadata.yaml and left out: the first is walk_2.mcap");
    put(BAG_METADATA, LIST "    - other_1.mcap\n"); // files were renamed
    assert_found("walk_0.mcap walk_1.mcap walk_2.mcap walk_3.mcap ");
    assert_null(strstr(said, "not there"));
    put(BAG_METADATA, LIST "    - walk_1.mcap\n"); // the others are copies, or cuts
    assert_found("walk_1.mcap ");
    assert_said("3 files are not in its metadata.yaml and left out: the first is walk_0.mcap");
}

// Files of the other format are none of the recording's, where the metadata tells which are.
static void strays_of_the_other_format(void **state)
{
    (void)state;
    put("walk_0.db3", "");
    put("b.mcap", "");
    assert_int_equal(bag_parts_find(&parts, folder, ".db3", true, &sink), 0);
    assert_string_equal(said, "");
    put(BAG_METADATA, LIST "    - walk_0.db3\n");
    bag_parts_free(&parts);
    assert_int_equal(bag_parts_find(&parts, folder, ".db3", true, &sink), 0);
    assert_int_equal(parts.n, 1);
    assert_said("/bag: 1 file is not in its metadata.yaml and left out: the first is b.mcap\n");
    put("a.mcap", "");
    put("walk_1.db3", "");
    bag_parts_free(&parts);
    assert_int_equal(bag_parts_find(&parts, folder, ".db3", true, &sink), 0);
    assert_int_equal(parts.n, 1);
    assert_said("3 files are not in its metadata.yaml and left out: the first is walk_1.db3\n");
    put(BAG_METADATA, LIST "    - a.mcap\n");
    assert_found("a.mcap ");
    assert_said("3 files are not in its metadata.yaml and left out: the first is b.mcap\n");
}

static void what_is_packed(void **state)
{
    (void)state;
    put_files(0, 1);
    put("walk_1.mcap.zstd", "");
    put("walk_2.mcap.zstd", "");
    put("walk_3.mcap.zst", "");
    put_files(4, 4);
    assert_found("walk_0.mcap walk_1.mcap walk_4.mcap ");
    assert_null(strstr(said, "not there"));
    assert_said("/bag: 2 files are compressed as a whole (zstd), which is not read, and left out: "
                "the first is walk_2.mcap.zstd; unpack first: for f in \"");
    put(BAG_METADATA, LIST "    - walk_0.mcap.zstd\n    - walk_2.mcap.zstd\n");
    assert_found("walk_0.mcap ");
    assert_non_null(
        strstr(said, "/bag\"/*.mcap.zst*; do zstd -d \"$f\" -o \"${f%.zst*}\"; done\n"));
    assert_null(strstr(said, "not there"));
}

static void lists(void **state)
{
    (void)state;
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"", ""},
        {"a: b\n", ""},
        {"relative_file_paths:", ""},
        {"relative_file_paths:\n- a\n- b", "a|b|"},
        {" relative_file_paths:\r\n  - a b \r\n\n  - \"c\"\n  - 'd'\n files:\n  - x\n", "a b|c|d|"},
        {"  relative_file_paths:\n  - a\n - b\n", "a|"},
        {"  relative_file_paths:\n  - a\nx: y\n", "a|"},
        {"relative_file_paths:\n- a\n  b\n", ""}, // folded
        {"relative_file_paths: [a, b]\n", ""},
        {"relative_file_paths:\n- [a, b]\n", ""},
        {"relative_file_paths:\n- a\n- \"b\\n\"\n", ""},
        {"relative_file_paths:\n- a\n- \"b\n", ""},
        {"relative_file_paths:\n- a # b\n", ""},
        {"relative_file_paths:\n- a: b\n", ""},
        {"relative_file_paths:\n- a\n-\n", "a|"},
        {"relative_file_paths:\n- a\n- b\n- c\n- d\n- e\n", "a|b|c|d|e|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], found[200] = "", **names;
        size_t n;
        snprintf(text, sizeof text, "%s", cases[i].text);
        assert_int_equal(bag_metadata_files(text, &names, &n), 0);
        for (size_t k = 0; k < n; k++)
            strcat(strcat(found, names[k]), "|");
        free(names);
        assert_string_equal(found, cases[i].names);
    }
}

static void a_link_that_leads_out(void **state)
{
    (void)state;
    char path[300], target[256];
    put_files(0, 0);
    scratch_write_text(&scratch, "elsewhere.mcap", "");
    snprintf(path, sizeof path, "%s/walk_1.mcap", folder);
    assert_int_equal(symlink(scratch_name(&scratch, "elsewhere.mcap", target), path), 0);
    assert_found("walk_0.mcap walk_1.mcap ");
    int fd = bag_parts_open(&parts, 0, &sink);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(bag_parts_open(&parts, 1, &sink), -EXDEV);
    assert_said("/bag/walk_1.mcap: leads out of the recording's folder");
    snprintf(path, sizeof path, "%s/walk_0.mcap", folder);
    assert_int_equal(unlink(path), 0);
    assert_found("walk_1.mcap "); // alone, as if it had been named
    fd = bag_parts_open(&parts, 0, &sink);
    assert_true(fd >= 0);
    close(fd);
}

static void memory(void **state)
{
    (void)state;
    put_files(0, 2);
    put(BAG_METADATA, LIST "    - walk_0.mcap\n    - walk_1.mcap\n    - walk_2.mcap\n");
    for (int pass = 0; pass < 2; pass++) { // listed, then by their names
        fails_at("memory", 0, 0);
        assert_int_equal(find(), 0);
        const long n = fails_end();
        assert_true(n > 5);
        for (long i = 1; i <= n; i++) {
            fails_at("memory", i, ENOMEM);
            const int err = find();
            fails_end();
            assert_int_equal(err, -ENOMEM);
        }
        put(BAG_METADATA, "");
    }
}

// --- Topics of several files

static int told[3];
static struct bag *walked;

// Ids are other ones in each file; the second has nothing, the third breaks off on its way.
static int tell(void *state, size_t part)
{
    assert_ptr_equal(state, &told);
    told[part]++;
    if (part == 1)
        return -EINVAL;
    static const char type[] = "sensor_msgs/msg/Image";
    const uint32_t depth = part ? 5 : 2, color = part ? 2 : 5;
    int err = bag_add_topic(walked, depth, "/depth", 6, type, sizeof type - 1, ROS_ENCODING_CDR);
    assert_int_equal(err, 0);
    err = bag_add_topic(walked, color, "/color", 6, type, sizeof type - 1, ROS_ENCODING_CDR);
    assert_int_equal(err, 0);
    err = bag_add_topic(walked, 9, "/depth", 6, type, sizeof type - 1, ROS_ENCODING_ROS1);
    assert_int_equal(err, 0);
    assert_string_equal(bag_topic(walked, depth)->name, "/depth");
    assert_string_equal(bag_topic(walked, color)->name, "/color");
    static const unsigned char message[8];
    err = bag_add_message(walked, depth, 1, (struct bag_place){0}, message, sizeof message);
    assert_int_equal(err, 0);
    return part == 2 ? -EIO : 0;
}

static void topics_of_several_files(void **state)
{
    (void)state;
    struct bag bag;
    put_files(0, 2);
    assert_int_equal(bag_begin(&bag, folder, ".mcap", true, &sink), 0);
    assert_string_equal(bag.path, folder);
    walked = &bag;
    assert_int_equal(bag_read_parts(&bag, tell, &told), 0);
    assert_non_null(strstr(said, "/bag/walk_1.mcap: left out, the other files are read"));
    assert_null(strstr(said, "walk_0.mcap: read in part"));
    assert_said("/bag/walk_2.mcap: read in part, the other files are read");
    assert_int_equal(bag_n_messages(&bag), 2);
    assert_true(told[0] == 1 && told[1] == 1 && told[2] == 1);
    assert_int_equal(bag.n_topics, 3); // as one file has
    bag_close(&bag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(by_the_number_in_the_name, setup, teardown),
        cmocka_unit_test_setup_teardown(gaps, setup, teardown),
        cmocka_unit_test_setup_teardown(gaps_of_padded_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_one_recording, setup, teardown),
        cmocka_unit_test_setup_teardown(several_that_cannot_be_one, setup, teardown),
        cmocka_unit_test_setup_teardown(metadata_that_cannot_be_read, setup, teardown),
        cmocka_unit_test_setup_teardown(as_the_metadata_says, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_packed, setup, teardown),
        cmocka_unit_test_setup_teardown(strays_of_the_other_format, setup, teardown),
        cmocka_unit_test(lists),
        cmocka_unit_test_setup_teardown(a_link_that_leads_out, setup, teardown),
        cmocka_unit_test_setup_teardown(memory, setup, teardown),
        cmocka_unit_test_setup_teardown(topics_of_several_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
