// SPDX-License-Identifier: Apache-2.0
// The frame loop: capture_read -> track -> encode -> publish, one thread, one frame in flight. A
// frame that comes too late is not tracked but still answered; between the capture call and the
// message sent there is nothing but tracking. Images, statistics, the trajectory file, heartbeat
// and commands come after the message.
#ifndef POSED_DAEMON_FRAME_LOOP_H
#define POSED_DAEMON_FRAME_LOOP_H

#include "capture/capture.h"
#include "capture/recorder/recorder.h"
#include "daemon/frames.h"
#include "daemon/log.h"
#include "daemon/publish.h"
#include "daemon/rig_pose.h"
#include "daemon/ros/ros.h"
#include "daemon/shared_state.h"
#include "daemon/tracking_backend.h"
#include "daemon/trajectory_file.h"
#include "gpu/base/yield.h"

struct loop_settings {
    struct capture *capture;
    struct backend *backend;
    struct shared *shared;
    struct publish_channel *publish;
    struct recorder *recorder; // NULL = none
    uint32_t camera;           // by which its frames are recorded, and known to the rig
    struct ros *ros;           // NULL = none
    struct frames *frames;
    struct yield_frames *yield_frames;
    struct trajectory_file *trajectory; // NULL = none
    double wait_subscriber_s;
    bool adapt;           // less work on each frame before one is dropped (daemon/adapt_effort.h)
    struct rig_pose *rig; // NULL = none
    // Asked every round (at most 100 ms apart). `stop`: end now. `poll`: called when it is time to
    // read the configuration again; NULL where others see to that, and to the service manager.
    bool (*stop)(void *user);
    void (*poll)(void *user);
    void *user;
    struct log_sink log;
    struct log *terminal; // where a line of progress is shown; NULL = nowhere
};

enum loop_end {
    LOOP_END_OF_RECORDING,
    LOOP_STOPPED,
    LOOP_SOURCE_FAILED,
    LOOP_BACKEND_FAILED,
    LOOP_NO_MEMORY,
};

// Runs until the end of the recording, a stop or a failure; logs a summary, with the error against
// the known trajectory where the source has one.
enum loop_end loop_run(const struct loop_settings *settings);

#endif
