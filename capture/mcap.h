// SPDX-License-Identifier: Apache-2.0
// The MCAP container (mcap.dev/spec, version 0): what writer and reader share. After the magic the
// file is a list of records: opcode, 8 bytes of length, content; all little-endian. Messages stand
// in chunks, compressed or not; behind each chunk an index says where in it they are. A finished
// file ends in a summary, which we write but do not need for reading: a recorder that was killed
// leaves none.
#ifndef POSED_CAPTURE_MCAP_H
#define POSED_CAPTURE_MCAP_H

#include <string.h>

#include "proto/log.h"
#include "proto/types.h"

#define MCAP_MAGIC        "\x89MCAP0\r\n"
#define MCAP_MAGIC_BYTES  8
#define MCAP_RECORD_BYTES 9 // opcode and length

enum mcap_opcode {
    MCAP_HEADER = 0x01,
    MCAP_FOOTER = 0x02,
    MCAP_SCHEMA = 0x03,
    MCAP_CHANNEL = 0x04,
    MCAP_MESSAGE = 0x05,
    MCAP_CHUNK = 0x06,
    MCAP_MESSAGE_INDEX = 0x07,
    MCAP_CHUNK_INDEX = 0x08,
    MCAP_STATISTICS = 0x0B,
    MCAP_SUMMARY_OFFSET = 0x0E,
    MCAP_DATA_END = 0x0F,
};

#define MCAP_MESSAGE_HEADER_BYTES 22 // channel, sequence, log time, publish time

// Chunks that unpack to more are refused: no recorder makes them, and a hostile one cannot make us
// allocate more.
#define MCAP_MAX_CHUNK_BYTES ((uint64_t)256 << 20)

// One depth image of the file.
struct mcap_frame {
    int64_t time_ns;
    uint64_t chunk;  // number of its chunk, MCAP_NO_CHUNK = the message stands in the file itself
    uint64_t offset; // of the message record in the unpacked chunk, or in the file
};

#define MCAP_NO_CHUNK UINT64_MAX

struct mcap_chunk {
    uint64_t offset; // of the content of the chunk record
    uint64_t n_bytes;
};

// What is kept of a file: 24 bytes a frame and 16 a chunk.
struct mcap_index {
    struct mcap_frame *frames; // times strictly increasing
    size_t n_frames, frame_capacity;
    struct mcap_chunk *chunks;
    size_t n_chunks, chunk_capacity;
    size_t n_skipped; // frames whose time repeats
    bool has_channel;
    uint16_t channel;         // of the depth images
    double units_per_m;       // of the channel's metadata, 0 = not given
    struct intrinsics camera; // of the first calibration message, zero without one
    uint32_t width_px, height_px;
};

// Reads chunks of one file; keeps the one that was unpacked last.
struct mcap_reader;
__attribute__((warn_unused_result)) int mcap_reader_create(struct mcap_reader **out, int fd);
void mcap_reader_destroy(struct mcap_reader **reader); // does not close fd

// Walks through the file: finds the depth channel (protobuf foxglove.RawImage of 16UC1 or mono16;
// the topic `depth` before others), its images, and the calibration. Unpacks only as many chunks as
// that takes. A file that breaks off is read up to there, with a warning. Returns 0, or after
// logging "<name>: <reason>": -EINVAL (no MCAP file, no depth channel), -ENOENT (no image),
// -ENOTSUP (a compression that was not built in), -EIO, -ENOMEM; *out is then empty.
__attribute__((warn_unused_result)) int mcap_scan(struct mcap_reader *reader, const char *name,
                                                  const struct log_sink *log,
                                                  struct mcap_index *out);
void mcap_index_free(struct mcap_index *index);

// Copies the pixels of one frame. Returns 0, or -EBADMSG with *out_reason set (pixels undefined).
__attribute__((warn_unused_result)) int mcap_decode(struct mcap_reader *reader,
                                                    const struct mcap_index *index, uint64_t frame,
                                                    uint16_t *out_pixels, const char **out_reason);

static inline void mcap_put(unsigned char *out, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static inline uint64_t mcap_get(const unsigned char *in, int n_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)in[i] << 8 * i;
    return value;
}

#endif
