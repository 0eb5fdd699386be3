// SPDX-License-Identifier: Apache-2.0
// Times of an MCAP file's images: their own stamps or those of the log, and such that go back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/capture/written_mcap.h"

// An image's time is its own stamp, not when it was logged; also behind the first chunks, whose
// indexes have the times of the log.
static void stamps_of_the_camera(void **state)
{
    (void)state;
    enum { N = 12 };
    const int64_t first_ns = INT64_C(1700000000999999000), step_ns = 33333333;
    for (int is_chunked = 0; is_chunked < 2; is_chunked++) {
        void *source = NULL;
        char location[300];
        const struct capture_settings settings = {.log = {hear, NULL}};
        begin("");
        channel(1, CALIBRATION, "calib", "protobuf", "", "");
        channel(3, IMAGE, "/other", "protobuf", "", "");
        delay_ns = first_ns; // one without a stamp, of another topic
        image(3, first_ns, W, 100);
        channel(2, IMAGE, "depth", "protobuf", "", "");
        calibration(1, W, 40, 40, 2, 1);
        for (int i = 0; i < N; i++) {
            delay_ns = 500000000 + i % 3 * 10000000;
            if (is_chunked)
                chunk_of_image(n_file, 2, first_ns + i * step_ns + delay_ns, 100);
            else
                image(2, first_ns + i * step_ns + delay_ns, W, 100);
        }
        delay_ns = 0;
        scratch_write(&scratch, "a.mcap", file, n_file);
        scratch_name(&scratch, "a.mcap", location);
        assert_int_equal(capture_driver_mcap.open(&source, location, &settings, &info), 0);
        assert_int_equal(info.n_frames, N);
        for (uint64_t i = 0; i < N; i++) {
            int64_t time_ns;
            uint64_t number;
            capture_driver_mcap.stamp(source, i, &time_ns, &number);
            assert_int_equal(time_ns, first_ns + (int64_t)i * step_ns);
        }
        capture_driver_mcap.close(source);
    }
}

// Where some images have no stamp, or most that of the one before, the times of the log are theirs.
static void stamps_that_are_none(void **state)
{
    (void)state;
    enum { N = 12 };
    const int64_t first_ns = INT64_C(1700000000100000000), step_ns = 33333333;
    for (int how = 0; how < 4; how++) {
        const bool is_chunked = how & 1, repeats = how & 2;
        void *source = NULL;
        char location[300];
        const struct capture_settings settings = {.log = {hear, NULL}};
        begin("");
        channel(1, CALIBRATION, "calib", "protobuf", "", "");
        channel(2, IMAGE, "depth", "protobuf", "", "");
        calibration(1, W, 40, 40, 2, 1);
        for (int i = 0; i < N; i++) {
            const int64_t time_ns = first_ns + i * step_ns;
            delay_ns = repeats ? time_ns % 1000000000 : i == 3 ? time_ns : 500000000;
            if (is_chunked)
                chunk_of_image(n_file, 2, time_ns, 100);
            else
                image(2, time_ns, W, 100);
        }
        delay_ns = 0;
        scratch_write(&scratch, "a.mcap", file, n_file);
        scratch_name(&scratch, "a.mcap", location);
        assert_int_equal(capture_driver_mcap.open(&source, location, &settings, &info), 0);
        assert_said(repeats ? "a.mcap: of 12 images 0 have no time of their own and 11 that of the "
                              "one before: the times at which they were logged are taken"
                            : "a.mcap: of 12 images 1 have no time of their own and 0 that of the "
                              "one before: the times at which they were logged are taken");
        assert_int_equal(info.n_frames, N);
        for (uint64_t i = 0; i < N; i++) {
            int64_t time_ns;
            uint64_t number;
            capture_driver_mcap.stamp(source, i, &time_ns, &number);
            assert_int_equal(time_ns, first_ns + (int64_t)i * step_ns);
        }
        capture_driver_mcap.close(source);
    }
}

// Stamps that go back are put in order, and it is said as of ROS recordings.
static void times_that_go_back(void **state)
{
    (void)state;
    static const int64_t ms[] = {100, 200, 150, 200, 90, 300};
    begin("");
    channel(1, CALIBRATION, "calib", "protobuf", "", "");
    channel(2, IMAGE, "depth", "protobuf", "", "");
    calibration(1, W, 40, 40, 2, 1);
    image(2, 1000000, W, 1);
    assert_int_equal(open_as("", NULL, false, NULL), 0);
    assert_null(strstr(said, "earlier"));
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        image(2, ms[i] * 1000000, W, 2);
    assert_int_equal(open_as("", NULL, false, NULL), 0);
    assert_said("a.mcap: 2 images of depth stamped earlier than one that was written before, by up "
                "to 0.110 s; all are played in the order of their stamps");
    // the index of a chunk may be sorted; it counts where the messages stand
    begin("");
    size_t from = n_file;
    channel(1, CALIBRATION, "calib", "protobuf", "", "");
    channel(2, IMAGE, "depth", "protobuf", "", "");
    calibration(1, W, 40, 40, 2, 1);
    image(2, 1000000, W, 1);
    wrap(from);
    from = n_file;
    size_t offsets[3];
    for (size_t i = 0; i < 3; i++) {
        offsets[i] = n_file - from;
        image(2, ms[i] * 1000000, W, 1);
    }
    wrap(from);
    struct record index = {0};
    put(&index, 2, 2);
    put(&index, 3 * 16, 4);
    for (size_t i = 0; i < 3; i++) {
        const size_t k = (size_t[]){0, 2, 1}[i];
        put(&index, (uint64_t)ms[k] * 1000000, 8);
        put(&index, offsets[k], 8);
    }
    end(&index, MCAP_MESSAGE_INDEX);
    assert_int_equal(open_as("", NULL, false, NULL), 0);
    assert_int_equal(info.n_frames, 4);
    assert_said("a.mcap: 1 image of depth stamped earlier than one that was written before, by up "
                "to 0.050 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stamps_of_the_camera, setup, teardown),
        cmocka_unit_test_setup_teardown(stamps_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(times_that_go_back, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
