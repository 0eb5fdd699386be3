// SPDX-License-Identifier: Apache-2.0
// Generalised ICP (Segal, Haehnel, Thrun 2009), plane to plane: each point stands for a small disc,
// with covariance 1 along its plane and epsilon across it; a pair costs e^T (C_q + R C_p R^T)^-1 e,
// e = q - T p.
//
// With C = I - (1 - epsilon) n n^T the inverse has a closed form in the two normals: there are no
// 3x3 matrices to store, turn and invert. A point without a plane has the normal 0, and C = I.
#ifndef POSED_GPU_REGISTER_KERNELS_GICP_H
#define POSED_GPU_REGISTER_KERNELS_GICP_H

#include "gpu/base/kernel.h"

#define GICP_EPSILON 0.01 // variance across a plane, in units of that along it

// Layout of the sums.
enum {
    GICP_SUM_H = 0,     // upper triangle of sum w J^T M J, J = [I, -[y]x], 21
    GICP_SUM_G = 21,    // sum w J^T M (y - q), 6
    GICP_SUM_W = 27,    // sum w
    GICP_SUM_COST = 28, // sum of the truncated costs of all points, those without a pair included
    GICP_SUM_R2 = 29,   // sum w (distance between the planes)^2
    GICP_SUM_PAIRS = 30,
    GICP_N_SUMS = 31,
};

// M = (2 I - (1 - epsilon)(a a^T + b b^T))^-1 for unit (or zero) a, b: upper triangle xx xy xz yy
// yz zz. On the plane of a and b its eigenvectors are a + b and a - b.
KERNEL_FN void gicp_weight(const double a[3], const double b[3], double epsilon, double out[6])
{
    const double k = 1 - epsilon, c = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    const double plus = 0.25 * k / (2 - k * (1 + c)), minus = 0.25 * k / (2 - k * (1 - c));
    const double s[3] = {a[0] + b[0], a[1] + b[1], a[2] + b[2]};
    const double d[3] = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
    out[0] = 0.5 + plus * s[0] * s[0] + minus * d[0] * d[0];
    out[1] = plus * s[0] * s[1] + minus * d[0] * d[1];
    out[2] = plus * s[0] * s[2] + minus * d[0] * d[2];
    out[3] = 0.5 + plus * s[1] * s[1] + minus * d[1] * d[1];
    out[4] = plus * s[1] * s[2] + minus * d[1] * d[2];
    out[5] = 0.5 + plus * s[2] * s[2] + minus * d[2] * d[2];
}

// Squared distance between the discs as their planes see it: across both normals; between points
// without planes the distance itself.
KERNEL_FN double gicp_apart2(const double e[3], const double a[3], const double b[3])
{
    const double along_a = e[0] * a[0] + e[1] * a[1] + e[2] * a[2];
    const double along_b = e[0] * b[0] + e[1] * b[1] + e[2] * b[2];
    const double a2 = along_a * along_a, b2 = along_b * along_b;
    const bool has_a = a[0] != 0 || a[1] != 0 || a[2] != 0;
    const bool has_b = b[0] != 0 || b[1] != 0 || b[2] != 0;
    if (has_a && has_b)
        return a2 > b2 ? a2 : b2;
    return has_a ? a2 : has_b ? b2 : e[0] * e[0] + e[1] * e[1] + e[2] * e[2];
}

// Adds the pair of y = T p (turned normal a) and q (normal b) with weight w.
KERNEL_FN void gicp_add(double *sums, double w, const double y[3], const double a[3],
                        const double q[3], const double b[3], double epsilon)
{
    double m[6];
    gicp_weight(a, b, epsilon, m);
    for (int i = 0; i < 6; i++)
        m[i] *= w;
    const double r[3] = {y[0] - q[0], y[1] - q[1], y[2] - q[2]};
    const double full[9] = {m[0], m[1], m[2], m[1], m[3], m[4], m[2], m[4], m[5]};
    // [y]x M, M r, and from them the blocks of J^T M J: M, -M [y]x and -[y]x M [y]x.
    double yxm[9], mr[3];
    for (int j = 0; j < 3; j++) {
        yxm[j] = y[1] * full[6 + j] - y[2] * full[3 + j];
        yxm[3 + j] = y[2] * full[j] - y[0] * full[6 + j];
        yxm[6 + j] = y[0] * full[3 + j] - y[1] * full[j];
        mr[j] = full[3 * j] * r[0] + full[3 * j + 1] * r[1] + full[3 * j + 2] * r[2];
    }
    double *h = sums + GICP_SUM_H;
    h[0] += m[0], h[1] += m[1], h[2] += m[2];
    h[6] += m[3], h[7] += m[4], h[11] += m[5];
    // Row i of the upper right block is the transpose of [y]x M.
    h[3] += yxm[0], h[4] += yxm[3], h[5] += yxm[6];
    h[8] += yxm[1], h[9] += yxm[4], h[10] += yxm[7];
    h[12] += yxm[2], h[13] += yxm[5], h[14] += yxm[8];
    // [y]x M [y]x^T: its column j is y x (row j of [y]x M).
    h[15] += y[1] * yxm[2] - y[2] * yxm[1];
    h[16] += y[1] * yxm[5] - y[2] * yxm[4];
    h[17] += y[1] * yxm[8] - y[2] * yxm[7];
    h[18] += y[2] * yxm[3] - y[0] * yxm[5];
    h[19] += y[2] * yxm[6] - y[0] * yxm[8];
    h[20] += y[0] * yxm[7] - y[1] * yxm[6];
    double *g = sums + GICP_SUM_G;
    g[0] += mr[0], g[1] += mr[1], g[2] += mr[2];
    g[3] += y[1] * mr[2] - y[2] * mr[1];
    g[4] += y[2] * mr[0] - y[0] * mr[2];
    g[5] += y[0] * mr[1] - y[1] * mr[0];
}

#endif
