// SPDX-License-Identifier: Apache-2.0
// Damage in an MCAP file: reading goes on at the next chunk that the summary names, of our messages
// and of ROS; and so does the repair. Recordings of our recorder with bytes changed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/driver.h"
#include "capture/io/chunk_places.h"
#include "capture/mcap/footer.h"
#include "capture/mcap/format.h"
#include "capture/mcap/needed_channels.h"
#include "capture/mcap/records.h"
#include "capture/mcap/repair.h"
#include "capture/recorder/recorder.h"
#include "tests/unit/camera.h"
#include "tests/unit/scratch.h"

#define W        8u
#define H        6u
#define N        (W * H)
#define N_FRAMES 40 // at 30 Hz: three chunks
#define N_CHUNKS 3u
#define FIRST_NS INT64_C(1700000000000000000)

static struct scratch scratch;
static unsigned char file[1 << 17];
static size_t n_file, chunks[N_CHUNKS], data_end, summary, n_each[N_CHUNKS];
static char said[8000];
static struct intrinsics camera; // of the file that was read last

static void hear(void *user, enum log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

// Where the chunks and the end of the data are, by walking through the records.
static void find_chunks(void)
{
    size_t n = 0, at = MCAP_MAGIC_BYTES;
    for (; file[at] != MCAP_DATA_END; at += MCAP_RECORD_BYTES + mcap_get(file + at + 1, 8)) {
        if (file[at] != MCAP_CHUNK)
            continue;
        assert_in_range(n, 0, N_CHUNKS - 1);
        chunks[n++] = at;
    }
    assert_int_equal(n, N_CHUNKS);
    data_end = at;
    summary = at + MCAP_RECORD_BYTES + MCAP_DATA_END_BYTES;
}

static void record(enum recorder_format format, const char *name)
{
    static const struct capture_info info = {.camera = {8, 8.5, 4.25, 3, W, H},
                                             .units_per_m = 1000};
    struct recorder_settings settings = {.folder = scratch.path, .queue_frames = N_FRAMES};
    struct buffers *pushed = camera_create(N, N_FRAMES);
    struct recorder *recorder;
    uint16_t pixels[N];
    char path[256];
    assert_int_equal(recorder_create(&recorder, &settings), 0);
    assert_int_equal(recorder_start_one(recorder, "a", format, &info), 0);
    for (int i = 0; i < N_FRAMES; i++) {
        for (size_t k = 0; k < N; k++)
            pixels[k] = (uint16_t)(1000 + i);
        camera_push(pushed, recorder,
                    (struct capture_frame){
                        .image = {pixels, W, H, 1000, FIRST_NS + i * INT64_C(33333333)}});
    }
    recorder_destroy(&recorder);
    camera_destroy(pushed);
    FILE *recorded = fopen(scratch_name(&scratch, name, path), "rb");
    assert_non_null(recorded);
    n_file = fread(file, 1, sizeof file, recorded);
    fclose(recorded);
    find_chunks();
}

// A bit for each frame that can be read, of the file or of a repaired one.
static uint64_t read_frames(const char *name)
{
    char path[256];
    const struct capture_settings settings = {.allow_implausible = true, .log = {hear, NULL}};
    struct capture_info info = {0};
    struct capture_frame frame = {0};
    uint16_t pixels[N];
    uint64_t seen = 0;
    camera = (struct intrinsics){0};
    void *source;
    said[0] = 0;
    if (capture_driver_mcap.open(&source, scratch_name(&scratch, name, path), &settings, &info)) {
        print_error("%s\n", said);
        return 0;
    }
    camera = info.camera;
    for (uint64_t i = 0; i < info.n_frames; i++) {
        if (capture_driver_mcap.decode(source, i, pixels, &frame))
            continue;
        assert_in_range(pixels[0], 1000, 1000 + N_FRAMES - 1);
        seen |= UINT64_C(1) << (pixels[0] - 1000);
    }
    capture_driver_mcap.close(source);
    return seen;
}

static uint64_t read_file(void)
{
    scratch_write(&scratch, "b.mcap", file, n_file);
    return read_frames("b.mcap");
}

static struct mcap_repaired repair_file(void)
{
    struct mcap_repaired repaired;
    struct log_sink log = {hear, NULL};
    char path[256];
    scratch_write(&scratch, "b.mcap", file, n_file);
    const int in = open(scratch_name(&scratch, "b.mcap", path), O_RDONLY);
    const int out = open(scratch_name(&scratch, "c.mcap", path), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(in >= 0 && out >= 0);
    assert_int_equal(mcap_repair(in, out, "b.mcap", &log, &repaired), 0);
    close(in);
    close(out);
    return repaired;
}

// The frames of some chunks.
static uint64_t of_chunks(unsigned chosen)
{
    uint64_t frames = 0;
    unsigned i = 0;
    for (unsigned c = 0; c < N_CHUNKS; c++)
        for (size_t k = 0; k < n_each[c]; k++, i++)
            frames |= (uint64_t)(chosen >> c & 1) << i;
    return frames;
}

__attribute__((format(printf, 1, 2))) static void assert_said(const char *format, ...)
{
    char wanted[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wanted, sizeof wanted, format, arguments);
    va_end(arguments);
    if (!strstr(said, wanted))
        print_error("%s\nwanted: %s\n", said, wanted);
    assert_non_null(strstr(said, wanted));
}

static void assert_goes_on(size_t from, size_t to)
{
    assert_said("b.mcap: damaged at byte %zu: %zu bytes not read, goes on at byte %zu by the "
                "index\n",
                from, to - from, to);
    assert_null(strstr(said, "incomplete"));
    const struct mcap_repaired repaired = repair_file();
    const uint64_t seen = read_frames("b.mcap");
    assert_int_equal(repaired.n_lost_bytes, to - from);
    assert_false(repaired.was_complete);
    assert_true(read_frames("c.mcap") == seen);
    assert_null(strstr(said, "damaged"));
    assert_null(strstr(said, "incomplete"));
}

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// A new recording in a new folder: ours, or one of ROS.
static void begin(int k)
{
    scratch_remove(&scratch);
    scratch_create(&scratch);
    record(k ? RECORDER_FORMAT_ROS2MCAP : RECORDER_FORMAT_MCAP, k ? "a.ros2.mcap" : "a.mcap");
    n_each[0] = n_each[1] = 16;
    n_each[2] = N_FRAMES - 32;
}

static void lengths_of_a_chunk(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        assert_true(read_file() == of_chunks(7));
        assert_null(strstr(said, "damaged"));
        assert_true(repair_file().was_complete);

        memset(file + chunks[1], 0xff, 60);
        assert_true(read_file() == of_chunks(5));
        assert_goes_on(chunks[1], chunks[2]);

        begin(k);
        mcap_put(file + chunks[1] + 1, chunks[2] - chunks[1], 8); // ends in the next one
        assert_true(read_file() == of_chunks(5));
        assert_goes_on(chunks[1], chunks[2]);

        begin(k);
        file[chunks[1]] = 0x46; // no opcode: it is not passed over in silence
        assert_true(read_file() == of_chunks(5));
        assert_goes_on(chunks[1], chunks[2]);

        begin(k);
        file[chunks[1]] = MCAP_DATA_END; // the end it is not, either
        assert_true(read_file() == of_chunks(5));
        assert_goes_on(chunks[1], chunks[2]);

        begin(k);
        memset(file + chunks[2], 0xff, 60);
        assert_true(read_file() == of_chunks(3));
        assert_goes_on(chunks[2], summary);
    }
}

// Schemas and channels are gone, but for those of the summary.
static void head_of_the_file(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        const size_t at =
            MCAP_MAGIC_BYTES + MCAP_RECORD_BYTES + (size_t)mcap_get(file + MCAP_MAGIC_BYTES + 1, 8);
        memset(file + at, 0, chunks[0] - at);
        assert_true(read_file() == of_chunks(7));
        assert_goes_on(at, chunks[0]);
    }
}

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

