// SPDX-License-Identifier: Apache-2.0
// What each request does. A handler fills the reply; it knows nothing of sockets.
#ifndef POSED_DAEMON_HANDLERS_HANDLERS_H
#define POSED_DAEMON_HANDLERS_HANDLERS_H

#include <pthread.h>

#include "capture/recorder/recorder.h"
#include "daemon/config/config.h"
#include "daemon/config/settings.h"
#include "daemon/follow_object.h"
#include "daemon/frames.h"
#include "daemon/handlers/kinds.h"
#include "daemon/handlers/map_turn.h"
#include "daemon/objects.h"
#include "daemon/publish.h"
#include "daemon/shared_state.h"
#include "gpu/base/yield.h"
#include "gpu/register/register.h"
#include "proto/wire.h"

// What ListObjects answers, so that it need not wait while an object is built.
struct listed_objects {
    pthread_mutex_t mutex;
    bool known; // the objects are open; from then on it stays true
    posed_Objects objects;
};

// Of one camera.
struct handlers {
    const char *camera; // its name, "" where it has none
    struct shared *shared;
    const struct config *config;    // as started: for the keys that never change
    struct recorder *recorder;      // NULL = no recordings
    const struct se3 *T_rig_camera; // where it sits on the rig, NULL = it is part of none
    int64_t ahead_ns;               // on a rig: its clock, of the first one's
    struct se3 T_base_optical;      // for recordings of ROS: of its own base_link
    struct frames *frames;
    struct yield_frames *yield_frames;
    struct publish_channel *publish; // progress, NULL = nobody is told
    struct log_sink log;
    struct handlers_common *common; // set by handlers_open
};

// Of all cameras.
struct handlers_common {
    struct handlers *cameras;
    uint32_t n_cameras;
    struct settings *settings; // as they are now
    struct listed_objects listed;
    // The compute queue's own, opened by the first request that needs them.
    struct registration *registration;
    struct objects *objects;
    bool objects_failed; // their device did: the next request opens them again
    struct follow follow;
    struct map_turns turns;
    struct handlers *followed; // the camera that follow looks through
};

struct handlers_payload;

struct handlers_call {
    const posed_Request *request;
    const uint8_t *body; // the encoded Request, for the bytes fields that stay in it
    size_t n_body;
    int64_t deadline_ns;             // CLOCK_MONOTONIC
    struct register_stop *stop;      // set when the client cancels; NULL in HANDLERS_NOW
    struct map_turn *turn;           // of handlers_accept; NULL in HANDLERS_NOW
    posed_Reply *reply;              // has the request's id and is else zero
    struct handlers_payload *pieces; // NULL in HANDLERS_NOW
};

// What a large reply ends in (wire_is_download). The caller frees `memory`.
struct handlers_payload {
    void *memory;
    struct wire_piece pieces[2];
    size_t n_pieces;
};

// Where a request runs. COMMAND waits for the frame loop or the disk, or copies megabytes; COMPUTE
// takes long.
enum handlers_queue { HANDLERS_NOW, HANDLERS_COMMAND, HANDLERS_COMPUTE, HANDLERS_N_QUEUES };

enum handlers_queue handlers_queue(struct handlers *handlers, uint32_t kind);

// A request is taken on, to be run later: for nobody is the map given up before it has its copy,
// which is of the map as it is now (map_turn.h). To be left with map_turn_leave when it is done.
void handlers_accept(struct handlers *handlers, const posed_Request *request,
                     struct map_turn *turn);

// Answers a request of the camera that it names, the first one where it names none; `handlers` are
// any camera's. One thread per queue at a time.
void handlers_run(struct handlers *handlers, const struct handlers_call *call);

// The compute queue with nothing to do: follows an object. Returns whether it wants to be called
// again soon.
bool handlers_idle(struct handlers *handlers);

