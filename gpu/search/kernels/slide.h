// SPDX-License-Identifier: Apache-2.0
// Poses beside a polished one, along the two directions that its surface holds least.
//
// What is seen of a half hidden object seldom holds all six: a side of a box slides along itself,
// and where ICP leaves it there is where it came from. The outline says where it belongs, but as
// rows of the same least squares it misleads, since an occluder's edge looks alike; the score knows
// the difference. So the score is asked: the pose is moved both ways, and nothing is aligned.
#ifndef POSED_GPU_SEARCH_KERNELS_SLIDE_H
#define POSED_GPU_SEARCH_KERNELS_SLIDE_H

#include "gpu/search/kernels/hypothesis_counts.h"
#include "gpu/search/kernels/icp.h"

#define SEARCH_SLIDE       0.1f // in object radii, along a direction of unit length
#define SEARCH_SLIDE_STEPS 8    // of the iteration

// Unit vectors of (translation, rotation x radius), in radii; 0 where nothing was aligned.
struct search_slides {
    float direction[2][6];
};

KERNEL_FN float search_slide_dot(const float a[6], const float b[6])
{
    float sum = a[0] * b[0];
    for (int k = 1; k < 6; k++)
        sum += a[k] * b[k];
    return sum;
}

KERNEL_FN void search_slide_unit(float a[6])
{
    const float scale = 1 / (sqrtf(search_slide_dot(a, a)) + 1e-30f);
    for (int k = 0; k < 6; k++)
        a[k] *= scale;
}

// The eigenvectors of the two least eigenvalues of the sums' H, by inverse iteration of a pair of
// vectors (Golub and Van Loan, Matrix Computations, 8.2.4). Directions that H hardly tells apart
// may come out mixed, which is as good.
KERNEL_FN void search_slides_of(const int64_t sums[SEARCH_ICP_SUMS], struct search_slides *out)
{
    float inverse[6][6];
    float *a = out->direction[0], *b = out->direction[1];
    for (int k = 0; k < 6; k++)
        a[k] = b[k] = 0;
    for (int i = 0; i < 6; i++) {
        float h[6][6], unit[6] = {0, 0, 0, 0, 0, 0};
        const float trace = search_icp_damped(sums, h);
        unit[i] = 1;
        if (!(trace > SEARCH_ICP_LEAST) || !solve6_float(h, unit, 1e-6f * trace, inverse[i]))
            return;
    }
    for (int k = 0; k < 6; k++) {
        a[k] = 1;
        b[k] = k % 2 ? 1.f : -1.f;
    }
    for (int step = 0; step < SEARCH_SLIDE_STEPS; step++) {
        float next[2][6];
        for (int k = 0; k < 6; k++) {
            next[0][k] = search_slide_dot(inverse[k], a);
            next[1][k] = search_slide_dot(inverse[k], b);
        }
        search_slide_unit(next[0]);
        const float shared = search_slide_dot(next[0], next[1]);
        for (int k = 0; k < 6; k++)
            next[1][k] -= shared * next[0][k];
        search_slide_unit(next[1]);
        for (int k = 0; k < 6; k++) {
            a[k] = next[0][k];
            b[k] = next[1][k];
        }
    }
}

// How many of the n candidates are better than the i-th; of equal ones the earlier.
KERNEL_FN uint32_t search_slide_rank(const struct search_candidate *c, uint32_t n, uint32_t i)
{
    uint32_t rank = 0;
    for (uint32_t k = 0; k < n; k++)
        rank += c[k].score > c[i].score || (c[k].score == c[i].score && k < i);
    return rank;
}

// The candidate moved; not scored, but `sure` as it was. way: 0 .. SEARCH_SLIDE_WAYS - 1.
KERNEL_FN void search_slide(const struct search_slides *slides, uint32_t way, float radius_m,
                            const struct search_candidate *c, struct search_candidate *out)
{
    const float *direction = slides->direction[way / 2];
    const float by = way % 2 ? -SEARCH_SLIDE : SEARCH_SLIDE;
    float shift_m[3], turn[3];
    for (int k = 0; k < 3; k++) {
        shift_m[k] = by * radius_m * direction[k];
        turn[k] = by * direction[3 + k];
    }
    *out = *c;
    out->sure = c->score;
    search_icp_move(shift_m, turn, out);
}

#endif
