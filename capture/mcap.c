// SPDX-License-Identifier: Apache-2.0
// Driver `mcap`. The file is walked once from the front: chunk headers and the message indexes
// behind them say where the images are without unpacking; only chunks without such an index, and
// the first ones, until channel and calibration are known, are unpacked.
#include "capture/mcap.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#ifdef POSED_HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef POSED_HAVE_LZ4
#include <lz4frame.h>
#endif

#include "capture/driver.h"
#include "capture/foxglove.h"

static const struct intrinsics default_camera = {525, 525, 319.5, 239.5, 640, 480};
#define DEFAULT_UNITS_PER_M 1000
#define MAX_SCHEMAS         1024 // ids of image and calibration schemas that are remembered

struct mcap_reader {
    int fd;
    uint64_t n_file_bytes;
    unsigned char *packed, *raw;
    size_t n_packed_capacity, n_raw_capacity;
    uint64_t chunk; // number of the chunk in `raw`, MCAP_NO_CHUNK = none
    size_t n_raw_bytes;
    const char *reason; // of the last failure
#ifdef POSED_HAVE_ZSTD
    ZSTD_DCtx *zstd;
#endif
#ifdef POSED_HAVE_LZ4
    LZ4F_dctx *lz4;
#endif
};

// A file without a topic `depth` or without a calibration is searched for them in its first chunks.
#define SEARCHED_CHUNKS 4

enum chunk_state { CHUNK_UNREAD, CHUNK_READ, CHUNK_INDEXED };

// What the walk has learned and has not yet put into the index.
struct walk {
    struct mcap_reader *reader;
    struct mcap_index *index;
    uint16_t image_schemas[MAX_SCHEMAS], calib_schemas[MAX_SCHEMAS];
    size_t n_image_schemas, n_calib_schemas;
    bool has_depth_topic; // the channel's topic is `depth`, no other takes its place
    bool has_calib_channel, has_camera;
    uint16_t calib_channel;
    bool unsupported; // a chunk had a compression that was not built in
    size_t n_bad_chunks;
};

int mcap_reader_create(struct mcap_reader **out, int fd)
{
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st))
        return -errno;
    struct mcap_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return -ENOMEM;
    reader->fd = fd;
    reader->n_file_bytes = (uint64_t)st.st_size;
    reader->chunk = MCAP_NO_CHUNK;
    bool good = true;
#ifdef POSED_HAVE_ZSTD
    reader->zstd = ZSTD_createDCtx();
    good = good && reader->zstd;
#endif
#ifdef POSED_HAVE_LZ4
    good = good && !LZ4F_isError(LZ4F_createDecompressionContext(&reader->lz4, LZ4F_VERSION));
#endif
    if (!good)
        mcap_reader_destroy(&reader);
    *out = reader;
    return good ? 0 : -ENOMEM;
}

void mcap_reader_destroy(struct mcap_reader **reader)
{
    if (!*reader)
        return;
#ifdef POSED_HAVE_ZSTD
    ZSTD_freeDCtx((*reader)->zstd);
#endif
#ifdef POSED_HAVE_LZ4
    LZ4F_freeDecompressionContext((*reader)->lz4);
#endif
    free((*reader)->packed);
    free((*reader)->raw);
    free(*reader);
    *reader = NULL;
}

static int read_at(struct mcap_reader *reader, void *out, size_t n_bytes, uint64_t offset)
{
    if (offset > reader->n_file_bytes || n_bytes > reader->n_file_bytes - offset)
        return -EBADMSG;
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pread(reader->fd, (char *)out + done, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return -EBADMSG;
        if (n > 0)
            done += (size_t)n;
    }
    return 0;
}

static int reserve(unsigned char **buffer, size_t *capacity, size_t n_bytes)
{
    if (n_bytes <= *capacity)
        return 0;
    unsigned char *grown = realloc(*buffer, n_bytes);
    if (!grown)
        return -ENOMEM;
    *buffer = grown;
    *capacity = n_bytes;
    return 0;
}

