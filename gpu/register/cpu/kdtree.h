// SPDX-License-Identifier: Apache-2.0
// A balanced k-d tree over a point set: the nearest point, and all points within a distance. The
// tree is an order of the points (the median of each range is its node), so that it needs one
// index a point. Building is O(n log n), once for a target; queries only read.
#ifndef POSED_GPU_REGISTER_CPU_KDTREE_H
#define POSED_GPU_REGISTER_CPU_KDTREE_H

#include "proto/types.h"

struct kdtree;

// Of the first n points, which are copied. `stopped` (may be NULL) is asked every few milliseconds;
// a negative answer is returned and ends the building. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int kdtree_create(struct kdtree **out,
                                                      const struct point_set *points, size_t n,
                                                      int (*stopped)(const void *user),
                                                      const void *user);
size_t kdtree_size(const struct kdtree *tree);
void kdtree_destroy(struct kdtree **tree);

// Index (in the set's order) of the point nearest to p and its squared distance; SIZE_MAX when
// none is within sqrt(max_d2). Of equally near points the one that the tree meets first.
size_t kdtree_nearest(const struct kdtree *tree, const float p[3], float max_d2, float *out_d2);

// Calls visit for each point within sqrt(d2), in an order that depends on the tree only.
void kdtree_within(const struct kdtree *tree, const float p[3], float d2,
                   void (*visit)(void *context, const float x[3], size_t index, float d2),
                   void *context);

#endif
