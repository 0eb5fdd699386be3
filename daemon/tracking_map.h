// SPDX-License-Identifier: Apache-2.0
// The map on a tracking backend: the keyframes that are adjusted together, the fused surface, and a
// map that was loaded. The frame loop's thread.
#ifndef POSED_DAEMON_TRACKING_MAP_H
#define POSED_DAEMON_TRACKING_MAP_H

#include "daemon/tracking_backend.h"
#include "gpu/model/map.h"
#include "gpu/model/optimise.h"
#include "gpu/model/pose_graph.h"

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

// Whether a map epoch ended since the last call, and its keyframes as they were then, valid until
// the next backend_track. The epoch: of its frames. Keyframes' seq counts calls of backend_track.
bool backend_ended_epoch(struct backend *backend, uint32_t *out_epoch,
                         const struct graph_keyframe **out, uint32_t *out_n);

// Where odom lies in the map, for the frame of the last backend_track: as the keyframes agree (with
// a LOST one as with the last that was not: what is tried of it may not hold), and in a loaded map
// as the camera was found. False: map.keyframes is 0 and no map was loaded, or a
// loaded map is being searched (*out then is odom's place among its own keyframes).
bool backend_T_map_odom(const struct backend *backend, struct se3 *out);

// The map epoch is about to end: its keyframes are kept as they are. Nothing where they have been,
// or where it has no frame.
void backend_end_epoch(struct backend *backend);

#endif