static int unpack(struct mcap_reader *reader, const char *compression, const unsigned char *packed,
                  size_t n_packed, size_t n_raw)
{
    size_t n_out = 0;
    if (!*compression) {
        n_out = n_packed;
        if (n_packed == n_raw)
            memcpy(reader->raw, packed, n_raw);
#ifdef POSED_HAVE_ZSTD
    } else if (!strcmp(compression, "zstd")) {
        n_out = ZSTD_decompressDCtx(reader->zstd, reader->raw, n_raw, packed, n_packed);
#endif
#ifdef POSED_HAVE_LZ4
    } else if (!strcmp(compression, "lz4")) {
        size_t n_in = 0, left = 1;
        LZ4F_resetDecompressionContext(reader->lz4);
        while (left && !LZ4F_isError(left) && n_in < n_packed) {
            size_t n_dst = n_raw - n_out, n_src = n_packed - n_in;
            left = LZ4F_decompress(reader->lz4, reader->raw + n_out, &n_dst, packed + n_in, &n_src,
                                   NULL);
            n_out += n_dst;
            n_in += n_src;
            if (!n_dst && !n_src)
                break;
        }
#endif
    } else {
        reader->reason = "a chunk is compressed in a way that this program was not built for";
        return -ENOTSUP;
    }
    if (n_out == n_raw) // the libraries' error codes are no such size
        return 0;
    reader->reason = "a chunk does not unpack to its size";
    return -EBADMSG;
}

// Unpacks a chunk into reader->raw. Returns 0, -EBADMSG, -ENOTSUP, -ENOMEM or -EIO with a reason.
static int load_chunk(struct mcap_reader *reader, const struct mcap_index *index, uint64_t number)
{
    if (reader->chunk == number)
        return 0;
    reader->chunk = MCAP_NO_CHUNK;
    const struct mcap_chunk *chunk = &index->chunks[number];
    reader->reason = "a chunk is too long, or cannot be read";
    if (chunk->n_bytes < 40 || chunk->n_bytes > MCAP_MAX_CHUNK_BYTES)
        return -EBADMSG;
    size_t n = (size_t)chunk->n_bytes;
    int err = reserve(&reader->packed, &reader->n_packed_capacity, n);
    if (!err)
        err = read_at(reader, reader->packed, n, chunk->offset);
    if (err)
        return err;
    const unsigned char *p = reader->packed;
    uint64_t n_raw = mcap_get(p + 16, 8), n_name = mcap_get(p + 28, 4);
    uint32_t crc = (uint32_t)mcap_get(p + 24, 4);
    char compression[8] = {0};
    reader->reason = "malformed chunk";
    if (n_raw > MCAP_MAX_CHUNK_BYTES || n_name >= sizeof compression || n < 40 + n_name)
        return -EBADMSG;
    memcpy(compression, p + 32, n_name);
    uint64_t n_packed = mcap_get(p + 32 + n_name, 8);
    if (n_packed > n - 40 - n_name)
        return -EBADMSG;
    err = reserve(&reader->raw, &reader->n_raw_capacity, (size_t)n_raw + 1);
    if (!err)
        err = unpack(reader, compression, p + 40 + n_name, (size_t)n_packed, (size_t)n_raw);
    if (err)
        return err;
    if (crc && crc32(0, reader->raw, (uInt)n_raw) != crc) {
        reader->reason = "a chunk's checksum is wrong";
        return -EBADMSG;
    }
    reader->chunk = number;
    reader->n_raw_bytes = (size_t)n_raw;
    return 0;
}

static int grow(void **array, size_t *capacity, size_t n, size_t n_element_bytes)
{
    if (n < *capacity)
        return 0;
    size_t more = 2 * *capacity + 256;
    void *grown = realloc(*array, more * n_element_bytes);
    if (!grown)
        return -ENOMEM;
    *array = grown;
    *capacity = more;
    return 0;
}

static int add_frame(struct mcap_index *index, uint64_t time_ns, uint64_t chunk, uint64_t offset)
{
    if (time_ns >= UINT64_C(1) << 62) {
        index->n_skipped++;
        return 0;
    }
    void *frames = index->frames;
    int err = grow(&frames, &index->frame_capacity, index->n_frames, sizeof *index->frames);
    index->frames = frames;
    if (!err)
        index->frames[index->n_frames++] = (struct mcap_frame){(int64_t)time_ns, chunk, offset};
    return err;
}

