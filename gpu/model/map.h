// SPDX-License-Identifier: Apache-2.0
// The map that a tracker stands on: after each frame it takes what the frame saw into the fused
// model and makes the view that the next frame is aligned to. All of that comes after the pose has
// left; the pose never waits for it.
//
// Only frames that are TRACKING, and the first one, are taken in: what a DEGRADED or LOST frame saw
// may be elsewhere. With the reference `model` a lost camera is looked for (recover.h), some places
// with each lost frame; the frame after one that was found is judged like any other. A new map
// epoch of the tracker is a new map: the old one is given up with a line in the log.
//
// Threads: the tracker's.
#ifndef POSED_GPU_MODEL_MAP_H
#define POSED_GPU_MODEL_MAP_H

#include "gpu/model/model.h"
#include "gpu/track/track.h"

struct map; // opaque

// `gpu` must outlive the map. Returns what model_create does.
__attribute__((warn_unused_result)) int map_create(struct map **out, struct gpu *gpu,
                                                   const struct model_settings *settings,
                                                   const struct gpu_align_settings *align,
                                                   const struct log_sink *log);
void map_destroy(struct map **map);

// After track_frame, with its result: fuses the frame. With the tracker's reference `model` also
// makes the next view and gives it to the tracker. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int map_follow(struct map *map, struct track *track,
                                                   const struct track_result *result);

struct model *map_model(struct map *map);

#endif
