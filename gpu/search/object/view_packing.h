// SPDX-License-Identifier: Apache-2.0
// How a drawn map becomes what the search reads of a reference view. Host code that both twins
// share. Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_VIEW_PACKING_H
#define POSED_GPU_SEARCH_OBJECT_VIEW_PACKING_H

#include "gpu/search/ops.h"

// Chunks that a map needs, at most SEARCH_MAP_PX * SEARCH_MAP_PX / SEARCH_CHUNK * 2.
uint32_t search_count_chunks(const struct search_map *map);

// Fills view (all but rotation and first_chunk) and its chunks.
void search_pack_view(const struct search_map *map, struct search_view *out_view,
                      uint16_t *out_offset, uint32_t *out_pairs);
void search_pack_coarse(const struct search_map *map, struct search_coarse *out);
uint32_t search_pack_points(const struct search_map *map, struct search_point *out);
uint32_t search_pack_ring(const struct search_map *map, struct search_point *out);

#endif
