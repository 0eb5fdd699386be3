// SPDX-License-Identifier: Apache-2.0
#include "gpu/judge.h"

#include <math.h>
#include <string.h>

#include "gpu/eigen.h"
#include "gpu/kernels/icp.h"
#include "proto/se3.h"

// Pixels do not err independently: the filter spreads one error over its window, quantisation errs
// for whole stripes, and the lens for regions. One pixel in so many counts as independent.
#define CORRELATED_PX 300.0

void judge_conditioning(const struct gpu_alignment *alignment, double min_eigenvalue,
                        struct judge_conditioning *out)
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
    for (int axis = 0; axis < 6; axis++) {
        double share = 0;
        for (int k = 0; k < out->n_degenerate; k++)
            share += out->vectors[6 * k + axis] * out->vectors[6 * k + axis];
        if (share > 0.5)
            out->degenerate_mask |= (uint8_t)(1u << axis);
    }
}

double judge_residual_sigmas(const struct gpu_alignment *alignment)
{
    if (alignment->n_pairs == 0)
        return 0;
    double e_m = alignment->residual_rms_m * sqrt(alignment->weight_sum / alignment->n_pairs);
    return e_m / (double)ICP_SIGMA0_M;
}

struct se3 judge_hold(const struct judge_conditioning *conditioning,
                      const struct se3 *T_reference_predicted, const struct se3 *T_reference_frame)
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

void judge_covariance(const struct gpu_alignment *alignment,
                      const struct judge_conditioning *conditioning, double hold_std_m,
                      double out[36])
{
    double variance_m2 = alignment->residual_rms_m * alignment->residual_rms_m;
    memset(out, 0, 36 * sizeof *out);
    for (int k = 0; k < 6; k++) {
        const double *direction = conditioning->vectors + 6 * k;
        bool held = k >= conditioning->n_degenerate;
        double share = conditioning->eigenvalues[k] * alignment->n_pairs / CORRELATED_PX;
        double along = held ? variance_m2 / share : hold_std_m * hold_std_m;
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++) {
                double units =
                    (i < 3 ? 1 : conditioning->arm_m) * (j < 3 ? 1 : conditioning->arm_m);
                out[6 * i + j] += along * direction[i] * direction[j] / units;
            }
    }
}
