// SPDX-License-Identifier: Apache-2.0
// All keyframes of a session adjusted at once, from their depth images: the camera's own error is
// learnt as further unknowns (gpu/track/calibrate.h) from the keyframes and the frames between them
// (between_frames.h) and, where pairs kept aside say so, taken out of all images; then all
// keyframes that see the same surface are measured against each other from the poses that they
// have, each against more of them where that error is out, and all poses solved for, twice.
//
// Touches nothing but what it is given, so that it runs beside the tracker. 96 keyframes take some
// seconds of one core. Any thread; the same bits each time.
#ifndef POSED_GPU_MODEL_OPTIMISE_H
#define POSED_GPU_MODEL_OPTIMISE_H

#include <stdatomic.h>

#include "gpu/base/yield.h"
#include "gpu/model/pose_graph.h"

struct optimise_report {
    uint32_t n_keyframes, n_links; // links: the chain's not among them
    uint32_t n_links_before;
    double reduction;     // of the residual of pairs kept aside, 0: no field was learnt
    bool has_field;       // it was worth to be taken out
    double before, after; // RMS of each link's pair where it alone lays it [m], mean; the
                          // links of `after` are others, most of them measured anew
    // How well the keyframes' poses fit the links of `after`, those kept among them: how far they
    // lie from where these have them, mean, where they were and where they are. Poses are fitted to
    // these links, so less does not mean that they are right: links that all err alike are fitted,
    // too.
    double apart_before_m, apart_before_rad, apart_m, apart_rad;
    double moved_m, moved_rad; // of the keyframe that moved most
};

// `graph` is one of graph_copy's, with 3 keyframes or more; it is adjusted in place. Ends early
// where *stop is set. Returns 0, -ENODATA (fewer keyframes), -EDOM (the poses cannot be solved for:
// links leave some of them free), -ENOLINK (nothing to solve for: there is no link beside the
// chain), -ECANCELED (*stop) or -ENOMEM; but for -ENODATA the graph is good for nothing then.
// `yield` (NULL: nobody) is asked between pieces of a millisecond.
__attribute__((warn_unused_result)) int optimise(struct graph *graph, const atomic_bool *stop,
                                                 const struct yield *yield,
                                                 struct optimise_report *out_report);

#endif
