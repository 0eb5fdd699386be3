// SPDX-License-Identifier: Apache-2.0
// Generated range scans of bumpy objects from around.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/cpu/raster.h"
#include "gpu/search/kernels/raster.h"
#include "proto/se3.h"
#include "tools/bench/register_pairs.h"
#include "tools/bench/testrandom.h"

#define N_U      360 // of the object's grid of vertices
#define N_V      220
#define SIDE     400 // of a scan's image
#define PIXEL_M  0.0007
#define RADIUS_M 0.07
#define NOISE_M  0.0002
#define AWAY_M   1.0
#define STEEP_M  0.003 // from pixel to pixel: grazed, lost
#define N_BUMPS  24

struct statue {
    float xyz_m[3 * (N_U + 1) * (N_V + 1)];
    uint32_t triangles[6 * N_U * N_V];
};

// A ball with bumps and dents of many widths, stretched.
static void make_statue(uint64_t *random, struct statue *out)
{
    double bump[N_BUMPS][5], stretch[3];
    for (int i = 0; i < N_BUMPS; i++) {
        double length = 0;
        for (int k = 0; k < 3; k++) {
            bump[i][k] = testrandom_normal(random);
            length += bump[i][k] * bump[i][k];
        }
        for (int k = 0; k < 3; k++)
            bump[i][k] /= sqrt(length);
        bump[i][3] = exp(testrandom_uniform(random, log(6), log(150)));
        bump[i][4] = testrandom_uniform(random, -0.9, 1.6) / sqrt(bump[i][3]);
    }
    for (int k = 0; k < 3; k++)
        stretch[k] = testrandom_uniform(random, 0.7, k == 1 ? 1.4 : 1.1);
    for (int v = 0; v <= N_V; v++)
        for (int u = 0; u <= N_U; u++) {
            const double a = 2 * M_PI * u / N_U, b = M_PI * v / N_V;
            const double d[3] = {sin(b) * cos(a), cos(b), sin(b) * sin(a)};
            double r = 1;
            for (int i = 0; i < N_BUMPS; i++) {
                const double dot = d[0] * bump[i][0] + d[1] * bump[i][1] + d[2] * bump[i][2];
                r += bump[i][4] * exp(bump[i][3] * (dot - 1));
            }
            for (int k = 0; k < 3; k++)
                out->xyz_m[3 * (v * (N_U + 1) + u) + k] = (float)(RADIUS_M * r * stretch[k] * d[k]);
        }
    uint32_t *t = out->triangles;
    for (uint32_t v = 0; v < N_V; v++)
        for (uint32_t u = 0; u < N_U; u++) {
            const uint32_t a = v * (N_U + 1) + u, c = a + N_U + 1;
            const uint32_t quad[6] = {a, a + 1, c, a + 1, c + 1, c};
            memcpy(t, quad, sizeof quad);
            t += 6;
        }
}

static struct se3 turned(double deg)
{
    const double twist[6] = {0, 0, 0, 0, deg * M_PI / 180, 0};
    return se3_exp(twist);
}

