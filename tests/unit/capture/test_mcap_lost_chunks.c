// SPDX-License-Identifier: Apache-2.0
// Chunks of an MCAP file that are lost: which images go with them, how many that is said to be, and
// that what the other images want stands in their own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "capture/mcap/needed_channels.h"
#include "capture/mcap/records.h"
#include "tests/unit/capture/damaged_mcap.h"

// The records before the first chunk are of other kinds: only it and the summary say what there is.
static void channels_in_a_chunk(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        for (size_t at = MCAP_MAGIC_BYTES; at < chunks[0];
             at += MCAP_RECORD_BYTES + (size_t)mcap_get(file + at + 1, 8))
            file[at] = file[at] == MCAP_HEADER ? MCAP_HEADER : 0x80;
        mcap_put(file + chunks[0] + MCAP_RECORD_BYTES + 24, 1, 4); // its checksum
        assert_true(read_file() == of_chunks(6));
        assert_said("b.mcap: damaged at byte %zu: %zu bytes not read: a chunk's checksum is wrong",
                    chunks[0], MCAP_RECORD_BYTES + (size_t)mcap_get(file + chunks[0] + 1, 8));
    }
}

static size_t count_lines(const char *part)
{
    size_t n = 0;
    for (const char *at = said; (at = strstr(at, part)); at++)
        n++;
    return n;
}

// A byte of a chunk is another: all its images are lost. That is told once, with the place, how
// many they are, and what mends the file for others.
static void within_a_chunk(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (unsigned c = 0; c < N_CHUNKS; c++) {
            begin(k);
            const size_t n = MCAP_RECORD_BYTES + (size_t)mcap_get(file + chunks[c] + 1, 8);
            mcap_put(file + chunks[c] + MCAP_RECORD_BYTES + 24, 1, 4); // its checksum
            assert_true(read_file() == (of_chunks(7) & ~of_chunks(1U << c)));
            assert_int_equal(count_lines("a chunk's checksum is wrong"), 1);
            assert_int_equal(count_lines("posectl record repair FILE"), 1);
            assert_said("b.mcap: damaged at byte %zu: ", chunks[c]);
            if (k == 0 && c > 0)
                assert_said(
                    "b.mcap: damaged at byte %zu: %zu images cannot be read, from image %zu "
                    "on: a chunk's checksum is wrong; for other programs: posectl record "
                    "repair FILE\n",
                    chunks[c], n_each[c], 16 * (size_t)c);
            else
                assert_said(
                    "b.mcap: damaged at byte %zu: %zu bytes not read: a chunk's checksum is "
                    "wrong\n",
                    chunks[c], n);
            if (k == 1 || c == 0)
                assert_said(": %zu images of %s lost by damage", n_each[c],
                            k ? "/camera/depth/image_raw" : "depth");
        }
}

// A record within a chunk leads out of it, and the chunk has no checksum: what is behind is lost,
// and counted.
static void a_record_within_a_chunk(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        const size_t n = (size_t)mcap_get(file + chunks[0] + 1, 8);
        unsigned char *const content = file + chunks[0] + MCAP_RECORD_BYTES;
        memset(content + 16, 0xff, n - 16);
        mcap_put(content + 16, n - 40, 8);
        memset(content + 24, 0, 8); // no checksum, no compression
        mcap_put(content + 32, n - 40, 8);
        assert_true(read_file() == of_chunks(6));
        assert_said("b.mcap: damaged at byte %zu: the last %zu bytes of its chunk cannot be read, "
                    "from byte 0 of it on when unpacked\n",
                    chunks[0], n - 40);
        assert_said(": %zu images of %s lost by damage", n_each[0],
                    k ? "/camera/depth/image_raw" : "depth");
        assert_null(strstr(said, "no image is lost"));
    }
}

