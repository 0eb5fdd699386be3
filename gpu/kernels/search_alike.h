// SPDX-License-Identifier: Apache-2.0
// Turns under which a model looks nearly the same: a mug about its axis but for the handle, a box
// with a knob end for end. What fits in one such pose nearly fits in the others.
#ifndef POSED_GPU_KERNELS_SEARCH_ALIKE_H
#define POSED_GPU_KERNELS_SEARCH_ALIKE_H

#include "gpu/kernels/search_pose.h"

#define SEARCH_ALIKES_MAX 16

// Moves point p of the model's centred frame to rotation p + shift_m.
struct search_alike {
    float rotation[9];
    float shift_m[3];
};

struct search_alikes {
    uint32_t n;
    struct search_alike of[SEARCH_ALIKES_MAX];
};

// The candidate with its model moved so; not judged.
KERNEL_FN void search_alike_pose(const struct search_alike *alike, const struct search_candidate *c,
                                 struct search_candidate *out)
{
    float shift[3];
    *out = *c;
    search_turn(c->rotation, alike->shift_m, shift);
    for (int i = 0; i < 3; i++) {
        const float *row = c->rotation + 3 * i;
        for (int j = 0; j < 3; j++)
            out->rotation[3 * i + j] = row[0] * alike->rotation[j] +
                                       row[1] * alike->rotation[3 + j] +
                                       row[2] * alike->rotation[6 + j];
        out->t_m[i] = c->t_m[i] + shift[i];
    }
}

#endif
