// SPDX-License-Identifier: Apache-2.0
// Driver `ros1bag`: the ROS 1 bag, version 2.0 (wiki.ros.org/Bags/Format/2.0). After its first line
// the file is a list of records, each {u32 header length, fields {u32 length, name=value}, u32 data
// length, data}, all little-endian. Messages stand in chunks, plain or packed (bz2, lz4 frames);
// the connections that say what they are stand before them. The index at the end is not needed: a
// recording that broke off has none.
//
// Nothing in the file is trusted: lengths are checked against what is there, and chunks against
// MAX_CHUNK_BYTES, before memory is taken.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef POSED_HAVE_BZ2
#include <bzlib.h>
#endif
#ifdef POSED_HAVE_LZ4
#include <lz4frame.h>
#endif

#include "capture/io/folder.h"
#include "capture/ros/select_topic.h"

#define MAGIC           "#ROSBAG V2.0\n"
#define MAGIC_BYTES     13
#define MAX_CHUNK_BYTES ((uint64_t)256 << 20)

enum op { OP_MESSAGE = 2, OP_HEADER = 3, OP_CHUNK = 5, OP_CONNECTION = 7 };

struct ros1bag {
    int fd;
    uint64_t n_file_bytes;
    unsigned char *packed, *raw;
    size_t n_packed_capacity, n_raw_capacity, n_raw_bytes;
    uint64_t chunk; // offset of the chunk in `raw`, UINT64_MAX = none
    const char *reason;
#ifdef POSED_HAVE_LZ4
    LZ4F_dctx *lz4;
#endif
};

struct text {
    const unsigned char *data;
    size_t n;
};

static uint32_t u32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
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

// A field of a record's header; n = 0 when it is not there.
static struct text field(struct text header, const char *name)
{
    size_t n_name = strlen(name);
    for (size_t at = 0; header.n - at >= 4;) {
        size_t n = u32(header.data + at);
        const unsigned char *data = header.data + at + 4;
        if (n > header.n - at - 4)
            break;
        if (n > n_name && !memcmp(data, name, n_name) && data[n_name] == '=')
            return (struct text){data + n_name + 1, n - n_name - 1};
        at += 4 + n;
    }
    return (struct text){header.data, 0};
}

static uint32_t number_field(struct text header, const char *name, uint32_t missing)
{
    struct text value = field(header, name);
    return value.n == 4 ? u32(value.data) : missing;
}

static unsigned op_of(struct text header)
{
    struct text op = field(header, "op");
    return op.n == 1 ? op.data[0] : 0;
}

// The record at *at of n bytes. Returns false when it is not there as a whole.
static bool next_record(const unsigned char *data, size_t n, size_t *at, struct text *out_header,
                        struct text *out_data)
{
    if (n - *at < 4)
        return false;
    size_t n_header = u32(data + *at), left = n - *at - 4;
    if (n_header > left || left - n_header < 4)
        return false;
    *out_header = (struct text){data + *at + 4, n_header};
    size_t n_data = u32(data + *at + 4 + n_header);
    if (n_data > left - n_header - 4)
        return false;
    *out_data = (struct text){data + *at + 8 + n_header, n_data};
    *at += 8 + n_header + n_data;
    return true;
}

// ---- chunks ----

static bool is_text(struct text text, const char *expected)
{
    return text.n == strlen(expected) && !memcmp(text.data, expected, text.n);
}

static int unpack(struct ros1bag *ros1bag, struct text compression, struct text packed,
                  size_t n_raw)
{
    size_t n_out = 0;
    if (is_text(compression, "none")) {
        n_out = packed.n;
        if (n_out == n_raw)
            memcpy(ros1bag->raw, packed.data, n_raw);
#ifdef POSED_HAVE_BZ2
    } else if (is_text(compression, "bz2")) {
        unsigned n_bz2 = (unsigned)n_raw;
        char *source = (char *)packed.data; // it is not written to
        if (BZ2_bzBuffToBuffDecompress((char *)ros1bag->raw, &n_bz2, source, (unsigned)packed.n, 0,
                                       0) == BZ_OK)
            n_out = n_bz2;
#endif
#ifdef POSED_HAVE_LZ4
    } else if (is_text(compression, "lz4")) {
        size_t n_in = 0, left = 1;
        LZ4F_resetDecompressionContext(ros1bag->lz4);
        while (left && !LZ4F_isError(left) && n_in < packed.n) {
            size_t n_dst = n_raw - n_out, n_src = packed.n - n_in;
            left = LZ4F_decompress(ros1bag->lz4, ros1bag->raw + n_out, &n_dst, packed.data + n_in,
                                   &n_src, NULL);
            n_out += n_dst;
            n_in += n_src;
            if (!n_dst && !n_src)
                break;
        }
#endif
    } else {
        ros1bag->reason = "a chunk is packed in a way that this program was not built for";
        return -ENOTSUP;
    }
    if (n_out == n_raw)
        return 0;
    ros1bag->reason = "a chunk does not unpack to its size";
    return -EBADMSG;
}

