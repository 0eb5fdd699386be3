// SPDX-License-Identifier: Apache-2.0
// Frames of a sensor that measures so few pixels that hardly one has a normal: the tracker aligns
// what sparse_depth.h fills in. Whether a frame is one is how its sensor measures, and looking at
// rows of it that no cache holds is a twentieth of a pose on a GPU. So after a dense frame the next
// one is aligned first: where so many pixels have a normal, no count of the measured ones could
// make it sparse.
#ifndef POSED_GPU_TRACK_SPARSE_FRAME_H
#define POSED_GPU_TRACK_SPARSE_FRAME_H

#include "gpu/track/pose_candidates.h"

// The frame itself, or where it is sparse a filled copy, valid until the next call; the first time
// the log says so.
const uint16_t *sparse_frame_fill(struct track *track, const uint16_t *measured);

// track_explain (pose_candidates.h) of the frame, filled where it is sparse.
int sparse_frame_explain(struct track *track, const uint16_t *measured, double seconds,
                         struct track_candidate *out);

// A frame without depth enough for normals: whether that is how its sensor measures.
void sparse_frame_tell(const struct track *track, const uint16_t *measured,
                       struct track_result *out);

#endif
