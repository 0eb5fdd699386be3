// SPDX-License-Identifier: Apache-2.0
// Rigid transforms in double precision, header-only so that C and CUDA compile the same text.
// Twists are (v, w): translation part first, as in Sola et al., "A micro Lie theory" (2018), whose
// formulas these are. All functions are pure; nothing here allocates or fails.
#ifndef POSED_PROTO_SE3_H
#define POSED_PROTO_SE3_H

#include <math.h>

#include "proto/types.h"

#ifdef __CUDACC__
#define SE3_FN static inline __host__ __device__
#else
#define SE3_FN static inline
#endif

SE3_FN struct se3 se3_identity(void)
{
    struct se3 T = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
    return T;
}

SE3_FN void se3_apply(const struct se3 *T_a_b, const double p_b[3], double out_p_a[3])
{
    const double *r = T_a_b->r, x = p_b[0], y = p_b[1], z = p_b[2];
    for (int i = 0; i < 3; i++)
        out_p_a[i] = r[3 * i] * x + r[3 * i + 1] * y + r[3 * i + 2] * z + T_a_b->t_m[i];
}

// T_a_c = T_a_b T_b_c
SE3_FN struct se3 se3_compose(const struct se3 *T_a_b, const struct se3 *T_b_c)
{
    struct se3 out;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            out.r[3 * i + j] = T_a_b->r[3 * i] * T_b_c->r[j] +
                               T_a_b->r[3 * i + 1] * T_b_c->r[3 + j] +
                               T_a_b->r[3 * i + 2] * T_b_c->r[6 + j];
    se3_apply(T_a_b, T_b_c->t_m, out.t_m);
    return out;
}

SE3_FN struct se3 se3_inverse(const struct se3 *T_a_b)
{
    struct se3 out;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            out.r[3 * i + j] = T_a_b->r[3 * j + i];
    for (int i = 0; i < 3; i++)
        out.t_m[i] = -(out.r[3 * i] * T_a_b->t_m[0] + out.r[3 * i + 1] * T_a_b->t_m[1] +
                       out.r[3 * i + 2] * T_a_b->t_m[2]);
    return out;
}

// T_b_c = T_a_b^-1 T_a_c
SE3_FN struct se3 se3_between(const struct se3 *T_a_b, const struct se3 *T_a_c)
{
    struct se3 inverse = se3_inverse(T_a_b);
    return se3_compose(&inverse, T_a_c);
}

// Exponential of a twist (v, w) [m, rad]. Below 1e-4 rad the series is exact to double precision.
SE3_FN struct se3 se3_exp(const double twist[6])
{
    const double *v = twist, *w = twist + 3;
    double angle2 = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], angle = sqrt(angle2);
    double a, b, c; // sin/angle, (1 - cos)/angle^2, (angle - sin)/angle^3
    if (angle < 1e-4) {
        a = 1 - angle2 / 6;
        b = 0.5 - angle2 / 24;
        c = 1.0 / 6 - angle2 / 120;
    } else {
        double half = sin(0.5 * angle);
        a = sin(angle) / angle;
        b = 2 * half * half / angle2;
        c = (1 - a) / angle2;
    }
    double k[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};
    struct se3 out;
    for (int i = 0; i < 3; i++) {
        out.t_m[i] = 0;
        for (int j = 0; j < 3; j++) {
            double k2 = w[i] * w[j] - (i == j ? angle2 : 0), one = i == j ? 1 : 0;
            out.r[3 * i + j] = one + a * k[3 * i + j] + b * k2;
            out.t_m[i] += (one + b * k[3 * i + j] + c * k2) * v[j];
        }
    }
    return out;
}

