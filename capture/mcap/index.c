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
#include "capture/mcap/footer.h"
#include "capture/mcap/foxglove.h"
#include "capture/mcap/image_kinds.h"
#include "capture/mcap/index_order.h"
#include "capture/mcap/walk.h"

// A file without a topic `depth` or without a calibration is searched for them in this many chunks,
// from the one with the first image on.
#define SEARCHED_CHUNKS 4

enum chunk_state { CHUNK_UNREAD, CHUNK_READ, CHUNK_INDEXED };

// What the walk has learned and has not yet put into the index.
struct walk {
    struct mcap_reader *reader;
    struct mcap_index *index;
    struct mcap_walk file;
    struct damage damage;
    struct mcap_channels channels;
    bool has_own_stamps; // images were taken at other times than they were logged
    bool is_by_log;      // they count all the same: their own stamps are none
    size_t n_read, n_unstamped, n_repeated; // images, of these without a stamp, with the last one's
    int64_t last_stamp_ns;
    size_t first_chunk; // how many there were when the first image was read
    bool has_camera;
    bool is_ros;
    bool unsupported;                // a chunk had a compression that was not built in
    bool has_counts;                 // the summary says how many messages each channel has
    uint64_t n_said[UINT16_MAX + 1]; // messages of each channel by the summary, once recalled
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

// The profile of the file's header.
static void take_header(struct walk *walk, const unsigned char *data, size_t n)
{
    const char *profile;
    size_t at = 0, n_profile;
    if (mcap_take_string(data, n, &at, &profile, &n_profile))
        walk->is_ros =
            mcap_is_text(profile, n_profile, "ros2") || mcap_is_text(profile, n_profile, "ros1");
}

// What was read of another channel is forgotten when a better one turns up.
static void take_channel(struct walk *walk, const unsigned char *data, size_t n)
{
    struct mcap_index *index = walk->index;
    const unsigned news = mcap_channels_take(&walk->channels, data, n);
    if (news & MCAP_OTHER_DEPTH) {
        index->n_frames = 0;
        index->has_channel = true;
        index->units_per_m = walk->channels.units_per_m;
        index->width_px = index->height_px = 0;
        walk->has_own_stamps = false;
        walk->n_read = walk->n_unstamped = walk->n_repeated = 0;
        walk->last_stamp_ns = 0;
    }
    if (news & MCAP_OTHER_CALIB) {
        walk->has_camera = false;
        index->camera = (struct intrinsics){0};
    }
}

static int take_message(struct walk *walk, const unsigned char *data, size_t n, uint64_t chunk,
                        uint64_t offset)
{
    if (n < MCAP_MESSAGE_HEADER_BYTES)
        return 0;
    struct mcap_index *index = walk->index;
    uint16_t channel = (uint16_t)mcap_get(data, 2);
    mcap_channels_count(&walk->channels, channel, 1);
    mcap_channels_look(&walk->channels, channel, data + MCAP_MESSAGE_HEADER_BYTES,
                       n - MCAP_MESSAGE_HEADER_BYTES);
    if (mcap_ids_have(&walk->channels.of_calib, channel) && !walk->has_camera)
        walk->has_camera = foxglove_get_calibration(data + MCAP_MESSAGE_HEADER_BYTES,
                                                    n - MCAP_MESSAGE_HEADER_BYTES, &index->camera);
    if (!mcap_ids_have(&walk->channels.depths, channel))
        return 0;
    uint64_t time_ns = mcap_get(data + 6, 8); // when it was logged
    struct foxglove_image image;
    const bool is_good =
        foxglove_get_image(data + MCAP_MESSAGE_HEADER_BYTES, n - MCAP_MESSAGE_HEADER_BYTES, &image);
    if (is_good && !index->width_px) {
        index->width_px = image.width_px;
        index->height_px = image.height_px;
        walk->first_chunk = index->n_chunks;
        if (image.remainders)
            index->units_per_m = image.units_per_m;
    }
    if (is_good && !walk->is_by_log) {
        walk->n_read++;
        walk->n_unstamped += image.time_ns == 0;
        walk->n_repeated += image.time_ns == walk->last_stamp_ns;
        walk->last_stamp_ns = image.time_ns;
        walk->has_own_stamps |= image.time_ns && (uint64_t)image.time_ns != time_ns;
        time_ns = image.time_ns ? (uint64_t)image.time_ns : time_ns;
    }
    return add_frame(index, time_ns, chunk, offset);
}

static int take_of_summary(void *user, unsigned opcode, const unsigned char *data, size_t n)
{
    struct walk *walk = user;
    if (opcode == MCAP_SCHEMA)
        mcap_channels_take_schema(&walk->channels, data, n);
    else if (opcode == MCAP_CHANNEL)
        take_channel(walk, data, n);
    else
        walk->has_counts |= mcap_add_counts(data, n, walk->n_said);
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
            return mcap_walk_recall(&walk->file, take_of_summary, walk);
        }
        if (raw[at] == MCAP_SCHEMA)
            mcap_channels_take_schema(&walk->channels, data, (size_t)n_record);
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

// Whether the images of the last chunk are known, or that it has none.
static bool is_listed(const struct mcap_index *index)
{
    return index->n_frames && index->frames[index->n_frames - 1].chunk == index->n_chunks - 1;
}

// Until all is known about the channel a chunk is unpacked; later its message index is enough. That
// has the times at which images were logged: it is not where those of the first ones are others.
static bool is_known(const struct walk *walk)
{
    const struct mcap_index *index = walk->index;
    const enum mcap_depth_rank rank = walk->channels.depth_rank;
    if (!index->has_channel || !index->width_px || walk->has_own_stamps)
        return false;
    return (rank >= MCAP_DEPTH_PLAIN && walk->has_camera) ||
           index->n_chunks >= walk->first_chunk + SEARCHED_CHUNKS;
}

// What the index of the last chunk told is forgotten.
static int read_in_place_of_index(struct walk *walk, enum chunk_state *chunk)
{
    struct mcap_index *index = walk->index;
    while (is_listed(index))
        index->n_frames--;
    mcap_channels_count_chunk(&walk->channels, true);
    *chunk = CHUNK_READ;
    return walk_chunk(walk, index->n_chunks - 1);
}

// A channel of which the index of the last chunk tells, and no record so far: that stands in the
// summary, or in the chunk, which is read in place of its index then.
static int look_for_channel(struct walk *walk, uint16_t id, enum chunk_state *chunk)
{
    int err = mcap_walk_recall(&walk->file, take_of_summary, walk);
    if (err || (mcap_ids_have(&walk->channels.seen, id) && is_known(walk)))
        return err;
    mcap_ids_add(&walk->channels.seen, id); // or never
    return read_in_place_of_index(walk, chunk);
}

static int take_message_index(struct walk *walk, uint64_t offset, uint64_t n_bytes,
                              enum chunk_state *chunk)
{
    struct mcap_index *index = walk->index;
    const unsigned char *data;
    int err = mcap_reader_load(walk->reader, offset, n_bytes, &data);
    if (err || n_bytes < 6)
        return err;
    const uint16_t id = (uint16_t)mcap_get(data, 2);
    if (!mcap_ids_have(&walk->channels.seen, id)) {
        err = look_for_channel(walk, id, chunk);
        if (!err && *chunk == CHUNK_INDEXED)
            err = mcap_reader_load(walk->reader, offset, n_bytes, &data);
    }
    if (err || *chunk != CHUNK_INDEXED)
        return err;
    const uint64_t n = mcap_get(data + 2, 4);
    if (n > n_bytes - 6) // it is damaged
        return read_in_place_of_index(walk, chunk);
    mcap_channels_count(&walk->channels, id, n / 16);
    if (n >= 16)
        mcap_channels_place(&walk->channels, id, index->n_chunks - 1, mcap_get(data + 14, 8));
    if (!mcap_ids_have(&walk->channels.depths, id))
        return 0;
    for (uint64_t at = 0; at + 16 <= n && !err; at += 16)
        err = add_frame(index, mcap_get(data + 6 + at, 8), index->n_chunks - 1,
                        mcap_get(data + 6 + at + 8, 8));
    return err;
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
        mcap_channels_count_chunk(&walk->channels, false);
        return add_chunk(index, offset, n_bytes);
    }
    if (opcode != MCAP_HEADER && opcode != MCAP_SCHEMA && opcode != MCAP_CHANNEL &&
        opcode != MCAP_MESSAGE && opcode != MCAP_MESSAGE_INDEX)
        return 0;
    if (n_bytes > MCAP_MAX_CHUNK_BYTES) // nothing of ours: the next one may be
        return 0;
    if (opcode == MCAP_MESSAGE_INDEX)
        return take_message_index(walk, offset, n_bytes, chunk);
    const unsigned char *data;
    err = mcap_reader_load(walk->reader, offset, n_bytes, &data);
    if (err)
        return err;
    if (opcode == MCAP_HEADER)
        take_header(walk, data, (size_t)n_bytes);
    else if (opcode == MCAP_SCHEMA)
        mcap_channels_take_schema(&walk->channels, data, (size_t)n_bytes);
    else if (opcode == MCAP_CHANNEL)
        take_channel(walk, data, (size_t)n_bytes);
    else
        err = take_message(walk, data, (size_t)n_bytes, MCAP_NO_CHUNK, offset - MCAP_RECORD_BYTES);
    return err;
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
    return err ? err : mcap_look_at_images(walk->reader, walk->index->chunks, &walk->channels);
}