// Around all of it: `cameras` and common->settings are filled in and in their places for good; what
// the handlers opened themselves is closed.
void handlers_open(struct handlers_common *common, struct handlers *cameras, uint32_t n_cameras);
void handlers_close(struct handlers_common *common);

// The `wait` of a struct yield whose user is the struct handlers_common: for the frames of all
// cameras.
void handlers_yield(void *user, int64_t piece_ns);

#define HANDLERS_ENDING "the daemon is stopping" // with UNAVAILABLE

// Sets code, message and field of a reply that carries no result. `field` may be NULL.
__attribute__((format(printf, 4, 5))) void
handlers_fail(posed_Reply *reply, posed_Code code, const char *field, const char *format, ...);

// The same for what any work may end with: -ECANCELED, -ETIME (the deadline has passed), -ENOMEM;
// any other errno is the device's.
void handlers_fail_work(posed_Reply *reply, int error, const char *field);

// The same for what needs the map, while the camera is searched for in a loaded one.
void handlers_fail_searching(posed_Reply *reply);

// Tells the topic `event` how far a long request is, 0..1.
void handlers_progress(struct handlers *handlers, uint64_t request_id, double share,
                       const char *stage);

// Tells the topic `event` of something that a request has changed.
void handlers_event(struct handlers *handlers, posed_Event_Kind kind, const char *text);

// A log that speaks of a client's input: one remark, not an error of the daemon.
struct log_sink handlers_log(struct handlers *handlers);

// Copies the depth and the camera of a kept frame (frames.h): *seq, or with has_seq false the
// newest, whose number it sets. A frame whose pose was published this very moment is waited for;
// afterwards the shared knows its pose. Returns 0 or -ENOENT. Not in HANDLERS_NOW.
__attribute__((warn_unused_result)) int
handlers_kept_frame(const struct handlers *handlers, bool has_seq, uint64_t *seq,
                    uint16_t *out_depth, struct depth_frame *out, struct intrinsics *out_camera);

// One function for each kind (in query, command, params, frame, record, register, objects, search,
// map, map_cloud, map_optimise).
#define DECLARE(field, queue, needs, text, button, at_once) \
    void handlers_##field(struct handlers *handlers, const struct handlers_call *call);
HANDLERS_KINDS(DECLARE)
#undef DECLARE

// Has the frame loop do it. False: the reply says that it did not.
__attribute__((warn_unused_result)) bool handlers_command(const struct handlers *handlers,
                                                          const struct shared_command *command,
                                                          const struct handlers_call *call,
                                                          struct shared_answer *out);

// Has the frame loop do what ends the map epoch, after those that asked for the map before it have
// their copies. False: the reply says that it did not.
__attribute__((warn_unused_result)) bool
handlers_command_ending_epoch(const struct handlers *handlers, const struct shared_command *command,
                              const struct handlers_call *call, struct shared_answer *out);

// The map epoch in which the request was taken on, and the reply where it has ended since.
uint32_t handlers_map_epoch(const struct handlers *handlers, const struct handlers_call *call);
void handlers_fail_epoch(const struct handlers *handlers, const struct handlers_call *call);

// Copies the map as it was when the request was taken on, to be freed by
// map_contents_free. False: the reply says why.
__attribute__((warn_unused_result)) bool handlers_read_map(const struct handlers *handlers,
                                                           const struct handlers_call *call,
                                                           struct map_contents *out,
                                                           struct intrinsics *out_camera);

// Whether map.folder is set. False: the reply says what is missing.
bool handlers_keeps_maps(struct handlers *handlers, posed_Reply *reply);

// Whether a recorder is there. False: the reply says what is missing.
bool handlers_records(struct handlers *handlers, posed_Reply *reply);
// Whether ListObjects can be answered at once. Any thread.
bool handlers_objects_can_list(struct handlers *handlers);

// Opens handlers->objects if it is not open. False: the reply says why.
bool handlers_objects_open(struct handlers *handlers, posed_Reply *reply);

#endif
