// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/verdict.h"

#include <math.h>
#include <string.h>

#include "gpu/track/kernels/icp.h"
#include "proto/eigen.h"
#include "proto/se3.h"

// Pixels do not err independently: the filter spreads one error over its window, quantisation errs
// for whole stripes, and the lens for regions. One pixel in so many counts as independent.
#define CORRELATED_PX 300.0

void verdict_conditioning(const struct gpu_alignment *alignment, double min_eigenvalue,
                          struct verdict_conditioning *out)
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

double verdict_residual_sigmas(const struct gpu_alignment *alignment)
{
    if (alignment->n_pairs == 0)
        return 0;
    double e_m = alignment->residual_rms_m * sqrt(alignment->weight_sum / alignment->n_pairs);
    return e_m / (double)ICP_SIGMA0_M;
}

struct se3 verdict_hold(const struct verdict_conditioning *conditioning,
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

void verdict_covariance(const struct gpu_alignment *alignment,
                        const struct verdict_conditioning *conditioning, double hold_std_m,
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

static void matrix6_product(const double *a, const double *b, double *out)
{
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            out[6 * i + k] = 0;
            for (int m = 0; m < 6; m++)
                out[6 * i + k] += a[6 * i + m] * b[6 * m + k];
        }
}

// out += j covariance j^T
static void add_congruent(const double *j, const double *covariance, double *out)
{
    double half[36];
    matrix6_product(j, covariance, half);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            for (int m = 0; m < 6; m++)
                out[6 * i + k] += half[6 * i + m] * j[6 * k + m];
}

// out = r * [-arm]x, row-major 3x3 into the upper right of a 6x6: rotation errors w become w x arm.
static void set_swing(const double r[9], const double arm[3], double *j)
{
    const double cross[9] = {0, arm[2], -arm[1], -arm[2], 0, arm[0], arm[1], -arm[0], 0};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            j[6 * i + k] = j[6 * (i + 3) + k + 3] = r[3 * i + k];
            for (int m = 0; m < 3; m++)
                j[6 * i + k + 3] += r[3 * i + m] * cross[3 * m + k];
        }
}

void verdict_propagate(const struct se3 *T_odom_reference, const double reference_covariance[36],
                       const struct se3 *T_odom_camera, const double twist_covariance[36],
                       double out[36])
{
    static const double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    double own[36] = {0}, carried[36] = {0}, arm_m[3];
    struct se3 T_reference_camera = se3_between(T_odom_reference, T_odom_camera);
    for (int i = 0; i < 3; i++)
        arm_m[i] = T_odom_camera->t_m[i] - T_odom_reference->t_m[i];
    set_swing(T_odom_reference->r, T_reference_camera.t_m, own);
    set_swing(identity, arm_m, carried);
    memset(out, 0, 36 * sizeof *out);
    add_congruent(own, twist_covariance, out);
    add_congruent(carried, reference_covariance, out);
}
