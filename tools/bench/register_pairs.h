// SPDX-License-Identifier: Apache-2.0
// Pairs of point sets whose truth is known: what posed-bench pairs registers.
#ifndef POSED_TOOLS_BENCH_REGISTER_PAIRS_H
#define POSED_TOOLS_BENCH_REGISTER_PAIRS_H

#include "capture/cloud/cloud.h"

struct bench_pair {
    const char *source_name, *target_name;
    const struct cloud *source, *target;
    double overlap;   // NAN: unknown
    bool strangers;   // of different places: no pose is right
    struct se3 truth; // T_target_source
};

// One generated pair; the clouds are the caller's to free. Everything follows from the seed.
struct bench_generated {
    struct cloud source, target;
    double overlap;
    bool strangers;
    struct se3 truth;
};

// Two pieces of one furnished room, each fused from 16 frames of a Kinect with a fixed error, noise
// and drift, each in the frame of its first camera; the smaller one's overlap is 0.3 to 0.8. Every
// fifth pair: pieces of different rooms. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int bench_generate_rooms(uint64_t seed,
                                                             struct bench_generated *out);

// Two scans of one bumpy object 0.2 m tall, 24, 48 or 72 degrees apart (every fourth pair: 120 to
// 180, hardly any overlap; every fifth: of different objects) with noise of 0.2 mm. Returns 0 or
// -ENOMEM.
__attribute__((warn_unused_result)) int bench_generate_statues(uint64_t seed,
                                                               struct bench_generated *out);

void bench_generated_free(struct bench_generated *pair);

#endif
