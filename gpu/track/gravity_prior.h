// SPDX-License-Identifier: Apache-2.0
// Roll and pitch where the scene does not hold them (a wall that fills the view lets the camera
// turn about its normal): held by an accelerometer instead of by the prediction alone, which goes
// on turning as the camera last did.
//
// What it reads is gravity less the camera's acceleration, in axes that are off by some degrees. So
// only its change counts, against the mean direction of odom that it had while the scene held the
// camera; and it is followed as a second-order filter follows (alpha-beta, critically damped),
// which a hand's shaking hardly moves. It is believed once it has turned as the camera did in
// directions that the scene holds, and left out where it does not agree with them.
//
// Plain data; without a reading, or where everything is held, poses are what they are without it.
#ifndef POSED_GPU_TRACK_GRAVITY_PRIOR_H
#define POSED_GPU_TRACK_GRAVITY_PRIOR_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/track/conditioning.h"
#include "proto/log.h"
#include "proto/types.h"

struct gravity_prior {
    double reading[3]; // of the newest frame, unit length, in the camera
    bool has_reading;
    double down[3];  // in odom: the mean of the readings
    uint32_t n_down; // readings in it
    double axes[18]; // n_axes x 3, odom: rotations that the scene does not hold
    int n_axes;
    double turn[3];    // of the newest prediction by the filter, camera
    double surplus[3]; // of it that is no speed, in the newest pose's step
    // Over some seconds, in directions that are held [rad^2]: by how much readings are off, and by
    // how much they should have changed.
    double disagree2, turned2;
    // Over all frames with a reading: how both go together, and the latter alone.
    double contradict2, all_turned2;
    uint32_t n_compared;
    double seen[3]; // the mean of what they should have been, camera
    uint32_t n_seen;
    bool trusted;           // they have changed as they should
    uint32_t n_read, n_off; // frames with a reading, and those that cannot be gravity
    bool told, told_used;   // that it is left out; that it is there
    bool told_trusted;      // that it is believed
};

// Forgets everything but what was told: odom begins anew.
void gravity_prior_reset(struct gravity_prior *prior);

// The newest frame's reading [m/s^2], NaN: none. A line in the log, once, when ten that are gravity
// have come, and one when most cannot be.
void gravity_prior_read(struct gravity_prior *prior, const float gravity_m_s2[3],
                        const struct log_sink *log);

// Turns the predicted pose of the newest frame, `seconds` after the last, towards the reading,
// about the axes that were not held in the last pose.
void gravity_prior_hold(struct gravity_prior *prior, double seconds, struct se3 *T_odom_predicted);

// The newest frame's pose and what its alignment to a reference held. A line in the log, once, when
// the readings are believed, and one when they disagree.
void gravity_prior_follow(struct gravity_prior *prior, const struct se3 *T_odom_camera,
                          const struct se3 *T_odom_reference,
                          const struct conditioning *conditioning, double seconds,
                          const struct log_sink *log);

// The newest frame has no pose, or it is known from elsewhere: the camera is thought to rest.
void gravity_prior_rest(struct gravity_prior *prior);

#endif
