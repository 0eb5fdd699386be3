// SPDX-License-Identifier: Apache-2.0
// The things of the synthetic scenes, out of boxes, tubes, ellipsoids and rings.
#include "tools/bench/testmesh.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/testrandom.h"

static int reserve(struct testscene_mesh *m, size_t n_vertices, size_t n_triangles)
{
    if (m->n_vertices + n_vertices > m->vertex_capacity) {
        size_t n = 2 * m->vertex_capacity + n_vertices;
        float *p = realloc(m->vertices_m, 3 * n * sizeof *p);
        if (!p)
            return -ENOMEM;
        m->vertices_m = p;
        m->vertex_capacity = n;
    }
    if (m->n_triangles + n_triangles > m->triangle_capacity) {
        size_t n = 2 * m->triangle_capacity + n_triangles;
        uint32_t *p = realloc(m->triangles, 3 * n * sizeof *p);
        if (!p)
            return -ENOMEM;
        m->triangles = p;
        m->triangle_capacity = n;
    }
    return 0;
}

int testmesh_add_surface(struct testscene_mesh *m, uint32_t n_u, uint32_t n_v,
                         void (*surface)(const double *shape, double u, double v, double out_m[3]),
                         const double *shape)
{
    if (reserve(m, (size_t)(n_u + 1) * (n_v + 1), 2 * (size_t)n_u * n_v))
        return -ENOMEM;
    uint32_t first = (uint32_t)m->n_vertices;
    for (uint32_t j = 0; j <= n_v; j++)
        for (uint32_t i = 0; i <= n_u; i++) {
            double p[3];
            surface(shape, (double)i / n_u, (double)j / n_v, p);
            for (int k = 0; k < 3; k++)
                m->vertices_m[3 * m->n_vertices + (size_t)k] = (float)p[k];
            m->n_vertices++;
        }
    for (uint32_t j = 0; j < n_v; j++)
        for (uint32_t i = 0; i < n_u; i++) {
            uint32_t a = first + j * (n_u + 1) + i, b = a + 1, c = a + n_u + 1, d = c + 1;
            uint32_t quad[6] = {a, b, c, b, d, c};
            memcpy(m->triangles + 3 * m->n_triangles, quad, sizeof quad);
            m->n_triangles += 2;
        }
    return 0;
}

// shape: centre, radii
static void ellipsoid_at(const double *s, double u, double v, double out[3])
{
    double a = 2 * M_PI * u, b = M_PI * v;
    out[0] = s[0] + s[3] * sin(b) * cos(a);
    out[1] = s[1] + s[4] * sin(b) * sin(a);
    out[2] = s[2] + s[5] * cos(b);
}

// shape: start 3, axis 3, radius at the start, radius at the end; v walks from the middle of the
// first cap along the wall to the middle of the second
static void tube_at(const double *s, double u, double v, double out[3])
{
    double length = sqrt(s[3] * s[3] + s[4] * s[4] + s[5] * s[5]);
    double w[3] = {s[3] / length, s[4] / length, s[5] / length};
    double a[3] = {fabs(w[0]) < 0.7, fabs(w[0]) >= 0.7, 0}, dot = 0, n = 0;
    for (int k = 0; k < 3; k++)
        dot += a[k] * w[k];
    for (int k = 0; k < 3; k++) {
        a[k] -= dot * w[k];
        n += a[k] * a[k];
    }
    for (int k = 0; k < 3; k++)
        a[k] /= sqrt(n);
    double b[3] = {w[1] * a[2] - w[2] * a[1], w[2] * a[0] - w[0] * a[2], w[0] * a[1] - w[1] * a[0]};
    double t = v < 0.25 ? 0 : v > 0.75 ? 1 : 2 * (v - 0.25);
    double full = s[6] + (s[7] - s[6]) * t;
    double r = v < 0.25 ? 4 * v * s[6] : v > 0.75 ? 4 * (1 - v) * s[7] : full;
    double c = cos(2 * M_PI * u), d = sin(2 * M_PI * u);
    for (int k = 0; k < 3; k++)
        out[k] = s[k] + t * s[3 + k] + r * (c * a[k] + d * b[k]);
}

