// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/repair.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "capture/io/folder.h"
#include "capture/io/zero_tail.h"
#include "capture/mcap/check_record.h"
#include "capture/mcap/footer.h"
#include "capture/mcap/needed_channels.h"
#include "capture/mcap/read_chunk.h"
#include "capture/mcap/records.h"
#include "capture/mcap/walk.h"

#define N_CHANNELS         65536
#define MAX_ENTRY_BYTES    64 // of anything that is put at once, but copies
#define INDEX_ENTRY_BYTES  16
#define OFFSET_ENTRY_BYTES 10
#define NO_PLACE           UINT64_MAX // of a message that stands in no chunk: it is in no index
#define CHUNK_HEAD_BYTES   40 // of one that is not compressed: what stands before its records

struct place {
    uint16_t channel;
    uint64_t time_ns, offset;
};

// Once for a whole file.
struct repair {
    struct mcap_reader *reader;
    struct mcap_walk file;
    int fd, out_fd;
    uint64_t n_written;
    struct mcap_bytes out;  // what goes out next
    struct mcap_bytes kept; // a chunk made anew: of one in which some records are malformed
    // For the summary.
    struct mcap_bytes schemas, channels, chunk_indexes, attachment_indexes, metadata_indexes;
    uint64_t n_schemas, n_channels, n_attachments, n_metadata;
    bool has_schema[N_CHANNELS], has_channel[N_CHANNELS];
    uint64_t counts[N_CHANNELS]; // messages
    bool has_said;               // the summary was read, and says how many there were
    uint64_t n_said[N_CHANNELS];
    uint64_t begin_ns, end_ns;
    struct place *places; // of one chunk
    size_t n_places, place_capacity;
    struct mcap_repaired *result;
};

// Room for n more bytes.
static int reserve(struct mcap_bytes *bytes, size_t n)
{
    if (n <= bytes->capacity - bytes->n)
        return 0;
    size_t capacity = 2 * bytes->capacity + n;
    unsigned char *data = realloc(bytes->data, capacity);
    if (!data)
        return -ENOMEM;
    bytes->data = data;
    bytes->capacity = capacity;
    return 0;
}

static int write_out(struct repair *r)
{
    const int err = r->out_fd < 0 ? 0 : file_write(r->out_fd, r->out.data, r->out.n);
    r->result->write_failed = err != 0;
    if (err)
        return err;
    r->n_written += r->out.n;
    r->out.n = 0;
    return 0;
}

static int put_record(struct mcap_bytes *out, unsigned opcode, const unsigned char *data, size_t n)
{
    int err = reserve(out, MCAP_RECORD_BYTES + n);
    if (err)
        return err;
    size_t begin = mcap_begin_record(out, (enum mcap_opcode)opcode);
    mcap_put_bytes(out, data, n);
    mcap_end_record(out, begin);
    return 0;
}

// A schema or a channel, once of each id; readers want them in the summary, too.
static int keep(bool *has, uint64_t *count, struct mcap_bytes *to, unsigned opcode,
                const unsigned char *data, size_t n)
{
    if (has[mcap_get(data, 2)])
        return 0;
    has[mcap_get(data, 2)] = true;
    ++*count;
    return put_record(to, opcode, data, n);
}

static int count_message(struct repair *r, const unsigned char *data, uint64_t offset)
{
    const struct place place = {(uint16_t)mcap_get(data, 2), mcap_get(data + 6, 8), offset};
    bool first = r->result->n_messages == 0;
    r->begin_ns = first || place.time_ns < r->begin_ns ? place.time_ns : r->begin_ns;
    r->end_ns = first || place.time_ns > r->end_ns ? place.time_ns : r->end_ns;
    r->counts[place.channel]++;
    r->result->n_messages++;
    if (offset == NO_PLACE)
        return 0;
    if (r->n_places == r->place_capacity) {
        size_t capacity = 2 * r->place_capacity + 1024;
        struct place *places = realloc(r->places, capacity * sizeof *places);
        if (!places)
            return -ENOMEM;
        r->places = places;
        r->place_capacity = capacity;
    }
    r->places[r->n_places++] = place;
    return 0;
}

