// SPDX-License-Identifier: Apache-2.0
// A ray in the shape's frame is o + t d with d = R (x, y, 1), not normalised, so that t is the
// depth along the optical axis. Over a row only x changes: d = base + slope x. Loops are written
// for the vectoriser: no branches, one load and one store of z a pixel.
#include "capture/synth/shapes.h"

#include <math.h>

#include "capture/io/simd.h"

#define LANES  16
#define MISS   1e30f
#define INLINE static inline __attribute__((always_inline))

// The row's rays in the shape's frame.
struct ray_row {
    float o[3], base[3], slope[3], half[3];
};

INLINE float least(float a, float b)
{
    return a < b ? a : b;
}

INLINE float most(float a, float b)
{
    return a > b ? a : b;
}

// A ray parallel to a face must not divide by 0: 0/0 would be a NaN.
INLINE float inverse_of(float d)
{
    return 1 / (fabsf(d) < 1e-12f ? 1e-12f : d);
}

// Where a ray enters and leaves the slab |p| <= half of one axis.
INLINE float slab_entry(float o, float half, float inverse)
{
    return least((-half - o) * inverse, (half - o) * inverse);
}

INLINE float slab_exit(float o, float half, float inverse)
{
    return most((-half - o) * inverse, (half - o) * inverse);
}

INLINE void trace_box(const struct ray_row *row, const float *restrict x, uint32_t u0, uint32_t u1,
                      bool inside, float *restrict z)
{
    const struct ray_row r = *row;
    const float ox = r.o[0], oy = r.o[1], oz = r.o[2];
    const float hx = r.half[0], hy = r.half[1], hz = r.half[2];
    for (uint32_t u = u0; u < u1; u++) {
        float ix = inverse_of(r.base[0] + r.slope[0] * x[u]);
        float iy = inverse_of(r.base[1] + r.slope[1] * x[u]);
        float iz = inverse_of(r.base[2] + r.slope[2] * x[u]);
        float entry = most(most(slab_entry(ox, hx, ix), slab_entry(oy, hy, iy)),
                           most(slab_entry(oz, hz, iz), 0));
        float leave =
            least(least(slab_exit(ox, hx, ix), slab_exit(oy, hy, iy)), slab_exit(oz, hz, iz));
        float t = inside ? leave : entry;
        t = entry <= leave ? t : MISS;
        t = t > 0 ? t : MISS;
        z[u] = least(t, z[u]);
    }
}

// The loops below are compiled once per shape, so that no choice is left inside them.
CAPTURE_SIMD static void trace_box_outside(const struct ray_row *row, const float *restrict x,
                                           uint32_t u0, uint32_t u1, float *restrict z)
{
    trace_box(row, x, u0, u1, false, z);
}

CAPTURE_SIMD static void trace_box_inside(const struct ray_row *row, const float *restrict x,
                                          uint32_t u0, uint32_t u1, float *restrict z)
{
    trace_box(row, x, u0, u1, true, z);
}

// sum a_k p_k^2 = level, cut off at |p_y| <= half_y: ellipsoid, pipe and cone by their signs.
CAPTURE_SIMD static void trace_quadric(const struct ray_row *row, const float a[3], float level,
                                       const float *restrict x, uint32_t u0, uint32_t u1,
                                       float *restrict z)
{
    const struct ray_row r = *row;
    const float ax = a[0], ay = a[1], az = a[2], half_y = r.half[1] * 1.000001f;
    const float C = ax * r.o[0] * r.o[0] + ay * r.o[1] * r.o[1] + az * r.o[2] * r.o[2] - level;
    for (uint32_t u = u0; u < u1; u++) {
        float dx = r.base[0] + r.slope[0] * x[u], dy = r.base[1] + r.slope[1] * x[u];
        float dz = r.base[2] + r.slope[2] * x[u];
        float A = ax * dx * dx + ay * dy * dy + az * dz * dz;
        float B = ax * r.o[0] * dx + ay * r.o[1] * dy + az * r.o[2] * dz;
        float disc = B * B - A * C;
        float root = sqrtf(most(disc, 0)), inverse = inverse_of(A);
        float t0 = (-B - root) * inverse, t1 = (-B + root) * inverse;
        float near = least(t0, t1), far = most(t0, t1);
        // The near side, or where that is cut off (or behind us) the inside of the far one.
        near = fabsf(r.o[1] + near * dy) <= half_y ? near : MISS;
        far = fabsf(r.o[1] + far * dy) <= half_y ? far : MISS;
        near = near > 0 ? near : MISS;
        far = far > 0 ? far : MISS;
        float t = disc > 0 ? least(near, far) : MISS;
        z[u] = least(t, z[u]);
    }
}

// A wave of period 1 and height +-1 made of parabolas (smooth to the first derivative, slope +-8).
INLINE float wave(float turns)
{
    float r = turns - (float)(int)(turns + (turns < 0 ? -0.5f : 0.5f));
    return r * (8 - 16 * fabsf(r));
}

