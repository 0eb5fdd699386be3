// SPDX-License-Identifier: Apache-2.0
// The vertices that reach farthest in directions spread evenly: in any direction none of the object
// lies farther out by more than a twentieth of its radius, of a ball by a fiftieth. Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_CORNERS_H
#define POSED_GPU_SEARCH_OBJECT_CORNERS_H

#include "gpu/search/object.h"

// Fills object->corners_m from its vertices.
void search_find_corners(struct search_object *object);

#endif
