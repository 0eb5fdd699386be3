// SPDX-License-Identifier: Apache-2.0
#include "gpu/backend.h"

#include <errno.h>
#include <string.h>

int gpu_open_twin(const char *room, enum gpu_backend asked, int (*open_cuda)(void *user),
                  int (*open_cpu)(void *user), void *user, const struct log_sink *log,
                  enum gpu_backend *out)
{
    *out = GPU_BACKEND_CUDA;
    if (asked != GPU_BACKEND_CPU) {
        const int rc = open_cuda ? open_cuda(user) : -ENOTSUP;
        if (rc == 0)
            return 0;
        const char *why = rc == -ENOTSUP  ? "built without CUDA (build it with -DPOSED_CUDA=ON)"
                          : rc == -ENODEV ? "no CUDA device can run it"
                                          : strerror(-rc);
        if (asked == GPU_BACKEND_CUDA) {
            log_to(log, LOG_LEVEL_ERROR, "%s: CUDA was asked for: %s", room, why);
            return rc;
        }
        log_to(log, LOG_LEVEL_INFO, "%s: on the CPU: %s", room, why);
    }
    *out = GPU_BACKEND_CPU;
    return open_cpu(user);
}
