// SPDX-License-Identifier: Apache-2.0
// What the registration does on surfaces: each formula against references that share none with it
// (surface_reference.h), cells against brute force, then both twins on whole sets: the same points
// to the bit, the same poses whatever the number of threads.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/candidates.h"
#include "gpu/register/consistency.h"
#include "gpu/register/kernels/fpfh.h"
#include "gpu/register/kernels/pair.h"
#include "gpu/register/kernels/plane.h"
#include "proto/se3.h"
#include "tests/check/check.h"
#include "tests/check/register/surface_reference.h"

static const struct check_limit limits[] = {
    {"formula", 1e-10, 1e-9, "double against double, weights of up to 1 / (2 epsilon)"},
    {"normal", 1e-5, 0, "the normal is kept as floats; Newton's root is right to 1e-9"},
    {"twins", 1e-9, 1e-9, "the same sums in another order"},
    {"pose", 2e-3, 0, "of the set's size: noise of 1/500 of it on 3000 points"},
};
enum { LIMIT_FORMULA, LIMIT_NORMAL, LIMIT_TWINS, LIMIT_POSE };

static void random_direction(double out[3])
{
    double length = 0;
    for (int a = 0; a < 3; a++) {
        out[a] = check_gaussian();
        length += out[a] * out[a];
    }
    for (int a = 0; a < 3; a++)
        out[a] /= sqrt(length);
}

static void check_gicp(void)
{
    for (int k = 0; k < 200; k++) {
        double y[3], q[3], a[3], b[3], sums[GICP_N_SUMS] = {0}, h[36] = {0}, g[6] = {0};
        const double epsilon = k % 2 ? 1e-3 : 0.05;
        random_direction(a);
        random_direction(b);
        for (int i = 0; i < 3; i++) {
            y[i] = check_uniform(-3, 3);
            q[i] = y[i] + check_uniform(-0.1, 0.1);
            a[i] = k % 5 == 0 ? 0 : a[i];
            b[i] = k % 7 == 0 ? 0 : k % 3 == 0 ? -a[i] : b[i];
        }
        check_case("gicp %d", k);
        const double w = k % 4 ? check_uniform(0.1, 3) : 1;
        gicp_add(sums, w, y, a, q, b, epsilon);
        surface_reference_gicp(y, a, q, b, epsilon, h, g);
        for (int i = 0; i < 36; i++)
            h[i] *= w;
        for (int i = 0; i < 6; i++)
            g[i] *= w;
        for (int i = 0, at = GICP_SUM_H; i < 6; i++) {
            check_close(&limits[LIMIT_FORMULA], sums[GICP_SUM_G + i], g[i], 100, "gradient");
            for (int j = i; j < 6; j++)
                check_close(&limits[LIMIT_FORMULA], sums[at++], h[6 * i + j], 1000,
                            "normal matrix");
        }
    }
}

// Across the planes of both the larger of two distances; between points without planes their own.
static void check_apart(void)
{
    const double x[3] = {1, 0, 0}, oblique[3] = {0.6, 0.8, 0}, none[3] = {0, 0, 0};
    const double e[3] = {0.3, 0.4, 0.5};
    check_case("distances between planes");
    check_close(&limits[LIMIT_FORMULA], gicp_apart2(e, x, oblique), 0.25, 1, "larger: second");
    check_close(&limits[LIMIT_FORMULA], gicp_apart2(e, oblique, x), 0.25, 1, "larger: first");
    check_close(&limits[LIMIT_FORMULA], gicp_apart2(e, x, none), 0.09, 1, "first alone");
    check_close(&limits[LIMIT_FORMULA], gicp_apart2(e, none, x), 0.09, 1, "second alone");
    check_close(&limits[LIMIT_FORMULA], gicp_apart2(e, none, none), 0.5, 1, "of points");
}

