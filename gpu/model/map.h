// SPDX-License-Identifier: Apache-2.0
// The map that a tracker stands on: after each frame it takes what the frame saw into the fused
// model and makes the view that the next frame is aligned to. All of that comes after the pose has
// left; the pose never waits for it.
//
// Only frames that are TRACKING, and the first one, are taken in: what a DEGRADED or LOST frame saw
// may be elsewhere. A lost camera is looked for (relocalise.h), some places with each lost frame. A
// find that is only FAIR is believed when MAP_AGREEING lost frames in a row agree, each within what
// a hand moves from the one before. The frame after one that was found is judged like that of a
// camera that was never lost. A new map epoch of the tracker is a new map: the old one is given up
// with a line in the log.
//
// A map that was loaded has frames of its own: T_map_odom takes odom to it, and until the camera
// has been found in it nothing is fused and nothing is seen of it: the map is searched. The tracker
// follows the camera meanwhile. A place is believed when MAP_AGREEING finds, of different frames,
// agree on T_map_odom, or twice as many that are only FAIR, each from where the camera has moved
// to and also with the first. A tracker that lost the camera and began anew is looked for again.
//
// Threads: the tracker's.
#ifndef POSED_GPU_MODEL_MAP_H
#define POSED_GPU_MODEL_MAP_H

#include "gpu/model/deformation_field.h"
#include "gpu/model/model.h"
#include "gpu/model/relocalise.h"
#include "gpu/track/track.h"

#define MAP_AGREEING 3

struct map; // opaque

// What is saved of a map, and loaded.
struct map_contents {
    uint32_t epoch;      // in which it was made
    bool is_loaded;      // of map_read: or was, and nothing has taken its place yet
    uint32_t n_left_out; // map_n_left_out; not saved
    float dropped;       // share of its frames that never came; the caller's, who knows
    // Where odom lies in it, and what takes it from odom to where its keyframes agree; not saved.
    struct se3 T_map_odom;
    struct deformation_field correction;
    struct model_block *blocks; // ordered as model_order does, of map_read after map_contents_order
    uint32_t n_blocks, room;    // room: of map_contents_reserve
    struct relocalise_keyframe *keyframes;
    uint32_t n_keyframes;
};

void map_contents_free(struct map_contents *contents); // empties it

// `gpu` must outlive the map. Returns what model_create does.
__attribute__((warn_unused_result)) int map_create(struct map **out, struct gpu *gpu,
                                                   const struct model_settings *settings,
                                                   const struct gpu_align_settings *align,
                                                   const struct log_sink *log);
void map_destroy(struct map **map);

// After track_frame, with its result: fuses the frame, or looks for one that is lost and that
// nobody has found yet. With the tracker's reference `model` also makes the next view and gives it
// to the tracker. That there is a map the caller tells the tracker (track_set_map). Returns 0 or
// -EIO.
__attribute__((warn_unused_result)) int map_follow(struct map *map, struct track *track,
                                                   const struct track_result *result);

// The tracker has a new keyframe, with a frame that map_follow is not called for: the next one that
// is taken in is kept in its place, as a view to find a camera by.
void map_expect_view(struct map *map);

// Until when map_follow, from now on, may look for a camera, CLOCK_MONOTONIC; at first INT64_MAX:
// as long as it takes, with a recording the same each time. Else a frame is looked for in parts,
// beside those that come after it: what fits in, of a lost frame one part at least, of others one
// part in four frames at least.
void map_set_time(struct map *map, int64_t until_ns);

struct model *map_model(struct map *map);

// Makes room for a copy of n_blocks, and for what joins until it is made. Its memory is there then:
// getting it takes longer than the copy. Any thread. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int map_contents_reserve(struct map_contents *contents);

// Copies the map as it was fused, without a correction: only the copy is made between two frames.
// *out, from {0}, is freed by map_contents_free. Returns 0, -ENOBUFS (it has less room than
// n_blocks, which is set: map_contents_reserve, and again), -ENODATA (nothing was taken in yet),
// -EAGAIN (a loaded map is being searched: it is the file's still), -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int map_read(struct map *map, struct map_contents *out);

// Puts the blocks of a copy in order, before anything else is done with it. Any thread.
void map_contents_order(struct map_contents *contents);

// Moves a copy to where its keyframes agree; it has no correction any more. `settings`: the map's.
// Any thread; 12,000 blocks take a second with some 40 keyframes. Returns 0 or -ENOMEM (it stays
// as it was).
__attribute__((warn_unused_result)) int map_contents_correct(struct map_contents *contents,
                                                             const struct model_settings *settings);

// Puts a saved map in place of what is there; the caller begins a new epoch of the tracker, whose
// frames are looked for in it. Returns 0, -ENOSPC (more blocks or keyframes than there is room for:
// nothing has changed), -EINVAL (a place twice or out of range: the map is then empty), -ENOMEM or
// -EIO.
__attribute__((warn_unused_result)) int map_load(struct map *map,
                                                 const struct map_contents *contents);

// The next epoch is a new map, also where this one was loaded.
void map_give_up(struct map *map);

// The epoch that frames from now on belong to, before map_follow of the first of them.
void map_enter(struct map *map, uint32_t epoch);

// Not 0: the map is full, and so many blocks of a frame, or more, found no room since it began.
uint32_t map_n_left_out(const struct map *map);

bool map_is_loaded(const struct map *map);    // and not given up
bool map_is_searching(const struct map *map); // loaded, and the camera has not been found in it
bool map_is_looking(const struct map *map);   // at a frame in parts, and some are left

// Where odom lies in the map: the identity, or, of a loaded one, as the camera was found.
struct se3 map_T_map_odom(const struct map *map);

#endif
