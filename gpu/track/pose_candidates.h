// SPDX-License-Identifier: Apache-2.0
// The ways to explain a new frame: which starts and references are tried, and in which order, until
// one convinces. What speaks against each of them: verdict.h.
#ifndef POSED_GPU_TRACK_POSE_CANDIDATES_H
#define POSED_GPU_TRACK_POSE_CANDIDATES_H

#include "gpu/track/conditioning.h"
#include "gpu/track/tracker_state.h"

// One way to explain the new frame.
struct track_candidate {
    const struct track_slot *reference;
    struct gpu_alignment alignment;
    struct conditioning conditioning;
    struct se3 T_odom_camera;
    enum track_reason reason; // NONE: nothing to say against it
};

// The newest frame explained: the constant-velocity start first; where that does not convince the
// last pose itself (the camera stopped or turned back), with a keyframe the frame before, and then
// a search for other starts. With `depth` the frame is prepared on the way. `seconds`: since the
// last valid pose. Returns 0 or the device's negative errno.
int track_explain(struct track *track, const uint16_t *depth, double seconds,
                  struct track_candidate *out);

#endif
