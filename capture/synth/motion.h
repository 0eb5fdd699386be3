// SPDX-License-Identifier: Apache-2.0
// How the camera of a synthetic recording moves: closed formulas of time, smooth in position and
// velocity, at the speeds of a hand (0.2-0.5 m/s, 20-40 deg/s). Same bits on every machine: the
// sine is our own, because libm's differs in the last bit between processors.
#ifndef POSED_CAPTURE_SYNTH_MOTION_H
#define POSED_CAPTURE_SYNTH_MOTION_H

#include "proto/types.h"

enum motion_kind {
    MOTION_STILL,
    MOTION_STRAIGHT, // 1.4 m to and fro in 10 s, never turning
    MOTION_ROTATION, // looks about (yaw +-30 deg), never leaving its place
    MOTION_LOOP,     // a full turn in 20 s while walking a circle with a wobble; closed
    MOTION_WALK,     // forward along z at 0.35 m/s, swaying
    MOTION_SWAY,     // all six degrees of freedom, at most 0.3 m from its place
};

// Pose at time t_s >= 0 since the start of the motion.
struct se3 motion_at(enum motion_kind kind, double t_s);

// Pose at a place, looking along z, turned about y (yaw, to the right), then x (pitch, upwards),
// then z (roll). The same for shapes that stand in a scene.
struct se3 motion_pose(double x_m, double y_m, double z_m, double yaw_deg, double pitch_deg,
                       double roll_deg);

#endif
