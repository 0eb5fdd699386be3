// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/deform_blocks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/se3.h"

#define EDGE MODEL_BLOCK_EDGE

// A voxel between two blocks that were moved apart is read from one of them, up to this far beyond
// its edge, and a distance from eight corners of which so much is known.
#define GAP_VOXELS 1.0
#define KNOWN      0.5

#define EPSILON 1e-9 // voxels that rounding may move a point: one at an edge is in one block

struct pair { // a block of the result, and one that reaches into it
    int32_t x, y, z;
    uint32_t from;
};

struct moves {
    const struct model_block *blocks;
    uint32_t n_blocks;
    double voxel_m;
    struct se3 *T_odom_map; // of each block
};

// Where the surface goes through a block: the mean of the voxels next to it, else the nearest to
// it. False: nothing in it was ever seen.
static bool find_surface(const struct model_block *block, double voxel_m, double out_m[3])
{
    const int32_t at[3] = {block->x, block->y, block->z};
    const double close = voxel_m / MODEL_UNIT_M;
    double sum[3] = {0, 0, 0}, n = 0, least = INFINITY;
    uint32_t nearest = 0;
    for (uint32_t i = 0; i < MODEL_BLOCK_VOXELS; i++) {
        const double off = fabs((double)block->distance[i]);
        if (block->weight[i] == 0)
            continue;
        if (off < least) {
            least = off;
            nearest = i;
        }
        if (off >= close)
            continue;
        sum[0] += i % EDGE;
        sum[1] += i / EDGE % EDGE;
        sum[2] += i / EDGE / EDGE;
        n++;
    }
    if (n == 0) {
        sum[0] = nearest % EDGE;
        sum[1] = nearest / EDGE % EDGE;
        sum[2] = nearest / EDGE / EDGE;
    }
    for (int i = 0; i < 3; i++)
        out_m[i] = voxel_m * (EDGE * (double)at[i] + sum[i] / fmax(1, n));
    return least < INFINITY;
}

// Blocks of the result that a block may reach into, with its gap: first and last along each axis.
static void find_reach(const struct model_block *block, const struct se3 *T_map_odom,
                       double voxel_m, int32_t out_first[3], int32_t out_last[3])
{
    const int32_t at[3] = {block->x, block->y, block->z};
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (int corner = 0; corner < 8; corner++) {
        double p[3], q[3];
        for (int i = 0; i < 3; i++) {
            const double edge = corner >> i & 1 ? EDGE + GAP_VOXELS : -GAP_VOXELS;
            p[i] = voxel_m * (EDGE * (double)at[i] + edge);
        }
        se3_apply(T_map_odom, p, q);
        for (int i = 0; i < 3; i++) {
            low[i] = fmin(low[i], q[i] / voxel_m);
            high[i] = fmax(high[i], q[i] / voxel_m);
        }
    }
    for (int i = 0; i < 3; i++) {
        out_first[i] = (int32_t)floor(ceil(low[i]) / EDGE);
        out_last[i] = (int32_t)floor(floor(high[i]) / EDGE);
    }
}

static int compare(const int32_t a[3], const int32_t b[3])
{
    for (int i = 2; i >= 0; i--)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *p = a, *q = b;
    const int32_t at[2][3] = {{p->x, p->y, p->z}, {q->x, q->y, q->z}};
    const int order = compare(at[0], at[1]);
    return order ? order : (p->from > q->from) - (p->from < q->from);
}

