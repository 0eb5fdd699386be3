// SPDX-License-Identifier: Apache-2.0
// MCAP files: depth as foxglove.RawImage, calibration, and the daemon's own pose and tf messages as
// they are. Chunks span half a second at most, so that a process that is killed loses less than a
// second; the summary with its index is written at the end.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#ifdef POSED_HAVE_ZSTD
#include <zstd.h>
#endif

#include "capture/foxglove.h"
#include "capture/mcap.h"
#include "capture/recorder.h"
#include "capture/writer.h"

#define CHUNK_NS          INT64_C(500000000)
#define CHUNK_BYTES       ((size_t)4 << 20)
#define CHUNK_MESSAGES    1024
#define ZSTD_LEVEL        1
#define MAX_CHUNK_HEADER  128
#define CHUNK_INDEX_BYTES 256 // more than one takes in the summary

enum channel { DEPTH = 1, CALIB, POSE, TF, N_CHANNELS = TF };

static const struct {
    const char *topic, *schema;
} channels[N_CHANNELS + 1] = {
    [DEPTH] = {"depth", "foxglove.RawImage"},
    [CALIB] = {"calib", "foxglove.CameraCalibration"},
    [POSE] = {"pose", "foxglove.Odometry"},
    [TF] = {"tf", "foxglove.FrameTransform"},
};

// Bytes that are known to fit; overflow is a bug of ours.
struct bytes {
    unsigned char *data;
    size_t n, capacity;
};

struct message_place {
    uint16_t channel;
    int64_t time_ns;
    uint64_t offset;
};

// What the summary says of a chunk.
struct chunk_place {
    int64_t first_ns, last_ns;
    uint64_t offset, n_bytes, n_packed, n_raw;
    uint64_t index_offsets[N_CHANNELS + 1]; // 0 = no message of that channel
    uint64_t n_index_bytes;
};

struct mcap_writer {
    int fd;
    uint64_t position;
    uint32_t data_crc;
    struct intrinsics camera;
    double units_per_m;
    bool calibrated; // the calibration has been written

    struct bytes chunk;
    int64_t first_ns, last_ns;
    struct message_place places[CHUNK_MESSAGES];
    size_t n_places;
    struct bytes out; // a chunk as it goes to disk
#ifdef POSED_HAVE_ZSTD
    ZSTD_CCtx *zstd;
#endif
    struct chunk_place *chunks;
    size_t n_chunks, chunk_capacity;
    uint64_t n_messages[N_CHANNELS + 1];
    int64_t begin_ns, end_ns;
};

static void put(struct bytes *out, const void *data, size_t n)
{
    if (n && n <= out->capacity - out->n) {
        memcpy(out->data + out->n, data, n);
        out->n += n;
    }
}

static void put_number(struct bytes *out, uint64_t value, int n_bytes)
{
    unsigned char bytes[8];
    mcap_put(bytes, value, n_bytes);
    put(out, bytes, (size_t)n_bytes);
}

static void put_string(struct bytes *out, const char *text)
{
    put_number(out, strlen(text), 4);
    put(out, text, strlen(text));
}

// Begins a record; end_record fills in its length.
static size_t begin_record(struct bytes *out, enum mcap_opcode opcode)
{
    put_number(out, opcode, 1);
    put_number(out, 0, 8);
    return out->n;
}

static void end_record(struct bytes *out, size_t begin)
{
    mcap_put(out->data + begin - 8, out->n - begin, 8);
}

static void put_schemas(struct bytes *out)
{
    size_t n_descriptors;
    const void *descriptors = foxglove_descriptors(&n_descriptors);
    for (uint16_t id = 1; id <= N_CHANNELS; id++) {
        size_t begin = begin_record(out, MCAP_SCHEMA);
        put_number(out, id, 2);
        put_string(out, channels[id].schema);
        put_string(out, "protobuf");
        put_number(out, n_descriptors, 4);
        put(out, descriptors, n_descriptors);
        end_record(out, begin);
    }
}

static void put_channels(struct bytes *out, double units_per_m)
{
    char units[32];
    snprintf(units, sizeof units, "%.17g", units_per_m);
    for (uint16_t id = 1; id <= N_CHANNELS; id++) {
        size_t begin = begin_record(out, MCAP_CHANNEL);
        put_number(out, id, 2);
        put_number(out, id, 2); // its schema
        put_string(out, channels[id].topic);
        put_string(out, "protobuf");
        if (id == DEPTH) {
            put_number(out, 8 + strlen("units_per_m") + strlen(units), 4);
            put_string(out, "units_per_m");
            put_string(out, units);
        } else {
            put_number(out, 0, 4);
        }
        end_record(out, begin);
    }
}

