// SPDX-License-Identifier: Apache-2.0
// The coarse pass on the CPU: a block of start points after the other, each seed's map laid on all
// of the block while it is in the caches. Nearly all time goes into the rows of coarse_score: 13
// rows of 16 cells, a dozen vector instructions each.
#include "gpu/search/cpu/scan.h"

#include <math.h>
#include <string.h>

#include "gpu/base/kernel.h"
#include "gpu/base/parallel.h"
#include "gpu/search/kernels/coarse.h"

typedef int16_t cells __attribute__((vector_size(SEARCH_COARSE_CELLS * sizeof(int16_t))));
typedef int16_t half_cells __attribute__((vector_size(SEARCH_COARSE_CELLS * sizeof(int16_t) / 2)));

// The sums over the cells of two vectors at once: folded in halves, from the second step on both in
// one vector, in alternate lanes. Through pointers: how such a vector is passed depends on the
// instruction set.
static inline __attribute__((always_inline)) void add_up(const cells *a, const cells *b, int *out_a,
                                                         int *out_b)
{
    half_cells a_half[2], b_half[2];
    memcpy(a_half, a, sizeof a_half);
    memcpy(b_half, b, sizeof b_half);
    const half_cells a8 = a_half[0] + a_half[1], b8 = b_half[0] + b_half[1];
    half_cells sums = __builtin_shufflevector(a8, b8, 0, 8, 1, 9, 2, 10, 3, 11) +
                      __builtin_shufflevector(a8, b8, 4, 12, 5, 13, 6, 14, 7, 15);
    sums += __builtin_shufflevector(sums, sums, 4, 5, 6, 7, 4, 5, 6, 7);
    sums += __builtin_shufflevector(sums, sums, 2, 3, 2, 3, 2, 3, 2, 3);
    *out_a = sums[0];
    *out_b = sums[1];
}

// Score of the map laid with its anchor on the middle of the window: search_coarse_cell, a row of
// cells at a time. A lane counts one cell of each row, and a sum stays far inside of 16 bits.
static inline __attribute__((always_inline)) int
coarse_score(const int16_t *window, const struct search_coarse *map, int anchor)
{
    const int16_t *base =
        window + (SEARCH_COARSE_WINDOW / 2 - map->anchor_v[anchor]) * SEARCH_COARSE_WINDOW +
        SEARCH_COARSE_WINDOW / 2 - map->anchor_u[anchor];
    const int16_t z0 = map->anchor_z[anchor];
    cells n_seen = {0}, n_beyond = {0}, n_ring = {0};
    for (int v = map->row_first; v < map->row_end; v++) {
        cells scene, model, ring;
        memcpy(&scene, base + v * SEARCH_COARSE_WINDOW, sizeof scene);
        memcpy(&model, map->z + v * SEARCH_COARSE_CELLS, sizeof model);
        memcpy(&ring, map->ring + v * SEARCH_COARSE_CELLS, sizeof ring);
        scene += z0;
        const cells d = scene - model, r = scene - ring;
        n_seen -= d > -SEARCH_GATE_MATCH - 1;
        n_beyond -= d > SEARCH_GATE_MATCH;
        n_ring -= (r > -SEARCH_GATE_RING - 1) & (r < SEARCH_GATE_RING + 1);
    }
    const cells sum = n_seen * SEARCH_WEIGHT_MATCH -
                      n_beyond * (SEARCH_WEIGHT_MATCH + SEARCH_WEIGHT_FREE) -
                      n_ring * SEARCH_WEIGHT_RING;
    int total, total_seen;
    add_up(&sum, &n_seen, &total, &total_seen);
    return search_coarse_score(total, total_seen, map->n_cells);
}

// Start points that a map is laid on while it is in the caches: all seeds' maps are larger.
#define SCAN_BLOCK 8

struct scan_job {
    const struct pool *pool;
    const float *z_m;
    struct search_camera camera;
    const struct search_object *object;
    const struct search_frame *starts;
    uint32_t n_starts, keep;
    struct search_hit *out;
};

// search_frame_sample of a row of cells: the image is gathered between two vectorised loops.
static inline __attribute__((always_inline)) void coarse_row(const float *image,
                                                             const struct search_camera *cam,
                                                             const struct search_frame *frame,
                                                             int row, int16_t *restrict out)
{
    enum { N = SEARCH_COARSE_WINDOW };
    const struct search_camera camera = *cam;
    const struct search_frame f = *frame;
    const float cell_m = SEARCH_COARSE_PX * f.px_m;
    const float y = f.start_m[1] + (float)(row - N / 2) * cell_m;
    float z[N], u[N], v[N], depth[N];
    int32_t at[N], seen[N];
    for (int i = 0; i < N; i++) {
        z[i] = f.start_m[2];
        seen[i] = 1;
    }
    for (int round = 0; round < SEARCH_FRAME_ROUNDS; round++) {
#pragma omp simd
        for (int i = 0; i < N; i++) {
            const float x = f.start_m[0] + (float)(i - N / 2) * cell_m;
            const struct search_frame_pixel pixel =
                search_frame_project(&camera, f.rotation, x, y, z[i]);
            u[i] = pixel.u;
            v[i] = pixel.v;
            at[i] = pixel.at;
        }
        for (int i = 0; i < N; i++)
            depth[i] = at[i] < 0 ? 0.f : image[at[i]];
#pragma omp simd
        for (int i = 0; i < N; i++) {
            seen[i] = seen[i] == 0 || depth[i] == 0.f ? 0 : depth[i] > 0.f ? 1 : 2;
            z[i] = search_frame_z(&camera, f.rotation, u[i], v[i], kernel_abs(depth[i]));
        }
    }
    for (int i = 0; i < N; i++)
        out[i] = (int16_t)search_coarse_scene(seen[i], (z[i] - f.start_m[2]) / f.px_m);
}

