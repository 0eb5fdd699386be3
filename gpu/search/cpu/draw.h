// SPDX-License-Identifier: Apache-2.0
// The model drawn at the image's full resolution: depth and triangle of each pixel that it covers.
// The formulas stand in kernels/draw.h. Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_DRAW_H
#define POSED_GPU_SEARCH_CPU_DRAW_H

#include "gpu/search/kernels/draw.h"
#include "gpu/search/kernels/pose.h"
#include "gpu/search/object.h"

// Working memory of one thread for drawing at full resolution.
struct search_drawing {
    struct raster_point *corners; // n_vertices each
    float *value;
    float *depth; // -1/z of each pixel of the rectangle
    uint32_t *index;
    uint32_t n_vertices, n_pixels; // capacities
    struct search_rectangle at;    // what of the image the drawing covers
};

// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
search_drawing_create(struct search_drawing *drawing, uint32_t n_vertices, uint32_t n_pixels);
void search_drawing_destroy(struct search_drawing *drawing);

// Draws the model at the candidate's pose into drawing->depth and index. Returns the number of
// pixels drawn.
uint32_t search_draw_candidate(const struct search_object *object,
                               const struct search_camera *camera,
                               const struct search_candidate *candidate,
                               struct search_drawing *drawing);

#endif