// Unit quaternion x, y, z, w with w >= 0 (Shepperd's method: the largest component first).
SE3_FN void se3_to_quaternion(const struct se3 *T, double out_xyzw[4])
{
    const double *r = T->r;
    double trace = r[0] + r[4] + r[8];
    int big = 3;
    double most = trace;
    for (int i = 0; i < 3; i++)
        if (r[4 * i] > most) {
            most = r[4 * i];
            big = i;
        }
    if (big == 3) {
        out_xyzw[0] = r[7] - r[5];
        out_xyzw[1] = r[2] - r[6];
        out_xyzw[2] = r[3] - r[1];
        out_xyzw[3] = 1 + trace;
    } else {
        int j = (big + 1) % 3, k = (big + 2) % 3;
        out_xyzw[big] = 1 + r[4 * big] - r[4 * j] - r[4 * k];
        out_xyzw[j] = r[3 * j + big] + r[3 * big + j];
        out_xyzw[k] = r[3 * k + big] + r[3 * big + k];
        out_xyzw[3] = r[3 * k + j] - r[3 * j + k];
    }
    double n = sqrt(out_xyzw[0] * out_xyzw[0] + out_xyzw[1] * out_xyzw[1] +
                    out_xyzw[2] * out_xyzw[2] + out_xyzw[3] * out_xyzw[3]);
    n = out_xyzw[3] < 0 ? -n : n;
    for (int i = 0; i < 4; i++)
        out_xyzw[i] /= n;
}

// The quaternion is normalised first; its norm must not be 0.
SE3_FN struct se3 se3_from_quaternion(const double xyzw[4], const double t_m[3])
{
    double n2 = xyzw[0] * xyzw[0] + xyzw[1] * xyzw[1] + xyzw[2] * xyzw[2] + xyzw[3] * xyzw[3];
    double s = 2 / n2, x = xyzw[0], y = xyzw[1], z = xyzw[2], w = xyzw[3];
    struct se3 T = {{1 - s * (y * y + z * z), s * (x * y - z * w), s * (x * z + y * w),
                     s * (x * y + z * w), 1 - s * (x * x + z * z), s * (y * z - x * w),
                     s * (x * z - y * w), s * (y * z + x * w), 1 - s * (x * x + y * y)},
                    {t_m[0], t_m[1], t_m[2]}};
    return T;
}

// Rotation back onto SO(3) after many products (through the unit quaternion).
SE3_FN struct se3 se3_normalized(const struct se3 *T)
{
    double q[4];
    se3_to_quaternion(T, q);
    return se3_from_quaternion(q, T->t_m);
}

// Rotation vector of T, angle in [0, pi] [rad].
SE3_FN void se3_rotation_vector(const struct se3 *T, double out_w[3])
{
    double q[4];
    se3_to_quaternion(T, q);
    double s = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2]);
    double k = s < 1e-9 ? 2 / q[3] : 2 * atan2(s, q[3]) / s;
    for (int i = 0; i < 3; i++)
        out_w[i] = k * q[i];
}

// Rotation angle [rad], in [0, pi].
SE3_FN double se3_angle(const struct se3 *T)
{
    double w[3];
    se3_rotation_vector(T, w);
    return sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
}

// Logarithm, the inverse of se3_exp for angles below pi.
SE3_FN void se3_log(const struct se3 *T, double out_twist[6])
{
    double *w = out_twist + 3;
    se3_rotation_vector(T, w);
    double angle2 = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], angle = sqrt(angle2);
    // V^-1 = I - K/2 + d K^2, d = (1 - (angle/2) cot(angle/2)) / angle^2
    double d =
        angle < 1e-4 ? 1.0 / 12 + angle2 / 720 : (1 - 0.5 * angle / tan(0.5 * angle)) / angle2;
    double k[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};
    for (int i = 0; i < 3; i++) {
        out_twist[i] = 0;
        for (int j = 0; j < 3; j++) {
            double k2 = w[i] * w[j] - (i == j ? angle2 : 0);
            out_twist[i] += ((i == j ? 1 : 0) - 0.5 * k[3 * i + j] + d * k2) * T->t_m[j];
        }
    }
}

// Adjoint for twists (v, w): Ad(T_a_b) takes a twist in b to a. Row-major 6x6.
SE3_FN void se3_adjoint(const struct se3 *T_a_b, double out_ad[36])
{
    const double *r = T_a_b->r, *t = T_a_b->t_m;
    double tx[9] = {0, -t[2], t[1], t[2], 0, -t[0], -t[1], t[0], 0};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double txr = 0;
            for (int k = 0; k < 3; k++)
                txr += tx[3 * i + k] * r[3 * k + j];
            out_ad[6 * i + j] = r[3 * i + j];
            out_ad[6 * i + 3 + j] = txr;
            out_ad[6 * (i + 3) + j] = 0;
            out_ad[6 * (i + 3) + 3 + j] = r[3 * i + j];
        }
}

#endif
