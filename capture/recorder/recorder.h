// SPDX-License-Identifier: Apache-2.0
// Records depth frames of one camera, or of several into one file, while they are tracked. The
// frame loop of each camera hands each frame to recorder_push, which keeps it (capture_keep:
// nothing is copied) in a bounded queue and returns; a thread of the recorder encodes and writes.
// When the disk is slower than the camera, frames are dropped and counted (what can wait is read
// when there is room: recorder_has_room); when it is full, the recording ends with an event; the
// tracking is never held up.
//
// What is recorded replays to the same depth values, time stamps and calibration. (Formats with
// units of their own keep the source's values; the units stand in the sidecar calibration.txt.
// fakenect holds 11-bit disparity: depths of a Kinect come back exactly, others are rounded to its
// steps; ros2mcap has 0 where the source has DEPTH_INVALID_MAX, which is no measurement, either.) A
// recording is usable at any moment: a killed daemon loses what was still in the queue.
#ifndef POSED_CAPTURE_RECORDER_RECORDER_H
#define POSED_CAPTURE_RECORDER_RECORDER_H

#include "capture/capture.h"
#include "proto/se3.h"

#define RECORDER_NAME_BYTES  65 // with the final 0
#define RECORDER_MAX_CAMERAS 16

enum recorder_format {
    RECORDER_FORMAT_TUM,      // folder <name>/ with depth.txt and 16-bit PNG
    RECORDER_FORMAT_KLG,      // file <name>.klg
    RECORDER_FORMAT_FAKENECT, // folder <name>/ with INDEX.txt and PGM
    RECORDER_FORMAT_MCAP,     // file <name>.mcap with depth, calibration, pose and tf
    RECORDER_FORMAT_ROS2MCAP, // file <name>.ros2.mcap: the same in messages of ROS 2
    RECORDER_N_FORMATS,
};

enum recorder_event {
    RECORDER_EVENT_STARTED,
    RECORDER_EVENT_STOPPED, // as asked for; all frames are on disk
    RECORDER_EVENT_LIMIT,   // stopped by max_bytes or max_duration_s
    RECORDER_EVENT_FAILED,  // stopped by an error, e.g. a full disk; what was written is usable,
                            // and where that is no frame nothing is left
};

// Messages that a recording may carry beside the frames.
enum recorder_topic {
    RECORDER_TOPIC_POSE, // posed.Odometry, whose first fields are foxglove.Odometry's
    RECORDER_TOPIC_RIG,  // posed.Odometry of the rig, of RECORDER_RIG
};

// The number by which the rig's messages are pushed; they are held where the first camera of the
// recording, whose place is the identity, and another one have a T_rig_camera.
#define RECORDER_RIG RECORDER_MAX_CAMERAS

#define RECORDER_MAX_MESSAGE_BYTES 2048

// Frames of ros2mcap, with the camera's name in front where there are several. map "": none is
// told.
struct recorder_frames {
    const char *map, *odom, *base, *optical;
};

struct recorder_settings {
    const char *folder; // where recordings go; looked for whenever one starts, and created (one
        // level) when missing
    uint32_t queue_frames; // of a camera; 0 = 30, one second; range 2..CAPTURE_MAX_KEPT; the source
        // must let as many be kept (capture_settings.n_kept), else frames are dropped

    // Limits of one recording; 0 = none. It is stopped before it exceeds them.
    uint64_t max_bytes;
    double max_duration_s; // by the frames' time stamps

    // Limits of the folder, applied whenever a recording starts: the oldest recordings are deleted,
    // but no folder with anything in it that the recorder does not write, which does not count,
    // either. 0 = never delete.
    uint64_t keep_bytes;
    double keep_age_s;

    const struct recorder_frames *ros_frames; // copied, at most 31 characters of each; NULL: map,
                                              // odom, base_link, camera_depth_optical_frame

    // Called from the recorder's thread or from within recorder_start. `detail` is one line for
    // people, valid during the call.
    void (*event)(void *user, enum recorder_event event, const char *name, const char *detail);
    void *event_user;
    struct log_sink log;
};

struct recorder_status {
    bool active;      // frames are taken
    uint32_t cameras; // bit i: of camera number i
    bool busy;        // not active any more, but still writing: the files are not closed yet
    bool failed;      // it ended with RECORDER_EVENT_FAILED, for the reason that `ended` has
    char ended[320];  // how it ended, for people; "" until it has
    int64_t ended_unix_ns;
    char name[RECORDER_NAME_BYTES];
    enum recorder_format format;
    uint64_t n_frames;  // on disk
    uint64_t n_dropped; // did not fit into the queue
    uint64_t n_bytes;
    int64_t first_time_ns, last_time_ns; // of the frames on disk
};

// One recording in the folder.
struct recorder_entry {
    char name[RECORDER_NAME_BYTES];
    enum recorder_format format;
    uint64_t n_bytes;
    int64_t modified_unix_ns;
};

struct recorder; // opaque

