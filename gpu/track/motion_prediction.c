// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/motion_prediction.h"

// A predicted pose errs by what a hand can accelerate in the time.
#define PREDICTED_ACCELERATION_M_S2 3.0
#define PREDICTED_ARM_M             0.5

struct se3 track_predict(const struct track *track, double seconds)
{
    double twist[6];
    for (int i = 0; i < 6; i++)
        twist[i] = track->velocity[i] * seconds;
    struct se3 step = se3_exp(twist);
    return se3_compose(&track->T_odom_camera, &step);
}

void track_predict_error(double seconds, double covariance[36])
{
    for (int i = 0; i < 6; i++) {
        double arm_m = i < 3 ? 1 : PREDICTED_ARM_M;
        double std = 0.5 * PREDICTED_ACCELERATION_M_S2 * seconds * seconds / arm_m;
        covariance[7 * i] += std * std;
    }
}
