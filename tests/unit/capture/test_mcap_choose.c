// SPDX-License-Identifier: Apache-2.0
// Which channel of an MCAP file is depth, whose calibration it is, and what is said where none
// fits.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/capture/written_mcap.h"

// Two cameras of ours and a stranger's channel: by name, by topic, the first otherwise; each with
// its own calibration, wherever that stands.
static void a_camera_is_chosen(void **state)
{
    (void)state;
    uint16_t value = 0;
    begin("");
    channel(1, CALIBRATION, "calib/a", "protobuf", "", "");
    channel(2, CALIBRATION, "calib/b", "protobuf", "", "");
    channel(3, IMAGE, "/other/depth", "protobuf", "units_per_m", "2000");
    channel(4, IMAGE, "depth/a", "protobuf", "units_per_m", "5000");
    channel(5, IMAGE, "depth/b", "protobuf", "units_per_m", "1e9");
    channel(6, IMAGE, "/json", "json", "", "");
    calibration(1, W, 40, 40, 2, 1);
    calibration(2, W, 50, 50, 2, 1);
    for (unsigned i = 3; i <= 5; i++)
        image(i, 1000 + i, W, (uint16_t)(100 * i));
    assert_int_equal(open_as("", NULL, false, &value), 0);
    assert_int_equal(value, 300);
    assert_true(info.units_per_m == 2000);
    assert_said("3 depth topics, /other/depth is taken (FILE#TOPIC chooses another): "
                "/other/depth (1 image), depth/a (1 image), depth/b (1 image)\n");
    assert_int_equal(open_as("#depth/b", NULL, false, &value), 0);
    assert_int_equal(value, 500);
    assert_true(info.units_per_m == 1000); // 1e9 is no unit
    assert_true(info.camera.fx_px == 50);
    assert_int_equal(open_as("#a", NULL, false, &value), 0);
    assert_int_equal(value, 400);
    assert_true(info.units_per_m == 5000);
    assert_int_equal(open_as("", "b", false, &value), 0);
    assert_int_equal(value, 500);
    assert_int_equal(open_as("#/nothing", NULL, false, NULL), -EINVAL);
    assert_said("a.mcap: no depth topic of that name; it has /other/depth, depth/a, depth/b");
    assert_int_equal(open_as("", "c", false, NULL), -EINVAL);
    assert_said("no depth topic of that camera's name; it has /other/depth, depth/a");
    // a channel that is there without an image
    begin("");
    channel(1, IMAGE, "depth/a", "protobuf", "", "");
    assert_int_equal(open_as("", NULL, false, NULL), -ENOENT);
    assert_said("a.mcap: no depth image");
    begin("");
    channel(1, 3, "depth", "protobuf", "", "");
    image(1, 5, W, 1);
    assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
    assert_said("a.mcap: no channel with protobuf foxglove.RawImage; its channels: depth "
                "(foxglove.RawImage in jsonschema, protobuf)\n");
    begin("");
    for (unsigned i = 0; i < 100; i++) // as chunks repeat it
        schema(4, "foxglove.CompressedImage", "protobuf");
    schema(5, "foxglove.Log", "protobuf");
    channel(1, 4, "/a", "protobuf", "", "");
    channel(1, 4, "/a", "protobuf", "", ""); // again
    channel(2, 0, "/b", "json", "", "");
    channel(3, 5, "/c", "protobuf", "", "");
    assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
    assert_said("its channels: /a (foxglove.CompressedImage, protobuf), /b (no schema, json), "
                "/c (foxglove.Log, protobuf)\n");
    begin("");
    assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
    assert_said("its channels: none\n");
    for (unsigned i = 1; i <= 60; i++)
        channel(i, 4, "/a/topic/with/a/long/name", "protobuf", "", "");
    assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
    assert_said("...\n");
    file[0] = 'x';
    assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
    assert_said("a.mcap: not an MCAP file");
    n_file = 3;
    assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
    // more topics than the message has room for
    begin("");
    for (unsigned i = 1; i <= 60; i++) {
        char topic[64];
        snprintf(topic, sizeof topic, "/a/topic/with/a/long/name/%u", i);
        channel(i, IMAGE, topic, "protobuf", "", "");
    }
    assert_int_equal(open_as("#none", NULL, false, NULL), -EINVAL);
    assert_said("it has /a/topic/with/a/long/name/1, ");
}

