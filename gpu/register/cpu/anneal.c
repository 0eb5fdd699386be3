// SPDX-License-Identifier: Apache-2.0
// The registration on the CPU, streaming form. A single run shares out blocks of rows to the
// threads; a batch of runs (start many) shares out the runs. Sums over rows are kept for each
// block and added in the blocks' order: the bits do not depend on the number of threads.
#include "gpu/register/cpu/device.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/register/kernels/annealing_step.h"
#include "gpu/register/kernels/solve.h"
#include "gpu/register/kernels/weights.h"

enum { A_SX, A_SY, A_SZ, A_TX, A_TY, A_TZ, A_U, A_V, A_SUM, A_SUM2, A_MX, A_MY, A_MZ, N_ARRAYS };

// The state of one run.
struct work {
    struct register_cpu *cpu;
    bool parallel; // rows are shared out; else this run has one thread
    const struct register_anneal *anneal;
    const struct register_stop *stop;
    _Atomic int stopped;    // register_stopped's answer, once it is not 0: nothing counts any more
    float *array[N_ARRAYS]; // room points each
    double *partial;        // REGISTER_N_SUMS for each block of rows
    size_t room;
    double sigma2, scale, slack, outlier, target_mean[3];
    double sums[REGISTER_N_SUMS];
};

static size_t blocks_of(size_t n)
{
    return (n + REGISTER_PASS_BLOCK - 1) / REGISTER_PASS_BLOCK;
}

int register_cpu_schedule(const struct register_anneal *anneal, struct register_run *run,
                          const struct register_stop *stop,
                          const double *(*iterate)(void *context, double sigma2,
                                                   const struct se3 *T),
                          void *context)
{
    struct register_schedule schedule = register_schedule_begin(anneal, run);
    const double *sums;
    do {
        int rc = register_stopped(stop);
        if (rc < 0)
            return rc;
        sums = iterate(context, schedule.sigma2, &run->T);
    } while (sums && register_schedule_take(anneal, sums, run, &schedule));
    return 0;
}

static int work_init(struct work *work, struct register_cpu *cpu,
                     const struct register_anneal *anneal, bool parallel)
{
    memset(work, 0, sizeof *work);
    work->cpu = cpu;
    work->anneal = anneal;
    work->parallel = parallel;
    size_t n = anneal->n_source > anneal->n_target ? anneal->n_source : anneal->n_target;
    work->room = blocks_of(n) * REGISTER_PASS_BLOCK;
    size_t bytes = N_ARRAYS * work->room * sizeof(float);
    float *memory = aligned_alloc(64, bytes);
    work->partial = malloc(blocks_of(n) * REGISTER_N_SUMS * sizeof *work->partial);
    work->array[0] = memory;
    if (!memory || !work->partial)
        return -ENOMEM;
    memset(memory, 0, bytes);
    for (int i = 0; i < N_ARRAYS; i++)
        work->array[i] = memory + (size_t)i * work->room;
    const struct point_set *target = &cpu->set[REGISTER_TARGET];
    const float *const axes[3] = {target->x_m, target->y_m, target->z_m};
    for (int a = 0; a < 3; a++) {
        for (size_t j = 0; j < anneal->n_target; j++)
            work->target_mean[a] += axes[a][j];
        work->target_mean[a] /= anneal->n_target;
    }
    return 0;
}

static void work_free(struct work *work)
{
    free(work->array[0]);
    free(work->partial);
}

struct block_loop {
    struct work *work;
    void (*task)(void *work, uint32_t block);
};

static void run_block(void *context, uint32_t block)
{
    const struct block_loop *loop = context;
    struct work *work = loop->work;
    int stopped = work->stopped ? work->stopped : register_stopped(work->stop);
    if (stopped < 0)
        work->stopped = stopped;
    else
        loop->task(work, block);
}

// Runs task on each block of n rows, or on some, and sets work->stopped.
static void for_blocks(struct work *work, void (*task)(void *work, uint32_t block), size_t n)
{
    struct block_loop loop = {work, task};
    uint32_t n_blocks = (uint32_t)blocks_of(n);
    if (work->parallel)
        pool_run(work->cpu->pool, run_block, &loop, n_blocks);
    else
        for (uint32_t i = 0; i < n_blocks; i++) {
            pool_yield(work->cpu->pool);
            run_block(&loop, i);
        }
}