// shape: centre 3, ring radius, tube radius, first and last angle; in the x-z plane
static void torus_at(const double *s, double u, double v, double out[3])
{
    double a = s[5] + (s[6] - s[5]) * u, b = 2 * M_PI * v, r = s[3] + s[4] * cos(b);
    out[0] = s[0] + r * cos(a);
    out[1] = s[1] + s[4] * sin(b);
    out[2] = s[2] + r * sin(a);
}

int testmesh_add_box(struct testscene_mesh *m, const double shape[6])
{
    // One call a face, because the faces do not share their rims.
    for (int face = 0; face < 6; face++) {
        int a = face / 2, b = (a + 1) % 3, c = (a + 2) % 3;
        double side = face % 2 ? -1 : 1;
        enum { N = 4 };
        if (reserve(m, (N + 1) * (N + 1), 2 * N * N))
            return -ENOMEM;
        uint32_t first = (uint32_t)m->n_vertices;
        for (int j = 0; j <= N; j++)
            for (int i = 0; i <= N; i++) {
                float *p = m->vertices_m + 3 * m->n_vertices++;
                p[a] = (float)(shape[a] + side * shape[3 + a]);
                p[b] = (float)(shape[b] + shape[3 + b] * (2.0 * i / N - 1));
                p[c] = (float)(shape[c] + shape[3 + c] * (2.0 * j / N - 1));
            }
        for (uint32_t j = 0; j < N; j++)
            for (uint32_t i = 0; i < N; i++) {
                uint32_t q = first + j * (N + 1) + i;
                uint32_t quad[6] = {q, q + 1, q + N + 1, q + 1, q + N + 2, q + N + 1};
                memcpy(m->triangles + 3 * m->n_triangles, quad, sizeof quad);
                m->n_triangles += 2;
            }
    }
    return 0;
}

int testmesh_add_tube(struct testscene_mesh *m, const double shape[8])
{
    return testmesh_add_surface(m, 32, 16, tube_at, shape);
}

int testmesh_add_ellipsoid(struct testscene_mesh *m, const double shape[6])
{
    return testmesh_add_surface(m, 32, 20, ellipsoid_at, shape);
}

int testmesh_add_torus(struct testscene_mesh *m, const double shape[7])
{
    return testmesh_add_surface(m, 24, 16, torus_at, shape);
}

void testscene_mesh_free(struct testscene_mesh *mesh)
{
    free(mesh->vertices_m);
    free(mesh->triangles);
    memset(mesh, 0, sizeof *mesh);
}

