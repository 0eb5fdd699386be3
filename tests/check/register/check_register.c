// SPDX-License-Identifier: Apache-2.0
// The registration's operations: the streaming form against the dense one (double precision, the
// matrix in memory), the CUDA twin against the CPU, near pairs against a plain search; the same
// bits for any number of threads and in every run.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/kernels/solve.h"
#include "gpu/register/ops.h"
#include "tests/check/check.h"

static const struct check_limit limits[] = {
    {"paper", 2e-5, 0, "sums in float over up to 1,000 columns, 21 steps; measured 1e-6"},
    {"sinkhorn", 5e-5, 0, "as above; the scaling vectors feed back into the weights"},
    {"residual", 2e-4, 2e-4, "a mean of squared differences of the same sums"},
    {"presence", 1e-4, 0, "a share; sums of the same exponentials"},
    {"twins", 1e-4, 0, "CUDA adds in another order and splits coordinates into half precision"},
    {"near", 1e-6, 0, "both search exactly; float distances, double sums"},
    {"left", 0.5, 0, "standard deviations; 0.1 is promised as an estimate from three steps"},
};
enum {
    LIMIT_PAPER,
    LIMIT_SINKHORN,
    LIMIT_RESIDUAL,
    LIMIT_PRESENCE,
    LIMIT_TWINS,
    LIMIT_NEAR,
    LIMIT_LEFT
};

enum fill { FILL_SURFACE, FILL_OUTLIERS, FILL_EQUAL, N_FILLS };
static const char *const fill_names[] = {"surface", "outliers", "equal sets"};

struct sets {
    float *memory;
    struct point_set side[2];
};

// A bumpy surface of radius about 1, its normals only roughly right; the target is moved by 0.2.
static void make_sets(struct sets *sets, uint32_t n_source, uint32_t n_target, enum fill fill)
{
    const double twist[6] = {0.1, -0.05, 0.08, 0.1, 0.15, -0.1};
    struct se3 T = se3_exp(twist);
    size_t n = n_source > n_target ? n_source : n_target;
    sets->memory = check_alloc(12 * n * sizeof(float));
    for (int side = 0; side < 2; side++) {
        float *p[6];
        for (int a = 0; a < 6; a++)
            p[a] = sets->memory + ((size_t)side * 6 + (size_t)a) * n;
        sets->side[side] =
            (struct point_set){p[0], p[1], p[2], p[3], p[4], p[5], side ? n_target : n_source};
        for (size_t i = 0; i < n; i++) {
            double d[3] = {check_gaussian(), check_gaussian(), check_gaussian()}, q[3];
            double length = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) + 1e-9;
            double r = 1 + 0.3 * sin(3 * d[0] / length) + 0.2 * cos(4 * d[1] / length);
            for (int a = 0; a < 3; a++)
                d[a] *= fill == FILL_OUTLIERS && i % 3 == 0 ? 1.5 : r / length;
            if (fill == FILL_EQUAL && side == 1)
                for (int a = 0; a < 3; a++)
                    d[a] = sets->memory[(size_t)a * n + i];
            if (side == 1)
                se3_apply(&T, d, q);
            for (int a = 0; a < 3; a++) {
                p[a][i] = (float)(side == 1 ? q[a] : d[a]);
                p[3 + a][i] = (float)(d[a] / 1.2);
            }
        }
    }
}

static void load(const struct register_ops *ops, void *device, const struct sets *sets)
{
    for (int side = 0; side < 2; side++)
        check_that(ops->load(device, (enum register_side)side, &sets->side[side]) == 0, "load");
}

static void compare_runs(const struct check_limit *limit, const struct register_run *got,
                         const struct register_run *expected)
{
    for (int i = 0; i < 9; i++)
        check_close(limit, got->T.r[i], expected->T.r[i], 0, "rotation");
    for (int i = 0; i < 3; i++)
        check_close(limit, got->T.t_m[i], expected->T.t_m[i], 0, "translation");
    check_close(&limits[LIMIT_RESIDUAL], got->residual2, expected->residual2, expected->residual2,
                "residual");
    check_close(&limits[LIMIT_PRESENCE], got->presence_source, expected->presence_source, 0,
                "presence of the source");
    check_close(&limits[LIMIT_PRESENCE], got->presence_target, expected->presence_target, 0,
                "presence of the target");
    check_that(got->n_iterations == expected->n_iterations, "%u iterations, not %u",
               got->n_iterations, expected->n_iterations);
    check_that(got->determined == expected->determined, "determined");
}

