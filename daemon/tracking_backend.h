// SPDX-License-Identifier: Apache-2.0
// The device and the tracker on it, and what happens when the device fails: gpu.on_error says
// whether the loop goes on on the CPU, opens the device again, or stops. A device that reads frames
// itself gets the source's memory page-locked, has the source's thread push each frame out of the
// processor's caches, and is told of a frame in time; on the CPU nothing of that happens.
//
// The frame loop's thread owns it.
#ifndef POSED_DAEMON_TRACKING_BACKEND_H
#define POSED_DAEMON_TRACKING_BACKEND_H

#include "capture/capture.h"
#include "daemon/config/config.h"
#include "gpu/base/yield.h"
#include "gpu/model/map.h"
#include "gpu/model/optimise.h"
#include "gpu/model/pose_graph.h"
#include "gpu/track/depth_error.h"
#include "proto/log.h"

#define BACKEND_MAX_REBUILDS 5 // without a good frame in between; then it stops
#define BACKEND_KEPT_FRAMES  1 // that the source must let be kept (capture_keep)
#define BACKEND_REPLACED     1
#define BACKEND_FUSE_EVERY   4

struct backend; // opaque

// Opens the device for this source's frames and a tracker on it; the source must outlive it. What
// is long beside the frames asks `yield` (copied; NULL: nobody) between its pieces. Returns 0, or
// with the reason in the log -EXDEV (camera.field is not this camera's, or no longer to be read),
// -ENOSPC (map.memory_bytes is more than there is), or another negative errno (see gpu_open).
__attribute__((warn_unused_result)) int
backend_open(struct backend **out, const struct config *config, struct capture *capture,
             const struct yield *yield, const struct log_sink *log);
// The own error of the camera that the source began with, which is taken out of that camera's
// frames (camera.field), NULL = none. As long as the backend.
const struct depth_error *backend_field(const struct backend *backend);

void backend_close(struct backend **backend);

// How much work is done on the frames from now on (at open: all), and until when, CLOCK_MONOTONIC,
// the frame loop has time to wait for the keyframes beside it (INT64_MAX: as long as it takes; what
// is not there by then enters later, and a lost frame that needs it is not looked for). At the
// least effort keyframes come after more motion and are waited for by lost frames alone, and of
// frames that have a pose every BACKEND_FUSE_EVERY-th goes into the map, which is told of the
// tracker's keyframes among the others. due_ns: when the next frame comes, likewise; a loaded map
// is searched in what is left until then (map_set_time), a lost camera until until_ns, in the map
// and among the keyframes in turn.
void backend_set_effort(struct backend *backend, enum track_effort effort, int64_t until_ns,
                        int64_t due_ns);

// The frame that was read last; `tracked` false: it was dropped before tracking. *out is filled
// whatever happens; out->map_epoch and reference_seq go on counting over device failures. Where the
// device fails, another takes over as gpu.on_error says, and the frame is computed there, aligned
// to the one before it, which is kept for that. Returns 0, BACKEND_REPLACED after such a change, or
// -EIO: the frame is LOST, gpu.on_error says stop or nothing works any more.
__attribute__((warn_unused_result)) int backend_track(struct backend *backend,
                                                      const struct capture_frame *frame,
                                                      bool tracked, struct track_result *out);

// After each backend_track, when the pose has left: takes the frame into the map and makes the view
// that the next one is aligned to, where a map is wanted, and follows the adjustment of keyframes
// (keyframe_window_follow, which *out_moved_m is of; 0 while a loaded map is searched, as the
// camera has no place in it). Returns as backend_track does.
__attribute__((warn_unused_result)) int
backend_fuse(struct backend *backend, const struct track_result *result, double *out_moved_m);

// How much of the last backend_fuse was the search for a camera that is lost or not found yet in a
// loaded map.
int64_t backend_search_ns(const struct backend *backend);

// Where odom lies in the map, for the frame of the last backend_track: as the keyframes agree (with
// a LOST one as with the last that was not: what is tried of it may not hold), and in a loaded map
// as the camera was found. False: map.keyframes is 0 and no map was loaded, or a
// loaded map is being searched (*out then is odom's place among its own keyframes).
bool backend_T_map_odom(const struct backend *backend, struct se3 *out);

