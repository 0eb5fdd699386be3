// SPDX-License-Identifier: Apache-2.0
// Where an alignment may start when the prediction does not lead to the pose.
//
// From each guess, and from the last one turned about x and y by what a hand turns between two
// frames, the coarsest level alone is aligned; what then finds most pairs close by is a start worth
// a full alignment. Random steps of 10 cm and 10 degrees in the synthetic room
// (tests/check/check_steps, 800 of them): 97 % found instead of 92 %.
#ifndef POSED_GPU_TRACK_MULTISTART_H
#define POSED_GPU_TRACK_MULTISTART_H

#include "gpu/gpu.h"

#define MULTISTART_MAX 3

// Aligns `frame` coarsely to `reference` from each of the n_guesses poses T_reference_guess, and
// from the turned neighbours of the last of them. Writes the best starts, best first; *out_n_starts
// may be 0. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int
multistart_find(struct gpu *gpu, const struct gpu_frame *frame, const struct gpu_frame *reference,
                const struct gpu_align_settings *settings, const struct se3 *T_reference_guess,
                int n_guesses, struct se3 out_T_reference_start[MULTISTART_MAX], int *out_n_starts);

#endif
