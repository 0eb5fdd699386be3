// SPDX-License-Identifier: Apache-2.0
// A reference view of an object drawn as a map, on the CPU.
#ifndef POSED_GPU_SEARCH_CPU_REFERENCE_MAP_H
#define POSED_GPU_SEARCH_CPU_REFERENCE_MAP_H

#include "gpu/search/kernels/raster.h"
#include "gpu/search/ops.h"

// Working memory of search_map_draw for one thread.
struct search_map_scratch {
    struct raster_point *corners; // n_vertices each
    float *z;
    float value[SEARCH_MAP_PX * SEARCH_MAP_PX];
    uint32_t index[SEARCH_MAP_PX * SEARCH_MAP_PX];
    uint8_t kind[SEARCH_MAP_PX * SEARCH_MAP_PX];
};

// Draws one reference view of `object`'s mesh.
void search_map_draw(const struct search_object *object, const float rotation[9],
                     struct search_map_scratch *scratch, struct search_map *out);

#endif
