// SPDX-License-Identifier: Apache-2.0
// Stamps stand in the messages, not in the index of the file, so that every chunk is unpacked once
// when the file is opened. Of messages that stand outside of chunks only the first bytes are read.
#include "capture/mcap/ros2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/damage.h"
#include "capture/mcap/footer.h"
#include "capture/mcap/walk.h"

#define N_SCHEMAS      (UINT16_MAX + 1) // ids
#define MAX_NAME_BYTES 255              // of a message type that is kept: no type of ours is longer

struct walk {
    struct mcap_reader *reader;
    struct mcap_walk file;
    struct bag *bag;
    struct damage damage;
    char *schemas[N_SCHEMAS]; // their names by id; NULL: none so far
    size_t schemas_end;       // behind the last one that is not
    const char *unsupported;  // why a chunk could not be unpacked here; NULL: there is no such
    // Messages of each channel: that were read, and by the summary, once recalled.
    uint64_t n_read[UINT16_MAX + 1], n_said[UINT16_MAX + 1];
};

// The first one of an id counts: a file may repeat them in each chunk.
static int take_schema(struct walk *walk, const unsigned char *data, size_t n)
{
    const char *name;
    size_t at = 2, n_name;
    if (!mcap_take_string(data, n, &at, &name, &n_name) || n_name > MAX_NAME_BYTES)
        return 0;
    const size_t id = (size_t)mcap_get(data, 2);
    if (walk->schemas[id])
        return 0;
    walk->schemas[id] = strndup(name, n_name);
    walk->schemas_end = id < walk->schemas_end ? walk->schemas_end : id + 1;
    return walk->schemas[id] ? 0 : -ENOMEM;
}

// units_per_m of the channel's metadata, as our recorder writes it.
static void take_units(struct walk *walk, const unsigned char *data, size_t n, size_t at)
{
    const char *key, *value;
    size_t n_key, n_value;
    at += 4; // the map's length; its strings are checked one by one
    while (mcap_take_string(data, n, &at, &key, &n_key) &&
           mcap_take_string(data, n, &at, &value, &n_value)) {
        char number[40] = {0};
        if (!mcap_is_text(key, n_key, "units_per_m") || n_value >= sizeof number)
            continue;
        memcpy(number, value, n_value);
        bag_set_units(walk->bag, (uint32_t)mcap_get(data, 2), strtod(number, NULL));
    }
}

static int take_channel(struct walk *walk, const unsigned char *data, size_t n)
{
    const char *topic, *encoding;
    size_t at = 4, n_topic, n_encoding;
    if (!mcap_take_string(data, n, &at, &topic, &n_topic) ||
        !mcap_take_string(data, n, &at, &encoding, &n_encoding))
        return 0;
    const char *type = walk->schemas[mcap_get(data + 2, 2)];
    bool is_ros1 = mcap_is_text(encoding, n_encoding, "ros1");
    if (!type || (!is_ros1 && !mcap_is_text(encoding, n_encoding, "cdr")))
        type = "";
    int err = bag_add_topic(walk->bag, (uint32_t)mcap_get(data, 2), topic, n_topic, type,
                            strlen(type), is_ros1 ? ROS_ENCODING_ROS1 : ROS_ENCODING_CDR);
    if (!err)
        take_units(walk, data, n, at);
    return err;
}

static int take_message(struct walk *walk, const unsigned char *data, size_t n,
                        struct bag_place place)
{
    if (n < MCAP_MESSAGE_HEADER_BYTES)
        return 0;
    uint64_t log_time_ns = mcap_get(data + 6, 8);
    walk->n_read[mcap_get(data, 2)]++;
    return bag_add_message(walk->bag, (uint32_t)mcap_get(data, 2),
                           log_time_ns < INT64_MAX ? (int64_t)log_time_ns : INT64_MAX, place,
                           data + MCAP_MESSAGE_HEADER_BYTES, n - MCAP_MESSAGE_HEADER_BYTES);
}

static int take_record(struct walk *walk, unsigned opcode, const unsigned char *data, size_t n,
                       struct bag_place place)
{
    if (opcode == MCAP_SCHEMA)
        return take_schema(walk, data, n);
    if (opcode == MCAP_CHANNEL)
        return take_channel(walk, data, n);
    return opcode == MCAP_MESSAGE ? take_message(walk, data, n, place) : 0;
}

