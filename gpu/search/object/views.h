// SPDX-License-Identifier: Apache-2.0
// Reference views of an object: which rotations, and how a drawn map becomes what the search reads.
// Host code that both twins share. Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_VIEWS_H
#define POSED_GPU_SEARCH_OBJECT_VIEWS_H

#include "gpu/search/ops.h"

// Rotation i of n, spread evenly over SO(3): super-Fibonacci spirals (Alexa, CVPR 2022). Row-major.
void search_rotation(uint32_t i, uint32_t n, float out[9]);

// Angle between two rotations [rad].
double search_rotation_angle(const float a[9], const float b[9]);

// Chunks that a map needs, at most SEARCH_MAP_PX * SEARCH_MAP_PX / SEARCH_CHUNK * 2.
uint32_t search_count_chunks(const struct search_map *map);

// Fills view (all but rotation and first_chunk) and its chunks.
void search_pack_view(const struct search_map *map, struct search_view *out_view,
                      uint16_t *out_offset, uint32_t *out_pairs);
void search_pack_coarse(const struct search_map *map, struct search_coarse *out);
uint32_t search_pack_points(const struct search_map *map, struct search_point *out);
uint32_t search_pack_ring(const struct search_map *map, struct search_point *out);

// Chooses object->seeds among the views and shares the views out among them. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int search_choose_seeds(struct search_object *object,
                                                            uint32_t n_seeds);

#endif