struct anneal_case {
    const char *name;
    struct register_anneal anneal;
    int limit;
};

static const struct anneal_case anneal_cases[] = {
    {"paper",
     {.weighting = REGISTER_WEIGHTING_PAPER,
      .sigma2_first = 0.3,
      .sigma2_last = 0.003,
      .factor = 0.8,
      .n_inner = 1,
      .outlier_d2 = 0.03},
     LIMIT_PAPER},
    {"two-sided",
     {.weighting = REGISTER_WEIGHTING_SINKHORN,
      .sigma2_first = 0.1,
      .sigma2_last = 0.01,
      .factor = 0.85,
      .n_inner = 1,
      .n_hold = 5,
      .tolerance = 1e-9,
      .n_sweeps = 1,
      .slack = 0.05,
      .slack_spacing = 0.1},
     LIMIT_SINKHORN},
    {"two-sided, planes",
     {.weighting = REGISTER_WEIGHTING_SINKHORN,
      .sigma2_first = 0.02,
      .sigma2_last = 0.01,
      .factor = 0.9,
      .n_inner = 1,
      .n_sweeps = 1,
      .slack = 0.05,
      .slack_spacing = 0.1,
      .planes = true},
     LIMIT_SINKHORN},
    {"softassign",
     {.weighting = REGISTER_WEIGHTING_SINKHORN,
      .sigma2_first = 0.1,
      .sigma2_last = 0.01,
      .factor = 0.7,
      .n_inner = 2,
      .n_sweeps = 3,
      .cold = true,
      .slack = 1,
      .slack_alpha = 0.02},
     LIMIT_SINKHORN},
};

static const uint32_t sizes[][2] = {
    {3, 3},    {1, 7},    {31, 17},    {64, 64},
    {65, 129}, {100, 33}, {700, 1000}, {1100, 1001}}; // the last one on tensor cores

static struct register_anneal settings_for(const struct sets *sets,
                                           const struct anneal_case *anneal_case)
{
    struct register_anneal anneal = anneal_case->anneal;
    anneal.n_source = (uint32_t)sets->side[0].n_points;
    anneal.n_target = (uint32_t)sets->side[1].n_points;
    anneal.presence_sigma2 = 0.01;
    anneal.presence_spacing = 0.1;
    return anneal;
}

// Points moved by no more than rounding moves them on the way through the other form or twin.
static void nudge_sets(const struct sets *sets, struct sets *out)
{
    const size_t n[2] = {sets->side[0].n_points, sets->side[1].n_points};
    *out = *sets;
    float *to = out->memory = check_alloc(3 * (n[0] + n[1]) * sizeof(float));
    for (int side = 0; side < 2; side++) {
        const struct point_set *from = &sets->side[side];
        const float *axes[3] = {from->x_m, from->y_m, from->z_m};
        for (size_t a = 0; a < 3; a++)
            for (size_t i = 0; i < n[side]; i++)
                to[a * n[side] + i] = axes[a][i] + 1e-6f * (float)((int)((7 * i + 3 * a) % 5) - 2);
        out->side[side].x_m = to;
        out->side[side].y_m = to + n[side];
        out->side[side].z_m = to + 2 * n[side];
        to += 3 * n[side];
    }
}

static struct {
    int n_cases, n_rounding;
} posed_well;

