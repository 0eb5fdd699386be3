// SPDX-License-Identifier: Apache-2.0
#include "gpu/register.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/register_result.h"
#include "gpu/register_settings.h"
#include "gpu/register_stages.h"
#include "gpu/register_starts.h"

struct registration {
    const struct register_ops *ops;
    void *device;
    struct pool *pool;
    char description[160];
    struct log_sink log;
    const char *why; // of the last -EINVAL
    struct register_sets sets;
};

// What the host does for a GPU is moving points about: more threads than this gain nothing.
#define THREADS_BESIDE_CUDA 4u

static int open_backend(struct registration *registration, const struct register_config *config,
                        const struct register_ops *ops)
{
    bool on_cpu = ops->backend == GPU_BACKEND_CPU;
    int rc = pool_create(&registration->pool,
                         config->n_threads || on_cpu ? config->n_threads : THREADS_BESIDE_CUDA);
    if (rc < 0)
        return rc;
    pool_set_courtesy(registration->pool, &config->courtesy);
    registration->ops = ops;
    rc = ops->open(&registration->device, config, registration->pool);
    if (rc < 0)
        pool_destroy(&registration->pool);
    return rc;
}

// The backend that was asked for, or the one that answers.
static int open_any(struct registration *registration, const struct register_config *config)
{
    int rc = -ENOTSUP;
#ifdef POSED_REGISTER_CUDA
    if (config->backend != GPU_BACKEND_CPU)
        rc = open_backend(registration, config, &register_cuda_ops);
#endif
    if (rc < 0 && config->backend != GPU_BACKEND_CUDA)
        rc = open_backend(registration, config, &register_cpu_ops);
    return rc;
}

int registration_open(struct registration **out, const struct register_config *config)
{
    *out = NULL;
    struct registration *registration = calloc(1, sizeof *registration);
    if (!registration)
        return -ENOMEM;
    registration->log = config->log;
    int rc = open_any(registration, config);
    if (rc == 0) {
        register_sets_begin(&registration->sets, registration->ops, registration->device);
        registration->ops->describe(registration->device, registration->description,
                                    sizeof registration->description);
        *out = registration;
        return 0;
    }
    if (rc == -ENOTSUP)
        log_to(&config->log, LOG_LEVEL_ERROR,
               "registration: CUDA asked for, but this build has none");
    else
        log_to(&config->log, LOG_LEVEL_ERROR, "registration: the backend does not open: %s",
               strerror(-rc));
    free(registration);
    return rc;
}

void registration_close(struct registration **registration)
{
    if (!*registration)
        return;
    register_sets_free(&(*registration)->sets);
    (*registration)->ops->close((*registration)->device);
    pool_destroy(&(*registration)->pool);
    free(*registration);
    *registration = NULL;
}

enum gpu_backend registration_backend(const struct registration *registration)
{
    return registration->ops->backend;
}

const char *registration_description(const struct registration *registration)
{
    return registration->description;
}

const char *registration_why(const struct registration *registration)
{
    return registration->why ? registration->why : "";
}

size_t registration_device_bytes(const struct registration *registration)
{
    const struct register_ops *ops = registration->ops;
    return ops->memory_bytes ? ops->memory_bytes(registration->device) : 0;
}

int register_stopped(const struct register_stop *stop)
{
    if (!stop)
        return 0;
    if (__atomic_load_n(&stop->requested, __ATOMIC_RELAXED))
        return -ECANCELED;
    if (stop->deadline_mono_ns) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec > stop->deadline_mono_ns)
            return -ETIME;
    }
    return 0;
}

static int run_soft(const struct register_task *task, struct register_run **out, uint32_t *out_n)
{
    if (task->settings->start == REGISTER_START_MANY) {
        int rc = register_starts_many(task, out, out_n);
        if (rc < 0)
            return rc;
    } else {
        int rc = register_stage_wide(task, *out);
        if (rc < 0)
            return rc;
        *out_n = 1;
    }
    register_report(task, 0.7, "finish");
    int rc = register_stage_finish(task, *out, *out_n);
    if (rc < 0)
        return rc;
    qsort(*out, *out_n, sizeof **out, register_compare_scores);
    if (task->n_source < task->sets->side[0].n || task->n_target < task->sets->side[1].n) {
        register_report(task, 0.9, "refine");
        return register_stage_refine(task, *out);
    }
    return 0;
}

