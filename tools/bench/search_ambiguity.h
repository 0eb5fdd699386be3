// SPDX-License-Identifier: Apache-2.0
// Which poses of an object one depth image allows: of a mug whose handle is out of sight, every
// turn about its axis that keeps it so. After "BOP-Distrib: Revisiting 6D Pose Estimation
// Benchmarks for Better Evaluation under Visual Ambiguities" (arXiv 2408.17297): a set of poses for
// each image, from geometry and what is visible alone, never from an answer.
//
// Candidates are turns of the true pose in steps of 5 degrees about the principal axes of the
// object's surface and the axes of its model, with and without a half turn across; each is fitted
// to the object's surface as the image shows it (the axis of the mug is none of these). A pose is
// allowed when the model drawn there could have given the same image:
//
//   - at the pixels that show the object it lies within one standard deviation of the sensor's
//     depth of the true surface: 0.53 steps of a disparity of 2.85 mm at 1 m (half a step of noise
//     and the rounding, tools/bench/testscene.c), 0.0015 z^2;
//   - it is nowhere in front of what the image shows behind or beside the object by more than that;
//   - a surface may be a pixel off sideways, which is what edges fray by;
//   - pixels that say otherwise are at most as many as the sensor loses anywhere: 0.5 % of the
//     pixels that show the object.
#ifndef POSED_TOOLS_BENCH_SEARCH_AMBIGUITY_H
#define POSED_TOOLS_BENCH_SEARCH_AMBIGUITY_H

#include "tools/bench/testscene.h"

#define AMBIGUITY_MAX        1024
#define AMBIGUITY_Z_PER_M    0.0015 // of the depth's square: one standard deviation
#define AMBIGUITY_SHARE_MOST 0.005

// What turns about: rows of `axes`, unit vectors through centre_m.
struct ambiguity_axes {
    double centre_m[3];
    double axes[6][3];
};

// Principal axes of the object's surface and the axes of its model, through its centre.
void ambiguity_axes_of(const struct search_object *object, struct ambiguity_axes *out);

// Share of the pixels that show the object, where a pose says otherwise (see above); pixels in
// front of what lies behind count, too, so that it may exceed 1. 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
ambiguity_share(const struct testscene_mesh *mesh, const struct ambiguity_axes *axes,
                const struct testscene *scene, const struct se3 *T_camera_model, double *out_share);

// The poses that the image allows, the true one first. 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
ambiguity_poses(const struct testscene_mesh *mesh, const struct ambiguity_axes *axes,
                const struct testscene *scene, struct se3 out[AMBIGUITY_MAX], uint32_t *out_n);

#endif
