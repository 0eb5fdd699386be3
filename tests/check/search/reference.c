// SPDX-License-Identifier: Apache-2.0
#include "tests/check/search/reference.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

double reference_sigma(double z_m)
{
    return 0.0012 + 0.0019 * pow(z_m - 0.4, 2);
}

double reference_dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

void reference_widen(const float *from, int n, double *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (double)from[i];
}

void reference_narrow(const double *from, int n, float *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (float)from[i];
}

void reference_cross(const double a[3], const double b[3], double out[3])
{
    const double c[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                         a[0] * b[1] - a[1] * b[0]};
    memcpy(out, c, sizeof c);
}

void reference_turn(const double r[9], const double p[3], double out[3])
{
    const double q[3] = {reference_dot(r, p), reference_dot(r + 3, p), reference_dot(r + 6, p)};
    memcpy(out, q, sizeof q);
}

void reference_turn_back(const double r[9], const double p[3], double out[3])
{
    const double t[9] = {r[0], r[3], r[6], r[1], r[4], r[7], r[2], r[5], r[8]};
    reference_turn(t, p, out);
}

void reference_product(const double a[9], const double b[9], double out[9])
{
    double c[9];
    for (int j = 0; j < 3; j++) {
        const double column[3] = {b[j], b[3 + j], b[6 + j]};
        double turned[3];
        reference_turn(a, column, turned);
        for (int i = 0; i < 3; i++)
            c[3 * i + j] = turned[i];
    }
    memcpy(out, c, sizeof c);
}

void reference_about(const double axis[3], double angle, double out[9])
{
    for (int j = 0; j < 3; j++) {
        double unit[3] = {0}, across[3];
        unit[j] = 1;
        reference_cross(axis, unit, across);
        for (int i = 0; i < 3; i++)
            out[3 * i + j] = cos(angle) * unit[i] + sin(angle) * across[i] +
                             (1 - cos(angle)) * axis[j] * axis[i];
    }
}

void reference_random_rotation(float out[9], double as_double[9])
{
    double axis[3] = {check_gaussian(), check_gaussian(), check_gaussian()};
    const double length = sqrt(reference_dot(axis, axis));
    for (int i = 0; i < 3; i++)
        axis[i] /= length;
    reference_about(axis, check_uniform(0, 3.1), as_double);
    for (int i = 0; i < 9; i++)
        out[i] = (float)as_double[i];
}

void reference_look_along(const double ray[3], double out[9])
{
    const double z[3] = {0, 0, 1};
    double axis[3];
    reference_cross(ray, z, axis);
    const double sine = sqrt(reference_dot(axis, axis)), angle = atan2(sine, ray[2]);
    for (int i = 0; i < 3; i++)
        axis[i] = sine > 0 ? axis[i] / sine : 0;
    reference_about(axis, angle, out);
}

static void keep_least(double *margin, double value)
{
    if (margin && !(fabs(value) > *margin))
        *margin = fabs(value);
}

int reference_pixel(const struct reference_camera *c, const double q[3], double *margin)
{
    const double u = c->fx * q[0] / q[2] + c->cx, v = c->fy * q[1] / q[2] + c->cy;
    const double nearest_u = floor(u + 0.5), nearest_v = floor(v + 0.5);
    keep_least(margin, q[2] - 0.05);
    if (q[2] <= 0.05)
        return -1;
    keep_least(margin, 0.5 - fabs(u - nearest_u));
    keep_least(margin, 0.5 - fabs(v - nearest_v));
    if (nearest_u < 0 || nearest_v < 0 || nearest_u >= c->width || nearest_v >= c->height)
        return -1;
    return (int)nearest_v * c->width + (int)nearest_u;
}

