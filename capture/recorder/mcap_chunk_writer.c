// SPDX-License-Identifier: Apache-2.0
#include "capture/recorder/mcap_chunk_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#ifdef POSED_HAVE_ZSTD
#include <zstd.h>
#endif

#include "capture/recorder/writer.h"

#define CHUNK_NS         INT64_C(500000000)
#define CHUNK_BYTES      ((size_t)4 << 20)
#define CHUNK_MESSAGES   1024
#define ZSTD_LEVEL       1
#define MAX_CHUNK_HEADER 128

struct message_place {
    uint16_t channel;
    int64_t time_ns;
    uint64_t offset;
};

struct mcap_file {
    int fd;
    struct mcap_content content; // `cameras` are the file's own
    struct mcap_camera cameras[MCAP_MAX_CAMERAS];
    char names[MCAP_MAX_CAMERAS][WRITER_NAME_BYTES];
    uint64_t position;
    uint64_t n_head_bytes;
    uint64_t told_bytes; // in all, by mcap_file_tell
    uint32_t data_crc;

    struct mcap_bytes chunk;
    int64_t first_ns, last_ns;
    struct message_place places[CHUNK_MESSAGES];
    size_t n_places;
    struct mcap_bytes out; // a chunk as it goes to disk
#ifdef POSED_HAVE_ZSTD
    ZSTD_CCtx *zstd;
#endif
    struct mcap_chunk_place *chunks;
    size_t chunk_capacity;
    struct mcap_totals totals;
};

// Appends what stands in `out` to the file.
static int write_out(struct mcap_file *mcap)
{
    int err = writer_append(mcap->fd, mcap->out.data, mcap->out.n);
    if (err)
        return err;
    mcap->position += mcap->out.n;
    mcap->data_crc = (uint32_t)crc32(mcap->data_crc, mcap->out.data, (uInt)mcap->out.n);
    return 0;
}

