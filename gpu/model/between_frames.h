// SPDX-License-Identifier: Apache-2.0
// Frames of a session besides its keyframes, thinned evenly over time: what the camera's own error
// is learnt from (optimise.h). A camera that turns fast leaves 60 keyframes in 10 s, and of a few
// only those say the same of a surface twice; 100 frames are enough to learn by and to judge by.
// One thread.
#ifndef POSED_GPU_MODEL_BETWEEN_FRAMES_H
#define POSED_GPU_MODEL_BETWEEN_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/types.h"

#define BETWEEN_FRAMES_MAX  128 // half of them or more are there after as many steps
#define BETWEEN_FRAMES_STEP 3   // of those that are offered, one in so many to begin with

struct between_frame {
    int64_t time_ns;
    struct se3 T_odom_camera; // as tracked
};

struct between_frames {
    size_t n_px;
    uint32_t n, step;
    uint64_t n_offered;
    struct between_frame frames[BETWEEN_FRAMES_MAX]; // in order of time
    float *z_m;                                      // n_px of each
};

// None yet, of n_px pixels each. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int between_frames_create(struct between_frames *out,
                                                              size_t n_px);
void between_frames_free(struct between_frames *frames);
void between_frames_clear(struct between_frames *frames);

// Whether the frame that is offered now is to be kept: then its depth [m], row-major, 0 = none,
// goes where this points to, before anything else is called; else NULL. Where all places are
// taken every second one goes, and half as many are kept from then on.
__attribute__((warn_unused_result)) float *between_frames_offer(struct between_frames *frames,
                                                                int64_t time_ns,
                                                                const struct se3 *T_odom_camera);

// The depth of the frame that was offered last could not be had: it is not kept.
void between_frames_withdraw(struct between_frames *frames);

// The depth of frame i.
const float *between_frames_depth(const struct between_frames *frames, uint32_t i);

// The same frames once more, with memory of their own. Returns 0 or -ENOMEM (*out is empty).
__attribute__((warn_unused_result)) int between_frames_copy(struct between_frames *out,
                                                            const struct between_frames *frames);

#endif