// Lengths and header of the record at `offset` of the file, in memory until the next call.
static int read_head(struct ros1bag *ros1bag, uint64_t offset, struct text *out_header,
                     uint64_t *out_data_offset, uint32_t *out_n_data)
{
    unsigned char length[4];
    if (offset > ros1bag->n_file_bytes || ros1bag->n_file_bytes - offset < 8)
        return -EBADMSG;
    int err = file_read_at(ros1bag->fd, length, 4, offset);
    uint32_t n = u32(length);
    if (!err && n > ros1bag->n_file_bytes - offset - 8)
        err = -EBADMSG;
    if (!err)
        err = reserve(&ros1bag->packed, &ros1bag->n_packed_capacity, (size_t)n + 4);
    if (!err)
        err = file_read_at(ros1bag->fd, ros1bag->packed, (size_t)n + 4, offset + 4);
    if (err)
        return err;
    *out_header = (struct text){ros1bag->packed, n};
    *out_n_data = u32(ros1bag->packed + n);
    *out_data_offset = offset + 8 + n;
    return *out_n_data > ros1bag->n_file_bytes - *out_data_offset ? -EBADMSG : 0;
}

// Unpacks the chunk whose record stands at `offset`.
static int load_chunk(struct ros1bag *ros1bag, uint64_t offset)
{
    struct text header;
    uint64_t data_offset;
    uint32_t n_data;
    if (ros1bag->chunk == offset)
        return 0;
    ros1bag->chunk = UINT64_MAX;
    ros1bag->reason = "a chunk is too long, or cannot be read";
    int err = read_head(ros1bag, offset, &header, &data_offset, &n_data);
    if (err)
        return err;
    uint32_t n_raw = number_field(header, "size", UINT32_MAX);
    struct text compression = field(header, "compression");
    if (n_raw > MAX_CHUNK_BYTES || n_data > MAX_CHUNK_BYTES)
        return -EBADMSG;
    size_t n_header = header.n, name = (size_t)(compression.data - header.data);
    err = reserve(&ros1bag->raw, &ros1bag->n_raw_capacity, (size_t)n_raw + 1);
    if (!err)
        err = reserve(&ros1bag->packed, &ros1bag->n_packed_capacity, n_header + n_data + 1);
    compression.data = ros1bag->packed + name; // it may have moved
    if (!err)
        err = file_read_at(ros1bag->fd, ros1bag->packed + n_header, n_data, data_offset);
    if (!err)
        err =
            unpack(ros1bag, compression, (struct text){ros1bag->packed + n_header, n_data}, n_raw);
    if (err)
        return err;
    ros1bag->n_raw_bytes = n_raw;
    ros1bag->chunk = offset;
    return 0;
}

// ---- the walk ----

static int take_connection(struct bag *bag, struct text header, struct text data)
{
    struct text topic = field(header, "topic"), type = field(data, "type");
    uint32_t id = number_field(header, "conn", UINT32_MAX);
    return bag_add_topic(bag, id, (const char *)topic.data, topic.n, (const char *)type.data,
                         type.n, ROS_ENCODING_ROS1);
}

static int take_record(struct bag *bag, struct text header, struct text data,
                       struct bag_place place)
{
    unsigned op = op_of(header);
    if (op == OP_CONNECTION)
        return take_connection(bag, header, data);
    struct text time = field(header, "time");
    if (op != OP_MESSAGE || time.n != 8)
        return 0;
    int64_t time_ns = (int64_t)u32(time.data) * 1000000000 + u32(time.data + 4);
    return bag_add_message(bag, number_field(header, "conn", UINT32_MAX), time_ns, place, data.data,
                           data.n);
}

