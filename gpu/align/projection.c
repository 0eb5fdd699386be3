// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/projection.h"

#include <math.h>
#include <string.h>

#define PARALLEL_RMS_PX 0.25
#define MAX_USED        40000 // vertices of a fit

// Solves the positive definite n x n system in place, n <= 12 (Cholesky). False: singular.
static bool solve_spd(double *a, double *b, int n)
{
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++)
            a[j * n + j] -= a[j * n + k] * a[j * n + k];
        if (!(a[j * n + j] > 0))
            return false;
        a[j * n + j] = sqrt(a[j * n + j]);
        for (int i = j + 1; i < n; i++) {
            for (int k = 0; k < j; k++)
                a[i * n + j] -= a[i * n + k] * a[j * n + k];
            a[i * n + j] /= a[j * n + j];
        }
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            b[i] -= a[i * n + k] * b[k];
        b[i] /= a[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            b[i] -= a[k * n + i] * b[k];
        b[i] /= a[i * n + i];
    }
    return true;
}

struct sample {
    double p[4], u, v; // p homogeneous, normalised
};

// Middle and mean distance of the vertices: fits are made in coordinates of about 1.
struct frame {
    double middle[3], scale;
    size_t step; // every step-th vertex is used
    double u0, v0, s;
};

static bool cell_at(const struct align_grid *grid, size_t k, double out[3])
{
    uint32_t index = grid->index[k];
    if (index == ALIGN_GRID_EMPTY)
        return false;
    out[0] = (double)grid->x_m[index];
    out[1] = (double)grid->y_m[index];
    out[2] = (double)grid->z_m[index];
    return true;
}

static struct frame frame_of(const struct align_grid *grid)
{
    struct frame f = {.scale = 0};
    size_t n = 0, n_cells = (size_t)grid->width * grid->height;
    double p[3];
    for (size_t k = 0; k < n_cells; k++)
        if (cell_at(grid, k, p)) {
            for (int i = 0; i < 3; i++)
                f.middle[i] += p[i];
            n++;
        }
    for (int i = 0; i < 3; i++)
        f.middle[i] /= n ? (double)n : 1;
    for (size_t k = 0; k < n_cells; k++)
        if (cell_at(grid, k, p))
            for (int i = 0; i < 3; i++)
                f.scale += fabs(p[i] - f.middle[i]);
    f.scale = n && f.scale > 0 ? f.scale / (3 * (double)n) : 1;
    // An odd step, so that samples do not stand in columns.
    f.step = n_cells / MAX_USED | 1;
    f.u0 = 0.5 * grid->width;
    f.v0 = 0.5 * grid->height;
    f.s = 0.25 * (grid->width + grid->height);
    return f;
}

static bool sample_at(const struct align_grid *grid, const struct frame *f, size_t k,
                      struct sample *out)
{
    double p[3];
    if (!cell_at(grid, k, p))
        return false;
    for (int i = 0; i < 3; i++)
        out->p[i] = (p[i] - f->middle[i]) / f->scale;
    out->p[3] = 1;
    out->u = ((double)(k % grid->width) - f->u0) / f->s;
    out->v = ((double)(k / grid->width) - f->v0) / f->s;
    return true;
}

static bool fit_parallel(const struct align_grid *grid, const struct frame *f, double m[12])
{
    double a[16] = {0}, b[2][4] = {{0}};
    size_t n_cells = (size_t)grid->width * grid->height;
    struct sample s;
    for (size_t k = 0; k < n_cells; k += f->step) {
        if (!sample_at(grid, f, k, &s))
            continue;
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 4; j++)
                a[4 * i + j] += s.p[i] * s.p[j];
            b[0][i] += s.p[i] * s.u;
            b[1][i] += s.p[i] * s.v;
        }
    }
    // A flat scan leaves the rays' direction open: the ridge takes the shortest solution.
    for (int i = 0; i < 4; i++)
        a[5 * i] *= 1 + 1e-9;
    for (int row = 0; row < 2; row++) {
        double copy[16];
        memcpy(copy, a, sizeof copy);
        if (!solve_spd(copy, b[row], 4))
            return false;
        memcpy(m + 4 * row, b[row], 4 * sizeof *m);
    }
    m[8] = m[9] = m[10] = 0;
    m[11] = 1;
    return true;
}

