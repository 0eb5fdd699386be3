// SPDX-License-Identifier: Apache-2.0
// A graph of keyframes: each is chained to its predecessor as the tracker went, measured against
// older ones that see the same surface (keyframe_constraint.h), and all poses are adjusted at once.
// The adjustment is that of a pose graph (Grisetti et al., "A tutorial on graph-based SLAM", 2010)
// on gpu/align's sparse system, links across time under a robust weight (Geman, McClure), so that a
// wrong one counts nothing.
//
// Host only, one thread; the same bits each time.
#ifndef POSED_GPU_MODEL_POSE_GRAPH_H
#define POSED_GPU_MODEL_POSE_GRAPH_H

#include "gpu/model/between_frames.h"
#include "gpu/model/keyframe_constraint.h"
#include "gpu/model/relocalise_finds.h"
#include "proto/log.h"
#include "proto/types.h"

// Least and most of each setting.
#define GRAPH_MOST_KEYFRAMES  1024
#define GRAPH_KEYFRAMES_RANGE 4, GRAPH_MOST_KEYFRAMES
#define GRAPH_LINKS_RANGE     1, 16

struct graph_settings {
    uint32_t max_keyframes; // default 96, each with its depth (1 MB at 160 x 120)
    uint32_t max_links;     // default 5: of a new keyframe to older ones
    bool is_mended;         // the depth comes without the camera's own error (camera.field)
};

struct graph_keyframe {
    uint64_t seq;             // of its frame
    int64_t time_ns;          // of its frame
    struct se3 T_odom_camera; // as tracked
    struct se3 T_map_camera;  // as adjusted
    uint32_t n_links;         // that it was measured by when it came
    double walked;            // from the first one over all that came [m + rad], as tracked
    bool is_found;            // the camera was lost and found between the one before and it:
    int64_t found_ns; // frames after that are in odom as it is, those before as the one before
};

// A lost frame that was found among the keyframes.
struct keyframe_find {
    enum relocalise_trust trust; // NOT_FOUND: the rest says nothing
    uint64_t seq;                // of the keyframe that it was found by
    struct se3 T_odom_camera;    // of the frame, as that keyframe was tracked
    struct link link;            // from that keyframe to the frame
};

// By how much poses of odom are moved in the map, as this keyframe has it. Pure.
struct se3 graph_keyframe_T_map_odom(const struct graph_keyframe *keyframe);

struct graph; // opaque

void graph_settings_default(struct graph_settings *out);

// Whether each is in its range; what is not is named in the log. Any thread. Returns 0 or -EINVAL.
__attribute__((warn_unused_result)) int graph_settings_check(const struct graph_settings *settings,
                                                             const struct log_sink *log);

// Depth images will be of `camera`. Returns 0, -EINVAL (a setting out of range, in the log) or
// -ENOMEM.
__attribute__((warn_unused_result)) int graph_create(struct graph **out,
                                                     const struct intrinsics *camera,
                                                     const struct graph_settings *settings,
                                                     const struct log_sink *log);
void graph_destroy(struct graph **graph);

// No keyframe.
void graph_clear(struct graph *graph);

// One more keyframe: its frame, its depth [m], row-major, 0 = none, and the pose that it was
// tracked at. It is linked to the others and all poses are adjusted. A frame with too little depth
// is left out. Beyond max_keyframes one of the older half goes, whose neighbours stand nearest to
// each other. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int graph_add(struct graph *graph, uint64_t seq,
                                                  int64_t time_ns, const float *z_m,
                                                  const struct se3 *T_odom_camera);

// Looks for a lost frame, its depth as graph_add has it, among the keyframes' images
// (keyframe_recovery.h); `attempt` counts the frames lost in a row. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int graph_find(struct graph *graph, const float *z_m,
                                                   uint32_t attempt, struct keyframe_find *out);

// A lost frame that was found at a pose in odom, but not by a keyframe's image: what else knows a
// place in odom has it of the frames that were tracked there. So it is found by the keyframe that
// stands nearest in odom, tied to it as odom has the two; of none (n = 0): NOT_FOUND. Pure.
struct keyframe_find graph_find_at(const struct graph_keyframe *keyframes, uint32_t n,
                                   const struct se3 *T_odom_camera);

// The next keyframe's pose in odom came of this find: it is linked to the keyframe that it was
// found by, as that was measured and as the camera was followed since; where that one went
// meanwhile, as graph_find_at. Of the way from the keyframe before it, over the loss, nothing is
// known. time_ns: frames that are followed since are later.
void graph_found(struct graph *graph, const struct keyframe_find *find, int64_t time_ns);

// A second graph of the same keyframes, with memory of its own, for optimise.h beside the first;
// `between` (NULL: none) is copied, too. Returns as graph_create.
__attribute__((warn_unused_result)) int graph_copy(struct graph **out, const struct graph *graph,
                                                   const struct between_frames *between);

// Takes over what a copy found since: the poses, links and the camera's own error. Keyframes that
// came meanwhile follow as they were tracked. Returns 0, or -ENOMEM with the poses as they were.
__attribute__((warn_unused_result)) int graph_take(struct graph *graph, struct graph *copy);

// All keyframes, in order of arrival; valid until the graph changes.
uint32_t graph_keyframes(const struct graph *graph, const struct graph_keyframe **out);

// By how much poses of odom are moved in the map, as the newest keyframe has it.
struct se3 graph_T_map_odom(const struct graph *graph);

#endif
