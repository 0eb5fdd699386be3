// SPDX-License-Identifier: Apache-2.0
// The bytes of an MCAP file: its records, and its chunks unpacked. Nothing in it is trusted: sizes
// are checked against the file and against MCAP_MAX_CHUNK_BYTES before memory is taken.
#ifndef POSED_CAPTURE_MCAP_READ_CHUNK_H
#define POSED_CAPTURE_MCAP_READ_CHUNK_H

#include "capture/mcap/format.h"

struct mcap_chunk {
    uint64_t offset; // of the content of the chunk record
    uint64_t n_bytes;
};

// Reads one file; keeps the chunk that was unpacked last, and why something failed last.
struct mcap_reader; // opaque
// Returns 0, -ENOMEM, or the errno of fstat; *out is then NULL.
__attribute__((warn_unused_result)) int mcap_reader_create(struct mcap_reader **out, int fd);
void mcap_reader_destroy(struct mcap_reader **reader); // does not close fd

uint64_t mcap_reader_file_bytes(const struct mcap_reader *reader);
const char *mcap_reader_reason(const struct mcap_reader *reader);

// Returns 0, -EBADMSG (beyond the end) or another negative errno.
__attribute__((warn_unused_result)) int
mcap_reader_read(const struct mcap_reader *reader, void *out, size_t n_bytes, uint64_t offset);

// n_bytes of the file into memory of the reader, valid until the next call. Returns 0, -EBADMSG,
// -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int mcap_reader_load(struct mcap_reader *reader,
                                                         uint64_t offset, uint64_t n_bytes,
                                                         const unsigned char **out);

// Unpacks a chunk into memory of the reader, valid until another is asked for; `number` tells it
// from others. Returns 0, -EBADMSG (malformed, checksum), -ENOTSUP (a compression that was not
// built in), -ENOMEM or -EIO; the reason is mcap_reader_reason's.
__attribute__((warn_unused_result)) int
mcap_reader_unpack(struct mcap_reader *reader, const struct mcap_chunk *chunk, uint64_t number,
                   const unsigned char **out, size_t *out_n_bytes);

#endif
