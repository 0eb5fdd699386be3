// SPDX-License-Identifier: Apache-2.0
// Which of the tracker's frames become keyframes of the map's pose graph (keyframe_window.h).
// Private to gpu/model; pure.
#ifndef POSED_GPU_MODEL_KEYFRAME_CHOICE_H
#define POSED_GPU_MODEL_KEYFRAME_CHOICE_H

#include "gpu/track/track.h"

// Motion since the last keyframe that makes the next one, whichever comes first.
#define KEYFRAME_CHOICE_STEP_M   0.06
#define KEYFRAME_CHOICE_STEP_RAD 0.1

// The same where time is short: so many times as much. Then a keyframe sees three quarters of what
// the one before it saw.
#define KEYFRAME_CHOICE_SPARING 3.0

// T_odom_keyframe: of the last one, NULL before the first. moved_m: how far the newest adjustment
// moved the camera in the map. sparing: time is short.
bool keyframe_choice(const struct track_result *result, const struct se3 *T_odom_keyframe,
                     double moved_m, bool sparing);

#endif
