// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/testscene.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/cpu/map.h"
#include "gpu/search/kernels/raster.h"
#include "proto/se3.h"

#define WIDTH    640
#define HEIGHT   480
#define N_PIXELS (WIDTH * HEIGHT)
#define FOCAL_PX 570.3

// splitmix64: small, and the same everywhere.
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state, double low, double high)
{
    return low + (high - low) * (double)(next_random(state) >> 11) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double u = uniform(state, 1e-12, 1), v = uniform(state, 0, 2 * M_PI);
    return sqrt(-2 * log(u)) * cos(v);
}

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

// A grid of n_u x n_v quads over a surface p(u, v), u and v in 0..1: every primitive is one.
static int add_surface(struct testscene_mesh *m, uint32_t n_u, uint32_t n_v,
                       void (*surface)(const double *shape, double u, double v, double out[3]),
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

static int add_box(struct testscene_mesh *m, const double shape[6])
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

static int add_tube(struct testscene_mesh *m, const double shape[8])
{
    return add_surface(m, 32, 16, tube_at, shape);
}

static int add_ellipsoid(struct testscene_mesh *m, const double shape[6])
{
    return add_surface(m, 32, 20, ellipsoid_at, shape);
}

static int add_torus(struct testscene_mesh *m, const double shape[7])
{
    return add_surface(m, 24, 16, torus_at, shape);
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
        err |= add_tube(out, (double[8]){0, 0, 0, 0.16, 0, 0, 0.022, 0.022});
        err |= add_tube(out, (double[8]){0, 0, 0, 0, 0.10, 0, 0.022, 0.022});
        err |= add_ellipsoid(out, (double[6]){0, 0, 0, 0.024, 0.024, 0.024});
        err |= add_tube(out, (double[8]){0.15, 0, 0, 0.012, 0, 0, 0.038, 0.038});
        err |= add_tube(out, (double[8]){0.08, 0, 0, 0, 0.01, 0.06, 0.016, 0.016});
        break;
    case TESTSCENE_OBJECT_DRILL:
        err |= add_tube(out, (double[8]){-0.06, 0, 0, 0.13, 0, 0, 0.028, 0.026});
        err |= add_tube(out, (double[8]){0.07, 0, 0, 0.05, 0, 0, 0.018, 0.012});
        err |= add_tube(out, (double[8]){0.12, 0, 0, 0.05, 0, 0, 0.005, 0.003});
        err |= add_tube(out, (double[8]){-0.02, 0, -0.015, -0.03, 0, -0.12, 0.020, 0.018});
        err |= add_box(out, (double[6]){-0.045, 0, -0.145, 0.042, 0.028, 0.018});
        break;
    case TESTSCENE_OBJECT_MUG:
        err |= add_tube(out, (double[8]){0, 0, 0, 0, 0, 0.004, 0.038, 0.038});
        err |= add_surface(out, 40, 10, tube_at,
                           (double[8]){0, 0, 0, 0, 0, 0.1, 0.038, 0.044}); // closed at the top
        err |= add_torus(out, (double[7]){0.038, 0, 0.052, 0.030, 0.007, -1.4, 1.4});
        break;
    case TESTSCENE_OBJECT_DUCK:
        err |= add_ellipsoid(out, (double[6]){0, 0, 0, 0.075, 0.05, 0.045});
        err |= add_ellipsoid(out, (double[6]){0.045, 0.004, 0.065, 0.034, 0.03, 0.034});
        err |= add_ellipsoid(out, (double[6]){0.085, 0.004, 0.058, 0.022, 0.017, 0.008});
        err |= add_tube(out, (double[8]){-0.06, 0, 0.01, -0.04, 0, 0.035, 0.025, 0.002});
        err |= add_ellipsoid(out, (double[6]){-0.01, 0.05, 0.005, 0.04, 0.012, 0.022});
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
        r[k] = size * uniform(random, 0.35, 1);
    double c[3] = {centre[0], centre[1], centre[2]}, d[3] = {0, 0, 0};
    switch (next_random(random) % (machined ? 4 : 6)) {
    case 0:
    case 1:
        return add_box(m, (double[6]){c[0], c[1], c[2], r[0], r[1], r[2]});
    case 2: // along an axis
    case 3:
        d[next_random(random) % 3] = r[0];
        return add_tube(m, (double[8]){c[0] - d[0], c[1] - d[1], c[2] - d[2], 2 * d[0], 2 * d[1],
                                       2 * d[2], 0.6 * r[1], 0.6 * (machined ? r[1] : r[2])});
    case 4:
        return add_ellipsoid(m, (double[6]){c[0], c[1], c[2], r[0], r[1], r[2]});
    default:
        return add_torus(
            m, (double[7]){c[0], c[1], c[2], r[0], 0.3 * r[1], 0, M_PI * uniform(random, 1, 2)});
    }
}

// Makes the diagonal of the bounding box so long.
static void scale_to(struct testscene_mesh *m, double diagonal_m)
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
    random = next_random(&random);
    memset(out, 0, sizeof *out);
    const bool machined = seed % 2;
    double size = uniform(&random, 0.05, 0.1), at[3] = {0, 0, 0};
    int err = add_part(out, at, size, machined, &random);
    int n = 1 + (int)(next_random(&random) % 4);
    for (int i = 0; i < n && !err; i++) {
        size_t corner = next_random(&random) % out->n_vertices;
        for (int k = 0; k < 3; k++)
            at[k] = (double)out->vertices_m[3 * corner + (size_t)k];
        err = add_part(out, at, size * uniform(&random, 0.3, 0.7), machined, &random);
    }
    if (err) {
        testscene_mesh_free(out);
        return err;
    }
    scale_to(out, uniform(&random, 0.1, 0.3));
    return 0;
}

