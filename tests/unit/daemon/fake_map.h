// SPDX-License-Identifier: Apache-2.0
// A map that finds the camera in the frame after it was loaded, and keyframes that agree on another
// place of odom whenever the test says so, in place of gpu/model's.
#ifndef POSED_TESTS_UNIT_DAEMON_FAKE_MAP_H
#define POSED_TESTS_UNIT_DAEMON_FAKE_MAP_H

#include "gpu/model/keyframe_window.h"
#include "gpu/model/map.h"

struct map {
    bool is_loaded, is_searching;
    bool finds;        // map_follow tells the tracker where it is
    bool stays_hidden; // it does not find the camera
    int load_error;    // of map_load; -ENOSPC leaves the map as it is
    unsigned n_followed;
    unsigned n_expected; // of map_expect_view
    int64_t until_ns;    // of map_set_time
    struct se3 T_map_odom;
};

struct keyframe_window {
    struct se3 T_map_odom;
    struct graph_keyframe keyframe;
    uint32_t epoch;
    unsigned n_followed, n_looked; // frames
    bool has_any;
    bool finds;      // keyframe_window_relocate likewise
    unsigned n_told; // keyframe_window_found,
    double told_m;   // of what
    int64_t told_ns;
    double moved_m, moved_then_m; // what entered moves the camera by: follow's, relocate's
    bool sparing;
    int64_t until_ns;               // of keyframe_window_is_ready
    int64_t look_ns, look_until_ns; // of keyframe_window_relocate: of the frame, and of the wait
};

// The one of each that is made.
extern struct map fake_map;
extern struct keyframe_window fake_window;

// Whether one of them has told it of the newest frame.
extern bool fake_is_found;

#endif
