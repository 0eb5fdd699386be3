// SPDX-License-Identifier: Apache-2.0
// Which channel of an MCAP file is depth, whose calibration it is, and what is said where none
// fits: files written here, record by record, without chunks.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "capture/driver.h"
#include "capture/mcap/format.h"
#include "capture/mcap/protobuf.h"
#include "tests/unit/scratch.h"

#define W 4u
#define H 2u

enum { IMAGE = 1, CALIBRATION };

static struct scratch scratch;
static unsigned char file[1 << 16];
static size_t n_file;
static char said[4000];
static struct capture_info info;

static void hear(void *user, enum log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static void assert_said(const char *wanted)
{
    if (!strstr(said, wanted))
        print_error("%s\nwanted: %s\n", said, wanted);
    assert_non_null(strstr(said, wanted));
}

// --- Records

struct record {
    unsigned char bytes[1024];
    size_t n;
};

static void put(struct record *r, uint64_t value, int n)
{
    mcap_put(r->bytes + r->n, value, n);
    r->n += (size_t)n;
}

static void put_text(struct record *r, const char *text)
{
    put(r, strlen(text), 4);
    memcpy(r->bytes + r->n, text, strlen(text));
    r->n += strlen(text);
}

static void end(const struct record *r, enum mcap_opcode opcode)
{
    file[n_file++] = (unsigned char)opcode;
    mcap_put(file + n_file, r->n, 8);
    memcpy(file + n_file + 8, r->bytes, r->n);
    n_file += 8 + r->n;
}

static void schema(unsigned id, const char *name, const char *encoding)
{
    struct record r = {0};
    put(&r, id, 2);
    put_text(&r, name);
    put_text(&r, encoding);
    put(&r, 0, 4);
    end(&r, MCAP_SCHEMA);
}

static void begin(const char *profile)
{
    struct record r = {0};
    memcpy(file, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    n_file = MCAP_MAGIC_BYTES;
    put_text(&r, profile);
    put_text(&r, "test");
    end(&r, MCAP_HEADER);
    schema(IMAGE, "foxglove.RawImage", "protobuf");
    schema(CALIBRATION, "foxglove.CameraCalibration", "protobuf");
    schema(3, "foxglove.RawImage", "jsonschema"); // not ours
    said[0] = 0;
}

static void channel(unsigned id, unsigned of, const char *topic, const char *encoding,
                    const char *key, const char *value)
{
    struct record r = {0};
    put(&r, id, 2);
    put(&r, of, 2);
    put_text(&r, topic);
    put_text(&r, encoding);
    put(&r, strlen(key) + strlen(value) + 8, 4);
    put_text(&r, key);
    put_text(&r, value);
    end(&r, MCAP_CHANNEL);
}

static void message(unsigned channel_id, int64_t time_ns, const unsigned char *body, size_t n)
{
    struct record r = {0};
    put(&r, channel_id, 2);
    put(&r, 0, 4);
    put(&r, (uint64_t)time_ns, 8);
    put(&r, (uint64_t)time_ns, 8);
    memcpy(r.bytes + r.n, body, n);
    r.n += n;
    end(&r, MCAP_MESSAGE);
}

static int64_t delay_ns; // of the log behind the stamps of the images, 0: they have no stamps

static const char *encoding = "16UC1";

static void image(unsigned channel_id, int64_t time_ns, uint32_t w, uint16_t value)
{
    unsigned char body[256], stamp[32];
    uint16_t pixels[W * H];
    struct protobuf_out out = {.data = body, .capacity = sizeof body};
    for (size_t i = 0; i < W * H; i++)
        pixels[i] = value;
    if (delay_ns) {
        struct protobuf_out inner = {.data = stamp, .capacity = sizeof stamp};
        protobuf_put_uint(&inner, 1, (uint64_t)(time_ns - delay_ns) / 1000000000);
        protobuf_put_uint(&inner, 2, (uint64_t)(time_ns - delay_ns) % 1000000000);
        protobuf_put_bytes(&out, 1, stamp, inner.n);
    }
    protobuf_put_fixed32(&out, 2, w);
    protobuf_put_fixed32(&out, 3, H);
    protobuf_put_text(&out, 4, encoding);
    protobuf_put_fixed32(&out, 5, 2 * W);
    protobuf_put_bytes(&out, 6, pixels, sizeof pixels);
    message(channel_id, time_ns, body, out.n);
}

static void calibration(unsigned channel_id, uint32_t w, double fx, double fy, double cx, double cy)
{
    unsigned char body[256];
    const double k[9] = {fx, 0, cx, 0, fy, cy, 0, 0, 1};
    struct protobuf_out out = {.data = body, .capacity = sizeof body};
    protobuf_put_fixed32(&out, 2, w);
    protobuf_put_fixed32(&out, 3, H);
    protobuf_put_doubles(&out, 6, k, 9);
    message(channel_id, 1, body, out.n);
}

// What was written since `from` becomes a chunk.
static void wrap(size_t from)
{
    enum { HEAD = 40 };
    const size_t n = n_file - from;
    unsigned char *at = file + from;
    memmove(at + MCAP_RECORD_BYTES + HEAD, at, n);
    memset(at, 0, MCAP_RECORD_BYTES + HEAD);
    at[0] = MCAP_CHUNK;
    mcap_put(at + 1, HEAD + n, 8);
    mcap_put(at + MCAP_RECORD_BYTES + 16, n, 8);
    mcap_put(at + MCAP_RECORD_BYTES + 32, n, 8);
    n_file += MCAP_RECORD_BYTES + HEAD;
}

// The index behind a chunk of one message of a channel, `offset` bytes in it.
static void message_index(unsigned channel_id, int64_t time_ns, size_t offset)
{
    struct record r = {0};
    put(&r, channel_id, 2);
    put(&r, 16, 4);
    put(&r, (uint64_t)time_ns, 8);
    put(&r, offset, 8);
    end(&r, MCAP_MESSAGE_INDEX);
}

// Opens what has been written; *out_value: a pixel of the first image.
static int open_as(const char *topic, const char *camera, bool is_lenient, uint16_t *out_value)
{
    char location[300];
    void *state = NULL;
    struct capture_frame frame = {0};
    uint16_t pixels[W * H] = {0};
    const struct capture_settings settings = {
        .camera = camera, .allow_implausible = is_lenient, .log = {hear, NULL}};
    scratch_write(&scratch, "a.mcap", file, n_file);
    snprintf(location, sizeof location, "%s/a.mcap%s", scratch.path, topic);
    info = (struct capture_info){0};
    int err = capture_driver_mcap.open(&state, location, &settings, &info);
    if (err)
        return err;
    err = info.camera.width_px == W ? capture_driver_mcap.decode(state, 0, pixels, &frame) : 0;
    if (out_value)
        *out_value = pixels[0];
    capture_driver_mcap.close(state);
    return err;
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

// --- Tests

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

// A chunk, from `from` on, that ends in one image, and its index.
static void chunk_of_image(size_t from, unsigned channel_id, int64_t time_ns, uint16_t value)
{
    const size_t offset = n_file - from;
    image(channel_id, time_ns, W, value);
    wrap(from);
    message_index(channel_id, time_ns, offset);
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
        cmocka_unit_test_setup_teardown(stamps_of_the_camera, setup, teardown),
        cmocka_unit_test_setup_teardown(stamps_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(later_channels_and_equal_times, setup, teardown),
        cmocka_unit_test_setup_teardown(images_that_are_others, setup, teardown),
        cmocka_unit_test_setup_teardown(times_that_go_back, setup, teardown),
        cmocka_unit_test_setup_teardown(calibrations_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_camera_that_the_user_tells, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
