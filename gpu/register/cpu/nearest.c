// SPDX-License-Identifier: Apache-2.0
// Iterations over near pairs only: ICP (Besl and McKay 1992; point to plane: Chen and Medioni 1992)
// and EM-ICP with weights cut off at 3 sigma, whose cost grows with the number of points and not
// with its square. Blocks of source points go to the threads; their sums are added in order.
#include "gpu/register/cpu/device.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/kernels/m_step.h"
#include "gpu/register/kernels/solve.h"

#define BLOCK 512u

struct near {
    struct register_cpu *cpu;
    const struct register_nearest *settings;
    const struct register_stop *stop;
    const struct se3 *T;
    _Atomic int stopped; // register_stopped's answer, once it is not 0
    double *partial;     // REGISTER_N_SUMS + 1 a block: the sums, and the number of pairs
};

// Soft sums around one source point.
struct soft {
    const struct point_set *target;
    bool with_normals;
    double k; // -1 / (2 sigma^2)
    double sum, x[3], n[3];
};

static void add_soft(void *context, const float x[3], size_t index, float d2)
{
    struct soft *soft = context;
    double e = exp(soft->k * d2);
    soft->sum += e;
    for (int a = 0; a < 3; a++)
        soft->x[a] += e * x[a];
    if (soft->with_normals) {
        soft->n[0] += e * soft->target->nx[index];
        soft->n[1] += e * soft->target->ny[index];
        soft->n[2] += e * soft->target->nz[index];
    }
}

// Counterpart x, normal n and weight of the source point y. False: none.
static bool find_counterpart(const struct near *near, const double y[3], double x[3], double n[3],
                             double *out_weight)
{
    const struct register_nearest *settings = near->settings;
    const struct point_set *target = &near->cpu->set[REGISTER_TARGET];
    const float p[3] = {(float)y[0], (float)y[1], (float)y[2]};
    if (settings->kind == REGISTER_NEAREST_ICP) {
        float d2;
        size_t j = kdtree_nearest(near->cpu->tree, p, INFINITY, &d2);
        if (j == SIZE_MAX)
            return false;
        x[0] = target->x_m[j];
        x[1] = target->y_m[j];
        x[2] = target->z_m[j];
        for (int a = 0; settings->planes && a < 3; a++)
            n[a] = (a == 0 ? target->nx : a == 1 ? target->ny : target->nz)[j];
        *out_weight = 1;
        return true;
    }
    struct soft soft = {
        .target = target, .with_normals = settings->planes, .k = -0.5 / settings->sigma2};
    kdtree_within(near->cpu->tree, p, (float)(9 * settings->sigma2), add_soft, &soft);
    if (!(soft.sum > 0))
        return false;
    double n2 = soft.n[0] * soft.n[0] + soft.n[1] * soft.n[1] + soft.n[2] * soft.n[2];
    for (int a = 0; a < 3; a++) {
        x[a] = soft.x[a] / soft.sum;
        n[a] = n2 > 0 ? soft.n[a] / sqrt(n2) : 0;
    }
    *out_weight = soft.sum / (settings->slack + soft.sum);
    return true;
}

static void near_block(void *context, uint32_t block)
{
    struct near *near = context;
    int stopped = near->stopped ? near->stopped : register_stopped(near->stop);
    if (stopped < 0) {
        near->stopped = stopped;
        return;
    }
    const struct point_set *source = &near->cpu->set[REGISTER_SOURCE];
    double *sums = near->partial + (size_t)block * (REGISTER_N_SUMS + 1);
    memset(sums, 0, (REGISTER_N_SUMS + 1) * sizeof *sums);
    size_t begin = (size_t)block * BLOCK, end = begin + BLOCK;
    end = end < near->settings->n_source ? end : near->settings->n_source;
    for (size_t i = begin; i < end; i++) {
        double p[3] = {source->x_m[i], source->y_m[i], source->z_m[i]}, y[3], x[3], n[3], weight;
        se3_apply(near->T, p, y);
        if (!find_counterpart(near, y, x, n, &weight))
            continue;
        register_add_pair(sums, weight, x, y);
        if (near->settings->planes)
            register_add_plane(sums, weight, x, y, n);
        sums[REGISTER_N_SUMS] += 1;
    }
}

static int ask_stop(const void *stop)
{
    return register_stopped(stop);
}

// The tree of the first n target points; what it was of before goes.
static int make_tree(struct register_cpu *cpu, size_t n, const struct register_stop *stop)
{
    if (cpu->tree && kdtree_size(cpu->tree) == n)
        return 0;
    kdtree_destroy(&cpu->tree);
    return kdtree_create(&cpu->tree, &cpu->set[REGISTER_TARGET], n, ask_stop, stop);
}

int register_cpu_nearest(void *device, const struct register_nearest *settings,
                         struct register_run *run, const struct register_stop *stop)
{
    struct register_cpu *cpu = device;
    int rc = make_tree(cpu, settings->n_target, stop);
    if (rc < 0)
        return rc;
    uint32_t n_blocks = (settings->n_source + BLOCK - 1) / BLOCK;
    double sums[REGISTER_N_SUMS + 1] = {0};
    struct near near = {.cpu = cpu, .settings = settings, .stop = stop, .T = &run->T};
    near.partial = malloc(n_blocks * sizeof sums);
    if (!near.partial)
        return -ENOMEM;
    struct register_pace pace = register_pace_begin();
    run->converged = false;
    run->determined = true;
    for (uint32_t k = 0; k < settings->n_iterations && !run->converged && run->determined; k++) {
        pool_run(cpu->pool, near_block, &near, n_blocks);
        rc = near.stopped;
        if (rc < 0)
            break;
        memset(sums, 0, sizeof sums);
        for (uint32_t block = 0; block < n_blocks; block++)
            for (int i = 0; i <= REGISTER_N_SUMS; i++)
                sums[i] += near.partial[block * (REGISTER_N_SUMS + 1) + (uint32_t)i];
        struct se3 step;
        run->n_iterations++;
        run->determined =
            sums[REGISTER_N_SUMS] >= 3 && register_step(sums, settings->planes, run, &step);
        run->converged =
            run->determined && register_pace_take(&pace, sums, &step, run) < settings->tolerance;
    }
    if (run->n_iterations > 0)
        register_finish(sums, run);
    free(near.partial);
    return rc;
}
