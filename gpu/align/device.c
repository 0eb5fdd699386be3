// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/ops.h"
#include "gpu/backend.h"

static const struct align_ops *ops_of(const struct align_device *device)
{
    return *(const struct align_ops *const *)(const void *)device;
}

struct opening {
    struct align_device **out;
    const struct align_device_settings *settings;
};

#ifdef POSED_HAVE_CUDA
static int open_cuda(void *user)
{
    const struct opening *opening = user;
    return align_cuda_open(opening->out, opening->settings);
}
#define OPEN_CUDA open_cuda
#else
#define OPEN_CUDA NULL
#endif

static int open_cpu(void *user)
{
    const struct opening *opening = user;
    return align_cpu_open(opening->out, opening->settings);
}

int align_device_open(struct align_device **out, enum gpu_backend backend,
                      const struct align_device_settings *settings)
{
    struct opening opening = {out, settings};
    enum gpu_backend chosen;
    *out = NULL;
    return gpu_open_twin("alignment", backend, OPEN_CUDA, open_cpu, &opening, &settings->log,
                         &chosen);
}

void align_device_close(struct align_device **device)
{
    if (*device)
        ops_of(*device)->close(*device);
    *device = NULL;
}

const char *align_device_name(const struct align_device *device)
{
    return ops_of(device)->name;
}

const char *align_device_description(const struct align_device *device)
{
    return ops_of(device)->description(device);
}

int align_device_load(struct align_device *device, uint32_t slot, const struct align_image *image)
{
    return ops_of(device)->load(device, slot, image);
}

int align_device_sum(struct align_device *device, const struct align_task *tasks, uint32_t n_tasks,
                     uint32_t level, double *out_sums)
{
    return ops_of(device)->sum(device, tasks, n_tasks, level, out_sums);
}

size_t align_device_bytes(const struct align_device *device)
{
    return ops_of(device)->bytes(device);
}