// That an index is damaged loses no image. Chunks are unpacked later: nothing is promised of them.
static void an_index_and_a_chunk(void **state)
{
    (void)state;
    begin(0);
    const size_t index = chunks[1] + MCAP_RECORD_BYTES + (size_t)mcap_get(file + chunks[1] + 1, 8);
    mcap_put(file + index + 1, UINT64_C(1) << 40, 8);
    mcap_put(file + chunks[2] + MCAP_RECORD_BYTES + 24, 1, 4); // its checksum
    assert_true(read_file() == of_chunks(3));
    assert_said("b.mcap: no image is lost by this damage (what is in a chunk shows when it is "
                "played); for other programs: posectl record repair FILE\n");
    assert_said("%zu images cannot be read, from image 32 on", n_each[2]);
}

// Where nothing says how many images there were, nothing is said of how many are lost.
static void no_statistics(void **state)
{
    (void)state;
    for (int has_summary = 0; has_summary < 2; has_summary++) {
        begin(0);
        size_t at = summary;
        for (; file[at] != MCAP_FOOTER; at += MCAP_RECORD_BYTES + mcap_get(file + at + 1, 8))
            if (file[at] == MCAP_STATISTICS)
                file[at] = MCAP_METADATA_INDEX;
        memset(file + at + MCAP_RECORD_BYTES + 8, 0, 12);
        if (!has_summary) {
            memmove(file + summary, file + at, n_file - at);
            memset(file + summary + MCAP_RECORD_BYTES, 0, 8);
            n_file -= at - summary;
        }
        mcap_put(file + chunks[0] + MCAP_RECORD_BYTES + 24, 1, 4); // its checksum
        assert_true(read_file() == of_chunks(6));
        assert_said("b.mcap: damaged at byte %zu: ", chunks[0]);
        assert_said("b.mcap: damaged; for other programs: posectl record repair FILE\n");
        assert_null(strstr(said, "lost by damage"));
        assert_null(strstr(said, "no image is lost"));
    }
}

static void lose_chunk(unsigned c)
{
    mcap_put(file + chunks[c] + MCAP_RECORD_BYTES + 24, 1, 4); // its checksum
}

// How many messages of a channel the index behind a chunk has.
static size_t count_of_chunk(unsigned c, uint16_t id)
{
    size_t n = 0, at = chunks[c];
    do {
        at += MCAP_RECORD_BYTES + (size_t)mcap_get(file + at + 1, 8);
        const unsigned char *const data = file + at + MCAP_RECORD_BYTES;
        if (file[at] == MCAP_MESSAGE_INDEX && mcap_get(data, 2) == id)
            n += (size_t)mcap_get(data + 2, 4) / 16;
    } while (file[at] == MCAP_MESSAGE_INDEX);
    return n;
}

// What the images of a chunk want stands in it: whichever chunk is lost, the calibration is not,
// nor is where the camera is.
static void each_chunk_has_what_its_images_want(void **state)
{
    (void)state;
    const struct mcap_camera one = {"", 1000};
    for (int k = 0; k < 2; k++) {
        const struct mcap_content content = {k ? MCAP_ROS2 : MCAP_FOXGLOVE, &one, 1, false};
        for (unsigned c = 0; c < N_CHUNKS; c++) {
            begin(k);
            const uint16_t id =
                mcap_channel_id(&content, 0, k ? MCAP_CHANNEL_TF_STATIC : MCAP_CHANNEL_CALIB);
            assert_int_equal(count_of_chunk(c, id), 1);
            lose_chunk(c);
            assert_true(read_file() == (of_chunks(7) & ~of_chunks(1U << c)));
            assert_true(camera.fx_px == 8 && camera.fy_px == 8.5 && camera.cx_px == 4.25);
            assert_null(strstr(said, "calibration"));
            (void)repair_file();
            assert_true(read_frames("c.mcap") == (of_chunks(7) & ~of_chunks(1U << c)));
            assert_true(camera.fx_px == 8 && camera.cy_px == 3);
        }
    }
}

