// SPDX-License-Identifier: Apache-2.0
// The registration against references that share no formula with it (reference.h): each formula of
// gpu/register/kernels on random input, then whole stages of both operation tables.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/kernels/annealing_step.h"
#include "gpu/register/kernels/weights.h"
#include "tests/check/check.h"
#include "tests/check/register/reference.h"

static const struct check_limit limits[] = {
    {"formula", 1e-12, 1e-11, "double against double, other order of operations"},
    {"rotation", 1e-9, 0,
     "the quartic's root is right to 1e-12, its eigenvector to the gap's share"},
    {"double stage", 1e-9, 1e-8, "the dense form: double throughout, up to 40 steps"},
    {"float stage", 5e-5, 2e-4, "sums of 200 float products a row; the vectors feed back"},
    {"half stage", 2e-4, 1e-3, "the tensor cores' coordinates are split half precision"},
};
enum { LIMIT_FORMULA, LIMIT_ROTATION, LIMIT_DOUBLE, LIMIT_FLOAT, LIMIT_HALF };

// ---- Formulas

#define N_PAIRS 40

static struct reference_pair memory[N_PAIRS];
static struct reference_pairs pairs = {N_PAIRS, memory};
static double sums[REGISTER_N_SUMS];

static void random_twist(double size, double out[6])
{
    for (int i = 0; i < 6; i++)
        out[i] = check_uniform(-size, size);
}

// Random points and planes; x is y moved by a motion of this size, with noise.
static void make_pairs(double motion, double noise)
{
    double twist[6];
    random_twist(motion, twist);
    const struct se3 T = reference_exp(twist);
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < N_PAIRS; i++) {
        struct reference_pair *p = &memory[i];
        double length = 0;
        p->w = check_uniform(0.1, 2);
        for (int a = 0; a < 3; a++) {
            p->y[a] = check_uniform(-1, 1) + 0.3 * a;
            p->n[a] = check_gaussian();
            length += p->n[a] * p->n[a];
        }
        for (int a = 0; a < 3; a++) {
            p->n[a] /= sqrt(length);
            p->x[a] = T.t_m[a] + noise * check_gaussian();
            for (int b = 0; b < 3; b++)
                p->x[a] += T.r[3 * a + b] * p->y[b];
        }
        if (i % 7 == 0)
            memset(p->n, 0, sizeof p->n);
        register_add_pair(sums, p->w, p->x, p->y);
        register_add_plane(sums, p->w, p->x, p->y, p->n);
    }
}

static void compare_pose(const struct check_limit *limit, const struct se3 *got,
                         const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        check_close(limit, got->r[i], expected->r[i], 0, "rotation");
    for (int i = 0; i < 3; i++)
        check_close(limit, got->t_m[i], expected->t_m[i], 0, "translation");
}

static void check_steps(void)
{
    check_case("steps from pairs");
    for (int i = 0; i < 60; i++) {
        make_pairs(i < 20 ? 0.05 : i < 40 ? 1 : 2.5, i % 2 ? 0 : 0.1);
        struct se3 got, expected;
        check_that(reference_points_step(&pairs, &expected) > 1e-3, "the pairs hold a rotation");
        check_that(register_solve_points(sums, &got), "determined");
        compare_pose(&limits[LIMIT_ROTATION], &got, &expected);
        check_that(reference_planes_step(&pairs, &expected) > 1e-4, "the planes hold a pose");
        check_that(register_solve_planes(sums, &got), "determined");
        compare_pose(&limits[LIMIT_ROTATION], &got, &expected);

        double information[36], reference[36];
        register_information(sums, information);
        reference_information(&pairs, reference);
        for (int k = 0; k < 36; k++)
            check_close(&limits[LIMIT_FORMULA], information[k], reference[k], 100, "information");
        double a[6], b[6];
        random_twist(1, a);
        random_twist(1, b);
        check_close(&limits[LIMIT_FORMULA], register_motion(sums, a, b),
                    reference_motion(&pairs, a, b), 100, "motion");
        struct register_run run = {.T = se3_identity()};
        double mass;
        struct se3 step;
        check_that(register_step(sums, i % 2, &run, &step), "determined");
        check_close(&limits[LIMIT_FORMULA], run.residual2, reference_residual2(&pairs, &mass), 1,
                    "residual");
        check_close(&limits[LIMIT_FORMULA], run.mass, mass, 100, "mass");
        memset(&run.information, 0, sizeof run.information);
        register_finish(sums, &run);
        check_close(&limits[LIMIT_FORMULA], run.information[35], reference[35], 100, "finish");
    }
}