static void check_planes(void)
{
    for (int k = 0; k < 100; k++) {
        double points[40][3], normal[3], expected[3], variance, sine2 = 0;
        struct register_moments moments = {0};
        float got[3], spread2;
        random_direction(normal);
        for (int i = 0; i < 40; i++) {
            double along = 0;
            for (int a = 0; a < 3; a++) {
                points[i][a] = check_uniform(-1, 1);
                along += points[i][a] * normal[a];
            }
            for (int a = 0; a < 3; a++)
                points[i][a] -= (1 - 0.05 * (k % 4)) * along * normal[a];
            register_moments_add(&moments, points[i][0], points[i][1], points[i][2]);
        }
        check_case("plane %d", k);
        check_that(register_plane_fit(&moments, got, &spread2), "a plane is there");
        surface_reference_plane((const double(*)[3])points, 40, expected, &variance);
        for (int a = 0; a < 3; a++) {
            const int b = (a + 1) % 3, c = (a + 2) % 3;
            const double across = got[b] * expected[c] - got[c] * expected[b];
            sine2 += across * across;
        }
        check_close(&limits[LIMIT_NORMAL], sqrt(sine2), 0, 1, "sine");
        check_close(&limits[LIMIT_NORMAL], spread2, variance, 1, "variance");
    }
    check_case("a line has no plane");
    struct register_moments line = {0};
    float normal[3], spread2;
    for (int i = 0; i < 10; i++)
        register_moments_add(&line, i, 2 * i, -i);
    check_that(!register_plane_fit(&line, normal, &spread2) && normal[0] == 0, "found one");
}

static void check_features(void)
{
    int n_near_border = 0, n = 0;
    for (int k = 0; k < 2000; k++) {
        double p[3], q[3], normal[3], other[3], expected[3];
        float nf[3], mf[3], line[3], d2 = 0;
        int bins[3], mirrored[3];
        random_direction(normal);
        random_direction(other);
        for (int a = 0; a < 3; a++) {
            p[a] = check_uniform(-1, 1);
            q[a] = check_uniform(-1, 1);
            nf[a] = (float)normal[a];
            mf[a] = (float)other[a];
            line[a] = (float)(q[a] - p[a]);
            d2 += line[a] * line[a];
        }
        check_case("pair %d", k);
        if (!surface_reference_angles(p, normal, q, other, expected) ||
            !check_that(fpfh_pair(nf, mf, line, sqrtf(d2), bins), "the frame is defined"))
            continue;
        for (int a = 0; a < 3; a++) {
            const double position = expected[a] * FPFH_BINS;
            if (fabs(position - round(position)) < 0.005) {
                n_near_border++;
                continue;
            }
            n++;
            check_that(bins[a] - a * FPFH_BINS == (int)position, "angle %d: bin %d, position %f", a,
                       bins[a] - a * FPFH_BINS, position);
        }
        // Both normals on the other side: the mirrored bins.
        const float back[3] = {-nf[0], -nf[1], -nf[2]}, other_back[3] = {-mf[0], -mf[1], -mf[2]};
        if (fpfh_pair(back, other_back, line, sqrtf(d2), mirrored))
            for (int a = 0; a < 3; a++)
                if (fabs(expected[a] * FPFH_BINS - round(expected[a] * FPFH_BINS)) > 0.005)
                    check_that(mirrored[a] == fpfh_mirrored(bins[a]), "mirrored angle %d", a);
    }
    check_case("features");
    check_that(n > 20 * n_near_border, "%d of %d at a border", n_near_border, n);
}

// Correspondences of which one in five is right.
#define N_MATCHES 500
static void check_votes(struct pool *pool)
{
    static struct register_cell_point points[2][N_MATCHES], normals[2][N_MATCHES];
    static struct register_match matches[N_MATCHES];
    struct register_vote votes[4];
    const double twist[6] = {0.4, -0.3, 0.2, 1.1, -0.7, 2.0};
    const struct se3 T = se3_exp(twist);
    for (uint32_t i = 0; i < N_MATCHES; i++) {
        double p[3], n[3], q[3], m[3];
        random_direction(n);
        for (int a = 0; a < 3; a++)
            p[a] = check_uniform(-1, 1);
        se3_apply(&T, p, q);
        for (int a = 0; a < 3; a++)
            m[a] = T.r[3 * a] * n[0] + T.r[3 * a + 1] * n[1] + T.r[3 * a + 2] * n[2];
        for (int a = 0; a < 3 && i % 5 != 0; a++)
            q[a] = check_uniform(-1, 1);
        points[0][i] = (struct register_cell_point){(float)p[0], (float)p[1], (float)p[2], 1};
        points[1][i] = (struct register_cell_point){(float)q[0], (float)q[1], (float)q[2], 1};
        normals[0][i] = (struct register_cell_point){(float)n[0], (float)n[1], (float)n[2], 0};
        normals[1][i] = (struct register_cell_point){(float)m[0], (float)m[1], (float)m[2], 0};
        matches[i] = (struct register_match){i, i, 0, true};
    }
    const struct register_features source = {
        .n = N_MATCHES, .points = points[0], .normals = normals[0]};
    const struct register_features target = {
        .n = N_MATCHES, .points = points[1], .normals = normals[1]};
    check_case("votes");
    const int n =
        register_consistency_vote(pool, &source, &target, matches, N_MATCHES, 0.04, votes, 4);
    if (!check_that(n > 0, "%d poses", n))
        return;
    const struct se3 apart = se3_between(&T, &votes[0].T);
    check_close(&limits[LIMIT_POSE], se3_angle(&apart), 0, 1, "angle");
    check_that(votes[0].n_inliers >= N_MATCHES / 5, "%u inliers", votes[0].n_inliers);
}

