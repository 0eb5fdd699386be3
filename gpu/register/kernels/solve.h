// SPDX-License-Identifier: Apache-2.0
// The M-step of every registration method: weighted pairs (y: source point as it stands now, x: its
// counterpart in the target) are summed into one vector of doubles, and a rigid step that moves
// the y onto the x is solved from it.
//
// Point to point: Horn 1987, "Closed-form solution of absolute orientation using unit quaternions",
// in the weighted form of Tamaki et al. 2010, eq. 13-20. The largest eigenvalue of the 4x4 matrix
// comes from Newton's method on its quartic, from above, and the quaternion from the adjugate:
// no iteration over a matrix, so a single GPU thread does it in a microsecond.
// Point to plane: one Gauss-Newton step of sum w (n . (y - x))^2.
#ifndef POSED_GPU_REGISTER_KERNELS_SOLVE_H
#define POSED_GPU_REGISTER_KERNELS_SOLVE_H

#include "gpu/base/kernel.h"
#include "gpu/base/solve6.h"
#include "proto/se3.h"

enum register_sum {
    REGISTER_SUM_W = 0,   // sum w
    REGISTER_SUM_X = 1,   // sum w x, 3
    REGISTER_SUM_Y = 4,   // sum w y, 3
    REGISTER_SUM_YX = 7,  // sum w y_a x_b, row-major 3x3
    REGISTER_SUM_YY = 16, // sum w y_a y_b: xx xy xz yy yz zz
    REGISTER_SUM_R2 = 22, // sum w |x - y|^2
    REGISTER_N_POINT_SUMS = 23,
    REGISTER_SUM_H = 23, // upper triangle of sum w J J^T, J = (n, y x n)
    REGISTER_SUM_G = 44, // sum w J (n . (y - x))
    REGISTER_N_SUMS = 50,
};

KERNEL_FN void register_add_pair(double *sums, double w, const double x[3], const double y[3])
{
    sums[REGISTER_SUM_W] += w;
    int k = REGISTER_SUM_YY;
    double r2 = 0;
    for (int a = 0; a < 3; a++) {
        double wy = w * y[a], r = x[a] - y[a];
        sums[REGISTER_SUM_X + a] += w * x[a];
        sums[REGISTER_SUM_Y + a] += wy;
        for (int b = 0; b < 3; b++)
            sums[REGISTER_SUM_YX + 3 * a + b] += wy * x[b];
        for (int b = a; b < 3; b++)
            sums[k++] += wy * y[b];
        r2 += r * r;
    }
    sums[REGISTER_SUM_R2] += w * r2;
}

// n is the target's normal at x. A missing normal (0, 0, 0) adds nothing.
KERNEL_FN void register_add_plane(double *sums, double w, const double x[3], const double y[3],
                                  const double n[3])
{
    double j[6] = {n[0],
                   n[1],
                   n[2],
                   y[1] * n[2] - y[2] * n[1],
                   y[2] * n[0] - y[0] * n[2],
                   y[0] * n[1] - y[1] * n[0]};
    double r = n[0] * (y[0] - x[0]) + n[1] * (y[1] - x[1]) + n[2] * (y[2] - x[2]);
    int k = REGISTER_SUM_H;
    for (int a = 0; a < 6; a++) {
        for (int b = a; b < 6; b++)
            sums[k++] += w * j[a] * j[b];
        sums[REGISTER_SUM_G + a] += w * j[a] * r;
    }
}

// Adjugate of the symmetric matrix with rows (a b c d), (b e f g), (c f h i), (d g i j): its ten
// elements in the same order, and the determinant. Written out, because an array that is indexed
// in a loop would lie in a GPU thread's local memory: 6 us instead of 1 for a solve.
struct register_sym4 {
    double a, b, c, d, e, f, g, h, i, j;
};

