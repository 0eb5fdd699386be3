// SPDX-License-Identifier: Apache-2.0
// Where the depth images of an MCAP file are, and what the file says of the camera.
#ifndef POSED_CAPTURE_MCAP_INDEX_H
#define POSED_CAPTURE_MCAP_INDEX_H

#include "capture/mcap/channels.h"
#include "capture/mcap/read_chunk.h"
#include "proto/log.h"

// One depth image of the file.
struct mcap_frame {
    int64_t time_ns; // of the image's own stamp, of the log where it has none
    uint64_t chunk;  // number of its chunk, MCAP_NO_CHUNK = the message stands in the file itself
    uint64_t offset; // of the message record in the unpacked chunk, or in the file
};

// What is kept of a file: 24 bytes a frame and 16 a chunk.
struct mcap_index {
    struct mcap_frame *frames; // times strictly increasing
    size_t n_frames, frame_capacity;
    struct mcap_chunk *chunks;
    size_t n_chunks, chunk_capacity;
    size_t n_skipped; // frames whose time repeats
    bool has_channel;
    struct mcap_ids channels; // of the depth images
    double units_per_m;       // of the channel's metadata, 0 = not given
    struct intrinsics camera; // of the first calibration message, zero without one
    uint32_t width_px, height_px;
    char topic[MCAP_TOPIC_BYTES]; // of the depth images
};

// Walks through the file: finds the depth channel (protobuf foxglove.RawImage of 16UC1 or mono16;
// what was chosen, else the topic `depth` before others, else the first, but none with less than a
// tenth of another's depth images; where there are several and none was chosen, a notice lists
// them), its images, of all channels of that topic, and its calibration. Unpacks only as many
// chunks as that takes. A file that breaks off is read up to there, with a warning; so are images
// whose stamps go back, which are put in order. Returns 0, or after logging "<name>: <reason>":
// -EINVAL (no MCAP file, no depth channel: all channels are listed, none as chosen: those of depth
// are), -ENOENT (no image), -ENOTSUP (a compression that was not built in), -EIO, -ENOMEM; *out is
// then empty. Returns -ENOMSG and logs nothing when it is a ROS recording, for mcap/ros2.h: by its
// profile, or because no channel is protobuf but one is CDR or ROS 1.
__attribute__((warn_unused_result)) int mcap_scan(struct mcap_reader *reader, const char *name,
                                                  const struct mcap_choice *choice,
                                                  const struct log_sink *log,
                                                  struct mcap_index *out);
void mcap_index_free(struct mcap_index *index);

#define MCAP_REASON_BYTES 400

// Copies the pixels of one frame. Returns 0, or with out_reason set (pixels undefined) -EBADMSG or
// -ENODATA: its chunk cannot be unpacked, so that all images in it are lost.
__attribute__((warn_unused_result)) int mcap_decode(struct mcap_reader *reader,
                                                    const struct mcap_index *index, uint64_t frame,
                                                    uint16_t *out_pixels,
                                                    char out_reason[MCAP_REASON_BYTES]);

#endif