// Whether the images' own stamps are no times: some have none, or most have that of the one before,
// as where they are of whole seconds.
static bool has_bad_stamps(const struct walk *walk)
{
    return walk->has_own_stamps && (walk->n_unstamped || 2 * walk->n_repeated > walk->n_read);
}

// From the front once more.
static int walk_again(struct walk *walk, struct mcap_choice choice, bool is_by_log,
                      bool *out_complete)
{
    struct mcap_reader *reader = walk->reader;
    struct mcap_index *index = walk->index;
    mcap_index_free(index);
    *index = (struct mcap_index){0};
    mcap_walk_end(&walk->file);
    memset(walk, 0, sizeof *walk);
    walk->reader = reader;
    walk->index = index;
    walk->channels.choice = choice;
    walk->is_by_log = is_by_log;
    int err = mcap_walk_begin(&walk->file, reader);
    return err ? err : walk_file(walk, out_complete);
}

static int walk_by_log(struct walk *walk, const char *name, const struct log_sink *log,
                       bool *out_complete)
{
    log_to(log, LOG_LEVEL_WARNING,
           "%s: of %zu images %zu have no time of their own and %zu that of the one before: the "
           "times at which they were logged are taken",
           name, walk->n_read, walk->n_unstamped, walk->n_repeated);
    return walk_again(walk, walk->channels.choice, true, out_complete);
}