// Where rounding decides which way a step goes, or how far a leap, there is nothing to compare: too
// few points, a few hundred planes among outliers that leave the step all but undetermined, sets
// that end elsewhere when their points move by 2e-6.
static bool is_well_posed(void *cpu, const struct sets *sets, const struct register_anneal *anneal,
                          const struct register_run *dense, const struct check_limit *limit)
{
    const uint32_t n = anneal->n_source < anneal->n_target ? anneal->n_source : anneal->n_target;
    if (n < (anneal->planes ? 1000 : 17))
        return false;
    struct sets nudged;
    struct register_run run = {.T = se3_identity()};
    nudge_sets(sets, &nudged);
    load(&register_cpu_ops, cpu, &nudged);
    int rc = register_cpu_ops.anneal(cpu, anneal, &run, 1, NULL);
    check_that(rc == 0, "nudged points returned %d", rc);
    check_free(nudged.memory);
    load(&register_cpu_ops, cpu, sets);
    double furthest = 0;
    for (int i = 0; i < 9; i++)
        furthest = fmax(furthest, fabs(run.T.r[i] - dense->T.r[i]));
    posed_well.n_cases++;
    if (furthest <= limit->absolute / 2)
        return true;
    posed_well.n_rounding++;
    check_skip("rounding decides where a set ends: not compared there");
    return false;
}

static void check_streaming(const struct register_ops *ops, void *device,
                            const struct register_anneal *anneal, const struct register_run *dense,
                            bool well_posed, const struct check_limit *limit)
{
    struct register_run got = {.T = se3_identity()}, again = got, batch[5];
    int rc = ops->anneal(device, anneal, &got, 1, NULL);
    check_that(rc == 0, "streaming returned %d", rc);
    if (well_posed)
        compare_runs(limit, &got, dense);
    for (int i = 0; i < 9; i++)
        check_that(isfinite(got.T.r[i]), "rotation is not finite");
    rc = ops->anneal(device, anneal, &again, 1, NULL);
    check_that(rc == 0 && memcmp(&again, &got, sizeof got) == 0, "other bits the second time");
    // A batch gives each run what it gets alone.
    for (int i = 0; i < 5; i++) {
        const double twist[6] = {0, 0, 0.01 * i, 0, 0.02 * i, 0};
        memset(&batch[i], 0, sizeof batch[i]);
        batch[i].T = i == 0 ? se3_identity() : se3_exp(twist);
    }
    rc = ops->anneal(device, anneal, batch, 5, NULL);
    check_that(rc == 0, "batch returned %d", rc);
    if (well_posed)
        compare_runs(limit, &batch[0], dense);
    if (ops->backend == GPU_BACKEND_CPU)
        check_that(memcmp(&batch[0], &got, sizeof got) == 0, "batch: other bits than alone");
}

static void check_anneal(const struct register_ops *ops, void *device, const struct sets *sets,
                         const struct anneal_case *anneal_case, void *cpu)
{
    bool on_cpu = ops->backend == GPU_BACKEND_CPU;
    const struct check_limit *limit = &limits[on_cpu ? anneal_case->limit : LIMIT_TWINS];
    struct register_anneal anneal = settings_for(sets, anneal_case);
    struct register_run dense = {.T = se3_identity()}, got = dense;
    anneal.form = REGISTER_FORM_DENSE;
    int rc = register_cpu_ops.anneal(cpu, &anneal, &dense, 1, NULL);
    check_that(rc == 0, "dense returned %d", rc);
    bool well_posed = is_well_posed(cpu, sets, &anneal, &dense, limit);
    if (!on_cpu) {
        rc = ops->anneal(device, &anneal, &got, 1, NULL);
        check_that(rc == 0, "dense on the device returned %d", rc);
        if (well_posed)
            compare_runs(limit, &got, &dense);
    }
    anneal.form = REGISTER_FORM_STREAMING;
    check_streaming(ops, device, &anneal, &dense, well_posed, limit);
}

