// SPDX-License-Identifier: Apache-2.0
// Whether a keyframe sees a place that an old one saw, where the way between them leaves their
// poses in doubt by more than a link bridges. Old keyframes in reach of that doubt are measured
// (keyframe_constraint.h) from several starts each: where the newest is thought to be, and where
// the old one stood. A place is believed when enough of both images lies on the other, the residual
// is not worse than that of keyframes that stand beside each other, the pose is within the doubt,
// and no other start or old keyframe leads elsewhere as well.
//
// One thread; the same bits each time.
#ifndef POSED_GPU_MODEL_LOOP_CLOSURE_H
#define POSED_GPU_MODEL_LOOP_CLOSURE_H

#include "gpu/model/keyframe_constraint.h"

#define REVISIT_STARTS 4                           // of a place
#define REVISIT_PLACES (LINK_MAX / REVISIT_STARTS) // measured for one keyframe

struct revisit_place {
    const struct align_image *image;
    uint32_t at; // the caller's number
    struct se3 T_map_camera;
    double doubt_m, doubt_rad; // how far the newest may be off, seen from here
};

struct revisit {
    uint32_t at;             // the place's
    struct link link;        // from the place (i) to the keyframe (j)
    struct se3 T_map_camera; // of the keyframe, as the link has it
};

// Looks for `image`, thought to be at T_map_camera, from n places; their order is that in which
// they are tried, REVISIT_PLACES at most. usual_rms_m: the residual of links beside each other.
// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
revisit_find(struct link_maker *maker, const struct align_image *image,
             const struct se3 *T_map_camera, const struct revisit_place *places, uint32_t n,
             double usual_rms_m, struct revisit *out, bool *out_found);

// Whether two poses of one camera are the same place, for finds of keyframes `motion` (m + rad)
// apart: the error of a link grows with the motion between its views. Pure.
bool revisit_agree(const struct se3 *a, const struct se3 *b, double motion);

#endif
