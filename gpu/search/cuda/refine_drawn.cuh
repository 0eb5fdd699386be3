// SPDX-License-Identifier: Apache-2.0
// Candidates drawn at the image's full resolution: what draw.cu draws and refine_drawn.cu
// reads. All kernels have the candidate as blockIdx.y and slices of its work as blockIdx.x.
#ifndef POSED_GPU_SEARCH_CUDA_REFINE_DRAWN_CUH
#define POSED_GPU_SEARCH_CUDA_REFINE_DRAWN_CUH

#include "gpu/search/cuda/find.cuh"
#include "gpu/search/cuda/raster.cuh"
#include "gpu/search/kernels/draw.h"

#define DRAWN_THREADS 256
#define DRAWN_SLICES  48 // of a candidate, for so many pixels of the image ...
#define DRAWN_PIXELS  (640 * 480)
#define DRAWN_MOST    512 // candidates

static_assert(SEARCH_SCREENED <= DRAWN_MOST && SEARCH_SLID_MAX <= DRAWN_MOST,
              "one block places all");

// Where a candidate is drawn, and what was found of it.
struct drawn_place {
    struct search_rectangle at;
    uint32_t first_key;
    uint32_t batch, slot; // candidates of one batch are drawn together; its number among them
    uint32_t n_units;     // parts of large triangles
    uint32_t n_drawn;     // pixels
    uint32_t n_points;
    struct search_tally tally;
    struct search_outline outline;
};

struct drawn_places {
    struct drawn_place of[DRAWN_MOST];
    uint32_t n_batches;
};

struct drawn_work {
    struct search_scene scene;
    const float *x, *y, *z; // vertices, map pixels
    const uint32_t *triangles;
    uint32_t n_triangles, n_vertices;
    float radius_m, px_m;
    unsigned long long *keys; // of a batch: depth << 32 | triangle, the least wins
    uint32_t n_keys;
    int4 *corners; // n_vertices a slot: x, y, bits of the value
    uint2 *units;  // of a slot: triangle, which part of how many
    uint32_t n_slots;
    float *points; // a candidate's
    struct search_candidate *candidates;
    struct search_slides *slides; // of each, NULL: not asked for
    const uint32_t *n;            // of them
    struct drawn_places *places;
    uint32_t batch; // of this launch
};

// ... so that a block has a few pixels a thread, whatever the image: it is to be short.
static inline uint32_t drawn_slices(const struct drawn_work *work)
{
    const struct search_camera *cam = &work->scene.camera;
    return DRAWN_SLICES * (uint32_t)((cam->width * cam->height + DRAWN_PIXELS - 1) / DRAWN_PIXELS);
}

// The block's candidate; NULL: it has nothing to do.
__device__ __forceinline__ struct drawn_place *drawn_place_here(const struct drawn_work *work)
{
    struct drawn_place *place = &work->places->of[blockIdx.y];
    return blockIdx.y < *work->n && place->batch == work->batch ? place : NULL;
}

// Makes room for n_most candidates of this object in this image, and fills keys, corners, units and
// places. 0, -ENOMEM or -EIO.
int search_cuda_prepare_drawings(struct search_cuda *cuda, uint32_t n_most,
                                 struct drawn_work *work);

// Enqueues where the candidates are to be drawn. As a rule all are drawn at once; when so many
// could need more memory than is set aside for it (as those that are screened could), this waits
// until the device knows in how many batches.
// 0 or -EIO.
int search_cuda_enqueue_places(struct search_cuda *cuda, const struct drawn_work *work,
                               uint32_t n_most, uint32_t *out_n_batches);

// Enqueues the drawing of the candidates of work->batch. 0 or -EIO.
int search_cuda_enqueue_draw(struct search_cuda *cuda, const struct drawn_work *work,
                             uint32_t n_most);

#endif