// Images that the summary counts and none were read of.
static uint64_t count_lost(const struct walk *walk)
{
    const uint64_t n_read = walk->index->n_frames + walk->index->n_skipped;
    uint64_t n_said = 0;
    for (size_t id = 0; id <= UINT16_MAX; id++)
        if (mcap_ids_have(&walk->channels.depths, (uint16_t)id))
            n_said += walk->n_said[id];
    return n_said > n_read ? n_said - n_read : 0;
}

static void tell_of_damage(const struct walk *walk, const char *name, uint64_t n_lost,
                           bool is_complete, const struct log_sink *log)
{
    damage_tell(&walk->damage, name, log);
    if (walk->damage.n == 0 || !is_complete || walk->unsupported)
        return;
    if (!walk->has_counts)
        log_to(log, LOG_LEVEL_WARNING, "%s: damaged; " MCAP_FOR_OTHERS, name);
    else if (n_lost)
        log_to(log, LOG_LEVEL_WARNING, "%s: %llu image%s of %s lost by damage; " MCAP_FOR_OTHERS,
               name, (unsigned long long)n_lost, n_lost == 1 ? "" : "s",
               walk->channels.depth_topic);
    else
        log_to(log, LOG_LEVEL_WARNING,
               "%s: no image is lost by this damage (what is in a chunk shows when it is "
               "played); " MCAP_FOR_OTHERS,
               name);
}

