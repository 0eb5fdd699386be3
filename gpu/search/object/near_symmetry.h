// SPDX-License-Identifier: Apache-2.0
// Finds the rotations under which an object looks nearly the same. Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_NEAR_SYMMETRY_H
#define POSED_GPU_SEARCH_OBJECT_NEAR_SYMMETRY_H

#include "gpu/search/object/build.h"

// Fills object->near_symmetries from its views' points; info.symmetry must be there: exact
// symmetries are not among them. Returns 0, or -ENOMEM.
__attribute__((warn_unused_result)) int search_find_near_symmetries(struct search *search,
                                                                    struct search_object *object);

#endif
