// SPDX-License-Identifier: Apache-2.0
// Finding the camera in the map again. Keyframes are kept as small depth images with their poses;
// those most like a lost frame are places to begin, each is aligned to the model's view from there,
// and a pose is believed only when the model, seen from it, explains the frame: every direction
// held, the residual, and no other place that does as well.
//
// How much it explains is counted over the pixels where the model has a surface to compare with: a
// frame may look past the map's edge, or at surfaces that it holds too thinly for pairs, but where
// both see something they must see the same. Measured at a quarter of the resolution on fr1_rpy and
// fr1_xyz: at the right place 0.96 and more of these pixels agree, be it with 0.28 of a full
// alignment's pairs or with 0.84; at wrong places, redkitchen's frames in fr1_xyz's map included,
// 0.2 to 0.75. The share of pairs alone tells less: it is 0.3 to 0.85 where it is right.
//
// Threads: the tracker's.
#ifndef POSED_GPU_MODEL_RELOCALISE_H
#define POSED_GPU_MODEL_RELOCALISE_H

#include "gpu/model/depth_cells.h"
#include "gpu/model/model.h"
#include "gpu/model/relocalise_finds.h"
#include "gpu/track/track.h"

#define RELOCALISE_MAX_KEYFRAMES 1024

// What is kept of a keyframe.
struct relocalise_keyframe {
    struct se3 T_map_camera;
    float log_z[DEPTH_CELLS];
};

struct relocaliser; // opaque

// Returns 0, -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int relocalise_create(struct relocaliser **out, struct gpu *gpu,
                                                          const struct gpu_align_settings *align);
void relocalise_destroy(struct relocaliser **relocaliser);

void relocalise_forget(struct relocaliser *relocaliser); // all keyframes

// All keyframes, in order of arrival; valid until they change. Returns how many.
uint32_t relocalise_keyframes(const struct relocaliser *relocaliser,
                              const struct relocalise_keyframe **out);

// Puts the keyframes of a saved map in place of what is there. Returns 0 or -EINVAL (more than
// RELOCALISE_MAX_KEYFRAMES: nothing has changed).
__attribute__((warn_unused_result)) int relocalise_set(struct relocaliser *relocaliser,
                                                       const struct relocalise_keyframe *keyframes,
                                                       uint32_t n_keyframes);

// Keeps a frame of the map unless one is there from nearly the same pose, or
// RELOCALISE_MAX_KEYFRAMES are. Reads a small image back from the device. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int relocalise_add(struct relocaliser *relocaliser,
                                                       const struct gpu_frame *frame,
                                                       const struct se3 *T_map_camera);

// Looks for the pose of `frame`; `attempt` counts the frames lost in a row: each tries the keyframe
// most like it and, in turn, another. T_map_guess: where it is tried first, and nowhere else when
// it is there; NULL: no guess. *out_T_map_camera is set when something was found. Returns 0 or
// -EIO.
__attribute__((warn_unused_result)) int
relocalise_find(struct relocaliser *relocaliser, struct model *model, const struct gpu_frame *frame,
                uint32_t attempt, const struct se3 *T_map_guess, enum relocalise_trust *out_trust,
                struct se3 *out_T_map_camera);

// The same in parts, with the same result: `frame` and the model stay as they are meanwhile, and
// nothing is added. Each step looks for the starts of one place, or at one of them; *out_done: it
// was the last one, and the others hold. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int relocalise_begin(struct relocaliser *relocaliser,
                                                         const struct gpu_frame *frame,
                                                         uint32_t attempt,
                                                         const struct se3 *T_map_guess);
__attribute__((warn_unused_result)) int relocalise_step(struct relocaliser *relocaliser,
                                                        struct model *model, bool *out_done,
                                                        enum relocalise_trust *out_trust,
                                                        struct se3 *out_T_map_camera);

#endif
