// SPDX-License-Identifier: Apache-2.0
// The notice board between the frame loop, which writes, and the request threads, which read: what
// the daemon is, counters, the poses of the past, and a slot for commands in the other direction.
//
// The frame loop never waits here: counters are atomics, and a pose of the past is stored as atomic
// words that a reader checks afterwards (a seqlock after Boehm 2012, "Can seqlocks get along with
// programming language memory models?", with the frame number as sequence).
#ifndef POSED_DAEMON_BOARD_H
#define POSED_DAEMON_BOARD_H

#include "capture/capture.h"
#include "proto/posed.pb.h"
#include "proto/types.h"

#define BOARD_PAGE_MAX 256

// Never changes; when something does (board_set_capture), there is a new one.
struct board_info {
    uint64_t session; // random
    char source[256];
    struct capture_info capture;
    char odom_frame[32], camera_frame[32];
    posed_Reference reference;
    uint32_t n_history; // frames to keep
};

struct board_pose {
    uint64_t seq;
    int64_t time_ns;
    double q_xyzw[4], t_m[3]; // T_odom_camera
    posed_State state;
    uint32_t map_epoch;
};

enum board_counter {
    BOARD_CAPTURED,
    BOARD_TRACKED,
    BOARD_DEGRADED,
    BOARD_LOST,
    BOARD_DROPPED,
    BOARD_DAMAGED,
    BOARD_DUPLICATE,
    BOARD_REQUESTS,
    BOARD_BAD_REQUESTS,
    BOARD_REJECTED_REQUESTS,
    BOARD_UNSENT,
    BOARD_N_COUNTERS,
};

// What a request wants of the frame loop, and what it says.
enum board_command_kind { BOARD_RESET, BOARD_KEYFRAME, BOARD_REPLAY };

struct board_command {
    enum board_command_kind kind;
    bool keep_pose; // RESET: start at the newest pose; else at T_odom_camera
    struct se3 T_odom_camera;
    enum capture_control control; // REPLAY
    double value;
};

struct board_answer {
    int error;                        // 0, or negative errno of the command itself
    uint64_t next_seq;                // first frame after it
    uint64_t keyframe_seq;            // KEYFRAME
    struct capture_playback playback; // REPLAY
};

struct board; // opaque

// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int board_create(struct board **out,
                                                     const struct board_info *info);
void board_destroy(struct board **board);

// As it is now; any thread. What was returned earlier stays valid and as it was until
// board_destroy.
const struct board_info *board_info(const struct board *board);

// The frame loop: the camera is another one. Keeps one info for each camera that there ever was.
// Returns 0, or -ENOMEM with nothing changed.
__attribute__((warn_unused_result)) int board_set_capture(struct board *board,
                                                          const struct capture_info *capture);

void board_count(struct board *board, enum board_counter counter);
uint64_t board_counter(const struct board *board, enum board_counter counter);

// The frame loop: state and rate as GetStatus shows them. `reason_text` must be a literal.
void board_set_state(struct board *board, posed_State state, posed_Reason reason,
                     const char *reason_text, uint32_t map_epoch);
void board_set_rate(struct board *board, double rate_hz);

// Any thread: what computes now ("" at first), and the recording being written, empty = none.
void board_set_backend(struct board *board, const char *description);
void board_set_recording(struct board *board, const char *name);

// The frame loop, at least every second: it goes round. Any thread: it has done so in the last 3 s.
void board_beat(struct board *board);
bool board_is_alive(const struct board *board);

// The frame loop: whether the recording is paused.
void board_set_paused(struct board *board, bool paused);

// Of this process, 0 when the system does not tell. Any thread.
uint64_t board_resident_bytes(void);

// Composes the status from all of the above. Any thread.
void board_status(struct board *board, posed_Status *out);

// The frame loop: appends a frame. seq must be the one before plus 1, from 0.
void board_put(struct board *board, const struct board_pose *pose);

// Any thread. Frames kept are oldest <= seq < next.
void board_range(const struct board *board, uint64_t *out_oldest, uint64_t *out_next);

// Copies one frame. Returns 0, or -ENOENT when it is not there or no longer there.
__attribute__((warn_unused_result)) int board_get(const struct board *board, uint64_t seq,
                                                  struct board_pose *out);

// The pose at a time: interpolated between the two frames around it when both have a pose of the
// same map epoch and are at most 1 s apart. out->seq and state are those of the frame before.
// Returns 0, -ENOENT (outside of what is kept) or -ENODATA (no valid pose there).
__attribute__((warn_unused_result)) int board_pose_at(const struct board *board, int64_t time_ns,
                                                      struct board_pose *out);

// A request thread: hands a command to the frame loop and waits until it has answered. Returns 0,
// -ETIMEDOUT (deadline_ns, CLOCK_MONOTONIC; the command is withdrawn) or -ECANCELED (the loop has
// ended). One at a time; further callers wait in line.
__attribute__((warn_unused_result)) int board_command(struct board *board,
                                                      const struct board_command *command,
                                                      int64_t deadline_ns,
                                                      struct board_answer *out);

// The frame loop, every round: takes a waiting command (false: there is none), and says when it is
// done. board_end_commands refuses all further ones.
bool board_take_command(struct board *board, struct board_command *out);
void board_finish_command(struct board *board, const struct board_answer *answer);
void board_end_commands(struct board *board);

#endif
