// SPDX-License-Identifier: Apache-2.0
// Where depth frames come from. One contract for a camera, a recording and the synthetic scene: a
// driver is four functions and ends in one struct literal (see capture.c for the table).
//
// Life: capture_open -> capture_read (again and again) -> capture_close. One thread calls them;
// drivers may run threads of their own behind it. Pixels are handed out, not copied: the frame of
// one capture_read stays valid until the next capture_read or capture_close, or longer for who
// keeps it (capture_keep).
//
// capture.c does once for all recordings what users expect of a replay: decoding ahead on its own
// thread, pacing by the recorded time stamps, start, duration, step, loop, and the sanity checks.
#ifndef POSED_CAPTURE_CAPTURE_H
#define POSED_CAPTURE_CAPTURE_H

#include "proto/log.h"
#include "proto/types.h"

#define CAPTURE_RATE_MAX  0.0 // as fast as possible: nothing is ever late
#define CAPTURE_RATE_REAL 1.0
#define CAPTURE_MAX_KEPT  1600

// Least and most of settings; those of the camera are in proto/types.h.
#define CAPTURE_RATE_RANGE   0.001, 1000
#define CAPTURE_PART_S_RANGE 0, 1e9 // start_s and duration_s

#define CAPTURE_MAX_WAITING 3 // a tenth of a second at 30 Hz, and what every source has room for

// Of a synthetic scene's noise, and of its camera, in every program where nobody says another: what
// one learns of that camera holds in the next.
#define CAPTURE_SEED 1

struct capture_settings {
    // "driver:location", e.g. "tum:/data/fr1_xyz", "synth:room"; or the path of a recording, whose
    // format is then recognised
    const char *source;

    // Name of the camera: of a recording of several, which one is meant; NULL = not said
    const char *camera;

    // Replay; ignored by live drivers.
    double rate;       // 1 = real time, N = N times real time, CAPTURE_RATE_MAX
    bool loop;         // start again at the end; time stamps go on growing
    double start_s;    // skip this much of the recording
    double duration_s; // then stop after this much; 0 = to the end
    uint32_t step;     // every step-th frame; 0 and 1 = all

    // Overrides of what the recording says of itself (sidecar calibration.txt, format default);
    // 0 = not given. fy alone may be negative.
    double fx_px, fy_px, cx_px, cy_px;
    double depth_scale;     // units per metre, 0 = not given
    double float_scale;     // the same of images of floats (ROS), 0 = as they show
    bool allow_implausible; // open in spite of a failed sanity check (it warns instead)

    // Source ros2: DDS domain, 0..232, and network interface; NULL and "" = the library's choice
    uint32_t ros_domain;
    const char *ros_domain_origin; // who set it, for messages; NULL = nobody: that of ROS_DOMAIN_ID
                                   // of the environment, where that is set
    const char *ros_interface;

    uint32_t n_kept;   // frames that capture_keep may keep, 0..CAPTURE_MAX_KEPT; memory for them
                       // is taken when the source is opened
    uint64_t seed;     // synth only
    uint32_t n_frames; // end after so many from the start on (of each round with `loop`), for which
                       // a scene of synth goes on as long as it takes. 0 = all

    // Asked while a camera is waited for: does the caller not want it any more? NULL = never
    bool (*is_stopped)(void);

    struct log_sink log;
};

// What the source itself says of its camera: the values before overrides.
struct capture_told {
    struct intrinsics camera;
    double units_per_m;
    // What in it says so, a file or a topic; "" = nothing does, the values are a default.
    char camera_by[96], units_by[96];
    bool units_are_usual; // those of the format, which some write with another unit
};

struct capture_info {
    char driver[16];
    char description[256];    // one line for the log, names the location
    char serial[64];          // of the camera that made the frames, "" = not known
    struct intrinsics camera; // after overrides
    double units_per_m;       // after overrides
    double float_per_m;       // of images that are floats in their source, there; 0: they are none
    struct capture_told told;
    bool units_are_doubted; // recordings: the depths contradict units_per_m; the log says by what
    bool live;              // a camera: no end of its own, no pacing
    uint64_t n_frames;      // frames that a full replay delivers, 0 = unknown
    int64_t period_ns;      // median frame period, 0 = unknown
    // Kinect, of the device itself: const_shift, pixel size [mm], reference plane [cm], emitter
    // [cm] (see capture/kinect/disparity.h); 0 when the source does not tell
    double zero_plane[4];
};