static int take_of_summary(void *user, unsigned opcode, const unsigned char *data, size_t n)
{
    struct walk *walk = user;
    if (opcode == MCAP_STATISTICS)
        mcap_add_counts(data, n, walk->n_said);
    return take_record(walk, opcode, data, n, (struct bag_place){0, 0});
}

static int walk_chunk(struct walk *walk, uint64_t offset, uint64_t n_bytes)
{
    const unsigned char *raw;
    size_t n;
    const struct mcap_chunk chunk = {offset, n_bytes};
    int err = mcap_reader_unpack(walk->reader, &chunk, offset, &raw, &n);
    if (err == -EBADMSG || err == -ENOTSUP) {
        const char *reason = mcap_reader_reason(walk->reader);
        walk->unsupported = err == -ENOTSUP ? reason : walk->unsupported;
        damage_note(&walk->damage, offset - MCAP_RECORD_BYTES, MCAP_CHUNK_NOT_READ,
                    (unsigned long long)n_bytes + MCAP_RECORD_BYTES, reason);
        return mcap_walk_recall(&walk->file, take_of_summary, walk);
    }
    for (size_t at = 0; !err && at < n;) {
        uint64_t n_record = n - at < MCAP_RECORD_BYTES ? UINT64_MAX : mcap_get(raw + at + 1, 8);
        if (n_record > n - at || n_record + MCAP_RECORD_BYTES > n - at) {
            damage_note(&walk->damage, offset - MCAP_RECORD_BYTES, MCAP_CHUNK_BREAKS_OFF, n - at,
                        at);
            return mcap_walk_recall(&walk->file, take_of_summary, walk);
        }
        err = take_record(walk, raw[at], raw + at + MCAP_RECORD_BYTES, (size_t)n_record,
                          (struct bag_place){offset, at});
        at += MCAP_RECORD_BYTES + (size_t)n_record;
    }
    return err;
}

// A record that stands in the file itself, of which only as much is read as is looked at.
static int load_record(struct walk *walk, unsigned opcode, uint64_t offset, uint64_t n_bytes)
{
    const unsigned char *data;
    unsigned char head[MCAP_MESSAGE_HEADER_BYTES];
    if (opcode != MCAP_SCHEMA && opcode != MCAP_CHANNEL && opcode != MCAP_MESSAGE)
        return 0;
    uint64_t n = n_bytes;
    if (opcode == MCAP_MESSAGE && n_bytes >= sizeof head) {
        int err = mcap_reader_read(walk->reader, head, sizeof head, offset);
        if (err)
            return err;
        enum bag_interest interest =
            bag_interest(bag_topic(walk->bag, (uint32_t)mcap_get(head, 2)));
        uint64_t n_wanted = interest == BAG_ALL    ? n_bytes
                            : interest == BAG_HEAD ? sizeof head + ROS_HEAD_BYTES
                                                   : sizeof head;
        n = n_bytes < n_wanted ? n_bytes : n_wanted;
    }
    if (n > MCAP_MAX_CHUNK_BYTES)
        return 0;
    int err = mcap_reader_load(walk->reader, offset, n, &data);
    return err ? err
               : take_record(walk, opcode, data, (size_t)n,
                             (struct bag_place){MCAP_NO_CHUNK, offset - MCAP_RECORD_BYTES});
}

// *out_complete: up to the end of the data.
static int walk_file(struct walk *walk, bool *out_complete)
{
    int err = 0;
    *out_complete = false;
    for (bool more = true; more && !err;) {
        struct mcap_record record;
        const int step = mcap_walk_next(&walk->file, &record);
        switch (step) {
        case MCAP_STEP_RECORD:
            err = record.opcode == MCAP_CHUNK
                      ? walk_chunk(walk, record.offset, record.n_bytes)
                      : load_record(walk, record.opcode, record.offset, record.n_bytes);
            break;
        case MCAP_STEP_SKIPPED:
            damage_note(&walk->damage, record.begin, MCAP_GOES_ON,
                        (unsigned long long)(walk->file.at - record.begin),
                        (unsigned long long)walk->file.at);
            err = mcap_walk_recall(&walk->file, take_of_summary, walk);
            break;
        default:
            err = step < 0 ? step : 0;
            more = false;
            *out_complete = step == MCAP_STEP_END;
        }
    }
    return err == -EBADMSG ? 0 : err;
}

