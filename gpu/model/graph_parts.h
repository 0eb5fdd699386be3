// SPDX-License-Identifier: Apache-2.0
// What graph.c (keyframes and their adjustment) and graph_links.c (what is measured against what)
// share; for them alone.
#ifndef POSED_GPU_MODEL_GRAPH_PARTS_H
#define POSED_GPU_MODEL_GRAPH_PARTS_H

#include "gpu/align/pairs.h"
#include "gpu/model/graph.h"
#include "gpu/model/link.h"
#include "gpu/model/revisit.h"

#define GRAPH_LOOP_LINKS 2 // a revisit and the one that confirms it, beside a keyframe's links

struct edge {
    uint32_t i, j; // i < j
    uint32_t span; // keyframes from i to j, those that went included
    struct link link;
    bool chain; // of a keyframe to the one before it: never doubted
    bool loop;  // closes one: two keyframes found it
    bool fresh; // a loop's, and what it does to the chain is yet to be judged
};

struct graph {
    struct graph_settings settings;
    struct intrinsics camera;
    struct log_sink log;
    struct link_maker *maker;
    uint32_t n;
    uint32_t n_ever;   // those that went included
    uint32_t *arrival; // of each, counted
    struct graph_keyframe *keyframes;
    struct align_image **images;
    uint32_t n_edges;
    struct edge *edges;
    // A revisit that one keyframe found and no other has confirmed; at UINT32_MAX: none.
    struct revisit pending;
    uint32_t pending_newest; // its keyframe
    double *way;             // from each keyframe to the newest, over edges [m + rad]
    bool *reached;
    // Of an adjustment.
    struct align_pair *pairs;
    double *sums, *weight;
    bool *fixed;
    struct se3 *poses, *before;
    struct se3 T_map_odom;
};

// Links the newest keyframe to the one before it and to others; what closes a loop is fresh.
// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int graph_link_newest(struct graph *g);

#endif
