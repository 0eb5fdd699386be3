// SPDX-License-Identifier: Apache-2.0
// The newest depth images, each with the camera it was taken with, for requests that name a frame
// by its sequence number. The frame loop puts copies in and never waits: a slot that is just being
// read is left as it is.
#ifndef POSED_DAEMON_FRAMES_H
#define POSED_DAEMON_FRAMES_H

#include "proto/types.h"

struct frames; // opaque

// Room for n_frames images of this size (0 = none are kept). Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int frames_create(struct frames **out, uint32_t n_frames,
                                                      uint32_t width_px, uint32_t height_px);
void frames_destroy(struct frames **frames);

// The frame loop: keeps a copy.
void frames_put(struct frames *frames, uint64_t seq, const struct depth_frame *frame,
                const struct intrinsics *camera);

// Any thread: copies image `seq` to `out_depth` (width x height). Returns 0 with *out_frame.depth =
// out_depth, or -ENOENT when it is not kept.
__attribute__((warn_unused_result)) int frames_get(struct frames *frames, uint64_t seq,
                                                   uint16_t *out_depth,
                                                   struct depth_frame *out_frame,
                                                   struct intrinsics *out_camera);

// The same with the newest image that is kept, its number in *out_seq.
__attribute__((warn_unused_result)) int
frames_get_newest(struct frames *frames, uint16_t *out_depth, struct depth_frame *out_frame,
                  struct intrinsics *out_camera, uint64_t *out_seq);

#endif