// A summary that is not whole, or leads elsewhere, is not followed.
static void no_whole_summary(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int change = 0; change < 3; change++) {
            begin(k);
            memset(file + chunks[1], 0xff, 60);
            if (change == 0)
                n_file = chunks[2] + 100;
            else if (change == 1)
                file[summary + MCAP_RECORD_BYTES + 5] ^= 1; // against its checksum
            else
                n_file--;
            assert_true(read_file() == of_chunks(1));
            assert_said("b.mcap: incomplete, ");
            assert_null(strstr(said, "by the index"));
        }
}

// A channel record whose topic leads out of it: lost, and the summary's takes its place. Without a
// summary, what refers to it is lost, too.
static void a_malformed_channel(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        begin(k);
        size_t at = MCAP_MAGIC_BYTES;
        while (file[at] != MCAP_CHANNEL)
            at += MCAP_RECORD_BYTES + (size_t)mcap_get(file + at + 1, 8);
        memset(file + at + MCAP_RECORD_BYTES + 4, 0x7f, 4);
        const uint64_t n_record = MCAP_RECORD_BYTES + mcap_get(file + at + 1, 8);
        struct mcap_repaired repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, n_record);
        assert_false(repaired.was_complete);
        const uint64_t n_messages = repaired.n_messages;
        assert_true(read_frames("c.mcap") == of_chunks(7));
        n_file = data_end;
        repaired = repair_file();
        assert_int_equal(repaired.n_messages, n_messages - N_FRAMES);
        assert_true(repaired.n_lost_bytes > n_record + N_FRAMES * sizeof(uint16_t) * N);
        assert_int_equal(repaired.n_chunks, N_CHUNKS);
    }
}