// Adds the blocks' partial sums in their order.
static void gather_sums(struct work *work, size_t n)
{
    memset(work->sums, 0, sizeof work->sums);
    for (size_t block = 0; block < blocks_of(n); block++)
        for (int k = 0; k < REGISTER_N_SUMS; k++)
            work->sums[k] += work->partial[block * REGISTER_N_SUMS + (size_t)k];
}

// Source points as T moves them, and target points, both scaled for this sigma.
static void place_points(struct work *work, const struct se3 *T)
{
    const struct point_set *source = &work->cpu->set[REGISTER_SOURCE];
    const struct point_set *target = &work->cpu->set[REGISTER_TARGET];
    float m[12], g = (float)work->scale;
    for (int i = 0; i < 9; i++)
        m[i] = (float)(T->r[i] * work->scale);
    for (int i = 0; i < 3; i++)
        m[9 + i] = (float)(T->t_m[i] * work->scale);
    for (size_t i = 0; i < work->anneal->n_source; i++) {
        float x = source->x_m[i], y = source->y_m[i], z = source->z_m[i];
        work->array[A_SX][i] = m[0] * x + m[1] * y + m[2] * z + m[9];
        work->array[A_SY][i] = m[3] * x + m[4] * y + m[5] * z + m[10];
        work->array[A_SZ][i] = m[6] * x + m[7] * y + m[8] * z + m[11];
    }
    for (size_t j = 0; j < work->anneal->n_target; j++) {
        work->array[A_TX][j] = g * target->x_m[j];
        work->array[A_TY][j] = g * target->y_m[j];
        work->array[A_TZ][j] = g * target->z_m[j];
    }
}

static struct register_rows rows_of(const struct work *work, enum register_side side)
{
    float *const *points = work->array + (side == REGISTER_SOURCE ? A_SX : A_TX);
    return (struct register_rows){points[0],          points[1],           points[2],
                                  work->array[A_SUM], work->array[A_SUM2], work->array[A_MX],
                                  work->array[A_MY],  work->array[A_MZ]};
}

static struct register_columns columns_of(const struct work *work, enum register_side side,
                                          const float *weights)
{
    float *const *points = work->array + (side == REGISTER_SOURCE ? A_SX : A_TX);
    size_t n = side == REGISTER_SOURCE ? work->anneal->n_source : work->anneal->n_target;
    return (struct register_columns){points[0], points[1], points[2], weights, n};
}

// End of a block's rows, without the padding.
static size_t block_end(uint32_t block, size_t n)
{
    size_t end = ((size_t)block + 1) * REGISTER_PASS_BLOCK;
    return end < n ? end : n;
}

static void paper_block(void *context, uint32_t block)
{
    struct work *work = context;
    struct register_rows rows = rows_of(work, REGISTER_SOURCE);
    struct register_columns columns = columns_of(work, REGISTER_TARGET, NULL);
    size_t begin = (size_t)block * REGISTER_PASS_BLOCK;
    work->cpu->passes->emicp(&rows, &columns, begin, begin + REGISTER_PASS_BLOCK);
    double *sums = work->partial + (size_t)block * REGISTER_N_SUMS;
    memset(sums, 0, REGISTER_N_SUMS * sizeof *sums);
    for (size_t i = begin; i < block_end(block, work->anneal->n_source); i++) {
        double sum_x[3] = {rows.sum_x[i] / work->scale, rows.sum_y[i] / work->scale,
                           rows.sum_z[i] / work->scale};
        double x[3],
            y[3] = {rows.x[i] / work->scale, rows.y[i] / work->scale, rows.z[i] / work->scale};
        double lambda = register_paper_row(rows.sum[i], rows.sum2[i], sum_x, work->outlier,
                                           work->target_mean, x);
        register_add_pair(sums, lambda, x, y);
    }
}

// u = 1 / (z + sum e v)
static void row_block(void *context, uint32_t block)
{
    struct work *work = context;
    struct register_rows rows = rows_of(work, REGISTER_SOURCE);
    struct register_columns columns = columns_of(work, REGISTER_TARGET, work->array[A_V]);
    size_t begin = (size_t)block * REGISTER_PASS_BLOCK;
    work->cpu->passes->sums(&rows, &columns, begin, begin + REGISTER_PASS_BLOCK);
    for (size_t i = begin; i < begin + REGISTER_PASS_BLOCK; i++)
        work->array[A_U][i] = 1.0f / ((float)work->slack + rows.sum[i]);
}