// Appends what stands in `out` to the file.
static int write_out(struct mcap_writer *mcap)
{
    int err = writer_append(mcap->fd, mcap->out.data, mcap->out.n);
    if (err)
        return err;
    mcap->position += mcap->out.n;
    mcap->data_crc = (uint32_t)crc32(mcap->data_crc, mcap->out.data, (uInt)mcap->out.n);
    return 0;
}

static int write_head(struct mcap_writer *mcap)
{
    struct bytes *out = &mcap->out;
    out->n = 0;
    put(out, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    size_t begin = begin_record(out, MCAP_HEADER);
    put_string(out, ""); // no profile
    put_string(out, "posed");
    end_record(out, begin);
    put_schemas(out);
    put_channels(out, mcap->units_per_m);
    return write_out(mcap);
}

// Packs the chunk behind the header in `out`. Returns the name of the compression.
static const char *pack(struct mcap_writer *mcap, size_t at, size_t *out_n)
{
    struct bytes *chunk = &mcap->chunk, *out = &mcap->out;
#ifdef POSED_HAVE_ZSTD
    *out_n = ZSTD_compressCCtx(mcap->zstd, out->data + at, out->capacity - at, chunk->data,
                               chunk->n, ZSTD_LEVEL);
    if (!ZSTD_isError(*out_n))
        return "zstd";
#endif
    memcpy(out->data + at, chunk->data, chunk->n);
    *out_n = chunk->n;
    return "";
}

static void put_message_indexes(struct mcap_writer *mcap, struct chunk_place *place)
{
    struct bytes *out = &mcap->out;
    size_t indexes = out->n;
    for (uint16_t channel = 1; channel <= N_CHANNELS; channel++) {
        size_t n = 0;
        for (size_t i = 0; i < mcap->n_places; i++)
            n += mcap->places[i].channel == channel;
        if (!n)
            continue;
        place->index_offsets[channel] = mcap->position + out->n;
        size_t begin = begin_record(out, MCAP_MESSAGE_INDEX);
        put_number(out, channel, 2);
        put_number(out, 16 * n, 4);
        for (size_t i = 0; i < mcap->n_places; i++)
            if (mcap->places[i].channel == channel) {
                put_number(out, (uint64_t)mcap->places[i].time_ns, 8);
                put_number(out, mcap->places[i].offset, 8);
            }
        end_record(out, begin);
    }
    place->n_index_bytes = out->n - indexes;
}

static int flush_chunk(struct mcap_writer *mcap)
{
    struct bytes *chunk = &mcap->chunk, *out = &mcap->out;
    if (!chunk->n)
        return 0;
    if (mcap->n_chunks == mcap->chunk_capacity) {
        size_t grown = 2 * mcap->chunk_capacity + 64;
        struct chunk_place *chunks = realloc(mcap->chunks, grown * sizeof *chunks);
        if (!chunks)
            return -ENOMEM;
        mcap->chunks = chunks;
        mcap->chunk_capacity = grown;
    }
    // the header's length depends on the name of the compression: "zstd" or ""
    struct chunk_place place = {mcap->first_ns, mcap->last_ns, mcap->position, .n_raw = chunk->n};
    size_t n_packed;
    const char *compression = pack(mcap, MAX_CHUNK_HEADER, &n_packed);
    out->n = 0;
    size_t begin = begin_record(out, MCAP_CHUNK);
    put_number(out, (uint64_t)mcap->first_ns, 8);
    put_number(out, (uint64_t)mcap->last_ns, 8);
    put_number(out, chunk->n, 8);
    put_number(out, crc32(0, chunk->data, (uInt)chunk->n), 4);
    put_string(out, compression);
    put_number(out, n_packed, 8);
    memmove(out->data + out->n, out->data + MAX_CHUNK_HEADER, n_packed);
    out->n += n_packed;
    end_record(out, begin);
    place.n_bytes = out->n;
    place.n_packed = n_packed;
    put_message_indexes(mcap, &place);
    int err = write_out(mcap);
    if (err)
        return err;
    mcap->chunks[mcap->n_chunks++] = place;
    chunk->n = mcap->n_places = 0;
    return 0;
}

// A message of two parts into the chunk.
static int add_message(struct mcap_writer *mcap, enum channel channel, int64_t time_ns,
                       const void *head, size_t n_head, const void *body, size_t n_body)
{
    struct bytes *chunk = &mcap->chunk;
    size_t n_record = MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES + n_head + n_body;
    if (n_record > chunk->capacity)
        return -EMSGSIZE;
    bool full = chunk->n + n_record > chunk->capacity || mcap->n_places == CHUNK_MESSAGES;
    int err =
        full || (chunk->n && llabs(time_ns - mcap->first_ns) > CHUNK_NS) ? flush_chunk(mcap) : 0;
    if (err)
        return err;
    if (!chunk->n)
        mcap->first_ns = mcap->last_ns = time_ns;
    mcap->first_ns = time_ns < mcap->first_ns ? time_ns : mcap->first_ns;
    mcap->last_ns = time_ns > mcap->last_ns ? time_ns : mcap->last_ns;
    bool first = true;
    for (int i = 1; i <= N_CHANNELS; i++)
        first = first && !mcap->n_messages[i];
    mcap->begin_ns = first || time_ns < mcap->begin_ns ? time_ns : mcap->begin_ns;
    mcap->end_ns = first || time_ns > mcap->end_ns ? time_ns : mcap->end_ns;
    mcap->places[mcap->n_places++] = (struct message_place){(uint16_t)channel, time_ns, chunk->n};
    size_t begin = begin_record(chunk, MCAP_MESSAGE);
    put_number(chunk, channel, 2);
    put_number(chunk, mcap->n_messages[channel]++, 4);
    put_number(chunk, (uint64_t)time_ns, 8);
    put_number(chunk, (uint64_t)time_ns, 8);
    put(chunk, head, n_head);
    put(chunk, body, n_body);
    end_record(chunk, begin);
    return 0;
}

static void free_writer(struct mcap_writer *mcap)
{
#ifdef POSED_HAVE_ZSTD
    ZSTD_freeCCtx(mcap->zstd);
#endif
    free(mcap->chunk.data);
    free(mcap->out.data);
    free(mcap->chunks);
    free(mcap);
}

static int take_memory(struct mcap_writer *mcap, const struct capture_info *info)
{
    size_t n_image = (size_t)info->camera.width_px * info->camera.height_px * sizeof(uint16_t);
    mcap->chunk.capacity = CHUNK_BYTES > 2 * n_image ? CHUNK_BYTES : 2 * n_image + 65536;
    mcap->out.capacity = mcap->chunk.capacity + mcap->chunk.capacity / 128 + 131072;
#ifdef POSED_HAVE_ZSTD
    mcap->zstd = ZSTD_createCCtx();
    if (!mcap->zstd)
        return -ENOMEM;
#endif
    mcap->chunk.data = malloc(mcap->chunk.capacity);
    mcap->out.data = malloc(mcap->out.capacity);
    return mcap->chunk.data && mcap->out.data ? 0 : -ENOMEM;
}

static int mcap_open(void **out_state, int folder, const char *name,
                     const struct capture_info *info)
{
    char file[128];
    snprintf(file, sizeof file, "%s.mcap", name);
    struct mcap_writer *mcap = calloc(1, sizeof *mcap);
    if (!mcap)
        return -ENOMEM;
    mcap->camera = info->camera;
    mcap->units_per_m = info->units_per_m;
    int err = take_memory(mcap, info);
    if (err)
        goto fail;
    mcap->fd = openat(folder, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (mcap->fd < 0) {
        err = -errno;
        goto fail;
    }
    err = write_head(mcap);
    if (err) {
        close(mcap->fd);
        unlinkat(folder, file, 0);
        goto fail;
    }
    *out_state = mcap;
    return 0;
fail:
    free_writer(mcap);
    return err;
}

static int mcap_write(void *state, const struct capture_frame *frame, uint64_t *bytes)
{
    struct mcap_writer *mcap = state;
    const struct depth_frame *image = &frame->image;
    uint64_t before = mcap->position;
    if (!image->depth)
        return 0;
    int err = 0;
    if (!mcap->calibrated) {
        unsigned char calibration[FOXGLOVE_MAX_CALIBRATION_BYTES];
        size_t n = foxglove_put_calibration(&mcap->camera, image->time_ns, calibration);
        err = add_message(mcap, CALIB, image->time_ns, calibration, n, NULL, 0);
        mcap->calibrated = !err;
    }
    unsigned char head[FOXGLOVE_MAX_HEADER_BYTES];
    size_t n_head = foxglove_put_image_header(image, head);
    if (!err)
        err = add_message(mcap, DEPTH, image->time_ns, head, n_head, image->depth,
                          (size_t)image->width_px * image->height_px * sizeof *image->depth);
    *bytes += mcap->position - before;
    return err;
}

static int mcap_message(void *state, enum recorder_topic topic, int64_t time_ns, const void *data,
                        size_t n_bytes)
{
    struct mcap_writer *mcap = state;
    return add_message(mcap, topic == RECORDER_TOPIC_POSE ? POSE : TF, time_ns, data, n_bytes, NULL,
                       0);
}

static void put_statistics(struct mcap_writer *mcap, struct bytes *out)
{
    uint64_t n_all = 0;
    for (int i = 1; i <= N_CHANNELS; i++)
        n_all += mcap->n_messages[i];
    size_t begin = begin_record(out, MCAP_STATISTICS);
    put_number(out, n_all, 8);
    put_number(out, N_CHANNELS, 2); // schemas
    put_number(out, N_CHANNELS, 4);
    put_number(out, 0, 4); // attachments
    put_number(out, 0, 4); // metadata records
    put_number(out, mcap->n_chunks, 4);
    put_number(out, (uint64_t)mcap->begin_ns, 8);
    put_number(out, (uint64_t)mcap->end_ns, 8);
    put_number(out, 10 * N_CHANNELS, 4);
    for (uint16_t i = 1; i <= N_CHANNELS; i++) {
        put_number(out, i, 2);
        put_number(out, mcap->n_messages[i], 8);
    }
    end_record(out, begin);
}

static void put_chunk_index(struct bytes *out, const struct chunk_place *place)
{
    size_t begin = begin_record(out, MCAP_CHUNK_INDEX), n = 0;
    put_number(out, (uint64_t)place->first_ns, 8);
    put_number(out, (uint64_t)place->last_ns, 8);
    put_number(out, place->offset, 8);
    put_number(out, place->n_bytes, 8);
    for (int i = 1; i <= N_CHANNELS; i++)
        n += place->index_offsets[i] != 0;
    put_number(out, 10 * n, 4);
    for (uint16_t i = 1; i <= N_CHANNELS; i++)
        if (place->index_offsets[i]) {
            put_number(out, i, 2);
            put_number(out, place->index_offsets[i], 8);
        }
    put_number(out, place->n_index_bytes, 8);
#ifdef POSED_HAVE_ZSTD
    put_string(out, "zstd");
#else
    put_string(out, "");
#endif
    put_number(out, place->n_packed, 8);
    put_number(out, place->n_raw, 8);
    end_record(out, begin);
}

static void put_offset(struct bytes *out, enum mcap_opcode group, uint64_t start, uint64_t n_bytes)
{
    if (!n_bytes)
        return;
    size_t begin = begin_record(out, MCAP_SUMMARY_OFFSET);
    put_number(out, group, 1);
    put_number(out, start, 8);
    put_number(out, n_bytes, 8);
    end_record(out, begin);
}

// DataEnd, summary and footer.
static int write_tail(struct mcap_writer *mcap)
{
    struct bytes *out = &mcap->out, tail = {.capacity = 65536 + mcap->n_chunks * CHUNK_INDEX_BYTES};
    tail.data = malloc(tail.capacity);
    if (!tail.data)
        return -ENOMEM;
    out->n = 0;
    size_t begin = begin_record(out, MCAP_DATA_END);
    put_number(out, mcap->data_crc, 4);
    end_record(out, begin);
    uint64_t start = mcap->position + out->n, at[5];
    at[0] = start;
    put_schemas(&tail);
    at[1] = start + tail.n;
    put_channels(&tail, mcap->units_per_m);
    at[2] = start + tail.n;
    put_statistics(mcap, &tail);
    at[3] = start + tail.n;
    for (size_t i = 0; i < mcap->n_chunks; i++)
        put_chunk_index(&tail, &mcap->chunks[i]);
    at[4] = start + tail.n;
    static const enum mcap_opcode groups[4] = {MCAP_SCHEMA, MCAP_CHANNEL, MCAP_STATISTICS,
                                               MCAP_CHUNK_INDEX};
    for (int i = 0; i < 4; i++)
        put_offset(&tail, groups[i], at[i], at[i + 1] - at[i]);
    begin = begin_record(&tail, MCAP_FOOTER);
    put_number(&tail, start, 8);
    put_number(&tail, at[4], 8);
    mcap_put(tail.data + begin - 8, 20, 8); // the checksum covers the footer's length, too
    put_number(&tail, crc32(0, tail.data, (uInt)tail.n), 4);
    put(&tail, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    int err = writer_append(mcap->fd, out->data, out->n);
    if (!err)
        err = writer_append(mcap->fd, tail.data, tail.n);
    free(tail.data);
    return err;
}

static int mcap_close(void *state)
{
    struct mcap_writer *mcap = state;
    int err = flush_chunk(mcap);
    if (!err)
        err = write_tail(mcap);
    if (close(mcap->fd) && !err)
        err = -errno;
    free_writer(mcap);
    return err;
}

const struct writer_format writer_mcap = {
    .name = "mcap",
    .suffix = ".mcap",
    .open = mcap_open,
    .write = mcap_write,
    .message = mcap_message,
    .close = mcap_close,
};
