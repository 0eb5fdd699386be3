// SPDX-License-Identifier: Apache-2.0
// Driver `ros1bag`: the ROS 1 bag, version 2.0. After its first line the file is a list of records
// (ros1_reader.h). Messages stand in chunks; the connections that say what they are stand before
// them. The index at the end is not needed: a recording that broke off has none. Where there is a
// whole one, reading goes on behind damage at the next chunk that it names. What cannot be read is
// told.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/io/chunk_places.h"
#include "capture/io/damage.h"
#include "capture/io/folder.h"
#include "capture/ros/ros1_reader.h"
#include "capture/ros/select_topic.h"

#define MAGIC       "#ROSBAG V2.0\n"
#define MAGIC_BYTES 13

// ---- the walk ----

struct walk {
    struct ros1_reader *reader;
    struct bag *bag;
    struct damage damage;
    struct chunk_places places;
    uint64_t end;
    bool complete;
    const char *unsupported; // why a chunk could not be unpacked here; NULL: there is no such
};

// Returns -EBADMSG for what is no such record.
static int take_connection(struct bag *bag, struct ros1_text header, struct ros1_text data)
{
    struct ros1_text topic = ros1_field(header, "topic"), type = ros1_field(data, "type");
    struct ros1_text id = ros1_field(header, "conn");
    if (id.n != 4 || !topic.n || !type.n)
        return -EBADMSG;
    return bag_add_topic(bag, ros1_u32(id.data), (const char *)topic.data, topic.n,
                         (const char *)type.data, type.n, ROS_ENCODING_ROS1);
}

static int take_message(struct bag *bag, struct ros1_text header, struct ros1_text data,
                        struct bag_place place)
{
    struct ros1_text time = ros1_field(header, "time"), id = ros1_field(header, "conn");
    if (time.n != 8 || id.n != 4 || !bag_topic(bag, ros1_u32(id.data)))
        return -EBADMSG;
    int64_t time_ns = (int64_t)ros1_u32(time.data) * 1000000000 + ros1_u32(time.data + 4);
    return bag_add_message(bag, ros1_u32(id.data), time_ns, place, data.data, data.n);
}

static int take_record(struct bag *bag, struct ros1_text header, struct ros1_text data,
                       struct bag_place place)
{
    const unsigned op = ros1_op(header);
    if (op == ROS1_CONNECTION)
        return take_connection(bag, header, data);
    return op == ROS1_MESSAGE ? take_message(bag, header, data, place) : -EBADMSG;
}

#define IN_CHUNK "%s, %zu bytes at byte %zu of the unpacked chunk"

// Of a chunk that is packed only the place of the whole is one of the file.
static void tell_of_rest(struct walk *walk, uint64_t offset, size_t at, size_t n_bytes)
{
    const char *what = "from here on its chunk cannot be read, the messages there are missing";
    const uint64_t plain = walk->reader->plain_offset;
    if (plain == UINT64_MAX)
        damage_note(&walk->damage, offset, IN_CHUNK, what, n_bytes, at);
    else
        damage_note(&walk->damage, plain + at, "%s, %zu bytes", what, n_bytes);
}

static void tell_of_record(struct walk *walk, uint64_t offset, size_t at, size_t next)
{
    const uint64_t plain = walk->reader->plain_offset;
    if (plain == UINT64_MAX)
        damage_note(&walk->damage, offset, IN_CHUNK, "a record cannot be read", next - at, at);
    else
        damage_note_record(&walk->damage, plain + at, plain + next);
}

static int walk_chunk(struct walk *walk, uint64_t offset, uint64_t n_bytes)
{
    struct ros1_reader *reader = walk->reader;
    struct ros1_text header, data;
    int err = ros1_load_chunk(reader, offset);
    if (err == -EBADMSG || err == -ENOTSUP) {
        walk->unsupported = err == -ENOTSUP ? reader->reason : walk->unsupported;
        damage_note(&walk->damage, offset, "%llu bytes not read: %s", (unsigned long long)n_bytes,
                    reader->reason);
        return 0;
    }
    for (size_t at = 0, next = 0; !err && at < reader->n_raw_bytes; at = next) {
        if (!ros1_next_record(reader->raw, reader->n_raw_bytes, &next, &header, &data)) {
            tell_of_rest(walk, offset, at, reader->n_raw_bytes - at);
            break;
        }
        err = take_record(walk->bag, header, data, (struct bag_place){offset, at});
        if (err == -EBADMSG) {
            tell_of_record(walk, offset, at, next);
            err = 0;
        }
    }
    return err;
}