// v = 1 / (z + sum e u)
static void column_block(void *context, uint32_t block)
{
    struct work *work = context;
    struct register_rows rows = rows_of(work, REGISTER_TARGET);
    struct register_columns columns = columns_of(work, REGISTER_SOURCE, work->array[A_U]);
    size_t begin = (size_t)block * REGISTER_PASS_BLOCK;
    work->cpu->passes->sums(&rows, &columns, begin, begin + REGISTER_PASS_BLOCK);
    for (size_t j = begin; j < begin + REGISTER_PASS_BLOCK; j++)
        work->array[A_V][j] = 1.0f / ((float)work->slack + rows.sum[j]);
}

// The last column pass also sums each target point's soft counterpart: the M-step's moments.
static void moment_block(void *context, uint32_t block)
{
    struct work *work = context;
    const struct point_set *target = &work->cpu->set[REGISTER_TARGET];
    struct register_rows rows = rows_of(work, REGISTER_TARGET);
    struct register_columns columns = columns_of(work, REGISTER_SOURCE, work->array[A_U]);
    size_t begin = (size_t)block * REGISTER_PASS_BLOCK;
    work->cpu->passes->moments(&rows, &columns, begin, begin + REGISTER_PASS_BLOCK);
    double *sums = work->partial + (size_t)block * REGISTER_N_SUMS;
    memset(sums, 0, REGISTER_N_SUMS * sizeof *sums);
    for (size_t j = begin; j < block_end(block, work->anneal->n_target); j++) {
        double v = 1 / (work->slack + rows.sum[j]), weight = v * rows.sum[j];
        work->array[A_V][j] = (float)v;
        if (!(rows.sum[j] > FLT_MIN))
            continue;
        double k = 1 / (rows.sum[j] * work->scale);
        double x[3] = {target->x_m[j], target->y_m[j], target->z_m[j]};
        double y[3] = {rows.sum_x[j] * k, rows.sum_y[j] * k, rows.sum_z[j] * k};
        register_add_pair(sums, weight, x, y);
        if (work->anneal->planes) {
            double n[3] = {target->nx[j], target->ny[j], target->nz[j]};
            register_add_plane(sums, weight, x, y, n);
        }
    }
}

static void set_sigma(struct work *work, double sigma2)
{
    const struct register_anneal *anneal = work->anneal;
    work->sigma2 = sigma2;
    work->scale = register_scale(sigma2);
    work->outlier = exp(-anneal->outlier_d2 / sigma2);
    work->slack = anneal->slack * exp(-anneal->slack_alpha / (2 * sigma2));
    if (anneal->slack_spacing > 0)
        work->slack = register_slack(work->slack, sigma2, anneal->slack_spacing);
}

// One E-step.
static const double *iterate(void *context, double sigma2, const struct se3 *T)
{
    struct work *work = context;
    const struct register_anneal *anneal = work->anneal;
    set_sigma(work, sigma2);
    place_points(work, T);
    if (anneal->weighting == REGISTER_WEIGHTING_PAPER) {
        for_blocks(work, paper_block, anneal->n_source);
        gather_sums(work, anneal->n_source);
    } else {
        for (size_t j = 0; anneal->cold && j < anneal->n_target; j++)
            work->array[A_V][j] = 1;
        for (uint32_t sweep = 1; sweep <= anneal->n_sweeps; sweep++) {
            for_blocks(work, row_block, anneal->n_source);
            for_blocks(work, sweep < anneal->n_sweeps ? column_block : moment_block,
                       anneal->n_target);
        }
        gather_sums(work, anneal->n_target);
    }
    return work->stopped ? NULL : work->sums;
}

static void presence_block_source(void *context, uint32_t block)
{
    struct work *work = context;
    struct register_rows rows = rows_of(work, REGISTER_SOURCE);
    struct register_columns columns = columns_of(work, REGISTER_TARGET, NULL);
    size_t begin = (size_t)block * REGISTER_PASS_BLOCK;
    work->cpu->passes->sums(&rows, &columns, begin, begin + REGISTER_PASS_BLOCK);
}

static void presence_block_target(void *context, uint32_t block)
{
    struct work *work = context;
    struct register_rows rows = rows_of(work, REGISTER_TARGET);
    struct register_columns columns = columns_of(work, REGISTER_SOURCE, NULL);
    size_t begin = (size_t)block * REGISTER_PASS_BLOCK;
    work->cpu->passes->sums(&rows, &columns, begin, begin + REGISTER_PASS_BLOCK);
}

static double presence_sum(const struct work *work, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += register_presence(work->array[A_SUM][i], work->anneal->presence_sigma2,
                                 work->anneal->presence_spacing);
    return sum / (double)n;
}

