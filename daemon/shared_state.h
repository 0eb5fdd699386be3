// SPDX-License-Identifier: Apache-2.0
// The notice shared between the frame loop, which writes, and the request threads, which read: what
// the daemon is, counters, the poses of the past (pose_history.h), and a slot for commands in the
// other direction. The frame loop never waits here: counters are atomics.
#ifndef POSED_DAEMON_SHARED_STATE_H
#define POSED_DAEMON_SHARED_STATE_H

#include "capture/capture.h"
#include "daemon/config/config.h"
#include "daemon/pose_history.h"
#include "proto/posed.pb.h"
#include "proto/types.h"

#define SHARED_PAGE_MAX    256
#define SHARED_FAULT_BYTES 96

// Never changes; when something does (shared_set_capture), there is a new one.
struct shared_info {
    uint64_t session; // random
    char source[256];
    char camera[CONFIG_CAMERA_NAME_BYTES];                      // "" = the only one, without a name
    char cameras[CONFIG_MAX_CAMERAS][CONFIG_CAMERA_NAME_BYTES]; // all of the daemon
    uint32_t n_cameras;                                         // 0 = one, without a name
    struct capture_info capture;
    char odom_frame[32], camera_frame[32];
    posed_Reference reference;
    bool keeps_map;
    const struct depth_error *field; // the camera's own error that is taken out, NULL = none
    uint32_t n_history;              // frames to keep
};

enum shared_counter {
    SHARED_CAPTURED,
    SHARED_TRACKED,
    SHARED_DEGRADED,
    SHARED_LOST,
    SHARED_DROPPED,
    SHARED_EARLY, // passed over, as they came before the frame loop began
    SHARED_DAMAGED,
    SHARED_DUPLICATE,
    SHARED_REDUCED,
    SHARED_SEARCHING, // tracked, and not yet found in the loaded map
    SHARED_REQUESTS,
    SHARED_BAD_REQUESTS,
    SHARED_REJECTED_REQUESTS,
    SHARED_UNSENT,
    SHARED_LOST_PACKETS,
    SHARED_FAILED_RECORDINGS,
    SHARED_DEGRADED_BY, // + posed_Reason: of the DEGRADED frames those of this reason
    SHARED_LOST_BY = SHARED_DEGRADED_BY + _posed_Reason_ARRAYSIZE, // likewise
    SHARED_N_COUNTERS = SHARED_LOST_BY + _posed_Reason_ARRAYSIZE,
};

// What a request wants of the frame loop, and what it says.
enum shared_command_kind {
    SHARED_RESET,
    SHARED_KEYFRAME,
    SHARED_REPLAY,
    SHARED_READ_MAP, // this and KEYFRAMES: -ESTALE where map_epoch has ended
    SHARED_LOAD_MAP,
    SHARED_KEYFRAMES,
    SHARED_OPTIMISE,  // begins
    SHARED_OPTIMISED, // how it ended
};

struct map_contents;
struct graph_keyframe;
struct optimise_report;

struct shared_command {
    enum shared_command_kind kind;
    bool keep_pose; // RESET: start at the newest pose; else at T_odom_camera
    struct se3 T_odom_camera;
    enum capture_control control; // REPLAY
    double value;
    // READ_MAP, LOAD_MAP: the caller's, filled or read by the loop; for LOAD_MAP made with camera.
    struct map_contents *map;
    struct intrinsics camera;
    uint32_t map_epoch;               // READ_MAP, KEYFRAMES: when it was asked for
    struct graph_keyframe *keyframes; // KEYFRAMES: the caller's, room for max_keyframes
    uint32_t max_keyframes;
    struct optimise_report *optimised; // OPTIMISED: the caller's
};

struct shared_answer {
    int error;                        // 0, or negative errno of the command itself
    uint64_t next_seq;                // first frame after it
    uint64_t keyframe_seq;            // KEYFRAME
    struct capture_playback playback; // REPLAY
    struct intrinsics camera;         // READ_MAP: that it was made with
    uint32_t n_keyframes, map_epoch;  // KEYFRAMES
};