// A length-prefixed string at *at of n bytes; false when it does not fit.
static bool take_string(const unsigned char *data, size_t n, size_t *at, const char **out,
                        size_t *out_n)
{
    if (n - *at < 4)
        return false;
    size_t length = (size_t)mcap_get(data + *at, 4);
    if (length > n - *at - 4)
        return false;
    *out = (const char *)data + *at + 4;
    *out_n = length;
    *at += 4 + length;
    return true;
}

static bool is_text(const char *text, size_t n, const char *expected)
{
    return n == strlen(expected) && !memcmp(text, expected, n);
}

static void take_schema(struct walk *walk, const unsigned char *data, size_t n)
{
    const char *name, *encoding;
    size_t at = 2, n_name, n_encoding;
    if (n < 2 || !take_string(data, n, &at, &name, &n_name) ||
        !take_string(data, n, &at, &encoding, &n_encoding) ||
        !is_text(encoding, n_encoding, "protobuf"))
        return;
    uint16_t id = (uint16_t)mcap_get(data, 2);
    if (is_text(name, n_name, "foxglove.RawImage") && walk->n_image_schemas < MAX_SCHEMAS)
        walk->image_schemas[walk->n_image_schemas++] = id;
    if (is_text(name, n_name, "foxglove.CameraCalibration") && walk->n_calib_schemas < MAX_SCHEMAS)
        walk->calib_schemas[walk->n_calib_schemas++] = id;
}

