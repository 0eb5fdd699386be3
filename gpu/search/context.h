// SPDX-License-Identifier: Apache-2.0
// What an open search consists of, and what the files of this folder share. Those below (object/,
// cpu/, cuda/) include it; none of theirs is included here. Private to gpu.
#ifndef POSED_GPU_SEARCH_CONTEXT_H
#define POSED_GPU_SEARCH_CONTEXT_H

#include "gpu/search/ops.h"
#include "proto/clock.h"

struct search {
    const struct search_ops *ops;
    void *device;
    struct pool *pool;
    uint32_t n_threads; // of the pool
    struct log_sink log;
    char description[128];

    // Working memory of the host's steps (host.h), grown to the largest image and object so far.
    float *z_m, *normal_z, *planes;
    size_t n_pixels;
    uint16_t *reduced; // image_reduction.h
    size_t n_reduced;
    struct search_drawing *drawings; // one a thread
    uint32_t drawing_vertices, drawing_pixels;
};

// The rotations of an object's symmetry.
void search_rotations_of(const struct search_object_info *info, struct search_rotations *out);

// Sorts candidates, best first, and keeps the best of those that are the same pose (also by
// symmetry), of those whose score is not more than `behind` below the first one's. Returns how
// many, at most n_most.
uint32_t search_keep_distinct(const struct search_object *object,
                              const struct search_nearness *nearness, struct search_candidate *c,
                              uint32_t n, uint32_t n_most, float behind);

// The best of candidates `from` .. n - 1; of equal scores the earlier one counts as better.
uint32_t search_best(const struct search_candidate *c, uint32_t n, uint32_t from);

// Moves candidate `which` to `place` and drops those behind it that are the same pose. Returns how
// many of the n there still are.
uint32_t search_keep_one(const struct search_rotations *rotations,
                         const struct search_nearness *nearness, struct search_candidate *c,
                         uint32_t n, uint32_t place, uint32_t which);

// What search.c shares with the presets (preset_default.c, preset_germann.c) and with follow.c.
// Each check names the field in out_field (may be NULL) and in the log, and returns -EINVAL; an
// image without valid depth is -ENODATA.
__attribute__((warn_unused_result)) int
search_check_image(struct search *search, const struct search_image *image, char *out_field);
__attribute__((warn_unused_result)) int search_refuse_empty(struct search *search, char *out_field);

// Between the pose of the model as the caller gave it and that of the centred model.
struct se3 search_pose_outward(const struct search_object *object,
                               const struct search_candidate *candidate);
void search_pose_inward(const struct search_object *object, const struct se3 *T_camera_model,
                        struct search_candidate *out);

// A candidate as the answer tells it; `rival` as search_confidence takes it, `reduction` of the
// image that it was found in (image_reduction.h).
void search_report(const struct search_object *object, const struct search_candidate *candidate,
                   float rival, float threshold, uint32_t reduction, struct search_pose *out);

// The presets of search_run: 0 with *out filled, or as search_run returns.
__attribute__((warn_unused_result)) int
search_run_default(struct search *search, const struct search_object *object,
                   const struct search_image *image, const struct search_query *query,
                   struct search_answer *out, char *out_field);
__attribute__((warn_unused_result)) int
search_run_germann(struct search *search, const struct search_object *object,
                   const struct search_image *image, const struct search_query *query,
                   struct search_answer *out, char *out_field);

#endif