static int clutter_make(uint64_t *random, struct testscene_mesh *out)
{
    memset(out, 0, sizeof *out);
    if (next_random(random) % 3 == 0)
        return testscene_mesh_assemble(next_random(random), out);
    double a = uniform(random, 0.02, 0.07), b = uniform(random, 0.02, 0.07);
    double c = uniform(random, 0.03, 0.09);
    int err = 0;
    switch (next_random(random) % 5) {
    case 0:
        err = add_box(out, (double[6]){0, 0, 0, a, b, c});
        break;
    case 1:
        err = add_tube(out, (double[8]){0, 0, 0, 0, 0, 2 * c, a, a});
        break;
    case 2:
        err = add_ellipsoid(out, (double[6]){0, 0, 0, a, a, a});
        break;
    case 3:
        err = add_box(out, (double[6]){0, 0, 0, a, b, 0.02});
        err |= add_tube(out, (double[8]){0.5 * a, 0, 0, 0, 0, 2 * c, 0.4 * b, 0.2 * b});
        break;
    default:
        err = add_torus(out, (double[7]){0, 0, 0, 0.03 + 0.5 * a, 0.3 * b + 0.005, 0, 2 * M_PI});
        err |= add_ellipsoid(out, (double[6]){0.06, 0, 0, 0.6 * b, 0.5 * b, 0.5 * a});
    }
    if (err)
        testscene_mesh_free(out);
    return err ? -ENOMEM : 0;
}

struct canvas {
    float *depth; // -1/z of all that is drawn so far
    float *alone; // the object without anything else
    struct raster_point *corners;
    float *value;
    size_t n_vertices; // capacity
};

static int canvas_draw(struct canvas *c, const struct testscene_mesh *mesh, const struct se3 *T,
                       float *depth)
{
    if (mesh->n_vertices > c->n_vertices) {
        free(c->corners);
        free(c->value);
        c->corners = malloc(mesh->n_vertices * sizeof *c->corners);
        c->value = malloc(mesh->n_vertices * sizeof *c->value);
        c->n_vertices = mesh->n_vertices;
        if (!c->corners || !c->value)
            return -ENOMEM;
    }
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double p[3], q[3];
        for (int k = 0; k < 3; k++)
            p[k] = (double)mesh->vertices_m[3 * i + (size_t)k];
        se3_apply(T, p, q);
        bool front = q[2] > 0.05;
        c->corners[i].x =
            raster_snap(front ? (float)(FOCAL_PX * q[0] / q[2] + (WIDTH - 1) / 2.0) : 1e9f);
        c->corners[i].y =
            raster_snap(front ? (float)(FOCAL_PX * q[1] / q[2] + (HEIGHT - 1) / 2.0) : 1e9f);
        c->value[i] = (float)(-1 / q[2]);
    }
    struct raster_mesh raster = {c->corners, c->value, mesh->triangles,
                                 (uint32_t)mesh->n_triangles};
    raster_draw(&raster, WIDTH, HEIGHT, depth, NULL);
    return 0;
}

