// SPDX-License-Identifier: Apache-2.0
// The accelerometer of the synthetic camera, as a Kinect's: gravity and the motion's acceleration
// over a frame, in axes that are off by a bias of their own (0.7 degrees on each, another in each
// camera), of a scale that is off by 1 %, with noise and steps of 12 bits. Or a wrong one.
#ifndef POSED_CAPTURE_SYNTH_ACCELEROMETER_H
#define POSED_CAPTURE_SYNTH_ACCELEROMETER_H

#include "capture/synth/synth.h"

// What capture_frame.gravity_m_s2 is of that frame: NaN without an accelerometer, and at a gap.
void synth_gravity(const struct synth_request *request, uint64_t frame, float out_m_s2[3]);

#endif
