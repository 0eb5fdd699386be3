// SPDX-License-Identifier: Apache-2.0
// A grid of cells over a set of points, at most one (mean) point a cell. Blocks of 4 x 4 x 4 cells
// hold a bit for each cell that is occupied; the points stand in the order of the blocks and of the
// bits, so that a cell's point is found with a count of bits: no hash, no tree, no order that
// depends on threads. Sums over a cell are integers, and so the same in any order.
#ifndef POSED_GPU_REGISTER_KERNELS_CELLS_H
#define POSED_GPU_REGISTER_KERNELS_CELLS_H

#include "gpu/base/kernel.h"

#define REGISTER_CELLS_NONE     0xffffffffu
#define REGISTER_CELLS_FRACTION 1048576.0f // steps of a cell in which its points are added

// Coordinates are local: metres from the set's origin, so that floats have digits to spare.
struct register_cells {
    float low[3];          // corner of block (0, 0, 0)
    float cell_m, inverse; // edge, 1 / edge
    int32_t n_blocks[3];
    uint64_t *mask;  // by block: bit x + 4 y + 16 z
    uint32_t *first; // by block: index of its first point
};

KERNEL_FN uint32_t register_cells_count(const struct register_cells *cells)
{
    return (uint32_t)(cells->n_blocks[0] * cells->n_blocks[1] * cells->n_blocks[2]);
}

KERNEL_FN uint32_t register_cells_bits(uint64_t mask)
{
#if defined(__CUDA_ARCH__)
    return (uint32_t)__popcll((unsigned long long)mask);
#else
    return (uint32_t)__builtin_popcountll(mask);
#endif
}

KERNEL_FN uint32_t register_cells_lowest(uint64_t mask)
{
#if defined(__CUDA_ARCH__)
    return (uint32_t)__ffsll((long long)mask) - 1;
#else
    return (uint32_t)__builtin_ctzll(mask);
#endif
}

// Of a local coordinate, in cells.
KERNEL_FN float register_cells_along(const struct register_cells *cells, int axis, float p_m)
{
    return (p_m - cells->low[axis]) * cells->inverse;
}

// Cell of a point: block << 6 | bit, and the point within it; REGISTER_CELLS_NONE outside.
KERNEL_FN uint32_t register_cells_find(const struct register_cells *cells, const float p_m[3],
                                       uint32_t out_fraction[3])
{
    int32_t c[3];
    for (int a = 0; a < 3; a++) {
        const float u = register_cells_along(cells, a, p_m[a]), whole = floorf(u);
        if (!(u >= 0.0f && u < (float)(4 * cells->n_blocks[a])))
            return REGISTER_CELLS_NONE;
        c[a] = (int32_t)whole;
        out_fraction[a] = (uint32_t)((u - whole) * REGISTER_CELLS_FRACTION);
    }
    const int32_t block =
        ((c[2] >> 2) * cells->n_blocks[1] + (c[1] >> 2)) * cells->n_blocks[0] + (c[0] >> 2);
    return (uint32_t)block << 6 | (uint32_t)((c[2] & 3) << 4 | (c[1] & 3) << 2 | (c[0] & 3));
}

KERNEL_FN uint32_t register_cells_index(const struct register_cells *cells, uint32_t cell)
{
    const uint64_t below = ((uint64_t)1 << (cell & 63)) - 1;
    return cells->first[cell >> 6] + register_cells_bits(cells->mask[cell >> 6] & below);
}

// The mean of a cell's points, from their sums in steps.
KERNEL_FN float register_cells_mean(const struct register_cells *cells, int axis, int32_t c,
                                    uint64_t sum, uint32_t n)
{
    const double steps = (double)sum / (double)n + 0.5;
    return (float)((double)cells->low[axis] +
                   (double)cells->cell_m *
                       ((double)c + steps * (1.0 / (double)REGISTER_CELLS_FRACTION)));
}

// Bits of the cells low .. high (0..3 each) of a block, along x, y and z.
KERNEL_FN uint64_t register_cells_box(const int32_t low[3], const int32_t high[3])
{
    const uint64_t x = (uint64_t)((0xfu >> (3 - high[0])) & (0xfu << low[0]));
    const uint64_t y = (uint64_t)((0xffffu >> (4 * (3 - high[1]))) & (0xffffu << (4 * low[1])));
    const uint64_t z = (~(uint64_t)0 >> (16 * (3 - high[2]))) & (~(uint64_t)0 << (16 * low[2]));
    return (x * 0x1111111111111111u) & (y * 0x0001000100010001u) & z;
}