enum capture_flag {
    CAPTURE_LATE = 1,      // camera, paced replay: newer frames are there already, more than may
                           // wait (capture_set_max_waiting), so this one cannot be processed in
                           // time. It was passed over: depth is NULL
    CAPTURE_DAMAGED = 2,   // unreadable or incomplete; depth is NULL, or usable when
                           // n_lost_packets > 0. The reason went to the log
    CAPTURE_DUPLICATE = 4, // pixel for pixel the newest image handed out before it
    CAPTURE_LOOPED = 8,    // first frame of a new round of --loop
    // Live: from this frame on capture_info tells of another camera: one that was plugged in later,
    // or in place of the first. Only camera, units_per_m and zero_plane change, never the size.
    CAPTURE_RECALIBRATED = 16,
    // Live: the times from this frame on are of another clock, one that is behind the one before
    // it. The machine's own clock that was set is none: clock_set_ns
    CAPTURE_NEW_CLOCK = 32,
    CAPTURE_EARLY = 64, // camera, with CAPTURE_LATE: it came before the first capture_read
};

struct capture_frame {
    struct depth_frame image; // image.depth valid until the next capture_read; NULL: see flags
    struct buffers *buffers;  // where the pixels are, for capture_keep
    uint64_t index;           // the recording's own frame number (7-Scenes: of the file name)
    unsigned flags;           // enum capture_flag
    int64_t clock_set_ns;     // live: how far the machine's clock was set since the process's first
                              // source was opened, which image.time_ns follows: no time that passed
    int64_t capture_mono_ns;  // CLOCK_MONOTONIC when the frame was there (paced: when it was due)
    uint64_t device_ticks;    // live: unwrapped device clock, else 0
    uint32_t n_lost_packets;  // live
    bool paced;               // the next one comes in its own time: a camera, a paced recording
    uint32_t n_waiting;       // newer ones that are there (paced: due) already; at most
                              // CAPTURE_MAX_WAITING + 1, 0 when not paced
    // Of sources with an accelerometer, in the optical frame, (0, 9.8, 0) in a level camera at
    // rest; the opposite of the motion's acceleration is in it. NaN = none
    float gravity_m_s2[3];
};

// Of two frames of a source, or of two sources that follow the machine's clock, the difference is
// the time that passed between them, also where that was set meanwhile.
static inline int64_t capture_even_ns(const struct capture_frame *frame)
{
    return frame->image.time_ns - frame->clock_set_ns;
}

struct capture; // opaque

// What capture_open would refuse whatever the source holds: a setting out of its range, intrinsics
// that no image could have (allow_implausible takes these). Returns 0, or -EINVAL or -ERANGE with
// the reason in the settings' log.
__attribute__((warn_unused_result)) int
capture_settings_check(const struct capture_settings *settings);

// Whether there is a driver of the name in "driver:location", and a location where it needs one;
// nothing is opened, and a path without a driver's name is not looked at. Returns 0, -EINVAL or
// -ENOTSUP (not built in), with the reason in the log.
__attribute__((warn_unused_result)) int capture_source_check(const char *source,
                                                             const struct log_sink *log);

// Opens a source, reads its index and calibration, checks one frame for plausibility and starts
// the reader thread. `settings` and its strings are only read during the call, the log sink is
// copied. On failure *out is NULL, the reason (file, line or field) went to the log, and the
// return value is
//   -EINVAL     unknown driver, no place, bad setting, or a malformed index or calibration
//   -ENOENT     location missing, or a recording without frames
//   -ERANGE     implausible: median depth outside 0.2..12 m, principal point outside the image,
//               image size unlike the calibration's (see allow_implausible)
//   -ENOTSUP    driver not built in
//   -EINTR      settings->is_stopped, while a camera was waited for; nothing went to the log
//   -EIO, -ENOMEM, other negative errno.
__attribute__((warn_unused_result)) int capture_open(struct capture **out,
                                                     const struct capture_settings *settings);

// Blocks until the next frame is due (paced), decoded (as fast as possible) or captured (live), at
// most timeout_ms (-1 = without limit). Returns
//   0           *out_frame is filled
//   -EAGAIN     nothing within timeout_ms; *out_frame untouched. Live: the camera is silent or gone
//               (the driver goes on trying by itself)
//   -ENODATA    end of the recording, or n_frames of a camera
//   -EINTR      capture_interrupt was called
//   other       negative errno: the source is broken for good, close it.
__attribute__((warn_unused_result)) int capture_read(struct capture *capture, int timeout_ms,
                                                     struct capture_frame *out_frame);

// Live: images that came so far and of which no capture_read tells, as their times cannot be. 0 of
// sources that leave none out.
uint64_t capture_n_left_out(const struct capture *capture);

// Keeps the pixels of the frame that was read last as they are, beyond the next capture_read, until
// capture_release: nothing is copied. Returns false when capture_settings.n_kept frames are kept
// already, or the frame is of no capture_read. The thread that reads.
__attribute__((warn_unused_result)) bool capture_keep(const struct capture_frame *frame);

// Ends what one capture_keep began. Any thread, before capture_close.
void capture_release(const struct capture_frame *frame);