static void measure_presence(struct work *work, struct register_run *run)
{
    const struct register_anneal *anneal = work->anneal;
    work->scale = register_scale(anneal->presence_sigma2);
    place_points(work, &run->T);
    for_blocks(work, presence_block_source, anneal->n_source);
    run->presence_source = presence_sum(work, anneal->n_source);
    for_blocks(work, presence_block_target, anneal->n_target);
    run->presence_target = presence_sum(work, anneal->n_target);
}

static int anneal_run(struct work *work, struct register_run *run, const struct register_stop *stop)
{
    work->stop = stop;
    for (size_t j = 0; j < work->room; j++)
        work->array[A_V][j] = 1;
    int rc = register_cpu_schedule(work->anneal, run, stop, iterate, work);
    if (rc < 0)
        return rc;
    if (work->anneal->presence_sigma2 > 0)
        measure_presence(work, run);
    return work->stopped;
}

// A batch: slot s of n takes the runs s, s + n, ...; which slot a run falls to does not show.
struct batch {
    struct work *works;
    struct register_run *runs;
    uint32_t n_runs, n_slots;
    const struct register_stop *stop;
    _Atomic int rc;
};

static void batch_slot(void *context, uint32_t slot)
{
    struct batch *batch = context;
    for (uint32_t i = slot; i < batch->n_runs; i += batch->n_slots) {
        int rc = anneal_run(&batch->works[slot], &batch->runs[i], batch->stop);
        if (rc < 0)
            batch->rc = rc;
        if (batch->rc < 0)
            return;
    }
}

static int anneal_batch(struct register_cpu *cpu, const struct register_anneal *anneal,
                        struct register_run *runs, uint32_t n_runs,
                        const struct register_stop *stop)
{
    uint32_t n_slots = pool_n_threads(cpu->pool);
    struct work *works = calloc(n_slots, sizeof *works);
    int rc = works ? 0 : -ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < n_slots; i++)
        rc = work_init(&works[i], cpu, anneal, false);
    if (rc == 0) {
        struct batch batch = {works, runs, n_runs, n_slots, stop, 0};
        pool_run(cpu->pool, batch_slot, &batch, n_slots);
        rc = batch.rc;
    }
    for (uint32_t i = 0; works && i < n_slots; i++)
        work_free(&works[i]);
    free(works);
    return rc;
}

static int cpu_anneal(void *device, const struct register_anneal *anneal, struct register_run *runs,
                      uint32_t n_runs, const struct register_stop *stop)
{
    struct register_cpu *cpu = device;
    if (anneal->form == REGISTER_FORM_DENSE)
        return register_cpu_anneal_dense(cpu, anneal, runs, stop);
    // Fewer runs than would keep the threads busy to the end share out their rows instead.
    if (n_runs > 4 * pool_n_threads(cpu->pool))
        return anneal_batch(cpu, anneal, runs, n_runs, stop);
    struct work work;
    int rc = work_init(&work, cpu, anneal, true);
    for (uint32_t i = 0; rc == 0 && i < n_runs; i++)
        rc = anneal_run(&work, &runs[i], stop);
    work_free(&work);
    return rc;
}

static void cpu_close(void *device)
{
    struct register_cpu *cpu = device;
    if (!cpu)
        return;
    kdtree_destroy(&cpu->tree);
    register_cpu_surfaces_free(&cpu->surfaces);
    free(cpu);
}

static int cpu_open(void **out_device, const struct register_config *config, struct pool *pool)
{
    struct register_cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return -ENOMEM;
    cpu->passes = register_pass_choose();
    cpu->log = config->log;
    cpu->pool = pool;
    *out_device = cpu;
    return 0;
}

static void cpu_describe(const void *device, char *out, size_t size)
{
    const struct register_cpu *cpu = device;
    snprintf(out, size, "cpu: %u threads, %s", pool_n_threads(cpu->pool), cpu->passes->name);
}

static int cpu_load(void *device, enum register_side side, const struct point_set *points)
{
    struct register_cpu *cpu = device;
    cpu->set[side] = *points;
    if (side == REGISTER_TARGET)
        kdtree_destroy(&cpu->tree);
    return 0;
}

const struct register_ops register_cpu_ops = {
    .backend = GPU_BACKEND_CPU,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .load = cpu_load,
    .anneal = cpu_anneal,
    .nearest = register_cpu_nearest,
    .surfaces = register_cpu_surfaces,
    .gicp = register_cpu_gicp,
    .fetch = register_cpu_fetch,
};
