// SPDX-License-Identifier: Apache-2.0
// Fast point feature histograms (Rusu, Blodow, Beetz 2009): how the normals around a point turn.
// Three angles of a pair of points in Darboux's frame, eleven bins each; a point's histogram is
// its own and the distance-weighted mean of its neighbours'.
//
// Normals from a plane fit have no sign. A pair takes the neighbour's normal on the side of the
// point's own; flipping both reverses two of the three histograms, so that one sum serves both
// signs, and in the end the sign is taken for which the neighbours lie in front of the plane.
#ifndef POSED_GPU_REGISTER_KERNELS_FPFH_H
#define POSED_GPU_REGISTER_KERNELS_FPFH_H

#include "gpu/register/kernels/cells.h"

#define FPFH_BINS 11
#define FPFH_SIZE 33 // angle in the plane of the normals, across it, between normal and line

// atan2(y, x) / pi to 1e-4, -1..1: what decides a bin.
KERNEL_FN float fpfh_angle(float y, float x)
{
    const float ax = kernel_abs(x), ay = kernel_abs(y);
    const float most = ax > ay ? ax : ay, least = ax > ay ? ay : ax;
    if (!(most > 0.0f))
        return 0.0f;
    const float t = least / most, t2 = t * t;
    float a = t * (0.31830989f + t2 * (-0.10538f + t2 * (0.05684f + t2 * -0.01985f)));
    a = ay > ax ? 0.5f - a : a;
    a = x < 0.0f ? 1.0f - a : a;
    return y < 0.0f ? -a : a;
}

// -1..1 to 0..10
KERNEL_FN int fpfh_bin(float value)
{
    const int bin = (int)((value + 1.0f) * (0.5f * FPFH_BINS));
    return bin < 0 ? 0 : bin < FPFH_BINS ? bin : FPFH_BINS - 1;
}

// Bins of the pair (p, n) -> (q, m); line = q - p, distance its length. False: the line stands on
// the plane, the frame is not defined.
KERNEL_FN bool fpfh_pair(const float n[3], const float m_in[3], const float line[3], float distance,
                         int out_bins[3])
{
    const float sign = n[0] * m_in[0] + n[1] * m_in[1] + n[2] * m_in[2] < 0.0f ? -1.0f : 1.0f;
    const float m[3] = {sign * m_in[0], sign * m_in[1], sign * m_in[2]};
    const float inverse = 1.0f / distance;
    const float d[3] = {line[0] * inverse, line[1] * inverse, line[2] * inverse};
    float v[3] = {d[1] * n[2] - d[2] * n[1], d[2] * n[0] - d[0] * n[2], d[0] * n[1] - d[1] * n[0]};
    const float v2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    if (!(v2 > 1e-8f))
        return false;
    const float scale = 1.0f / sqrtf(v2);
    for (int a = 0; a < 3; a++)
        v[a] *= scale;
    const float w[3] = {n[1] * v[2] - n[2] * v[1], n[2] * v[0] - n[0] * v[2],
                        n[0] * v[1] - n[1] * v[0]};
    const float wm = w[0] * m[0] + w[1] * m[1] + w[2] * m[2];
    const float nm = n[0] * m[0] + n[1] * m[1] + n[2] * m[2];
    out_bins[0] = fpfh_bin(fpfh_angle(wm, nm));
    out_bins[1] = FPFH_BINS + fpfh_bin(v[0] * m[0] + v[1] * m[1] + v[2] * m[2]);
    out_bins[2] = 2 * FPFH_BINS + fpfh_bin(n[0] * d[0] + n[1] * d[1] + n[2] * d[2]);
    return true;
}

// Where a bin goes when both normals change their sign.
KERNEL_FN int fpfh_mirrored(int bin)
{
    return bin < FPFH_BINS       ? FPFH_BINS - 1 - bin
           : bin < 2 * FPFH_BINS ? bin
                                 : 5 * FPFH_BINS - 1 - bin;
}

#endif
