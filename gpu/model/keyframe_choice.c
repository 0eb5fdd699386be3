// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/keyframe_choice.h"

#include "gpu/model/keyframe_constraint.h"
#include "proto/se3.h"

// A result that moves the camera so far in the map says that odom drifts here: the next keyframe
// comes at half the motion.
#define MOVED_M 0.005

bool keyframe_choice(const struct track_result *result, const struct se3 *T_odom_keyframe,
                     double moved_m, bool sparing)
{
    if (result->state == TRACK_STATE_INIT)
        return !T_odom_keyframe && result->reason == TRACK_REASON_FIRST_FRAME;
    if (result->state != TRACK_STATE_TRACKING)
        return false;
    if (!T_odom_keyframe)
        return true;
    const struct se3 moved = se3_between(T_odom_keyframe, &result->T_odom_camera);
    const double turn_rad = se3_angle(&moved);
    const double share = sparing ? KEYFRAME_CHOICE_SPARING : moved_m > MOVED_M ? 0.5 : 1;
    return turn_rad > share * KEYFRAME_CHOICE_STEP_RAD ||
           link_motion(&moved) - turn_rad > share * KEYFRAME_CHOICE_STEP_M;
}
