// SPDX-License-Identifier: Apache-2.0
// One camera: its source, the device that tracks it, what is known of it, the frames that are kept
// and the loop that goes round. A daemon has one, or several side by side (config/cameras.h), each
// with a thread of its own; publisher, requests and pages are shared by all.
#ifndef POSED_DAEMON_CAMERA_H
#define POSED_DAEMON_CAMERA_H

#include <pthread.h>

#include "daemon/config/cameras.h"
#include "daemon/frame_loop.h"
#include "daemon/frames.h"
#include "daemon/log.h"

struct camera {
    const char *name;     // "" = the only one, without a name
    struct config config; // the shared settings, with its own instead where it has some
    struct log_sink all;  // the daemon's log
    struct log_sink sink; // the same; lines of one of several begin with its name
    struct capture *capture;
    struct backend *backend;
    struct shared *shared;
    struct frames *frames;
    struct yield_frames yield_frames;
    struct trajectory_file *trajectory; // NULL = none
    // The daemon's.
    struct publish_channel *publish;
    struct recorder *recorder; // NULL = none
    struct ros *ros;           // NULL = none
    struct rig_pose *rig;      // NULL = none
    struct se3 T_base_optical; // for ROS: of its own base_link

    uint32_t index;
    struct camera_all *running; // of camera_run_all
    pthread_t thread;
    enum loop_end end;
    bool failed;      // the map could not be written
    bool is_finished; // its keyframes are as they finally lie (backend_finish)
};

enum camera_error {
    CAMERA_OK,
    CAMERA_STOPPED, // by a signal, while its source was waited for
    CAMERA_NO_SOURCE,
    CAMERA_OTHER_FIELD, // camera.field is another camera's
    CAMERA_NO_ROOM,     // for map.memory_bytes
    CAMERA_NO_BACKEND,
    CAMERA_NO_MEMORY,
};

// Opens source, device and what is known of camera `index` of the configuration, which must outlive
// it. The reason of a failure is in the log; camera_close is to be called all the same.
__attribute__((warn_unused_result)) enum camera_error camera_open(struct camera *camera,
                                                                  const struct config *config,
                                                                  uint32_t index, uint64_t session,
                                                                  const struct log_sink *log);

// Opens the trajectory file, after everything that may refuse a second daemon started by mistake.
// Returns 0 or negative errno with the reason in the log.
__attribute__((warn_unused_result)) int camera_open_trajectory(struct camera *camera);

// The frames that are kept go before the source they are of.
void camera_close_frames(struct camera *camera);
// Returns 0, or -EIO when the trajectory could not be written.
int camera_close_trajectory(struct camera *camera);
void camera_close(struct camera *camera);

// A recording that is played as fast as it goes: nothing is dropped.
bool camera_is_unpaced(const struct camera *camera);

struct camera_run {
    bool (*stop)(void *user); // any thread
    void (*poll)(void *user); // the caller's thread, at least every 100 ms
    void *user;
    struct log *terminal; // where a line of progress is shown; NULL = nowhere
};

// The loop of the only camera, on this thread, and the map at its end.
void camera_run(struct camera *camera, const struct camera_run *run);

// The loops of several, until each has ended or `stop` says so; this thread looks after settings
// and the service manager meanwhile. A camera that ends, whatever the reason, leaves the others
// going: it is NO_INPUT from then on. Returns 0 or negative errno, with the reason in the log and
// nothing running.
__attribute__((warn_unused_result)) int camera_run_all(struct camera *cameras, uint32_t n_cameras,
                                                       const struct camera_run *run);

#endif