int reference_sample(const float *z_m, const struct reference_camera *c, const double r[9],
                     const double start[3], double x_m, double y_m, double *out_z, double *margin)
{
    double p[3] = {start[0] + x_m, start[1] + y_m, start[2]}, q[3];
    int seen = 0;
    for (int round = 0; round < 3; round++) {
        reference_turn_back(r, p, q);
        const int at = reference_pixel(c, q, margin);
        if (at < 0 || z_m[at] == 0)
            return 0;
        const double depth = fabs((double)z_m[at]);
        const double there[3] = {(at % c->width - c->cx) / c->fx * depth,
                                 (at / c->width - c->cy) / c->fy * depth, depth};
        double turned[3];
        seen = z_m[at] > 0 ? 1 : 2;
        reference_turn(r, there, turned);
        p[2] = turned[2];
    }
    *out_z = p[2] - start[2];
    return seen;
}

void reference_kinds(const double *z_px, const bool *foreground, int size, int *out_kind)
{
    static const int du[4] = {1, -1, 0, 0}, dv[4] = {0, 0, 1, -1};
    for (int v = 0; v < size; v++)
        for (int u = 0; u < size; u++) {
            const int i = v * size + u;
            out_kind[i] = foreground[i];
            for (int k = 0; k < 4 && foreground[i]; k++) {
                const int x = u + du[k], y = v + dv[k];
                const bool there =
                    x >= 0 && y >= 0 && x < size && y < size && foreground[y * size + x];
                if (!there || z_px[y * size + x] - z_px[i] >= 0.04 * 64)
                    out_kind[i] = 2;
            }
        }
}

void reference_edt(const int *kind, int size, double *out_px)
{
    for (int i = 0; i < size * size; i++) {
        double nearest = 8;
        for (int y = -8; y <= 8; y++)
            for (int x = -8; x <= 8; x++) {
                const int u = i % size + x, v = i / size + y;
                if (u >= 0 && v >= 0 && u < size && v < size && kind[v * size + u] == 2)
                    nearest = fmin(nearest, hypot(x, y));
            }
        out_px[i] = kind[i] == 0 ? -nearest : nearest;
    }
}

double reference_error(const double *window_z, const double *window_edt, const double *map_z,
                       const double *map_edt, int u, int v, double z)
{
    double cover = 0, range = 0;
    int n_cover = 0, n_range = 0;
    for (int y = 0; y < 64; y++)
        for (int x = 0; x < 64; x++) {
            const int at = 64 * y + x, under = 128 * (v + y) + u + x;
            if (map_edt[at] < 0)
                continue;
            n_cover++;
            cover += fabs(window_edt[under] - map_edt[at]);
            if (window_edt[under] < 0)
                continue;
            n_range++;
            range += fabs(window_z[under] - map_z[at] - z);
        }
    // lambda 10 in units of the simplex's step, a twentieth of the width: 3.2 px.
    return n_range ? cover / n_cover + 10 / 3.2 * range / n_range : -1;
}

struct vertex {
    double at[3], f;
};

static int by_value(const void *a, const void *b)
{
    const struct vertex *x = a, *y = b;
    return (x->f > y->f) - (x->f < y->f);
}

// c + k (c - worst), c the middle of the others.
static struct vertex beyond(double (*f)(void *, const double *), void *context,
                            const struct vertex v[4], double k)
{
    struct vertex out;
    for (int i = 0; i < 3; i++) {
        const double c = (v[0].at[i] + v[1].at[i] + v[2].at[i]) / 3;
        out.at[i] = c + k * (c - v[3].at[i]);
    }
    out.f = f(context, out.at);
    return out;
}

