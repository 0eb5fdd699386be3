// SPDX-License-Identifier: Apache-2.0
// When two candidates are the same pose, the object's symmetry considered.
#ifndef POSED_GPU_SEARCH_KERNELS_SAME_POSE_H
#define POSED_GPU_SEARCH_KERNELS_SAME_POSE_H

#include "gpu/search/kernels/pose.h"

#define SEARCH_ROTATIONS_MAX 8

// The rotations of the model that show it as it is.
struct search_rotations {
    bool sphere, revolution;
    float axis[3]; // of the revolution
    uint32_t n;    // of them beside the one by nothing
    float of[SEARCH_ROTATIONS_MAX][9];
};

// Candidates nearer than this to a better one are dropped.
struct search_nearness {
    float trace;      // 1 + 2 cos(angle)
    float distance_m; // of the centres
};

// Before drawing and polishing: 0.17 rad; among the answers: 0.26 rad.
KERNEL_FN struct search_nearness search_nearness_to_draw(float radius_m)
{
    struct search_nearness out = {1 + 2 * 0.98558477f, 0.2f * radius_m};
    return out;
}
KERNEL_FN struct search_nearness search_nearness_of_answers(float radius_m)
{
    struct search_nearness out = {1 + 2 * 0.96638998f, 0.3f * radius_m};
    return out;
}

KERNEL_FN bool search_same_rotation(const struct search_rotations *rotations, const float a[9],
                                    const float b[9], float trace)
{
    if (rotations->sphere || search_trace(a, b) > trace)
        return true;
    if (rotations->revolution) {
        float ua[3], ub[3];
        search_turn(a, rotations->axis, ua);
        search_turn(b, rotations->axis, ub);
        return 1 + 2 * (ua[0] * ub[0] + ua[1] * ub[1] + ua[2] * ub[2]) > trace;
    }
    for (uint32_t k = 0; k < rotations->n; k++) {
        const float *t = rotations->of[k];
        float turned[9];
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                turned[3 * i + j] =
                    b[3 * i] * t[j] + b[3 * i + 1] * t[3 + j] + b[3 * i + 2] * t[6 + j];
        if (search_trace(a, turned) > trace)
            return true;
    }
    return false;
}

KERNEL_FN bool search_same_pose(const struct search_rotations *rotations,
                                const struct search_nearness *nearness,
                                const struct search_candidate *a, const struct search_candidate *b)
{
    float d2 = 0;
    for (int k = 0; k < 3; k++)
        d2 += (a->t_m[k] - b->t_m[k]) * (a->t_m[k] - b->t_m[k]);
    return d2 < nearness->distance_m * nearness->distance_m &&
           search_same_rotation(rotations, a->rotation, b->rotation, nearness->trace);
}

#endif