// A record that says what is in the file, wherever it stands; `offset` is in its chunk. It is
// usable.
static int take(struct repair *r, unsigned opcode, const unsigned char *data, size_t n,
                uint64_t offset)
{
    switch (opcode) {
    case MCAP_SCHEMA:
        return keep(r->has_schema, &r->n_schemas, &r->schemas, opcode, data, n);
    case MCAP_CHANNEL:
        return keep(r->has_channel, &r->n_channels, &r->channels, opcode, data, n);
    case MCAP_MESSAGE:
        return count_message(r, data, offset);
    }
    return 0;
}

// Whether other readers take the record: it is what it says, and they know what it refers to.
static bool is_usable(const struct repair *r, unsigned opcode, const unsigned char *data, size_t n)
{
    if (!mcap_is_well_formed(opcode, data, n))
        return false;
    if (opcode == MCAP_CHANNEL) // 0: no schema
        return mcap_get(data + 2, 2) == 0 || r->has_schema[mcap_get(data + 2, 2)];
    return opcode != MCAP_MESSAGE || r->has_channel[mcap_get(data, 2)];
}

// What the summary has and none of the records that were read, before the messages that want it.
static int recall(void *user, unsigned opcode, const unsigned char *data, size_t n)
{
    struct repair *r = user;
    if (opcode == MCAP_STATISTICS) { // they are made anew
        r->has_said |= mcap_add_counts(data, n, r->n_said);
        return 0;
    }
    const bool *has = opcode == MCAP_SCHEMA ? r->has_schema : r->has_channel;
    if (!is_usable(r, opcode, data, n) || has[mcap_get(data, 2)])
        return 0;
    int err = take(r, opcode, data, n, NO_PLACE);
    if (!err)
        err = put_record(&r->out, opcode, data, n);
    return err ? err : write_out(r);
}

static int by_channel(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->channel != y->channel)
        return x->channel < y->channel ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

// The indexes of the places of a chunk behind it, and for the summary where they are. `content` is
// that of the chunk record, which stands at `start`.
static int put_indexes(struct repair *r, const unsigned char *content, size_t n_content,
                       uint64_t start)
{
    struct mcap_bytes *out = &r->out, *index = &r->chunk_indexes;
    const size_t n_name = (size_t)mcap_get(content + 28, 4), n_indexes = out->n;
    int err = reserve(out, r->n_places * (INDEX_ENTRY_BYTES + MAX_ENTRY_BYTES));
    if (!err)
        err = reserve(index, r->n_places * OFFSET_ENTRY_BYTES + n_name + 2 * MAX_ENTRY_BYTES);
    if (err)
        return err;
    if (r->n_places)
        qsort(r->places, r->n_places, sizeof *r->places, by_channel);
    size_t begin = mcap_begin_record(index, MCAP_CHUNK_INDEX);
    mcap_put_bytes(index, content, 16); // first and last time
    mcap_put_number(index, start, 8);
    mcap_put_number(index, n_content + MCAP_RECORD_BYTES, 8);
    const size_t map = index->n;
    mcap_put_number(index, 0, 4);
    for (size_t i = 0, end; i < r->n_places; i = end) {
        for (end = i; end < r->n_places && r->places[end].channel == r->places[i].channel;)
            end++;
        mcap_put_number(index, r->places[i].channel, 2);
        mcap_put_number(index, r->n_written + out->n, 8);
        size_t record = mcap_begin_record(out, MCAP_MESSAGE_INDEX);
        mcap_put_number(out, r->places[i].channel, 2);
        mcap_put_number(out, INDEX_ENTRY_BYTES * (end - i), 4);
        for (size_t k = i; k < end; k++) {
            mcap_put_number(out, r->places[k].time_ns, 8);
            mcap_put_number(out, r->places[k].offset, 8);
        }
        mcap_end_record(out, record);
    }
    mcap_put(index->data + map, index->n - map - 4, 4);
    mcap_put_number(index, out->n - n_indexes, 8);
    mcap_put_number(index, n_name, 4);
    mcap_put_bytes(index, content + 32, n_name);
    mcap_put_bytes(index, content + 32 + n_name, 8); // packed bytes
    mcap_put_bytes(index, content + 16, 8);          // unpacked bytes
    mcap_end_record(index, begin);
    r->result->n_chunks++;
    return 0;
}