// A camera whose channels are first in a late chunk, of a file without a summary.
static void a_camera_that_comes_late(void **state)
{
    (void)state;
    uint16_t value = 0;
    begin("");
    size_t from = n_file;
    channel(1, CALIBRATION, "calib/left", "protobuf", "", "");
    channel(2, IMAGE, "depth/left", "protobuf", "", "");
    calibration(1, W, 40, 40, 2, 1);
    chunk_of_image(from, 2, 10, 100);
    for (int i = 2; i <= 8; i++)
        chunk_of_image(n_file, 2, 10 * i, 100);
    const size_t n_left = n_file;
    assert_int_equal(open_as("", "left", false, &value), 0);
    assert_int_equal(info.n_frames, 8);
    assert_null(strstr(said, "no depth topic"));
    assert_int_equal(open_as("", "right", false, &value), 0);
    assert_int_equal(info.n_frames, 8);
    assert_said("a.mcap: no depth topic of camera right, its only one is taken: depth/left\n");
    n_file = n_left;
    from = n_file;
    channel(3, CALIBRATION, "calib/right", "protobuf", "", "");
    channel(4, IMAGE, "depth/right", "protobuf", "", "");
    chunk_of_image(from, 4, 90, 200);
    from = n_file;
    calibration(3, W, 50, 50, 2, 1);
    chunk_of_image(from, 4, 100, 200);
    for (int i = 11; i <= 20; i++)
        chunk_of_image(n_file, 4, 10 * i, 200);
    said[0] = 0;
    assert_int_equal(open_as("", "right", false, &value), 0);
    assert_int_equal(value, 200);
    assert_int_equal(info.n_frames, 12);
    assert_true(info.camera.fx_px == 50);
    assert_int_equal(open_as("", "left", false, &value), 0);
    assert_int_equal(info.n_frames, 8);
    assert_true(info.camera.fx_px == 40);
    assert_int_equal(open_as("", "middle", false, NULL), -EINVAL);
    assert_said("no depth topic of that camera's name; it has depth/left, depth/right\n");
    // a recording of one camera, which has no name there
    begin("");
    channel(1, CALIBRATION, "calib", "protobuf", "", "");
    channel(2, IMAGE, "depth", "protobuf", "", "");
    calibration(1, W, 40, 40, 2, 1);
    chunk_of_image(n_file, 2, 10, 100);
    assert_int_equal(open_as("", "left", false, &value), 0);
    assert_null(strstr(said, "no depth topic"));
}

// The first depth topic has one image, another one all the others, in chunks with an index or
// without.
static void the_one_that_was_recorded(void **state)
{
    (void)state;
    for (int has_chunks = 0; has_chunks < 2; has_chunks++)
        for (int n = 10; n < 12; n++) {
            uint16_t value = 0;
            begin("");
            said[0] = 0;
            const size_t from = n_file;
            channel(1, CALIBRATION, "calib", "protobuf", "", "");
            channel(2, IMAGE, "depth", "protobuf", "", "");
            channel(3, IMAGE, "/aligned", "protobuf", "units_per_m", "2000");
            calibration(1, W, 40, 40, 2, 1);
            if (has_chunks)
                chunk_of_image(from, 2, 5, 100);
            else
                image(2, 5, W, 100);
            for (int i = 1; i <= n; i++)
                if (has_chunks)
                    chunk_of_image(n_file, 3, 10 * i, 200);
                else
                    image(3, 10 * i, W, 200);
            assert_int_equal(open_as("", NULL, false, &value), 0);
            assert_int_equal(value, n > 10 ? 200 : 100);
            assert_int_equal(info.n_frames, n > 10 ? n : 1);
            assert_true(info.units_per_m == (n > 10 ? 2000 : 1000));
            if (n > 10)
                assert_said("a.mcap: 2 depth topics, /aligned is taken (FILE#TOPIC chooses "
                            "another): depth (1 image), /aligned (11 images)\n");
            assert_int_equal(open_as("#depth", NULL, false, &value), 0);
            assert_int_equal(value, 100);
        }
}

// A colour channel, with ten times as many images as the depth or before it: depth is taken, and
// of one depth topic nothing is said. Chunks with an index or without.
static void colour_is_not_depth(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        const bool has_chunks = how & 1, is_first = how & 2;
        const char *const name = is_first ? "/depth" : "depth";
        uint16_t value = 0;
        begin("");
        size_t from = n_file;
        channel(1, CALIBRATION, "calib", "protobuf", "", "");
        channel(is_first ? 3 : 2, IMAGE, is_first ? "/color" : name, "protobuf", "", "");
        channel(is_first ? 2 : 3, IMAGE, is_first ? name : "/color", "protobuf", "", "");
        calibration(1, W, 40, 40, 2, 1);
        for (int i = 0; i <= 30; i++, from = n_file) {
            const unsigned id = i == (is_first ? 20 : 0) ? 2 : 3;
            encoding = id == 2 ? "mono16" : "rgb8";
            if (has_chunks)
                chunk_of_image(from, id, 10 * i + 5, (uint16_t)(100 * id));
            else
                image(id, 10 * i + 5, W, (uint16_t)(100 * id));
        }
        encoding = "16UC1";
        assert_int_equal(open_as("", NULL, false, &value), 0);
        assert_int_equal(value, 200);
        assert_int_equal(info.n_frames, 1);
        assert_null(strstr(said, "depth topics"));
        assert_int_equal(open_as("#/none", NULL, false, NULL), -EINVAL);
        assert_said(is_first ? "it has /depth\n" : "it has depth\n");
        assert_int_equal(open_as("", "left", false, &value), 0);
        assert_int_equal(value, 200);
        if (is_first)
            assert_said("a.mcap: no depth topic of camera left, its only one is taken: /depth\n");
    }
}

