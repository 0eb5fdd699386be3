// SPDX-License-Identifier: Apache-2.0
// An MCAP file of images and calibrations, written record by record, and opened. One inclusion a
// program, after cmocka's.
#ifndef POSED_TESTS_UNIT_CAPTURE_WRITTEN_MCAP_H
#define POSED_TESTS_UNIT_CAPTURE_WRITTEN_MCAP_H

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

static inline void hear(void *user, enum log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static inline void assert_said(const char *wanted)
{
    if (!strstr(said, wanted))
        print_error("%s\nwanted: %s\n", said, wanted);
    assert_non_null(strstr(said, wanted));
}

struct record {
    unsigned char bytes[1024];
    size_t n;
};

static inline void put(struct record *r, uint64_t value, int n)
{
    mcap_put(r->bytes + r->n, value, n);
    r->n += (size_t)n;
}

static inline void put_text(struct record *r, const char *text)
{
    put(r, strlen(text), 4);
    memcpy(r->bytes + r->n, text, strlen(text));
    r->n += strlen(text);
}

static inline void end(const struct record *r, enum mcap_opcode opcode)
{
    file[n_file++] = (unsigned char)opcode;
    mcap_put(file + n_file, r->n, 8);
    memcpy(file + n_file + 8, r->bytes, r->n);
    n_file += 8 + r->n;
}

static inline void schema(unsigned id, const char *name, const char *encoding)
{
    struct record r = {0};
    put(&r, id, 2);
    put_text(&r, name);
    put_text(&r, encoding);
    put(&r, 0, 4);
    end(&r, MCAP_SCHEMA);
}

static inline void begin(const char *profile)
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

static inline void channel(unsigned id, unsigned of, const char *topic, const char *encoding,
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

static inline void message(unsigned channel_id, int64_t time_ns, const unsigned char *body,
                           size_t n)
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

static inline void image(unsigned channel_id, int64_t time_ns, uint32_t w, uint16_t value)
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

static inline void calibration(unsigned channel_id, uint32_t w, double fx, double fy, double cx,
                               double cy)
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
static inline void wrap(size_t from)
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
static inline void message_index(unsigned channel_id, int64_t time_ns, size_t offset)
{
    struct record r = {0};
    put(&r, channel_id, 2);
    put(&r, 16, 4);
    put(&r, (uint64_t)time_ns, 8);
    put(&r, offset, 8);
    end(&r, MCAP_MESSAGE_INDEX);
}

// Opens what has been written; *out_value: a pixel of the first image.
static inline int open_as(const char *topic, const char *camera, bool is_lenient,
                          uint16_t *out_value)
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

static inline int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// A chunk, from `from` on, that ends in one image, and its index.
static inline void chunk_of_image(size_t from, unsigned channel_id, int64_t time_ns, uint16_t value)
{
    const size_t offset = n_file - from;
    image(channel_id, time_ns, W, value);
    wrap(from);
    message_index(channel_id, time_ns, offset);
}

#endif
