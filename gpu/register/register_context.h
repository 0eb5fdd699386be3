// SPDX-License-Identifier: Apache-2.0
// An open registration, and one registration under way. Private to gpu.
#ifndef POSED_GPU_REGISTER_REGISTER_CONTEXT_H
#define POSED_GPU_REGISTER_REGISTER_CONTEXT_H

#include "gpu/register/candidates.h"
#include "gpu/register/normalise.h"

struct registration {
    const struct register_ops *ops;
    void *device;
    struct pool *pool;
    char description[160];
    struct log_sink log;
    const char *why; // of the last -EINVAL
    struct register_sets sets;
    struct register_surfaces surfaces;
};

#endif