// Half turns, mirror images, points on a line, one point, no weight.
static void check_degenerate(void)
{
    check_case("rotations that hardly hold");
    for (int i = 0; i < 12; i++) { // axis 3: no turn; then also clouds as flat as a coin, a rod
        const int axis = i % 4;
        const double turn = axis < 3 ? 3.14159265358979 : 0, flat = pow(0.2, i / 4);
        double twist[6] = {0.1, 0.2, -0.3, 0, 0, 0};
        if (axis < 3)
            twist[3 + axis] = turn;
        struct se3 T = reference_exp(twist), got;
        memset(sums, 0, sizeof sums);
        for (int k = 0; k < 9; k++) {
            const double y[3] = {check_gaussian(), flat * check_gaussian(),
                                 flat * flat * check_gaussian()};
            double x[3];
            se3_apply(&T, y, x);
            register_add_pair(sums, 1, x, y);
        }
        check_that(register_solve_points(sums, &got), "a half turn is a rotation");
        compare_pose(&limits[LIMIT_ROTATION], &got, &T);
    }
    for (int kind = 0; kind < 4; kind++) {
        struct se3 got;
        memset(sums, 0, sizeof sums);
        for (int i = 0; i < 9; i++) {
            const double s = kind == 0 ? 0 : i * 0.1, y[3] = {s, 2 * s + 1, 0.5 - s};
            register_add_pair(sums, kind == 2 ? 0 : kind == 3 ? -1 : 1, y, y);
        }
        check_that(!register_solve_points(sums, &got), "kind %d is not determined", kind);
        check_that(got.r[0] == 1 && got.r[1] == 0 && got.t_m[0] == 0, "then nothing moves");
    }
    // All planes face one way: point to point decides.
    struct se3 got, expected;
    make_pairs(0.3, 0.05);
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < N_PAIRS; i++) {
        const double n[3] = {0, 0, 1};
        register_add_pair(sums, memory[i].w, memory[i].x, memory[i].y);
        register_add_plane(sums, memory[i].w, memory[i].x, memory[i].y, n);
    }
    reference_points_step(&pairs, &expected);
    check_that(register_solve_planes(sums, &got), "determined");
    compare_pose(&limits[LIMIT_ROTATION], &got, &expected);
    // A residual of nothing.
    struct register_run run = {.T = se3_identity(), .residual2 = 9};
    memset(sums, 0, sizeof sums);
    check_that(!register_step(sums, false, &run, &got) && run.residual2 == 0 && run.mass == 0,
               "no pairs, no step");
}