// Power went: zeros stand behind what reached the disk. The file ends where they begin, and nobody
// walks through them, nine bytes at a time.
static void zeros_behind_the_data(void **state)
{
    (void)state;
    enum { N_ZEROS = 1 << 24 };
    for (int k = 0; k < 2; k++) {
        char path[256];
        begin(k);
        memset(file + chunks[2], 0, sizeof file - chunks[2]);
        n_file = chunks[2] + 900;
        const clock_t start = clock();
        scratch_write(&scratch, "b.mcap", file, n_file);
        assert_int_equal(truncate(scratch_name(&scratch, "b.mcap", path), N_ZEROS), 0);
        assert_true(read_frames("b.mcap") == of_chunks(3));
        assert_in_range((clock() - start) * 10 / CLOCKS_PER_SEC, 0, 3);
        if (k == 0)
            assert_said("b.mcap: incomplete, ends after 32 images, breaks off at byte %zu; for "
                        "other programs: posectl record repair FILE\n",
                        chunks[2]);
        else
            assert_said("b.mcap: incomplete, breaks off at byte %zu; for other programs: posectl "
                        "record repair FILE\n",
                        chunks[2]);
        struct mcap_repaired repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, 0); // nothing was there
        assert_int_equal(repaired.n_zeros, 900);
        assert_false(repaired.was_complete);
        assert_true(read_frames("c.mcap") == of_chunks(3));
        assert_null(strstr(said, "incomplete"));

        begin(k); // a chunk that is torn in its length, zeros, and whether they may be data
        memset(file + chunks[2] + 200, 0, sizeof file - chunks[2] - 200);
        file[chunks[2] + 199] = 1;
        mcap_put(file + chunks[2] + 1, UINT64_C(1) << 40, 8);
        n_file = chunks[2] + 200 + 512;
        repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, 200);
        assert_int_equal(repaired.n_zeros, 512);
        n_file--;
        repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, 200 + 511);
        assert_int_equal(repaired.n_zeros, 0);

        begin(k); // behind its end
        memset(file + n_file, 0, 100000);
        n_file += 100000;
        repaired = repair_file();
        assert_int_equal(repaired.n_lost_bytes, 0);
        assert_int_equal(repaired.n_zeros, 100000);
        assert_false(repaired.was_complete);
        assert_true(read_frames("c.mcap") == of_chunks(7));
    }
}

// A recorder may repeat a schema in each chunk: more copies than there could be schemas are one.
static void a_schema_many_times(void **state)
{
    (void)state;
    static const char content[] = "\x84\x03"
                                  "\x11\0\0\0foxglove.RawImage\x08\0\0\0protobuf\0\0\0\0";
    enum { N_COPIES = 1100, N_CONTENT = sizeof content - 1 };
    const size_t n_record = MCAP_RECORD_BYTES + N_CONTENT, n_all = N_COPIES * n_record;
    for (int k = 0; k < 2; k++) {
        begin(k);
        const size_t at =
            MCAP_MAGIC_BYTES + MCAP_RECORD_BYTES + (size_t)mcap_get(file + MCAP_MAGIC_BYTES + 1, 8);
        assert_in_range(n_file + n_all, 0, sizeof file);
        memmove(file + at + n_all, file + at, n_file - at);
        n_file += n_all;
        for (size_t i = 0; i < N_COPIES; i++) {
            unsigned char *const record = file + at + i * n_record;
            record[0] = MCAP_SCHEMA;
            mcap_put(record + 1, N_CONTENT, 8);
            memcpy(record + MCAP_RECORD_BYTES, content, N_CONTENT);
        }
        assert_true(read_file() == of_chunks(7));
    }
}

// --- Summaries with more places than the file has chunks

#define N_PLACES   8000u
#define MAX_CPU_S  2 // a few ms; many times that where each record looks at all places
#define N_LONG     (1u << 19)
#define INDEX_SIZE 32u // of a chunk index up to its map

static unsigned char long_file[N_LONG];
static size_t n_long;

static unsigned char *put_record(unsigned opcode, size_t n_bytes)
{
    unsigned char *const record = long_file + n_long;
    n_long += MCAP_RECORD_BYTES + n_bytes;
    assert_in_range(n_long, 0, N_LONG);
    memset(record, 0, MCAP_RECORD_BYTES + n_bytes);
    record[0] = (unsigned char)opcode;
    mcap_put(record + 1, n_bytes, 8);
    return record + MCAP_RECORD_BYTES;
}

