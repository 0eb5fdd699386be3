// SPDX-License-Identifier: Apache-2.0
// Records and chunks of a ROS 1 bag (wiki.ros.org/Bags/Format/2.0): a record is {u32 header length,
// fields {u32 length, name=value}, u32 data length, data}, all little-endian; chunks hold records,
// plain or packed (bz2, lz4 frames).
//
// Nothing in the file is trusted: lengths are checked against what is there, and chunks against
// ROS1_MAX_CHUNK_BYTES, before memory is taken.
#ifndef POSED_CAPTURE_ROS_ROS1_READER_H
#define POSED_CAPTURE_ROS_ROS1_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROS1_MAX_CHUNK_BYTES  ((uint64_t)256 << 20)
#define ROS1_MAX_HEADER_BYTES 65536u // a longer one is damage

enum ros1_op {
    ROS1_MESSAGE = 2,
    ROS1_BAG_HEADER = 3,
    ROS1_INDEX_DATA = 4,
    ROS1_CHUNK = 5,
    ROS1_CHUNK_INFO = 6,
    ROS1_CONNECTION = 7,
};

struct ros1_text {
    const unsigned char *data;
    size_t n;
};

// The head of a record of the file.
struct ros1_head {
    struct ros1_text header; // in memory of the reader until its next call
    uint64_t data_offset, next;
    uint32_t n_data;
};

struct ros1_reader {
    int fd; // the caller's
    uint64_t n_file_bytes;
    unsigned char *packed, *raw; // `raw` is the chunk that was unpacked last
    size_t n_packed_capacity, n_raw_capacity, n_raw_bytes;
    uint64_t chunk;          // its offset, UINT64_MAX = none
    uint64_t plain_offset;   // of `raw` in the file where the chunk is not packed, else UINT64_MAX
    const char *reason;      // why the last chunk could not be read
    struct LZ4F_dctx_s *lz4; // NULL: not built in
};

// Returns 0, -ENOMEM or the errno of fstat; *out is then NULL.
__attribute__((warn_unused_result)) int ros1_reader_create(struct ros1_reader **out, int fd);
void ros1_reader_destroy(struct ros1_reader **reader); // does not close fd

uint32_t ros1_u32(const unsigned char *bytes);

// A field of a record's header; n = 0 when it is not there.
struct ros1_text ros1_field(struct ros1_text header, const char *name);
uint32_t ros1_number_field(struct ros1_text header, const char *name, uint32_t missing);
unsigned ros1_op(struct ros1_text header); // 0: none

// The record at *at of n bytes, which is moved behind it. Returns false when it is not there as a
// whole.
bool ros1_next_record(const unsigned char *data, size_t n, size_t *at, struct ros1_text *out_header,
                      struct ros1_text *out_data);

// Returns 0, -EBADMSG (no whole record there), -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int ros1_read_head(struct ros1_reader *reader, uint64_t offset,
                                                       struct ros1_head *out);

// n bytes of the file into reader->packed. Returns as above.
__attribute__((warn_unused_result)) int ros1_load(struct ros1_reader *reader, uint64_t offset,
                                                  uint64_t n_bytes);

// Unpacks the chunk whose record stands at `offset`. Returns as above, or -ENOTSUP for a packing
// that was not built in; reader->reason says why.
__attribute__((warn_unused_result)) int ros1_load_chunk(struct ros1_reader *reader,
                                                        uint64_t offset);

#endif
