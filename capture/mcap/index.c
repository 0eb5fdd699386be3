// SPDX-License-Identifier: Apache-2.0
// The file is walked once from the front: chunk headers and the message indexes behind them say
// where the images are without unpacking; only chunks without such an index, and the first ones,
// until channel and calibration are known, are unpacked.
#include "capture/mcap/index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/damage.h"
#include "capture/mcap/foxglove.h"
#include "capture/mcap/index_order.h"
#include "capture/mcap/walk.h"

#define DEPTH_TOPIC "depth"
#define CALIB_TOPIC "calib"

#define N_IDS (UINT16_MAX + 1) // of schemas, and of channels

// A file without a topic `depth` or without a calibration is searched for them in its first chunks.
#define SEARCHED_CHUNKS 4

enum chunk_state { CHUNK_UNREAD, CHUNK_READ, CHUNK_INDEXED };

// What the walk has learned and has not yet put into the index.
struct walk {
    struct mcap_reader *reader;
    struct mcap_index *index;
    struct mcap_walk file;
    struct damage damage;
    bool is_image_schema[N_IDS], is_calib_schema[N_IDS];
    struct mcap_choice choice;
    int depth_rank;       // of the channel's topic
    char depth_topic[80]; // cut off: no such name is one of ours
    char topics[400];     // of all image channels, for people
    size_t n_topics, n_topics_bytes;
    bool is_listed[N_IDS];
    bool has_calib_channel, has_camera;
    uint16_t calib_channel;
    bool is_ros, has_ros_channel;
    bool unsupported; // a chunk had a compression that was not built in
};

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

static void take_schema(struct walk *walk, const unsigned char *data, size_t n)
{
    const char *name, *encoding;
    size_t at = 2, n_name, n_encoding;
    if (n < 2 || !mcap_take_string(data, n, &at, &name, &n_name) ||
        !mcap_take_string(data, n, &at, &encoding, &n_encoding) ||
        !mcap_is_text(encoding, n_encoding, "protobuf"))
        return;
    uint16_t id = (uint16_t)mcap_get(data, 2);
    if (mcap_is_text(name, n_name, "foxglove.RawImage"))
        walk->is_image_schema[id] = true;
    if (mcap_is_text(name, n_name, "foxglove.CameraCalibration"))
        walk->is_calib_schema[id] = true;
}

// units_per_m of the channel's metadata, 0 when it is not there.
static double take_units(const unsigned char *data, size_t n, size_t at)
{
    if (n - at < 4)
        return 0;
    at += 4; // the map's length; its strings are checked one by one
    const char *key, *value;
    size_t n_key, n_value;
    while (mcap_take_string(data, n, &at, &key, &n_key) &&
           mcap_take_string(data, n, &at, &value, &n_value)) {
        char number[40] = {0};
        if (!mcap_is_text(key, n_key, "units_per_m") || n_value >= sizeof number)
            continue;
        memcpy(number, value, n_value);
        double units = strtod(number, NULL);
        return units >= 1 && units <= 1e6 ? units : 0;
    }
    return 0;
}

// The profile of the file's header.
static void take_header(struct walk *walk, const unsigned char *data, size_t n)
{
    const char *profile;
    size_t at = 0, n_profile;
    if (mcap_take_string(data, n, &at, &profile, &n_profile))
        walk->is_ros =
            mcap_is_text(profile, n_profile, "ros2") || mcap_is_text(profile, n_profile, "ros1");
}

// `topic` is "BASE/NAME".
static bool is_named(const char *topic, size_t n_topic, const char *base, const char *name)
{
    const size_t n_base = strlen(base);
    return n_topic > n_base && memcmp(topic, base, n_base) == 0 && topic[n_base] == '/' &&
           mcap_is_text(topic + n_base + 1, n_topic - n_base - 1, name);
}

// How much a topic is what is sought; 0: not at all.
static int depth_rank(const struct walk *walk, const char *topic, size_t n_topic)
{
    const struct mcap_choice *choice = &walk->choice;
    if (choice->topic)
        return mcap_is_text(topic, n_topic, choice->topic) ||
                       is_named(topic, n_topic, DEPTH_TOPIC, choice->topic)
                   ? 3
                   : 0;
    if (choice->camera && is_named(topic, n_topic, DEPTH_TOPIC, choice->camera))
        return 3;
    return mcap_is_text(topic, n_topic, DEPTH_TOPIC) ? 2 : 1;
}

// Of the camera of the depth channel before others.
static void take_calib_channel(struct walk *walk, uint16_t id, const char *topic, size_t n_topic)
{
    const char *name = strchr(walk->depth_topic, '/');
    bool is_its = name && is_named(topic, n_topic, CALIB_TOPIC, name + 1);
    if (walk->has_calib_channel && (!is_its || id == walk->calib_channel))
        return;
    walk->has_calib_channel = true;
    walk->calib_channel = id;
    walk->has_camera = false;
    walk->index->camera = (struct intrinsics){0};
}

