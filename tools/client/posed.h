// SPDX-License-Identifier: Apache-2.0
// libposed: camera poses of a running posed, for programs in C and C++. Link with -lposed.
//
//     struct posed *camera;
//     struct posed_pose pose;
//     if (posed_connect(&camera, NULL) == 0)
//         while (posed_next(camera, -1, &pose) == 0)
//             printf("%f %f %f\n", pose.position_m[0], pose.position_m[1], pose.position_m[2]);
//
// Metres, radians, nanoseconds; a pose takes points of the camera (x right, y down, z forward) to
// the odom frame. A client is used by one thread at a time. Functions that return int return 0, or
// a negative errno with the sentence in posed_error.
#ifndef POSED_H
#define POSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum posed_state {
    POSED_INIT = 1, // first frame, or first after a reset
    POSED_TRACKING = 2,
    POSED_DEGRADED = 3, // usable, with a reason
    POSED_LOST = 4,     // the pose told last again: do not use
    POSED_SEARCHING = 5,
};

struct posed_pose {
    uint64_t session; // of the daemon, random, new at every start
    uint64_t seq;     // of the frame, +1 per captured frame
    int64_t time_ns;  // of the frame, on the recording's or the camera's clock
    enum posed_state state;
    char reason[96]; // why it is not TRACKING, for a person
    double position_m[3];
    double orientation_xyzw[4]; // unit
    double covariance[36];      // row-major 6x6: x y z, rotation; 0 from posed_pose_at
    uint32_t map_epoch;         // +1 when a pose is not connected to the one before it
    int64_t captured_ns;        // CLOCK_MONOTONIC of the daemon; 0 from posed_pose_at
};

// A message of a topic as it came: protobuf, see posed.proto. Valid until the next posed_receive
// or posed_close, whatever else is called meanwhile.
struct posed_message {
    const char *topic;
    const void *bytes;
    size_t n_bytes;
};

struct posed_options {
    const char *where;      // a host or a run directory; NULL: POSED_HOST, else this machine. The
                            // address of one socket (tcp://HOST:PORT, ipc://PATH) other than the
                            // usual ones is that socket alone: for poses, or for requests
    const char *server_key; // CURVE: public key of the daemon, 40 characters; NULL: none
    const char *key_file;   // CURVE: file with this client's secret key; NULL: one is made up.
                            // Needs server_key
    unsigned timeout_ms;    // of requests, and of the first posed_newest; 0 = 3000
    const char *camera;     // of a daemon with several, the one that all is about; NULL: poses and
                            // topics of all of them, the newest pose and requests of the first
};

struct posed; // opaque

// Makes a client; `options` may be NULL. Needs no daemon: one that starts later is found, too.
// -EINVAL (a key, key_file without server_key, or a text that is too long), -ENOMEM; *out is then
// NULL. The strings are copied.
__attribute__((warn_unused_result)) int posed_connect(struct posed **out,
                                                      const struct posed_options *options);

// Ends it; accepts NULL.
void posed_close(struct posed **client);

// The newest pose, without waiting; only the first call waits for one. The same pose comes again
// while there is no newer one (seq tells). -EAGAIN: none came in time. Of a camera that was named
// it is asked for, as by posed_pose_at.
__attribute__((warn_unused_result)) int posed_newest(struct posed *client, struct posed_pose *out);

// Each pose in its order, from the first call on. Waits at most timeout_ms, -1 = for ever. -EAGAIN:
// none came; -EINTR: a signal; -ENODEV: the daemon has no camera of that name, posed_error lists
// those that it has. A program that is slower than the poses finds the oldest 1000 that wait; what
// does not fit is left out (seq tells).
__attribute__((warn_unused_result)) int posed_next(struct posed *client, int timeout_ms,
                                                   struct posed_pose *out);

// The pose at a time of the frames' clock, between two frames interpolated; at the time_ns of a
// pose that came, that pose. -ENOENT: outside of what the daemon keeps; -ENODEV: no such camera;
// -ETIMEDOUT: nobody answers in time, and what had not been sent yet never will be.
__attribute__((warn_unused_result)) int posed_pose_at(struct posed *client, int64_t time_ns,
                                                      struct posed_pose *out);

// Adds a topic to what posed_receive gives: pose, tf, calib, status, timing, event, imu, log,
// object, rig; depth, normals, residual, cloud. Of a daemon with several cameras those of all of
// them, of posed_options.camera, or with a name behind it ("pose/left") of that one. -EINVAL: no
// such topic.
__attribute__((warn_unused_result)) int posed_subscribe(struct posed *client, const char *topic);

// The next message of those topics; waits as posed_next. Of depth, normals, residual and cloud the
// oldest 4 wait for a slow program, of the others 1000.
__attribute__((warn_unused_result)) int posed_receive(struct posed *client, int timeout_ms,
                                                      struct posed_message *out);

// Any request: the bytes of a `Request` of requests.proto, answered with the bytes of a `Reply`,
// valid until the next posed_request or posed_close. One that names no camera is about
// posed_options.camera. 0 also when the daemon refuses (Reply.code). -ETIMEDOUT as posed_pose_at,
// -EPROTO (what answered is no posed).
__attribute__((warn_unused_result)) int posed_request(struct posed *client, const void *request,
                                                      size_t n_bytes, const void **out_reply,
                                                      size_t *out_n_bytes);

// Starts the tracking afresh, at the newest pose (keep_pose) or at the origin. As posed_pose_at.
__attribute__((warn_unused_result)) int posed_reset(struct posed *client, bool keep_pose);

// Why the last function of this client that failed did so, a sentence; one that succeeds leaves it.
// Never NULL, "" before the first failure.
const char *posed_error(const struct posed *client);

#ifdef __cplusplus
}
#endif

#endif