static int walk_chunk(struct ros1bag *ros1bag, uint64_t offset, struct bag *bag)
{
    int err = load_chunk(ros1bag, offset);
    struct text header, data;
    for (size_t at = 0, next = 0; !err; at = next) {
        if (!next_record(ros1bag->raw, ros1bag->n_raw_bytes, &next, &header, &data))
            break;
        err = take_record(bag, header, data, (struct bag_place){offset, at});
    }
    return err;
}

struct walk {
    uint64_t end;
    bool complete, unsupported;
    size_t n_bad_chunks;
    uint64_t bad_offset; // of the first one
    const char *bad_reason;
};

// A connection or message that stands outside of chunks.
static int load_record(struct ros1bag *ros1bag, uint64_t at, uint64_t n_bytes, struct bag *bag)
{
    struct text header, data;
    size_t begin = 0;
    if (n_bytes > MAX_CHUNK_BYTES)
        return 0;
    int err = reserve(&ros1bag->packed, &ros1bag->n_packed_capacity, (size_t)n_bytes);
    if (!err)
        err = file_read_at(ros1bag->fd, ros1bag->packed, (size_t)n_bytes, at);
    if (err || !next_record(ros1bag->packed, (size_t)n_bytes, &begin, &header, &data))
        return err;
    return take_record(bag, header, data, (struct bag_place){UINT64_MAX, at});
}

static int walk_file(struct ros1bag *ros1bag, struct bag *bag, struct walk *walk)
{
    int err = 0;
    uint64_t at = MAGIC_BYTES;
    while (!err && at < ros1bag->n_file_bytes) {
        struct text header;
        uint64_t data_offset;
        uint32_t n_data;
        walk->end = at;
        err = read_head(ros1bag, at, &header, &data_offset, &n_data);
        if (err)
            break;
        unsigned op = op_of(header);
        uint64_t next = data_offset + n_data;
        if (op == OP_CHUNK)
            err = walk_chunk(ros1bag, at, bag);
        else if (op == OP_CONNECTION || op == OP_MESSAGE)
            err = load_record(ros1bag, at, next - at, bag);
        if (op == OP_CHUNK && (err == -EBADMSG || err == -ENOTSUP)) {
            walk->unsupported = walk->unsupported || err == -ENOTSUP;
            walk->bad_offset = walk->n_bad_chunks ? walk->bad_offset : at;
            walk->bad_reason = walk->n_bad_chunks ? walk->bad_reason : ros1bag->reason;
            walk->n_bad_chunks++;
            err = 0;
        }
        at = next;
    }
    walk->complete = !err;
    return err == -EBADMSG ? 0 : err;
}

static int create(struct ros1bag **out, int fd)
{
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st))
        return -errno;
    struct ros1bag *ros1bag = calloc(1, sizeof *ros1bag);
    if (!ros1bag)
        return -ENOMEM;
    ros1bag->fd = fd;
    ros1bag->n_file_bytes = (uint64_t)st.st_size;
    ros1bag->chunk = UINT64_MAX;
#ifdef POSED_HAVE_LZ4
    if (LZ4F_isError(LZ4F_createDecompressionContext(&ros1bag->lz4, LZ4F_VERSION))) {
        free(ros1bag);
        return -ENOMEM;
    }
#endif
    *out = ros1bag;
    return 0;
}

static void destroy(struct ros1bag **ros1bag)
{
    if (!*ros1bag)
        return;
#ifdef POSED_HAVE_LZ4
    LZ4F_freeDecompressionContext((*ros1bag)->lz4);
#endif
    free((*ros1bag)->packed);
    free((*ros1bag)->raw);
    free(*ros1bag);
    *ros1bag = NULL;
}