static struct se3 random_rotation(uint64_t *random)
{
    double q[4], zero[3] = {0, 0, 0};
    for (int k = 0; k < 4; k++)
        q[k] = normal(random);
    return se3_from_quaternion(q, zero);
}

// Rests a mesh on the plane z = 0 of the world at (x, y), turned by R.
static struct se3 rest_on_table(const struct testscene_mesh *mesh, const struct se3 *R, double x,
                                double y)
{
    double low = INFINITY;
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double p[3], q[3];
        for (int k = 0; k < 3; k++)
            p[k] = (double)mesh->vertices_m[3 * i + (size_t)k];
        se3_apply(R, p, q);
        low = q[2] < low ? q[2] : low;
    }
    struct se3 T = *R;
    T.t_m[0] = x;
    T.t_m[1] = y;
    T.t_m[2] = -low;
    return T;
}

// The camera looks at the world's origin from `distance`, `elevation` above the table.
static struct se3 camera_from_world(double distance, double elevation)
{
    double c = cos(elevation), s = sin(elevation);
    // Rows: right, down, forward of the camera in the world.
    struct se3 T = {{0, 1, 0, s, 0, -c, -c, 0, -s}, {0, 0, distance}};
    return T;
}

static int add_table(struct canvas *canvas, const struct se3 *T_camera_world)
{
    struct testscene_mesh table = {0};
    int err = add_box(&table, (double[6]){-0.2, 0, -0.02, 0.7, 0.8, 0.02});
    if (!err)
        err = add_box(&table, (double[6]){-1.3, 0, 0.2, 0.02, 2, 1.2}); // a wall behind
    if (!err)
        err = canvas_draw(canvas, &table, T_camera_world, canvas->depth);
    testscene_mesh_free(&table);
    return err;
}

static int add_clutter(struct canvas *canvas, enum testscene_kind kind,
                       const struct se3 *T_camera_world, const struct se3 *T_camera_model,
                       bool hide, uint64_t *random)
{
    int n = (int)uniform(random, 4, 9);
    for (int i = 0; i < n; i++) {
        struct testscene_mesh mesh;
        int err = clutter_make(random, &mesh);
        if (err)
            return err;
        struct se3 R = random_rotation(random), T;
        if (kind == TESTSCENE_KIND_TABLE) {
            double angle = uniform(random, 0, 2 * M_PI), r = uniform(random, 0.12, 0.45);
            // Towards the camera (+x) when it is to hide something.
            if (hide && i < 3) {
                angle = uniform(random, -0.7, 0.7);
                r = uniform(random, 0.07, 0.16);
            }
            struct se3 W = rest_on_table(&mesh, &R, r * cos(angle), r * sin(angle));
            T = se3_compose(T_camera_world, &W);
        } else {
            T = R;
            double angle = uniform(random, 0, 2 * M_PI), r = uniform(random, 0.05, 0.4);
            bool front = hide && i < 2;
            T.t_m[0] = T_camera_model->t_m[0] + (front ? 0.3 * r : r) * cos(angle);
            T.t_m[1] = T_camera_model->t_m[1] + (front ? 0.3 * r : r) * sin(angle);
            T.t_m[2] = T_camera_model->t_m[2] + uniform(random, 0.22, 0.6);
        }
        err = canvas_draw(canvas, &mesh, &T, canvas->depth);
        testscene_mesh_free(&mesh);
        if (err)
            return err;
    }
    return 0;
}

// Whether pixel u of a row is in the projector's shadow: of the pixels in a row only those are
// reached whose column in the projector lies beyond that of all before. z: -1/z of the scene.
static bool in_shadow(int u, float z, double *reached)
{
    const double baseline_px_m = FOCAL_PX * 0.075;
    double seen = u + baseline_px_m * (double)z;
    bool shadow = seen < *reached - 1;
    *reached = seen > *reached ? seen : *reached;
    return shadow;
}