KERNEL_FN struct register_sym4 register_adjugate(const struct register_sym4 *m, double *out_det)
{
    double s0 = m->a * m->e - m->b * m->b, s1 = m->a * m->f - m->b * m->c;
    double s2 = m->a * m->g - m->b * m->d, s3 = m->b * m->f - m->e * m->c;
    double s4 = m->b * m->g - m->e * m->d, s5 = m->c * m->g - m->f * m->d;
    double c5 = m->h * m->j - m->i * m->i, c4 = m->f * m->j - m->g * m->i;
    double c3 = m->f * m->i - m->g * m->h, c2 = m->c * m->j - m->d * m->i;
    double c1 = m->c * m->i - m->d * m->h, c0 = m->c * m->g - m->d * m->f;
    struct register_sym4 out;
    out.a = m->e * c5 - m->f * c4 + m->g * c3;
    out.b = -m->b * c5 + m->c * c4 - m->d * c3;
    out.c = m->g * s5 - m->i * s4 + m->j * s3;
    out.d = -m->f * s5 + m->h * s4 - m->i * s3;
    out.e = m->a * c5 - m->c * c2 + m->d * c1;
    out.f = -m->d * s5 + m->i * s2 - m->j * s1;
    out.g = m->c * s5 - m->h * s2 + m->i * s1;
    out.h = m->d * s4 - m->g * s2 + m->j * s0;
    out.i = -m->c * s4 + m->f * s2 - m->i * s0;
    out.j = m->c * s3 - m->f * s1 + m->h * s0;
    *out_det = s0 * c5 - s1 * c4 + s2 * c3 + s3 * c2 - s4 * c1 + s5 * c0;
    return out;
}

// f / slope to seven digits, which is all that a step of Newton's method needs: a GPU thread
// divides in double ten times as slowly as in float. 0 where the slope has none.
KERNEL_FN double register_newton_step(double f, double slope)
{
    return slope > 1e-30 ? f * (double)(1.0f / (float)slope) : 0;
}

// Unit quaternion (x, y, z, w) of the rotation that maximises sum w x . R y, from the centred
// s = sum w y_a x_b. False: the rotation is not determined (all points equal or on a line).
KERNEL_FN bool register_horn(const double s_in[9], double out_xyzw[4])
{
    double norm2 = 0, s[9];
    for (int i = 0; i < 9; i++)
        norm2 += s_in[i] * s_in[i];
    if (!(norm2 > 1e-300))
        return false;
    double scale = 1 / sqrt(norm2);
    for (int i = 0; i < 9; i++)
        s[i] = s_in[i] * scale;
    struct register_sym4 k = {
        s[0] + s[4] + s[8], s[5] - s[7], s[6] - s[2],        s[1] - s[3], s[0] - s[4] - s[8],
        s[1] + s[3],        s[6] + s[2], s[4] - s[0] - s[8], s[5] + s[7], s[8] - s[0] - s[4]};
    // Characteristic polynomial l^4 - 2 l^2 + c1 l + c0: k has no trace and |s| = 1.
    double det_s = s[0] * (s[4] * s[8] - s[5] * s[7]) - s[1] * (s[3] * s[8] - s[5] * s[6]) +
                   s[2] * (s[3] * s[7] - s[4] * s[6]);
    double c1 = -8 * det_s, c0;
    struct register_sym4 v = register_adjugate(&k, &c0);
    // Newton from above, first in float. What is added to the float's root keeps the double's start
    // above its own.
    float lf = 1.7320509f; // sqrt(3) |s| bounds the sum of the singular values of s
    for (int i = 0; i < 40; i++) {
        float f = ((lf * lf - 2) * lf + (float)c1) * lf + (float)c0;
        float slope = (4 * lf * lf - 4) * lf + (float)c1;
        float step = slope > 0 ? f / slope : 0;
        lf -= step;
        if (!(step > 1e-6f))
            break;
    }
    double l = lf + 1e-5;
    for (int i = 0; i < 60; i++) {
        double f = ((l * l - 2) * l + c1) * l + c0, slope = (4 * l * l - 4) * l + c1;
        double step = register_newton_step(f, slope);
        l -= step;
        if (!(fabs(step) > 1e-12)) // what is left after it is the square of that
            break;
    }
    k.a -= l;
    k.e -= l;
    k.h -= l;
    k.j -= l;
    // All columns of the adjugate are the eigenvector times one of its own components: the column
    // with the largest diagonal element has the most digits.
    v = register_adjugate(&k, &c0);
    double qw = v.a, qx = v.b, qy = v.c, qz = v.d, best = v.a * v.a;
    if (v.e * v.e > best) {
        best = v.e * v.e;
        qw = v.b, qx = v.e, qy = v.f, qz = v.g;
    }
    if (v.h * v.h > best) {
        best = v.h * v.h;
        qw = v.c, qx = v.f, qy = v.h, qz = v.i;
    }
    if (v.j * v.j > best) {
        best = v.j * v.j;
        qw = v.d, qx = v.g, qy = v.i, qz = v.j;
    }
    // The two largest eigenvalues are one; their root is then right to 1e-8 only.
    if (!(best > 1e-12))
        return false;
    double n = 1 / sqrt(qw * qw + qx * qx + qy * qy + qz * qz);
    out_xyzw[0] = qx * n;
    out_xyzw[1] = qy * n;
    out_xyzw[2] = qz * n;
    out_xyzw[3] = qw * n;
    return true;
}

