// SPDX-License-Identifier: Apache-2.0
// What search.c and its neighbours share about an open search. Private to gpu.
#ifndef POSED_GPU_SEARCH_DEVICE_H
#define POSED_GPU_SEARCH_DEVICE_H

#include "gpu/search_ops.h"
#include "gpu/search_refine.h"

struct search {
    const struct search_ops *ops;
    void *device;
    enum gpu_backend backend;
    struct pool *pool;
    uint32_t n_threads; // of the pool
    struct log_sink log;
    char description[128];

    // Working memory, grown to the largest image and object so far.
    float *z_m, *normal_z, *planes;
    size_t n_pixels;
    struct search_drawing *drawings; // one a thread
    uint32_t drawing_vertices, drawing_pixels;
};

// Frees the host's arrays; accepts NULL.
void search_object_free(struct search_object *object);

// After views and mesh are there: seeds, summary, the backend's copy.
__attribute__((warn_unused_result)) int search_object_finish(struct search *search,
                                                             struct search_object *object);

// How many views are drawn between two questions whether the build is given up: few of a large
// mesh, so that they take some tenths of a second at most.
uint32_t search_batch_views(const struct search_object *object);

// Tells the caller of a build how far it is. Returns 0, or -ECANCELED when it shall end.
__attribute__((warn_unused_result)) int
search_tell_progress(const struct search_object_settings *settings, uint32_t n_done);

// Fills info.symmetry, fold and axis. Returns 0, -ENOMEM, -EIO or -ECANCELED.
__attribute__((warn_unused_result)) int
search_find_symmetry(struct search *search, struct search_object *object,
                     const struct search_object_settings *settings);

// The rotations of an object's symmetry.
void search_turns_of(const struct search_object_info *info, struct search_turns *out);

// The default search on a prepared image but for the last choice: what ops.find does, a stage after
// the other on the host. 0, -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int search_find_on_host(struct search *search,
                                                            const struct search_object *object,
                                                            const struct search_scene *scene,
                                                            uint32_t n_polished,
                                                            struct search_found *out);

#endif