// What was taken, where there was a choice, and what of it is left out. topics: those there are.
static void tell_of_choice(const struct mcap_channels *channels, const struct mcap_choice *choice,
                           const char *name, bool is_most, const char *topics,
                           const struct log_sink *log)
{
    const size_t n_depths = mcap_channels_n_depths(channels);
    const bool is_any = channels->depth_rank == MCAP_DEPTH_ANY || is_most;
    if (n_depths > 1 && is_any)
        log_to(log, LOG_LEVEL_NOTICE,
               "%s: %zu depth topics, %s is taken (FILE#TOPIC chooses another): %s", name, n_depths,
               channels->depth_topic, topics);
    // `depth` is of a recording of one camera, whatever it is called now.
    else if (choice && choice->camera && is_any)
        log_to(log, LOG_LEVEL_WARNING, "%s: no depth topic of camera %s, its only one is taken: %s",
               name, choice->camera, channels->depth_topic);
    if (channels->n_other_units)
        log_to(log, LOG_LEVEL_WARNING,
               "%s: images of %s have another unit in %zu of its channels, and are left out: play "
               "that part of the recording by itself",
               name, channels->depth_topic, channels->n_other_units);
}

int mcap_scan(struct mcap_reader *reader, const char *name, const struct mcap_choice *choice,
              const struct log_sink *log, struct mcap_index *out)
{
    bool complete = false;
    char most_topic[MCAP_TOPIC_BYTES], topics[MCAP_LIST_BYTES], none[MCAP_CHANNEL_LIST_BYTES + 80];
    *out = (struct mcap_index){0};
    struct walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return -ENOMEM;
    const struct mcap_channels *const channels = &walk->channels;
    walk->reader = reader;
    walk->index = out;
    if (choice)
        walk->channels.choice = *choice;
    int err = mcap_walk_begin(&walk->file, reader);
    const char *reason = err == -EINVAL ? "not an MCAP file" : NULL;
    if (!err)
        err = walk_file(walk, &complete);
    const char *const most = err ? NULL : mcap_channels_most(channels);
    if (most) {
        memcpy(most_topic, most, sizeof most_topic);
        err = walk_again(walk, (struct mcap_choice){most_topic, NULL}, false, &complete);
    }
    if (!err && has_bad_stamps(walk))
        err = walk_by_log(walk, name, log, &complete);
    if (!err && (walk->is_ros || (!out->has_channel && walk->channels.has_ros))) {
        mcap_index_free(out);
        mcap_walk_end(&walk->file);
        free(walk);
        return -ENOMSG;
    }
    out->channels = channels->depths;
    memcpy(out->topic, channels->depth_topic, sizeof out->topic);
    const uint64_t n_lost = count_lost(walk);
    struct stamp_order order = {0};
    if (!err) {
        order = mcap_order_as_written(out);
        mcap_put_in_order(out);
    }
    if (!err && walk->unsupported && !out->n_frames) {
        reason = "its chunks are compressed in a way that this program was not built for";
        err = -ENOTSUP;
    } else if (!err && !out->has_channel) {
        snprintf(none, sizeof none, "no channel with protobuf foxglove.RawImage; its channels: %s",
                 channels->list.n_text ? channels->list.text : "none");
        reason = none;
        err = -EINVAL;
    } else if (!err && !out->n_frames) {
        reason = walk->damage.n ? "no depth image can be read" : "no depth image";
        err = -ENOENT;
    }
    if (err == -ENOENT)
        damage_tell(&walk->damage, name, log);
    const char *wrong = err && err != -EINVAL ? NULL : mcap_channels_wrong(channels);
    mcap_channels_list(channels, !wrong, topics);
    if (wrong) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s %s", name, wrong, topics);
        err = -EINVAL;
    } else if (err) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, reason ? reason : strerror(-err));
    } else if (!complete) {
        log_to(log, LOG_LEVEL_WARNING,
               "%s: incomplete, ends after %zu images, breaks off at byte %llu; " MCAP_FOR_OTHERS,
               name, out->n_frames, (unsigned long long)walk->file.at);
    }
    if (!err)
        tell_of_damage(walk, name, n_lost, complete, log);
    if (!err)
        tell_of_choice(channels, choice, name, most != NULL, topics, log);
    if (!err)
        stamp_order_tell(&order, log, name, channels->depth_topic);
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