int testscene_mesh_make(enum testscene_object object, struct testscene_mesh *out)
{
    memset(out, 0, sizeof *out);
    int err = 0;
    switch (object) {
    case TESTSCENE_OBJECT_ELBOW: // a pipe with a bend, a flange and a short branch
        err |= testmesh_add_tube(out, (double[8]){0, 0, 0, 0.16, 0, 0, 0.022, 0.022});
        err |= testmesh_add_tube(out, (double[8]){0, 0, 0, 0, 0.10, 0, 0.022, 0.022});
        err |= testmesh_add_ellipsoid(out, (double[6]){0, 0, 0, 0.024, 0.024, 0.024});
        err |= testmesh_add_tube(out, (double[8]){0.15, 0, 0, 0.012, 0, 0, 0.038, 0.038});
        err |= testmesh_add_tube(out, (double[8]){0.08, 0, 0, 0, 0.01, 0.06, 0.016, 0.016});
        break;
    case TESTSCENE_OBJECT_DRILL:
        err |= testmesh_add_tube(out, (double[8]){-0.06, 0, 0, 0.13, 0, 0, 0.028, 0.026});
        err |= testmesh_add_tube(out, (double[8]){0.07, 0, 0, 0.05, 0, 0, 0.018, 0.012});
        err |= testmesh_add_tube(out, (double[8]){0.12, 0, 0, 0.05, 0, 0, 0.005, 0.003});
        err |= testmesh_add_tube(out, (double[8]){-0.02, 0, -0.015, -0.03, 0, -0.12, 0.020, 0.018});
        err |= testmesh_add_box(out, (double[6]){-0.045, 0, -0.145, 0.042, 0.028, 0.018});
        break;
    case TESTSCENE_OBJECT_MUG:
        err |= testmesh_add_tube(out, (double[8]){0, 0, 0, 0, 0, 0.004, 0.038, 0.038});
        err |= testmesh_add_surface(
            out, 40, 10, tube_at,
            (double[8]){0, 0, 0, 0, 0, 0.1, 0.038, 0.044}); // closed at the top
        err |= testmesh_add_torus(out, (double[7]){0.038, 0, 0.052, 0.030, 0.007, -1.4, 1.4});
        break;
    case TESTSCENE_OBJECT_DUCK:
        err |= testmesh_add_ellipsoid(out, (double[6]){0, 0, 0, 0.075, 0.05, 0.045});
        err |= testmesh_add_ellipsoid(out, (double[6]){0.045, 0.004, 0.065, 0.034, 0.03, 0.034});
        err |= testmesh_add_ellipsoid(out, (double[6]){0.085, 0.004, 0.058, 0.022, 0.017, 0.008});
        err |= testmesh_add_tube(out, (double[8]){-0.06, 0, 0.01, -0.04, 0, 0.035, 0.025, 0.002});
        err |= testmesh_add_ellipsoid(out, (double[6]){-0.01, 0.05, 0.005, 0.04, 0.012, 0.022});
        break;
    }
    if (err)
        testscene_mesh_free(out);
    return err ? -ENOMEM : 0;
}

// A primitive of about `size` around `centre`; machined: only what a machine makes.
static int add_part(struct testscene_mesh *m, const double centre[3], double size, bool machined,
                    uint64_t *random)
{
    double r[3];
    for (int k = 0; k < 3; k++)
        r[k] = size * testrandom_uniform(random, 0.35, 1);
    double c[3] = {centre[0], centre[1], centre[2]}, d[3] = {0, 0, 0};
    switch (testrandom_next(random) % (machined ? 4 : 6)) {
    case 0:
    case 1:
        return testmesh_add_box(m, (double[6]){c[0], c[1], c[2], r[0], r[1], r[2]});
    case 2: // along an axis
    case 3:
        d[testrandom_next(random) % 3] = r[0];
        return testmesh_add_tube(m, (double[8]){c[0] - d[0], c[1] - d[1], c[2] - d[2], 2 * d[0],
                                                2 * d[1], 2 * d[2], 0.6 * r[1],
                                                0.6 * (machined ? r[1] : r[2])});
    case 4:
        return testmesh_add_ellipsoid(m, (double[6]){c[0], c[1], c[2], r[0], r[1], r[2]});
    default:
        return testmesh_add_torus(m, (double[7]){c[0], c[1], c[2], r[0], 0.3 * r[1], 0,
                                                 M_PI * testrandom_uniform(random, 1, 2)});
    }
}

void testmesh_scale_to(struct testscene_mesh *m, double diagonal_m)
{
    double sum = 0;
    for (size_t k = 0; k < 3; k++) {
        float low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < m->n_vertices; i++) {
            low = fminf(low, m->vertices_m[3 * i + k]);
            high = fmaxf(high, m->vertices_m[3 * i + k]);
        }
        sum += (double)(high - low) * (double)(high - low);
    }
    for (size_t i = 0; i < 3 * m->n_vertices; i++)
        m->vertices_m[i] *= (float)(diagonal_m / sqrt(sum));
}

