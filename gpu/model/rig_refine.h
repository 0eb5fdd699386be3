// SPDX-License-Identifier: Apache-2.0
// The keyframes of several cameras on one body adjusted by their images, all against all
// (gpu/track/rig_adjustment.h), from where a joined graph has them (pose_graph_join.h): each
// camera's own error is learnt anew with the others' beside it, and with it all poses. Depth is as
// it came; normals are of the camera's own images, out of which the error that it learnt alone is
// taken.
//
// Host only, one thread; the same bits each time. Two cameras with 55 keyframes each take 4 s of
// one core, three 6 s.
#ifndef POSED_GPU_MODEL_RIG_REFINE_H
#define POSED_GPU_MODEL_RIG_REFINE_H

#include "gpu/model/pose_graph_join.h"
#include "gpu/track/rig_adjustment.h"

// `joined` is graph_join's of these parts, and adjusted in place: its keyframes, and where its
// cameras sit. `stop` is asked now and then (NULL: nobody). Returns 0, or with the graph as it was
// -ENODATA (fewer than two cameras with RIG_ADJUSTMENT_MIN_IMAGES keyframes each, or too few of
// them see the same surface), -E2BIG (more than RIG_ADJUSTMENT_MAX_IMAGES in all, or more than
// RIG_ADJUSTMENT_MAX_CAMERAS), -EDOM (it makes nothing better), -ECANCELED or -ENOMEM.
__attribute__((warn_unused_result)) int rig_refine(struct graph *joined,
                                                   const struct graph_part *parts, uint32_t n_parts,
                                                   bool (*stop)(void *user), void *user,
                                                   struct rig_adjustment_report *out);

#endif
