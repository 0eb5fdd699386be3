// SPDX-License-Identifier: Apache-2.0
// The records of the MCAP files that we write (format.h), as bytes. write_mcap.c decides what
// goes into which chunk and when. The caller gives the memory; what does not fit is left out, which
// is a bug of the caller's.
#ifndef POSED_CAPTURE_MCAP_RECORDS_H
#define POSED_CAPTURE_MCAP_RECORDS_H

#include "capture/mcap/format.h"

// What a channel holds, of each camera; also the id of its schema.
enum mcap_channel {
    MCAP_CHANNEL_DEPTH = 1,
    MCAP_CHANNEL_CALIB,
    MCAP_CHANNEL_POSE,
    MCAP_CHANNEL_TF,
    MCAP_CHANNEL_TF_STATIC, // of ROS only
    MCAP_END_CHANNELS,
    MCAP_CHANNEL_RIG, // the one of all cameras together, where there is one; of the pose's schema
};

// What the messages are: protobuf with Foxglove's schemas, or CDR with those of ROS 2.
enum mcap_dialect { MCAP_FOXGLOVE, MCAP_ROS2 };

#define MCAP_MAX_CAMERAS  16
#define MCAP_MAX_CHANNELS ((MCAP_END_CHANNELS - 1) * MCAP_MAX_CAMERAS + 2)

struct mcap_camera {
    const char *name; // stands in its topics; "" where there is only one
    double units_per_m;
};

struct mcap_content {
    enum mcap_dialect dialect;
    const struct mcap_camera *cameras;
    uint32_t n_cameras; // 1..MCAP_MAX_CAMERAS
    bool has_rig;       // MCAP_CHANNEL_RIG
};

// The id of a camera's channel, 1..MCAP_MAX_CHANNELS - 1. Of ROS, tf and tf_static are one for all.
uint16_t mcap_channel_id(const struct mcap_content *content, uint32_t camera,
                         enum mcap_channel channel);

struct mcap_bytes {
    unsigned char *data;
    size_t n, capacity;
};

void mcap_put_bytes(struct mcap_bytes *out, const void *data, size_t n);
void mcap_put_number(struct mcap_bytes *out, uint64_t value, int n_bytes);
void mcap_put_string(struct mcap_bytes *out, const char *text);

// A record: what is put between these two is its content. Begin returns what end wants.
size_t mcap_begin_record(struct mcap_bytes *out, enum mcap_opcode opcode);
void mcap_end_record(struct mcap_bytes *out, size_t begin);

// How a file begins: magic, header, schemas, channels. Less than MCAP_MAX_HEAD_BYTES.
#define MCAP_MAX_HEAD_BYTES 65536
void mcap_put_head(struct mcap_bytes *out, const struct mcap_content *content);

// What the summary says of a chunk.
struct mcap_chunk_place {
    int64_t first_ns, last_ns;
    uint64_t offset, n_bytes, n_packed, n_raw;
    const char *compression;
    uint64_t index_offsets[MCAP_MAX_CHANNELS]; // 0 = no message of that channel
    uint64_t n_index_bytes;
};

struct mcap_totals {
    const struct mcap_chunk_place *chunks;
    size_t n_chunks;
    uint64_t n_messages[MCAP_MAX_CHANNELS];
    int64_t begin_ns, end_ns;
};

// How it ends, behind DataEnd: summary, footer, magic. `start` is where in the file that is. Less
// than MCAP_MAX_HEAD_BYTES and mcap_chunk_index_bytes for each chunk.
size_t mcap_chunk_index_bytes(const struct mcap_content *content);
void mcap_put_summary(struct mcap_bytes *out, const struct mcap_content *content, uint64_t start,
                      const struct mcap_totals *totals);

#endif