// Whether it is a compression that files have: another build may read what this one cannot.
static bool is_known_compression(const unsigned char *content)
{
    const size_t n = (size_t)mcap_get(content + 28, 4);
    const char *const name = (const char *)content + 32;
    return mcap_is_text(name, n, "zstd") || mcap_is_text(name, n, "lz4");
}

static int keep_bytes(struct repair *r, const unsigned char *data, size_t n)
{
    int err = reserve(&r->kept, n);
    if (!err)
        mcap_put_bytes(&r->kept, data, n);
    return err;
}

// Takes the n bytes of records of a chunk. Where one of them cannot be used, *out_n_lost is how
// many bytes are so, and r->kept has the others, behind room for the head of a chunk.
static int take_chunk(struct repair *r, const unsigned char *raw, size_t n, size_t *out_n_lost)
{
    static const unsigned char head[CHUNK_HEAD_BYTES];
    int err = 0;
    *out_n_lost = r->kept.n = 0;
    for (size_t at = 0, n_record; at < n && !err; at += n_record) {
        const size_t n_left = n - at;
        const uint64_t n_said = n_left < MCAP_RECORD_BYTES ? n : mcap_get(raw + at + 1, 8);
        const unsigned char *const data = raw + at + MCAP_RECORD_BYTES;
        bool is_whole = n_left >= MCAP_RECORD_BYTES && n_said <= n_left - MCAP_RECORD_BYTES;
        n_record = is_whole ? MCAP_RECORD_BYTES + (size_t)n_said : n_left;
        if (is_whole && !is_usable(r, raw[at], data, (size_t)n_said)) {
            err = mcap_walk_recall(&r->file, recall, r);
            is_whole = is_usable(r, raw[at], data, (size_t)n_said);
        }
        if (!err && !is_whole && *out_n_lost == 0) {
            err = keep_bytes(r, head, sizeof head);
            if (!err)
                err = keep_bytes(r, raw, at);
        }
        if (!err && is_whole)
            err = take(r, raw[at], data, (size_t)n_said, at - *out_n_lost);
        if (!err && is_whole && *out_n_lost)
            err = keep_bytes(r, raw + at, n_record);
        *out_n_lost += is_whole ? 0 : n_record;
    }
    return err;
}

// The chunk of r->kept, with the times of the one that it was.
static void put_kept_head(struct repair *r, const unsigned char *content)
{
    unsigned char *const head = r->kept.data;
    const size_t n = r->kept.n - CHUNK_HEAD_BYTES;
    memcpy(head, content, 16);
    mcap_put(head + 16, n, 8);
    mcap_put(head + 24, crc32(0, head + CHUNK_HEAD_BYTES, (uInt)n), 4);
    mcap_put(head + 32, n, 8); // behind the name of no compression
}

// Returns -EBADMSG for a chunk that is to be left out.
static int copy_chunk(struct repair *r, uint64_t offset, uint64_t n_bytes)
{
    const struct mcap_chunk chunk = {offset, n_bytes};
    const unsigned char *raw, *content;
    size_t n, n_content = (size_t)n_bytes, n_lost = 0;
    const int unpacked = mcap_reader_unpack(r->reader, &chunk, offset, &raw, &n);
    int err = unpacked == -ENOTSUP ? 0 : unpacked;
    r->n_places = 0;
    if (!unpacked)
        err = take_chunk(r, raw, n, &n_lost);
    const uint64_t start = r->n_written;
    if (!err)
        err = mcap_reader_load(r->reader, offset, n_bytes, &content);
    if (!err && unpacked)
        err = is_known_compression(content) ? unpacked : -EBADMSG;
    if (!err && n_lost) {
        r->result->n_lost_bytes += n_lost;
        put_kept_head(r, content);
        content = r->kept.data;
        n_content = r->kept.n;
    }
    if (!err)
        err = put_record(&r->out, MCAP_CHUNK, content, n_content);
    return err ? err : put_indexes(r, content, n_content, start);
}