// ---- Whole sets

#define N_POINTS 60000
static float sets[2][3][N_POINTS];

static void make_sets(const struct se3 *T)
{
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < N_POINTS; i++) {
            const double z = check_uniform(-1, 1), phi = check_uniform(0, 2 * M_PI);
            const double s = sqrt(1 - z * z), n[3] = {s * cos(phi), s * sin(phi), z};
            const double r = 0.4 * (1 + 0.25 * sin(3 * n[0] + 1) + 0.2 * cos(4 * n[1] + 2 * n[2]) +
                                    0.15 * sin(5 * n[2] - 2 * n[0])) +
                             0.001 * check_gaussian();
            const double p[3] = {r * n[0], 0.8 * r * n[1], 1.2 * r * n[2] + 0.1};
            double q[3];
            memcpy(q, p, sizeof q);
            if (side == 1)
                se3_apply(T, p, q);
            for (int a = 0; a < 3; a++)
                sets[side][a][i] = (float)q[a];
        }
}

struct outcome {
    struct register_surfaces surfaces;
    struct register_cell_point *points, *normals; // of the source's first level
    struct register_fit fit;
    struct register_worth worth;
};

static bool run_table(const struct register_ops *ops, uint32_t n_threads, const struct se3 *start,
                      struct outcome *out)
{
    const struct register_config config = {
        .n_threads = n_threads, .cuda_device = -1, .log = check_log()};
    struct point_set points[2];
    struct pool *pool = NULL;
    void *device = NULL;
    for (int side = 0; side < 2; side++)
        points[side] = (struct point_set){sets[side][0], sets[side][1], sets[side][2], NULL,
                                          NULL,          NULL,          N_POINTS};
    if (!check_that(pool_create(&pool, n_threads) == 0, "pool"))
        return false;
    int rc = ops->open(&device, &config, pool);
    if (rc == -ENODEV) {
        check_skip("no CUDA device");
        pool_destroy(&pool);
        return false;
    }
    memset(out, 0, sizeof *out);
    if (rc == 0)
        rc = register_surfaces_build(&out->surfaces, ops, device, pool, &points[0], &points[1],
                                     NULL);
    const struct register_local local = {ops, device, &out->surfaces, NULL};
    const uint32_t n = out->surfaces.info[0][0].n;
    out->points = check_alloc((n + 1) * sizeof *out->points);
    out->normals = check_alloc((n + 1) * sizeof *out->normals);
    if (rc == 0)
        rc = ops->fetch(device, REGISTER_SOURCE, 0, out->points, out->normals);
    out->fit.T = register_surfaces_local(&out->surfaces, start);
    if (rc == 0)
        rc = register_local_align(&local, out->surfaces.n_levels - 1, 0, &out->fit, 1);
    if (rc == 0)
        rc = register_local_judge(&local, 0, &out->fit, 1, &out->worth);
    check_that(rc == 0, "returned %d", rc);
    if (device)
        ops->close(device);
    pool_destroy(&pool);
    return rc == 0;
}

static void free_outcome(struct outcome *outcome)
{
    check_free(outcome->points);
    check_free(outcome->normals);
}

