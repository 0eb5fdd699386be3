// SPDX-License-Identifier: Apache-2.0
// The keyframes of a tracker, adjusted together beside it (pose_graph.h): poses in odom stay as
// they are and continuous, and T_map_odom says where odom lies in the map that the keyframes agree
// on.
//
// A thread of its own measures and adjusts. What it finds enters KEYFRAME_WINDOW_FRAMES frames
// after the keyframe, whenever it was ready: a recording gives the same bytes each time. Where it
// is not ready by then, keyframe_window_follow waits, after the frame's pose has left.
//
// On request all keyframes are adjusted at once (optimise.h) by another thread, at the lowest
// priority: it works on a copy, and keyframes go on coming meanwhile. What it finds enters between
// two frames, whenever it is ready, as any result does.
//
// Only frames that are TRACKING become keyframes. A new map epoch starts with an empty window and
// T_map_odom = identity.
//
// Threads: the tracker's calls; memory is bounded by graph_settings, and 10 MB of between_frames.h,
// twice while optimising.
#ifndef POSED_GPU_MODEL_KEYFRAME_WINDOW_H
#define POSED_GPU_MODEL_KEYFRAME_WINDOW_H

#include "gpu/base/yield.h"
#include "gpu/model/deformation_field.h"
#include "gpu/model/optimise.h"
#include "gpu/model/pose_graph.h"
#include "gpu/track/track.h"

#define KEYFRAME_WINDOW_FRAMES 4

struct keyframe_window; // opaque

// For frames of `camera`. `yield` (copied; NULL: nobody) is asked between the pieces of
// keyframe_window_optimise. Returns 0, -EINVAL (a setting out of range, in the log), -ENOMEM or
// -EAGAIN (no thread).
__attribute__((warn_unused_result)) int
keyframe_window_create(struct keyframe_window **out, const struct intrinsics *camera,
                       const struct graph_settings *settings, const struct yield *yield,
                       const struct log_sink *log);
void keyframe_window_destroy(struct keyframe_window **window);

// The map epoch that frames from now on belong to: another one than before empties the window.
void keyframe_window_enter(struct keyframe_window *window, uint32_t epoch);

// Whether keyframe_window_follow would not wait for the other thread, at the latest at until_ns
// (CLOCK_MONOTONIC; INT64_MAX: at any time, and true). Frames that it is not called for do not
// count.
bool keyframe_window_is_ready(struct keyframe_window *window, int64_t until_ns);

// Time is short from now on (at first it is not): keyframes come after more motion, and as many as
// take a tenth of a processor.
void keyframe_window_spare(struct keyframe_window *window, bool sparing);

// After each track_frame, with its result and its frame's number and time, when the pose has left.
// *out_moved_m: how far the results that entered with this call moved the camera in the map, 0
// where none did. Returns 0 or -EIO (the device could not give the frame).
__attribute__((warn_unused_result)) int
keyframe_window_follow(struct keyframe_window *window, struct gpu *gpu, const struct track *track,
                       const struct track_result *result, uint64_t seq, int64_t time_ns,
                       double *out_moved_m);

// After keyframe_window_follow, or where that was left out (keyframe_window_is_ready), with the
// frame's time: a lost frame that has depth is looked for among the images of this
// epoch's keyframes (keyframe_recovery.h), and the tracker is told where it is (track_relocate): in
// odom as the keyframe is by which it was found, and T_map_odom is that keyframe's from then on.
// The newest result enters with a lost frame, so that a recording gives the same each time:
// *out_moved_m as keyframe_window_follow has it. It is waited for, until until_ns at the latest
// (CLOCK_MONOTONIC; INT64_MAX: as long as it takes, which alone gives the same each time): a frame
// for which it is not there by then is not looked for. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int
keyframe_window_relocate(struct keyframe_window *window, struct gpu *gpu, struct track *track,
                         const struct track_result *result, int64_t time_ns, int64_t until_ns,
                         double *out_moved_m);

// The same where the map has told the tracker where its frame is: in odom as it was when that place
// was taken in, and T_map_odom is from then on that of the keyframe which stands nearest there. Of
// a map that was loaded this holds as far as odom has not drifted since the camera was found in it.
//
// A find, by either, holds until the next keyframe, another find or another epoch, however many
// frames are lost after it: the tracker goes on from the frame that was found.
void keyframe_window_found(struct keyframe_window *window, const struct se3 *T_odom_camera,
                           int64_t time_ns);

// Whether there are keyframes to look for a lost camera among.
bool keyframe_window_has_any(const struct keyframe_window *window);

// Has all keyframes adjusted. Returns 0 (keyframe_window_optimised says when and how), -EALREADY
// (one is under way) or -ENODATA (fewer than 3 keyframes).
__attribute__((warn_unused_result)) int keyframe_window_optimise(struct keyframe_window *window);

// Between two frames; also has the result enter, if frames have not done so. How the last
// keyframe_window_optimise ended: 0 (*out: what entered), -EAGAIN (under way), -ECANCELED (a
// new epoch began), -EDOM and -ENOLINK (as optimise: all is as it was), -ENOMEM, or -ENODATA (none
// was asked for).
__attribute__((warn_unused_result)) int keyframe_window_optimised(struct keyframe_window *window,
                                                                  struct optimise_report *out);

// When no more frames come: the newest result enters, and where `all` is set, all keyframes are
// adjusted at once, on this thread, which asks `yield` (NULL: nobody) between pieces. Returns 0,
// -ENODATA (fewer than 3 keyframes; `all` alone), -EDOM and -ENOLINK (as optimise), -ECANCELED
// (*stop was set) or -ENOMEM; the keyframes are then as the newest result has them.
__attribute__((warn_unused_result)) int keyframe_window_finish(struct keyframe_window *window,
                                                               bool all, const atomic_bool *stop,
                                                               const struct yield *yield,
                                                               struct optimise_report *out);

// After keyframe_window_finish: the keyframes with what they saw; as long as the window.
const struct graph *keyframe_window_graph(const struct keyframe_window *window);

uint32_t keyframe_window_epoch(
    const struct keyframe_window *window); // that keyframe_window_enter entered last

struct se3 keyframe_window_T_map_odom(const struct keyframe_window *window);

// The keyframes of this epoch as they were when T_map_odom moved last, in order of arrival; valid
// until the next keyframe_window_follow.
uint32_t keyframe_window_list(const struct keyframe_window *window,
                              const struct graph_keyframe **out);

// The same with what they saw, an eighth of the resolution, to be freed by deformation_field_free.
// Returns 0 or -ENOMEM (*out is empty).
__attribute__((warn_unused_result)) int
keyframe_window_correction(const struct keyframe_window *window, struct deformation_field *out);

#endif