// A connection or message that stands outside of chunks.
static int load_record(struct walk *walk, uint64_t at, uint64_t n_bytes)
{
    struct ros1_text header, data;
    size_t begin = 0;
    if (n_bytes > ROS1_MAX_CHUNK_BYTES)
        return -EBADMSG;
    int err = ros1_load(walk->reader, at, n_bytes);
    if (err)
        return err;
    if (!ros1_next_record(walk->reader->packed, (size_t)n_bytes, &begin, &header, &data))
        return -EBADMSG;
    return take_record(walk->bag, header, data, (struct bag_place){UINT64_MAX, at});
}

// ---- the index at the end ----

// The records from `begin` to the end of the file, which are to be connections and chunk infos: of
// these the places, of those their number. Returns -EBADMSG where anything else stands.
static int read_index(struct walk *walk, uint64_t begin)
{
    int err = 0;
    for (uint64_t at = begin; !err && at < walk->reader->n_file_bytes;) {
        struct ros1_head head;
        err = ros1_read_head(walk->reader, at, &head);
        if (err)
            break;
        const unsigned op = ros1_op(head.header);
        const struct ros1_text place = ros1_field(head.header, "chunk_pos");
        if (op == ROS1_CHUNK_INFO && place.n == 8)
            err = chunk_places_add(&walk->places,
                                   ros1_u32(place.data) | (uint64_t)ros1_u32(place.data + 4) << 32);
        else if (op != ROS1_CONNECTION)
            err = -EBADMSG;
        at = head.next;
    }
    return err;
}

// What the chunk with a connection may have lost.
static int take_index_connections(struct walk *walk)
{
    int err = 0;
    for (uint64_t at = walk->places.end; !err && at < walk->reader->n_file_bytes;) {
        struct ros1_head head;
        err = ros1_read_head(walk->reader, at, &head);
        if (err)
            break;
        const uint64_t next = head.next;
        if (ros1_op(head.header) == ROS1_CONNECTION)
            err = load_record(walk, at, next - at);
        err = err == -EBADMSG ? 0 : err;
        at = next;
    }
    return err;
}

// The places of the chunks, if the bag has a whole index; none if not. Returns 0 or -ENOMEM.
static int find_chunks(struct walk *walk)
{
    struct ros1_head head;
    if (ros1_read_head(walk->reader, MAGIC_BYTES, &head) != 0 ||
        ros1_op(head.header) != ROS1_BAG_HEADER)
        return 0;
    const struct ros1_text begin_field = ros1_field(head.header, "index_pos");
    const uint32_t n_chunks = ros1_number_field(head.header, "chunk_count", 0);
    const uint64_t first = head.next;
    if (begin_field.n != 8)
        return 0;
    const uint64_t begin = ros1_u32(begin_field.data) | (uint64_t)ros1_u32(begin_field.data + 4)
                                                            << 32;
    if (begin < first || begin >= walk->reader->n_file_bytes)
        return 0;
    int err = read_index(walk, begin);
    if (!err && walk->places.n == n_chunks && chunk_places_finish(&walk->places, first, begin))
        err = take_index_connections(walk);
    else
        chunk_places_free(&walk->places);
    return err == -ENOMEM ? err : 0;
}

// The next chunk beyond `at` that the index names and that stands there; else the index itself. The
// first place at `limit` or beyond is not looked at.
static uint64_t next_chunk(struct walk *walk, uint64_t at, uint64_t limit)
{
    const struct chunk_places *places = &walk->places;
    struct ros1_head head;
    do {
        at = chunk_places_after(places, at);
    } while (at < places->end && at < limit &&
             (ros1_read_head(walk->reader, at, &head) != 0 || ros1_op(head.header) != ROS1_CHUNK));
    return at;
}

// ---- the file ----

// Whether a record at `at` cannot end at `next`, as the index knows of a chunk before that. Asked
// of each record, it looks at each place once.
static bool hides_chunk(struct walk *walk, uint64_t at, uint64_t next)
{
    return next > next_chunk(walk, at, next);
}

// A record of the file, whose lengths are right. Returns -EBADMSG for what is none.
static int walk_record(struct walk *walk, uint64_t at, uint64_t next, unsigned op)
{
    switch (op) {
    case ROS1_CHUNK:
        return walk_chunk(walk, at, next - at);
    case ROS1_CONNECTION:
    case ROS1_MESSAGE:
        return load_record(walk, at, next - at);
    case ROS1_BAG_HEADER:
    case ROS1_INDEX_DATA:
    case ROS1_CHUNK_INFO:
        return 0;
    }
    return -EBADMSG;
}