static bool is_among(const uint16_t *ids, size_t n, uint16_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

// units_per_m of the channel's metadata, 0 when it is not there.
static double take_units(const unsigned char *data, size_t n, size_t at)
{
    if (n - at < 4)
        return 0;
    at += 4; // the map's length; its strings are checked one by one
    const char *key, *value;
    size_t n_key, n_value;
    while (take_string(data, n, &at, &key, &n_key) && take_string(data, n, &at, &value, &n_value)) {
        char number[40] = {0};
        if (!is_text(key, n_key, "units_per_m") || n_value >= sizeof number)
            continue;
        memcpy(number, value, n_value);
        double units = strtod(number, NULL);
        return units >= 1 && units <= 1e6 ? units : 0;
    }
    return 0;
}

static void take_channel(struct walk *walk, const unsigned char *data, size_t n)
{
    const char *topic, *encoding;
    size_t at = 4, n_topic, n_encoding;
    if (n < 4 || !take_string(data, n, &at, &topic, &n_topic) ||
        !take_string(data, n, &at, &encoding, &n_encoding) ||
        !is_text(encoding, n_encoding, "protobuf"))
        return;
    struct mcap_index *index = walk->index;
    uint16_t id = (uint16_t)mcap_get(data, 2), schema = (uint16_t)mcap_get(data + 2, 2);
    bool is_depth = is_text(topic, n_topic, "depth");
    if (is_among(walk->calib_schemas, walk->n_calib_schemas, schema) && !walk->has_calib_channel) {
        walk->has_calib_channel = true;
        walk->calib_channel = id;
    }
    // frames of another channel are dropped by the caller when `depth` turns up later
    if (is_among(walk->image_schemas, walk->n_image_schemas, schema) &&
        (!index->has_channel || (is_depth && !walk->has_depth_topic))) {
        index->n_frames = index->has_channel && index->channel != id ? 0 : index->n_frames;
        index->has_channel = true;
        index->channel = id;
        index->units_per_m = take_units(data, n, at);
        walk->has_depth_topic = is_depth;
    }
}

static int take_message(struct walk *walk, const unsigned char *data, size_t n, uint64_t chunk,
                        uint64_t offset)
{
    if (n < MCAP_MESSAGE_HEADER_BYTES)
        return 0;
    struct mcap_index *index = walk->index;
    uint16_t channel = (uint16_t)mcap_get(data, 2);
    if (walk->has_calib_channel && channel == walk->calib_channel && !walk->has_camera)
        walk->has_camera = foxglove_get_calibration(data + MCAP_MESSAGE_HEADER_BYTES,
                                                    n - MCAP_MESSAGE_HEADER_BYTES, &index->camera);
    if (!index->has_channel || channel != index->channel)
        return 0;
    struct foxglove_image image;
    if (!index->width_px && foxglove_get_image(data + MCAP_MESSAGE_HEADER_BYTES,
                                               n - MCAP_MESSAGE_HEADER_BYTES, &image)) {
        index->width_px = image.width_px;
        index->height_px = image.height_px;
    }
    return add_frame(index, mcap_get(data + 6, 8), chunk, offset);
}

// All records of an unpacked chunk.
static int walk_chunk(struct walk *walk, uint64_t number)
{
    struct mcap_reader *reader = walk->reader;
    int err = load_chunk(reader, walk->index, number);
    walk->unsupported = walk->unsupported || err == -ENOTSUP;
    walk->n_bad_chunks += err == -EBADMSG || err == -ENOTSUP;
    if (err)
        return err == -EBADMSG || err == -ENOTSUP ? 0 : err;
    const unsigned char *raw = reader->raw;
    size_t n = reader->n_raw_bytes;
    for (size_t at = 0; n - at >= MCAP_RECORD_BYTES && !err;) {
        uint64_t n_record = mcap_get(raw + at + 1, 8);
        const unsigned char *data = raw + at + MCAP_RECORD_BYTES;
        if (n_record > n - at - MCAP_RECORD_BYTES)
            break;
        if (raw[at] == MCAP_SCHEMA)
            take_schema(walk, data, (size_t)n_record);
        else if (raw[at] == MCAP_CHANNEL)
            take_channel(walk, data, (size_t)n_record);
        else if (raw[at] == MCAP_MESSAGE)
            err = take_message(walk, data, (size_t)n_record, number, at);
        at += MCAP_RECORD_BYTES + (size_t)n_record;
    }
    return err;
}

static int add_chunk(struct mcap_index *index, uint64_t offset, uint64_t n_bytes)
{
    void *chunks = index->chunks;
    int err = grow(&chunks, &index->chunk_capacity, index->n_chunks, sizeof *index->chunks);
    index->chunks = chunks;
    if (!err)
        index->chunks[index->n_chunks++] = (struct mcap_chunk){offset, n_bytes};
    return err;
}

// A small record of the file itself into reader->packed.
static int load_record(struct mcap_reader *reader, uint64_t offset, uint64_t n_bytes)
{
    if (n_bytes > MCAP_MAX_CHUNK_BYTES)
        return -EBADMSG;
    int err = reserve(&reader->packed, &reader->n_packed_capacity, (size_t)n_bytes + 1);
    return err ? err : read_at(reader, reader->packed, (size_t)n_bytes, offset);
}

static int take_message_index(struct walk *walk, uint64_t n_bytes)
{
    const unsigned char *data = walk->reader->packed;
    struct mcap_index *index = walk->index;
    if (n_bytes < 6 || mcap_get(data, 2) != index->channel)
        return 0;
    uint64_t n = mcap_get(data + 2, 4);
    if (n > n_bytes - 6)
        return 0;
    int err = 0;
    for (uint64_t at = 0; at + 16 <= n && !err; at += 16)
        err = add_frame(index, mcap_get(data + 6 + at, 8), index->n_chunks - 1,
                        mcap_get(data + 6 + at + 8, 8));
    return err;
}

// Until all is known about the channel a chunk is unpacked; later its message index is enough.
static bool is_known(const struct walk *walk)
{
    const struct mcap_index *index = walk->index;
    bool searched = walk->has_depth_topic && walk->has_camera;
    return index->has_channel && index->width_px && (searched || index->n_chunks > SEARCHED_CHUNKS);
}

// One record of the file. *chunk is the state of the last chunk.
static int take_record(struct walk *walk, unsigned opcode, uint64_t offset, uint64_t n_bytes,
                       enum chunk_state *chunk)
{
    struct mcap_index *index = walk->index;
    int err = 0;
    if (*chunk == CHUNK_UNREAD && opcode == MCAP_MESSAGE_INDEX && is_known(walk))
        *chunk = CHUNK_INDEXED;
    if (*chunk == CHUNK_UNREAD) { // no index follows it, or it is to be looked into
        *chunk = CHUNK_READ;
        err = walk_chunk(walk, index->n_chunks - 1);
    }
    if (err || (opcode == MCAP_MESSAGE_INDEX && *chunk != CHUNK_INDEXED))
        return err;
    if (opcode == MCAP_CHUNK) {
        *chunk = CHUNK_UNREAD;
        return add_chunk(index, offset, n_bytes);
    }
    if (opcode != MCAP_SCHEMA && opcode != MCAP_CHANNEL && opcode != MCAP_MESSAGE &&
        opcode != MCAP_MESSAGE_INDEX)
        return 0;
    err = load_record(walk->reader, offset, n_bytes);
    if (err)
        return err;
    const unsigned char *data = walk->reader->packed;
    if (opcode == MCAP_SCHEMA)
        take_schema(walk, data, (size_t)n_bytes);
    else if (opcode == MCAP_CHANNEL)
        take_channel(walk, data, (size_t)n_bytes);
    else if (opcode == MCAP_MESSAGE)
        return take_message(walk, data, (size_t)n_bytes, MCAP_NO_CHUNK, offset - MCAP_RECORD_BYTES);
    else
        return take_message_index(walk, n_bytes);
    return 0;
}

static int compare_frames(const void *a, const void *b)
{
    const struct mcap_frame *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->chunk != y->chunk)
        return x->chunk < y->chunk ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void put_in_order(struct mcap_index *index)
{
    size_t n_kept = 0;
    if (index->n_frames)
        qsort(index->frames, index->n_frames, sizeof *index->frames, compare_frames);
    for (size_t i = 0; i < index->n_frames; i++)
        if (i == 0 || index->frames[i].time_ns != index->frames[n_kept - 1].time_ns)
            index->frames[n_kept++] = index->frames[i];
    index->n_skipped += index->n_frames - n_kept;
    index->n_frames = n_kept;
}

// Returns 0 at the end of the data or of what there is of it; *out_complete tells which.
static int walk_file(struct walk *walk, bool *out_complete)
{
    struct mcap_reader *reader = walk->reader;
    uint64_t at = MCAP_MAGIC_BYTES;
    enum chunk_state chunk = CHUNK_READ;
    int err = 0;
    *out_complete = false;
    while (!err && !*out_complete) {
        unsigned char head[MCAP_RECORD_BYTES];
        if (reader->n_file_bytes - at < sizeof head)
            break;
        err = read_at(reader, head, sizeof head, at);
        uint64_t n_bytes = mcap_get(head + 1, 8);
        at += sizeof head;
        if (err || n_bytes > reader->n_file_bytes - at)
            break;
        err = take_record(walk, head[0], at, n_bytes, &chunk);
        at += n_bytes;
        *out_complete = head[0] == MCAP_DATA_END || head[0] == MCAP_FOOTER;
    }
    if (!err && chunk == CHUNK_UNREAD)
        err = walk_chunk(walk, walk->index->n_chunks - 1);
    return err;
}

int mcap_scan(struct mcap_reader *reader, const char *name, const struct log_sink *log,
              struct mcap_index *out)
{
    unsigned char magic[MCAP_MAGIC_BYTES];
    bool complete = false;
    *out = (struct mcap_index){0};
    struct walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return -ENOMEM;
    walk->reader = reader;
    walk->index = out;
    const char *reason = NULL;
    int err = read_at(reader, magic, sizeof magic, 0);
    if (err == -EBADMSG || (!err && memcmp(magic, MCAP_MAGIC, MCAP_MAGIC_BYTES) != 0)) {
        reason = "not an MCAP file";
        err = -EINVAL;
    }
    if (!err)
        err = walk_file(walk, &complete);
    if (!err)
        put_in_order(out);
    if (!err && walk->unsupported && !out->n_frames) {
        reason = "its chunks are compressed in a way that this program was not built for";
        err = -ENOTSUP;
    } else if (!err && !out->has_channel) {
        reason = "no channel with protobuf foxglove.RawImage";
        err = -EINVAL;
    } else if (!err && !out->n_frames) {
        reason = "no depth image";
        err = -ENOENT;
    }
    if (err)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, reason ? reason : strerror(-err));
    else if (!complete)
        log_to(log, LOG_LEVEL_WARNING, "%s: incomplete, ends after %zu images", name,
               out->n_frames);
    if (!err && walk->n_bad_chunks)
        log_to(log, LOG_LEVEL_WARNING, "%s: %zu chunks could not be read (%s)", name,
               walk->n_bad_chunks, reader->reason);
    if (!err && out->n_skipped)
        log_to(log, LOG_LEVEL_WARNING, "%s: %zu images skipped, their time repeats", name,
               out->n_skipped);
    if (err)
        mcap_index_free(out);
    free(walk);
    return err;
}

