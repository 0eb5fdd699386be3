// SPDX-License-Identifier: Apache-2.0
// The weights of the soft methods, in normalised units (a set's robust radius is 1).
//
// e_ij = exp(-d_ij^2 / (2 sigma^2)). EM-ICP as published (Granger and Pennec 2002; Tamaki et al.
// 2010, eq. 8-11): alpha_ij = e_ij^2 / C_i, C_i = exp(-d_0^2 / sigma^2) + sum_j e_ij^2, and
// lambda_i = sum_j sqrt(alpha_ij) = sum_j e_ij / sqrt(C_i).
//
// The two-sided form, which the defaults use, is Softassign's matrix with its slack row and column
// (Gold et al. 1998) kept as two scaling vectors: M_ij = u_i e_ij v_j,
//   u_i = 1 / (z + sum_j e_ij v_j),  v_j = 1 / (z + sum_i e_ij u_i),
// z the weight of the slack entries. It is what makes points without a counterpart, on either
// side, fall silent. Alternating u and v is Sinkhorn's iteration; the matrix is never stored.
#ifndef POSED_GPU_REGISTER_KERNELS_WEIGHTS_H
#define POSED_GPU_REGISTER_KERNELS_WEIGHTS_H

#include "gpu/base/kernel.h"

// Coordinates are multiplied by this, so that e = exp2(-|p - x|^2).
KERNEL_FN double register_scale(double sigma2)
{
    return sqrt(0.72134752044448170 / sigma2); // log2(e) / 2
}

// Slack that grows with the number of neighbours that share a point's mass: a surface of one point
// per spacing^2 has about 2 pi sigma^2 / spacing^2 of them, and u, v shrink with its root.
KERNEL_FN double register_slack(double slack, double sigma2, double spacing)
{
    return slack * sqrt(1 + 6.283185307179586 * sigma2 / (spacing * spacing));
}

// The authors' program gives a row whose C is below this the weight 1 and the mean of X as its
// counterpart; the preset `tamaki` does so too.
#define REGISTER_PAPER_MIN_C 1e-6

// Weight and counterpart of one row; sums as in gpu/register/cpu/pass.h, mean: of X.
KERNEL_FN double register_paper_row(double sum, double sum2, const double sum_x[3], double outlier,
                                    const double mean[3], double out_x[3])
{
    double c = outlier + sum2;
    bool empty = !(c > REGISTER_PAPER_MIN_C), alone = !(sum > 0); // alone: every e underflowed
    double inverse = 1 / sum;
    for (int a = 0; a < 3; a++)
        out_x[a] = empty || alone ? mean[a] : sum_x[a] * inverse;
    return empty ? 1 : alone ? 0 : sum / sqrt(c);
}

// How much of a point has a counterpart, 0..1: sum of e over the other set, against a share of what
// it is inside a surface whose median spacing is `spacing` (random points of density n have a
// median distance of sqrt(0.22 / n)). The share decides how near "near" is; 0.2 was chosen on
// trials 00, 04, 08 of bunny_robustness.
KERNEL_FN double register_presence(double sum, double sigma2, double spacing)
{
    double expected = 0.22 * 6.283185307179586 * sigma2 / (spacing * spacing);
    return sum / (sum + 0.2 * expected);
}

#endif
