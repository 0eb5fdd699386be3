// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/ros1_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#ifdef POSED_HAVE_BZ2
#include <bzlib.h>
#endif
#ifdef POSED_HAVE_LZ4
#include <lz4frame.h>
#endif

#include "capture/io/folder.h"

int ros1_reader_create(struct ros1_reader **out, int fd)
{
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st))
        return -errno;
    struct ros1_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return -ENOMEM;
    reader->fd = fd;
    reader->n_file_bytes = (uint64_t)st.st_size;
    reader->chunk = reader->plain_offset = UINT64_MAX;
#ifdef POSED_HAVE_LZ4
    if (LZ4F_isError(LZ4F_createDecompressionContext(&reader->lz4, LZ4F_VERSION))) {
        free(reader);
        return -ENOMEM;
    }
#endif
    *out = reader;
    return 0;
}

void ros1_reader_destroy(struct ros1_reader **reader)
{
    if (!*reader)
        return;
#ifdef POSED_HAVE_LZ4
    LZ4F_freeDecompressionContext((*reader)->lz4);
#endif
    free((*reader)->packed);
    free((*reader)->raw);
    free(*reader);
    *reader = NULL;
}

uint32_t ros1_u32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
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

struct ros1_text ros1_field(struct ros1_text header, const char *name)
{
    size_t n_name = strlen(name);
    for (size_t at = 0; header.n - at >= 4;) {
        size_t n = ros1_u32(header.data + at);
        const unsigned char *data = header.data + at + 4;
        if (n > header.n - at - 4)
            break;
        if (n > n_name && !memcmp(data, name, n_name) && data[n_name] == '=')
            return (struct ros1_text){data + n_name + 1, n - n_name - 1};
        at += 4 + n;
    }
    return (struct ros1_text){header.data, 0};
}

uint32_t ros1_number_field(struct ros1_text header, const char *name, uint32_t missing)
{
    struct ros1_text value = ros1_field(header, name);
    return value.n == 4 ? ros1_u32(value.data) : missing;
}

unsigned ros1_op(struct ros1_text header)
{
    struct ros1_text op = ros1_field(header, "op");
    return op.n == 1 ? op.data[0] : 0;
}

bool ros1_next_record(const unsigned char *data, size_t n, size_t *at, struct ros1_text *out_header,
                      struct ros1_text *out_data)
{
    if (n - *at < 4)
        return false;
    size_t n_header = ros1_u32(data + *at), left = n - *at - 4;
    if (n_header > left || left - n_header < 4)
        return false;
    *out_header = (struct ros1_text){data + *at + 4, n_header};
    size_t n_data = ros1_u32(data + *at + 4 + n_header);
    if (n_data > left - n_header - 4)
        return false;
    *out_data = (struct ros1_text){data + *at + 8 + n_header, n_data};
    *at += 8 + n_header + n_data;
    return true;
}

// ---- chunks ----

static bool is_text(struct ros1_text text, const char *expected)
{
    return text.n == strlen(expected) && !memcmp(text.data, expected, text.n);
}

static int unpack(struct ros1_reader *reader, struct ros1_text compression, struct ros1_text packed,
                  size_t n_raw)
{
    size_t n_out = 0;
    if (is_text(compression, "none")) {
        n_out = packed.n;
        if (n_out == n_raw)
            memcpy(reader->raw, packed.data, n_raw);
#ifdef POSED_HAVE_BZ2
    } else if (is_text(compression, "bz2")) {
        unsigned n_bz2 = (unsigned)n_raw;
        char *source = (char *)packed.data; // it is not written to
        if (BZ2_bzBuffToBuffDecompress((char *)reader->raw, &n_bz2, source, (unsigned)packed.n, 0,
                                       0) == BZ_OK)
            n_out = n_bz2;
#endif
#ifdef POSED_HAVE_LZ4
    } else if (is_text(compression, "lz4")) {
        size_t n_in = 0, left = 1;
        LZ4F_resetDecompressionContext(reader->lz4);
        while (left && !LZ4F_isError(left) && n_in < packed.n) {
            size_t n_dst = n_raw - n_out, n_src = packed.n - n_in;
            left = LZ4F_decompress(reader->lz4, reader->raw + n_out, &n_dst, packed.data + n_in,
                                   &n_src, NULL);
            n_out += n_dst;
            n_in += n_src;
            if (!n_dst && !n_src)
                break;
        }
#endif
    } else if (!compression.n) {
        reader->reason = "a chunk does not say how it is packed";
        return -EBADMSG;
    } else {
        reader->reason = "a chunk is packed in a way that this program was not built for";
        return -ENOTSUP;
    }
    if (n_out == n_raw)
        return 0;
    reader->reason = "a chunk does not unpack to its size";
    return -EBADMSG;
}

int ros1_read_head(struct ros1_reader *reader, uint64_t offset, struct ros1_head *out)
{
    unsigned char length[4];
    if (offset > reader->n_file_bytes || reader->n_file_bytes - offset < 8)
        return -EBADMSG;
    int err = file_read_at(reader->fd, length, 4, offset);
    uint32_t n = ros1_u32(length);
    if (!err && (n > ROS1_MAX_HEADER_BYTES || n > reader->n_file_bytes - offset - 8))
        err = -EBADMSG;
    if (!err)
        err = ros1_load(reader, offset + 4, (uint64_t)n + 4);
    if (err)
        return err;
    out->header = (struct ros1_text){reader->packed, n};
    out->n_data = ros1_u32(reader->packed + n);
    out->data_offset = offset + 8 + n;
    out->next = out->data_offset + out->n_data;
    return out->next > reader->n_file_bytes ? -EBADMSG : 0;
}

int ros1_load(struct ros1_reader *reader, uint64_t offset, uint64_t n_bytes)
{
    if (offset > reader->n_file_bytes || n_bytes > reader->n_file_bytes - offset)
        return -EBADMSG;
    int err = reserve(&reader->packed, &reader->n_packed_capacity, (size_t)n_bytes + 1);
    return err ? err : file_read_at(reader->fd, reader->packed, (size_t)n_bytes, offset);
}

int ros1_load_chunk(struct ros1_reader *reader, uint64_t offset)
{
    struct ros1_head head;
    if (reader->chunk == offset)
        return 0;
    reader->chunk = UINT64_MAX;
    reader->reason = "a chunk is too long, or cannot be read";
    int err = ros1_read_head(reader, offset, &head);
    if (err)
        return err;
    const uint32_t n_raw = ros1_number_field(head.header, "size", UINT32_MAX);
    struct ros1_text compression = ros1_field(head.header, "compression");
    if (n_raw > ROS1_MAX_CHUNK_BYTES || head.n_data > ROS1_MAX_CHUNK_BYTES)
        return -EBADMSG;
    const size_t n_header = head.header.n, name = (size_t)(compression.data - head.header.data);
    err = reserve(&reader->raw, &reader->n_raw_capacity, (size_t)n_raw + 1);
    if (!err)
        err = reserve(&reader->packed, &reader->n_packed_capacity, n_header + head.n_data + 1);
    compression.data = reader->packed + name; // it may have moved
    if (!err)
        err = file_read_at(reader->fd, reader->packed + n_header, head.n_data, head.data_offset);
    const struct ros1_text packed = {reader->packed + n_header, head.n_data};
    if (!err)
        err = unpack(reader, compression, packed, n_raw);
    if (err)
        return err;
    reader->n_raw_bytes = n_raw;
    reader->plain_offset = is_text(compression, "none") ? head.data_offset : UINT64_MAX;
    reader->chunk = offset;
    return 0;
}