// A walk over the points of the cells that a cube around p reaches.
struct register_cells_walk {
    int32_t low[3], high[3]; // cells
    int32_t block[3];
    uint64_t left, mask;
    uint32_t first;
};

KERNEL_FN bool register_cells_block(const struct register_cells *cells,
                                    struct register_cells_walk *walk)
{
    int32_t low[3], high[3];
    for (int a = 0; a < 3; a++) {
        const int32_t at = 4 * walk->block[a];
        low[a] = walk->low[a] > at ? walk->low[a] - at : 0;
        high[a] = walk->high[a] < at + 3 ? walk->high[a] - at : 3;
    }
    const uint32_t b =
        (uint32_t)((walk->block[2] * cells->n_blocks[1] + walk->block[1]) * cells->n_blocks[0] +
                   walk->block[0]);
    walk->mask = cells->mask[b];
    walk->left = walk->mask ? walk->mask & register_cells_box(low, high) : 0;
    walk->first = cells->first[b];
    return walk->left != 0;
}

// False: the cube lies outside.
KERNEL_FN bool register_cells_begin(const struct register_cells *cells, const float p_m[3],
                                    float reach_m, struct register_cells_walk *walk)
{
    for (int a = 0; a < 3; a++) {
        const float last = (float)(4 * cells->n_blocks[a] - 1);
        const float from = floorf(register_cells_along(cells, a, p_m[a] - reach_m));
        const float to = floorf(register_cells_along(cells, a, p_m[a] + reach_m));
        if (!(from <= last && to >= 0.0f))
            return false;
        walk->low[a] = from > 0.0f ? (int32_t)from : 0;
        walk->high[a] = to < last ? (int32_t)to : (int32_t)last;
        walk->block[a] = walk->low[a] >> 2;
    }
    register_cells_block(cells, walk);
    return true;
}

// Index of the next point, REGISTER_CELLS_NONE after the last.
KERNEL_FN uint32_t register_cells_next(const struct register_cells *cells,
                                       struct register_cells_walk *walk)
{
    while (!walk->left) {
        if (++walk->block[0] > walk->high[0] >> 2) {
            walk->block[0] = walk->low[0] >> 2;
            if (++walk->block[1] > walk->high[1] >> 2) {
                walk->block[1] = walk->low[1] >> 2;
                if (++walk->block[2] > walk->high[2] >> 2)
                    return REGISTER_CELLS_NONE;
            }
        }
        register_cells_block(cells, walk);
    }
    const uint32_t bit = register_cells_lowest(walk->left);
    walk->left &= walk->left - 1;
    return walk->first + register_cells_bits(walk->mask & (((uint64_t)1 << bit) - 1));
}

struct register_cell_point {
    float x, y, z, weight; // weight: points of the cell
};

KERNEL_FN float register_cells_distance2(const struct register_cell_point *q, const float p_m[3])
{
    const float x = q->x - p_m[0], y = q->y - p_m[1], z = q->z - p_m[2];
    return x * x + y * y + z * z;
}

// The nearest point within reach_m; of equally near ones the first. First one cell around, which
// is exact when something is nearer than a cell.
KERNEL_FN uint32_t register_cells_nearest(const struct register_cells *cells,
                                          const struct register_cell_point *points,
                                          const float p_m[3], float reach_m, float *out_d2)
{
    uint32_t best = REGISTER_CELLS_NONE;
    float best2 = reach_m * reach_m, near_m = cells->cell_m < reach_m ? cells->cell_m : reach_m;
    struct register_cells_walk walk;
    for (int round = 0; round < 2; round++) {
        if (!register_cells_begin(cells, p_m, near_m, &walk))
            break;
        uint32_t i;
        while ((i = register_cells_next(cells, &walk)) != REGISTER_CELLS_NONE) {
            const float d2 = register_cells_distance2(&points[i], p_m);
            if (d2 < best2 || (d2 == best2 && i < best)) {
                best2 = d2;
                best = i;
            }
        }
        if (best2 <= near_m * near_m)
            break;
        near_m = sqrtf(best2);
    }
    *out_d2 = best2;
    return best;
}

#endif