static void list_topic(struct walk *walk, const char *topic, size_t n_topic)
{
    const size_t room = sizeof walk->topics - walk->n_topics_bytes;
    const char *comma = walk->n_topics ? ", " : "";
    walk->n_topics++;
    if (n_topic + 8 > room)
        return;
    walk->n_topics_bytes += (size_t)snprintf(walk->topics + walk->n_topics_bytes, room, "%s%.*s",
                                             comma, (int)n_topic, topic);
}

// Frames of another channel are forgotten when a better one turns up later.
static void take_image_channel(struct walk *walk, uint16_t id, const char *topic, size_t n_topic,
                               double units_per_m)
{
    struct mcap_index *index = walk->index;
    const int rank = depth_rank(walk, topic, n_topic);
    if (!walk->is_listed[id])
        list_topic(walk, topic, n_topic);
    walk->is_listed[id] = true;
    if (rank <= walk->depth_rank)
        return;
    index->n_frames = index->has_channel && index->channel != id ? 0 : index->n_frames;
    index->has_channel = true;
    index->channel = id;
    index->units_per_m = units_per_m;
    index->width_px = index->height_px = 0;
    walk->depth_rank = rank;
    snprintf(walk->depth_topic, sizeof walk->depth_topic, "%.*s", (int)n_topic, topic);
}

static void take_channel(struct walk *walk, const unsigned char *data, size_t n)
{
    const char *topic, *encoding;
    size_t at = 4, n_topic, n_encoding;
    if (n < 4 || !mcap_take_string(data, n, &at, &topic, &n_topic) ||
        !mcap_take_string(data, n, &at, &encoding, &n_encoding))
        return;
    walk->has_ros_channel = walk->has_ros_channel || mcap_is_text(encoding, n_encoding, "cdr") ||
                            mcap_is_text(encoding, n_encoding, "ros1");
    if (!mcap_is_text(encoding, n_encoding, "protobuf"))
        return;
    uint16_t id = (uint16_t)mcap_get(data, 2), schema = (uint16_t)mcap_get(data + 2, 2);
    if (walk->is_calib_schema[schema])
        take_calib_channel(walk, id, topic, n_topic);
    if (walk->is_image_schema[schema])
        take_image_channel(walk, id, topic, n_topic, take_units(data, n, at));
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
        if (image.remainders)
            index->units_per_m = image.units_per_m;
    }
    return add_frame(index, mcap_get(data + 6, 8), chunk, offset);
}

static int take_of_summary(void *user, unsigned opcode, const unsigned char *data, size_t n)
{
    if (opcode == MCAP_SCHEMA)
        take_schema(user, data, n);
    else
        take_channel(user, data, n);
    return 0;
}

