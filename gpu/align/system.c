// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"

#define HELD 1e-7

int align_system_create(struct align_system *out, uint32_t n_images, uint32_t n_pairs)
{
    *out = (struct align_system){n_images, n_pairs, malloc(36 * sizeof(double) * (n_images + 1)),
                                 malloc(36 * sizeof(double) * ((size_t)n_pairs + 1)),
                                 malloc(6 * sizeof(double) * (n_images + 1))};
    if (out->diagonal && out->beside && out->gradient)
        return 0;
    align_system_free(out);
    return -ENOMEM;
}

void align_system_free(struct align_system *system)
{
    free(system->diagonal);
    free(system->beside);
    free(system->gradient);
    memset(system, 0, sizeof *system);
}

static inline void unpack(const double *sums, double weight, double h[36], double g[6])
{
    for (int i = 0, at = 0; i < 6; i++)
        for (int j = i; j < 6; j++, at++)
            h[6 * i + j] = h[6 * j + i] = weight * sums[PAIR_SUM_H + at];
    for (int i = 0; i < 6; i++)
        g[i] = weight * sums[PAIR_SUM_G + i];
}

// One direction: source a against target b, h and g in b's frame. Rows are summed as wholes, which
// makes vectors of them.
static inline void add_direction(const double h[36], const double g[6], const struct se3 *T_b_a,
                                 double *restrict aa, double *restrict ab, double *restrict bb,
                                 double *restrict ga, double *restrict gb, bool transpose_ab)
{
    double ad[36], h_ad[36] = {0}, ad_h_ad[36] = {0}, ad_g[6] = {0};
    se3_adjoint(T_b_a, ad);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            for (int j = 0; j < 6; j++)
                h_ad[6 * i + j] += h[6 * i + k] * ad[6 * k + j];
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            for (int j = 0; j < 6; j++)
                ad_h_ad[6 * i + j] += ad[6 * k + i] * h_ad[6 * k + j];
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < 6; i++)
            ad_g[i] += ad[6 * k + i] * g[k];
    for (int i = 0; i < 36; i++) {
        aa[i] += ad_h_ad[i];
        bb[i] += h[i];
    }
    // At (a, b): -Ad^T H, the transpose of h_ad.
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            ab[transpose_ab ? 6 * i + j : 6 * j + i] -= h_ad[6 * i + j];
    for (int i = 0; i < 6; i++) {
        ga[i] += ad_g[i];
        gb[i] -= g[i];
    }
}

static void hold(struct align_system *s, uint32_t i)
{
    double *h = s->diagonal + 36 * (size_t)i;
    memset(h, 0, 36 * sizeof *h);
    for (int k = 0; k < 6; k++) {
        h[7 * k] = 1;
        s->gradient[6 * (size_t)i + (size_t)k] = 0;
    }
}

CPU_CLONES static void fill(struct align_system *s, const struct align_pair *pairs,
                            const double *sums, const double *weight,
                            const struct se3 *T_world_image, const bool *fixed)
{
    memset(s->diagonal, 0, 36 * sizeof(double) * s->n_images);
    memset(s->beside, 0, 36 * sizeof(double) * s->n_pairs);
    memset(s->gradient, 0, 6 * sizeof(double) * s->n_images);
    for (uint32_t k = 0; k < s->n_pairs; k++) {
        uint32_t i = pairs[k].i, j = pairs[k].j;
        double *ii = s->diagonal + 36 * (size_t)i, *jj = s->diagonal + 36 * (size_t)j;
        double *gi = s->gradient + 6 * (size_t)i, *gj = s->gradient + 6 * (size_t)j;
        double *ij = s->beside + 36 * (size_t)k, h[36], g[6];
        const double *both = sums + 2 * (size_t)k * PAIR_N_SUMS;
        struct se3 T_j_i = se3_between(&T_world_image[j], &T_world_image[i]);
        struct se3 T_i_j = se3_inverse(&T_j_i);
        unpack(both, weight[k], h, g);
        add_direction(h, g, &T_j_i, ii, ij, jj, gi, gj, false);
        unpack(both + PAIR_N_SUMS, weight[k], h, g);
        add_direction(h, g, &T_i_j, jj, ij, ii, gj, gi, true);
        if (fixed[i] || fixed[j])
            memset(ij, 0, 36 * sizeof *ij);
    }
    for (uint32_t i = 0; i < s->n_images; i++) {
        double *h = s->diagonal + 36 * (size_t)i;
        for (int k = 0; k < 6; k++)
            h[7 * k] *= 1 + HELD;
        bool lost = !(h[0] + h[7] + h[14] > 0) || !(h[21] + h[28] + h[35] > 0);
        if (fixed[i] || lost)
            hold(s, i);
    }
}

void align_system_fill(struct align_system *s, const struct align_pair *pairs, const double *sums,
                       const double *weight, const struct se3 *T_world_image, const bool *fixed)
{
    fill(s, pairs, sums, weight, T_world_image, fixed);
}
