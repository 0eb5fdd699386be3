// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/footer.h"

#include <errno.h>
#include <zlib.h>

#include "capture/mcap/format.h"

#define TAIL_BYTES       (MCAP_RECORD_BYTES + MCAP_FOOTER_BYTES + MCAP_MAGIC_BYTES)
#define CRC_BYTES        4  // the last ones of the footer
#define STATISTICS_BYTES 26 // up to the number of chunks
#define COUNTS_AT        46 // in statistics: the messages of each channel, behind their length
#define COUNT_BYTES      10

bool mcap_ends_data(unsigned opcode, uint64_t n_bytes)
{
    return (opcode == MCAP_DATA_END && n_bytes == MCAP_DATA_END_BYTES) ||
           (opcode == MCAP_FOOTER && n_bytes == MCAP_FOOTER_BYTES);
}

bool mcap_has_last_magic(const struct mcap_reader *reader)
{
    unsigned char magic[MCAP_MAGIC_BYTES];
    const uint64_t n_file = mcap_reader_file_bytes(reader);
    return n_file >= sizeof magic &&
           mcap_reader_read(reader, magic, sizeof magic, n_file - sizeof magic) == 0 &&
           memcmp(magic, MCAP_MAGIC, sizeof magic) == 0;
}

bool mcap_is_index(unsigned opcode)
{
    switch (opcode) {
    case MCAP_CHUNK_INDEX:
    case MCAP_ATTACHMENT_INDEX:
    case MCAP_STATISTICS:
    case MCAP_METADATA_INDEX:
    case MCAP_SUMMARY_OFFSET:
        return true;
    }
    return false;
}

static bool is_summary(unsigned opcode)
{
    return opcode == MCAP_SCHEMA || opcode == MCAP_CHANNEL || mcap_is_index(opcode);
}

// The file's last record is a footer that says that the summary begins at `start`.
static bool has_tail(const struct mcap_reader *reader, uint64_t start, uint32_t *out_crc)
{
    unsigned char tail[TAIL_BYTES];
    const uint64_t n_file = mcap_reader_file_bytes(reader);
    if (start > n_file || n_file - start <= TAIL_BYTES ||
        mcap_reader_read(reader, tail, sizeof tail, n_file - sizeof tail) != 0)
        return false;
    const unsigned char *const footer = tail + MCAP_RECORD_BYTES;
    *out_crc = (uint32_t)mcap_get(footer + MCAP_FOOTER_BYTES - CRC_BYTES, CRC_BYTES);
    return tail[0] == MCAP_FOOTER && mcap_get(tail + 1, 8) == MCAP_FOOTER_BYTES &&
           mcap_get(footer, 8) == start && mcap_has_last_magic(reader);
}

static int sum_up(const struct mcap_reader *reader, uint64_t at, uint64_t end, uint32_t *out_crc)
{
    unsigned char bytes[4096];
    unsigned long crc = crc32(0, NULL, 0);
    while (at < end) {
        const size_t n = end - at < sizeof bytes ? (size_t)(end - at) : sizeof bytes;
        int err = mcap_reader_read(reader, bytes, n, at);
        if (err)
            return err;
        crc = crc32(crc, bytes, (uInt)n);
        at += n;
    }
    *out_crc = (uint32_t)crc;
    return 0;
}

static int read_statistics(const struct mcap_reader *reader, uint64_t at, uint64_t n_bytes,
                           struct mcap_end *out)
{
    unsigned char bytes[STATISTICS_BYTES];
    if (n_bytes < sizeof bytes)
        return 0;
    int err = mcap_reader_read(reader, bytes, sizeof bytes, at);
    if (err)
        return err;
    out->has_statistics = true;
    out->n_messages = mcap_get(bytes, 8);
    out->n_chunks = mcap_get(bytes + 22, 4);
    return 0;
}

int mcap_check_end(const struct mcap_reader *reader, uint64_t at, struct mcap_end *out)
{
    const uint64_t n_file = mcap_reader_file_bytes(reader), begin = at;
    const uint64_t start = at + MCAP_RECORD_BYTES + MCAP_DATA_END_BYTES;
    uint32_t said_crc = 0, crc = 0;
    *out = (struct mcap_end){0};
    const bool is_finished = has_tail(reader, start, &said_crc);
    while (n_file - at >= MCAP_RECORD_BYTES) {
        unsigned char head[MCAP_RECORD_BYTES];
        int err = mcap_reader_read(reader, head, sizeof head, at);
        if (err)
            return err;
        const uint64_t n_bytes = mcap_get(head + 1, 8), n_left = n_file - at - sizeof head;
        if (head[0] == MCAP_FOOTER && n_bytes == MCAP_FOOTER_BYTES) {
            const uint64_t n_end = MCAP_FOOTER_BYTES + MCAP_MAGIC_BYTES;
            out->n_lost_bytes = n_left > n_end ? n_left - n_end : 0;
            if (is_finished && n_left == n_end && said_crc)
                err = sum_up(reader, start, n_file - MCAP_MAGIC_BYTES - CRC_BYTES, &crc);
            out->is_whole = !err && is_finished && n_left == n_end && crc == said_crc;
            return err;
        }
        if (at > begin && !is_summary(head[0])) { // what is damaged within a summary is made anew
            const bool is_other_file = memcmp(head, MCAP_MAGIC, MCAP_MAGIC_BYTES) == 0;
            out->n_lost_bytes = is_finished && !is_other_file ? 0 : n_file - at;
            return 0;
        }
        if (n_bytes > n_left) // it breaks off
            return 0;
        if (head[0] == MCAP_STATISTICS)
            err = read_statistics(reader, at + sizeof head, n_bytes, out);
        if (err)
            return err;
        at += sizeof head + n_bytes;
    }
    return 0;
}

