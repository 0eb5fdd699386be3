// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: how a recording is written in one format. A format is one file that ends in
// one struct literal, listed in recordings.c. The recorder's thread calls it.
#ifndef POSED_CAPTURE_RECORDER_WRITER_H
#define POSED_CAPTURE_RECORDER_WRITER_H

#include "capture/capture.h"
#include "capture/recorder/recorder.h"

#define WRITER_NAME_BYTES 32 // of a camera or a frame, with the final 0

// One of the cameras that are recorded.
struct writer_camera {
    const char *name; // "" where it is the only one
    const struct capture_info *info;
    const struct se3 *T_rig_camera; // NULL = part of no rig
    const char *frame;              // of its images in mcap
    const char *odom_frame;         // in which it moves there
    // Of ROS.
    const struct recorder_frames *ros_frames;
    struct se3 T_base_optical;
    int64_t ahead_ns; // on a rig: its clock, of the first one's
};

struct writer_format {
    const char *name;
    bool holds_several; // cameras; else it is opened for one
    const char *suffix; // of the file, "" = the recording is a folder
    const char *marker; // folders: the file inside by which it is recognised

    // Folders: whether the format writes a file of this name, as it stands below the recording's
    // folder, or, with a slash at its end, makes such a folder. What holds another one is not only
    // a recording of ours, and nobody but its owner deletes it.
    bool (*is_own)(const char *path);

    // Makes <name><suffix> in the folder and all that stands before the first frame. Returns 0, or
    // a negative errno with nothing left behind (-EEXIST: something of that name is there).
    // `cameras` are read during the call only.
    int (*open)(void **out_state, int folder, const char *name, const struct writer_camera *cameras,
                uint32_t n_cameras);

    // Writes one frame of a camera (its place in `cameras`); image.depth NULL stands for a damaged
    // one. Adds what it takes on disk to *bytes, as long as that is not known rather more. Returns
    // 0, or a negative errno; the recording then ends before this frame.
    int (*write)(void *state, uint32_t camera, const struct capture_frame *frame, uint64_t *bytes);

    // Optional: writes what was held back, and corrects *bytes to what the recording takes.
    int (*flush)(void *state, uint64_t *bytes);

    // Optional: a message of recorder_push_message. Of RECORDER_TOPIC_RIG `camera` is no number.
    int (*message)(void *state, uint32_t camera, enum recorder_topic topic, int64_t time_ns,
                   const void *data, size_t n_bytes);

    // Optional: frames that were written but are held back still.
    uint64_t (*held)(const void *state);

    // Completes the recording and frees the state. Returns 0 or a negative errno.
    int (*close)(void *state);
};

extern const struct writer_format writer_fakenect;
extern const struct writer_format writer_klg;
extern const struct writer_format writer_mcap;
extern const struct writer_format writer_ros2mcap;
extern const struct writer_format writer_tum;

// Whether these are the cameras of a rig, of which the first one's frame is the rig's: then there
// may be messages of RECORDER_TOPIC_RIG.
bool writer_has_rig(const struct writer_camera *cameras, uint32_t n_cameras);

// Appends to a file; when that fails, the file is cut back to what it was. -ESTALE: the file has
// been removed, and nobody will find what is written.
__attribute__((warn_unused_result)) int writer_append(int fd, const void *data, size_t n_bytes);

// Whether the file still has a name: 0 or -ESTALE.
__attribute__((warn_unused_result)) int writer_check(int fd);

// Makes a new file with this content in the folder; when that fails, it is removed again.
__attribute__((warn_unused_result)) int writer_make_file(int folder, const char *name,
                                                         const void *data, size_t n_bytes);

// How many bytes of the text are a frame's time as file names have it: seconds, nine decimals. 0
// where it begins with none; other programs' names have six decimals or none.
__attribute__((warn_unused_result)) size_t writer_stamp_bytes(const char *text);

// calibration.txt (or another name) with intrinsics, image size and units of the source.
__attribute__((warn_unused_result)) int writer_make_calibration(int folder, const char *name,
                                                                const struct capture_info *info);

#endif
