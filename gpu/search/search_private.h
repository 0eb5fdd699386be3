// SPDX-License-Identifier: Apache-2.0
// What search.c and its neighbours share about an open search. Private to gpu.
#ifndef POSED_GPU_SEARCH_SEARCH_PRIVATE_H
#define POSED_GPU_SEARCH_SEARCH_PRIVATE_H

#include "gpu/search/cpu/draw.h"
#include "gpu/search/ops.h"
#include "proto/clock.h"

struct search {
    const struct search_ops *ops;
    void *device;
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

// The rotation by `angle` [rad] about a unit vector; a b.
void search_about_axis(const double axis[3], double angle, float out[9]);
void search_rotation_product(const float a[9], const float b[9], float out[9]);

// Principal axes of the surface about the centre (area-weighted corners), as rows.
void search_principal_axes(const struct search_object *object, double out[3][3]);

// The rotations of an object's symmetry.
void search_rotations_of(const struct search_object_info *info, struct search_rotations *out);

// Depth in metres and normals, on the host and on the device, of an image that was checked.
// `object`: surfaces larger than it are marked; NULL: not. 0, -ENODATA without valid depth, -ENOMEM
// or -EIO.
__attribute__((warn_unused_result)) int search_prepare(struct search *search,
                                                       const struct search_image *image,
                                                       const struct search_object *object,
                                                       struct search_scene *out_scene);

// Makes the threads' drawings large enough. 0 or -ENOMEM.
__attribute__((warn_unused_result)) int search_ensure_drawings(struct search *search,
                                                               const struct search_object *object,
                                                               uint32_t n_pixels);

// search_refine_points and search_refine_drawn of many candidates, on all threads. When the search
// is stopped (pool_stopped) the rest stays as it is.
void search_refine_all_points(struct search *search, const struct search_scene *scene,
                              const struct search_object *object,
                              struct search_candidate *candidates, uint32_t n);
void search_refine_all_drawn(struct search *search, const struct search_scene *scene,
                             const struct search_object *object,
                             struct search_candidate *candidates, uint32_t n, uint32_t n_rounds);

// Sorts candidates, best first, and keeps the best of those that are the same pose (also by
// symmetry). Returns how many, at most n_most.
uint32_t search_keep_distinct(const struct search_object *object,
                              const struct search_nearness *nearness, struct search_candidate *c,
                              uint32_t n, uint32_t n_most);

// The best of candidates `from` .. n - 1; of equal scores the earlier one counts as better.
uint32_t search_best(const struct search_candidate *c, uint32_t n, uint32_t from);

// Moves candidate `which` to `place` and drops those behind it that are the same pose. Returns how
// many of the n there still are.
uint32_t search_keep_one(const struct search_rotations *turns,
                         const struct search_nearness *nearness, struct search_candidate *c,
                         uint32_t n, uint32_t place, uint32_t which);

// ops.find of the CPU twin.
__attribute__((warn_unused_result)) int
search_cpu_find(struct search *search, const struct search_object *object,
                const struct search_image *image, uint32_t n_polished, struct search_found *out);

// What search.c shares with the presets (preset_default.c, preset_germann.c) and with follow.c.
// Each check names the field in out_field (may be NULL) and in the log, and returns -EINVAL; an
// image without valid depth is -ENODATA.
__attribute__((warn_unused_result)) int
search_check_image(struct search *search, const struct search_image *image, char *out_field);
__attribute__((warn_unused_result)) int search_refuse_empty(struct search *search, char *out_field);
// search_check_image, then search_prepare.
__attribute__((warn_unused_result)) int search_prepare_checked(struct search *search,
                                                               const struct search_image *image,
                                                               const struct search_object *object,
                                                               struct search_scene *out_scene,
                                                               char *out_field);

// Between the pose of the model as the caller gave it and that of the centred model.
struct se3 search_pose_outward(const struct search_object *object,
                               const struct search_candidate *candidate);
void search_pose_inward(const struct search_object *object, const struct se3 *T_camera_model,
                        struct search_candidate *out);

// A candidate as the answer tells it; `rival` as search_confidence takes it.
void search_report(const struct search_object *object, const struct search_candidate *candidate,
                   float rival, float threshold, struct search_pose *out);

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
