// SPDX-License-Identifier: Apache-2.0
// The newest depth images, each with the camera it was taken with, for requests that name a frame
// by its sequence number. The frame loop lends them (capture_keep): nothing is copied, and it never
// waits: a slot that is just being read is left as it is.
#ifndef POSED_DAEMON_FRAMES_H
#define POSED_DAEMON_FRAMES_H

#include "capture/capture.h"

struct frames; // opaque

// Room for n_frames images (0 = none are kept); the source must let as many be kept. Returns 0 or
// -ENOMEM.
__attribute__((warn_unused_result)) int frames_create(struct frames **out, uint32_t n_frames);
void frames_destroy(struct frames **frames); // before the source is closed

// The frame loop: keeps the frame that was read last.
void frames_put(struct frames *frames, uint64_t seq, const struct capture_frame *frame,
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
