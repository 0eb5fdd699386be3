// SPDX-License-Identifier: Apache-2.0
// What all cameras of a rig saw, adjusted at once: where each image was taken, each camera's own
// error (depth_error.h), and where the cameras sit on the body. A bundle adjustment of images in
// place of points: the residual is calibrate.h's, over pairs of images of one camera and, half of
// them, of two. One camera alone cannot tell all of its error from a motion that is a little
// another; a second one with an error of its own, on the same body, tells them apart.
//
// Unknown are the poses of all images, the nodes of all fields, and by how much each camera but the
// first sits elsewhere than is said. Known beforehand are how images hang together (steps: by
// odometry and by where the cameras sit), what a field is like, and how well places are known.
// Gauss-Newton steps with the whole normal matrix (1300 unknowns for two cameras and 110 images),
// Tukey's biweight.
//
// Host only, one thread; the same bits each time.
#ifndef POSED_GPU_TRACK_RIG_ADJUSTMENT_H
#define POSED_GPU_TRACK_RIG_ADJUSTMENT_H

#include <stdbool.h>

#include "proto/types.h"

#define RIG_ADJUSTMENT_MAX_CAMERAS 4
#define RIG_ADJUSTMENT_MAX_IMAGES  192
#define RIG_ADJUSTMENT_MIN_IMAGES  40 // of each camera: fewer have not seen enough of its image

struct rig_adjustment_image {
    uint32_t camera;
    const float *map;         // packed, nx ny nz z: z as measured, no field taken out of it
    struct se3 T_world_image; // in and out; of the first in
};

// Two images and where the second saw the first's frame: chained ones of one camera, or of two
// cameras, T_j_i by where these are said to sit. information: of the twist of T_j_i, from the left;
// of two cameras without the doubt of their places.
struct rig_adjustment_step {
    uint32_t i, j;
    struct se3 T_j_i;
    double information[36];
};

struct rig_adjustment {
    struct intrinsics cameras[RIG_ADJUSTMENT_MAX_CAMERAS]; // full resolution
    uint32_t n_cameras, map_level;
    double place_m, place_rad; // standard deviations of where a camera sits, each axis
    struct rig_adjustment_image *images;
    uint32_t n_images;
    const struct rig_adjustment_step *steps;
    uint32_t n_steps;
    bool (*stop)(void *user); // asked before each step; NULL: nobody
    void *user;
};

struct rig_adjustment_report {
    uint32_t n_pairs;                 // of images
    double before_per_m, after_per_m; // residual of the pairs, to begin with and in the end
    struct se3 moved[RIG_ADJUSTMENT_MAX_CAMERAS]; // each sits at T_body_camera of before times it
};

// Returns 0, or with all images where they were -ENODATA (too few images of a camera, or too few
// that see the same surface), -E2BIG (too many), -EDOM (the residual does not become smaller),
// -ECANCELED or -ENOMEM.
__attribute__((warn_unused_result)) int rig_adjustment_solve(const struct rig_adjustment *what,
                                                             struct rig_adjustment_report *out);

#endif
