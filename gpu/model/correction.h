// SPDX-License-Identifier: Apache-2.0
// From odom to the map that the keyframes agree on, place by place. Each keyframe was moved when it
// was adjusted; a point of a surface goes as those that saw it. A keyframe's own depth image says
// whether it did: after a drift one wall may stand twice in odom, and each of the two has keyframes
// of its own. (As a deformation graph moves what hangs on its nodes: Sumner, Schmid, Pauly 2007;
// Whelan et al., "ElasticFusion", 2015.)
//
// Plain data: any thread.
#ifndef POSED_GPU_MODEL_CORRECTION_H
#define POSED_GPU_MODEL_CORRECTION_H

#include "gpu/model/graph.h"
#include "gpu/model/recover.h"

struct correction_keyframe {
    struct se3 T_odom_camera, T_camera_odom;
    struct se3 T_map_odom; // what became of it
};

// Keyframes and what they saw; n 0: nothing is moved.
struct correction {
    struct intrinsics camera; // of the images
    uint32_t n;
    struct correction_keyframe *keyframes;
    uint16_t *z_mm; // n images, row-major, 0 = none
};

// Room for max_n keyframes, none yet. Returns 0 or -ENOMEM (*out is empty).
__attribute__((warn_unused_result)) int
correction_create(struct correction *out, const struct intrinsics *camera, uint32_t max_n);
void correction_free(struct correction *correction); // empties it

// One more keyframe, as tracked and as adjusted. Returns its image, to be filled.
uint16_t *correction_add(struct correction *correction, const struct se3 *T_odom_camera,
                         const struct se3 *T_map_camera);

// No keyframe has moved what it saw by an eighth of a voxel.
bool correction_is_none(const struct correction *correction, double voxel_m);

// What takes a surface point p_m of odom, and what is around it, to the map: the mean over the
// keyframes that saw it, by what each weighs in a voxel; where none did, the nearest's. n > 0.
struct se3 correction_at(const struct correction *correction, double voxel_m, const double p_m[3]);

// Moves the places where a lost camera is looked for, each as what it saw is.
void correction_of_places(const struct correction *correction, double voxel_m,
                          struct recover_keyframe *keyframes, uint32_t n_keyframes);

#endif
