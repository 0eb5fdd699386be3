// SPDX-License-Identifier: Apache-2.0
// What a tracking backend keeps, for itself (tracking_backend.c), for the device under it
// (tracking_device.c) and for the map on it (tracking_map.c). One thread, the frame loop's.
#ifndef POSED_DAEMON_TRACKING_BACKEND_STATE_H
#define POSED_DAEMON_TRACKING_BACKEND_STATE_H

#include "daemon/clock_sets.h"
#include "daemon/tracking_backend.h"
#include "gpu/model/keyframe_window.h"
#include "gpu/model/map.h"

struct backend {
    const struct config *config;
    struct capture *capture;
    struct gpu_settings gpu_settings;
    struct depth_error field;       // of the camera that the source began with
    struct intrinsics field_camera; // as the source told of it
    bool has_field;
    float *field_per_m;
    struct yield yield; // of long work beside the frames
    struct log_sink log;
    struct gpu *gpu;
    struct track *track;
    struct map *map;                // NULL: nobody wants one
    struct keyframe_window *window; // NULL: map.keyframes is 0. Outlives a device
    struct se3 T_own_found;         // window's T_map_odom when the camera was found in a loaded map
    struct se3 T_odom_camera;       // of the newest frame
    struct se3 T_own_odom;          // window's T_map_odom with the last frame that was not LOST
    // Of the epoch that ended last, kept when it did.
    struct graph_keyframe *ended; // map.keyframes
    uint32_t n_ended, ended_epoch;
    bool has_ended;               // and nobody has asked since
    bool is_ending;               // kept already: what is left of it is nothing
    struct capture_frame newest;  // the last one that got a pose, kept; image.depth NULL: none
    uint64_t newest_call;         // of backend_track
    uint32_t epoch_base;          // of the trackers before this one
    uint32_t epoch;               // newest, base included
    uint32_t finds_base, n_finds; // the same of finds
    enum track_effort effort;
    int64_t until_ns, due_ns; // of backend_set_effort
    int64_t search_ns;        // of backend_search_ns
    bool is_repeated;         // the newest frame's image is that of the one before
    bool is_new;              // nothing ties the next pose to the last one: a new epoch
    unsigned n_rebuilds;      // since the last good frame
    uint64_t n_frames;        // tracked
    uint64_t n_new;           // the same without those whose image is repeated
    uint64_t n_calls;         // of backend_track
    int64_t time_ns;          // of the newest of them, capture_even_ns
    uint64_t seq_base;        // of them, before this tracker
    struct clock_sets clock_sets;
    // Of the epoch: frames, and those among them that never came to the tracker.
    uint64_t n_epoch, n_epoch_dropped;
    float loaded_dropped; // map_contents' of the map that was loaded last
};

// The frame that was kept goes back to the source.
void backend_forget_newest(struct backend *backend);

// The tracker goes on at this pose, unconnected.
void backend_restart(struct backend *backend, const struct se3 *T_odom_camera);

#endif
