// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: what a driver is. A driver is one file that ends in one
// `const struct capture_driver capture_driver_<name>` literal, listed in capture.c.
//
// There are two kinds. A recording knows its frames beforehand: it answers `stamp` and `decode` for
// any frame number, and capture.c does the rest (decode-ahead thread, pacing, start, duration,
// step, loop, plausibility). A live source answers `wait` and runs threads of its own.
// Members of the other kind are NULL.
#ifndef POSED_CAPTURE_DRIVER_H
#define POSED_CAPTURE_DRIVER_H

#include "capture/buffers.h"
#include "capture/capture.h"

// Sides above this are refused: no depth camera has them, and a hostile header cannot make us
// allocate gigabytes.
#define CAPTURE_MAX_SIDE_PX 4096u

struct capture_driver {
    const char *name, *summary;

    // Opens `location` (what follows "name:" in the source, "" when nothing does). `settings` and
    // its strings are only valid during the call; copy settings->log by value. Fills in out_info:
    //   camera        image size (both sides 1..CAPTURE_MAX_SIDE_PX) and intrinsics of the source
    //                 itself; the overrides of the settings are applied by capture.c afterwards
    //   units_per_m   likewise
    //   told          camera_by, units_by, units_are_usual
    //   n_frames      recordings: frames in the recording, > 0
    //   live          true for the second kind
    //   description   optional; capture.c writes "<name>:<location>" when left empty
    // driver and period_ns are filled in by capture.c. Returns 0, or a negative errno of
    // capture_open after logging the reason; then nothing is kept and *out_state is untouched.
    int (*open)(void **out_state, const char *location, const struct capture_settings *settings,
                struct capture_info *out_info);

    // Recording: time and own number of frame i, 0 <= i < n_frames. Times are 0..9e18 and strictly
    // increasing. Pure; called from several threads at once.
    void (*stamp)(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index);

    // Recording: writes the width x height values of frame i to `pixels`. May also set
    // frame->gravity_m_s2, n_lost_packets and device_ticks; everything else in *frame belongs to
    // capture.c. One thread at a time, any order of i. Returns
    //   0          good
    //   -EBADMSG   this frame is damaged, the reason went to the log (`pixels` is then undefined)
    //   other      negative errno: the recording is broken for good
    int (*decode)(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame);

    // Live: capture_read's contract, with pixels owned by the driver.
    int (*wait)(void *state, int timeout_ms, struct capture_frame *out_frame);
    // Live, optional (NULL: never changes): fills in camera, units_per_m and zero_plane as `open`
    // does, as they are since the last frame with CAPTURE_RECALIBRATED. The reader's thread.
    void (*recalibrate)(void *state, struct capture_info *out_info);
    // Live: the memory that its frames are in, the same from open to close. The driver calls
    // buffers_written for each frame that is complete.
    struct buffers *(*buffers)(void *state);
    // Live, optional (NULL: none): capture_n_left_out's contract. The reader's thread.
    uint64_t (*n_left_out)(const void *state);
    // Live: makes `wait` return -EINTR, now and ever after. Async-signal-safe.
    void (*interrupt)(void *state);

    // Live, optional (NULL: cannot look): capture_look's contract.
    int (*look)(const struct log_sink *log);

    // Optional (NULL: none), capture_ground_truth's contract. Times are those of `stamp`'s clock.
    long (*ground_truth)(const void *state, struct stamped_pose **out);

    void (*close)(void *state);
};

// All intrinsics are given: what the source says of itself does not count.
static inline bool capture_gives_camera(const struct capture_settings *settings)
{
    return settings->fx_px != 0 && settings->fy_px != 0 && settings->cx_px != 0 &&
           settings->cy_px != 0;
}

extern const struct capture_driver capture_driver_fakenect;
extern const struct capture_driver capture_driver_kinect; // with POSED_HAVE_KINECT
extern const struct capture_driver capture_driver_klg;
extern const struct capture_driver capture_driver_mcap;
extern const struct capture_driver capture_driver_openni2; // with POSED_HAVE_OPENNI2
extern const struct capture_driver capture_driver_png;
extern const struct capture_driver capture_driver_rawpgm;
extern const struct capture_driver capture_driver_ros1bag;
extern const struct capture_driver capture_driver_ros2;    // with POSED_HAVE_ROS2
extern const struct capture_driver capture_driver_ros2db3; // with POSED_HAVE_SQLITE
extern const struct capture_driver capture_driver_sevenscenes;
extern const struct capture_driver capture_driver_synth;
extern const struct capture_driver capture_driver_tum;
extern const struct capture_driver capture_driver_v4l2; // with POSED_HAVE_V4L2

#endif
