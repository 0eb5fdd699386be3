// SPDX-License-Identifier: Apache-2.0
// From odom to the map that the keyframes agree on, place by place. Each keyframe was moved when it
// was adjusted; a point of a surface goes as those that saw it. A keyframe's own depth image says
// whether it did: after a drift one wall may stand twice in odom, and each of the two has keyframes
// of its own. (As a deformation graph moves what hangs on its nodes: Sumner, Schmid, Pauly 2007;
// Whelan et al., "ElasticFusion", 2015.)
//
// Plain data: any thread.
#ifndef POSED_GPU_MODEL_DEFORMATION_FIELD_H
#define POSED_GPU_MODEL_DEFORMATION_FIELD_H

#include "gpu/model/pose_graph.h"
#include "gpu/model/relocalise.h"

struct deformation_keyframe {
    struct se3 T_odom_camera, T_camera_odom;
    struct se3 T_map_odom; // what became of it
};

// Keyframes and what they saw; n 0: nothing is moved.
struct deformation_field {
    struct intrinsics camera; // of the images
    uint32_t n;
    struct deformation_keyframe *keyframes;
    uint16_t *z_mm; // n images, row-major, 0 = none
};

// Room for max_n keyframes, none yet. Returns 0 or -ENOMEM (*out is empty).
__attribute__((warn_unused_result)) int deformation_field_create(struct deformation_field *out,
                                                                 const struct intrinsics *camera,
                                                                 uint32_t max_n);
void deformation_field_free(struct deformation_field *correction); // empties it

// One more keyframe, as tracked and as adjusted. Returns its image, to be filled.
uint16_t *deformation_field_add(struct deformation_field *correction,
                                const struct se3 *T_odom_camera, const struct se3 *T_map_camera);

// No keyframe has moved what it saw by an eighth of a voxel.
bool deformation_field_is_none(const struct deformation_field *correction, double voxel_m);

// What takes a surface point p_m of odom, and what is around it, to the map: the mean over the
// keyframes that saw it, by what each weighs in a voxel; where none did, the nearest's. n > 0.
struct se3 deformation_field_at(const struct deformation_field *correction, double voxel_m,
                                const double p_m[3]);

// Moves the places where a lost camera is looked for, each as what it saw is.
void deformation_field_of_places(const struct deformation_field *correction, double voxel_m,
                                 struct relocalise_keyframe *keyframes, uint32_t n_keyframes);

#endif
