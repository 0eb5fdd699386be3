// SPDX-License-Identifier: Apache-2.0
// Images on the wire, made only while somebody is subscribed: `depth` as captured, in millimetres
// (16UC1, 0 = invalid), and of the filtered frame `normals` (32FC3, 0 0 0 = none), `residual`
// (32FC1 [m], NaN = no pair; some milliseconds of the loop) and `cloud`.
//
// The frame loop's thread owns it.
#ifndef POSED_DAEMON_IMAGE_H
#define POSED_DAEMON_IMAGE_H

#include "daemon/publish.h"
#include "daemon/shared_state.h"
#include "daemon/tracking_backend.h"

struct image_sender; // opaque: the buffers, taken when the first subscriber comes

// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int image_create(struct image_sender **out,
                                                     const struct shared *shared);
void image_destroy(struct image_sender **sender);

// Sends what is wanted of this frame. `backend` NULL: the frame was not tracked, so only depth.
void image_send(struct image_sender *sender, struct publish_channel *publish,
                struct backend *backend, const struct depth_frame *frame, uint64_t seq);

#endif
