// SPDX-License-Identifier: Apache-2.0
// GICP on the levels of the surfaces. Several poses beside each other: whole poses go to the
// threads when there are many, blocks of points when there is one; the sums are the same.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/register/cpu/device.h"
#include "gpu/register/kernels/pair.h"

#define BLOCK 256u // source points whose sums are added first

struct work {
    const struct register_gicp *gicp;
    const struct register_cpu_level *source;
    struct register_pair_target target;
    struct register_pair_rule rule;
    bool inverse;
    double reach_m; // of the source's points from the origin
    struct register_fit *fits;
    const struct register_stop *stop;
    struct pool *pool; // NULL: the pose is worked by the calling thread alone
    uint32_t n_blocks;
    double *partial; // GICP_N_SUMS a block, of each thread's pose
    const struct se3 *T;
    _Atomic int rc;
};

static CPU_CLONES void sum_block(void *context, uint32_t block)
{
    const struct work *work = context;
    double *sums = work->partial + (size_t)block * GICP_N_SUMS;
    memset(sums, 0, GICP_N_SUMS * sizeof *sums);
    uint32_t begin = block * BLOCK,
             end = begin + BLOCK < work->source->n ? begin + BLOCK : work->source->n;
    for (uint32_t i = begin; i < end; i++)
        register_pair_add(sums, &work->target, &work->rule, work->T, &work->source->points[i],
                          &work->source->normals[i]);
}

static void sum_all(struct work *work, const struct se3 *T, double *sums)
{
    work->T = T;
    if (work->pool)
        pool_run(work->pool, sum_block, work, work->n_blocks);
    else
        for (uint32_t b = 0; b < work->n_blocks; b++)
            sum_block(work, b);
    memset(sums, 0, GICP_N_SUMS * sizeof *sums);
    for (uint32_t b = 0; b < work->n_blocks; b++)
        for (int i = 0; i < GICP_N_SUMS; i++)
            sums[i] += work->partial[(size_t)b * GICP_N_SUMS + (size_t)i];
}

static int align(struct work *work, struct register_fit *fit)
{
    double sums[GICP_N_SUMS];
    const struct register_gicp *gicp = work->gicp;
    fit->converged = false;
    fit->determined = true;
    for (uint32_t k = 0; k < gicp->n_iterations && !fit->converged && fit->determined; k++) {
        const int rc = register_stopped(work->stop);
        if (rc < 0)
            return rc;
        sum_all(work, &fit->T, sums);
        const double moved = register_pair_step(sums, work->reach_m, fit);
        fit->determined = moved >= 0;
        fit->converged = fit->determined && moved < gicp->tolerance_m;
        fit->n_iterations++;
    }
    fit->T = se3_normalized(&fit->T);
    const struct se3 inverse = se3_inverse(&fit->T);
    sum_all(work, work->inverse ? &inverse : &fit->T, sums);
    register_pair_judge(sums, work->source->n, fit);
    return 0;
}

struct batch {
    struct work *works; // by slot
    uint32_t n_slots, n_fits;
};

static void batch_slot(void *context, uint32_t slot)
{
    struct batch *batch = context;
    struct work *work = &batch->works[slot];
    for (uint32_t i = slot; i < batch->n_fits && work->rc == 0; i += batch->n_slots)
        work->rc = align(work, &work->fits[i]);
}

int register_cpu_gicp(void *device, const struct register_gicp *gicp, bool inverse,
                      struct register_fit *fits, uint32_t n_fits, const struct register_stop *stop)
{
    struct register_cpu *cpu = device;
    const struct register_cpu_level *source =
        &cpu->surfaces.level[inverse ? REGISTER_TARGET : REGISTER_SOURCE][gicp->level];
    const struct register_cpu_level *target =
        &cpu->surfaces.level[inverse ? REGISTER_SOURCE : REGISTER_TARGET][gicp->level];
    struct work work = {
        .gicp = gicp,
        .source = source,
        .target = {target->cells, target->points, target->normals},
        .rule = {(float)gicp->reach_m, gicp->cut_m * gicp->cut_m, 1 / (gicp->cut_m * gicp->cut_m),
                 gicp->epsilon},
        .inverse = inverse,
        .fits = fits,
        .stop = stop,
        .n_blocks = (source->n + BLOCK - 1) / BLOCK,
    };
    for (int a = 0; a < 3; a++)
        work.reach_m =
            fmax(work.reach_m, (double)source->cells.cell_m * 2 * source->cells.n_blocks[a]);
    struct batch batch = {.n_slots = pool_n_threads(cpu->pool), .n_fits = n_fits};
    const bool shared = n_fits < 2 * batch.n_slots;
    if (shared)
        batch.n_slots = 1;
    batch.works = calloc(batch.n_slots, sizeof work);
    double *partial =
        malloc((size_t)batch.n_slots * (work.n_blocks + 1) * GICP_N_SUMS * sizeof *partial);
    int rc = batch.works && partial ? 0 : -ENOMEM;
    for (uint32_t s = 0; rc == 0 && s < batch.n_slots; s++) {
        work.partial = partial + (size_t)s * (work.n_blocks + 1) * GICP_N_SUMS;
        memcpy(&batch.works[s], &work, sizeof work);
        batch.works[s].pool = shared ? cpu->pool : NULL;
    }
    if (rc == 0 && shared)
        batch_slot(&batch, 0);
    else if (rc == 0)
        pool_run(cpu->pool, batch_slot, &batch, batch.n_slots);
    for (uint32_t s = 0; rc == 0 && s < batch.n_slots; s++)
        rc = batch.works[s].rc;
    free(partial);
    free(batch.works);
    return rc;
}

int register_cpu_surfaces(void *device, const struct register_surface_load loads[2],
                          uint32_t n_levels, struct register_surface info[2][REGISTER_MOST_LEVELS])
{
    struct register_cpu *cpu = device;
    return register_cpu_surfaces_fill(&cpu->surfaces, cpu->pool, loads, n_levels, info);
}

int register_cpu_fetch(void *device, enum register_side side, uint32_t level,
                       struct register_cell_point *out_points,
                       struct register_cell_point *out_normals)
{
    const struct register_cpu *cpu = device;
    const struct register_cpu_level *from = &cpu->surfaces.level[side][level];
    memcpy(out_points, from->points, from->n * sizeof *out_points);
    memcpy(out_normals, from->normals, from->n * sizeof *out_normals);
    return 0;
}