// One ICP or truncated step by a search over all pairs, in double.
static struct se3 plain_near_step(const struct sets *sets, const struct register_nearest *nearest)
{
    double sums[REGISTER_N_SUMS] = {0};
    const struct point_set *s = &sets->side[0], *t = &sets->side[1];
    for (size_t i = 0; i < s->n_points; i++) {
        double y[3] = {s->x_m[i], s->y_m[i], s->z_m[i]}, best[3] = {0}, best_d2 = INFINITY;
        double sum = 0, soft[3] = {0};
        for (size_t j = 0; j < t->n_points; j++) {
            double x[3] = {t->x_m[j], t->y_m[j], t->z_m[j]}, d2 = 0;
            for (int a = 0; a < 3; a++)
                d2 += (x[a] - y[a]) * (x[a] - y[a]);
            if (d2 < best_d2) {
                best_d2 = d2;
                memcpy(best, x, sizeof best);
            }
            double e = d2 <= 9 * nearest->sigma2 ? exp(-d2 / (2 * nearest->sigma2)) : 0;
            sum += e;
            for (int a = 0; a < 3; a++)
                soft[a] += e * x[a];
        }
        if (nearest->kind == REGISTER_NEAREST_ICP) {
            register_add_pair(sums, 1, best, y);
        } else if (sum > 0) {
            for (int a = 0; a < 3; a++)
                soft[a] /= sum;
            register_add_pair(sums, sum / (nearest->slack + sum), soft, y);
        }
    }
    struct se3 step;
    check_that(register_solve_points(sums, &step), "the plain step is not determined");
    return step;
}

static void check_nearest(const struct register_ops *ops, void *device, const struct sets *sets)
{
    const struct register_nearest cases[] = {
        {.kind = REGISTER_NEAREST_ICP, .n_iterations = 1},
        {.kind = REGISTER_NEAREST_TRUNCATED, .n_iterations = 1, .sigma2 = 0.04, .slack = 0.3},
    };
    for (int k = 0; k < 2; k++) {
        struct register_nearest nearest = cases[k];
        nearest.n_source = (uint32_t)sets->side[0].n_points;
        nearest.n_target = (uint32_t)sets->side[1].n_points;
        struct register_run run = {.T = se3_identity()};
        int rc = ops->nearest(device, &nearest, &run, NULL);
        check_that(rc == 0, "returned %d", rc);
        struct se3 expected = plain_near_step(sets, &nearest);
        const struct check_limit *limit =
            &limits[ops->backend == GPU_BACKEND_CPU ? LIMIT_NEAR : LIMIT_TWINS];
        for (int i = 0; i < 9; i++)
            check_close(limit, run.T.r[i], expected.r[i], 0, "rotation");
        for (int i = 0; i < 3; i++)
            check_close(limit, run.T.t_m[i], expected.t_m[i], 0, "translation");
    }
}

// Standard deviations of the pose between two runs: the metric of b's information matrix.
static double deviations_between(const struct register_run *a, const struct register_run *b)
{
    const struct se3 inverse = se3_inverse(&a->T), d = se3_compose(&b->T, &inverse);
    double twist[6], sum = 0;
    se3_log(&d, twist);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            sum += twist[i] * b->information[6 * i + j] * twist[j];
    return sqrt(sum / (b->residual2 / 3));
}

// A run that calls itself converged is where it would end after many more steps, and the leaps get
// it there in few: plain steps shrink by a tenth each and take 50 and more.
static void check_convergence(const struct register_ops *ops, void *device)
{
    static const enum register_nearest_kind kinds[] = {REGISTER_NEAREST_ICP,
                                                       REGISTER_NEAREST_TRUNCATED};
    struct sets sets;
    make_sets(&sets, 1100, 1001, FILL_SURFACE);
    load(ops, device, &sets);
    for (int k = -1; k < 2; k++) {
        struct register_run runs[2] = {{.T = se3_identity()}, {.T = se3_identity()}};
        check_case("%s, convergence of %s", ops->backend == GPU_BACKEND_CPU ? "cpu" : "cuda",
                   k < 0    ? "an anneal"
                   : k == 0 ? "icp"
                            : "truncated weights");
        for (int i = 0; i < 2; i++) {
            struct register_anneal anneal = settings_for(&sets, &anneal_cases[1]);
            struct register_nearest nearest = {
                .n_source = 1100, .n_target = 1001, .sigma2 = 0.01, .slack = 0.3};
            int rc;
            if (k < 0) {
                anneal.sigma2_first = anneal.sigma2_last;
                anneal.n_hold = i ? 400 : 100;
                anneal.tolerance = i ? 1e-9 : 0.1;
                rc = ops->anneal(device, &anneal, &runs[i], 1, NULL);
            } else {
                nearest.kind = kinds[k];
                nearest.n_iterations = i ? 400 : 100;
                nearest.tolerance = i ? 1e-9 : 0.1;
                rc = ops->nearest(device, &nearest, &runs[i], NULL);
            }
            check_that(rc == 0, "returned %d", rc);
        }
        check_that(runs[0].converged, "not converged after %u steps", runs[0].n_iterations);
        check_that(runs[0].n_iterations <= 45, "%u steps", runs[0].n_iterations);
        check_close(&limits[LIMIT_LEFT], deviations_between(&runs[0], &runs[1]), 0, 0,
                    "what was left");
    }
    check_free(sets.memory);
}

