// SPDX-License-Identifier: Apache-2.0
// The coarse pass: what a cell of the scene says about a cell of the model laid over it.
//
//   match     the scene's surface is where the model's is
//   free      the camera looks through the model: counts against it
//   hidden    something stands in front, or there is no measurement: says nothing
//   continued just outside the model's silhouette the scene goes on at the same depth: an object
//             would end there; counts against it
//
// All values are 1/64 px; differences stay inside 16 bits because of the values that stand for
// unknown, far and none (range_map.h): none - anything is "hidden".
#ifndef POSED_GPU_SEARCH_KERNELS_COARSE_H
#define POSED_GPU_SEARCH_KERNELS_COARSE_H

#include "gpu/search/kernels/range_map.h"

// Gates in 1/64 px. A seed view is off by up to 20 degrees, which moves the rim of the model by a
// third of its radius (29 px); 4 px keep most of a view's cells and still tell a wall from a bowl.
#define SEARCH_GATE_MATCH (4 * SEARCH_UNIT)
#define SEARCH_GATE_RING  (4 * SEARCH_UNIT)

#define SEARCH_WEIGHT_MATCH 8
#define SEARCH_WEIGHT_FREE  6
#define SEARCH_WEIGHT_RING  8

#define SEARCH_SCORE_ONE 4096 // every cell matches

// An anchor is tried on a start point when their normals agree to 35 degrees: the seed's rotation
// is off by up to 15, the rest is curvature and noise.
#define SEARCH_ANCHOR_COSINE 0.82f

SEARCH_FN int search_coarse_cell(int scene, int model, int ring, int anchor_z, int *seen)
{
    int d = scene - model + anchor_z, r = scene - ring + anchor_z, sum = 0;
    if (d >= -SEARCH_GATE_MATCH)
        sum += d > SEARCH_GATE_MATCH ? -SEARCH_WEIGHT_FREE : SEARCH_WEIGHT_MATCH;
    if (r >= -SEARCH_GATE_RING && r <= SEARCH_GATE_RING)
        sum -= SEARCH_WEIGHT_RING;
    *seen += d >= -SEARCH_GATE_MATCH;
    return sum;
}

// x, y, z: the start point's normal, 0 0 0 = unknown. By value and without a branch, for the CPU's
// vectors.
SEARCH_FN int search_coarse_facing(float x, float y, float z, const int8_t anchor[4])
{
    const float dot = x * (float)anchor[0] + y * (float)anchor[1] + z * (float)anchor[2];
    const int unknown = (x == 0.f) & (y == 0.f) & (z == 0.f);
    return unknown | (dot > 127 * SEARCH_ANCHOR_COSINE);
}

// A cell of the scene from a sample (search_frame_sample): px from the start point. What is larger
// than the object is background, however near.
SEARCH_FN int search_coarse_scene(int seen, float px)
{
    if (seen != 1)
        return seen ? SEARCH_COARSE_FAR : SEARCH_COARSE_UNKNOWN;
    float value = px * (float)SEARCH_UNIT;
    value = value > (float)SEARCH_COARSE_FAR ? (float)SEARCH_COARSE_FAR : value;
    value = value < (float)SEARCH_COARSE_UNKNOWN ? (float)SEARCH_COARSE_UNKNOWN : value;
    return (int)(value + (value < 0.f ? -0.5f : 0.5f));
}

// Of the cells that are not hidden; hidden ones count a third, so that more of the object seen is
// worth more. Small views (an elongated object seen end on) match by chance: eight cells are taken
// as missed.
SEARCH_FN int search_coarse_score(int sum, int n_seen, int n_cells)
{
    return sum * (3 * SEARCH_SCORE_ONE / SEARCH_WEIGHT_MATCH) / (2 * n_seen + n_cells + 24);
}

#endif
