// SPDX-License-Identifier: Apache-2.0
// accelerometer.txt of a TUM recording: lines `timestamp ax ay az`, m/s^2 in the axes of the
// Kinect's sensor (x left, y up, z forward), on the clock of the depth images, at any rate. What it
// feels is the force that holds it: the opposite of gravity at rest, and its motion's acceleration.
#ifndef POSED_CAPTURE_RECORDING_ACCELEROMETER_H
#define POSED_CAPTURE_RECORDING_ACCELEROMETER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/log.h"

struct accelerometer_sample {
    int64_t time_ns;
    float gravity_m_s2[3]; // optical frame, as capture_frame has it
};

struct accelerometer {
    struct accelerometer_sample *samples; // by time
    size_t n_samples;
};

// Parses 0-terminated text in place. Lines out of order are sorted, those that cannot be read are
// left out: the log names the first as "<name>:<line>: <reason>" and counts them. Returns 0, or
// -ENOMEM with *out empty.
__attribute__((warn_unused_result)) int accelerometer_parse(char *text, const char *name,
                                                            const struct log_sink *log,
                                                            struct accelerometer *out);
void accelerometer_free(struct accelerometer *accelerometer); // empties it

// Gravity at a frame: the mean over the 30th of a second around it, so that a shake between two
// frames does not pass for a tilt; where that has no sample, between the ones beside it; NaN where
// there is none within 0.1 s.
void accelerometer_at(const struct accelerometer *accelerometer, int64_t time_ns,
                      float out_m_s2[3]);

#endif
