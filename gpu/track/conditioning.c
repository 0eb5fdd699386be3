// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/conditioning.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "proto/eigen.h"
#include "proto/se3.h"

// Three shares below this part of the fourth: one surface (conditioning.h).
#define ONE_SURFACE 0.04

static void cross(const double a[3], const double b[3], double out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

// The share of the information on a unit direction.
static double share_of(const double scaled[36], const double direction[6])
{
    double share = 0;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            share += direction[i] * scaled[6 * i + j] * direction[j];
    return share;
}

// The turn about an axis, at the place where it moves the surfaces least: what the translations
// that are held have to give to it. axes: the translations, with their shares, ascending.
static void free_turn(const double scaled[36], const double axes[9], const double shares[3],
                      int n_shifts, double out[6])
{
    double norm2 = 1;
    memset(out, 0, 6 * sizeof *out);
    memcpy(out + 3, axes, 3 * sizeof *axes);
    if (n_shifts == 2)
        cross(axes, axes + 3, out + 3);
    for (int k = n_shifts; k < 3; k++) {
        double along = 0;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                along -= axes[3 * k + i] * scaled[6 * i + 3 + j] * out[3 + j] / shares[k];
        norm2 += along * along;
        for (int i = 0; i < 3; i++)
            out[i] += along * axes[3 * k + i];
    }
    for (int i = 0; i < 6; i++)
        out[i] /= sqrt(norm2);
}

// Shares below `limit` are not held. Where shifts, and a turn with them, do not explain what is
// free, it is the eigenvectors.
static void free_motions(const double scaled[36], double limit, struct conditioning *c)
{
    double translations[9], shares[3], axes[9], turn[6];
    int n_shifts = 0;
    memcpy(c->free, c->vectors, sizeof c->free);
    if (c->n_degenerate == 0)
        return;
    for (int i = 0; i < 3; i++)
        memcpy(translations + 3 * i, scaled + 6 * i, 3 * sizeof *scaled);
    eigen_symmetric(translations, 3, shares, axes);
    while (n_shifts < 2 && n_shifts < c->n_degenerate && shares[n_shifts] < limit)
        n_shifts++;
    if (n_shifts == 0 || c->n_degenerate > n_shifts + 1)
        return;
    if (c->n_degenerate > n_shifts) {
        free_turn(scaled, axes, shares, n_shifts, turn);
        if (!(share_of(scaled, turn) < limit))
            return;
        memcpy(c->free + (ptrdiff_t)6 * n_shifts, turn, sizeof turn);
    }
    for (int k = 0; k < n_shifts; k++)
        for (int i = 0; i < 3; i++) {
            c->free[6 * k + i] = axes[3 * k + i];
            c->free[6 * k + 3 + i] = 0;
        }
}

void conditioning_of(const struct gpu_alignment *alignment, double min_eigenvalue,
                     struct conditioning *out)
{
    memset(out, 0, sizeof *out);
    out->arm_m = 1;
    if (!(alignment->information_weight > 0)) {
        out->n_degenerate = 6;
        out->degenerate_mask = 0x3f;
        return;
    }
    const double *h = alignment->information;
    double arm2 = (h[21] + h[28] + h[35]) / alignment->information_weight;
    out->arm_m = arm2 > 0 ? sqrt(arm2) : 1;
    double scaled[36];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            double units = (i < 3 ? 1 : out->arm_m) * (j < 3 ? 1 : out->arm_m);
            scaled[6 * i + j] = h[6 * i + j] / (units * alignment->information_weight);
        }
    double limit = min_eigenvalue;
    eigen_symmetric(scaled, 6, out->eigenvalues, out->vectors);
    while (out->n_degenerate < 6 && out->eigenvalues[out->n_degenerate] < min_eigenvalue)
        out->n_degenerate++;
    if (min_eigenvalue > 0 && out->n_degenerate < 3 &&
        out->eigenvalues[2] < ONE_SURFACE * out->eigenvalues[3]) {
        out->n_degenerate = 3;
        limit = ONE_SURFACE * out->eigenvalues[3];
    }
    free_motions(scaled, limit, out);
    for (int axis = 0; axis < 6; axis++) {
        double share = 0;
        for (int k = 0; k < out->n_degenerate; k++)
            share += out->vectors[6 * k + axis] * out->vectors[6 * k + axis];
        if (share > 0.5)
            out->degenerate_mask |= (uint8_t)(1u << axis);
    }
}

struct se3 conditioning_hold(const struct conditioning *conditioning,
                             const struct se3 *T_reference_predicted,
                             const struct se3 *T_reference_frame)
{
    if (conditioning->n_degenerate == 0)
        return *T_reference_frame;
    struct se3 back = se3_inverse(T_reference_predicted);
    struct se3 step = se3_compose(T_reference_frame, &back);
    double twist[6], held[6] = {0};
    se3_log(&step, twist);
    for (int i = 3; i < 6; i++)
        twist[i] *= conditioning->arm_m;
    for (int k = conditioning->n_degenerate; k < 6; k++) {
        const double *direction = conditioning->vectors + 6 * k;
        double along = 0;
        for (int i = 0; i < 6; i++)
            along += direction[i] * twist[i];
        for (int i = 0; i < 6; i++)
            held[i] += along * direction[i];
    }
    for (int i = 3; i < 6; i++)
        held[i] /= conditioning->arm_m;
    step = se3_exp(held);
    return se3_compose(&step, T_reference_predicted);
}