// Which topic's, and what they are.
static void images_of_other_encodings(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"rgb8", "a.mcap: image 0: /camera/color is rgb8, not a 16UC1 or mono16 image\n"},
        {"32FC1", "a.mcap: image 0: /camera/color is 32FC1, not a 16UC1 or mono16 image\n"},
        {"", "/camera/color is of no known encoding, not a 16UC1 or mono16 image\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin("");
        channel(1, IMAGE, "/camera/color", "protobuf", "", "");
        encoding = cases[i][0];
        image(1, 5, W, 1);
        encoding = "16UC1";
        assert_int_equal(open_as("", NULL, true, NULL), -EBADMSG);
        assert_said(cases[i][1]);
    }
}

// The index of the last chunk says that it has more messages than it has room for: that does not
// count for the choice, and the chunk is read in its place.
static void an_index_that_is_damaged(void **state)
{
    (void)state;
    for (unsigned id = 2; id <= 3; id++) {
        uint16_t value = 0;
        begin("");
        const size_t from = n_file;
        channel(1, CALIBRATION, "calib", "protobuf", "", "");
        channel(2, IMAGE, "depth", "protobuf", "", "");
        channel(3, IMAGE, "depth/b", "protobuf", "", "");
        calibration(1, W, 40, 40, 2, 1);
        image(3, 5, W, 200);
        chunk_of_image(from, 2, 10, 100);
        for (int i = 2; i <= 8; i++)
            chunk_of_image(n_file, 2, 10 * i, 100);
        chunk_of_image(n_file, id, 90, 100 * (uint16_t)(id - 1));
        mcap_put(file + n_file - 20, 0x40000010, 4);
        assert_int_equal(open_as("", NULL, false, &value), 0);
        assert_int_equal(value, 100);
        assert_int_equal(info.n_frames, id == 2 ? 9 : 8);
        assert_null(strstr(said, "depth topics"));
    }
}

// Files that were merged, and loggers that open a channel again, have several of one topic: all of
// its images are played, also where the second begins in a late chunk, and it is one topic.
static void several_channels_of_a_topic(void **state)
{
    (void)state;
    uint16_t value = 0;
    for (int is_chunked = 0; is_chunked < 2; is_chunked++) {
        begin("");
        size_t from = n_file;
        channel(1, CALIBRATION, "calib/a", "protobuf", "", "");
        channel(2, IMAGE, "depth/a", "protobuf", "units_per_m", "2000");
        calibration(1, W, 40, 40, 2, 1);
        for (int i = 1; i <= 8; i++, from = n_file)
            if (is_chunked)
                chunk_of_image(from, 2, 10 * i, 100);
            else
                image(2, 10 * i, W, 100);
        channel(3, CALIBRATION, "calib/a", "protobuf", "", "");
        channel(4, IMAGE, "depth/a", "protobuf", "units_per_m", "2000");
        channel(5, IMAGE, "depth/a", "protobuf", "units_per_m", "1000");
        for (int i = 9; i <= 16; i++, from = n_file)
            if (is_chunked)
                chunk_of_image(from, 4, 10 * i, 100);
            else
                image(4, 10 * i, W, 100);
        image(5, 500, W, 100);
        assert_int_equal(open_as("", NULL, false, &value), 0);
        assert_int_equal(info.n_frames, 16);
        assert_true(info.camera.fx_px == 40 && info.units_per_m == 2000);
        assert_null(strstr(said, "depth topics"));
        assert_said(
            "a.mcap: images of depth/a have another unit in 1 of its channels, and are left out");
        assert_int_equal(open_as("#a", NULL, false, &value), 0);
        assert_int_equal(info.n_frames, 16);
        assert_int_equal(open_as("", "a", false, &value), 0);
        assert_int_equal(info.n_frames, 16);
    }
}

// Of our own name before others, however late it comes; images of one time are one.
static void later_channels_and_equal_times(void **state)
{
    (void)state;
    uint16_t value = 0;
    begin("");
    channel(1, IMAGE, "/other", "protobuf", "", "");
    image(1, 10, W, 1);
    image(1, 20, W, 1);
    channel(2, IMAGE, "depth", "protobuf", "units_per_m", "no number");
    image(2, 30, W, 7);
    image(2, 30, W, 8);
    image(2, 40, W, 9);
    calibration(9, W, 1, 1, 1, 1); // of no channel
    message(2, 50, (const unsigned char *)"\x15", 1);
    assert_int_equal(open_as("", NULL, true, &value), 0);
    assert_int_equal(value, 7);
    assert_said("a.mcap: 1 images skipped, their time repeats");
    assert_said("a.mcap: no calibration, taken for the usual camera of 640x480");
    assert_said("a.mcap: images are 4x2, but the calibration is for 640x480");
    assert_int_equal(open_as("", NULL, false, NULL), -ERANGE);
}