// Settings and strings are copied. A folder that cannot be made or written to yet is a warning.
// Returns 0, -EINVAL (a value out of range), -ENOTDIR (a file is in the folder's place) or -ENOMEM;
// the reason is in the log and *out NULL.
__attribute__((warn_unused_result)) int recorder_create(struct recorder **out,
                                                        const struct recorder_settings *settings);

// Finishes a running recording and waits for it (at most a queue's length of writing).
void recorder_destroy(struct recorder **recorder);

// tum | klg | fakenect | mcap | ros2mcap. Returns the format, or -EINVAL.
int recorder_format_from_name(const char *name);
const char *recorder_format_name(enum recorder_format format);

// true for 1..64 characters of A-Z a-z 0-9 . _ - that do not begin with a point or a dash or end in
// a suffix of the formats: the only names that may come from a client.
bool recorder_name_is_plain(const char *name);

// A camera whose frames are recorded.
struct recorder_camera {
    uint32_t number;  // by which its frames are pushed, 0..RECORDER_MAX_CAMERAS - 1
    const char *name; // stands in the topics of its messages, of ROS as capture/ros/topic_name.h
                      // says; "" where it is the only one
    const struct capture_info *info;
    const struct se3 *T_rig_camera;   // where it sits on the rig; NULL = it is part of none
    const char *frame;                // of its images in mcap, as in the messages; NULL = "camera"
    const char *odom_frame;           // in which it moves there; NULL = "odom"
    const struct se3 *T_base_optical; // of its own base in ros2mcap; NULL = in its middle, forward
    int64_t ahead_ns;                 // on a rig: its clock, of the first one's
};

// Whether a recording of this format can hold several cameras.
bool recorder_format_holds_several(enum recorder_format format);

// Begins a recording of the frames of these sources (camera numbers differ), which stay open until
// it has ended; what is pushed of others is left out. Cameras and strings are copied. Returns 0,
// -EINVAL (name, image size, several cameras in a format for one, names that are one in topics of
// ROS 2), -EBUSY (one is active or still
// being written), -EEXIST, -ENOSPC, -ENOMEM or another negative errno; the reason is in the log.
__attribute__((warn_unused_result)) int recorder_start(struct recorder *recorder, const char *name,
                                                       enum recorder_format format,
                                                       const struct recorder_camera *cameras,
                                                       uint32_t n_cameras);

// The same, but a name that is taken is numbered: `name`-2, `name`-3 and so on is what
// recorder_status has (of a long name the end is cut to make room). -EEXIST: up to `name`-9999 all
// are taken.
__attribute__((warn_unused_result)) int
recorder_start_numbered(struct recorder *recorder, const char *name, enum recorder_format format,
                        const struct recorder_camera *cameras, uint32_t n_cameras);

// recorder_start of camera 0, which has no name.
__attribute__((warn_unused_result)) int recorder_start_one(struct recorder *recorder,
                                                           const char *name,
                                                           enum recorder_format format,
                                                           const struct capture_info *info);

// Ends the recording; returns at once, the event STOPPED comes when all is written. Returns 0, or
// -ENOENT when none is active.
__attribute__((warn_unused_result)) int recorder_stop(struct recorder *recorder);

// The camera has ended: a recording of it alone ends, one of several when all have.
void recorder_end_camera(struct recorder *recorder, uint32_t camera);

// The frames to come are of another device (CAPTURE_RECALIBRATED). A recording that holds none yet
// is begun anew, with its calibration; any other one ends, as a recording has one calibration of a
// camera. The same device again changes nothing. Returns at once. Any thread.
void recorder_recalibrate(struct recorder *recorder, uint32_t camera,
                          const struct capture_info *info);

// Keeps the frame that was read last until it is written, if a recording of this camera is active.
// Frames without pixels are left out, but a damaged one leaves its mark in a TUM recording (the
// replay has a damaged frame there, too). Never blocks on the disk. The thread that reads.
void recorder_push(struct recorder *recorder, uint32_t camera, const struct capture_frame *frame);

// Whether the camera's next frame and its messages have room in the queue, or are not recorded at
// all: who asks before each frame loses none. The thread that pushes them.
bool recorder_has_room(struct recorder *recorder, uint32_t camera);

// Takes a copy of an encoded message for an MCAP recording; other formats leave it out, as is one
// above RECORDER_MAX_MESSAGE_BYTES. As quick as recorder_push, and to be called by the same thread;
// those of RECORDER_RIG by one thread at a time, which pushes frames of a camera.
void recorder_push_message(struct recorder *recorder, uint32_t camera, enum recorder_topic topic,
                           int64_t time_ns, const void *message, size_t n_bytes);

// true while a recording of this camera is active whose format holds messages: else they need not
// be encoded.
bool recorder_wants_messages(struct recorder *recorder, uint32_t camera);

// Any thread.
void recorder_status(struct recorder *recorder, struct recorder_status *out);

// The recordings in the folder, oldest first; also those that the recorder did not make, if they
// look like one. Reads the folder: not for the frame loop. Returns their number with *out to free,
// 0 with *out NULL, or a negative errno. Any thread.
__attribute__((warn_unused_result)) long recorder_list(struct recorder *recorder,
                                                       struct recorder_entry **out);

#endif