struct shared; // opaque
struct histogram;

// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int shared_create(struct shared **out,
                                                      const struct shared_info *info);
void shared_destroy(struct shared **shared);

// As it is now; any thread. What was returned earlier stays valid and as it was until
// shared_destroy.
const struct shared_info *shared_info(const struct shared *shared);

// The frame loop: the camera is another one. Keeps one info for each camera that there ever was.
// Returns 0, or -ENOMEM with nothing changed.
__attribute__((warn_unused_result)) int shared_set_capture(struct shared *shared,
                                                           const struct capture_info *capture);

void shared_count(struct shared *shared, enum shared_counter counter);
void shared_add(struct shared *shared, enum shared_counter counter, uint64_t n);
uint64_t shared_counter(const struct shared *shared, enum shared_counter counter);

// The frame loop: state and rate as GetStatus shows them. `reason_text` must be a literal.
void shared_set_state(struct shared *shared, posed_State state, posed_Reason reason,
                      const char *reason_text, uint32_t map_epoch);
void shared_set_rate(struct shared *shared, double rate_hz);

// The frame loop: why none of the frames that come has a pose, "" = that is not so. Copied.
void shared_set_fault(struct shared *shared, const char *text);
// Any thread: whether no poses come, and why: the reason of NO_INPUT, or the above.
// *out is "" where they do.
bool shared_fault(struct shared *shared, char out[SHARED_FAULT_BYTES]);

// The frame loop: backend_n_left_out.
void shared_set_left_out(struct shared *shared, uint32_t n_blocks);

// The frame loop: T_map_odom of the newest pose, NULL: it has none. Copied.
void shared_set_map_odom(struct shared *shared, const struct se3 *T_map_odom);

// The frame loop: the map epoch of the newest frame or, where the next one begins another, that
// one; never goes back. Any thread.
void shared_set_map_epoch(struct shared *shared, uint32_t map_epoch);
uint32_t shared_map_epoch(const struct shared *shared);

// Any thread: what computes now, "" at first.
void shared_set_backend(struct shared *shared, const char *description);

// Any thread: a recording of this camera is being written from now on; it has ended, so that none
// is.
void shared_begin_recording(struct shared *shared, const char *name);
void shared_end_recording(struct shared *shared, const posed_EndedRecording *ended);

// The frame loop, at least every second: it goes round. Any thread: it has done so in the last 3 s,
// or the camera has ended while others go on.
void shared_beat(struct shared *shared);
bool shared_is_alive(const struct shared *shared);

// The camera's own thread, after its loop: NO_INPUT, with `reason_text`, which must be a literal.
void shared_end(struct shared *shared, const char *reason_text);
bool shared_has_ended(const struct shared *shared); // any thread

// The frame loop: whether the recording is paused.
void shared_set_paused(struct shared *shared, bool paused);

// Of this process, 0 when the system does not tell. Any thread.
uint64_t shared_resident_bytes(void);

// From the arrival of frames to their poses on the sockets. The frame loop adds; any thread prints.
struct histogram *shared_latency(struct shared *shared);

// The last n_history frames. The frame loop puts; any thread reads.
struct pose_history *shared_history(const struct shared *shared);

// Composes the status from all of the above. Any thread.
void shared_status(struct shared *shared, posed_Status *out);

// A request thread: hands a command to the frame loop and waits until it has answered. Returns 0,
// -ETIMEDOUT (deadline_ns, CLOCK_MONOTONIC; the command is withdrawn) or -ECANCELED (the loop has
// ended). One at a time; further callers wait in line.
__attribute__((warn_unused_result)) int shared_command(struct shared *shared,
                                                       const struct shared_command *command,
                                                       int64_t deadline_ns,
                                                       struct shared_answer *out);

// The frame loop, every round: takes a waiting command (false: there is none), and says when it is
// done. shared_end_commands refuses all further ones.
bool shared_take_command(struct shared *shared, struct shared_command *out);
void shared_finish_command(struct shared *shared, const struct shared_answer *answer);
void shared_end_commands(struct shared *shared);

#endif