// Walks through the file and tells `bag` of its topics and messages. Returns 0, or a negative errno
// after logging the reason; *out is then NULL.
static int scan(struct ros1bag **out, int fd, struct bag *bag)
{
    char magic[MAGIC_BYTES];
    struct walk walk = {0};
    struct ros1bag *ros1bag = NULL;
    const char *reason = NULL;
    *out = NULL;
    int err = create(&ros1bag, fd);
    if (!err)
        err = file_read_at(fd, magic, sizeof magic, 0);
    if (err == -EBADMSG || (!err && memcmp(magic, MAGIC, MAGIC_BYTES) != 0)) {
        reason = "not a ROS 1 bag of version 2.0";
        err = -EINVAL;
    }
    if (!err)
        err = walk_file(ros1bag, bag, &walk);
    if (!err && walk.unsupported && !bag->n_topics) {
        reason = walk.bad_reason;
        err = -ENOTSUP;
    }
    if (err) {
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: %s", bag->path, reason ? reason : strerror(-err));
        destroy(&ros1bag);
        return err;
    }
    if (!walk.complete)
        log_to(&bag->log, LOG_LEVEL_WARNING, "%s: incomplete, breaks off at byte %llu", bag->path,
               (unsigned long long)walk.end);
    if (walk.n_bad_chunks)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: %zu chunks could not be read, the first at byte %llu (%s)", bag->path,
               walk.n_bad_chunks, (unsigned long long)walk.bad_offset, walk.bad_reason);
    *out = ros1bag;
    return 0;
}

// The bytes of a message, valid until the next call. Returns 0, or -EBADMSG with *out_reason set.
static int load(struct ros1bag *ros1bag, struct bag_place place, const unsigned char **out,
                size_t *out_n, const char **out_reason)
{
    struct text header, data;
    const unsigned char *bytes;
    size_t n, at = (size_t)place.offset;
    *out_reason = "cannot be read";
    if (place.block == UINT64_MAX) {
        uint64_t data_offset;
        uint32_t n_data;
        if (read_head(ros1bag, place.offset, &header, &data_offset, &n_data) ||
            n_data > MAX_CHUNK_BYTES ||
            reserve(&ros1bag->packed, &ros1bag->n_packed_capacity, n_data) ||
            file_read_at(ros1bag->fd, ros1bag->packed, n_data, data_offset))
            return -EBADMSG;
        *out = ros1bag->packed;
        *out_n = n_data;
        return 0;
    }
    if (load_chunk(ros1bag, place.block)) {
        *out_reason = ros1bag->reason;
        return -EBADMSG;
    }
    bytes = ros1bag->raw;
    n = ros1bag->n_raw_bytes;
    if (at > n || !next_record(bytes, n, &at, &header, &data))
        return -EBADMSG;
    *out = data.data;
    *out_n = data.n;
    return 0;
}

// ---- the driver ----

struct state {
    struct bag bag;
    struct ros1bag *ros1bag;
    int fd;
};

static void close_bag(void *state_in)
{
    struct state *state = state_in;
    destroy(&state->ros1bag);
    bag_close(&state->bag);
    if (state->fd >= 0)
        close(state->fd);
    free(state);
}

static int open_bag(void **out_state, const char *location, const struct capture_settings *settings,
                    struct capture_info *out_info)
{
    struct state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    state->fd = -1;
    int err = bag_begin(&state->bag, location, ".bag", false, &settings->log);
    if (!err) {
        state->fd = file_open(state->bag.path, &settings->log);
        err = state->fd < 0 ? state->fd : scan(&state->ros1bag, state->fd, &state->bag);
    }
    if (!err)
        err = bag_choose(&state->bag, settings, out_info);
    if (err) {
        close_bag(state);
        return err;
    }
    *out_state = state;
    return 0;
}

static void stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    bag_stamp(&((const struct state *)state)->bag, i, out_time_ns, out_index);
}

static int decode(void *state_in, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    (void)frame;
    struct state *state = state_in;
    const unsigned char *message;
    size_t n;
    const char *reason;
    int err = load(state->ros1bag, bag_place(&state->bag, i), &message, &n, &reason);
    if (!err)
        err = bag_decode(&state->bag, message, n, pixels, &reason);
    if (err && reason)
        log_to(&state->bag.log, LOG_LEVEL_WARNING, "%s: image %llu: %s", state->bag.path,
               (unsigned long long)i, reason);
    return err;
}

const struct capture_driver capture_driver_ros1bag = {
    .name = "ros1bag",
    .summary = "ROS 1 bag, also RealSense's (FILE#TOPIC chooses)",
    .open = open_bag,
    .stamp = stamp,
    .decode = decode,
    .close = close_bag,
};
