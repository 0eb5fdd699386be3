// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/repair.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "capture/mcap/chunk.h"
#include "capture/mcap/records.h"

#define N_CHANNELS         65536
#define CHUNK_FIXED_BYTES  40 // of a chunk's content without the name of the compression
#define MCAP_ATTACHMENT    0x09
#define MCAP_METADATA      0x0C
#define MAX_ENTRY_BYTES    64 // of anything that is put at once, but copies
#define INDEX_ENTRY_BYTES  16
#define OFFSET_ENTRY_BYTES 10
#define DATA_END_BYTES     (MCAP_RECORD_BYTES + 4)
#define FOOTER_BYTES       20
#define TAIL_BYTES         (MCAP_RECORD_BYTES + FOOTER_BYTES + MCAP_MAGIC_BYTES)

struct place {
    uint16_t channel;
    uint64_t time_ns, offset;
};

// Once for a whole file.
struct repair {
    struct mcap_reader *reader;
    int out_fd;
    uint64_t n_written;
    struct mcap_bytes out;                              // what goes out next
    struct mcap_bytes schemas, channels, chunk_indexes; // for the summary
    uint64_t n_schemas, n_channels, n_attachments, n_metadata;
    bool has_schema[N_CHANNELS], has_channel[N_CHANNELS];
    uint64_t counts[N_CHANNELS]; // messages
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
    for (size_t at = 0; r->out_fd >= 0 && at < r->out.n;) {
        ssize_t n = write(r->out_fd, r->out.data + at, r->out.n - at);
        if (n < 0)
            return -errno;
        at += (size_t)n;
    }
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
    if (n < 2 || has[mcap_get(data, 2)])
        return 0;
    has[mcap_get(data, 2)] = true;
    ++*count;
    return put_record(to, opcode, data, n);
}

