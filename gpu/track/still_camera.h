// SPDX-License-Identifier: Apache-2.0
// A camera that stands still averages its poses. A motion that noise alone may fake is taken only
// in part: a camera that moves is followed at once, and in between the share grows with the cube of
// the motion, so that slow motion lags by less than tracker.still_m. Private to gpu/track.
#ifndef POSED_GPU_TRACK_STILL_CAMERA_H
#define POSED_GPU_TRACK_STILL_CAMERA_H

#include <stdint.h>

#include "proto/se3.h"

// All zero to begin with.
struct still_camera {
    uint32_t n_frames; // that the average has
};

// What comes next is averaged with nothing before it.
void still_camera_reset(struct still_camera *still);

// The pose to believe after T_last (odom_camera both), of which *out_gain, 0..1, is the measured
// one's share. arm_m: what a turn counts by the radian; still_m: motion that is followed in full.
struct se3 still_camera_average(struct still_camera *still, const struct se3 *T_last,
                                const struct se3 *T_measured, double arm_m, double still_m,
                                double *out_gain);

#endif
