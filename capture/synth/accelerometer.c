// SPDX-License-Identifier: Apache-2.0
#include "capture/synth/accelerometer.h"

#include <math.h>

#include "capture/synth/random.h"

#define GRAVITY_M_S2    9.80665
#define FRAME_HZ        30.0
#define BIAS_M_S2       0.12 // standard deviation on each axis
#define SCALE           0.01
#define NOISE_M_S2      0.05
#define COUNTS_PER_M_S2 (819 / GRAVITY_M_S2)
#define BENT            0.0871557 // sine of 5 degrees
#define CAMERA_ROW      0xacce1u  // which of the camera's, of the frame's random numbers

static double bell(uint64_t seed, uint64_t frame, uint32_t row)
{
    return (double)random_bell(random_mix(random_row_key(seed, frame, row))) /
           (double)RANDOM_BELL_SIGMA;
}

void synth_gravity(const struct synth_request *request, uint64_t frame, float out_m_s2[3])
{
    const struct synth_recording *recording = request->recording;
    const uint64_t at = frame > 0 ? frame : 1; // the motion is the same a moment later
    const bool at_gap = recording->event == SYNTH_EVENT_GAP && at + 1 >= recording->event_frame &&
                        at <= recording->event_frame;
    double fall[3], felt[3];
    for (int i = 0; i < 3; i++)
        out_m_s2[i] = NAN;
    if (request->accelerometer == SYNTH_ACCELEROMETER_NONE || at_gap)
        return;
    const struct se3 before = synth_camera_pose(request, at - 1);
    const struct se3 now = synth_camera_pose(request, at);
    const struct se3 after = synth_camera_pose(request, at + 1);
    const struct se3 seen = synth_camera_pose(request, frame);
    for (int i = 0; i < 3; i++)
        fall[i] = (i == 1 ? GRAVITY_M_S2 : 0) -
                  (after.t_m[i] - 2 * now.t_m[i] + before.t_m[i]) * FRAME_HZ * FRAME_HZ;
    for (int i = 0; i < 3; i++) {
        double along = 0;
        for (int k = 0; k < 3; k++)
            along += seen.r[3 * k + i] * fall[k];
        along *= 1 + SCALE * bell(request->camera, 0, CAMERA_ROW + 3 + (uint32_t)i);
        along += BIAS_M_S2 * bell(request->camera, 0, CAMERA_ROW + (uint32_t)i);
        if (request->noise)
            along += NOISE_M_S2 * bell(request->seed, frame, CAMERA_ROW + (uint32_t)i);
        felt[i] = floor(along * COUNTS_PER_M_S2 + 0.5) / COUNTS_PER_M_S2;
    }
    const double x = felt[0], z = felt[2];
    switch (request->accelerometer) {
    case SYNTH_ACCELEROMETER_DEAD:
        felt[0] = felt[1] = felt[2] = 0;
        break;
    case SYNTH_ACCELEROMETER_TURNED:
        felt[0] = -x;
        felt[2] = -z;
        break;
    case SYNTH_ACCELEROMETER_BENT:
        felt[0] = x + BENT * GRAVITY_M_S2;
        break;
    default:
        break;
    }
    for (int i = 0; i < 3; i++)
        out_m_s2[i] = (float)felt[i];
}