CPU_CLONES static void coarse_window(const float *image, const struct search_camera *camera,
                                     const struct search_frame *frame, int16_t *out)
{
    for (int row = 0; row < SEARCH_COARSE_WINDOW; row++)
        coarse_row(image, camera, frame, row, out + row * SEARCH_COARSE_WINDOW);
}

// The start points of a block: normals as arrays, padded with ones that face no anchor.
struct scan_block {
    uint32_t n;
    float normal[3][SCAN_BLOCK];
    int16_t windows[SCAN_BLOCK][SEARCH_COARSE_WINDOW * SEARCH_COARSE_WINDOW];
};

// The best anchor of a seed's map at each start point, as score x SEARCH_ANCHORS +
// SEARCH_ANCHORS - 1 - anchor (of equal scores the first); INT32_MIN: none. Anchors that face as
// the surface there does are listed beforehand.
CPU_CLONES static void lay_map(const struct search_coarse *map, const struct scan_block *block,
                               int32_t best[SCAN_BLOCK])
{
    int32_t facing[SEARCH_ANCHORS * SCAN_BLOCK];
    uint8_t pairs[SEARCH_ANCHORS * SCAN_BLOCK];
    for (int a = 0; a < map->n_anchors; a++) {
#pragma omp simd
        for (int i = 0; i < SCAN_BLOCK; i++)
            facing[a * SCAN_BLOCK + i] =
                search_coarse_facing(block->normal[0][i], block->normal[1][i], block->normal[2][i],
                                     map->anchor_normal[a]);
    }
    uint32_t n_pairs = 0;
    for (uint32_t i = 0; i < (uint32_t)map->n_anchors * SCAN_BLOCK; i++) {
        pairs[n_pairs] = (uint8_t)i;
        n_pairs += facing[i] != 0;
    }
    for (int i = 0; i < SCAN_BLOCK; i++)
        best[i] = INT32_MIN;
    for (uint32_t k = 0; k < n_pairs; k++) {
        const int anchor = pairs[k] / SCAN_BLOCK, i = pairs[k] % SCAN_BLOCK;
        const int32_t key = coarse_score(block->windows[i], map, anchor) * SEARCH_ANCHORS +
                            SEARCH_ANCHORS - 1 - anchor;
        best[i] = key > best[i] ? key : best[i];
    }
}

// Insertion; equal scores keep the earlier view.
static void keep_hit(const struct search_hit *hit, struct search_hit *best, uint32_t n)
{
    uint32_t k = n;
    for (; k > 0 && hit->score > best[k - 1].score; k--)
        if (k < n)
            best[k] = best[k - 1];
    if (k < n)
        best[k] = *hit;
}

static void scan_starts(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct scan_job *job = user;
    const struct search_object *object = job->object;
    const uint32_t first = item * SCAN_BLOCK;
    const struct search_frame *starts = job->starts + first;
    struct search_hit *best = job->out + (size_t)first * job->keep;
    if (pool_stopped(job->pool))
        return;
    struct scan_block block;
    block.n = job->n_starts - first < SCAN_BLOCK ? job->n_starts - first : SCAN_BLOCK;
    for (uint32_t i = 0; i < SCAN_BLOCK; i++)
        for (int k = 0; k < 3; k++)
            block.normal[k][i] = i < block.n ? starts[i].normal[k] : NAN;
    for (uint32_t i = 0; i < block.n; i++) {
        coarse_window(job->z_m, &job->camera, &starts[i], block.windows[i]);
        for (uint32_t k = 0; k < job->keep; k++)
            best[i * job->keep + k] = (struct search_hit){INT32_MIN, 0, first + i, 0};
    }
    for (uint32_t s = 0; s < object->n_seeds; s++) {
        int32_t keys[SCAN_BLOCK];
        lay_map(&object->coarse[object->seeds[s]], &block, keys);
        for (uint32_t i = 0; i < block.n; i++) {
            if (keys[i] == INT32_MIN)
                continue;
            const uint32_t behind = (uint32_t)keys[i] % SEARCH_ANCHORS;
            const struct search_hit hit = {(keys[i] - (int32_t)behind) / SEARCH_ANCHORS,
                                           object->seeds[s], first + i,
                                           SEARCH_ANCHORS - 1 - behind};
            keep_hit(&hit, best + i * job->keep, job->keep);
        }
    }
}

void search_scan(struct pool *pool, const float *z_m, const struct search_camera *camera,
                 const struct search_object *object, const struct search_frame *starts,
                 uint32_t n_starts, uint32_t keep, struct search_hit *out)
{
    struct scan_job job = {pool, z_m, *camera, object, starts, n_starts, keep, out};
    parallel_for(pool, (n_starts + SCAN_BLOCK - 1) / SCAN_BLOCK, scan_starts, &job);
}
