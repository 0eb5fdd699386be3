// SPDX-License-Identifier: Apache-2.0
// The table that a twin of the model fills; private to gpu/model. `frame`s belong to the same
// backend.
#ifndef POSED_GPU_MODEL_OPS_H
#define POSED_GPU_MODEL_OPS_H

#include "gpu/backend.h"
#include "gpu/model/far_blocks.h"
#include "gpu/model/model.h"

// Places that one frame may add: three steps a pixel of half of 640 x 480, all apart.
#define MODEL_MAX_NEW (1u << 18)

struct model_ops;

struct model {
    const struct model_ops *ops;
    struct gpu *gpu;
    struct model_settings settings;
    uint32_t max_blocks;
    struct far_blocks far;
};

// Same contracts as the functions of model.h. `open` allocates a struct whose first member is
// struct model; model.c fills that after it returns and has set max_blocks.
struct model_ops {
    int (*open)(struct model **out, struct gpu *gpu, const struct model_settings *settings,
                uint32_t max_blocks);
    void (*close)(struct model *model);
    int (*clear)(struct model *model);
    // adds: new places are entered; else all are refused.
    int (*integrate)(struct model *model, const struct gpu_frame *frame,
                     const struct se3 *T_map_camera, bool adds);
    int (*view)(struct model *model, const struct se3 *T_map_camera, struct gpu_frame *out_frame);
    int (*stats)(struct model *model, struct model_stats *out);
    // All blocks in any order; `out` has room for as many as stats says.
    int (*read)(struct model *model, struct model_block *out, uint32_t n_blocks);
    // Adds blocks; there is room. -EINVAL: a place was there already, or comes twice.
    int (*add)(struct model *model, const struct model_block *blocks, uint32_t n_blocks);
    // The keys of all slots (kernels/voxel.h), n_blocks as stats says.
    int (*keys)(struct model *model, uint64_t *out, uint32_t n_blocks);
    // Copies the blocks in n slots, in rising order, and takes them out; the others move together.
    int (*take)(struct model *model, const uint32_t *slots, uint32_t n, struct model_block *out);
};

// Between a block as the twins keep it and as it is read and written.
struct model_voxel;
void model_block_of(uint64_t key, const struct model_voxel *voxels, struct model_block *out);
void model_voxels_of(const struct model_block *block, struct model_voxel *out);

// Of n_blocks slots, n (rising) are taken out: which of the rest move into the gaps below, out[i]
// into slots[i]; out has room for n. Returns how many move.
uint32_t model_moving(const uint32_t *slots, uint32_t n, uint32_t n_blocks, uint32_t *out);

extern const struct model_ops model_cpu_ops;
#ifdef POSED_HAVE_CUDA
extern const struct model_ops model_cuda_ops;
#endif

#endif