void reference_simplex(double (*f)(void *context, const double at[3]), void *context,
                       const double start[3], double step, int n_iterations, double out[4])
{
    struct vertex v[4];
    for (int k = 0; k < 4; k++) {
        memcpy(v[k].at, start, sizeof v[k].at);
        if (k > 0)
            v[k].at[k - 1] += step;
        v[k].f = f(context, v[k].at);
    }
    qsort(v, 4, sizeof *v, by_value);
    for (int i = 0; i < n_iterations; i++) {
        const struct vertex reflected = beyond(f, context, v, 1);
        if (reflected.f < v[0].f) {
            const struct vertex expanded = beyond(f, context, v, 2);
            v[3] = expanded.f < reflected.f ? expanded : reflected;
        } else if (reflected.f < v[2].f) {
            v[3] = reflected;
        } else {
            const struct vertex contracted =
                beyond(f, context, v, reflected.f < v[3].f ? 0.5 : -0.5);
            if (contracted.f < reflected.f && contracted.f < v[3].f) {
                v[3] = contracted;
            } else {
                for (int k = 1; k < 4; k++) {
                    for (int a = 0; a < 3; a++)
                        v[k].at[a] = (v[0].at[a] + v[k].at[a]) / 2;
                    v[k].f = f(context, v[k].at);
                }
            }
        }
        qsort(v, 4, sizeof *v, by_value);
    }
    memcpy(out, v[0].at, sizeof v[0].at);
    out[3] = v[0].f;
}

void reference_draw(const double *corners, const uint32_t *triangles, uint32_t n_triangles,
                    int width, int height, double *out_z, int *out_index)
{
    for (int i = 0; i < width * height; i++) {
        out_z[i] = INFINITY;
        out_index[i] = -1;
    }
    for (uint32_t t = 0; t < n_triangles; t++) {
        const double *a = corners + 3 * triangles[3 * t], *b = corners + 3 * triangles[3 * t + 1];
        const double *c = corners + 3 * triangles[3 * t + 2];
        const double area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
        const int u0 = (int)fmax(ceil(fmin(a[0], fmin(b[0], c[0]))), 0);
        const int u1 = (int)fmin(floor(fmax(a[0], fmax(b[0], c[0]))), width - 1);
        const int v0 = (int)fmax(ceil(fmin(a[1], fmin(b[1], c[1]))), 0);
        const int v1 = (int)fmin(floor(fmax(a[1], fmax(b[1], c[1]))), height - 1);
        for (int v = v0; v <= v1 && area != 0; v++)
            for (int u = u0; u <= u1; u++) {
                const double wb = ((u - a[0]) * (c[1] - a[1]) - (v - a[1]) * (c[0] - a[0])) / area;
                const double wc = ((b[0] - a[0]) * (v - a[1]) - (b[1] - a[1]) * (u - a[0])) / area;
                const double z = a[2] + wb * (b[2] - a[2]) + wc * (c[2] - a[2]);
                if (wb < 0 || wc < 0 || wb + wc > 1 || !(z < out_z[v * width + u]))
                    continue;
                out_z[v * width + u] = z;
                out_index[v * width + u] = (int)t;
            }
    }
}

int reference_coarse_score(const int *scene, const int *model, const int *ring, int n, int anchor_z,
                           int n_cells)
{
    int sum = 0, n_seen = 0;
    for (int i = 0; i < n; i++) {
        const double d = (scene[i] + anchor_z - model[i]) / 64.0;
        const double r = (scene[i] + anchor_z - ring[i]) / 64.0;
        const bool hidden = d<-4, free = d> 4, goes_on = fabs(r) <= 4;
        sum += hidden ? 0 : free ? -6 : 8;
        sum -= goes_on ? 8 : 0;
        n_seen += !hidden;
    }
    // 4096 where every cell matches: sum / 8 of (2 seen + all + 24) / 3.
    return sum * 1536 / (2 * n_seen + n_cells + 24);
}

