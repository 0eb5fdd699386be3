// SPDX-License-Identifier: Apache-2.0
// What pose_graph.c (keyframes and their adjustment), pose_graph_links.c (what is measured against
// what), pose_graph_copy.c (a second graph beside the first), pose_graph_join.c (several cameras'
// in one) and optimise.c share; for them alone.
#ifndef POSED_GPU_MODEL_POSE_GRAPH_PRIVATE_H
#define POSED_GPU_MODEL_POSE_GRAPH_PRIVATE_H

#include "gpu/align/pairs.h"
#include "gpu/model/depth_cells.h"
#include "gpu/model/keyframe_constraint.h"
#include "gpu/model/loop_closure.h"
#include "gpu/model/pose_graph.h"

#define GRAPH_LOOP_LINKS 2 // a revisit and the one that confirms it, beside a keyframe's links

struct edge {
    uint32_t i, j; // i < j
    uint32_t span; // keyframes from i to j, those that went included
    struct link link;
    double news;      // 0..1, the part of what was measured that link.information still says
    bool chain;       // of a keyframe to the one before it: never doubted
    bool lost;        // a chain's over a loss: of the way nothing is known
    bool find;        // to the keyframe by which j's camera was found after a loss
    bool loop;        // closes one: two keyframes found it
    bool beside_loop; // of an adjustment: it is one, or stands beside one at both ends, and agrees
    bool inherited;   // taken over from a keyframe that went
    bool fresh;       // a loop's, and what it does to the chain is yet to be judged
};

// Against images, across time: not the chain's, nor a find's by odom (graph_find_at).
static inline bool edge_is_measured(const struct edge *e)
{
    return !e->chain && e->link.rms_m > 0;
}

// Which camera a keyframe is of, and where that sits.
struct graph_mount {
    uint32_t camera, at; // its graph's keyframe
    struct se3 T_body_camera;
};

struct graph {
    struct graph_settings settings;
    struct intrinsics camera;
    struct log_sink log;
    uint32_t max_links; // of a new keyframe: settings', or LINK_MAX (optimise.c)
    struct link_maker *maker;
    struct yield yield; // of what is long: images, steps of an adjustment
    uint32_t n;
    uint32_t n_ever;   // those that went included
    uint32_t *arrival; // of each, counted; of a joined graph by each camera for itself
    struct graph_keyframe *keyframes;
    struct align_image **images;   // with the field taken out, where there is one
    struct graph_mount *body;      // of each, NULL: all of one camera. Else there are no images
    float **z_m;                   // as they came
    float (*log_z)[DEPTH_CELLS];   // of them
    struct between_frames between; // a copy's: to learn that error from, beside the keyframes
    float *field_per_m;            // of the camera's own error at each pixel, NULL: none is known
    uint32_t n_edges, max_edges;   // of them one place is kept for the next chain
    uint32_t enough_edges;         // beyond, a keyframe that goes leaves no links to others
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
    // What the next keyframe's camera was found by (graph_found): from keyframe i to the lost
    // frame; i at UINT32_MAX: it was not lost.
    struct edge find;
    struct se3 T_odom_found; // of that frame
    int64_t found_ns;
};

// The way along a chain's edge [m + rad], over keyframes that went as the tracker walked it.
static inline double graph_way(const struct graph *g, const struct edge *e)
{
    const double motion = link_motion(&e->link.T_j_i);
    const double walked = g->keyframes[e->j].walked - g->keyframes[e->i].walked;
    return e->span > 1 && walked > motion ? walked : motion;
}

// Whether the camera's own error is out of the images.
static inline bool graph_is_mended(const struct graph *g)
{
    return g->settings.is_mended || g->field_per_m;
}

// The edge between two keyframes among the first n_edges, or NULL.
struct edge *graph_find_edge(const struct graph *g, uint32_t n_edges, uint32_t i, uint32_t j);

// The residual of links between keyframes beside each other, 0 where there is none yet.
double graph_usual_rms_m(const struct graph *g);

// An image ready for links, the camera's own error taken out. Returns as link_image.
__attribute__((warn_unused_result)) int graph_make_image(const struct graph *g, const float *z_m,
                                                         struct align_image **out);

void graph_set_T_map_odom(struct graph *g); // as the newest keyframe has it

// The edge by which keyframe j's camera was found, or NULL.
const struct edge *graph_edge_of_find(const struct graph *g, uint32_t j);

// Links the newest keyframe to the one that its camera was found by, if it was lost.
void graph_link_found(struct graph *g);

// A link to a camera, given to another one: T_to_from of the other and the first.
void graph_move_link(struct link *inout, const struct se3 *T_to_from);

// A link from i to j is led on to k by one from j to k: their errors add up, that of the first with
// the arm of the second.
void graph_lead_on(struct link *inout, const struct link *on);

// Links the newest keyframe to the one before it and to others; what closes a loop is fresh.
// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int graph_link_newest(struct graph *g);

// The same where the newest keyframe's pose is no longer in doubt.
__attribute__((warn_unused_result)) int graph_link_again(struct graph *g);

// Whether a link agrees with where its keyframes are, as most of those do that are right.
bool graph_agrees(const struct graph *g, const struct edge *e);

// How well a link across time fits, where the keyframes are, in units of what is expected of any:
// the median of each one's chi2, by all that was measured, a link counting as far as it is news.
// One that is none says what the camera's own error makes of it and of the chain alike, whichever
// way that leads. 0: there is less news than of `least` links. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int graph_usual_chi2(const struct graph *g, double least,
                                                         double *out);

// Solves for all poses. Returns 0, -EDOM (they stay as they were) or -ENOMEM.
__attribute__((warn_unused_result)) int graph_adjust(struct graph *g);

// Makes the images of all keyframes that have none yet. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int graph_make_images(struct graph *g);

// Takes the camera's own error f [1/m] (of each pixel; copied) out of all images, now and later.
// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int graph_set_field(struct graph *g, const float *per_m);

#endif