void mcap_index_free(struct mcap_index *index)
{
    free(index->frames);
    free(index->chunks);
    *index = (struct mcap_index){0};
}

// The message record of a frame. Returns NULL with a reason.
static const unsigned char *find_message(struct mcap_reader *reader, const struct mcap_index *index,
                                         const struct mcap_frame *frame, size_t *out_n)
{
    const unsigned char *record;
    uint64_t n_room;
    if (frame->chunk == MCAP_NO_CHUNK) {
        unsigned char head[MCAP_RECORD_BYTES];
        reader->reason = "cannot be read";
        if (read_at(reader, head, sizeof head, frame->offset))
            return NULL;
        n_room = mcap_get(head + 1, 8);
        if (n_room > MCAP_MAX_CHUNK_BYTES ||
            load_record(reader, frame->offset, n_room + MCAP_RECORD_BYTES))
            return NULL;
        record = reader->packed;
        n_room += MCAP_RECORD_BYTES;
    } else {
        if (load_chunk(reader, index, frame->chunk))
            return NULL;
        reader->reason = "the index leads out of its chunk";
        if (frame->offset >= reader->n_raw_bytes)
            return NULL;
        record = reader->raw + frame->offset;
        n_room = reader->n_raw_bytes - frame->offset;
    }
    reader->reason = "the index does not lead to a depth message";
    if (n_room < MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES || record[0] != MCAP_MESSAGE)
        return NULL;
    uint64_t n_message = mcap_get(record + 1, 8);
    if (n_message < MCAP_MESSAGE_HEADER_BYTES || n_message > n_room - MCAP_RECORD_BYTES ||
        mcap_get(record + MCAP_RECORD_BYTES, 2) != index->channel)
        return NULL;
    *out_n = (size_t)n_message - MCAP_MESSAGE_HEADER_BYTES;
    return record + MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES;
}