static int run_icp(const struct register_task *task, struct register_run **out, uint32_t *out_n)
{
    *out_n = 1;
    if (task->settings->start == REGISTER_START_MANY) {
        int rc = register_starts_many(task, out, out_n);
        if (rc < 0)
            return rc;
        *out_n = 1;
    }
    return register_stage_icp(task, *out);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// Checks, normalises and loads the sets. *out_field names what is wrong.
static int load_sets(struct registration *registration, const struct point_set *source,
                     const struct point_set *target, const struct register_stop *stop,
                     const char **out_field)
{
    enum register_side side;
    const char *why = NULL;
    int rc = register_sets_fill(&registration->sets, registration->pool, source, target, stop,
                                &side, &why);
    if (rc == -EINVAL) {
        *out_field = side == REGISTER_SOURCE ? "source" : "target";
        registration->why = why;
    }
    for (int i = 0; rc == 0 && i < 2; i++) {
        const struct register_set *set = &registration->sets.side[i];
        struct point_set points = {set->x, set->y, set->z, NULL, NULL, NULL, set->n};
        if (set->nx) {
            points.nx = set->nx;
            points.ny = set->ny;
            points.nz = set->nz;
        }
        rc = registration->ops->load(registration->device, (enum register_side)i, &points);
    }
    return rc;
}

// How many points of a set the all-pairs stages use.
static uint32_t all_pairs_points(const struct register_settings *settings,
                                 const struct register_set *set)
{
    bool all = settings->preset == REGISTER_PRESET_TAMAKI || settings->form == REGISTER_FORM_DENSE;
    size_t most = settings->n_points ? settings->n_points : all ? REGISTER_MAX_POINTS : 4096;
    return (uint32_t)(set->n < most ? set->n : most);
}

int registration_run(struct registration *registration, const struct point_set *source,
                     const struct point_set *target, const struct register_settings *settings,
                     struct register_stop *stop, struct register_result *out,
                     const char **out_field)
{
    double start_ms = now_ms();
    const char *field = register_settings_check(settings, &registration->why);
    int rc = field ? -EINVAL : load_sets(registration, source, target, stop, &field);
    if (rc == -EINVAL)
        log_to(&registration->log, LOG_LEVEL_ERROR, "register: %s: %s", field, registration->why);
    if (out_field)
        *out_field = field;
    if (rc < 0)
        return rc;
    const struct register_sets *sets = &registration->sets;
    struct register_task task = {
        .ops = registration->ops,
        .device = registration->device,
        .sets = sets,
        .settings = settings,
        .stop = stop,
        .n_source = all_pairs_points(settings, &sets->side[REGISTER_SOURCE]),
        .n_target = all_pairs_points(settings, &sets->side[REGISTER_TARGET]),
        .planes = settings->point_to_plane && sets->side[REGISTER_TARGET].nx != NULL,
    };
    uint32_t n_runs = 1;
    double loaded_ms = now_ms();
    struct register_run pair[2] = {
        {.T = register_sets_normalise(sets, &settings->T_target_source)}};
    struct register_run *runs = settings->start == REGISTER_START_MANY ? NULL : pair;
    if (settings->preset == REGISTER_PRESET_TAMAKI)
        rc = register_stage_tamaki(&task, runs);
    else if (settings->method == REGISTER_METHOD_ICP)
        rc = run_icp(&task, &runs, &n_runs);
    else
        rc = run_soft(&task, &runs, &n_runs);
    if (rc == 0 && runs == pair && settings->preset == REGISTER_PRESET_DEFAULT &&
        !register_by_chance(&pair[0])) {
        rc = register_starts_rival(&task, pair);
        n_runs = rc > 0 ? 2 : 1;
        rc = rc < 0 ? rc : 0;
    }
    if (rc == 0) {
        register_result_fill(sets, runs, n_runs, out);
        out->elapsed_ms = now_ms() - start_ms;
        out->anneal_ms = now_ms() - loaded_ms;
    }
    if (runs != pair)
        free(runs);
    return rc;
}