// Reads the summary from `start` on, which is to end in the footer at `end`. Returns -EBADMSG where
// it does not.
static int read_places(const struct mcap_reader *reader, uint64_t start, uint64_t end,
                       struct chunk_places *out)
{
    int err = 0;
    uint64_t at = start;
    while (!err && end - at >= MCAP_RECORD_BYTES) {
        unsigned char head[MCAP_RECORD_BYTES], offset[8];
        err = mcap_reader_read(reader, head, sizeof head, at);
        const uint64_t n_bytes = mcap_get(head + 1, 8);
        if (!err && (!is_summary(head[0]) || n_bytes > end - at - sizeof head))
            err = -EBADMSG;
        if (!err && head[0] == MCAP_CHUNK_INDEX) { // behind first and last time
            err = n_bytes < 32
                      ? -EBADMSG
                      : mcap_reader_read(reader, offset, sizeof offset, at + sizeof head + 16);
            if (!err)
                err = chunk_places_add(out, mcap_get(offset, 8));
        }
        at += sizeof head + n_bytes;
    }
    return !err && at != end ? -EBADMSG : err;
}

int mcap_find_chunks(const struct mcap_reader *reader, struct chunk_places *out)
{
    const uint64_t n_file = mcap_reader_file_bytes(reader), end = n_file - TAIL_BYTES;
    unsigned char start_bytes[8];
    uint32_t said_crc, crc = 0;
    *out = (struct chunk_places){0};
    if (n_file < MCAP_MAGIC_BYTES + TAIL_BYTES ||
        mcap_reader_read(reader, start_bytes, sizeof start_bytes, end + MCAP_RECORD_BYTES) != 0)
        return 0;
    const uint64_t start = mcap_get(start_bytes, 8);
    if (start < MCAP_MAGIC_BYTES || start >= end || !has_tail(reader, start, &said_crc))
        return 0;
    int err = read_places(reader, start, end, out);
    if (!err && said_crc)
        err = sum_up(reader, start, n_file - MCAP_MAGIC_BYTES - CRC_BYTES, &crc);
    if (err || crc != said_crc)
        chunk_places_free(out);
    else
        chunk_places_finish(out, MCAP_MAGIC_BYTES, start);
    return err == -ENOMEM ? err : 0;
}

// As mcap_next_chunk; the first place at `limit` or beyond is not looked at. Who asks of each
// record only up to its end looks at each place once.
static uint64_t next_chunk_within(const struct mcap_reader *reader,
                                  const struct chunk_places *places, uint64_t at, uint64_t limit)
{
    unsigned char head[MCAP_RECORD_BYTES];
    do {
        at = chunk_places_after(places, at);
    } while (at < places->end && at < limit &&
             (mcap_reader_read(reader, head, sizeof head, at) != 0 || head[0] != MCAP_CHUNK ||
              mcap_get(head + 1, 8) > places->end - at));
    return at;
}

uint64_t mcap_next_chunk(const struct mcap_reader *reader, const struct chunk_places *places,
                         uint64_t at)
{
    return next_chunk_within(reader, places, at, UINT64_MAX);
}

bool mcap_is_damaged(const struct mcap_reader *reader, const struct chunk_places *places,
                     uint64_t at, unsigned opcode, uint64_t n_bytes)
{
    if (at >= places->end)
        return false;
    if (opcode != MCAP_CHUNK && chunk_places_has(places, at))
        return true;
    const bool ends = opcode == MCAP_DATA_END || opcode == MCAP_FOOTER;
    const uint64_t next = at + MCAP_RECORD_BYTES + n_bytes, after = chunk_places_after(places, at);
    if (ends ? after == places->end : next <= after)
        return false;
    const uint64_t chunk = next_chunk_within(reader, places, at, ends ? places->end : next);
    return ends ? chunk < places->end : next > chunk;
}

bool mcap_add_counts(const unsigned char *statistics, size_t n_bytes, uint64_t *n_messages)
{
    for (size_t at = COUNTS_AT; at + COUNT_BYTES <= n_bytes; at += COUNT_BYTES)
        n_messages[mcap_get(statistics + at, 2)] += mcap_get(statistics + at + 2, 8);
    return n_bytes >= COUNTS_AT + COUNT_BYTES;
}

int mcap_take_summary(struct mcap_reader *reader, const struct chunk_places *places,
                      int (*take)(void *user, unsigned opcode, const unsigned char *data, size_t n),
                      void *user)
{
    const uint64_t end = mcap_reader_file_bytes(reader) - TAIL_BYTES;
    int err = 0;
    for (uint64_t at = places->end; !err && places->n && at < end;) {
        unsigned char head[MCAP_RECORD_BYTES];
        const unsigned char *data;
        err = mcap_reader_read(reader, head, sizeof head, at);
        const uint64_t n_bytes = mcap_get(head + 1, 8);
        if (!err &&
            (head[0] == MCAP_SCHEMA || head[0] == MCAP_CHANNEL || head[0] == MCAP_STATISTICS)) {
            err = mcap_reader_load(reader, at + sizeof head, n_bytes, &data);
            if (!err)
                err = take(user, head[0], data, (size_t)n_bytes);
        }
        at += sizeof head + n_bytes;
    }
    return err;
}
