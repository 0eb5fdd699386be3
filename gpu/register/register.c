// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/register.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/backend.h"
#include "gpu/register/register_context.h"
#include "proto/clock.h"

// What the host does for a GPU is moving points about: more threads than this gain nothing.
#define THREADS_BESIDE_CUDA 4u

struct opening {
    struct registration *registration;
    const struct register_config *config;
};

static int open_backend(const struct opening *opening, const struct register_ops *ops)
{
    struct registration *registration = opening->registration;
    const struct register_config *config = opening->config;
    bool on_cpu = ops->backend == GPU_BACKEND_CPU;
    int rc = pool_create(&registration->pool,
                         config->n_threads || on_cpu ? config->n_threads : THREADS_BESIDE_CUDA);
    if (rc < 0)
        return rc;
    pool_set_yield(registration->pool, &config->yield);
    registration->ops = ops;
    rc = ops->open(&registration->device, config, registration->pool);
    if (rc < 0)
        pool_destroy(&registration->pool);
    return rc;
}

#ifdef POSED_HAVE_CUDA
static int open_cuda(void *opening)
{
    return open_backend(opening, &register_cuda_ops);
}
#define OPEN_CUDA open_cuda
#else
#define OPEN_CUDA NULL
#endif

static int open_cpu(void *opening)
{
    return open_backend(opening, &register_cpu_ops);
}

int registration_open(struct registration **out, const struct register_config *config)
{
    *out = NULL;
    struct registration *registration = calloc(1, sizeof *registration);
    if (!registration)
        return -ENOMEM;
    registration->log = config->log;
    struct opening opening = {registration, config};
    enum gpu_backend chosen;
    int rc = gpu_open_twin("registration", config->backend, OPEN_CUDA, open_cpu, &opening,
                           &config->log, &chosen);
    if (rc == 0) {
        register_sets_begin(&registration->sets, registration->ops, registration->device);
        registration->ops->describe(registration->device, registration->description,
                                    sizeof registration->description);
        *out = registration;
        return 0;
    }
    if (config->backend != GPU_BACKEND_CUDA)
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
    if (stop->deadline_mono_ns && clock_monotonic_ns() > stop->deadline_mono_ns)
        return -ETIME;
    return 0;
}