static void check_backend(const struct register_ops *ops, void *device, void *cpu)
{
    const char *name = ops->backend == GPU_BACKEND_CPU ? "cpu" : "cuda";
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++)
        for (int fill = 0; fill < (check_is_short() ? 1 : N_FILLS); fill++) {
            struct sets sets;
            const uint32_t n = sizes[size][0], m = sizes[size][1];
            if (!check_wanted(name, n > m ? n : m))
                continue;
            make_sets(&sets, n, m, (enum fill)fill);
            load(ops, device, &sets);
            load(&register_cpu_ops, cpu, &sets);
            for (size_t i = 0; i < sizeof anneal_cases / sizeof anneal_cases[0]; i++) {
                check_case("%s, %s, %u x %u, %s", name, anneal_cases[i].name, n, m,
                           fill_names[fill]);
                check_anneal(ops, device, &sets, &anneal_cases[i], cpu);
            }
            check_case("%s, near pairs, %u x %u, %s", name, n, m, fill_names[fill]);
            if (n >= 31)
                check_nearest(ops, device, &sets);
            check_free(sets.memory);
        }
    if (check_wanted(name, 1100))
        check_convergence(ops, device);
}

// The bits must not depend on how many threads share the work.
static void check_threads(void)
{
    check_case("threads");
    struct sets sets;
    make_sets(&sets, 900, 1100, FILL_OUTLIERS);
    struct register_run runs[3] = {
        {.T = se3_identity()}, {.T = se3_identity()}, {.T = se3_identity()}};
    for (uint32_t i = 0; i < 3; i++) {
        struct register_config config = {.n_threads = 1 + 2 * i, .log = check_log()};
        void *device = NULL;
        struct pool *pool = NULL;
        if (!check_that(pool_create(&pool, config.n_threads) == 0, "pool") ||
            !check_that(register_cpu_ops.open(&device, &config, pool) == 0, "open"))
            break;
        load(&register_cpu_ops, device, &sets);
        struct register_anneal anneal = settings_for(&sets, &anneal_cases[1]);
        struct register_nearest nearest = {
            .kind = REGISTER_NEAREST_ICP, .n_source = 900, .n_target = 900, .n_iterations = 10};
        int rc = register_cpu_ops.anneal(device, &anneal, &runs[i], 1, NULL);
        check_that(rc == 0, "anneal returned %d", rc);
        rc = register_cpu_ops.nearest(device, &nearest, &runs[i], NULL);
        check_that(rc == 0, "nearest returned %d", rc);
        check_that(memcmp(&runs[i], &runs[0], sizeof runs[0]) == 0, "%u threads: other bits",
                   config.n_threads);
        register_cpu_ops.close(device);
        pool_destroy(&pool);
    }
    check_free(sets.memory);
}