static int n_times(const char *part)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, part)); at++)
        n++;
    return n;
}

// Some images on the way are of another size. They are asked for again and again, as by whoever
// looks at some of them before all are played.
static void images_that_are_others(void **state)
{
    (void)state;
    char location[300];
    uint16_t pixels[W * H];
    struct capture_frame frame = {0};
    const struct capture_settings settings = {.allow_implausible = true, .log = {hear, NULL}};
    void *source;
    begin("");
    channel(1, CALIBRATION, "calib", "protobuf", "", "");
    channel(2, IMAGE, "depth", "protobuf", "", "");
    calibration(1, W, 40, 40, 2, 1);
    for (int i = 1; i <= 10; i++)
        image(2, 10 * i, i % 3 ? W : W - 1, 100);
    scratch_write(&scratch, "a.mcap", file, n_file);
    snprintf(location, sizeof location, "%s/a.mcap", scratch.path);
    said[0] = 0;
    assert_int_equal(capture_driver_mcap.open(&source, location, &settings, &info), 0);
    for (int round = 0; round < 3; round++)
        for (uint64_t i = 0; i < 10; i++)
            assert_int_equal(capture_driver_mcap.decode(source, i, pixels, &frame),
                             i % 3 == 2 ? -EBADMSG : 0);
    assert_int_equal(n_times("image size differs from the recording's"), 1);
    capture_driver_mcap.close(source);
    assert_int_equal(n_times("a.mcap: in all 3 images could not be read\n"), 1);
}

static void calibrations_that_are_none(void **state)
{
    (void)state;
    static const double bad[][4] = {{-1, 1, 1, 1},  {INFINITY, 1, 1, 1}, {1, 0, 1, 1},
                                    {1, NAN, 1, 1}, {1, 1, NAN, 1},      {1, 1, 1, INFINITY}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        begin("");
        channel(1, CALIBRATION, "calib", "protobuf", "", "");
        channel(2, IMAGE, "depth", "protobuf", "", "");
        calibration(1, W, bad[i][0], bad[i][1], bad[i][2], bad[i][3]);
        image(2, 10, W, 1);
        assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
        assert_said("a.mcap: the calibration is not one of a camera");
    }
    begin("");
    channel(2, IMAGE, "depth", "protobuf", "", "");
    image(2, 10, 100000, 1);
    assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
    assert_said("a.mcap: images of depth are 100000x2, which no camera has");
    begin("");
    channel(2, IMAGE, "depth", "protobuf", "", "");
    message(2, 10, (const unsigned char *)"{}", 2);
    assert_int_equal(open_as("", NULL, false, NULL), -EINVAL);
    assert_said("a.mcap: none of the images of depth can be read");
}

// Who gives all four of the camera is believed where no calibration fits; who gives fewer is not.
static void a_camera_that_the_user_tells(void **state)
{
    (void)state;
    char location[300];
    begin("");
    channel(2, IMAGE, "depth", "protobuf", "", "");
    image(2, 10, W, 1);
    scratch_write(&scratch, "a.mcap", file, n_file);
    scratch_name(&scratch, "a.mcap", location);
    for (int n = 0; n <= 4; n++) {
        void *source = NULL;
        const struct capture_settings settings = {.fx_px = n > 0 ? 40 : 0,
                                                  .fy_px = n > 1 ? 40 : 0,
                                                  .cx_px = n > 2 ? 2 : 0,
                                                  .cy_px = n > 3 ? 1 : 0,
                                                  .log = {hear, NULL}};
        assert_int_equal(capture_driver_mcap.open(&source, location, &settings, &info),
                         n < 4 ? -ERANGE : 0);
        if (n == 4)
            capture_driver_mcap.close(source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_camera_is_chosen, setup, teardown),
        cmocka_unit_test_setup_teardown(a_camera_that_comes_late, setup, teardown),
        cmocka_unit_test_setup_teardown(the_one_that_was_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(colour_is_not_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(images_of_other_encodings, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_that_is_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(several_channels_of_a_topic, setup, teardown),
        cmocka_unit_test_setup_teardown(later_channels_and_equal_times, setup, teardown),
        cmocka_unit_test_setup_teardown(images_that_are_others, setup, teardown),
        cmocka_unit_test_setup_teardown(calibrations_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_camera_that_the_user_tells, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
