// SPDX-License-Identifier: Apache-2.0
#include "capture/io/unzip.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

// What the libraries differ in: begin, end, unzip_whole, unzip_crc32.
#ifdef POSED_HAVE_DEFLATE
#include <libdeflate.h>

struct unzip {
    struct libdeflate_decompressor *decompressor;
};

static bool begin(struct unzip *unzip)
{
    unzip->decompressor = libdeflate_alloc_decompressor();
    return unzip->decompressor != NULL;
}

static void end(struct unzip *unzip)
{
    libdeflate_free_decompressor(unzip->decompressor);
}

int unzip_whole(struct unzip *unzip, const void *data, size_t n_bytes, void *out,
                size_t n_out_bytes)
{
    // without a place for the size, any other size is an error
    enum libdeflate_result result =
        libdeflate_zlib_decompress(unzip->decompressor, data, n_bytes, out, n_out_bytes, NULL);
    return result == LIBDEFLATE_SUCCESS ? 0 : -EBADMSG;
}

uint32_t unzip_crc32(const void *data, size_t n_bytes)
{
    return libdeflate_crc32(0, data, n_bytes);
}

#else
#include <zlib.h>

struct unzip {
    z_stream zlib;
};

static bool begin(struct unzip *unzip)
{
    return inflateInit(&unzip->zlib) == Z_OK;
}

static void end(struct unzip *unzip)
{
    inflateEnd(&unzip->zlib);
}

int unzip_whole(struct unzip *unzip, const void *data, size_t n_bytes, void *out,
                size_t n_out_bytes)
{
    z_stream *zlib = &unzip->zlib;
    if (n_bytes > UINT_MAX || n_out_bytes > UINT_MAX)
        return -EBADMSG;
    inflateReset(zlib);
    zlib->next_in = (Bytef *)(uintptr_t)data; // zlib's next_in is not const, but not written to
    zlib->avail_in = (uInt)n_bytes;
    zlib->next_out = out;
    zlib->avail_out = (uInt)n_out_bytes;
    return inflate(zlib, Z_FINISH) == Z_STREAM_END && !zlib->avail_out ? 0 : -EBADMSG;
}

uint32_t unzip_crc32(const void *data, size_t n_bytes)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, n_bytes);
}
#endif

int unzip_create(struct unzip **out)
{
    *out = calloc(1, sizeof **out);
    if (*out && begin(*out))
        return 0;
    free(*out);
    *out = NULL;
    return -ENOMEM;
}

void unzip_destroy(struct unzip **unzip)
{
    if (!*unzip)
        return;
    end(*unzip);
    free(*unzip);
    *unzip = NULL;
}