static void check_weights(void)
{
    check_case("weights");
    for (int i = 0; i < 200; i++) {
        const double sigma2 = check_uniform(0.001, 0.3), d = check_uniform(0.02, 0.3);
        const double slack = check_uniform(0.01, 1), sum = check_uniform(0, 20);
        // 2^-(g d)^2 = exp(-d^2 / (2 sigma^2))
        const double g = register_scale(sigma2);
        check_close(&limits[LIMIT_FORMULA], exp2(-g * g * d * d), exp(-d * d / (2 * sigma2)), 1,
                    "scale");
        const double neighbours = 6.283185307179586 * sigma2 / (d * d);
        check_close(&limits[LIMIT_FORMULA], register_slack(slack, sigma2, d),
                    slack * sqrt(1 + neighbours), 10, "slack");
        check_close(&limits[LIMIT_FORMULA], register_presence(sum, sigma2, d),
                    sum / (sum + 0.044 * neighbours), 1, "presence");
        // lambda = sum e / sqrt(C), at and around the authors' limit on C.
        static const double c[] = {0.5, 1.01e-6, 0.99e-6, 1e-6};
        const double sum_x[3] = {sum * 0.3, sum * -2, sum}, mean[3] = {7, 8, 9};
        double x[3], sum2 = c[i % 4] / 3, outlier = c[i % 4] - sum2;
        const double w = register_paper_row(sum, sum2, sum_x, outlier, mean, x);
        const bool kept = i % 4 < 2;
        if (i % 4 == 3)
            continue;
        check_close(&limits[LIMIT_FORMULA], w, kept ? sum / sqrt(outlier + sum2) : 1, 1e5, "row");
        check_close(&limits[LIMIT_FORMULA], x[1], kept ? -2 : 8, 10, "counterpart");
    }
    const double nothing[3] = {0}, mean[3] = {7, 8, 9};
    double x[3];
    check_that(register_paper_row(0, 0, nothing, 0.5, mean, x) == 0,
               "all e underflowed: no weight");
    check_that(x[0] == 7 && x[1] == 8 && x[2] == 9, "nor a counterpart");
}

// Sequences of steps that shrink by any ratio, turn, grow, stop: the same length left, the same
// leaps.
static void check_pace(void)
{
    int n_leaps = 0;
    check_case("pace");
    for (int series = 0; series < 200; series++) {
        struct register_pace pace = register_pace_begin();
        struct reference_pace reference;
        struct register_run run = {.T = se3_identity()};
        struct se3 T = run.T;
        double twist[6], shrink = check_uniform(0.3, 1.1);
        random_twist(1e-3, twist);
        reference_pace_begin(&reference);
        for (int i = 0; i < 8; i++) {
            double mass;
            make_pairs(0.01, 0.02);
            run.residual2 = reference_residual2(&pairs, &mass);
            struct se3 step = reference_exp(twist), moved = run.T;
            const double left = register_pace_take(&pace, sums, &step, &run);
            const double expected = reference_pace_take(&reference, &pairs, &step, &T);
            check_close(&limits[LIMIT_FORMULA], left, expected, fabs(expected) * 1e3, "left");
            compare_pose(&limits[LIMIT_FORMULA], &run.T, &T);
            n_leaps += memcmp(&moved, &run.T, sizeof moved) != 0;
            for (int k = 0; k < 6; k++)
                twist[k] *= shrink;
            if (check_random() % 6 == 0)
                random_twist(1e-3, twist);
            // Nearly along, to either side of the angle that counts as one line.
            if (series % 2)
                for (int k = 0; k < 6; k++)
                    twist[k] += check_uniform(-3e-4, 3e-4);
        }
    }
    check_that(n_leaps > 150, "%d leaps", n_leaps);
    // Nothing moves and nothing is off: nothing is left.
    struct register_pace pace = register_pace_begin();
    struct register_run run = {.T = se3_identity()};
    const struct se3 still = se3_identity();
    make_pairs(0.01, 0.02);
    check_that(register_pace_take(&pace, sums, &still, &run) == 0, "nothing left");
}

// ---- Stages

#define N_SOURCE 210
#define N_TARGET 190

static float coordinates[2][6][N_SOURCE];
static struct point_set source, target;

// A bumpy ball with normals, the target moved by 0.2, a seventh of either set where the other has
// nothing.
static void make_sets(void)
{
    const double twist[6] = {0.1, -0.05, 0.08, 0.1, 0.15, -0.1};
    const struct se3 T = reference_exp(twist);
    for (int side = 0; side < 2; side++) {
        float(*c)[N_SOURCE] = coordinates[side];
        for (int i = 0; i < N_SOURCE; i++) {
            double d[3] = {check_gaussian(), check_gaussian(), check_gaussian()}, q[3];
            const double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
            const double r = 1 + 0.3 * sin(3 * d[0] / length) + 0.2 * cos(4 * d[1] / length);
            for (int a = 0; a < 3; a++) {
                d[a] /= length;
                c[3 + a][i] = (float)d[a];
                d[a] *= i % 7 ? r : side ? 1.7 : 0.4;
            }
            se3_apply(&T, d, q);
            for (int a = 0; a < 3; a++)
                c[a][i] = (float)(side ? q[a] : d[a]);
            if (i % 11 == 5)
                c[3][i] = c[4][i] = c[5][i] = 0;
        }
    }
    source = (struct point_set){coordinates[0][0], coordinates[0][1], coordinates[0][2],
                                coordinates[0][3], coordinates[0][4], coordinates[0][5],
                                N_SOURCE};
    target = (struct point_set){coordinates[1][0], coordinates[1][1], coordinates[1][2],
                                coordinates[1][3], coordinates[1][4], coordinates[1][5],
                                N_TARGET};
}

