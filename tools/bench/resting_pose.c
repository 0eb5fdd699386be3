// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/resting_pose.h"

#include <math.h>

#include "proto/se3.h"

#define STEPS_MAX     400   // a finely faceted ball rolls far
#define SUPPORTED_M   1e-5  // the centre is above the polygon's rim
#define LEAST_AREA_M2 1e-9  // less is a line
#define SLIGHT_M2     1e-12 // of corners that are one point but for rounding

static void vertex_at(const struct testscene_mesh *mesh, const struct se3 *T, size_t i,
                      double out[3])
{
    const float *p = mesh->vertices_m + 3 * i;
    const double at[3] = {(double)p[0], (double)p[1], (double)p[2]};
    se3_apply(T, at, out);
}

void resting_centre(const struct testscene_mesh *mesh, double out_m[3])
{
    const struct se3 identity = se3_identity();
    double sum[3] = {0, 0, 0}, area = 0;
    for (size_t t = 0; t < mesh->n_triangles; t++) {
        double corner[3][3], n[3];
        for (size_t k = 0; k < 3; k++)
            vertex_at(mesh, &identity, mesh->triangles[3 * t + k], corner[k]);
        for (int i = 0; i < 3; i++) {
            const int a = (i + 1) % 3, b = (i + 2) % 3;
            n[i] = (corner[1][a] - corner[0][a]) * (corner[2][b] - corner[0][b]) -
                   (corner[1][b] - corner[0][b]) * (corner[2][a] - corner[0][a]);
        }
        const double one = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        area += one;
        for (int i = 0; i < 3; i++)
            sum[i] += one * (corner[0][i] + corner[1][i] + corner[2][i]) / 3;
    }
    for (int i = 0; i < 3; i++)
        out_m[i] = area > 0 ? sum[i] / area : 0;
}

// Moves it so that the centre is above (0, 0) and the lowest vertex on the table.
static void put_down(const struct testscene_mesh *mesh, const double centre[3], struct se3 *io)
{
    double at[3], low = INFINITY;
    se3_apply(io, centre, at);
    for (int k = 0; k < 2; k++)
        io->t_m[k] -= at[k];
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        vertex_at(mesh, io, i, at);
        low = fmin(low, at[2]);
    }
    io->t_m[2] -= low;
}

#define N_CORNERS 64

// Corners of the convex hull of the contacts, counter-clockwise: the farthest contact in each of so
// many directions, many of them the same. What lies between is left out, which makes it smaller by
// a thousandth of its size.
static size_t support_polygon(const struct testscene_mesh *mesh, const struct se3 *T,
                              double out[N_CORNERS][2])
{
    double way[N_CORNERS][2], reach[N_CORNERS];
    size_t n = 0;
    for (int k = 0; k < N_CORNERS; k++) {
        way[k][0] = cos(2 * M_PI * k / N_CORNERS);
        way[k][1] = sin(2 * M_PI * k / N_CORNERS);
        reach[k] = -INFINITY;
    }
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double p[3];
        vertex_at(mesh, T, i, p);
        if (p[2] > RESTING_CONTACT_M)
            continue;
        n++;
        for (int k = 0; k < N_CORNERS; k++) {
            const double here = way[k][0] * p[0] + way[k][1] * p[1];
            if (here <= reach[k])
                continue;
            reach[k] = here;
            out[k][0] = p[0];
            out[k][1] = p[1];
        }
    }
    return n;
}

double resting_unsupported_m(const struct testscene_mesh *mesh, const struct se3 *T_world_mesh,
                             double out_m[2], size_t *out_n)
{
    double corner[N_CORNERS][2] = {{0}}, best = INFINITY, area = 0;
    *out_n = support_polygon(mesh, T_world_mesh, corner);
    bool inside = true;
    for (int i = 0; i < N_CORNERS; i++) {
        const double *a = corner[i], *b = corner[(i + 1) % N_CORNERS];
        const double way[2] = {b[0] - a[0], b[1] - a[1]};
        const double length2 = way[0] * way[0] + way[1] * way[1];
        const double twice = a[0] * b[1] - a[1] * b[0]; // the area seen from (0, 0)
        double t = length2 > 0 ? -(a[0] * way[0] + a[1] * way[1]) / length2 : 0;
        t = t < 0 ? 0 : t > 1 ? 1 : t;
        const double at[2] = {a[0] + t * way[0], a[1] + t * way[1]}, d = hypot(at[0], at[1]);
        inside = inside && twice > -SLIGHT_M2;
        area += twice / 2;
        if (d < best) {
            best = d;
            out_m[0] = at[0];
            out_m[1] = at[1];
        }
    }
    return inside && area > LEAST_AREA_M2 ? 0 : best;
}

// Tips it over `pivot` of the table, towards (0, 0), until another vertex touches.
static void tip_over(const struct testscene_mesh *mesh, const double pivot[2], struct se3 *io)
{
    const double length = hypot(pivot[0], pivot[1]);
    const double way[2] = {-pivot[0] / length, -pivot[1] / length};
    double steepest = -INFINITY; // cotangent of the angle at which a vertex is seen from the pivot
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double p[3];
        vertex_at(mesh, io, i, p);
        const double ahead = way[0] * (p[0] - pivot[0]) + way[1] * (p[1] - pivot[1]);
        if (p[2] > RESTING_CONTACT_M)
            steepest = fmax(steepest, ahead / p[2]);
    }
    const double angle = atan2(1, steepest);
    const double twist[6] = {0, 0, 0, -way[1] * angle, way[0] * angle, 0};
    const struct se3 turned = se3_exp(twist);
    struct se3 moved = se3_compose(&turned, io);
    *io = se3_normalized(&moved);
}

struct se3 resting_pose(const struct testscene_mesh *mesh, const struct se3 *T_world_start)
{
    double centre[3], at[3], pivot[2] = {0, 0}, height = INFINITY;
    size_t n;
    struct se3 T = *T_world_start, next = T;
    resting_centre(mesh, centre);
    for (int step = 0; step < STEPS_MAX; step++) {
        put_down(mesh, centre, &next);
        se3_apply(&next, centre, at);
        if (!(at[2] < height)) // on the edge, to within the contacts' tolerance
            break;
        height = at[2];
        T = next;
        if (!(resting_unsupported_m(mesh, &T, pivot, &n) > SUPPORTED_M))
            break;
        tip_over(mesh, pivot, &next);
    }
    return T;
}
