// SPDX-License-Identifier: Apache-2.0
// What a velocity may be off by: it is the motion since the pose before over the time between, and
// so is its covariance that motion's (pose_error.h) over the time squared. In the body's frame, as
// the velocity is.
#ifndef POSED_DAEMON_TWIST_ERROR_H
#define POSED_DAEMON_TWIST_ERROR_H

#include "proto/pose_error.h"

// Of one body, between two frames; zero at first. One thread at a time.
struct twist_error {
    bool has_last, is_known;
    int64_t time_ns; // of the last pose that was measured
    struct se3 T_odom_body;
    struct pose_error error;
    uint32_t epoch, n_finds;
    double covariance[36]; // of the newest velocity, where it is known
};

struct twist_sight {
    int64_t time_ns;
    struct se3 T_odom_body;
    const struct pose_error *error;
    const double *velocity; // linear, angular; all 0: none is known, as track.h has it
    uint32_t epoch, n_finds;
    bool is_lost, is_predicted; // predicted: the next velocity is not from there
};

// The next frame. Returns whether its velocity is known; then out has its covariance, m/s and rad/s
// as pose_error.h has them. An image that came again has that of when it came, as its velocity is.
bool twist_error_next(struct twist_error *twist, const struct twist_sight *sight, double out[36]);

#endif
