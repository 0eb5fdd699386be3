// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/verdict.h"

#include <math.h>
#include <stdio.h>

#include "gpu/track/residual.h"
#include "proto/se3.h"

// Of a frame after a loss or a gap, where there is a map; and after a loss where there is none: in
// a recording that was cut 0.29 of a frame fitted a pose that was 12 cm off, and going on from 0.41
// was worse than from 0.53.
#define ANYWHERE_PAIR_RATIO 0.65
#define LOST_PAIR_RATIO     0.5

#define GAP_PERIODS 5.0

// What the map has told of a frame holds for those that come within so many periods; a frame that
// was looked for beside those after it may be older when it is found.
#define FOUND_PERIODS 3.0

// A motion within this is never a jump, however short the time: what noise may do.
#define JUMP_SLACK_M   0.03
#define JUMP_SLACK_RAD 0.03

double verdict_gap_s(const struct track *track)
{
    return track->period_s > 0 ? fmax(track->settings.gap_s, GAP_PERIODS * track->period_s)
                               : INFINITY;
}

bool verdict_is_gap(const struct track *track, double seconds)
{
    return seconds > verdict_gap_s(track);
}

enum track_reason verdict_objection(const struct track *track, const struct track_candidate *c,
                                    double seconds)
{
    const struct track_settings *s = &track->settings;
    const struct gpu_alignment *a = &c->alignment;
    if (a->n_valid_px < s->min_valid_share * track->level_px)
        return TRACK_REASON_NO_DEPTH;
    // A camera that may be anywhere is believed to be where it was only on good grounds: otherwise
    // it is looked for in the map, or starts anew. Where it was found there the map has told: real
    // frames of a fast turn fit the one before them by half.
    const bool fresh =
        track->is_found && (track->period_s == 0 || seconds <= FOUND_PERIODS * track->period_s);
    const bool lost = track->lost && !fresh;
    const bool gap = verdict_is_gap(track, seconds);
    const bool anywhere = (lost || gap) && !track->is_found;
    double grounds = anywhere && track->has_map ? ANYWHERE_PAIR_RATIO : lost ? LOST_PAIR_RATIO : 0;
    if (!a->solvable || a->n_pairs < fmax(s->min_pair_ratio, grounds) * a->n_valid_px)
        return TRACK_REASON_FEW_PAIRS;
    if (!(a->step_norm <= s->max_step_m))
        return TRACK_REASON_NOT_CONVERGED;
    if (!(residual_sigmas(a) <= s->max_residual_sigmas))
        return TRACK_REASON_HIGH_RESIDUAL;
    struct se3 step = se3_between(&track->T_odom_camera, &c->T_odom_camera);
    if (!(track_translation_m(&step) <= s->max_speed_m_s * seconds + JUMP_SLACK_M) ||
        !(se3_angle(&step) <= s->max_turn_rad_s * seconds + JUMP_SLACK_RAD))
        return TRACK_REASON_JUMP;
    // What the scene does not hold is as it was before the gap: of a camera that may have been
    // carried off nothing tells that. Frames of a room that was cut fitted by 0.74, 25 cm off.
    if (gap && track->has_map && !track->is_found && c->conditioning.n_degenerate > 0)
        return TRACK_REASON_TIME_GAP;
    return TRACK_REASON_NONE;
}

enum track_reason verdict_reservation(const struct track_candidate *c, bool gap)
{
    if (c->conditioning.n_degenerate > 0)
        return TRACK_REASON_DEGENERATE;
    return gap ? TRACK_REASON_TIME_GAP : TRACK_REASON_NONE;
}

const char *track_reason_text(enum track_reason reason)
{
    switch (reason) {
    case TRACK_REASON_NONE:
        return "";
    case TRACK_REASON_FIRST_FRAME:
        return "first frame: nothing to align to yet";
    case TRACK_REASON_DROPPED:
        return "frame dropped before tracking: too late or damaged; the pose is predicted";
    case TRACK_REASON_NO_DEPTH:
        return "too few pixels with depth: lens covered, or everything out of range";
    case TRACK_REASON_FEW_PAIRS:
        return "too little of the frame fits the reference";
    case TRACK_REASON_NOT_CONVERGED:
        return "the alignment did not settle";
    case TRACK_REASON_HIGH_RESIDUAL:
        return "the aligned surfaces do not match within the sensor's noise";
    case TRACK_REASON_JUMP:
        return "the motion found is not believable for the time that passed";
    case TRACK_REASON_DEGENERATE:
        return "the scene does not hold some directions; they follow the prediction";
    case TRACK_REASON_TIME_GAP:
        return "no pose for so long that the start of the alignment was a guess";
    case TRACK_REASON_DEVICE:
        return "the compute device failed";
    }
    return "?";
}

void track_result_text(const struct track_result *result, char out[TRACK_RESULT_TEXT_BYTES])
{
    if (result->measured_share > 0)
        snprintf(out, TRACK_RESULT_TEXT_BYTES,
                 "too sparse: %.0f %% measured, %.1f %% have a normal",
                 result->measured_share * 100, result->normal_share * 100);
    else
        snprintf(out, TRACK_RESULT_TEXT_BYTES, "%s", track_reason_text(result->reason));
}