// Of an attachment or of metadata, which has been put at `start`: where it is, for the summary.
static int put_place(struct repair *r, unsigned opcode, const unsigned char *data, size_t n,
                     uint64_t start)
{
    const bool is_attachment = opcode == MCAP_ATTACHMENT;
    const char *name, *media_type;
    size_t n_name, n_media_type, at = is_attachment ? 16 : 0; // behind the two times
    if (!mcap_take_string(data, n, &at, &name, &n_name) ||
        (is_attachment &&
         (!mcap_take_string(data, n, &at, &media_type, &n_media_type) || n - at < 8)))
        return 0;
    struct mcap_bytes *index = is_attachment ? &r->attachment_indexes : &r->metadata_indexes;
    int err = reserve(index, at + 2 * MAX_ENTRY_BYTES);
    if (err)
        return err;
    size_t begin =
        mcap_begin_record(index, is_attachment ? MCAP_ATTACHMENT_INDEX : MCAP_METADATA_INDEX);
    mcap_put_number(index, start, 8);
    mcap_put_number(index, MCAP_RECORD_BYTES + n, 8);
    if (is_attachment) {
        mcap_put_bytes(index, data, 16);     // log time, creation time
        mcap_put_bytes(index, data + at, 8); // bytes of data
        mcap_put_bytes(index, data + 16, at - 16);
    } else {
        mcap_put_bytes(index, data, at);
    }
    mcap_end_record(index, begin);
    *(is_attachment ? &r->n_attachments : &r->n_metadata) += 1;
    return 0;
}

// A record that is no chunk. Returns -EBADMSG for one that is to be left out.
static int copy_plain(struct repair *r, unsigned opcode, uint64_t offset, uint64_t n_bytes)
{
    const unsigned char *data;
    const size_t n = (size_t)n_bytes;
    // An end of the data of another length is a record whose opcode is damaged.
    if (opcode == MCAP_DATA_END || opcode == MCAP_FOOTER || n_bytes > MCAP_MAX_CHUNK_BYTES)
        return -EBADMSG;
    int err = mcap_reader_load(r->reader, offset, n_bytes, &data);
    if (!err && !is_usable(r, opcode, data, n)) {
        err = mcap_walk_recall(&r->file, recall, r);
        if (!err)
            err = mcap_reader_load(r->reader, offset, n_bytes, &data);
        if (!err && !is_usable(r, opcode, data, n))
            err = -EBADMSG;
    }
    const uint64_t start = r->n_written;
    if (!err)
        err = take(r, opcode, data, n, NO_PLACE);
    if (!err && (opcode == MCAP_ATTACHMENT || opcode == MCAP_METADATA))
        err = put_place(r, opcode, data, n, start);
    return err ? err : put_record(&r->out, opcode, data, n);
}

// One record of the file. What says where things are is made anew.
static int copy_record(struct repair *r, unsigned opcode, uint64_t offset, uint64_t n_bytes)
{
    if (opcode == MCAP_MESSAGE_INDEX || mcap_is_index(opcode))
        return 0;
    const int err = opcode == MCAP_CHUNK ? copy_chunk(r, offset, n_bytes)
                                         : copy_plain(r, opcode, offset, n_bytes);
    if (err == -EBADMSG) {
        r->result->n_lost_bytes += n_bytes + MCAP_RECORD_BYTES;
        r->out.n = 0;
        return 0;
    }
    return err ? err : write_out(r);
}

