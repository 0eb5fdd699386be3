// SPDX-License-Identifier: Apache-2.0
// The settings of the tracker: what each means, its default and its range. The names that
// posed.conf has for them stand in daemon/config/settings_table.c.
#ifndef POSED_GPU_TRACK_SETTINGS_H
#define POSED_GPU_TRACK_SETTINGS_H

#include "gpu/gpu.h"

// MODEL: a view of the fused model, which the caller sets after each frame (track_set_view); where
// it covers too little, the keyframe, within the same frame.
enum track_reference {
    TRACK_REFERENCE_PREVIOUS,
    TRACK_REFERENCE_KEYFRAME,
    TRACK_REFERENCE_MODEL,
};

// Least and most of each setting; of `align` in gpu/settings.h.
#define TRACK_MIN_VALID_SHARE_RANGE     0, 1
#define TRACK_MIN_PAIR_RATIO_RANGE      0, 1
#define TRACK_MAX_STEP_M_RANGE          1e-9, 10
#define TRACK_MAX_RESIDUAL_SIGMAS_RANGE 0.1, 1e6
#define TRACK_MAX_SPEED_M_S_RANGE       1e-3, 1e6
#define TRACK_MAX_TURN_RAD_S_RANGE      1e-3, 1e6
#define TRACK_RESTART_S_RANGE           0, 1e6
#define TRACK_MIN_EIGENVALUE_RANGE      0, 1
#define TRACK_HOLD_STD_M_RANGE          1e-9, 10
#define TRACK_GAP_S_RANGE               1e-3, 1e6
#define TRACK_STILL_M_RANGE             0, 10
#define TRACK_KEYFRAME_DISTANCE_RANGE   1e-6, 100
#define TRACK_KEYFRAME_TURN_RAD_RANGE   1e-6, 3.1415927
#define TRACK_KEYFRAME_OVERLAP_RANGE    0, 1

struct track_settings {
    enum track_reference reference; // default keyframe
    struct gpu_align_settings align;

    // When a frame is LOST. Shares are of the finest aligned level's pixels.
    double min_valid_share;     // default 0.02, 0..1: fewer pixels with a normal: NO_DEPTH
    double min_pair_ratio;      // default 0.25, 0..1: fewer pairs per valid pixel: FEW_PAIRS
    double max_step_m;          // default 0.005: a larger last step: NOT_CONVERGED
    double max_residual_sigmas; // default 6: residual in units of the sensor's noise: HIGH_RESIDUAL
    double max_speed_m_s;       // default 6: faster: JUMP
    double max_turn_rad_s;      // default 8
    double restart_s;           // default 1: lost for so long with depth: start anew, map epoch + 1

    // When it is DEGRADED.
    double min_eigenvalue; // default 0.0024, 0..1: share of the information (conditioning.h) below
                           // which a direction is held to the prediction
    double hold_std_m;     // default 0.0055: how far the camera may move unseen along such a
                           // direction in a 30th of a second: of a hand's 0.3 m/s what falls on one
                           // of three axes
    bool gravity; // default true: an accelerometer holds roll and pitch then (gravity_prior.h)
    double gap_s; // default 0.5: longer without a frame: no velocity, TIME_GAP

    // When the newest frame becomes the reference.
    // default 0.002: motion (rotation at the scene's distance included) that noise alone may fake:
    // since the reference, it stays the reference (previous); since the last pose, it is averaged
    double still_m;
    double
        keyframe_distance; // default 0.04, keyframe: translation in units of the scene's distance
    double keyframe_turn_rad; // default 0.15
    // default 0.75: pairs per valid pixel, as a share of the most that this keyframe had: noise
    // alone may cost a quarter of the pairs
    double keyframe_overlap;
};

void track_settings_default(struct track_settings *out);

// Whether each is in its range, those of the alignment, too (gpu/settings.h); what is not is named
// in the log. Any thread. Returns 0 or -EINVAL.
__attribute__((warn_unused_result)) int track_settings_check(const struct track_settings *settings,
                                                             const struct log_sink *log);

#endif
