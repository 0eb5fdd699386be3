// SPDX-License-Identifier: Apache-2.0
// From a coarse hypothesis to a pose: projective point-to-plane ICP of model points against the
// depth image, first with the stored points of the nearest reference view (no rendering, for
// hundreds of candidates), then with the model drawn at the image's full resolution (for the best).
// The formulas stand in kernels/ (icp.h, score.h, draw.h). Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_REFINE_H
#define POSED_GPU_SEARCH_CPU_REFINE_H

#include "gpu/search/kernels/draw.h"
#include "gpu/search/kernels/pose.h"
#include "gpu/search/object/object.h"

// Working memory of one thread for drawing at full resolution.
struct search_drawing {
    struct raster_point *corners; // n_vertices each
    float *value;
    float *depth; // -1/z of each pixel of the rectangle
    uint32_t *index;
    uint32_t n_vertices, n_pixels; // capacities
    struct search_rectangle at;    // what of the image the drawing covers
};

// Fills normal_z (4 floats a pixel) of rows v0 .. v1 - 1 from depth in metres.
void search_normals(const float *z_m, const struct search_camera *camera, int v0, int v1,
                    float *out_normal_z);

void search_refine_points(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *candidate);

// Its first steps and the judgement by which most candidates are given up, for who fits the weights
// of the score (tools/bench/search_weights.c). False: a step had no solution.
bool search_judge_loosely(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *candidate);

// Draws the model at the candidate's pose into drawing->depth and index. Returns the number of
// pixels drawn.
uint32_t search_draw_candidate(const struct search_object *object,
                               const struct search_camera *camera,
                               const struct search_candidate *candidate,
                               struct search_drawing *drawing);
void search_refine_drawn(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *candidate, uint32_t n_rounds,
                         struct search_drawing *drawing);

// The same with the silhouette drawn to the image's edges: for a pose that is known to be nearly
// right (an occluder's edge beside the outline would mislead one that is not).
void search_refine_edges(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *candidate, uint32_t n_rounds,
                         struct search_drawing *drawing);

__attribute__((warn_unused_result)) int
search_drawing_create(struct search_drawing *drawing, uint32_t n_vertices, uint32_t n_pixels);
void search_drawing_destroy(struct search_drawing *drawing);

#endif
