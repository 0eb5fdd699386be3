// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/read_chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#ifdef POSED_HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef POSED_HAVE_LZ4
#include <lz4frame.h>
#endif

#include "capture/io/folder.h"

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

uint64_t mcap_reader_file_bytes(const struct mcap_reader *reader)
{
    return reader->n_file_bytes;
}

const char *mcap_reader_reason(const struct mcap_reader *reader)
{
    return reader->reason;
}

int mcap_reader_read(const struct mcap_reader *reader, void *out, size_t n_bytes, uint64_t offset)
{
    if (offset > reader->n_file_bytes || n_bytes > reader->n_file_bytes - offset)
        return -EBADMSG;
    return file_read_at(reader->fd, out, n_bytes, offset);
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

int mcap_reader_load(struct mcap_reader *reader, uint64_t offset, uint64_t n_bytes,
                     const unsigned char **out)
{
    if (n_bytes > MCAP_MAX_CHUNK_BYTES)
        return -EBADMSG;
    int err = reserve(&reader->packed, &reader->n_packed_capacity, (size_t)n_bytes + 1);
    *out = reader->packed;
    return err ? err : mcap_reader_read(reader, reader->packed, (size_t)n_bytes, offset);
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

static int load_chunk(struct mcap_reader *reader, const struct mcap_chunk *chunk)
{
    reader->reason = "a chunk is too long, or cannot be read";
    if (chunk->n_bytes < 40 || chunk->n_bytes > MCAP_MAX_CHUNK_BYTES)
        return -EBADMSG;
    size_t n = (size_t)chunk->n_bytes;
    int err = reserve(&reader->packed, &reader->n_packed_capacity, n);
    if (!err)
        err = mcap_reader_read(reader, reader->packed, n, chunk->offset);
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
    reader->n_raw_bytes = (size_t)n_raw;
    return 0;
}

int mcap_reader_unpack(struct mcap_reader *reader, const struct mcap_chunk *chunk, uint64_t number,
                       const unsigned char **out, size_t *out_n_bytes)
{
    int err = 0;
    if (reader->chunk != number) {
        reader->chunk = MCAP_NO_CHUNK;
        err = load_chunk(reader, chunk);
    }
    if (err)
        return err;
    reader->chunk = number;
    *out = reader->raw;
    *out_n_bytes = reader->n_raw_bytes;
    return 0;
}
