// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/conditioning.h"

#include <math.h>
#include <string.h>

#include "proto/eigen.h"
#include "proto/se3.h"

// Three shares below this part of the fourth: one surface (conditioning.h).
#define ONE_SURFACE 0.04

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
    eigen_symmetric(scaled, 6, out->eigenvalues, out->vectors);
    while (out->n_degenerate < 6 && out->eigenvalues[out->n_degenerate] < min_eigenvalue)
        out->n_degenerate++;
    if (min_eigenvalue > 0 && out->n_degenerate < 3 &&
        out->eigenvalues[2] < ONE_SURFACE * out->eigenvalues[3])
        out->n_degenerate = 3;
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
