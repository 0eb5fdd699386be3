// SPDX-License-Identifier: Apache-2.0
#include "tests/check/register/surface_reference.h"

#include <math.h>
#include <string.h>

static void cross(const double a[3], const double b[3], double out[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static double normalise(double a[3])
{
    const double length = sqrt(dot(a, a));
    for (int i = 0; i < 3; i++)
        a[i] /= length;
    return length;
}

// U diag(1, 1, epsilon) U^T
static void disc(const double normal[3], double epsilon, double out[9])
{
    const double spread[3] = {1, 1, epsilon};
    double u[3][3] = {{0}};
    if (dot(normal, normal) == 0) {
        for (int i = 0; i < 9; i++)
            out[i] = i % 4 == 0;
        return;
    }
    memcpy(u[2], normal, sizeof u[2]);
    normalise(u[2]);
    const double other[3] = {fabs(u[2][0]) < 0.6, fabs(u[2][0]) >= 0.6, 0};
    cross(u[2], other, u[0]);
    normalise(u[0]);
    cross(u[2], u[0], u[1]);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            out[3 * i + j] = 0;
            for (int k = 0; k < 3; k++)
                out[3 * i + j] += spread[k] * u[k][i] * u[k][j];
        }
}

static void invert(const double m[9], double out[9])
{
    double work[3][6];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 6; j++)
            work[i][j] = j < 3 ? m[3 * i + j] : j - 3 == i;
    for (int c = 0; c < 3; c++) {
        int pivot = c;
        for (int i = c + 1; i < 3; i++)
            if (fabs(work[i][c]) > fabs(work[pivot][c]))
                pivot = i;
        for (int j = 0; j < 6; j++) {
            const double swap = work[c][j];
            work[c][j] = work[pivot][j];
            work[pivot][j] = swap;
        }
        const double by = work[c][c];
        for (int j = 0; j < 6; j++)
            work[c][j] /= by;
        for (int i = 0; i < 3; i++) {
            const double factor = work[i][c];
            for (int j = 0; i != c && j < 6; j++)
                work[i][j] -= factor * work[c][j];
        }
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            out[3 * i + j] = work[i][3 + j];
}

void surface_reference_gicp(const double y[3], const double normal_y[3], const double q[3],
                            const double normal_q[3], double epsilon, double h[36], double g[6])
{
    double a[9], b[9], m[9], j[3][6];
    disc(normal_y, epsilon, a);
    disc(normal_q, epsilon, b);
    for (int i = 0; i < 9; i++)
        a[i] += b[i];
    invert(a, m);
    for (int k = 0; k < 6; k++) {
        const double unit[3] = {k % 3 == 0, k % 3 == 1, k % 3 == 2};
        double moved[3];
        if (k < 3)
            memcpy(moved, unit, sizeof moved);
        else
            cross(unit, y, moved);
        for (int i = 0; i < 3; i++)
            j[i][k] = moved[i];
    }
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < 3; i++)
            for (int l = 0; l < 3; l++) {
                g[k] += j[i][k] * m[3 * i + l] * (y[l] - q[l]);
                for (int n = 0; n < 6; n++)
                    h[6 * k + n] += j[i][k] * m[3 * i + l] * j[l][n];
            }
}

void surface_reference_plane(const double (*points)[3], size_t n, double out_normal[3],
                             double *out_variance)
{
    double mean[3] = {0, 0, 0}, c[3][3] = {{0}}, v[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (size_t i = 0; i < n; i++)
        for (int a = 0; a < 3; a++)
            mean[a] += points[i][a] / (double)n;
    for (size_t i = 0; i < n; i++)
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++)
                c[a][b] += (points[i][a] - mean[a]) * (points[i][b] - mean[b]) / (double)n;
    for (int sweep = 0; sweep < 50; sweep++)
        for (int p = 0; p < 2; p++)
            for (int r = p + 1; r < 3; r++) {
                if (c[p][r] == 0)
                    continue;
                const double angle = 0.5 * atan2(2 * c[p][r], c[r][r] - c[p][p]);
                const double s = sin(angle), k = cos(angle);
                for (int i = 0; i < 3; i++) {
                    const double x = c[i][p], y = c[i][r];
                    c[i][p] = k * x - s * y;
                    c[i][r] = s * x + k * y;
                }
                for (int i = 0; i < 3; i++) {
                    const double x = c[p][i], y = c[r][i];
                    c[p][i] = k * x - s * y;
                    c[r][i] = s * x + k * y;
                }
                for (int i = 0; i < 3; i++) {
                    const double x = v[i][p], y = v[i][r];
                    v[i][p] = k * x - s * y;
                    v[i][r] = s * x + k * y;
                }
            }
    int least = 0;
    for (int i = 1; i < 3; i++)
        if (c[i][i] < c[least][least])
            least = i;
    for (int i = 0; i < 3; i++)
        out_normal[i] = v[i][least];
    *out_variance = c[least][least];
}

bool surface_reference_angles(const double p[3], const double n[3], const double q[3],
                              const double m_in[3], double out[3])
{
    double u[3], v[3], w[3], d[3], m[3];
    for (int i = 0; i < 3; i++) {
        u[i] = n[i];
        d[i] = q[i] - p[i];
        m[i] = dot(n, m_in) < 0 ? -m_in[i] : m_in[i];
    }
    normalise(d);
    cross(d, u, v);
    if (sqrt(dot(v, v)) < 1e-3)
        return false;
    normalise(v);
    cross(u, v, w);
    out[0] = (atan2(dot(w, m), dot(u, m)) / M_PI + 1) / 2;
    out[1] = (dot(v, m) + 1) / 2;
    out[2] = (dot(u, d) + 1) / 2;
    return true;
}