int mcap_decode(struct mcap_reader *reader, const struct mcap_index *index, uint64_t i,
                uint16_t *out_pixels, const char **out_reason)
{
    size_t n;
    struct foxglove_image image;
    const unsigned char *message = find_message(reader, index, &index->frames[i], &n);
    *out_reason = reader->reason;
    if (!message)
        return -EBADMSG;
    *out_reason = "malformed image message";
    if (!foxglove_get_image(message, n, &image))
        return -EBADMSG;
    *out_reason = "image size differs from the recording's";
    if (image.width_px != index->width_px || image.height_px != index->height_px)
        return -EBADMSG;
    *out_reason = "not a 16UC1 or mono16 image";
    if ((strcmp(image.encoding, "16UC1") != 0 && strcmp(image.encoding, "mono16") != 0) ||
        image.step_bytes < 2 * (uint64_t)image.width_px)
        return -EBADMSG;
    for (uint32_t y = 0; y < image.height_px; y++) {
        const unsigned char *row = image.data + (size_t)y * image.step_bytes;
        uint16_t *out = out_pixels + (size_t)y * image.width_px;
        for (uint32_t x = 0; x < image.width_px; x++)
            out[x] = (uint16_t)(row[2 * x] | row[2 * x + 1] << 8);
    }
    return 0;
}

// ---- driver ----

struct mcap {
    struct mcap_reader *reader;
    struct mcap_index index;
    int fd;
    char *path;
    struct log_sink log;
};