static void compare_run(const struct check_limit *limit, const struct register_run *got,
                        const struct register_run *expected)
{
    compare_pose(limit, &got->T, &expected->T);
    check_close(limit, got->mass, expected->mass, expected->mass, "mass");
    check_close(limit, got->residual2, expected->residual2, expected->residual2, "residual");
    check_close(limit, got->presence_source, expected->presence_source, 0, "source's presence");
    check_close(limit, got->presence_target, expected->presence_target, 0, "target's presence");
    for (int i = 0; i < 36; i++)
        check_close(limit, got->information[i], expected->information[i], expected->mass * 2,
                    "information");
    check_that(got->n_iterations == expected->n_iterations, "%u iterations, not %u",
               got->n_iterations, expected->n_iterations);
    check_that(got->converged == expected->converged, "converged");
    check_that(got->determined, "determined");
}

static const struct {
    const char *name;
    struct register_anneal anneal;
} anneals[] = {
    {"EM-ICP as published",
     {.weighting = REGISTER_WEIGHTING_PAPER,
      .sigma2_first = 0.3,
      .sigma2_last = 0.02,
      .factor = 0.8,
      .n_inner = 1,
      .outlier_d2 = 0.03}},
    {"EM-ICP, rows without a neighbour",
     {.weighting = REGISTER_WEIGHTING_PAPER,
      .sigma2_first = 0.01,
      .sigma2_last = 0.004,
      .factor = 0.7,
      .n_inner = 2,
      .outlier_d2 = 0.2}},
    {"two-sided, held",
     {.weighting = REGISTER_WEIGHTING_SINKHORN,
      .sigma2_first = 0.1,
      .sigma2_last = 0.03,
      .factor = 0.75,
      .n_inner = 1,
      .n_hold = 7,
      .tolerance = 1e-9,
      .n_sweeps = 1,
      .slack = 0.05,
      .slack_spacing = 0.1,
      .presence_sigma2 = 0.01,
      .presence_spacing = 0.15}},
    {"two-sided, until it stands",
     {.weighting = REGISTER_WEIGHTING_SINKHORN,
      .sigma2_first = 0.05,
      .sigma2_last = 0.04,
      .factor = 0.75,
      .n_inner = 1,
      .n_hold = 60,
      .tolerance = 0.05,
      .n_sweeps = 2,
      .slack = 0.1}},
    {"two-sided, sigma stays at the noise",
     {.weighting = REGISTER_WEIGHTING_SINKHORN,
      .sigma2_first = 0.1,
      .sigma2_last = 0.001,
      .factor = 0.8,
      .n_inner = 1,
      .n_hold = 3,
      .residual_ratio = 0.9,
      .n_sweeps = 1,
      .slack = 0.05}},
    {"two-sided, planes",
     {.weighting = REGISTER_WEIGHTING_SINKHORN,
      .sigma2_first = 0.1,
      .sigma2_last = 0.05,
      .factor = 0.8,
      .n_inner = 1,
      .n_sweeps = 1,
      .slack = 0.05,
      .planes = true}},
    {"Softassign",
     {.weighting = REGISTER_WEIGHTING_SINKHORN,
      .sigma2_first = 0.1,
      .sigma2_last = 0.03,
      .factor = 0.7,
      .n_inner = 2,
      .n_sweeps = 5,
      .cold = true,
      .slack = 1,
      .slack_alpha = 0.05}},
};

