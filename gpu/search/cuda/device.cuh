// SPDX-License-Identifier: Apache-2.0
// What the files of the pose search's CUDA backend share. The formulas are those of
// gpu/search/kernels, compiled without contraction, and all sums are of integers: every result
// equals the CPU twin's to the bit.
#ifndef POSED_GPU_SEARCH_CUDA_DEVICE_CUH
#define POSED_GPU_SEARCH_CUDA_DEVICE_CUH

#include "gpu/base/cuda.cuh"

extern "C" {
#include "gpu/search/context.h"
#include "gpu/search/ops.h"
}
#include "gpu/search/kernels/frame.h"

#define SEARCH_SEED_WORDS    (SEARCH_COARSE_CELLS * SEARCH_COARSE_CELLS)
#define SEARCH_WINDOW_PIXELS (SEARCH_WINDOW_PX * SEARCH_WINDOW_PX)

// Start points of a coarse pass, on the device.
struct search_cuda_starts {
    uint32_t n_starts, keep; // hits kept of each
};

// What a whole request works on (find.cu).
struct search_find {
    struct cuda_memory counts; // struct search_cuda_counts
    struct cuda_memory raw;    // depth as it came, then the mask
    struct cuda_memory normal_z, planes, starts, hits, left, candidates, screened, drawn, polished,
        slides, turned;
    struct cuda_memory keys, corners, units, places, points; // of the drawn candidates
    struct cuda_memory staging;                              // page-locked
    struct search_cuda_found *found;                         // page-locked: what comes back
    cudaEvent_t events[SEARCH_N_STAGES + 1];
};

struct search_cuda {
    struct cuda_dev dev;
    struct search_camera camera;
    float *z_m;
    size_t n_pixels;
    uint32_t *window; // SEARCH_WINDOW_PIXELS pairs
    uint32_t *next;   // queue of the views that the fit goes through
    // Grown on demand: results on the device and, page-locked, on the host.
    struct cuda_memory result, result_host;
    struct cuda_memory work;          // inputs of an operation: rotations, frames, view lists
    struct cuda_memory windows, keys; // of the coarse pass
    struct search_find find;
};

// The device's copy of an object.
struct cuda_object {
    struct search_view *views;
    // The views' foreground pixels without the gaps of the chunks: view i's from pixel_first[i] on.
    uint32_t *pixel_first;
    float2 *pixels;         // z and EDT, as floats that hold integers
    uint16_t *pixel_offset; // in the window
    uint32_t *order;        // views, those with the most pixels first
    struct search_coarse *coarse;
    uint32_t *seeds;
    uint32_t *child_first, *children;
    float *seed_rotations;
    struct search_point *points;
    uint32_t *n_points, *n_ring;
    float *x, *y, *z; // mesh
    uint32_t *triangles;
    uint32_t *seed_maps; // SEARCH_SEED_WORDS a seed: rows of z and ring, two cells a word
};

// Between two pieces of work: waits until the device has done what was enqueued, and then for what
// goes first (gpu/base/yield.h). Where nothing does, returns at once. 0 or -EIO.
int search_cuda_yield(struct search_cuda *cuda);

// Copies memory that is not page-locked to the device, in pieces. 0 or -EIO.
int search_cuda_copy(struct search_cuda *cuda, void *to, const void *from, size_t bytes);

// Gives device memory back, when no frame is near; accepts NULL.
void search_cuda_free(struct search_cuda *cuda, void *memory);

// Makes room for results on both sides; what was there is lost. 0, -ENOMEM or -EIO.
int search_cuda_grow_result(struct search_cuda *cuda, size_t bytes);

// Enqueues the window of a frame, into cuda->window; the queue starts anew. 0 or -EIO.
int search_cuda_draw_window(struct search_cuda *cuda, const struct search_frame *frame);

// Shared memory that a block of the fit takes.
size_t search_cuda_shared_bytes(void);

// What each file needs of a device once. 0 or -EIO.
int search_cuda_prepare_fit(struct search_cuda *cuda);
int search_cuda_prepare_scan(struct search_cuda *cuda);

// A seed's map as the coarse pass reads it.
void search_cuda_pack_seed(const struct search_coarse *map, uint32_t out[SEARCH_SEED_WORDS]);

// Enqueues the coarse pass for scan->n_starts start points on the device: scan->keep hits each,
// best first. The _most are known on the host. 0, -ENOMEM or -EIO.
int search_cuda_enqueue_scan(struct search_cuda *cuda, const struct search_object *object,
                             const struct search_frame *starts,
                             const struct search_cuda_starts *scan, uint32_t n_starts_most,
                             uint32_t keep_most, struct search_hit *out);

int search_cuda_prepare_starts(struct search_cuda *cuda);
int search_cuda_prepare_points(struct search_cuda *cuda);
int search_cuda_prepare_distinct(struct search_cuda *cuda);
int search_cuda_prepare_find(struct search_cuda *cuda);
void search_cuda_close_find(struct search_cuda *cuda);

void search_cuda_set_camera(struct search_cuda *cuda, const struct intrinsics *camera);
int search_cuda_grow_image(struct search_cuda *cuda, size_t n_pixels);

// The operations of gpu/search/ops.h.
int search_cuda_maps(void *device, const struct search_object *object, const float *rotations,
                     uint32_t n, struct search_map *out);
int search_cuda_fit_best(void *device, const struct search_object *object,
                         const struct search_frame *frame, const uint32_t *views, uint32_t n,
                         uint32_t n_iterations, uint32_t n_best, uint32_t *out_place,
                         struct search_fit *out);
int search_cuda_scan(void *device, const struct search_object *object,
                     const struct search_frame *starts, uint32_t n_starts, uint32_t keep,
                     struct search_hit *out);
int search_cuda_find(struct search *search, const struct search_object *object,
                     const struct search_image *image, uint32_t n_polished,
                     struct search_found *out);

#endif
