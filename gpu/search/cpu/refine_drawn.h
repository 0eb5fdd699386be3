// SPDX-License-Identifier: Apache-2.0
// The best candidates refined (as refine_points.h does) and scored with the model drawn at the
// image's full resolution. The formulas stand in kernels/ (icp.h, score.h, draw.h). Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_REFINE_DRAWN_H
#define POSED_GPU_SEARCH_CPU_REFINE_DRAWN_H

#include "gpu/search/cpu/draw.h"
#include "gpu/search/kernels/slide.h"

// out_slides: of the last step, may be NULL.
void search_refine_drawn(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *candidate, uint32_t n_rounds,
                         struct search_drawing *drawing, struct search_slides *out_slides);

// The same with the silhouette drawn to the image's edges: for a pose that is known to be nearly
// right (an occluder's edge beside the outline would mislead one that is not).
void search_refine_edges(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *candidate, uint32_t n_rounds,
                         struct search_drawing *drawing);

#endif
