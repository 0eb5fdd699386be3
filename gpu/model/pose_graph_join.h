// SPDX-License-Identifier: Apache-2.0
// The keyframes of several cameras on one body in one graph, so that what one camera saw again
// holds the others, too. Each camera's chain and links are as they are, worth more the better its
// links usually fit (a variance component for each camera: Foerstner, 1979; of the median, which
// wrong links do not move, and of what is news in them, as an error that all images of a camera
// share makes them agree), but that the body's odometry takes the place of a chain over which the
// camera was lost; keyframes of two cameras that were taken beside each other are tied by where the
// cameras sit and how the body moved in between.
//
// Keyframes of different cameras are not linked: what is left of each camera's own error looks like
// another place of the camera, by 4 to 43 mm and 0.1 to 1.1 degrees in seven pairs of cameras, and
// such links made the poses worse, with that place as an unknown, too. rig_refine.h compares their
// images instead, with those errors as unknowns.
//
// Host only, one thread; the same bits each time.
#ifndef POSED_GPU_MODEL_POSE_GRAPH_JOIN_H
#define POSED_GPU_MODEL_POSE_GRAPH_JOIN_H

#include "gpu/model/pose_graph.h"

// One camera's keyframes.
struct graph_part {
    const struct graph *graph; // stays as it is
    struct se3 T_body_camera;
    const struct se3 *T_odom_body; // when each of its keyframes was taken; the body's own odometry
    int64_t ahead_ns;              // the camera's clock, of the body's
};

// Joins them, from where each camera has its keyframes, and adjusts all poses. What graph_add takes
// does not apply. Returns 0, -ENODATA (no keyframe), -E2BIG (more than GRAPH_MOST_KEYFRAMES in
// all), -EDOM (the poses cannot be solved for) or -ENOMEM.
__attribute__((warn_unused_result)) int graph_join(struct graph **out,
                                                   const struct graph_part *parts, uint32_t n_parts,
                                                   const struct log_sink *log);

// Where the body was at each keyframe, in order of time by the body's clock: graph_keyframes of a
// joined graph, with T_odom_body and T_map_body in place of the cameras'. `out` has room for all.
// Returns how many.
uint32_t graph_bodies(const struct graph *joined, struct graph_keyframe *out);

#endif