// Whether the file begins with a header that readers take.
static int look_for_header(const struct repair *r, bool *out)
{
    struct mcap_walk first = r->file;
    struct mcap_record record;
    const unsigned char *data;
    const int step = mcap_walk_next(&first, &record);
    *out = step == MCAP_STEP_RECORD && record.opcode == MCAP_HEADER &&
           record.n_bytes <= MCAP_MAX_CHUNK_BYTES;
    if (step < 0 || !*out)
        return step < 0 ? step : 0;
    int err = mcap_reader_load(r->reader, record.offset, record.n_bytes, &data);
    *out = !err && mcap_is_well_formed(MCAP_HEADER, data, (size_t)record.n_bytes);
    return err;
}

// The magic, and a header where the file has lost its own: readers ask for both.
static int put_head(struct repair *r, bool has_header)
{
    const unsigned char no_names[8] = {0}; // of profile and library
    int err = reserve(&r->out, MCAP_MAGIC_BYTES);
    if (err)
        return err;
    mcap_put_bytes(&r->out, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    if (!has_header)
        err = put_record(&r->out, MCAP_HEADER, no_names, sizeof no_names);
    return err ? err : write_out(r); // a chunk that is left out takes back what waits
}

// Copies up to the end of the data, which *out is, or of what there is of it.
static int copy_data(struct repair *r, enum mcap_step *out_step, struct mcap_record *out)
{
    uint64_t *const n_lost = &r->result->n_lost_bytes;
    for (int err = 0;;) {
        const uint64_t n_before = *n_lost;
        const int step = mcap_walk_next(&r->file, out);
        if (step == MCAP_STEP_SKIPPED)
            *n_lost += r->file.at - out->begin;
        else if (step == MCAP_STEP_RECORD)
            err = copy_record(r, out->opcode, out->offset, out->n_bytes);
        else
            err = step < 0 ? step : 0;
        if (!err && *n_lost != n_before)
            err = mcap_walk_recall(&r->file, recall, r);
        *out_step = (enum mcap_step)step;
        if (err || (step != MCAP_STEP_SKIPPED && step != MCAP_STEP_RECORD))
            return err;
    }
}

// Of what is lost at the end what is no more than zeros.
static int take_zeros(struct repair *r, uint64_t n_tail_bytes)
{
    const uint64_t end = mcap_reader_file_bytes(r->reader);
    const int err = zero_tail(r->fd, end - n_tail_bytes, end, &r->result->n_zeros);
    r->result->n_lost_bytes += n_tail_bytes - r->result->n_zeros;
    return err == -EBADMSG ? 0 : err; // it has become shorter
}

static int copy_records(struct repair *r)
{
    struct mcap_repaired *const result = r->result;
    struct mcap_end end = {0};
    struct mcap_record last = {0};
    enum mcap_step step = MCAP_STEP_TORN;
    bool has_header = false;
    int err = look_for_header(r, &has_header);
    if (!err)
        err = put_head(r, has_header);
    if (!err)
        err = copy_data(r, &step, &last);
    if (!err && step == MCAP_STEP_TORN)
        end.n_lost_bytes = mcap_reader_file_bytes(r->reader) - r->file.at;
    if (!err && step == MCAP_STEP_END && last.opcode != 0) // 0: the summary, which is made anew
        err = mcap_check_end(r->reader, last.begin, &end);
    if (!err)
        err = take_zeros(r, end.n_lost_bytes);
    result->was_complete = has_header && end.is_whole && result->n_lost_bytes == 0 &&
                           (!end.has_statistics || (end.n_messages == result->n_messages &&
                                                    end.n_chunks == result->n_chunks));
    return err;
}

static int put_statistics(struct repair *r)
{
    struct mcap_bytes *out = &r->out;
    int err = reserve(out, 2 * MAX_ENTRY_BYTES + OFFSET_ENTRY_BYTES * (size_t)r->n_channels);
    if (err)
        return err;
    size_t begin = mcap_begin_record(out, MCAP_STATISTICS);
    mcap_put_number(out, r->result->n_messages, 8);
    mcap_put_number(out, r->n_schemas, 2);
    mcap_put_number(out, r->n_channels, 4);
    mcap_put_number(out, r->n_attachments, 4);
    mcap_put_number(out, r->n_metadata, 4);
    mcap_put_number(out, r->result->n_chunks, 4);
    mcap_put_number(out, r->begin_ns, 8);
    mcap_put_number(out, r->end_ns, 8);
    mcap_put_number(out, OFFSET_ENTRY_BYTES * r->n_channels, 4);
    for (uint32_t id = 0; id < N_CHANNELS; id++)
        if (r->has_channel[id]) {
            mcap_put_number(out, id, 2);
            mcap_put_number(out, r->counts[id], 8);
        }
    mcap_end_record(out, begin);
    return 0;
}

// DataEnd without a checksum (0: it was not calculated), summary, footer.
static int put_tail(struct repair *r)
{
    struct mcap_bytes *out = &r->out;
    const unsigned char no_crc[4] = {0};
    int err = put_record(out, MCAP_DATA_END, no_crc, sizeof no_crc);
    if (!err)
        err = write_out(r);
    const uint64_t start = r->n_written;
    if (!err)
        err = reserve(out, r->schemas.n + r->channels.n);
    if (err)
        return err;
    mcap_put_bytes(out, r->schemas.data, r->schemas.n);
    mcap_put_bytes(out, r->channels.data, r->channels.n);
    err = put_statistics(r);
    if (!err)
        err = reserve(out, r->chunk_indexes.n + r->attachment_indexes.n + r->metadata_indexes.n +
                               2 * MAX_ENTRY_BYTES);
    if (err)
        return err;
    mcap_put_bytes(out, r->chunk_indexes.data, r->chunk_indexes.n);
    mcap_put_bytes(out, r->attachment_indexes.data, r->attachment_indexes.n);
    mcap_put_bytes(out, r->metadata_indexes.data, r->metadata_indexes.n);
    size_t begin = mcap_begin_record(out, MCAP_FOOTER);
    mcap_put_number(out, start, 8);
    mcap_put_number(out, 0, 8); // no offsets of groups
    // The checksum covers the footer's length, too.
    mcap_put(out->data + begin - 8, MCAP_FOOTER_BYTES, 8);
    mcap_put_number(out, crc32(0, out->data, (uInt)out->n), 4);
    mcap_put_bytes(out, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    return write_out(r);
}

int mcap_repair(int fd, int out_fd, const char *name, const struct log_sink *log,
                struct mcap_repaired *out)
{
    const char *reason = NULL;
    *out = (struct mcap_repaired){0};
    struct repair *r = calloc(1, sizeof *r);
    int err = r ? mcap_reader_create(&r->reader, fd) : -ENOMEM;
    if (!err) {
        r->fd = fd;
        r->out_fd = out_fd;
        r->result = out;
        err = mcap_walk_begin(&r->file, r->reader);
        reason = err == -EINVAL ? "not an MCAP file" : NULL;
    }
    if (!err && out_fd < 0 && !mcap_has_last_magic(r->reader)) // there is no need to look further
        goto out;
    if (!err)
        err = copy_records(r);
    if (!err && out->n_messages == 0) {
        err = -ENOENT;
        reason = "no whole message in it";
    }
    if (!err && out_fd >= 0)
        err = put_tail(r);
    if (!err && out_fd >= 0 && !out->was_complete)
        mcap_tell_of_needed(&r->schemas, &r->channels, r->counts, r->has_said ? r->n_said : NULL,
                            name, log);
    if (err == -ENOTSUP)
        reason = mcap_reader_reason(r->reader);
    if (err && !out->write_failed)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, reason ? reason : strerror(-err));
out:
    if (r) {
        mcap_reader_destroy(&r->reader);
        mcap_walk_end(&r->file);
        free(r->out.data);
        free(r->kept.data);
        free(r->schemas.data);
        free(r->channels.data);
        free(r->chunk_indexes.data);
        free(r->attachment_indexes.data);
        free(r->metadata_indexes.data);
        free(r->places);
    }
    free(r);
    return err;
}
