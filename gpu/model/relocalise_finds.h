// SPDX-License-Identifier: Apache-2.0
// Places where a lost camera was found, one after the other, and whether they are believed.
#ifndef POSED_GPU_MODEL_RELOCALISE_FINDS_H
#define POSED_GPU_MODEL_RELOCALISE_FINDS_H

#include "gpu/track/track.h"

#define RELOCALISE_IN_A_ROW 3

// SURE: all that the frame sees is known there, and agrees. FAIR: what is known agrees, but it is
// less; to be believed when further frames agree.
enum relocalise_trust { RELOCALISE_NOT_FOUND, RELOCALISE_FAIR, RELOCALISE_SURE };

// Of one loss; all zero: none yet.
struct relocalise_finds {
    struct se3 T_last; // where the newest was, in a frame that stays
    uint32_t n_fair;   // finds in a row that go on to it, each within what a hand moves
};

// Whether a lost frame was looked at: it has depth, and the device did not fail.
bool relocalise_is_lost(const struct track_result *result, const struct gpu_frame *frame);

// Whether the frame has a pose by alignment: where a place was tried with the one before, it holds.
bool relocalise_holds(const struct track_result *result);

// The newest frame's find enters. Returns whether it is believed: it is SURE, or
// RELOCALISE_IN_A_ROW images in a row agree. is_repeat: its image is the one before's, which is no
// further witness, whatever else was looked at this time.
bool relocalise_finds_believe(struct relocalise_finds *finds, enum relocalise_trust trust,
                              const struct se3 *T, bool is_repeat);

bool relocalise_is_near(const struct se3 *a, const struct se3 *b, double limit_m, double limit_rad);

#endif