static int count_message(struct repair *r, const unsigned char *data, size_t n, uint64_t offset)
{
    if (n < MCAP_MESSAGE_HEADER_BYTES)
        return 0;
    const struct place place = {(uint16_t)mcap_get(data, 2), mcap_get(data + 6, 8), offset};
    bool first = r->result->n_messages == 0;
    r->begin_ns = first || place.time_ns < r->begin_ns ? place.time_ns : r->begin_ns;
    r->end_ns = first || place.time_ns > r->end_ns ? place.time_ns : r->end_ns;
    r->counts[place.channel]++;
    r->result->n_messages++;
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

// A record that says what is in the file, wherever it stands.
static int take(struct repair *r, unsigned opcode, const unsigned char *data, size_t n,
                uint64_t offset)
{
    switch (opcode) {
    case MCAP_SCHEMA:
        return keep(r->has_schema, &r->n_schemas, &r->schemas, opcode, data, n);
    case MCAP_CHANNEL:
        return keep(r->has_channel, &r->n_channels, &r->channels, opcode, data, n);
    case MCAP_MESSAGE:
        return count_message(r, data, n, offset);
    }
    return 0;
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

// Returns -EBADMSG for a chunk that is to be left out.
static int copy_chunk(struct repair *r, uint64_t offset, uint64_t n_bytes)
{
    const struct mcap_chunk chunk = {offset, n_bytes};
    const unsigned char *raw, *content;
    const uint64_t start = r->n_written;
    size_t n;
    int err = mcap_reader_load(r->reader, offset, n_bytes, &content);
    if (!err &&
        (n_bytes < CHUNK_FIXED_BYTES || mcap_get(content + 28, 4) > n_bytes - CHUNK_FIXED_BYTES))
        err = -EBADMSG;
    if (!err)
        err = mcap_reader_unpack(r->reader, &chunk, offset, &raw, &n);
    r->n_places = 0;
    for (size_t at = 0; !err && n - at >= MCAP_RECORD_BYTES;) {
        uint64_t n_record = mcap_get(raw + at + 1, 8);
        if (n_record > n - at - MCAP_RECORD_BYTES)
            break;
        err = take(r, raw[at], raw + at + MCAP_RECORD_BYTES, (size_t)n_record, at);
        at += MCAP_RECORD_BYTES + (size_t)n_record;
    }
    if (!err)
        err = mcap_reader_load(r->reader, offset, n_bytes, &content);
    if (!err)
        err = put_record(&r->out, MCAP_CHUNK, content, (size_t)n_bytes);
    return err ? err : put_indexes(r, content, (size_t)n_bytes, start);
}

// One record of the file. What says where things are is made anew.
static int copy_record(struct repair *r, unsigned opcode, uint64_t offset, uint64_t n_bytes)
{
    const unsigned char *data;
    if (opcode == MCAP_CHUNK) {
        int err = copy_chunk(r, offset, n_bytes);
        if (err == -EBADMSG) {
            r->result->n_lost_bytes += n_bytes + MCAP_RECORD_BYTES;
            r->out.n = 0;
            return 0;
        }
        return err ? err : write_out(r);
    }
    if (opcode == MCAP_MESSAGE_INDEX)
        return 0;
    if (n_bytes > MCAP_MAX_CHUNK_BYTES) {
        r->result->n_lost_bytes += n_bytes + MCAP_RECORD_BYTES;
        return 0;
    }
    int err = mcap_reader_load(r->reader, offset, n_bytes, &data);
    if (err)
        return err;
    r->n_attachments += opcode == MCAP_ATTACHMENT;
    r->n_metadata += opcode == MCAP_METADATA;
    err = take(r, opcode, data, (size_t)n_bytes, 0);
    if (!err)
        err = put_record(&r->out, opcode, data, (size_t)n_bytes);
    return err ? err : write_out(r);
}

// The magic, and a header where the file has lost its own: readers ask for both.
static int put_head(struct repair *r)
{
    const unsigned char no_names[8] = {0}; // of profile and library
    unsigned char opcode = 0;
    int err = reserve(&r->out, MCAP_MAGIC_BYTES);
    if (err)
        return err;
    mcap_put_bytes(&r->out, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    if (mcap_reader_read(r->reader, &opcode, 1, MCAP_MAGIC_BYTES) == 0 && opcode != MCAP_HEADER)
        err = put_record(&r->out, MCAP_HEADER, no_names, sizeof no_names);
    return err ? err : write_out(r); // a chunk that is left out takes back what waits
}

static bool is_data(unsigned char opcode)
{
    switch (opcode) {
    case MCAP_HEADER:
    case MCAP_MESSAGE:
    case MCAP_CHUNK:
    case MCAP_MESSAGE_INDEX:
    case MCAP_ATTACHMENT:
    case MCAP_METADATA:
        return true;
    }
    return false;
}

// Whether from `start`, where the data ends, there is what readers ask for: a summary as its
// checksum says (0: it was not calculated), the footer and the magic.
static int check_summary(struct repair *r, uint64_t start, bool *out_whole)
{
    const uint64_t n_file = mcap_reader_file_bytes(r->reader);
    const unsigned char *data;
    *out_whole = false;
    if (start > n_file || n_file - start <= TAIL_BYTES)
        return 0;
    int err = mcap_reader_load(r->reader, start, n_file - start, &data);
    if (err) // -EBADMSG: more than any summary has
        return err == -EBADMSG ? 0 : err;
    const unsigned char *tail = data + (n_file - start - TAIL_BYTES);
    const unsigned char *end = tail + TAIL_BYTES - MCAP_MAGIC_BYTES, *crc = end - 4;
    *out_whole =
        tail[0] == MCAP_FOOTER && mcap_get(tail + 1, 8) == FOOTER_BYTES &&
        mcap_get(tail + MCAP_RECORD_BYTES, 8) == start &&
        memcmp(end, MCAP_MAGIC, MCAP_MAGIC_BYTES) == 0 &&
        (mcap_get(crc, 4) == 0 || mcap_get(crc, 4) == crc32_z(0, data, (size_t)(crc - data)));
    return 0;
}

// What stands behind the end of the data and belongs to no summary (two files in one, a writer that
// went on) is read by nobody. `at` is where the record that ends the data stands.
static int count_behind_end(struct repair *r, uint64_t at)
{
    const uint64_t n_file = mcap_reader_file_bytes(r->reader);
    unsigned char head[MCAP_RECORD_BYTES] = {0};
    while (n_file - at >= sizeof head) {
        int err = mcap_reader_read(r->reader, head, sizeof head, at);
        if (err)
            return err;
        const uint64_t n_bytes = mcap_get(head + 1, 8);
        if (is_data(head[0])) {
            r->result->n_lost_bytes += n_file - at;
            return 0;
        }
        if (n_bytes > n_file - at - sizeof head)
            return 0; // a summary that breaks off
        at += sizeof head + n_bytes;
        if (head[0] == MCAP_FOOTER) {
            const uint64_t n_left = n_file - at;
            r->result->n_lost_bytes += n_left > MCAP_MAGIC_BYTES ? n_left - MCAP_MAGIC_BYTES : 0;
            return 0;
        }
    }
    return 0;
}

static int copy_records(struct repair *r)
{
    const uint64_t n_file = mcap_reader_file_bytes(r->reader);
    uint64_t at = MCAP_MAGIC_BYTES;
    bool has_header = false, has_end = false, has_summary = false;
    int err = put_head(r);
    while (!err) {
        unsigned char head[MCAP_RECORD_BYTES];
        if (n_file - at < sizeof head || (err = mcap_reader_read(r->reader, head, sizeof head, at)))
            break;
        uint64_t n_bytes = mcap_get(head + 1, 8);
        has_header |= at == MCAP_MAGIC_BYTES && head[0] == MCAP_HEADER;
        has_end = head[0] == MCAP_DATA_END || head[0] == MCAP_FOOTER;
        if (has_end || n_bytes > n_file - at - sizeof head)
            break;
        err = copy_record(r, head[0], at + sizeof head, n_bytes);
        at += sizeof head + n_bytes;
    }
    if (!has_end)
        r->result->n_lost_bytes += n_file - at;
    else if (!err)
        err = check_summary(r, at + DATA_END_BYTES, &has_summary);
    if (has_end && !err && !has_summary)
        err = count_behind_end(r, at);
    r->result->was_complete = has_header && has_summary && r->result->n_lost_bytes == 0;
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
        err = reserve(out, r->schemas.n + r->channels.n + r->chunk_indexes.n);
    if (err)
        return err;
    mcap_put_bytes(out, r->schemas.data, r->schemas.n);
    mcap_put_bytes(out, r->channels.data, r->channels.n);
    err = put_statistics(r);
    if (!err)
        err = reserve(out, r->chunk_indexes.n + 2 * MAX_ENTRY_BYTES);
    if (err)
        return err;
    mcap_put_bytes(out, r->chunk_indexes.data, r->chunk_indexes.n);
    size_t begin = mcap_begin_record(out, MCAP_FOOTER);
    mcap_put_number(out, start, 8);
    mcap_put_number(out, 0, 8);             // no offsets of groups
    mcap_put(out->data + begin - 8, 20, 8); // the checksum covers the footer's length, too
    mcap_put_number(out, crc32(0, out->data, (uInt)out->n), 4);
    mcap_put_bytes(out, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    return write_out(r);
}

int mcap_repair(int fd, int out_fd, const char *name, const struct log_sink *log,
                struct mcap_repaired *out)
{
    unsigned char magic[MCAP_MAGIC_BYTES];
    const char *reason = NULL;
    *out = (struct mcap_repaired){0};
    struct repair *r = calloc(1, sizeof *r);
    int err = r ? mcap_reader_create(&r->reader, fd) : -ENOMEM;
    if (!err) {
        r->out_fd = out_fd;
        r->result = out;
        err = mcap_reader_read(r->reader, magic, sizeof magic, 0);
        if (err == -EBADMSG || (!err && memcmp(magic, MCAP_MAGIC, sizeof magic) != 0)) {
            err = -EINVAL;
            reason = "not an MCAP file";
        }
    }
    if (!err)
        err = copy_records(r);
    if (!err && out->n_messages == 0) {
        err = -ENOENT;
        reason = "no whole message in it";
    }
    if (!err)
        err = put_tail(r);
    if (err)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, reason ? reason : strerror(-err));
    if (r) {
        mcap_reader_destroy(&r->reader);
        free(r->out.data);
        free(r->schemas.data);
        free(r->channels.data);
        free(r->chunk_indexes.data);
        free(r->places);
    }
    free(r);
    return err;
}