#define RANGE_MIN_M 0.4
#define RANGE_MAX_M 4

// Pixels at which the object that stands alone in `alone` is seen in `depth`.
static int count_shown(const struct canvas *canvas, bool noise)
{
    int n = 0;
    for (int v = 0; v < HEIGHT; v++) {
        double reached = -INFINITY;
        for (int u = 0; u < WIDTH; u++) {
            const float alone = canvas->alone[v * WIDTH + u], all = canvas->depth[v * WIDTH + u];
            const float z = alone < all ? alone : all;
            if (!(z < INFINITY))
                continue;
            bool shadow = in_shadow(u, z, &reached);
            bool out_of_range = z < -1 / RANGE_MIN_M || z > -1 / RANGE_MAX_M;
            n += alone <= all && !(noise && (shadow || out_of_range));
        }
    }
    return n;
}

// Whether a surface ends within `reach` pixels of (u, v): depth jumps by 3 cm or more.
static bool near_edge(const float *depth, int u, int v, int reach)
{
    static const int du[4] = {1, -1, 0, 0}, dv[4] = {0, 0, 1, -1};
    const float here = -1 / depth[v * WIDTH + u];
    for (int k = 0; k < 4 && reach > 0; k++) {
        const int x = u + reach * du[k], y = v + reach * dv[k];
        if (x < 0 || y < 0 || x >= WIDTH || y >= HEIGHT)
            continue;
        const float there = depth[y * WIDTH + x];
        if (!(there < INFINITY) || fabsf(-1 / there - here) > 0.03f)
            return true;
    }
    return false;
}

// Depth as a Kinect v1 gives it: pixels that the projector (7.5 cm to the side) does not reach are
// invalid, the rest is a disparity with half a step of noise, whole steps of 2.85 mm at 1 m; edges
// fray by a pixel, and of those within 0 to 3 pixels of an edge, another number for each scene,
// two in three are lost. Returns at how many pixels the object is seen.
static int expose(const struct canvas *canvas, bool noise, uint64_t *random, struct testscene *out)
{
    const float *depth = canvas->depth;
    const int lost_px = noise ? (int)(next_random(random) % 4) : 0;
    int n_shown = 0;
    for (int v = 0; v < HEIGHT; v++) {
        double reached = -INFINITY;
        for (int u = 0; u < WIDTH; u++) {
            int su = u, sv = v;
            if (noise) {
                su += (int)lrint(0.6 * normal(random));
                sv += (int)lrint(0.4 * normal(random));
                su = su < 0 ? 0 : su >= WIDTH ? WIDTH - 1 : su;
                sv = sv < 0 ? 0 : sv >= HEIGHT ? HEIGHT - 1 : sv;
            }
            float value = depth[sv * WIDTH + su], straight = depth[v * WIDTH + u];
            uint16_t *pixel = &out->depth[v * WIDTH + u];
            *pixel = 0;
            out->shown[v * WIDTH + u] = 0;
            out->z_m[v * WIDTH + u] = straight < INFINITY ? -1 / straight : 0;
            if (!(value < INFINITY) || !(straight < INFINITY))
                continue;
            double z = -1 / (double)value;
            if (noise) {
                bool shadow = in_shadow(u, straight, &reached);
                double step = 1 / (0.00285 * z) + 0.45 * normal(random);
                z = 1 / (0.00285 * floor(step + 0.5));
                const double luck = uniform(random, 0, 1);
                if (shadow || z > RANGE_MAX_M || z < RANGE_MIN_M || luck < 0.005 ||
                    (luck < 0.67 && near_edge(depth, u, v, lost_px)))
                    continue;
            }
            *pixel = (uint16_t)lrint(z * 1000);
            out->shown[v * WIDTH + u] = canvas->alone[v * WIDTH + u] <= straight;
            n_shown += canvas->alone[sv * WIDTH + su] <= value;
        }
    }
    return n_shown;
}