// Copies the map, as map_read does, with what map_contents_correct needs; a loaded one has no
// correction: it stays as it was saved, and what is fused into it lies where the camera was found.
// Returns what map_read does, or -ENOTSUP (nobody wanted a map when the daemon started).
__attribute__((warn_unused_result)) int backend_read_map(struct backend *backend,
                                                         struct map_contents *out);

// Puts a saved map, made with `camera`, in place of the present one and begins a new epoch at the
// last pose. Returns 0; with nothing changed -ENOTSUP (as above), -EXDEV (another camera than the
// one in force) or -ENOSPC; else -EINVAL or -EIO as map_load has it.
__attribute__((warn_unused_result)) int backend_load_map(struct backend *backend,
                                                         const struct intrinsics *camera,
                                                         const struct map_contents *contents);

// map_n_left_out; 0: nobody wants a map.
uint32_t backend_n_left_out(const struct backend *backend);

// A loaded map is being searched for the camera: poses are in odom alone.
bool backend_is_searching(const struct backend *backend);

// The keyframes that are adjusted together, in the map, with the times that their frames had:
// keyframe_window_list, whose times are even. Returns how many (0 also while a loaded map is being
// searched), copied to `out` with room for `max`.
uint32_t backend_keyframes(const struct backend *backend, struct graph_keyframe *out, uint32_t max);

// Has all keyframes adjusted at once beside the tracking. Returns 0, -ENOTSUP (map.keyframes is 0),
// -EAGAIN (a loaded map is being searched), or what keyframe_window_optimise does.
// backend_optimised: keyframe_window_optimised; -ENODATA, too, when the camera became another one
// meanwhile.
__attribute__((warn_unused_result)) int backend_optimise(struct backend *backend);
__attribute__((warn_unused_result)) int backend_optimised(struct backend *backend,
                                                          struct optimise_report *out);

// When no more frames come: keyframe_window_finish (-ENOTSUP: map.keyframes is 0);
// backend_keyframes then has what came of it.
__attribute__((warn_unused_result)) int backend_finish(struct backend *backend, bool all,
                                                       const atomic_bool *stop,
                                                       const struct yield *yield,
                                                       struct optimise_report *out);

// After backend_finish: the keyframes of the newest epoch with what they saw, as long as the
// backend; NULL: there are none (map.keyframes is 0, or a loaded map is being searched).
const struct graph *backend_graph(const struct backend *backend);

// The map epoch of the newest frame.
uint32_t backend_epoch(const struct backend *backend);

// Whether a map epoch ended since the last call, and its keyframes as they were then, valid until
// the next backend_track. The epoch: of its frames. Keyframes' seq counts calls of backend_track.
bool backend_ended_epoch(struct backend *backend, uint32_t *out_epoch,
                         const struct graph_keyframe **out, uint32_t *out_n);

// The source's camera is another one (CAPTURE_RECALIBRATED): a tracker for it, on the same kind of
// device, that starts at the last pose. A field is applied to the camera that it is of.
// Returns 0 or -EIO.
__attribute__((warn_unused_result)) int backend_recalibrate(struct backend *backend);

// Forgets references and motion; the next frame starts at T_odom_camera (NULL: identity).
void backend_reset(struct backend *backend, const struct se3 *T_odom_camera);

// track_set_keyframe; *out_seq counts the calls of backend_track, as reference_seq does, over
// device failures.
__attribute__((warn_unused_result)) int backend_set_keyframe(struct backend *backend,
                                                             uint64_t *out_seq);

// Pose of the newest frame.
struct se3 backend_pose(const struct backend *backend);

const char *backend_description(const struct backend *backend);

// Filtered depth and normals of the newest frame, 4 floats a pixel as gpu_frame_read has them.
// Returns 0, -ENODATA before the first frame, or -EIO.
__attribute__((warn_unused_result)) int backend_read_maps(struct backend *backend, float *out);

// Residuals of the newest frame on its reference, as residual_image has them. `maps` holds what
// backend_read_maps has just read, `scratch` has room for as much. Returns 0, -ENODATA when the
// frame was not aligned to anything, or -EIO.
__attribute__((warn_unused_result)) int
backend_read_residual(struct backend *backend, const float *maps, float *scratch, float *out_m);

#endif