// The unit vector that the 12x12 matrix of the linear transform's equations shortens most, by
// inverse iteration.
static bool fit_pinhole(const struct align_grid *grid, const struct frame *f, double m[12])
{
    double a[144] = {0}, trace = 0;
    size_t n_cells = (size_t)grid->width * grid->height;
    struct sample s;
    for (size_t k = 0; k < n_cells; k += f->step) {
        if (!sample_at(grid, f, k, &s))
            continue;
        double rows[2][12] = {{0}};
        for (int i = 0; i < 4; i++) {
            rows[0][i] = rows[1][4 + i] = s.p[i];
            rows[0][8 + i] = -s.u * s.p[i];
            rows[1][8 + i] = -s.v * s.p[i];
        }
        for (int row = 0; row < 2; row++)
            for (int i = 0; i < 12; i++)
                for (int j = 0; j < 12; j++)
                    a[12 * i + j] += rows[row][i] * rows[row][j];
    }
    for (int i = 0; i < 12; i++)
        trace += a[13 * i];
    for (int i = 0; i < 12; i++) {
        a[13 * i] += 1e-13 * trace;
        m[i] = 0.1 + 0.07 * i;
    }
    for (int round = 0; round < 30; round++) {
        double copy[144], norm = 0;
        memcpy(copy, a, sizeof copy);
        if (!solve_spd(copy, m, 12))
            return false;
        for (int i = 0; i < 12; i++)
            norm += m[i] * m[i];
        for (int i = 0; i < 12; i++)
            m[i] /= sqrt(norm);
    }
    return true;
}

// Into cells and metres, and the third row positive and 1 on average. Returns the rms error.
static double finish(const struct align_grid *grid, const struct frame *f, double m[12])
{
    for (int row = 0; row < 3; row++) {
        double *r = m + 4 * row;
        for (int i = 0; i < 3; i++)
            r[i] /= f->scale;
        r[3] -= r[0] * f->middle[0] + r[1] * f->middle[1] + r[2] * f->middle[2];
    }
    for (int i = 0; i < 4; i++) {
        m[i] = f->s * m[i] + f->u0 * m[8 + i];
        m[4 + i] = f->s * m[4 + i] + f->v0 * m[8 + i];
    }
    double mean = 0, rms = 0;
    size_t n = 0, n_cells = (size_t)grid->width * grid->height;
    double p[3];
    for (size_t k = 0; k < n_cells; k += f->step)
        if (cell_at(grid, k, p)) {
            mean += m[8] * p[0] + m[9] * p[1] + m[10] * p[2] + m[11];
            n++;
        }
    for (int i = 0; i < 12; i++)
        m[i] *= (double)n / mean;
    for (size_t k = 0; k < n_cells; k += f->step)
        if (cell_at(grid, k, p)) {
            double w = m[8] * p[0] + m[9] * p[1] + m[10] * p[2] + m[11];
            double du = (m[0] * p[0] + m[1] * p[1] + m[2] * p[2] + m[3]) / w;
            double dv = (m[4] * p[0] + m[5] * p[1] + m[6] * p[2] + m[7]) / w;
            du -= (double)(k % grid->width);
            dv -= (double)(k / grid->width);
            rms += w > 0 ? du * du + dv * dv : 1e6;
        }
    return n ? sqrt(rms / (double)n) : INFINITY;
}

double projection_fit(const struct align_grid *grid, double out_m[12])
{
    struct frame f = frame_of(grid);
    double parallel = INFINITY, m[12];
    if (fit_parallel(grid, &f, out_m))
        parallel = finish(grid, &f, out_m);
    if (parallel <= PARALLEL_RMS_PX)
        return parallel;
    double pinhole = fit_pinhole(grid, &f, m) ? finish(grid, &f, m) : INFINITY;
    if (!(pinhole < parallel))
        return parallel;
    memcpy(out_m, m, sizeof m);
    return pinhole;
}

static void cross(const double a[3], const double b[3], double out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

bool projection_centre(const double m[12], double out_at[3])
{
    const double *a = m, *b = m + 4, *c = m + 8;
    double bc[3], ca[3], ab[3];
    cross(b, c, bc);
    cross(c, a, ca);
    cross(a, b, ab);
    double det = a[0] * bc[0] + a[1] * bc[1] + a[2] * bc[2];
    double size =
        sqrt((a[0] * a[0] + a[1] * a[1] + a[2] * a[2]) * (b[0] * b[0] + b[1] * b[1] + b[2] * b[2]) *
             (c[0] * c[0] + c[1] * c[1] + c[2] * c[2]));
    if (size > 0 && fabs(det) > 1e-9 * size) {
        for (int i = 0; i < 3; i++)
            out_at[i] = -(bc[i] * m[3] + ca[i] * m[7] + ab[i] * m[11]) / det;
        return true;
    }
    double norm = sqrt(ab[0] * ab[0] + ab[1] * ab[1] + ab[2] * ab[2]);
    for (int i = 0; i < 3; i++)
        out_at[i] = (ab[2] < 0 ? -ab[i] : ab[i]) / norm;
    return false;
}