static int arrange(const struct testscene_mesh *object, const struct testscene_settings *settings,
                   uint64_t *random, struct canvas *canvas, struct testscene *out, int *out_n_alone)
{
    for (int i = 0; i < N_PIXELS; i++)
        canvas->depth[i] = canvas->alone[i] = INFINITY;
    struct se3 R = random_rotation(random);
    struct se3 T_camera_world =
        camera_from_world(uniform(random, 0.55, 1.1), uniform(random, 0.5, 1.1));
    bool hide = settings->visible_max < 0.9f;
    int err = 0;
    if (settings->kind == TESTSCENE_KIND_TABLE) {
        struct se3 W =
            rest_on_table(object, &R, uniform(random, -0.12, 0.12), uniform(random, -0.2, 0.2));
        // Clutter is arranged around the origin: move the world so that the object is there.
        double shift[3] = {W.t_m[0], W.t_m[1], 0};
        W.t_m[0] = W.t_m[1] = 0;
        se3_apply(&T_camera_world, shift, T_camera_world.t_m);
        out->T_camera_model = se3_compose(&T_camera_world, &W);
        err = add_table(canvas, &T_camera_world);
    } else {
        out->T_camera_model = R;
        out->T_camera_model.t_m[0] = uniform(random, -0.12, 0.12);
        out->T_camera_model.t_m[1] = uniform(random, -0.1, 0.1);
        out->T_camera_model.t_m[2] = uniform(random, 0.6, 0.9);
    }
    if (!err)
        err = add_clutter(canvas, settings->kind, &T_camera_world, &out->T_camera_model, hide,
                          random);
    if (!err)
        err = canvas_draw(canvas, object, &out->T_camera_model, canvas->alone);
    const int n_shown = count_shown(canvas, settings->noise);
    int n_alone = 0;
    for (int i = 0; i < N_PIXELS; i++) {
        n_alone += canvas->alone[i] < INFINITY;
        if (!settings->absent && canvas->alone[i] < canvas->depth[i])
            canvas->depth[i] = canvas->alone[i];
    }
    out->visible = n_alone ? (float)n_shown / (float)n_alone : 0;
    *out_n_alone = n_alone;
    return err;
}

int testscene_create(const struct testscene_mesh *object, const struct testscene_settings *settings,
                     struct testscene *out)
{
    memset(out, 0, sizeof *out);
    if (object->n_triangles == 0)
        return -EINVAL;
    // Mixed first: the generator walks in equal steps, so that seeds that follow each other would
    // give one stream shifted by a number, and the same arrangement again.
    uint64_t random = settings->seed;
    random = next_random(&random);
    struct canvas canvas = {.depth = malloc(N_PIXELS * sizeof *canvas.depth),
                            .alone = malloc(N_PIXELS * sizeof *canvas.alone)};
    out->camera = (struct intrinsics){FOCAL_PX,           FOCAL_PX, (WIDTH - 1) / 2.0,
                                      (HEIGHT - 1) / 2.0, WIDTH,    HEIGHT};
    out->depth = malloc(N_PIXELS * sizeof *out->depth);
    out->z_m = malloc(N_PIXELS * sizeof *out->z_m);
    out->shown = malloc(N_PIXELS * sizeof *out->shown);
    int err = canvas.depth && canvas.alone && out->depth && out->z_m && out->shown ? 0 : -ENOMEM;
    for (int attempt = 0; attempt < 200 && !err; attempt++) {
        int n_alone;
        err = arrange(object, settings, &random, &canvas, out, &n_alone);
        // Noise only takes away: what is below is not worth the exposure.
        if (err || (attempt < 199 && out->visible < settings->visible_min))
            continue;
        const int n_shown = expose(&canvas, settings->noise, &random, out);
        if (!settings->absent)
            out->visible = n_alone ? (float)n_shown / (float)n_alone : 0;
        if (out->visible >= settings->visible_min && out->visible <= settings->visible_max)
            break;
    }
    free(canvas.depth);
    free(canvas.alone);
    free(canvas.corners);
    free(canvas.value);
    if (err)
        testscene_free(out);
    return err;
}

void testscene_free(struct testscene *scene)
{
    free(scene->depth);
    free(scene->z_m);
    free(scene->shown);
    scene->depth = NULL;
    scene->z_m = NULL;
    scene->shown = NULL;
}
