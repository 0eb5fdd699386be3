// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "gpu/align/ops.h"

static const struct align_ops *ops_of(const struct align_device *device)
{
    return *(const struct align_ops *const *)(const void *)device;
}

int align_device_open(struct align_device **out, enum gpu_backend backend,
                      const struct align_device_settings *settings)
{
    *out = NULL;
#ifdef POSED_HAVE_CUDA
    if (backend != GPU_BACKEND_CPU) {
        int rc = align_cuda_open(out, settings);
        if (rc == 0 || backend == GPU_BACKEND_CUDA)
            return rc;
    }
#else
    if (backend == GPU_BACKEND_CUDA) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "CUDA is not part of this build");
        return -ENOTSUP;
    }
#endif
    return align_cpu_open(out, settings);
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
