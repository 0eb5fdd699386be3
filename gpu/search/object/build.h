// SPDX-License-Identifier: Apache-2.0
// What the files that make a searchable object share. Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_BUILD_H
#define POSED_GPU_SEARCH_OBJECT_BUILD_H

#include "gpu/search/context.h"

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

#endif