#ifdef POSED_HAVE_CUDA
// Where a launch ends must not change a bit: slices of 1 us end it after each pass.
static void check_slices(const struct register_config *whole, struct pool *pool)
{
    static const uint32_t pairs[][2] = {{1100, 1001}, {300, 20000}, {20000, 500}};
    struct register_config sliced = *whole;
    void *devices[2] = {NULL, NULL};
    sliced.slice_us = 1;
    check_case("cuda, slices");
    if (check_that(register_cuda_ops.open(&devices[0], whole, pool) == 0, "open") &&
        check_that(register_cuda_ops.open(&devices[1], &sliced, pool) == 0, "open"))
        for (size_t k = 0; k < sizeof pairs / sizeof pairs[0] * 4; k++) {
            const uint32_t *n = pairs[k / 4];
            if (!check_wanted("cuda", n[0] > n[1] ? n[0] : n[1]))
                continue;
            struct sets sets;
            make_sets(&sets, n[0], n[1], FILL_SURFACE);
            check_case("cuda, slices, %s, %u x %u", anneal_cases[k % 4].name, n[0], n[1]);
            struct register_anneal anneal = settings_for(&sets, &anneal_cases[k % 4]);
            struct register_run runs[2][3];
            memset(runs, 0, sizeof runs);
            for (int i = 0; i < 2; i++) {
                load(&register_cuda_ops, devices[i], &sets);
                for (int j = 0; j < 3; j++)
                    runs[i][j].T = se3_identity();
                int rc = register_cuda_ops.anneal(devices[i], &anneal, runs[i], 1, NULL);
                check_that(rc == 0, "returned %d", rc);
                rc = register_cuda_ops.anneal(devices[i], &anneal, runs[i] + 1, 2, NULL);
                check_that(rc == 0, "two runs: returned %d", rc);
            }
            check_that(memcmp(runs[0], runs[1], sizeof runs[0]) == 0, "other bits");
            check_free(sets.memory);
        }
    for (int i = 0; i < 2; i++)
        if (devices[i])
            register_cuda_ops.close(devices[i]);
}
#endif

struct timed {
    const struct register_ops *ops;
    void *device;
    struct register_anneal anneal;
};

static void run_timed(void *context)
{
    struct timed *timed = context;
    struct register_run run = {.T = se3_identity()};
    if (timed->ops->anneal(timed->device, &timed->anneal, &run, 1, NULL) < 0)
        abort();
}

static void bench(const struct register_ops *ops, void *device)
{
    struct sets sets;
    make_sets(&sets, 2000, 2000, FILL_SURFACE);
    load(ops, device, &sets);
    for (size_t i = 0; i < sizeof anneal_cases / sizeof anneal_cases[0]; i++) {
        struct timed timed = {ops, device, settings_for(&sets, &anneal_cases[i])};
        char name[96];
        snprintf(name, sizeof name, "%s, %s, 2000 x 2000",
                 ops->backend == GPU_BACKEND_CPU ? "cpu" : "cuda", anneal_cases[i].name);
        check_time(name, 9, run_timed, &timed);
    }
    check_free(sets.memory);
}

static void check_cuda(const struct register_config *config, struct pool *pool, void *cpu)
{
#ifdef POSED_HAVE_CUDA
    void *cuda = NULL;
    int rc = register_cuda_ops.open(&cuda, config, pool);
    if (rc == -ENODEV) {
        check_skip("no CUDA device");
        return;
    }
    check_case("cuda, open");
    if (!check_that(rc == 0, "returned %d", rc))
        return;
    check_backend(&register_cuda_ops, cuda, cpu);
    check_slices(config, pool);
    if (check_bench_wanted())
        bench(&register_cuda_ops, cuda);
    register_cuda_ops.close(cuda);
#else
    (void)config;
    (void)pool;
    (void)cpu;
    check_skip("CUDA is not built in");
#endif
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    struct register_config config = {.n_threads = 2, .cuda_device = -1, .log = check_log()};
    void *cpu = NULL, *reference = NULL;
    struct pool *pool = NULL;
    check_case("open");
    if (check_that(pool_create(&pool, config.n_threads) == 0, "pool") &&
        check_that(register_cpu_ops.open(&cpu, &config, pool) == 0, "cpu") &&
        check_that(register_cpu_ops.open(&reference, &config, pool) == 0, "cpu")) {
        check_backend(&register_cpu_ops, cpu, reference);
        if (check_wanted("cpu", 1100))
            check_threads();
        if (check_bench_wanted())
            bench(&register_cpu_ops, cpu);
        check_cuda(&config, pool, reference);
    }
    check_case("sets of which rounding decides the end");
    check_that(6 * posed_well.n_rounding <= posed_well.n_cases, "%d of %d", posed_well.n_rounding,
               posed_well.n_cases);
    register_cpu_ops.close(cpu);
    register_cpu_ops.close(reference);
    pool_destroy(&pool);
    return check_end();
}
