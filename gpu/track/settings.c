// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/settings.h"

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
        .hold_std_m = 0.03,
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

int track_settings_check(const struct track_settings *settings, const struct log_sink *log)
{
    return gpu_align_settings_check(&settings->align, log);
}
