// SPDX-License-Identifier: Apache-2.0
// How long the stages of a frame take: the samples of about one second, for the Timing message, and
// sums over the whole run, for the summary. One thread. Plain data, nothing allocated.
#ifndef POSED_DAEMON_TIMING_H
#define POSED_DAEMON_TIMING_H

#include "proto/posed.pb.h"

#define TIMING_MAX_SAMPLES 512 // newest ones count

enum timing_stage {
    TIMING_WAIT,  // in the capture call
    TIMING_TRACK, // the tracker's call
    TIMING_ADDED, // everything else between the capture call's return and the message sent
    TIMING_N_STAGES,
};

struct timing {
    struct {
        float samples_us[TIMING_MAX_SAMPLES];
        uint32_t n; // since the last report, may exceed TIMING_MAX_SAMPLES
        uint64_t n_total;
        double sum_us, max_us;
    } stages[TIMING_N_STAGES];
};

void timing_add(struct timing *timing, enum timing_stage stage, double duration_us);

// Median, 99th percentile and maximum since the last report, which then start afresh. The caller
// sets timestamp and session.
void timing_report(struct timing *timing, posed_Timing *out);

// Mean over the whole run, 0 without samples.
double timing_mean_us(const struct timing *timing, enum timing_stage stage);

#endif
