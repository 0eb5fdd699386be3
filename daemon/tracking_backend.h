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
#include "gpu/track/depth_error.h"
#include "gpu/track/track.h"
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

// The map epoch of the newest frame.
uint32_t backend_epoch(const struct backend *backend);

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
