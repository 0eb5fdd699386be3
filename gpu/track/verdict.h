// SPDX-License-Identifier: Apache-2.0
// The verdict on a frame: what makes it LOST, what makes it DEGRADED, and what each reason means in
// words (track_reason_text). Every limit of the settings is looked at here and nowhere else.
#ifndef POSED_GPU_TRACK_VERDICT_H
#define POSED_GPU_TRACK_VERDICT_H

#include "gpu/track/pose_candidates.h"

// After so long without a valid pose it is a guess where the camera is now. A recording at one
// frame a second has no gaps at one second: the usual period counts, too; infinite before there is
// one.
double verdict_gap_s(const struct track *track);

// Whether so much time has passed since the last valid pose.
bool verdict_is_gap(const struct track *track, double seconds);

// What speaks against believing an alignment, so that the frame is LOST unless another way explains
// it; NONE: nothing. seconds: since the last valid pose.
enum track_reason verdict_objection(const struct track *track, const struct track_candidate *c,
                                    double seconds);

// Why a pose that is believed is DEGRADED; NONE: it is not, the frame is TRACKING. gap: so much
// time has passed that the start of the alignment was a guess.
enum track_reason verdict_reservation(const struct track_candidate *c, bool gap);

#endif
