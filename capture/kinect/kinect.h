// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: one session with one Kinect through libfreenect 0.5.3, from freenect_init
// to freenect_shutdown, in a thread of its own. libfreenect has no hot-plug: an unplugged camera
// makes its event call fail or fall silent, and a stop may hang for ever. So a session ends by
// itself, or is given up: its thread and memory are left behind then, as nothing can take them
// back, but it tells nothing any more.
#ifndef POSED_CAPTURE_KINECT_KINECT_H
#define POSED_CAPTURE_KINECT_KINECT_H

#include "proto/log.h"
#include "proto/types.h"

#define KINECT_WIDTH_PX  640u
#define KINECT_HEIGHT_PX 480u

// A call of libfreenect that takes longer is taken for hanging, as is a session that was told to
// stop.
#define KINECT_CALL_LIMIT_NS INT64_C(3000000000)

// What a session tells, from its thread, each call before the next.
struct kinect_listener {
    // Once, before anything else but `parameters`: NULL, or why the camera could not be opened.
    void (*opened)(void *user, const char *failed);
    // Before the first frame: the device's own const_shift, pixel size [mm], reference plane [cm]
    // and emitter [cm]; all 0 when it does not tell.
    void (*parameters)(void *user, const double zero_plane[4]);
    // 640x480 raw values, perhaps at an odd address, valid during the call; ticks of 60 MHz;
    // packets missing from this frame.
    void (*frame)(void *user, const void *raw, uint32_t ticks, uint32_t n_lost_packets);
    // In the optical frame; NaN when there is no accelerometer. 7 times a second.
    void (*gravity)(void *user, const float gravity_m_s2[3]);
    void (*ended)(void *user); // last of all
    void *user;
    struct log_sink log;
};

struct kinect_session; // opaque

// `which`: a number (0 is the first camera), or a serial number of 3 to 63 characters. The listener
// is copied. Returns 0, -ENOMEM or -EAGAIN.
__attribute__((warn_unused_result)) int
kinect_session_start(struct kinect_session **out, const char *which,
                     const struct kinect_listener *listener);

// Tells it to end; returns at once, `ended` says when.
void kinect_session_stop(struct kinect_session *session);

enum kinect_session_state {
    KINECT_SESSION_RUNS,
    KINECT_SESSION_ENDED,
    KINECT_SESSION_HANGS, // in a call of libfreenect
};

enum kinect_session_state kinect_session_state(struct kinect_session *session);

// Lets go of it; from here on it tells nothing, whether it has ended or not.
void kinect_session_release(struct kinect_session **session);

#endif