static const struct {
    const char *name;
    struct register_nearest nearest;
} nearests[] = {
    {"icp", {.kind = REGISTER_NEAREST_ICP, .n_iterations = 4}},
    {"icp, planes", {.kind = REGISTER_NEAREST_ICP, .n_iterations = 3, .planes = true}},
    {"truncated",
     {.kind = REGISTER_NEAREST_TRUNCATED, .n_iterations = 12, .sigma2 = 0.04, .slack = 0.3}},
    {"truncated, planes",
     {.kind = REGISTER_NEAREST_TRUNCATED,
      .n_iterations = 4,
      .sigma2 = 0.04,
      .slack = 0.3,
      .planes = true}},
    {"truncated, until it stands",
     {.kind = REGISTER_NEAREST_TRUNCATED,
      .n_iterations = 200,
      .sigma2 = 0.04,
      .slack = 0.3,
      .tolerance = 0.1}},
};

static void check_stages(const struct register_ops *ops, void *device)
{
    const bool on_cpu = ops->backend == GPU_BACKEND_CPU;
    const char *name = on_cpu ? "cpu" : "cuda";
    const double twist[6] = {0.02, 0.01, -0.03, 0.03, -0.02, 0.04};
    check_case("%s, load", name);
    check_that(ops->load(device, REGISTER_SOURCE, &source) == 0 &&
                   ops->load(device, REGISTER_TARGET, &target) == 0,
               "load");
    for (size_t i = 0; i < sizeof anneals / sizeof *anneals; i++)
        for (int dense = 0; dense < 2; dense++) {
            struct register_anneal anneal = anneals[i].anneal;
            struct register_run run = {.T = se3_exp(twist)}, expected = run;
            check_case("%s, %s, %s", name, anneals[i].name, dense ? "dense" : "streaming");
            anneal.n_source = N_SOURCE - 5; // the first of the set
            anneal.n_target = N_TARGET - 3;
            anneal.form = dense ? REGISTER_FORM_DENSE : REGISTER_FORM_STREAMING;
            const int rc = ops->anneal(device, &anneal, &run, 1, NULL);
            if (!check_that(rc == 0, "returned %d", rc))
                continue;
            reference_anneal(&source, &target, &anneal, &expected);
            compare_run(&limits[on_cpu ? (dense ? LIMIT_DOUBLE : LIMIT_FLOAT) : LIMIT_HALF], &run,
                        &expected);
        }
    for (size_t i = 0; i < sizeof nearests / sizeof *nearests; i++) {
        struct register_nearest nearest = nearests[i].nearest;
        struct register_run run = {.T = se3_exp(twist)}, expected = run;
        check_case("%s, %s", name, nearests[i].name);
        nearest.n_source = N_SOURCE - 5;
        nearest.n_target = N_TARGET - 3;
        const int rc = ops->nearest(device, &nearest, &run, NULL);
        if (!check_that(rc == 0, "returned %d", rc))
            continue;
        reference_nearest(&source, &target, &nearest, &expected);
        compare_run(&limits[on_cpu ? LIMIT_FLOAT : LIMIT_HALF], &run, &expected);
    }
}

static void check_table(const struct register_ops *ops, struct pool *pool)
{
    struct register_config config = {.n_threads = 2, .cuda_device = -1, .log = check_log()};
    void *device = NULL;
    check_case("open");
    const int rc = ops->open(&device, &config, pool);
    if (rc == -ENODEV) {
        check_skip("no CUDA device");
        return;
    }
    if (!check_that(rc == 0, "returned %d", rc))
        return;
    check_stages(ops, device);
    ops->close(device);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_steps();
    check_degenerate();
    check_weights();
    check_pace();
    make_sets();
    struct pool *pool = NULL;
    check_case("pool");
    if (check_that(pool_create(&pool, 2) == 0, "pool")) {
        check_table(&register_cpu_ops, pool);
#ifdef POSED_HAVE_CUDA
        check_table(&register_cuda_ops, pool);
#else
        check_skip("CUDA is not built in");
#endif
        pool_destroy(&pool);
    }
    return check_end();
}