// All records of an unpacked chunk.
static int walk_chunk(struct walk *walk, uint64_t number)
{
    const unsigned char *raw;
    size_t n;
    int err = mcap_reader_unpack(walk->reader, &walk->index->chunks[number], number, &raw, &n);
    walk->unsupported = walk->unsupported || err == -ENOTSUP;
    if (err == -EBADMSG || err == -ENOTSUP) {
        const struct mcap_chunk *chunk = &walk->index->chunks[number];
        damage_note(&walk->damage, chunk->offset - MCAP_RECORD_BYTES, MCAP_CHUNK_NOT_READ,
                    (unsigned long long)chunk->n_bytes + MCAP_RECORD_BYTES,
                    mcap_reader_reason(walk->reader));
        return mcap_walk_recall(&walk->file, take_of_summary, walk);
    }
    if (err)
        return err;
    for (size_t at = 0; at < n && !err;) {
        uint64_t n_record = n - at < MCAP_RECORD_BYTES ? UINT64_MAX : mcap_get(raw + at + 1, 8);
        const unsigned char *data = raw + at + MCAP_RECORD_BYTES;
        if (n_record > n - at || n_record + MCAP_RECORD_BYTES > n - at) {
            damage_note(&walk->damage, walk->index->chunks[number].offset - MCAP_RECORD_BYTES,
                        MCAP_CHUNK_BREAKS_OFF, n - at, at);
            break;
        }
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

static int take_message_index(struct walk *walk, const unsigned char *data, uint64_t n_bytes)
{
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
    bool searched = walk->depth_rank > 1 && walk->has_camera;
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
    if (opcode != MCAP_HEADER && opcode != MCAP_SCHEMA && opcode != MCAP_CHANNEL &&
        opcode != MCAP_MESSAGE && opcode != MCAP_MESSAGE_INDEX)
        return 0;
    if (n_bytes > MCAP_MAX_CHUNK_BYTES) // nothing of ours: the next one may be
        return 0;
    const unsigned char *data;
    err = mcap_reader_load(walk->reader, offset, n_bytes, &data);
    if (err)
        return err;
    if (opcode == MCAP_HEADER)
        take_header(walk, data, (size_t)n_bytes);
    else if (opcode == MCAP_SCHEMA)
        take_schema(walk, data, (size_t)n_bytes);
    else if (opcode == MCAP_CHANNEL)
        take_channel(walk, data, (size_t)n_bytes);
    else if (opcode == MCAP_MESSAGE)
        return take_message(walk, data, (size_t)n_bytes, MCAP_NO_CHUNK, offset - MCAP_RECORD_BYTES);
    else
        return take_message_index(walk, data, n_bytes);
    return 0;
}

// Whether the images of the last chunk are known, or that it has none.
static bool is_listed(const struct mcap_index *index)
{
    return index->n_frames && index->frames[index->n_frames - 1].chunk == index->n_chunks - 1;
}

// The index of the chunk before may be lost with what was skipped, and channels.
static int go_on(struct walk *walk, uint64_t from, enum chunk_state *chunk)
{
    damage_note(&walk->damage, from, MCAP_GOES_ON, (unsigned long long)(walk->file.at - from),
                (unsigned long long)walk->file.at);
    const bool is_unread =
        *chunk == CHUNK_UNREAD || (*chunk == CHUNK_INDEXED && !is_listed(walk->index));
    *chunk = CHUNK_READ;
    const int err = is_unread ? walk_chunk(walk, walk->index->n_chunks - 1) : 0;
    return err ? err : mcap_walk_recall(&walk->file, take_of_summary, walk);
}

// Returns 0 at the end of the data or of what there is of it; *out_complete tells which.
static int walk_file(struct walk *walk, bool *out_complete)
{
    enum chunk_state chunk = CHUNK_READ;
    int err = 0;
    *out_complete = false;
    for (bool more = true; more && !err && !walk->is_ros;) {
        struct mcap_record record;
        const int step = mcap_walk_next(&walk->file, &record);
        switch (step) {
        case MCAP_STEP_RECORD:
            err = take_record(walk, record.opcode, record.offset, record.n_bytes, &chunk);
            break;
        case MCAP_STEP_SKIPPED:
            err = go_on(walk, record.begin, &chunk);
            break;
        default:
            err = step < 0 ? step : 0;
            more = false;
            *out_complete = step == MCAP_STEP_END;
        }
    }
    err = err == -EBADMSG ? 0 : err;
    if (!err && chunk == CHUNK_UNREAD)
        err = walk_chunk(walk, walk->index->n_chunks - 1);
    return err;
}

// Why the channel that was found is not what was asked for; NULL: it is.
static const char *wrong_choice(const struct walk *walk)
{
    const bool is_named = walk->choice.topic || walk->choice.camera;
    if (walk->choice.topic && walk->n_topics && !walk->index->has_channel)
        return "no depth topic of that name; it has";
    return is_named && walk->n_topics > 1 && walk->depth_rank < 3
               ? "no depth topic of that camera's name; it has"
               : NULL;
}

int mcap_scan(struct mcap_reader *reader, const char *name, const struct mcap_choice *choice,
              const struct log_sink *log, struct mcap_index *out)
{
    bool complete = false;
    *out = (struct mcap_index){0};
    struct walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return -ENOMEM;
    walk->reader = reader;
    walk->index = out;
    if (choice)
        walk->choice = *choice;
    int err = mcap_walk_begin(&walk->file, reader);
    const char *reason = err == -EINVAL ? "not an MCAP file" : NULL;
    if (!err)
        err = walk_file(walk, &complete);
    if (!err && (walk->is_ros || (!out->has_channel && walk->has_ros_channel))) {
        mcap_index_free(out);
        mcap_walk_end(&walk->file);
        free(walk);
        return -ENOMSG;
    }
    struct stamp_order order = {0};
    if (!err) {
        order = mcap_order_as_written(out);
        mcap_put_in_order(out);
    }
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
    const char *wrong = err && err != -EINVAL ? NULL : wrong_choice(walk);
    if (wrong) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s %s", name, wrong, walk->topics);
        err = -EINVAL;
    } else if (err) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, reason ? reason : strerror(-err));
    } else if (!complete) {
        log_to(log, LOG_LEVEL_WARNING,
               "%s: incomplete, ends after %zu images, breaks off at byte %llu", name,
               out->n_frames, (unsigned long long)walk->file.at);
    }
    if (!err)
        damage_tell(&walk->damage, name, log);
    if (!err && walk->n_topics > 1 && walk->depth_rank == 1)
        log_to(log, LOG_LEVEL_NOTICE,
               "%s: %zu depth topics, %s is taken (FILE#TOPIC chooses another): %s", name,
               walk->n_topics, walk->depth_topic, walk->topics);
    if (!err)
        stamp_order_tell(&order, log, name, walk->depth_topic);
    if (!err && out->n_skipped)
        log_to(log, LOG_LEVEL_WARNING, "%s: %zu images skipped, their time repeats", name,
               out->n_skipped);
    if (err)
        mcap_index_free(out);
    mcap_walk_end(&walk->file);
    free(walk);
    return err;
}

void mcap_index_free(struct mcap_index *index)
{
    free(index->frames);
    free(index->chunks);
    *index = (struct mcap_index){0};
}
