// SPDX-License-Identifier: Apache-2.0
// Where the camera is thought to be when nothing was measured yet: it moves on at constant
// velocity.
#ifndef POSED_GPU_TRACK_MOTION_PREDICTION_H
#define POSED_GPU_TRACK_MOTION_PREDICTION_H

#include "gpu/track/tracker_state.h"

// Where the camera would be `seconds` after the last valid pose if it moved on as it did.
struct se3 track_predict(const struct track *track, double seconds);

// Adds to a covariance (row-major, order x y z rotX rotY rotZ) what a prediction over so long errs.
void track_predict_error(double seconds, double covariance[36]);

#endif