// A scan from the front in its own frame (z away), of the object turned by deg.
static int scan(const struct statue *statue, double deg, uint64_t *random, struct cloud *out)
{
    enum { N_VERTICES = (N_U + 1) * (N_V + 1) };
    const struct se3 T = turned(deg);
    struct raster_point *corners = malloc(N_VERTICES * sizeof *corners);
    float *value = malloc(N_VERTICES * sizeof *value), *depth = malloc(SIDE * SIDE * sizeof *depth);
    int err = corners && value && depth ? cloud_alloc(out, SIDE * SIDE, false) : -ENOMEM;
    if (err)
        goto done;
    for (int i = 0; i < N_VERTICES; i++) {
        double p[3], q[3];
        for (int k = 0; k < 3; k++)
            p[k] = (double)statue->xyz_m[3 * i + k];
        se3_apply(&T, p, q);
        corners[i].x = raster_snap((float)(q[0] / PIXEL_M + SIDE / 2));
        corners[i].y = raster_snap((float)(q[1] / PIXEL_M + SIDE / 2));
        value[i] = (float)(q[2] + AWAY_M);
    }
    for (int i = 0; i < SIDE * SIDE; i++)
        depth[i] = INFINITY;
    const struct raster_mesh mesh = {corners, value, statue->triangles, 2 * N_U * N_V};
    raster_draw(&mesh, SIDE, SIDE, depth, NULL);
    size_t n = 0;
    for (int v = 0; v < SIDE - 1; v++)
        for (int u = 0; u < SIDE - 1; u++) {
            const float *z = depth + v * SIDE + u;
            if (!(fabsf(z[1] - z[0]) < (float)STEEP_M) || !(fabsf(z[SIDE] - z[0]) < (float)STEEP_M))
                continue;
            out->x_m[n] = (float)((u - SIDE / 2) * PIXEL_M);
            out->y_m[n] = (float)((v - SIDE / 2) * PIXEL_M);
            out->z_m[n++] = (float)((double)z[0] + NOISE_M * testrandom_normal(random));
        }
    out->n_points = n;
done:
    free(corners);
    free(value);
    free(depth);
    return err;
}

// Share of the source's points that the target's camera sees too: the object's own shape decides,
// so that it is counted, not computed.
static double overlap_of(const struct bench_generated *pair)
{
    uint8_t *seen = calloc(SIDE * SIDE, 1);
    float *z_m = malloc(SIDE * SIDE * sizeof *z_m);
    size_t n = 0;
    for (size_t i = 0; seen && z_m && i < pair->target.n_points; i++) {
        const int u = (int)lrintf(pair->target.x_m[i] / (float)PIXEL_M) + SIDE / 2;
        const int v = (int)lrintf(pair->target.y_m[i] / (float)PIXEL_M) + SIDE / 2;
        seen[v * SIDE + u] = 1;
        z_m[v * SIDE + u] = pair->target.z_m[i];
    }
    for (size_t i = 0; seen && z_m && i < pair->source.n_points; i++) {
        const double p[3] = {(double)pair->source.x_m[i], (double)pair->source.y_m[i],
                             (double)pair->source.z_m[i]};
        double q[3];
        se3_apply(&pair->truth, p, q);
        const int u = (int)lrint(q[0] / PIXEL_M) + SIDE / 2;
        const int v = (int)lrint(q[1] / PIXEL_M) + SIDE / 2;
        n += u >= 0 && v >= 0 && u < SIDE && v < SIDE && seen[v * SIDE + u] &&
             fabs((double)z_m[v * SIDE + u] - q[2]) < STEEP_M;
    }
    free(seen);
    free(z_m);
    return pair->source.n_points ? (double)n / (double)pair->source.n_points : 0;
}

int bench_generate_statues(uint64_t seed, struct bench_generated *out)
{
    uint64_t random = seed ^ 0x737461747565u;
    struct statue *statues = malloc(2 * sizeof *statues);
    memset(out, 0, sizeof *out);
    if (!statues)
        return -ENOMEM;
    random = testrandom_next(&random);
    make_statue(&random, &statues[0]);
    make_statue(&random, &statues[1]);
    const double first_deg = testrandom_uniform(&random, 0, 360);
    const double apart_deg =
        seed % 4 == 3 ? testrandom_uniform(&random, 120, 180) : 24 * (double)(1 + seed % 4);
    out->strangers = seed % 5 == 4;
    int err = scan(&statues[0], first_deg, &random, &out->target);
    if (!err)
        err = scan(&statues[out->strangers], first_deg + apart_deg, &random, &out->source);
    // p_scan = T_scan p_object, and the scans' frames lie AWAY_M in front.
    const struct se3 back = turned(-apart_deg), to = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, AWAY_M}};
    const struct se3 from = se3_inverse(&to), turn = se3_compose(&back, &from);
    out->truth = se3_compose(&to, &turn);
    out->overlap = out->strangers ? 0 : overlap_of(out);
    free(statues);
    if (err)
        bench_generated_free(out);
    return err;
}