// The copy says which of what the images want it has lost, and nothing of a file that has all.
static void a_copy_without_calibration_says_so(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        said[0] = 0;
        lose_chunk(0);
        (void)repair_file();
        assert_null(strstr(said, "the copy has no"));
        for (unsigned c = 0; c < N_CHUNKS; c++)
            lose_chunk(c);
        static unsigned char message[MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES];
        message[0] = MCAP_MESSAGE;
        mcap_put(message + 1, MCAP_MESSAGE_HEADER_BYTES, 8);
        mcap_put(message + MCAP_RECORD_BYTES, MCAP_CHANNEL_POSE, 2);
        memcpy(file + data_end, message, sizeof message);
        n_file = data_end + sizeof message; // a recorder that was killed
        said[0] = 0;
        assert_int_equal(repair_file().n_messages, 1);
        if (k) {
            assert_said("b.mcap: the copy has no message of /camera/depth/camera_info, a "
                        "calibration: to replay the images that it is for, set camera.fx");
            assert_said("b.mcap: the copy has no message of /tf_static: where the camera is");
        } else {
            assert_said("b.mcap: the copy has no message of calib, a calibration: ");
            assert_null(strstr(said, "tf_static"));
        }
    }
}

// A topic on which nobody ever published, as the summary says, has lost nothing.
static void a_silent_calibration(void **state)
{
    (void)state;
    static unsigned char schema[64], channel[64];
    static uint64_t n_messages[UINT16_MAX + 1], n_said[UINT16_MAX + 1];
    struct mcap_bytes schemas = {schema, 0, sizeof schema};
    struct mcap_bytes channels = {channel, 0, sizeof channel};
    const struct log_sink log = {hear, NULL};
    size_t begin = mcap_begin_record(&schemas, MCAP_SCHEMA);
    mcap_put_number(&schemas, 1, 2);
    mcap_put_string(&schemas, "sensor_msgs/msg/CameraInfo");
    mcap_end_record(&schemas, begin);
    begin = mcap_begin_record(&channels, MCAP_CHANNEL);
    mcap_put_number(&channels, 7, 2);
    mcap_put_number(&channels, 1, 2);
    mcap_put_string(&channels, "/a/camera_info");
    mcap_end_record(&channels, begin);
    said[0] = 0;
    mcap_tell_of_needed(&schemas, &channels, n_messages, n_said, "a", &log);
    assert_string_equal(said, "");
    n_said[7] = 1;
    mcap_tell_of_needed(&schemas, &channels, n_messages, n_said, "a", &log);
    assert_said("a: the copy has no message of /a/camera_info, a calibration");
    said[0] = 0;
    mcap_tell_of_needed(&schemas, &channels, n_messages, NULL, "a", &log);
    assert_said("a: the copy has no message of /a/camera_info, a calibration");
}

// Where no image is left, the damage is told before the refusal.
static void no_chunk_can_be_read(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        for (unsigned c = 0; c < N_CHUNKS; c++)
            lose_chunk(c);
        assert_true(read_file() == 0);
        for (unsigned c = 0; c < N_CHUNKS; c++)
            assert_said("b.mcap: damaged at byte %zu: ", chunks[c]);
        assert_said("a chunk's checksum is wrong");
        if (k == 0)
            assert_said("b.mcap: no depth image can be read\n");
    }
}

// Of a finished file whose chunks cannot be unpacked here the topics are known, and that is said.
static void unknown_compression(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        for (unsigned c = 0; c < N_CHUNKS; c++) {
            unsigned char *const content = file + chunks[c] + MCAP_RECORD_BYTES;
            if (mcap_get(content + 28, 4) == 0)
                skip(); // this build packs nothing
            content[32] = 'x';
        }
        assert_true(read_file() == 0);
        assert_said("compressed in a way that this program was not built for\n");
        assert_null(strstr(said, "no messages"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(channels_in_a_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(within_a_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_within_a_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_and_a_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(no_statistics, setup, teardown),
        cmocka_unit_test_setup_teardown(each_chunk_has_what_its_images_want, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_without_calibration_says_so, setup, teardown),
        cmocka_unit_test(a_silent_calibration),
        cmocka_unit_test_setup_teardown(no_chunk_can_be_read, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_compression, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
