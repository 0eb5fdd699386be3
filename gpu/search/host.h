// SPDX-License-Identifier: Apache-2.0
// Steps of a search that run on the host whatever the device is; they stand in cpu/. Following an
// object, and in the preset germann the start point and the fit, have no other: search_open says so
// in the log where the device is another one. Drawings of single candidates take
// the first thread's memory, so that one thread at a time calls. Private to gpu.
#ifndef POSED_GPU_SEARCH_HOST_H
#define POSED_GPU_SEARCH_HOST_H

#include "gpu/search/context.h"
#include "gpu/search/kernels/slide.h"

// The threads' drawings, empty, and their end. 0 or -ENOMEM.
__attribute__((warn_unused_result)) int search_create_drawings(struct search *search);
void search_destroy_drawings(struct search *search);

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
// is stopped (pool_stopped) the rest stays as it is. out_slides: of each candidate, may be NULL.
void search_refine_all_points(struct search *search, const struct search_scene *scene,
                              const struct search_object *object,
                              struct search_candidate *candidates, uint32_t n);
void search_refine_all_drawn(struct search *search, const struct search_scene *scene,
                             const struct search_object *object,
                             struct search_candidate *candidates, uint32_t n, uint32_t n_rounds,
                             struct search_slides *out_slides);

// The n_best best of the polished candidates moved along their slides (kernels/slide.h), to out:
// SEARCH_SLIDE_WAYS of each, best first, not scored. Returns how many.
uint32_t search_slide_best(const struct search_object *object,
                           const struct search_candidate *polished,
                           const struct search_slides *slides, uint32_t n, uint32_t n_best,
                           struct search_candidate *out);

// Refines with the stored points of the nearest view (cpu/refine_points.h).
void search_refine_points(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *candidate);

// Scores a candidate where it is, by the pixels of the drawn model; and refines one that is known
// to be nearly right with its silhouette drawn to the image's edges, then scores it.
void search_score_drawing(struct search *search, const struct search_scene *scene,
                          const struct search_object *object, struct search_candidate *candidate);
void search_refine_to_edges(struct search *search, const struct search_scene *scene,
                            const struct search_object *object, struct search_candidate *candidate,
                            uint32_t n_rounds);

// Takes the pixels that the pose explains out of the mask (a byte a pixel). 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
search_take_out(struct search *search, const struct search_object *object,
                const struct search_image *image, const struct search_pose *pose, uint8_t *mask);

// The paper's start point: the pixel that maximises closeness + EDT / 2, on a quarter of the
// resolution. Returns 0 or -ENODATA.
__attribute__((warn_unused_result)) int search_start_nearest(const float *z_m,
                                                             const struct search_camera *camera,
                                                             float px_m, struct search_frame *out);

#endif