static void tell_of_damage(struct walk *walk, bool is_complete)
{
    struct bag *bag = walk->bag;
    damage_tell(&walk->damage, bag_file(bag), &bag->log);
    if (!is_complete)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: incomplete, breaks off at byte %llu; " MCAP_FOR_OTHERS, bag_file(bag),
               (unsigned long long)walk->file.at);
    else if (walk->damage.n && !walk->unsupported)
        log_to(&bag->log, LOG_LEVEL_WARNING, "%s: damaged; " MCAP_FOR_OTHERS, bag_file(bag));
    for (size_t id = 0; id <= UINT16_MAX; id++)
        if (walk->n_said[id] > walk->n_read[id])
            bag_add_lost(bag, (uint32_t)id, walk->n_said[id] - walk->n_read[id]);
}

int mcap_ros2_scan(struct mcap_reader *reader, struct bag *bag)
{
    struct walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return -ENOMEM;
    walk->reader = reader;
    walk->bag = bag;
    const uint64_t n_before = bag_n_messages(bag); // of other files
    bool complete = false;
    int err = mcap_walk_begin(&walk->file, reader);
    const char *reason = err == -EINVAL ? "not an MCAP file" : NULL;
    if (!err)
        err = walk_file(walk, &complete);
    // Topics alone may be the summary's, with no chunk that was read.
    if (!err && walk->unsupported && bag_n_messages(bag) == n_before) {
        reason = walk->unsupported;
        err = -ENOTSUP;
    }
    if (err)
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: %s", bag_file(bag),
               reason ? reason : strerror(-err));
    else
        tell_of_damage(walk, complete);
    for (size_t i = 0; i < walk->schemas_end; i++)
        free(walk->schemas[i]);
    mcap_walk_end(&walk->file);
    free(walk);
    return err;
}

// The record in the file, whole.
static int load_plain(struct mcap_reader *reader, uint64_t offset, const unsigned char **out,
                      size_t *out_n)
{
    unsigned char head[MCAP_RECORD_BYTES];
    if (mcap_reader_read(reader, head, sizeof head, offset))
        return -EBADMSG;
    uint64_t n_bytes = mcap_get(head + 1, 8);
    if (n_bytes > MCAP_MAX_CHUNK_BYTES ||
        mcap_reader_load(reader, offset, n_bytes + sizeof head, out))
        return -EBADMSG;
    *out_n = (size_t)n_bytes + sizeof head;
    return 0;
}

int mcap_ros2_load(struct mcap_reader *reader, struct bag_place place, const unsigned char **out,
                   size_t *out_n, const char **out_reason)
{
    const unsigned char *record = NULL;
    size_t n_room = 0;
    *out_reason = "cannot be read";
    if (place.block == MCAP_NO_CHUNK) {
        if (load_plain(reader, place.offset, &record, &n_room))
            return -EBADMSG;
    } else {
        unsigned char head[MCAP_RECORD_BYTES];
        if (mcap_reader_read(reader, head, sizeof head, place.block - sizeof head))
            return -EBADMSG;
        const struct mcap_chunk chunk = {place.block, mcap_get(head + 1, 8)};
        if (mcap_reader_unpack(reader, &chunk, place.block, &record, &n_room)) {
            *out_reason = mcap_reader_reason(reader);
            return -EBADMSG;
        }
        if (place.offset > n_room)
            return -EBADMSG;
        record += place.offset;
        n_room -= (size_t)place.offset;
    }
    *out_reason = "its record has changed since the file was opened";
    if (n_room < MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES || record[0] != MCAP_MESSAGE)
        return -EBADMSG;
    uint64_t n_message = mcap_get(record + 1, 8);
    if (n_message < MCAP_MESSAGE_HEADER_BYTES || n_message > n_room - MCAP_RECORD_BYTES)
        return -EBADMSG;
    *out = record + MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES;
    *out_n = (size_t)n_message - MCAP_MESSAGE_HEADER_BYTES;
    return 0;
}
