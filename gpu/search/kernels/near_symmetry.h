// SPDX-License-Identifier: Apache-2.0
// Rotations under which a model looks nearly the same: a mug about its axis but for the handle, a
// box with a knob end for end. What fits in one such pose nearly fits in the others.
#ifndef POSED_GPU_SEARCH_KERNELS_NEAR_SYMMETRY_H
#define POSED_GPU_SEARCH_KERNELS_NEAR_SYMMETRY_H

#include "gpu/search/kernels/pose.h"

#define SEARCH_NEAR_SYMMETRIES_MAX 16

// Moves point p of the model's centred frame to rotation p + shift_m.
struct search_near_symmetry {
    float rotation[9];
    float shift_m[3];
};

struct search_near_symmetries {
    uint32_t n;
    struct search_near_symmetry of[SEARCH_NEAR_SYMMETRIES_MAX];
};

// The candidate with its model moved so; not scored.
KERNEL_FN void search_near_symmetry_pose(const struct search_near_symmetry *symmetry,
                                         const struct search_candidate *c,
                                         struct search_candidate *out)
{
    float shift[3];
    *out = *c;
    search_turn(c->rotation, symmetry->shift_m, shift);
    for (int i = 0; i < 3; i++) {
        const float *row = c->rotation + 3 * i;
        for (int j = 0; j < 3; j++)
            out->rotation[3 * i + j] = row[0] * symmetry->rotation[j] +
                                       row[1] * symmetry->rotation[3 + j] +
                                       row[2] * symmetry->rotation[6 + j];
        out->t_m[i] = c->t_m[i] + shift[i];
    }
}

#endif