// The step that moves the y onto the x. False: not determined; *out_step is the identity.
KERNEL_FN bool register_solve_points(const double *sums, struct se3 *out_step)
{
    *out_step = se3_identity();
    double w = sums[REGISTER_SUM_W];
    if (!(w > 0))
        return false;
    const double inverse = 1 / w, zero[3] = {0, 0, 0};
    double s[9], q[4], centre_x[3], centre_y[3], turned[3];
    for (int a = 0; a < 3; a++) {
        centre_x[a] = sums[REGISTER_SUM_X + a] * inverse;
        centre_y[a] = sums[REGISTER_SUM_Y + a] * inverse;
    }
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            s[3 * a + b] =
                sums[REGISTER_SUM_YX + 3 * a + b] - centre_y[a] * sums[REGISTER_SUM_X + b];
    if (!register_horn(s, q))
        return false;
    *out_step = se3_from_quaternion(q, zero);
    se3_apply(out_step, centre_y, turned);
    for (int a = 0; a < 3; a++)
        out_step->t_m[a] = centre_x[a] - turned[a];
    return true;
}

// The pivot of a normal matrix that is a rounding of 0.
KERNEL_FN double register_least_pivot(const double a[36])
{
    double scale = 0;
    for (int i = 0; i < 6; i++)
        // cppcheck-suppress uninitvar; a caller's loops fill it
        scale = a[7 * i] > scale ? a[7 * i] : scale;
    return 1e-13 * scale;
}

// Solves A x = b for a symmetric 6x6 (row-major, upper triangle read). False: not positive definite
// to within rounding; *out_x is garbage.
KERNEL_FN bool register_solve6(const double a[36], const double b[6], double out_x[6])
{
    double lower[6][6];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j <= i; j++)
            lower[i][j] = a[6 * j + i];
    return solve6_double(lower, b, register_least_pivot(a), out_x);
}

// Point-to-plane step; where the planes do not hold all six directions (a flat scene) the
// point-to-point step is taken instead.
KERNEL_FN bool register_solve_planes(const double *sums, struct se3 *out_step)
{
    double h[36], minus_g[6], twist[6];
    int k = REGISTER_SUM_H;
    for (int a = 0; a < 6; a++) {
        for (int b = a; b < 6; b++)
            h[6 * a + b] = h[6 * b + a] = sums[k++];
        minus_g[a] = -sums[REGISTER_SUM_G + a];
    }
    if (!register_solve6(h, minus_g, twist))
        return register_solve_points(sums, out_step);
    *out_step = se3_exp(twist);
    return true;
}

// Normal matrix sum w J^T J of point-to-point pairs for a left twist (v, w) in the target's frame.
KERNEL_FN void register_information(const double *sums, double out[36])
{
    // J = [I, -[y]x]: the blocks are w I, -w [y]x and w (|y|^2 I - y y^T).
    const double *y = sums + REGISTER_SUM_Y, *yy = sums + REGISTER_SUM_YY;
    double w = sums[REGISTER_SUM_W], trace = yy[0] + yy[3] + yy[5];
    double full[9] = {yy[0], yy[1], yy[2], yy[1], yy[3], yy[4], yy[2], yy[4], yy[5]};
    double cross[9] = {0, -y[2], y[1], y[2], 0, -y[0], -y[1], y[0], 0};
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            out[6 * a + b] = a == b ? w : 0;
            out[6 * a + 3 + b] = -cross[3 * a + b];
            out[6 * (a + 3) + b] = cross[3 * a + b];
            out[6 * (a + 3) + 3 + b] = (a == b ? trace : 0) - full[3 * a + b];
        }
}

#endif