// Reads what stands at *at, which is moved behind it. Returns -EBADMSG where the file breaks off.
static int walk_next(struct walk *walk, uint64_t *at)
{
    struct ros1_head head = {.next = UINT64_MAX};
    const uint64_t begin = *at;
    int err = ros1_read_head(walk->reader, begin, &head);
    const bool is_torn = err == -EBADMSG;
    if (err && !is_torn)
        return err;
    const unsigned op = is_torn ? 0 : ros1_op(head.header);
    const uint64_t next = head.next;
    if (!is_torn && !(op != ROS1_CHUNK && chunk_places_has(&walk->places, begin)) &&
        !hides_chunk(walk, begin, next))
        err = walk_record(walk, begin, next, op);
    else
        err = -EBADMSG;
    *at = next;
    if (err != -EBADMSG)
        return err;
    const uint64_t resume = next_chunk(walk, begin, UINT64_MAX);
    if (resume == UINT64_MAX && is_torn)
        return -EBADMSG;
    if (resume == UINT64_MAX) {
        damage_note_record(&walk->damage, begin, next);
        return 0;
    }
    damage_note(&walk->damage, begin, "%llu bytes not read, goes on at byte %llu by the index",
                (unsigned long long)(resume - begin), (unsigned long long)resume);
    *at = resume;
    return 0;
}

static int walk_file(struct walk *walk)
{
    int err = find_chunks(walk);
    for (uint64_t at = MAGIC_BYTES; !err && at < walk->reader->n_file_bytes;) {
        walk->end = at;
        err = walk_next(walk, &at);
    }
    walk->complete = !err;
    chunk_places_free(&walk->places);
    return err == -EBADMSG ? 0 : err;
}

// Walks through the file and tells `bag` of its topics and messages. Returns 0, or a negative errno
// after logging the reason; *out is then NULL.
static int scan(struct ros1_reader **out, int fd, struct bag *bag)
{
    char magic[MAGIC_BYTES];
    struct walk walk = {.bag = bag};
    struct ros1_reader *reader = NULL;
    const char *reason = NULL;
    *out = NULL;
    int err = ros1_reader_create(&reader, fd);
    if (!err)
        err = file_read_at(fd, magic, sizeof magic, 0);
    if (err == -EBADMSG || (!err && memcmp(magic, MAGIC, MAGIC_BYTES) != 0)) {
        reason = "not a ROS 1 bag of version 2.0";
        err = -EINVAL;
    }
    walk.reader = reader;
    if (!err)
        err = walk_file(&walk);
    // Topics alone may be the index's, with no chunk that was read.
    if (!err && walk.unsupported && bag_n_messages(bag) == 0) {
        reason = walk.unsupported;
        err = -ENOTSUP;
    }
    if (err) {
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: %s", bag->path, reason ? reason : strerror(-err));
        ros1_reader_destroy(&reader);
        return err;
    }
    damage_tell(&walk.damage, bag->path, &bag->log);
    if (!walk.complete)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: incomplete, breaks off at byte %llu; for other programs: rosbag reindex %s",
               bag->path, (unsigned long long)walk.end, bag->path);
    *out = reader;
    return 0;
}

// The bytes of a message, valid until the next call. Returns 0, or -EBADMSG with *out_reason set.
static int load(struct ros1_reader *reader, struct bag_place place, const unsigned char **out,
                size_t *out_n, const char **out_reason)
{
    struct ros1_text header, data;
    const unsigned char *bytes;
    size_t n, at = (size_t)place.offset;
    *out_reason = "cannot be read";
    if (place.block == UINT64_MAX) {
        struct ros1_head head;
        if (ros1_read_head(reader, place.offset, &head) || head.n_data > ROS1_MAX_CHUNK_BYTES ||
            ros1_load(reader, head.data_offset, head.n_data))
            return -EBADMSG;
        *out = reader->packed;
        *out_n = head.n_data;
        return 0;
    }
    if (ros1_load_chunk(reader, place.block)) {
        *out_reason = reader->reason;
        return -EBADMSG;
    }
    bytes = reader->raw;
    n = reader->n_raw_bytes;
    if (at > n || !ros1_next_record(bytes, n, &at, &header, &data))
        return -EBADMSG;
    *out = data.data;
    *out_n = data.n;
    return 0;
}

// ---- the driver ----

struct state {
    struct bag bag;
    struct ros1_reader *reader;
    int fd;
};

static void close_bag(void *state_in)
{
    struct state *state = state_in;
    ros1_reader_destroy(&state->reader);
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
        err = state->fd < 0 ? state->fd : scan(&state->reader, state->fd, &state->bag);
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
    int err = load(state->reader, bag_place(&state->bag, i), &message, &n, &reason);
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
