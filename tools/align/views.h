// SPDX-License-Identifier: Apache-2.0
// Range images of a known model from a ring of views, after the test of Oishi et al., section 3:
// a statue 13 m high, views on three heights all around it, noise along the line of sight, start
// poses off by a known amount. Everything follows from the seed.
#ifndef POSED_TOOLS_ALIGN_VIEWS_H
#define POSED_TOOLS_ALIGN_VIEWS_H

#include "capture/cloud/cloud.h"
#include "gpu/align/align.h"

struct views_settings {
    uint32_t n_views;
    uint32_t n_vertices; // of an image, on average
    double noise_m;      // uniform within +- this, along the ray (paper: 0.01)
    double start_m;      // start poses: each axis within +- this (paper: 0.1)
    double start_rad;    // and turned about each within +- this (paper: 0.05)
    uint64_t seed;
};

struct views {
    struct views_settings settings;
    struct cloud model;
    struct intrinsics camera; // of all views; the image's frame: x right, y down, z forward
    double height_m;          // of the model
    struct se3 *T_world_truth, *T_world_start; // n_views each; the first is not disturbed
    char **names;                              // "view000"
};

// `model`: taken over (emptied); an empty one stands for a built-in statue of 13 m. Returns 0,
// -EINVAL (no triangles) or -ENOMEM.
__attribute__((warn_unused_result)) int views_create(struct views *out, struct cloud *model,
                                                     const struct views_settings *settings,
                                                     const struct log_sink *log);
void views_free(struct views *views);

// Depth image of a view [m], 0 where nothing is; camera.width_px * height_px.
__attribute__((warn_unused_result)) int views_render(const struct views *views, uint32_t view,
                                                     float *out_z_m);

// The views as a source of images (user: the struct views).
int views_load(void *user, uint32_t image, struct align_image **out);

// Where the poses are after the best common rigid motion onto the truth: the mean distance of
// vertices from where they belong (the paper's error), and the largest over the images of the mean
// distance and of the turn.
struct pose_errors {
    double mean_m, worst_m, worst_rad;
};
struct pose_errors views_errors(const struct align_sketch *sketches, uint32_t n,
                                const struct se3 *T_world_image, const struct se3 *T_world_truth);

// T turned and moved at random: each axis within +- the limits, about `middle` of its image.
struct se3 views_disturb(const struct se3 *T, const double middle_m[3], double most_m,
                         double most_rad, uint64_t *state);

#endif
