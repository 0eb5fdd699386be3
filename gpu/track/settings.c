// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/settings.h"

#include "gpu/base/range.h"

void track_settings_default(struct track_settings *out)
{
    *out = (struct track_settings){
        .reference = TRACK_REFERENCE_KEYFRAME,
        .min_valid_share = 0.02,
        .min_pair_ratio = 0.25,
        .max_residual_sigmas = 6.0,
        .max_step_m = 0.005,
        .max_speed_m_s = 6.0,
        .max_turn_rad_s = 8.0,
        .min_eigenvalue = 0.0024,
        .hold_std_m = 0.0055,
        .still_m = 0.002,
        .keyframe_distance = 0.04,
        .keyframe_turn_rad = 0.15,
        .keyframe_overlap = 0.75,
        .gravity = true,
        .gap_s = 0.5,
        .restart_s = 1.0,
    };
    gpu_align_settings_default(&out->align);
}

int track_settings_check(const struct track_settings *s, const struct log_sink *log)
{
    const struct range ranges[] = {
        {"tracker.min_valid_share", s->min_valid_share, TRACK_MIN_VALID_SHARE_RANGE, false},
        {"tracker.min_pair_ratio", s->min_pair_ratio, TRACK_MIN_PAIR_RATIO_RANGE, false},
        {"tracker.max_step_m", s->max_step_m, TRACK_MAX_STEP_M_RANGE, false},
        {"tracker.max_residual_sigmas", s->max_residual_sigmas, TRACK_MAX_RESIDUAL_SIGMAS_RANGE,
         false},
        {"tracker.max_speed_m_s", s->max_speed_m_s, TRACK_MAX_SPEED_M_S_RANGE, false},
        {"tracker.max_turn_rad_s", s->max_turn_rad_s, TRACK_MAX_TURN_RAD_S_RANGE, false},
        {"tracker.restart_s", s->restart_s, TRACK_RESTART_S_RANGE, false},
        {"tracker.min_eigenvalue", s->min_eigenvalue, TRACK_MIN_EIGENVALUE_RANGE, false},
        {"tracker.hold_std_m", s->hold_std_m, TRACK_HOLD_STD_M_RANGE, false},
        {"tracker.gap_s", s->gap_s, TRACK_GAP_S_RANGE, false},
        {"tracker.still_m", s->still_m, TRACK_STILL_M_RANGE, false},
        {"tracker.keyframe_distance", s->keyframe_distance, TRACK_KEYFRAME_DISTANCE_RANGE, false},
        {"tracker.keyframe_turn_rad", s->keyframe_turn_rad, TRACK_KEYFRAME_TURN_RAD_RANGE, false},
        {"tracker.keyframe_overlap", s->keyframe_overlap, TRACK_KEYFRAME_OVERLAP_RANGE, false},
    };
    const int rc = ranges_check(log, ranges, sizeof ranges / sizeof *ranges);
    return rc < 0 ? rc : gpu_align_settings_check(&s->align, log);
}
