// SPDX-License-Identifier: Apache-2.0
// Finding a lost camera among the keyframes by their own images, which stay as sharp as they came
// however the keyframes drift. Those most like the lost frame, as they are or turned, are measured
// (keyframe_constraint.h) from two starts each, and a pose is believed only when both images
// overlap, all directions are held, the residual is that of keyframes that stand beside each other,
// depths agree pixel by pixel in both, and no other start or keyframe leads elsewhere as well.
//
// Against motion capture, fr1_xyz's frames among fr1_rpy's keyframes, the other way, and each
// recording without the keyframes of the eight frames before and after: 5677 measurements are SURE,
// all within 5 cm and 0.08 rad, half of them within 15 mm; 2042 are FAIR, two of these wrong by 19
// and 25 cm, with 0.0025 on the weakest direction. No frame of another room is either.
//
// One thread; the same bits each time.
#ifndef POSED_GPU_MODEL_KEYFRAME_RECOVERY_H
#define POSED_GPU_MODEL_KEYFRAME_RECOVERY_H

#include "gpu/model/depth_cells.h"
#include "gpu/model/keyframe_constraint.h"
#include "gpu/model/relocalise_finds.h"

#define RECOVERY_STARTS 2                            // of a place
#define RECOVERY_PLACES (LINK_MAX / RECOVERY_STARTS) // measured with one frame

struct recovery_view {
    const struct align_image *image;
    const float *z_m;   // row-major, 0 = none
    const float *log_z; // its cells
};

struct recovery_place {
    struct recovery_view view;
    struct se3 T_odom_camera, T_map_camera; // as tracked, and as adjusted
};

struct recovery {
    enum relocalise_trust trust;
    uint32_t at;              // the place that it was measured against
    struct se3 T_odom_camera; // of the frame, as that place was tracked
    struct link link;         // from the place to the frame
};

// Looks for `frame` among n places of images of `camera`. `attempt` counts the frames lost in a
// row: each tries the places most like it and, in turn, others. usual_rms_m: the residual of links
// beside each other; 0: not known. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
recovery_find(struct link_maker *maker, const struct intrinsics *camera,
              const struct recovery_view *frame, const struct recovery_place *places, uint32_t n,
              uint32_t attempt, double usual_rms_m, struct recovery *out);

#endif
