// SPDX-License-Identifier: Apache-2.0
// What one camera of a rig saw and where it went, for posectl rig calibrate: its recording tracked
// with the tracker's own settings, the camera's own error learnt from it and, where that is
// accepted (gpu/track/calibrate.h), taken out while it is tracked once more.
#ifndef POSED_TOOLS_POSECTL_RIG_TRAJECTORY_H
#define POSED_TOOLS_POSECTL_RIG_TRAJECTORY_H

#include "gpu/gpu.h"
#include "gpu/track/depth_error.h"
#include "gpu/track/rig_extrinsics.h"
#include "gpu/track/track.h"
#include "proto/clock_offset.h"

// An image is kept each time that so much has passed, by the time stamps; twice, four times ... as
// much in a recording that would have more than WAY_MAX_VIEWS.
#define WAY_VIEW_NS   200000000LL
#define WAY_MAX_VIEWS 160

struct way_sight {
    int64_t time_ns;
    struct se3 T_odom_camera;
    uint32_t epoch;
};

struct way_view {
    struct way_sight sight;
    float *map; // of RIG_EXTRINSICS_MAP_LEVEL
};

struct way {
    struct intrinsics camera;
    struct way_sight *sights; // of frames that were tracked well
    size_t n;
    int64_t gap_ns;         // no pose is interpolated over more
    enum track_reason lack; // of the last frame that was not; NONE: all were
    struct way_view views[WAY_MAX_VIEWS];
    size_t n_views;
    bool is_corrected;        // the camera's own error has been taken out
    struct depth_error field; // it, where that is so
};

// The stamps of a recording's first and last frame, without tracking it. Says nothing: returns
// false where it is none that can be read, which way_find tells of.
bool way_look_at_times(const char *source, int64_t *out_first_ns, int64_t *out_last_ns);

// Tracks a whole recording. Returns 0, or a negative errno with the reason told to the user;
// way_free is to be called all the same.
__attribute__((warn_unused_result)) int way_find(const char *source, enum gpu_backend backend,
                                                 struct way *out);
void way_free(struct way *way);

// From now on its stamps are those of a clock that it is ahead of by so much.
void way_set_clock(struct way *way, int64_t ahead_ns);

// The pose at a time, between the two that were seen around it. Returns false where there are none
// near enough, or of different epochs.
bool way_pose_at(const struct way *way, int64_t time_ns, struct way_sight *out);

// How fast it turned, from frame to frame, along the axes that T_axes_camera turns to; NULL: only
// its length. One less than way->n, for the caller to free. NULL: no memory.
struct clock_offset_turn *way_turns(const struct way *way, const struct se3 *T_axes_camera);

#endif