// So many newer frames, 0 (at open) .. CAPTURE_MAX_WAITING, may wait before one is late: for who
// works off what has gathered instead of losing it. For the thread that reads.
void capture_set_max_waiting(struct capture *capture, uint32_t n_frames);

// A recording under way, like a tape: paused, stepped, at another speed, wound. Called by the
// thread that reads; the next capture_read obeys.
//
// While it is paused, capture_read returns -EAGAIN, also behind the last frame (so that one can
// wind back). Winding back begins a new round: time stamps go on growing, as with `loop`.
enum capture_control {
    CAPTURE_QUERY, // changes nothing
    CAPTURE_PAUSE,
    CAPTURE_RESUME, // the next frame is due now
    CAPTURE_STEP,   // pauses after `value` more frames, 1..1e6, which come as fast as possible
    CAPTURE_RATE,   // `value` as capture_settings.rate; the next frame is due now
    CAPTURE_SEEK,   // the next frame is the first at or after `value`, as position_s
};

struct capture_playback {
    bool paused;
    double rate;
    double position_s; // of the next frame, since the first that is played (after start_s)
    double duration_s; // position of the last one
    double ahead_s;    // of the next frame's stamp before the recording's: a length of it for each
                       // round, and for each time that it was wound back
};

// `value` is ignored where it has no meaning; *out is the state afterwards. Returns 0, -ERANGE (the
// value; nothing is changed) or -ENOTSUP (live).
__attribute__((warn_unused_result)) int capture_control(struct capture *capture,
                                                        enum capture_control control, double value,
                                                        struct capture_playback *out);

// Makes a blocked and all later capture_read return -EINTR. Async-signal-safe, any thread.
void capture_interrupt(struct capture *capture);

// Changes only within a capture_read that returns CAPTURE_RECALIBRATED: for the thread that reads.
const struct capture_info *capture_info(const struct capture *capture);

// Warns of settings that contradict what the source says of its camera (overrides.h). The reader's
// thread.
void capture_tell_overrides(const struct capture *capture, const struct log_sink *log);

// Whether both have the same intrinsics, units and zero plane.
bool capture_info_is_same_camera(const struct capture_info *a, const struct capture_info *b);

// The memory of all frames, for a device that reads them itself and wants it page-locked: one block
// of whole pages, at one place from open to close, of which nothing else is part. Whoever locks it
// must unlock it before capture_close. Pixels of several frames lie in it; those of the newest
// frame are the reader's, the rest is being written. Any thread.
void *capture_memory(const struct capture *capture, size_t *out_bytes);

// What a device that reads the frames itself wants of its source.
struct capture_hooks {
    // Called for each frame on the thread that writes it, when it is complete and before a
    // capture_read returns it, to push it out of the processor's caches. A function without state:
    // one call may still be under way when the hooks are changed. NULL = none.
    void (*written)(const void *pixels, size_t bytes);
    // Called within capture_read, once for a frame that is complete but for `written`, or waits and
    // is due in CAPTURE_WAKE_NS; not when all that is over before the reader looks. With it the
    // read polls instead of sleeping as soon as the frame is begun, or due in CAPTURE_SOON_NS:
    // whoever slept until the frame is there starts late, and with cold caches (15 us of an H200's
    // 86). NULL = none.
    void (*soon)(void *user);
    void *user;
};
#define CAPTURE_SOON_NS 300000
#define CAPTURE_WAKE_NS 60000

// From now on these are called; NULL (at open): none, and nothing is paid. Frames that wait already
// are not told of. For the thread that reads.
void capture_set_hooks(struct capture *capture, const struct capture_hooks *hooks);

// Ground truth that the recording carries (synth: exact). Returns the number of poses written to a
// newly allocated array that the caller frees, 0 with *out NULL when there is none, or -errno.
__attribute__((warn_unused_result)) long capture_ground_truth(const struct capture *capture,
                                                              struct stamped_pose **out);

void capture_close(struct capture **capture);

// The libraries that a build may leave out, and what it lacks then; ends with name NULL.
struct capture_library {
    const char *name;
    bool built_in;
    const char *without;
    const char *option; // of CMake, which asks for it; NULL: taken where it is found
};
const struct capture_library *capture_libraries(void);

// Names and one-line descriptions of the drivers, for --help; ends with name NULL.
struct capture_driver_name {
    const char *name, *summary;
};
const struct capture_driver_name *capture_drivers(void);

// Looks which cameras a live driver finds on this machine, without starting one. Tells `log` of
// each: LOG_LEVEL_INFO how it is named as a source, LOG_LEVEL_ERROR why it cannot be opened.
// Returns how many can be; -ENOTSUP where this program lacks the driver, or the driver cannot look.
// Any thread.
int capture_look(const char *driver, const struct log_sink *log);

#endif
