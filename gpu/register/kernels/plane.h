// SPDX-License-Identifier: Apache-2.0
// The plane through a point's neighbourhood: from the moments of the neighbours the direction in
// which they spread least. Only sums, products and divisions, in double: both twins get the same
// bits.
#ifndef POSED_GPU_REGISTER_KERNELS_PLANE_H
#define POSED_GPU_REGISTER_KERNELS_PLANE_H

#include "gpu/register/kernels/cells.h"

struct register_moments {
    double n, sum[3], square[6]; // relative to the point: xx xy xz yy yz zz
};

KERNEL_FN void register_moments_add(struct register_moments *m, double x, double y, double z)
{
    m->n += 1;
    m->sum[0] += x;
    m->sum[1] += y;
    m->sum[2] += z;
    m->square[0] += x * x;
    m->square[1] += x * y;
    m->square[2] += x * z;
    m->square[3] += y * y;
    m->square[4] += y * z;
    m->square[5] += z * z;
}

// Unit normal and mean squared distance from the plane. False: no plane (fewer than
// REGISTER_PLANE_LEAST points, or all near a line); the normal is then 0.
#define REGISTER_PLANE_LEAST 5
KERNEL_FN bool register_plane_fit(const struct register_moments *m, float out_normal[3],
                                  float *out_spread2)
{
    out_normal[0] = out_normal[1] = out_normal[2] = 0.0f;
    *out_spread2 = 0.0f;
    if (m->n < REGISTER_PLANE_LEAST)
        return false;
    const double k = 1 / m->n;
    const double x = m->sum[0] * k, y = m->sum[1] * k, z = m->sum[2] * k;
    double a = m->square[0] * k - x * x, b = m->square[1] * k - x * y;
    double c = m->square[2] * k - x * z, d = m->square[3] * k - y * y;
    double e = m->square[4] * k - y * z, f = m->square[5] * k - z * z;
    const double trace = a + d + f;
    if (!(trace > 0))
        return false;
    const double scale = 1 / trace;
    a *= scale, b *= scale, c *= scale, d *= scale, e *= scale, f *= scale;
    // Characteristic polynomial -l^3 + l^2 - q l + det: Newton from 0 reaches the smallest root
    // from below without ever passing it.
    const double q = a * d - b * b + a * f - c * c + d * f - e * e;
    const double det = a * (d * f - e * e) - b * (b * f - e * c) + c * (b * e - d * c);
    double l = 0;
    for (int i = 0; i < 30; i++) {
        const double value = ((1 - l) * l - q) * l + det, slope = (2 - 3 * l) * l - q;
        if (!(slope < -1e-12))
            break;
        const double step = -value / slope;
        l += step;
        if (!(step > 1e-9))
            break;
    }
    // The adjugate of A - l I is the eigenvector times its own components.
    const double A = a - l, D = d - l, F = f - l;
    const double xx = D * F - e * e, yy = A * F - c * c, zz = A * D - b * b;
    double n[3];
    if (xx >= yy && xx >= zz) {
        n[0] = xx, n[1] = c * e - b * F, n[2] = b * e - c * D;
    } else if (yy >= zz) {
        n[0] = c * e - b * F, n[1] = yy, n[2] = b * c - A * e;
    } else {
        n[0] = b * e - c * D, n[1] = b * c - A * e, n[2] = zz;
    }
    const double length2 = n[0] * n[0] + n[1] * n[1] + n[2] * n[2];
    if (!(length2 > 1e-10))
        return false;
    const double inverse = 1 / sqrt(length2);
    for (int i = 0; i < 3; i++)
        out_normal[i] = (float)(n[i] * inverse);
    *out_spread2 = (float)((l > 0 ? l : 0) * trace);
    return true;
}

// The plane around a point: of its neighbours within REGISTER_PLANE_REACH cells, and where those
// are too few (far from a scanner, at an edge), of twice as far ones.
#define REGISTER_PLANE_REACH 2.2f
KERNEL_FN bool register_plane_around(const struct register_cells *cells,
                                     const struct register_cell_point *points, uint32_t i,
                                     struct register_cell_point *out)
{
    const float p_m[3] = {points[i].x, points[i].y, points[i].z};
    float normal[3] = {0, 0, 0}, spread2 = 0, reach_m = REGISTER_PLANE_REACH * cells->cell_m;
    bool fits = false;
    for (int round = 0; round < 2 && !fits; round++, reach_m *= 2) {
        struct register_moments moments = {0, {0, 0, 0}, {0, 0, 0, 0, 0, 0}};
        struct register_cells_walk walk;
        uint32_t j;
        if (!register_cells_begin(cells, p_m, reach_m, &walk))
            break;
        while ((j = register_cells_next(cells, &walk)) != REGISTER_CELLS_NONE)
            if (register_cells_distance2(&points[j], p_m) <= reach_m * reach_m)
                register_moments_add(&moments, points[j].x - p_m[0], points[j].y - p_m[1],
                                     points[j].z - p_m[2]);
        fits = register_plane_fit(&moments, normal, &spread2);
    }
    out->x = normal[0];
    out->y = normal[1];
    out->z = normal[2];
    out->weight = spread2;
    return fits;
}

// The noise of a level is read from a histogram of the distances from the planes: counts are the
// same in any order.
#define REGISTER_NOISE_BINS 256u
KERNEL_FN uint32_t register_noise_bin(const struct register_cells *cells, float spread2)
{
    const float bin = sqrtf(spread2) * cells->inverse * (float)REGISTER_NOISE_BINS;
    return bin < (float)(REGISTER_NOISE_BINS - 1) ? (uint32_t)bin : REGISTER_NOISE_BINS - 1;
}

// The median, metres.
KERNEL_FN double register_noise_of(const struct register_cells *cells, const uint32_t *bins)
{
    uint32_t all = 0, below = 0;
    for (uint32_t b = 0; b < REGISTER_NOISE_BINS; b++)
        all += bins[b];
    for (uint32_t b = 0; b < REGISTER_NOISE_BINS; b++) {
        if (all > 0 && 2 * (below + bins[b]) >= all)
            return (b + (0.5 * all - below) / bins[b]) / REGISTER_NOISE_BINS *
                   (double)cells->cell_m;
        below += bins[b];
    }
    return 0;
}

#endif
