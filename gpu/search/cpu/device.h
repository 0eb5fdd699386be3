// SPDX-License-Identifier: Apache-2.0
// What the files of the pose search's CPU backend share: the device, and those operations of the
// table (gpu/search/ops.h) that have a file of their own.
#ifndef POSED_GPU_SEARCH_CPU_DEVICE_H
#define POSED_GPU_SEARCH_CPU_DEVICE_H

#include "gpu/search/kernels/frame.h"
#include "gpu/search/ops.h"

struct search_cpu {
    struct pool *pool; // the search's
    struct log_sink log;
    struct search_depth depth; // borrowed until the next image
    struct search_camera camera;
};

// ops.fit_best
int search_cpu_fit_best(void *device, const struct search_object *object,
                        const struct search_frame *frame, const uint32_t *views, uint32_t n,
                        uint32_t n_iterations, uint32_t n_best, uint32_t *out_place,
                        struct search_fit *out);

// ops.find of the CPU twin.
__attribute__((warn_unused_result)) int
search_cpu_find(struct search *search, const struct search_object *object,
                const struct search_image *image, uint32_t n_polished, struct search_found *out);

#endif