static const struct model_block *find_block(const struct moves *moves, const int32_t at[3])
{
    uint32_t low = 0, high = moves->n_blocks;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct model_block *block = &moves->blocks[middle];
        const int32_t there[3] = {block->x, block->y, block->z};
        const int order = compare(there, at);
        if (order == 0)
            return block;
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

// A block and those around it, found when they are wanted.
struct around {
    const struct moves *moves;
    const struct model_block *block[27];
    bool is_known[27];
};

static const struct model_block *around_get(struct around *around, const struct model_block *middle,
                                            const int step[3])
{
    const int at = step[0] + 1 + 3 * (step[1] + 1) + 9 * (step[2] + 1);
    if (!around->is_known[at]) {
        const int32_t place[3] = {middle->x + step[0], middle->y + step[1], middle->z + step[2]};
        around->block[at] = find_block(around->moves, place);
        around->is_known[at] = true;
    }
    return around->block[at];
}

// Where the eight voxels around a point are, if one block has them all, or NULL.
static const struct model_block *all_in_one(const struct model_block *middle, const int low[3],
                                            int *out_index)
{
    for (int i = 0; i < 3; i++)
        if (low[i] < 0 || low[i] >= EDGE - 1)
            return NULL;
    *out_index = low[0] + EDGE * (low[1] + EDGE * low[2]);
    return middle;
}

// Distance and weight at a point of a block's lattice, from the eight voxels around it. False: too
// little is known there.
static bool sample(struct around *around, const struct model_block *middle, const double at[3],
                   double *out_distance, double *out_weight)
{
    int low[3], first = 0;
    double share[3], known = 0, distance = 0, weight = 0;
    for (int i = 0; i < 3; i++) {
        low[i] = (int)(at[i] + EDGE) - EDGE; // from -EDGE on: floor, which is a call
        share[i] = at[i] - low[i];
    }
    const struct model_block *one = all_in_one(middle, low, &first);
    for (int corner = 0; corner < 8; corner++) {
        const int x = corner & 1, y = corner >> 1 & 1, z = corner >> 2;
        const double f = (x ? share[0] : 1 - share[0]) * (y ? share[1] : 1 - share[1]) *
                         (z ? share[2] : 1 - share[2]);
        const struct model_block *block = one;
        int index = first + x + EDGE * (y + EDGE * z);
        if (!one) {
            const int there[3] = {low[0] + x, low[1] + y, low[2] + z};
            int step[3];
            index = 0;
            for (int i = 2; i >= 0; i--) {
                step[i] = there[i] < 0 ? -1 : there[i] >= EDGE;
                index = EDGE * index + there[i] - step[i] * EDGE;
            }
            block = around_get(around, middle, step);
        }
        if (!block || block->weight[index] == 0)
            continue;
        known += f;
        distance += f * block->distance[index];
        weight += f * block->weight[index];
    }
    if (known < KNOWN)
        return false;
    *out_distance = distance / known;
    *out_weight = weight / known;
    return true;
}

struct sums {
    double weight[MODEL_BLOCK_VOXELS], distance[MODEL_BLOCK_VOXELS];
    bool inside[MODEL_BLOCK_VOXELS]; // a block, which may have seen nothing there
    uint32_t n_inside;
};

// Of a row of voxels, which lie in a block or the gap around it: from *out_first up to the number
// that is returned. The first of them is at `at` in the block, each next one `step` on.
static int row_inside(const double at[3], const double step[3], double gap, int *out_first)
{
    double low = 0, high = EDGE - 1;
    for (int k = 0; k < 3; k++) {
        const double least = -gap - EPSILON - at[k], most = EDGE + gap - 2 * EPSILON - at[k];
        if (fabs(step[k]) < EPSILON) {
            high = least <= 0 && most >= 0 ? high : -1;
            continue;
        }
        low = fmax(low, fmin(least / step[k], most / step[k]));
        high = fmin(high, fmax(least / step[k], most / step[k]));
    }
    // A step of nearly nothing leads as far away as one likes.
    *out_first = (int)ceil(fmin(low, EDGE));
    return (int)floor(fmax(high, -1)) + 1;
}

// What one block says of the voxels of another: of those inside it, or, in the gap around it, of
// those that are in no block.
static void read_into(const struct moves *moves, const struct pair *pair, double gap,
                      struct sums *sums)
{
    const struct model_block *from = &moves->blocks[pair->from];
    const struct se3 *T = &moves->T_odom_map[pair->from];
    const double first[3] = {EDGE * (double)pair->x, EDGE * (double)pair->y,
                             EDGE * (double)pair->z};
    const double origin[3] = {EDGE * (double)from->x, EDGE * (double)from->y,
                              EDGE * (double)from->z};
    const double step[3] = {T->r[0], T->r[3], T->r[6]};
    struct around around = {.moves = moves};
    for (uint32_t row = 0; row < EDGE * EDGE; row++) {
        const double p[3] = {first[0], first[1] + row % EDGE, first[2] + row / EDGE};
        double begin[3];
        for (int k = 0; k < 3; k++)
            begin[k] = T->r[3 * k] * p[0] + T->r[3 * k + 1] * p[1] + T->r[3 * k + 2] * p[2] +
                       T->t_m[k] / moves->voxel_m - origin[k];
        int x, end = row_inside(begin, step, gap, &x);
        for (; x < end; x++) {
            const uint32_t i = row * EDGE + (uint32_t)x;
            const double at[3] = {begin[0] + x * step[0], begin[1] + x * step[1],
                                  begin[2] + x * step[2]};
            double distance, weight;
            if (gap > 0 && (sums->inside[i] || sums->weight[i] > 0))
                continue;
            if (gap == 0 && !sums->inside[i]) {
                sums->inside[i] = true;
                sums->n_inside++;
            }
            if (!sample(&around, from, at, &distance, &weight))
                continue;
            sums->weight[i] += weight;
            sums->distance[i] += weight * distance;
        }
    }
}

// One block of the result from all that reach into it. Returns how many voxels it has.
static uint32_t read_block(const struct moves *moves, const struct pair *pairs, size_t n_pairs,
                           struct model_block *out)
{
    struct sums sums = {0};
    uint32_t n = 0;
    for (size_t k = 0; k < n_pairs; k++)
        read_into(moves, &pairs[k], 0, &sums);
    for (size_t k = 0; k < n_pairs && sums.n_inside < MODEL_BLOCK_VOXELS; k++)
        read_into(moves, &pairs[k], GAP_VOXELS, &sums);
    *out = (struct model_block){.x = pairs->x, .y = pairs->y, .z = pairs->z};
    for (uint32_t i = 0; i < MODEL_BLOCK_VOXELS; i++) {
        const double weight = fmin(round(sums.weight[i]), UINT16_MAX);
        if (weight < 1)
            continue;
        out->weight[i] = (uint16_t)weight;
        out->distance[i] = (int16_t)round(sums.distance[i] / sums.weight[i]);
        n++;
    }
    return n;
}

// Of every block where it goes, and what reaches into which. Returns how many pairs, ordered by the
// block of the result, to be freed; NULL: no memory.
static size_t find_pairs(struct moves *moves, const struct deformation_field *c, struct pair **out)
{
    size_t n = 0, room = 8 * (size_t)moves->n_blocks + 1;
    struct pair *pairs = malloc(room * sizeof *pairs);
    for (uint32_t i = 0; i < moves->n_blocks && pairs; i++) {
        const struct model_block *block = &moves->blocks[i];
        double surface_m[3];
        int32_t first[3], last[3];
        if (!find_surface(block, moves->voxel_m, surface_m))
            continue;
        const struct se3 T = deformation_field_at(c, moves->voxel_m, surface_m);
        moves->T_odom_map[i] = se3_inverse(&T);
        find_reach(block, &T, moves->voxel_m, first, last);
        for (int32_t z = first[2]; z <= last[2]; z++)
            for (int32_t y = first[1]; y <= last[1]; y++)
                for (int32_t x = first[0]; x <= last[0] && pairs; x++) {
                    const struct model_block place = {.x = x, .y = y, .z = z};
                    if (n == room) {
                        room *= 2;
                        struct pair *more = realloc(pairs, room * sizeof *pairs);
                        if (!more)
                            free(pairs);
                        pairs = more;
                    }
                    if (pairs && model_place_can_be(&place))
                        pairs[n++] = (struct pair){x, y, z, i};
                }
    }
    if (pairs)
        qsort(pairs, n, sizeof *pairs, compare_pairs);
    *out = pairs;
    return pairs ? n : 0;
}

static size_t end_of_block(const struct pair *pairs, size_t n_pairs, size_t begin)
{
    size_t end = begin;
    while (end < n_pairs && pairs[end].x == pairs[begin].x && pairs[end].y == pairs[begin].y &&
           pairs[end].z == pairs[begin].z)
        end++;
    return end;
}

// Leaves out the blocks with the fewest voxels. Returns how many are left.
static uint32_t leave_out(struct model_block *blocks, const uint16_t *n_voxels, uint32_t n,
                          uint32_t max)
{
    uint32_t of_count[MODEL_BLOCK_VOXELS + 1] = {0}, kept = 0, least = MODEL_BLOCK_VOXELS, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        of_count[n_voxels[i]]++;
    while (least > 0 && sum + of_count[least] <= max)
        sum += of_count[least--];
    uint32_t of_least = max - sum; // the first of those that do not all fit
    for (uint32_t i = 0; i < n; i++)
        if (n_voxels[i] > least || (n_voxels[i] == least && of_least > 0)) {
            of_least -= n_voxels[i] == least;
            blocks[kept++] = blocks[i];
        }
    return kept;
}

int deform_blocks(const struct deformation_field *c, float voxel_m, uint32_t max_blocks,
                  struct model_block **blocks, uint32_t *n_blocks)
{
    struct moves moves = {.blocks = *blocks, .n_blocks = *n_blocks, .voxel_m = (double)voxel_m};
    struct model_block *out = NULL;
    uint16_t *n_voxels = NULL;
    struct pair *pairs = NULL;
    uint32_t n_out = 0;
    int rc = -ENOMEM;
    if (*n_blocks == 0 || deformation_field_is_none(c, moves.voxel_m))
        return 0;
    moves.T_odom_map = calloc(*n_blocks, sizeof *moves.T_odom_map);
    if (!moves.T_odom_map)
        return -ENOMEM;
    size_t n_pairs = find_pairs(&moves, c, &pairs), n = 0;
    for (size_t at = 0; at < n_pairs; at = end_of_block(pairs, n_pairs, at))
        n++;
    out = pairs ? malloc((n + 1) * sizeof *out) : NULL;
    n_voxels = malloc((n + 1) * sizeof *n_voxels);
    if (!out || !n_voxels)
        goto end;
    for (size_t at = 0, end; at < n_pairs; at = end) {
        end = end_of_block(pairs, n_pairs, at);
        n_voxels[n_out] = (uint16_t)read_block(&moves, &pairs[at], end - at, &out[n_out]);
        n_out += n_voxels[n_out] > 0;
    }
    if (n_out > max_blocks)
        n_out = leave_out(out, n_voxels, n_out, max_blocks);
    free(*blocks);
    *blocks = out;
    *n_blocks = n_out;
    out = NULL;
    rc = 0;
end:
    free(moves.T_odom_map);
    free(pairs);
    free(n_voxels);
    free(out);
    return rc;
}
