// SPDX-License-Identifier: Apache-2.0
// The Kinect's accelerometer: 819 counts per g, axes x left, y up, z forward.
#ifndef POSED_CAPTURE_KINECT_GRAVITY_H
#define POSED_CAPTURE_KINECT_GRAVITY_H

#include <stdint.h>

#define GRAVITY_COUNTS_PER_G 819.0

// The direction in which things fall, in the optical frame [m/s^2]: (0, 9.81, 0) for a level
// camera. At rest the sensor measures the opposite of gravity.
static inline void gravity_from_counts(const int16_t counts[3], float out_m_s2[3])
{
    const double k = 9.80665 / GRAVITY_COUNTS_PER_G;
    out_m_s2[0] = (float)(k * counts[0]);
    out_m_s2[1] = (float)(k * counts[1]);
    out_m_s2[2] = (float)(-k * counts[2]);
}

static inline void gravity_to_counts(const float m_s2[3], int16_t out_counts[3])
{
    const double k = GRAVITY_COUNTS_PER_G / 9.80665;
    for (int i = 0; i < 3; i++) {
        double counts = (i == 2 ? -k : k) * (double)m_s2[i];
        counts = counts < -32768 ? -32768 : counts > 32767 ? 32767 : counts;
        out_counts[i] = (int16_t)(counts < 0 ? counts - 0.5 : counts + 0.5);
    }
}

#endif