INLINE float torus_distance(const float half[3], float px, float py, float pz)
{
    float ring = sqrtf(px * px + py * py) - (half[0] - half[2]);
    return sqrtf(ring * ring + pz * pz) - half[2];
}

// A lower bound of the distance to the relief: height above it over the largest slope.
INLINE float waves_distance(const float half[3], float px, float py, float pz)
{
    float relief = half[2] * wave(px / half[0]) * wave(1.5f * py / half[1]);
    return (-pz - relief) * 0.6f;
}

INLINE void trace_marched(const struct ray_row *row, bool torus, const float *restrict x,
                          uint32_t u0, uint32_t u1, float *restrict z)
{
    const struct ray_row r = *row;
    const float ox = r.o[0], oy = r.o[1], oz = r.o[2];
    const float hx = r.half[0], hy = r.half[1], hz = r.half[2];
    for (uint32_t u = u0; u < u1; u += LANES) {
        float dx[LANES], dy[LANES], dz[LANES], t[LANES], leave[LANES], scale[LANES], left[LANES];
        for (int k = 0; k < LANES; k++) {
            dx[k] = r.base[0] + r.slope[0] * x[u + (uint32_t)k];
            dy[k] = r.base[1] + r.slope[1] * x[u + (uint32_t)k];
            dz[k] = r.base[2] + r.slope[2] * x[u + (uint32_t)k];
            float ix = inverse_of(dx[k]), iy = inverse_of(dy[k]), iz = inverse_of(dz[k]);
            t[k] = most(most(slab_entry(ox, hx, ix), slab_entry(oy, hy, iy)),
                        most(slab_entry(oz, hz, iz), 0));
            leave[k] =
                least(least(slab_exit(ox, hx, ix), slab_exit(oy, hy, iy)), slab_exit(oz, hz, iz));
            scale[k] = 1 / sqrtf(dx[k] * dx[k] + dy[k] * dy[k] + dz[k] * dz[k]);
        }
        int any = 1;
        for (int step = 0; step < 64 && any; step++) {
            any = 0;
            for (int k = 0; k < LANES; k++) {
                float px = r.o[0] + t[k] * dx[k], py = r.o[1] + t[k] * dy[k];
                float pz = r.o[2] + t[k] * dz[k];
                left[k] =
                    torus ? torus_distance(r.half, px, py, pz) : waves_distance(r.half, px, py, pz);
                float step_m = left[k] > 2e-6f ? left[k] : 0;
                step_m = t[k] <= leave[k] ? step_m : 0;
                t[k] += step_m * scale[k];
                any |= step_m > 0;
            }
        }
        uint32_t n = u1 - u < LANES ? u1 - u : LANES;
        for (uint32_t k = 0; k < n; k++) {
            // What has not come closer than 0.2 mm grazes by and counts as a miss.
            bool hit = (left[k] < 2e-4f) & (t[k] <= leave[k]) & (t[k] > 0) & (t[k] < z[u + k]);
            z[u + k] = hit ? t[k] : z[u + k];
        }
    }
}

CAPTURE_SIMD static void trace_torus(const struct ray_row *row, const float *restrict x,
                                     uint32_t u0, uint32_t u1, float *restrict z)
{
    trace_marched(row, true, x, u0, u1, z);
}

CAPTURE_SIMD static void trace_waves(const struct ray_row *row, const float *restrict x,
                                     uint32_t u0, uint32_t u1, float *restrict z)
{
    trace_marched(row, false, x, u0, u1, z);
}

void shape_trace_row(const struct shape *shape, const struct se3 *T_shape_camera,
                     const float *x_norm, float y_norm, uint32_t u0, uint32_t u1, float *out_z_m)
{
    const struct se3 *T = T_shape_camera;
    struct ray_row row;
    float a[3];
    for (int k = 0; k < 3; k++) {
        row.o[k] = (float)T->t_m[k];
        row.slope[k] = (float)T->r[3 * k];
        row.base[k] = (float)(T->r[3 * k + 1] * (double)y_norm + T->r[3 * k + 2]);
        row.half[k] = (float)shape->half_m[k];
        a[k] = 1 / (row.half[k] * row.half[k]);
    }
    switch (shape->kind) {
    case SHAPE_BOX:
        trace_box_outside(&row, x_norm, u0, u1, out_z_m);
        break;
    case SHAPE_ROOM:
        trace_box_inside(&row, x_norm, u0, u1, out_z_m);
        break;
    case SHAPE_ELLIPSOID:
        trace_quadric(&row, a, 1, x_norm, u0, u1, out_z_m);
        break;
    case SHAPE_PIPE:
        a[1] = 0;
        trace_quadric(&row, a, 1, x_norm, u0, u1, out_z_m);
        break;
    case SHAPE_CONE:
        a[1] = -a[1];
        trace_quadric(&row, a, 0, x_norm, u0, u1, out_z_m);
        break;
    case SHAPE_TORUS:
        trace_torus(&row, x_norm, u0, u1, out_z_m);
        break;
    case SHAPE_WAVES:
        trace_waves(&row, x_norm, u0, u1, out_z_m);
        break;
    }
}