// `first`, and if not 0 `second`, N_PLACES times as empty records, and as many places `shift` bytes
// behind the first one.
static void make_long_file(const char *profile, unsigned first, unsigned second, size_t shift)
{
    memcpy(long_file, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    n_long = MCAP_MAGIC_BYTES;
    unsigned char *const header = put_record(MCAP_HEADER, 8 + strlen(profile));
    mcap_put(header, strlen(profile), 4);
    memcpy(header + 4, profile, strlen(profile));
    const size_t begin = n_long, step = (second ? 2 : 1) * MCAP_RECORD_BYTES;
    for (unsigned i = 0; i < N_PLACES; i++) {
        put_record(first, 0);
        if (second)
            put_record(second, 0);
    }
    put_record(MCAP_DATA_END, MCAP_DATA_END_BYTES);
    const size_t start = n_long;
    for (unsigned i = 0; i < N_PLACES; i++)
        mcap_put(put_record(MCAP_CHUNK_INDEX, INDEX_SIZE) + 16, begin + i * step + shift, 8);
    mcap_put(put_record(MCAP_FOOTER, MCAP_FOOTER_BYTES), start, 8);
    memcpy(long_file + n_long, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    n_long += MCAP_MAGIC_BYTES;
    assert_in_range(n_long, 0, N_LONG);
}

// Reads it, and repairs it: there is nothing in it.
static void assert_soon(void)
{
    struct log_sink log = {hear, NULL};
    struct mcap_repaired repaired;
    char path[256];
    const clock_t begin = clock();
    scratch_write(&scratch, "b.mcap", long_file, n_long);
    assert_true(read_frames("b.mcap") == 0);
    assert_in_range((clock() - begin) / CLOCKS_PER_SEC, 0, MAX_CPU_S);
    const int in = open(scratch_name(&scratch, "b.mcap", path), O_RDONLY);
    const int out = open(scratch_name(&scratch, "c.mcap", path), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(in >= 0 && out >= 0);
    assert_int_equal(mcap_repair(in, out, "b.mcap", &log, &repaired), -ENOENT);
    close(in);
    close(out);
    assert_in_range((clock() - begin) / CLOCKS_PER_SEC, 0, 2 * MAX_CPU_S);
}

// Records that are not damaged, each with a place in it where no chunk stands.
static void many_false_places(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        make_long_file(k ? "ros2" : "", 0x80, 0, 1);
        assert_soon();
    }
}

// Zeros before each chunk, and each chunk damaged.
static void many_damages(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        make_long_file(k ? "ros2" : "", 0, MCAP_CHUNK, MCAP_RECORD_BYTES);
        assert_soon();
    }
}

static void places(void **state)
{
    (void)state;
    static const uint64_t bad[][2] = {{7, 20}, {10, 10}, {10, 100}, {10, UINT64_MAX}};
    struct chunk_places p = {0};
    assert_true(chunk_places_after(&p, 0) == UINT64_MAX);
    assert_int_equal(chunk_places_add(&p, 50), 0);
    assert_int_equal(chunk_places_add(&p, 8), 0);
    assert_true(chunk_places_finish(&p, 8, 100));
    assert_int_equal(chunk_places_after(&p, 0), 8);
    assert_int_equal(chunk_places_after(&p, 8), 50);
    assert_int_equal(chunk_places_after(&p, 49), 50);
    assert_int_equal(chunk_places_after(&p, 50), 100);
    assert_true(chunk_places_after(&p, 100) == UINT64_MAX);
    assert_true(chunk_places_has(&p, 8) && !chunk_places_has(&p, 9));
    chunk_places_free(&p);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(chunk_places_add(&p, bad[i][1]), 0);
        assert_int_equal(chunk_places_add(&p, bad[i][0]), 0);
        assert_false(chunk_places_finish(&p, 8, 100));
        assert_int_equal(p.n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places),
        cmocka_unit_test_setup_teardown(lengths_of_a_chunk, setup, teardown),
        cmocka_unit_test_setup_teardown(head_of_the_file, setup, teardown),
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
        cmocka_unit_test_setup_teardown(no_whole_summary, setup, teardown),
        cmocka_unit_test_setup_teardown(a_malformed_channel, setup, teardown),
        cmocka_unit_test_setup_teardown(zeros_behind_the_data, setup, teardown),
        cmocka_unit_test_setup_teardown(a_schema_many_times, setup, teardown),
        cmocka_unit_test_setup_teardown(many_false_places, setup, teardown),
        cmocka_unit_test_setup_teardown(many_damages, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
