// SPDX-License-Identifier: Apache-2.0
// The table that a backend of the pose search fills: gpu/search/cpu/device.c and
// gpu/search/cuda/device.cu. Each operation is a whole stage. Private to gpu; callers use
// gpu/search/search.h.
#ifndef POSED_GPU_SEARCH_OPS_H
#define POSED_GPU_SEARCH_OPS_H

#include <assert.h>

#include "gpu/base/pool.h"
#include "gpu/search/kernels/frame.h"
#include "gpu/search/kernels/hypothesis_counts.h"
#include "gpu/search/kernels/same_pose.h"
#include "gpu/search/object.h"
#include "gpu/search/support.h"

// One reference view at full detail, as it comes from the rasteriser.
struct search_map {
    int16_t z[SEARCH_MAP_PX * SEARCH_MAP_PX];         // 1/64 px
    int16_t edt[SEARCH_MAP_PX * SEARCH_MAP_PX];       // 1/64 px, signed
    int8_t normal[SEARCH_MAP_PX * SEARCH_MAP_PX * 3]; // unit x 127 in the view's frame
};

struct search_fit {
    float error_px;
    float x, y, z; // shift of the map in the window: px, px, px
};

// A hypothesis of the coarse pass: view's anchor on start point.
struct search_hit {
    int32_t score; // SEARCH_SCORE_ONE = every cell matches
    uint32_t view, start, anchor;
};

// Pixels as the search sees them: metres, 0 = no measurement or masked out, negative: on a surface
// larger than the object.
struct search_depth {
    const float *z_m;
    struct intrinsics camera;
};

// Most candidates that are polished (with SEARCH_TOP_MAX answers wanted), that are slid, and of all
// with the best one turned.
#define SEARCH_POLISHED_MAX (SEARCH_TOP_MAX + SEARCH_POLISHED - 1)
#define SEARCH_SLID_MAX     ((SEARCH_POLISHED_MAX - SEARCH_NOT_SLID) * SEARCH_SLIDE_WAYS)
#define SEARCH_FOUND_MAX    (SEARCH_POLISHED_MAX + SEARCH_SLID_MAX + SEARCH_NEAR_SYMMETRIES_MAX)

static_assert(SEARCH_POLISHED_MAX + SEARCH_DRAWN_MORE <= SEARCH_SCREENED,
              "what is drawn again was screened");

// What the default search hands to the last choice.
struct search_found {
    uint32_t n_valid; // pixels with depth; 0: nothing else is filled
    uint32_t n_starts, n, n_polished, n_slid;
    struct search_candidate candidates[SEARCH_FOUND_MAX]; // polished, slid, turned
    struct search_supports supports;                      // of the image
    float stage_ms[SEARCH_N_STAGES];
};

struct search_ops {
    const char *name;
    // `pool` outlives the device. Returns 0 or -ENODEV, -ENOMEM, -EIO.
    int (*open)(void **out_device, const struct search_settings *settings, struct pool *pool);
    void (*close)(void *device);
    void (*describe)(const void *device, char *out, size_t size);

    // Draws `object`'s mesh for n rotations (9 floats each).
    int (*maps)(void *device, const struct search_object *object, const float *rotations,
                uint32_t n, struct search_map *out);
    // Gives the backend its copy of a finished object (object->device), and takes it back.
    int (*attach)(void *device, struct search_object *object);
    void (*detach)(void *device, struct search_object *object);

    // The image of the requests that follow.
    int (*image)(void *device, const struct search_depth *depth);
    // Lays views over the window of `frame`: one simplex each, and of these the n_best smallest
    // errors, best first (equal ones by their place in the list); n_best <= n. views NULL: all of
    // them. out_place: places in the list. -ECANCELED by the pool's stop, where it takes long
    // (CPU).
    int (*fit_best)(void *device, const struct search_object *object,
                    const struct search_frame *frame, const uint32_t *views, uint32_t n,
                    uint32_t n_iterations, uint32_t n_best, uint32_t *out_place,
                    struct search_fit *out);
    // Coarse pass: all seeds x anchors at each start; the `keep` best of each start, best first.
    // -ECANCELED: stopped, and `out` holds nothing.
    int (*scan)(void *device, const struct search_object *object, const struct search_frame *starts,
                uint32_t n_starts, uint32_t keep, struct search_hit *out);

    // The default search from the image to the polished candidates, at most n_polished of them. An
    // image without valid depth: 0 with out->n_valid 0.
    int (*find)(struct search *search, const struct search_object *object,
                const struct search_image *image, uint32_t n_polished, struct search_found *out);
};

extern const struct search_ops search_ops_cpu;
extern const struct search_ops search_ops_cuda;

// The window that fit_best of each twin begins with, for those who compare them: median, edges,
// signed EDT of a frame of the last image. out: SEARCH_WINDOW_PX^2 pairs.
int search_cpu_window(void *device, const struct search_frame *frame, uint32_t *out);
int search_cuda_window(void *device, const struct search_frame *frame, uint32_t *out);

#endif
