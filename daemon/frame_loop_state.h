// SPDX-License-Identifier: Apache-2.0
// What the frame loop keeps between two frames, for itself (frame_loop.c) and for what runs between
// its frames (commands.c). One thread, the loop's.
#ifndef POSED_DAEMON_FRAME_LOOP_STATE_H
#define POSED_DAEMON_FRAME_LOOP_STATE_H

#include "daemon/adapt_effort.h"
#include "daemon/epoch_link.h"
#include "daemon/frame_loop.h"
#include "daemon/health.h"
#include "daemon/image.h"
#include "daemon/summary.h"
#include "daemon/timing.h"
#include "daemon/twist_error.h"

#define MAX_MESSAGE_BYTES \
    (posed_Status_size > posed_Odometry_size ? posed_Status_size : posed_Odometry_size)

struct loop {
    const struct loop_settings *settings;
    const struct shared_info *info;
    struct image_sender *images;
    struct timing timing;
    struct health health;
    struct adapt adapt;
    uint64_t next_seq;
    struct summary_end evaluated_end;
    int64_t capture_ns; // of the newest frame, CLOCK_MONOTONIC
    double previous_xyzw[4];
    struct twist_error twist_error;
    struct epoch_link epoch_link;
    struct se3 T_map_odom; // of the newest frame
    struct se3 T_map_told; // of it, as the shared has it; has_map_told: it has one
    bool has_map_told;
    posed_State state; // of the newest message, or NO_INPUT
    uint32_t map_epoch;
    uint64_t n_left_out;       // capture_n_left_out, counted already
    int64_t left_out_ns;       // when that grew last
    const char *silent_reason; // of NO_INPUT; NULL: there was always a frame, or none yet
    bool paused;               // the recording
    bool can_wait;             // the newest frame came as fast as possible: the next one has time

    int64_t heartbeat_ns, last_frame_ns, watchdog_ns, watchdog_period_ns;
    uint64_t heartbeat_seq; // next_seq at the last heartbeat
    uint8_t bytes[MAX_MESSAGE_BYTES];
};

// To all subscribers of events. text: copied.
void loop_send_event(struct loop *loop, posed_Event_Kind kind, const char *text);
// From frame `seq` on a pose has no known truth. why: a literal, as of summary_end.
void loop_end_evaluated(struct loop *loop, uint64_t seq, const char *why);

#endif