// Each cell's mean against a search of all points; the nearest point too.
static void check_cells(const struct outcome *outcome)
{
    struct register_cells cells = outcome->surfaces.info[0][0].cells;
    const uint32_t n = outcome->surfaces.info[0][0].n, n_blocks = register_cells_count(&cells);
    cells.mask = calloc(n_blocks, sizeof *cells.mask);
    cells.first = calloc(n_blocks, sizeof *cells.first);
    if (!check_that(cells.mask && cells.first, "memory"))
        return;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t fraction[3];
        const float p[3] = {outcome->points[i].x, outcome->points[i].y, outcome->points[i].z};
        const uint32_t cell = register_cells_find(&cells, p, fraction);
        check_that(cell != REGISTER_CELLS_NONE, "point %u lies in no cell", i);
        cells.mask[cell >> 6] |= (uint64_t)1 << (cell & 63);
    }
    for (uint32_t b = 0, first = 0; b < n_blocks; b++) {
        cells.first[b] = first;
        first += register_cells_bits(cells.mask[b]);
    }
    double weight = 0;
    for (uint32_t i = 0; i < n; i++)
        weight += outcome->points[i].weight;
    check_that(weight <= N_POINTS && weight > 0.99 * N_POINTS, "%f points in cells", weight);
    for (int k = 0; k < 500; k++) {
        const struct register_cell_point *near = &outcome->points[check_random() % n];
        const float reach = (float)check_uniform(0.2, 4) * cells.cell_m;
        const float p[3] = {near->x + (float)check_uniform(-2, 2) * cells.cell_m,
                            near->y + (float)check_uniform(-2, 2) * cells.cell_m,
                            near->z + (float)check_uniform(-2, 2) * cells.cell_m};
        uint32_t expected = REGISTER_CELLS_NONE;
        float least = reach * reach, d2;
        for (uint32_t i = 0; i < n; i++)
            if (register_cells_distance2(&outcome->points[i], p) < least) {
                least = register_cells_distance2(&outcome->points[i], p);
                expected = i;
            }
        check_case("nearest %d", k);
        const uint32_t got = register_cells_nearest(&cells, outcome->points, p, reach, &d2);
        check_that(got == expected, "point %u, expected %u", got, expected);
    }
    free(cells.mask);
    free(cells.first);
}

static void compare(const struct outcome *a, const struct outcome *b, bool bits)
{
    const uint32_t n = a->surfaces.info[0][0].n;
    if (!check_that(n == b->surfaces.info[0][0].n, "%u and %u points", n, b->surfaces.info[0][0].n))
        return;
    check_that(memcmp(a->points, b->points, n * sizeof *a->points) == 0, "the points differ");
    check_that(memcmp(a->normals, b->normals, n * sizeof *a->normals) == 0, "the normals differ");
    if (bits)
        check_that(memcmp(&a->fit.T, &b->fit.T, sizeof a->fit.T) == 0 &&
                       memcmp(&a->worth, &b->worth, sizeof a->worth) == 0,
                   "the poses differ");
    const struct se3 apart = se3_between(&a->fit.T, &b->fit.T);
    check_close(&limits[LIMIT_TWINS], se3_angle(&apart), 0, 1, "angle");
    check_close(&limits[LIMIT_TWINS], a->worth.score, b->worth.score, 1, "score");
}

static void check_sets(void)
{
    const double twist[6] = {0.05, -0.04, 0.06, 0.2, -0.15, 0.1};
    const struct se3 T = se3_exp(twist), start = se3_identity();
    struct outcome one, other;
    make_sets(&T);
    check_case("one thread");
    if (!run_table(&register_cpu_ops, 1, &start, &one))
        return;
    const struct se3 found = register_surfaces_metric(&one.surfaces, &one.fit.T);
    const struct se3 apart = se3_between(&T, &found);
    check_close(&limits[LIMIT_POSE], se3_angle(&apart), 0, 1, "angle");
    check_that(one.fit.converged && one.worth.score > 0.8, "score %f", one.worth.score);
    check_cells(&one);
    check_case("three threads");
    if (run_table(&register_cpu_ops, 3, &start, &other)) {
        compare(&one, &other, true);
        free_outcome(&other);
    }
#ifdef POSED_HAVE_CUDA
    check_case("cuda");
    if (run_table(&register_cuda_ops, 2, &start, &other)) {
        compare(&one, &other, false);
        free_outcome(&other);
    }
#else
    check_skip("CUDA is not built in");
#endif
    free_outcome(&one);
}

int main(int argc, char **argv)
{
    struct pool *pool = NULL;
    check_begin(argc, argv);
    check_gicp();
    check_apart();
    check_planes();
    check_features();
    check_case("pool");
    if (check_that(pool_create(&pool, 2) == 0, "pool")) {
        check_votes(pool);
        pool_destroy(&pool);
    }
    check_sets();
    return check_end();
}