// Packs the chunk behind the header in `out`. Returns the name of the compression.
static const char *pack(struct mcap_file *mcap, size_t at, size_t *out_n)
{
    struct mcap_bytes *chunk = &mcap->chunk, *out = &mcap->out;
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

static void put_message_indexes(struct mcap_file *mcap, struct mcap_chunk_place *place)
{
    struct mcap_bytes *out = &mcap->out;
    size_t indexes = out->n;
    for (unsigned channel = 1; channel < MCAP_MAX_CHANNELS; channel++) {
        size_t n = 0;
        for (size_t i = 0; i < mcap->n_places; i++)
            n += mcap->places[i].channel == channel;
        if (!n)
            continue;
        place->index_offsets[channel] = mcap->position + out->n;
        size_t begin = mcap_begin_record(out, MCAP_MESSAGE_INDEX);
        mcap_put_number(out, channel, 2);
        mcap_put_number(out, 16 * n, 4);
        for (size_t i = 0; i < mcap->n_places; i++)
            if (mcap->places[i].channel == channel) {
                mcap_put_number(out, (uint64_t)mcap->places[i].time_ns, 8);
                mcap_put_number(out, mcap->places[i].offset, 8);
            }
        mcap_end_record(out, begin);
    }
    place->n_index_bytes = out->n - indexes;
}

int mcap_file_flush(struct mcap_file *mcap)
{
    struct mcap_bytes *chunk = &mcap->chunk, *out = &mcap->out;
    if (!chunk->n)
        return 0;
    if (mcap->totals.n_chunks == mcap->chunk_capacity) {
        size_t grown = 2 * mcap->chunk_capacity + 64;
        struct mcap_chunk_place *chunks = realloc(mcap->chunks, grown * sizeof *chunks);
        if (!chunks)
            return -ENOMEM;
        mcap->chunks = chunks;
        mcap->chunk_capacity = grown;
    }
    // the header's length depends on the name of the compression: "zstd" or ""
    struct mcap_chunk_place place = {mcap->first_ns, mcap->last_ns, mcap->position,
                                     .n_raw = chunk->n};
    size_t n_packed;
    const char *compression = pack(mcap, MAX_CHUNK_HEADER, &n_packed);
    out->n = 0;
    size_t begin = mcap_begin_record(out, MCAP_CHUNK);
    mcap_put_number(out, (uint64_t)mcap->first_ns, 8);
    mcap_put_number(out, (uint64_t)mcap->last_ns, 8);
    mcap_put_number(out, chunk->n, 8);
    mcap_put_number(out, crc32(0, chunk->data, (uInt)chunk->n), 4);
    mcap_put_string(out, compression);
    mcap_put_number(out, n_packed, 8);
    memmove(out->data + out->n, out->data + MAX_CHUNK_HEADER, n_packed);
    out->n += n_packed;
    mcap_end_record(out, begin);
    place.n_bytes = out->n;
    place.n_packed = n_packed;
    place.compression = compression;
    put_message_indexes(mcap, &place);
    int err = write_out(mcap);
    if (err)
        return err;
    mcap->chunks[mcap->totals.n_chunks++] = place;
    chunk->n = mcap->n_places = 0;
    return 0;
}

// Of records that are in all of this length.
static int end_full_chunk(struct mcap_file *mcap, int64_t time_ns, size_t n_messages,
                          size_t n_bytes)
{
    const struct mcap_bytes *chunk = &mcap->chunk;
    const bool full =
        chunk->n + n_bytes > chunk->capacity || mcap->n_places + n_messages > CHUNK_MESSAGES;
    return full || (chunk->n && llabs(time_ns - mcap->first_ns) > CHUNK_NS) ? mcap_file_flush(mcap)
                                                                            : 0;
}

int mcap_file_make_room(struct mcap_file *mcap, int64_t time_ns, size_t n_messages, size_t n_bytes,
                        uint64_t *out_chunk)
{
    const int err =
        end_full_chunk(mcap, time_ns, n_messages,
                       n_bytes + n_messages * (MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES));
    *out_chunk = mcap->totals.n_chunks + 1;
    return err;
}

int mcap_file_add(struct mcap_file *mcap, uint32_t camera, enum mcap_channel kind, int64_t time_ns,
                  const void *head, size_t n_head, const void *body, size_t n_body)
{
    const uint16_t channel = mcap_channel_id(&mcap->content, camera, kind);
    struct mcap_bytes *chunk = &mcap->chunk;
    size_t n_record = MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES + n_head + n_body;
    if (n_record > chunk->capacity)
        return -EMSGSIZE;
    int err = end_full_chunk(mcap, time_ns, 1, n_record);
    if (err)
        return err;
    if (!chunk->n)
        mcap->first_ns = mcap->last_ns = time_ns;
    mcap->first_ns = time_ns < mcap->first_ns ? time_ns : mcap->first_ns;
    mcap->last_ns = time_ns > mcap->last_ns ? time_ns : mcap->last_ns;
    bool first = true;
    for (int i = 1; i < MCAP_MAX_CHANNELS; i++)
        first = first && !mcap->totals.n_messages[i];
    mcap->totals.begin_ns =
        first || time_ns < mcap->totals.begin_ns ? time_ns : mcap->totals.begin_ns;
    mcap->totals.end_ns = first || time_ns > mcap->totals.end_ns ? time_ns : mcap->totals.end_ns;
    mcap->places[mcap->n_places++] = (struct message_place){channel, time_ns, chunk->n};
    size_t begin = mcap_begin_record(chunk, MCAP_MESSAGE);
    mcap_put_number(chunk, channel, 2);
    mcap_put_number(chunk, mcap->totals.n_messages[channel]++, 4);
    mcap_put_number(chunk, (uint64_t)time_ns, 8);
    mcap_put_number(chunk, (uint64_t)time_ns, 8);
    mcap_put_bytes(chunk, head, n_head);
    mcap_put_bytes(chunk, body, n_body);
    mcap_end_record(chunk, begin);
    return 0;
}

static void free_file(struct mcap_file *mcap)
{
#ifdef POSED_HAVE_ZSTD
    ZSTD_freeCCtx(mcap->zstd);
#endif
    free(mcap->chunk.data);
    free(mcap->out.data);
    free(mcap->chunks);
    free(mcap);
}

// Room for the largest message twice, and for such a chunk that does not shrink.
static int take_memory(struct mcap_file *mcap, size_t n_largest)
{
    mcap->chunk.capacity = CHUNK_BYTES > 2 * n_largest ? CHUNK_BYTES : 2 * n_largest + 65536;
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

static void copy_content(struct mcap_file *mcap, const struct mcap_content *content)
{
    mcap->content = *content;
    mcap->content.cameras = mcap->cameras;
    for (uint32_t i = 0; i < content->n_cameras; i++) {
        snprintf(mcap->names[i], sizeof mcap->names[i], "%s", content->cameras[i].name);
        mcap->cameras[i] = (struct mcap_camera){mcap->names[i], content->cameras[i].units_per_m};
    }
}

int mcap_file_create(struct mcap_file **out, int folder, const char *name,
                     const struct mcap_content *content, size_t n_largest)
{
    struct mcap_file *mcap = calloc(1, sizeof *mcap);
    *out = NULL;
    if (!mcap)
        return -ENOMEM;
    copy_content(mcap, content);
    int err = take_memory(mcap, n_largest);
    if (err)
        goto fail;
    mcap->fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (mcap->fd < 0) {
        err = -errno;
        goto fail;
    }
    mcap_put_head(&mcap->out, &mcap->content);
    err = write_out(mcap);
    if (err) {
        close(mcap->fd);
        unlinkat(folder, name, 0);
        goto fail;
    }
    mcap->n_head_bytes = mcap->position;
    *out = mcap;
    return 0;
fail:
    free_file(mcap);
    return err;
}

void mcap_file_tell(struct mcap_file *mcap, uint64_t *bytes)
{
    size_t n_summary = mcap->n_head_bytes + 1024 +
                       (mcap->totals.n_chunks + 1) * mcap_chunk_index_bytes(&mcap->content);
    uint64_t n_bytes = mcap->position + mcap->chunk.n + n_summary;
    *bytes += n_bytes - mcap->told_bytes; // less than before when a chunk was packed: wraps back
    mcap->told_bytes = n_bytes;
}

uint64_t mcap_file_held(const struct mcap_file *mcap)
{
    uint64_t n = 0;
    for (size_t i = 0; i < mcap->n_places; i++)
        for (uint32_t camera = 0; camera < mcap->content.n_cameras; camera++)
            n += mcap->places[i].channel ==
                 mcap_channel_id(&mcap->content, camera, MCAP_CHANNEL_DEPTH);
    return n;
}

// DataEnd, summary and footer.
static int write_tail(struct mcap_file *mcap)
{
    struct mcap_bytes *out = &mcap->out;
    struct mcap_bytes tail = {.capacity =
                                  MCAP_MAX_HEAD_BYTES +
                                  mcap->totals.n_chunks * mcap_chunk_index_bytes(&mcap->content)};
    tail.data = malloc(tail.capacity);
    if (!tail.data)
        return -ENOMEM;
    out->n = 0;
    size_t begin = mcap_begin_record(out, MCAP_DATA_END);
    mcap_put_number(out, mcap->data_crc, 4);
    mcap_end_record(out, begin);
    mcap->totals.chunks = mcap->chunks;
    mcap_put_summary(&tail, &mcap->content, mcap->position + out->n, &mcap->totals);
    int err = writer_append(mcap->fd, out->data, out->n);
    if (!err)
        err = writer_append(mcap->fd, tail.data, tail.n);
    free(tail.data);
    return err;
}

int mcap_file_close(struct mcap_file *mcap)
{
    int err = mcap_file_flush(mcap);
    if (!err)
        err = write_tail(mcap);
    if (close(mcap->fd) && !err)
        err = -errno;
    free_file(mcap);
    return err;
}