bool reference_normal(const float *z_m, const struct reference_camera *c, int u, int v,
                      double out[3], double *margin)
{
    static const int du[4] = {3, -3, 0, 0}, dv[4] = {0, 0, 3, -3};
    const double z = z_m[v * c->width + u], step = 0.02 * z + 6 * reference_sigma(z);
    double around[4], tangent[2][3];
    if (z == 0 || u < 3 || v < 3 || u >= c->width - 3 || v >= c->height - 3)
        return false;
    bool smooth = true;
    for (int k = 0; k < 4; k++) {
        around[k] = z_m[(v + dv[k]) * c->width + u + du[k]];
        keep_least(margin, fabs(around[k] - z) - step);
        smooth = smooth && fabs(around[k] - z) < step;
    }
    if (!smooth)
        return false;
    // The surface through the four, at this pixel's depth: derivatives of z (a, b, 1).
    for (int k = 0; k < 2; k++) {
        const double slope = (around[2 * k] - around[2 * k + 1]) / 6, h = 1e-4;
        for (int side = 0; side < 2; side++) {
            const double s = side ? -h : h, there = z + slope * s;
            const double p[3] = {(u + (k == 0 ? s : 0) - c->cx) / c->fx * there,
                                 (v + (k == 1 ? s : 0) - c->cy) / c->fy * there, there};
            for (int i = 0; i < 3; i++)
                tangent[k][i] = (side ? tangent[k][i] - p[i] : p[i]) / (side ? 2 * h : 1);
        }
    }
    const double ray[3] = {(u - c->cx) / c->fx, (v - c->cy) / c->fy, 1};
    reference_cross(tangent[0], tangent[1], out);
    const double length = sqrt(reference_dot(out, out)) * (reference_dot(out, ray) > 0 ? -1 : 1);
    for (int i = 0; i < 3; i++)
        out[i] /= length;
    return true;
}

double reference_behind(const float *z_m, int width, int u, int v)
{
    double beside[2] = {0, 0};
    for (int side = 0; side < 2; side++)
        for (int k = 1; k <= 64; k++) {
            const int x = side ? u + k : u - k;
            if (x >= 0 && x < width && z_m[v * width + x] != 0) {
                beside[side] = z_m[v * width + x];
                break;
            }
        }
    return beside[0] == 0 || beside[1] == 0 ? 0 : fmax(beside[0], beside[1]);
}

bool reference_fit(const double *u, const double *v, const double *d, int n, double out[3])
{
    double a[3][4] = {{0}};
    for (int i = 0; i < n; i++) {
        const double row[4] = {u[i], v[i], 1, d[i]};
        for (int k = 0; k < 3; k++)
            for (int m = 0; m < 4; m++)
                a[k][m] += row[k] * row[m];
    }
    for (int k = 0; k < 3; k++) {
        int best = k;
        for (int i = k; i < 3; i++)
            best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        for (int m = 0; m < 4; m++) {
            const double swap = a[k][m];
            a[k][m] = a[best][m];
            a[best][m] = swap;
        }
        if (!(fabs(a[k][k]) > 1e-9))
            return false;
        for (int i = 0; i < 3; i++)
            for (int m = 3; i != k && m >= k; m--)
                a[i][m] -= a[i][k] / a[k][k] * a[k][m];
    }
    for (int k = 0; k < 3; k++)
        out[k] = a[k][3] / a[k][k];
    return true;
}

void reference_solve6(double a[6][6], const double b[6], double x[6])
{
    double right[6];
    memcpy(right, b, sizeof right);
    for (int k = 0; k < 6; k++) {
        int best = k;
        for (int i = k; i < 6; i++)
            best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        for (int m = 0; m < 6; m++) {
            const double swap = a[k][m];
            a[k][m] = a[best][m];
            a[best][m] = swap;
        }
        const double swap = right[k];
        right[k] = right[best];
        right[best] = swap;
        for (int i = 0; i < 6; i++) {
            const double share = i == k ? 0 : a[i][k] / a[k][k];
            for (int m = 0; m < 6; m++)
                a[i][m] -= share * a[k][m];
            right[i] -= share * right[k];
        }
    }
    for (int k = 0; k < 6; k++)
        x[k] = right[k] / a[k][k];
}