int testscene_mesh_assemble(uint64_t seed, struct testscene_mesh *out)
{
    uint64_t random = seed ^ 0x6f626a656374u;
    random = testrandom_next(&random);
    memset(out, 0, sizeof *out);
    const bool machined = seed % 2;
    double size = testrandom_uniform(&random, 0.05, 0.1), at[3] = {0, 0, 0};
    int err = add_part(out, at, size, machined, &random);
    int n = 1 + (int)(testrandom_next(&random) % 4);
    for (int i = 0; i < n && !err; i++) {
        size_t corner = testrandom_next(&random) % out->n_vertices;
        for (int k = 0; k < 3; k++)
            at[k] = (double)out->vertices_m[3 * corner + (size_t)k];
        err = add_part(out, at, size * testrandom_uniform(&random, 0.3, 0.7), machined, &random);
    }
    if (err) {
        testscene_mesh_free(out);
        return err;
    }
    testmesh_scale_to(out, testrandom_uniform(&random, 0.1, 0.3));
    return 0;
}

#define N_WAVES 3

int testmesh_warp(const struct testscene_mesh *mesh, double off_m, uint64_t *random,
                  struct testscene_mesh *out)
{
    double wave[N_WAVES][3], phase[N_WAVES], off[N_WAVES][3];
    memset(out, 0, sizeof *out);
    if (reserve(out, mesh->n_vertices, mesh->n_triangles)) {
        testscene_mesh_free(out);
        return -ENOMEM;
    }
    for (int w = 0; w < N_WAVES; w++) {
        const double per_m = 2 * M_PI / testrandom_uniform(random, 0.03, 0.1);
        double length = 0;
        for (int k = 0; k < 3; k++) {
            wave[w][k] = testrandom_normal(random);
            off[w][k] = off_m * sqrt(2.0 / N_WAVES) * testrandom_normal(random);
            length += wave[w][k] * wave[w][k];
        }
        for (int k = 0; k < 3; k++)
            wave[w][k] *= per_m / sqrt(length);
        phase[w] = testrandom_uniform(random, 0, 2 * M_PI);
    }
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        const float *p = mesh->vertices_m + 3 * i;
        float *q = out->vertices_m + 3 * i;
        memcpy(q, p, 3 * sizeof *q);
        for (int w = 0; w < N_WAVES; w++) {
            const double at = sin(wave[w][0] * (double)p[0] + wave[w][1] * (double)p[1] +
                                  wave[w][2] * (double)p[2] + phase[w]);
            for (int k = 0; k < 3; k++)
                q[k] += (float)(off[w][k] * at);
        }
    }
    memcpy(out->triangles, mesh->triangles, 3 * mesh->n_triangles * sizeof *out->triangles);
    out->n_vertices = mesh->n_vertices;
    out->n_triangles = mesh->n_triangles;
    return 0;
}

int testmesh_clutter(uint64_t *random, struct testscene_mesh *out)
{
    memset(out, 0, sizeof *out);
    if (testrandom_next(random) % 3 == 0)
        return testscene_mesh_assemble(testrandom_next(random), out);
    double a = testrandom_uniform(random, 0.02, 0.07), b = testrandom_uniform(random, 0.02, 0.07);
    double c = testrandom_uniform(random, 0.03, 0.09);
    int err = 0;
    switch (testrandom_next(random) % 5) {
    case 0:
        err = testmesh_add_box(out, (double[6]){0, 0, 0, a, b, c});
        break;
    case 1:
        err = testmesh_add_tube(out, (double[8]){0, 0, 0, 0, 0, 2 * c, a, a});
        break;
    case 2:
        err = testmesh_add_ellipsoid(out, (double[6]){0, 0, 0, a, a, a});
        break;
    case 3:
        err = testmesh_add_box(out, (double[6]){0, 0, 0, a, b, 0.02});
        err |= testmesh_add_tube(out, (double[8]){0.5 * a, 0, 0, 0, 0, 2 * c, 0.4 * b, 0.2 * b});
        break;
    default:
        err = testmesh_add_torus(
            out, (double[7]){0, 0, 0, 0.03 + 0.5 * a, 0.3 * b + 0.005, 0, 2 * M_PI});
        err |= testmesh_add_ellipsoid(out, (double[6]){0.06, 0, 0, 0.6 * b, 0.5 * b, 0.5 * a});
    }
    if (err)
        testscene_mesh_free(out);
    return err ? -ENOMEM : 0;
}