static void mcap_close(void *state)
{
    struct mcap *mcap = state;
    mcap_index_free(&mcap->index);
    mcap_reader_destroy(&mcap->reader);
    if (mcap->fd >= 0)
        close(mcap->fd);
    free(mcap->path);
    free(mcap);
}

static int take_camera(const struct mcap *mcap, const struct capture_settings *settings,
                       struct capture_info *out_info)
{
    const struct mcap_index *index = &mcap->index;
    struct intrinsics camera = index->camera;
    const char *reason = NULL;
    if (index->width_px < 1 || index->width_px > CAPTURE_MAX_SIDE_PX || index->height_px < 1 ||
        index->height_px > CAPTURE_MAX_SIDE_PX)
        reason = "image size out of range";
    else if (camera.fx_px != 0 &&
             !(camera.fx_px > 0 && isfinite(camera.fx_px) && isfinite(camera.fy_px) &&
               camera.fy_px != 0 && isfinite(camera.cx_px) && isfinite(camera.cy_px)))
        reason = "the calibration is not one of a camera";
    if (reason) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%s: %s", mcap->path, reason);
        return -EINVAL;
    }
    if (camera.fx_px == 0) {
        camera = default_camera;
        log_to(&settings->log, LOG_LEVEL_WARNING,
               "%s: no calibration, taken for the usual camera of 640x480", mcap->path);
    }
    bool overridden = settings->fx_px != 0 && settings->fy_px != 0 && settings->cx_px != 0 &&
                      settings->cy_px != 0;
    if (!overridden &&
        (camera.width_px != index->width_px || camera.height_px != index->height_px)) {
        log_to(&settings->log, settings->allow_implausible ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
               "%s: images are %ux%u, but the calibration is for %ux%u", mcap->path,
               index->width_px, index->height_px, camera.width_px, camera.height_px);
        if (!settings->allow_implausible)
            return -ERANGE;
    }
    out_info->camera = camera;
    out_info->camera.width_px = index->width_px;
    out_info->camera.height_px = index->height_px;
    out_info->units_per_m = index->units_per_m != 0 ? index->units_per_m : DEFAULT_UNITS_PER_M;
    return 0;
}

static int mcap_open(void **out_state, const char *location,
                     const struct capture_settings *settings, struct capture_info *out_info)
{
    struct mcap *mcap = calloc(1, sizeof *mcap);
    if (!mcap)
        return -ENOMEM;
    struct stat st;
    mcap->log = settings->log;
    mcap->path = strdup(location);
    mcap->fd = open(location, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int err = mcap->fd < 0 || fstat(mcap->fd, &st) ? -errno : mcap->path ? 0 : -ENOMEM;
    if (!err && !S_ISREG(st.st_mode))
        err = -EINVAL;
    if (err) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%s: %s", location,
               err == -EINVAL ? "not a regular file" : strerror(-err));
        goto fail;
    }
    err = mcap_reader_create(&mcap->reader, mcap->fd);
    if (!err)
        err = mcap_scan(mcap->reader, location, &settings->log, &mcap->index);
    if (!err)
        err = take_camera(mcap, settings, out_info);
    if (err)
        goto fail;
    out_info->n_frames = mcap->index.n_frames;
    *out_state = mcap;
    return 0;
fail:
    mcap_close(mcap);
    return err;
}

static void mcap_stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    const struct mcap *mcap = state;
    *out_time_ns = mcap->index.frames[i].time_ns;
    *out_index = i;
}

static int mcap_decode_frame(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    (void)frame;
    struct mcap *mcap = state;
    const char *reason;
    int err = mcap_decode(mcap->reader, &mcap->index, i, pixels, &reason);
    if (err)
        log_to(&mcap->log, LOG_LEVEL_WARNING, "%s: image %llu: %s", mcap->path,
               (unsigned long long)i, reason);
    return err;
}

const struct capture_driver capture_driver_mcap = {
    .name = "mcap",
    .summary = "MCAP file with 16UC1 foxglove.RawImage (posed's recorder and others)",
    .open = mcap_open,
    .stamp = mcap_stamp,
    .decode = mcap_decode_frame,
    .close = mcap_close,
};
