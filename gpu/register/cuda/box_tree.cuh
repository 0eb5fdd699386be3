// SPDX-License-Identifier: Apache-2.0
// The nearest point of a set, on CUDA: points in Morton order, sixteen of them in a box, and boxes
// of eight boxes above (a bounding volume hierarchy that needs no links: Morton order makes what
// lies beside each other in memory lie beside each other in space). Exact, also far from the set.
#ifndef POSED_GPU_REGISTER_CUDA_BOX_TREE_CUH
#define POSED_GPU_REGISTER_CUDA_BOX_TREE_CUH

#include "gpu/register/cuda/device.cuh"

#define REGISTER_BOXES_POINTS 16 // in a box of level 0
#define REGISTER_BOXES_FAN    8
#define REGISTER_BOXES_LEVELS 8 // 16 * 8^8 points: more than REGISTER_MAX_POINTS
#define REGISTER_BOXES_NONE   0xffffffffu

// Eight boxes side by side; those that are not there are empty: low is infinite.
struct register_box_group {
    float low[3][REGISTER_BOXES_FAN], high[3][REGISTER_BOXES_FAN];
};

struct register_boxes {
    const float4 *points;  // in Morton order; w: the bits of the index in the set
    const float4 *normals; // in the same order; NULL: none
    const struct register_box_group *groups;
    uint32_t first[REGISTER_BOXES_LEVELS]; // group of each level
    uint32_t n;
    int n_levels; // the last has one group
};

// The first n points of the target, in memory of cuda->grid. Returns 0, -ENOMEM or -EIO.
int register_boxes_build(struct register_cuda *cuda, uint32_t n, bool with_normals,
                         struct register_boxes *out);

// The first n points of the source, in the order in which T brings them among the target's: those
// of a warp walk alike. `out` has room for n. Uses cuda->staging.
int register_boxes_order(struct register_cuda *cuda, uint32_t n, const struct se3 *T, float4 *out);

// The lanes that look for the nearest point of one p together: a box each, then a point each.
struct register_boxes_lanes {
    uint32_t lane, mask; // of the eight, and which of the warp they are
};

static __device__ __forceinline__ struct register_boxes_lanes register_boxes_team(void)
{
    const uint32_t lane = threadIdx.x % REGISTER_BOXES_FAN;
    return {lane, 0xffu << (threadIdx.x % 32 - lane)};
}

struct register_boxes_best {
    float d2;
    uint32_t at, index; // among the sorted points, and in the set
};

// Squared distance of the lane's box of a group.
static __device__ __forceinline__ float
register_boxes_distance2(const struct register_box_group *group, uint32_t lane, const float p[3])
{
    float d2 = 0;
#pragma unroll
    for (int a = 0; a < 3; a++) {
        const float low = __ldg(&group->low[a][lane]), high = __ldg(&group->high[a][lane]);
        const float beyond = fmaxf(fmaxf(low - p[a], p[a] - high), 0.0f);
        d2 += beyond * beyond;
    }
    return d2;
}

// A box is left out only when it is farther than the best by more than its rounding.
#define REGISTER_BOXES_ROUNDING 0.999998f

// The nearest box of those in `left` that may hold something nearer than best2;
// REGISTER_BOXES_FAN: none.
static __device__ __forceinline__ uint32_t register_boxes_choose(
    const struct register_box_group *group, const struct register_boxes_lanes *team,
    const float p[3], float best2, uint32_t left)
{
    float d2 = register_boxes_distance2(group, team->lane, p);
    const bool there =
        (left >> team->lane & 1) && d2 < INFINITY && d2 * REGISTER_BOXES_ROUNDING <= best2;
    uint32_t nearest = there ? team->lane : REGISTER_BOXES_FAN;
    d2 = there ? d2 : INFINITY;
    for (int d = REGISTER_BOXES_FAN / 2; d > 0; d >>= 1) {
        const float other2 = __shfl_xor_sync(team->mask, d2, d);
        const uint32_t other = __shfl_xor_sync(team->mask, nearest, d);
        if (other2 < d2 || (other2 == d2 && other < nearest)) {
            d2 = other2;
            nearest = other;
        }
    }
    return nearest;
}

// All points of a box. Of equally near ones the one that stands first in the set.
static __device__ __forceinline__ void register_boxes_look(const struct register_boxes *boxes,
                                                           const struct register_boxes_lanes *team,
                                                           uint32_t box, const float p[3],
                                                           struct register_boxes_best *io)
{
    struct register_boxes_best best = *io;
#pragma unroll
    for (uint32_t k = 0; k < REGISTER_BOXES_POINTS; k += REGISTER_BOXES_FAN) {
        const uint32_t at = REGISTER_BOXES_POINTS * box + k + team->lane;
        if (at >= boxes->n)
            continue;
        const float4 x = __ldg(&boxes->points[at]);
        const float dx = x.x - p[0], dy = x.y - p[1], dz = x.z - p[2];
        const float d2 = dx * dx + dy * dy + dz * dz;
        const uint32_t index = __float_as_uint(x.w);
        if (d2 < best.d2 || (d2 == best.d2 && index < best.index))
            best = {d2, at, index};
    }
    if (!__any_sync(team->mask, best.index != io->index))
        return;
    for (int d = REGISTER_BOXES_FAN / 2; d > 0; d >>= 1) {
        const struct register_boxes_best other = {__shfl_xor_sync(team->mask, best.d2, d),
                                                  __shfl_xor_sync(team->mask, best.at, d),
                                                  __shfl_xor_sync(team->mask, best.index, d)};
        if (other.d2 < best.d2 || (other.d2 == best.d2 && other.index < best.index))
            best = other;
    }
    *io = best;
}

// Where the nearest point stands among the sorted ones; for all lanes of the team alike. near: one
// that is not far, such as the last iteration's, or REGISTER_BOXES_NONE.
static __device__ __forceinline__ uint32_t
register_boxes_nearest(const struct register_boxes *boxes, const float p[3], uint32_t near)
{
    const struct register_boxes_lanes team = register_boxes_team();
    struct register_boxes_best best = {INFINITY, 0, REGISTER_BOXES_NONE};
    if (near != REGISTER_BOXES_NONE)
        register_boxes_look(boxes, &team, near / REGISTER_BOXES_POINTS, p, &best);
    // Children that are still to be looked at, a byte a level; `box`: the group of the level.
    int level = boxes->n_levels - 1;
    uint32_t box = 0;
    uint64_t left = ~0ull;
    for (;;) {
        const uint32_t among = (uint32_t)(left >> 8 * level) & 0xff;
        const uint32_t chosen =
            among == 0 ? REGISTER_BOXES_FAN
                       : register_boxes_choose(&boxes->groups[boxes->first[level] + box], &team, p,
                                               best.d2, among);
        if (chosen == REGISTER_BOXES_FAN) {
            left |= 0xffull << 8 * level; // of the next group of this level
            if (++level == boxes->n_levels)
                return best.at;
            box /= REGISTER_BOXES_FAN;
            continue;
        }
        left &= ~(1ull << (8 * level + (int)chosen));
        const uint32_t child = REGISTER_BOXES_FAN * box + chosen;
        if (level == 0) {
            register_boxes_look(boxes, &team, child, p, &best);
        } else {
            box = child;
            level--;
        }
    }
}

#endif
