// SPDX-License-Identifier: Apache-2.0
// The model's CUDA twin: memory, and the table of operations.
#include "gpu/model/cuda/device.cuh"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "proto/se3.h"
}

#define COPY_BLOCKS 4096 // of voxels at a time: 8 MB

static void model_close(struct model *model)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct cuda_dev *dev = &m->device->dev;
    struct cuda_memory *memory[] = {&m->keys,        &m->slots,        &m->voxels,  &m->slot_keys,
                                    &m->entry_frame, &m->work,         &m->visible, &m->pending,
                                    &m->pending_at,  &m->counters,     &m->image,   &m->half_m,
                                    &m->full_m,      &m->staging_keys, &m->staging};
    if (cuda_enter(dev) == 0)
        (void)cudaStreamSynchronize(dev->stream);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        cuda_shrink(dev, memory[i]);
    free(m);
}

static int counters_read(struct cuda_model *m, struct cuda_counters *out)
{
    struct cuda_dev *dev = &m->device->dev;
    CUDA_OR_RETURN(dev, cudaMemcpyAsync(out, m->at.counters, sizeof *out, cudaMemcpyDeviceToHost,
                                        dev->stream));
    return CUDA_TRY(dev, cudaStreamSynchronize(dev->stream));
}

// Only voxels that were in use are not zero.
static int model_empty(struct model *model)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct cuda_dev *dev = &m->device->dev;
    struct cuda_counters counters;
    int rc = cuda_enter(dev);
    if (rc == 0)
        rc = counters_read(m, &counters);
    if (rc < 0)
        return rc;
    size_t n_bytes = (size_t)counters.n_blocks * VOXEL_BLOCK_COUNT * sizeof(struct model_voxel);
    CUDA_OR_RETURN(dev, cudaMemsetAsync(m->voxels.at, 0, n_bytes, dev->stream));
    CUDA_OR_RETURN(dev, cudaMemsetAsync(m->keys.at, 0xff, m->keys.bytes, dev->stream));
    CUDA_OR_RETURN(dev, cudaMemsetAsync(m->entry_frame.at, 0, m->entry_frame.bytes, dev->stream));
    return CUDA_TRY(dev,
                    cudaMemsetAsync(m->counters.at, 0, sizeof(struct cuda_counters), dev->stream));
}

static int memory_take(struct cuda_model *m, uint32_t n_entries)
{
    struct cuda_dev *dev = &m->device->dev;
    const size_t n = m->at.max_blocks;
    const struct level_camera *c = m->device->cameras;
    const size_t n_full = (size_t)c[0].width_px * (size_t)c[0].height_px;
    const size_t n_half = (size_t)c[1].width_px * (size_t)c[1].height_px;
    const size_t n_pending = (size_t)MODEL_PENDING_MASK + 1;
    const struct {
        struct cuda_memory *memory;
        size_t bytes;
        int fill;
    } wanted[] = {
        {&m->keys, n_entries * sizeof(uint64_t), 0xff},
        {&m->slots, n_entries * sizeof(uint32_t), 0},
        {&m->entry_frame, n_entries * sizeof(uint32_t), 0},
        {&m->voxels, n * VOXEL_BLOCK_COUNT * sizeof(struct model_voxel), 0},
        {&m->slot_keys, n * sizeof(uint64_t), 0},
        {&m->work, n * sizeof(uint32_t), 0},
        {&m->visible, n * sizeof(uint32_t), 0},
        {&m->pending, n_pending * sizeof(uint64_t), 0xff},
        {&m->pending_at, n_pending * sizeof(uint32_t), 0},
        {&m->counters, sizeof(struct cuda_counters), 0},
        {&m->image, n_half * sizeof(uint32_t), 0},
        {&m->half_m, n_half * sizeof(float), 0},
        {&m->full_m, n_full * sizeof(float), 0},
        {&m->staging_keys, MODEL_STAGING_BLOCKS * sizeof(uint64_t), 0},
        {&m->staging, MODEL_STAGING_BLOCKS * VOXEL_BLOCK_COUNT * sizeof(struct model_voxel), 0},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        int rc = cuda_grow(dev, wanted[i].memory, wanted[i].bytes);
        if (rc == 0)
            rc = CUDA_TRY(dev, cudaMemsetAsync(wanted[i].memory->at, wanted[i].fill,
                                               wanted[i].bytes, dev->stream));
        if (rc < 0)
            return rc;
        wanted[i].memory->bytes = wanted[i].bytes; // what clearing has to touch
    }
    return CUDA_TRY(dev, cudaStreamSynchronize(dev->stream));
}

static int model_open(struct model **out, struct gpu *gpu, const struct model_settings *settings,
                      uint32_t max_blocks)
{
    struct cuda_model *m = (struct cuda_model *)calloc(1, sizeof *m);
    if (!m)
        return -ENOMEM;
    uint32_t n_entries = 1024;
    while (n_entries < 2 * max_blocks)
        n_entries *= 2;
    m->device = (struct cuda_device *)gpu;
    m->at.max_blocks = max_blocks;
    int rc = cuda_enter(&m->device->dev);
    if (rc == 0)
        rc = memory_take(m, n_entries);
    if (rc < 0) {
        model_close(&m->model);
        return rc;
    }
    struct cuda_volume *at = &m->at;
    at->volume.keys = (uint64_t *)m->keys.at;
    at->volume.slots = (uint32_t *)m->slots.at;
    at->volume.voxels = (struct model_voxel *)m->voxels.at;
    at->volume.mask = n_entries - 1;
    at->volume.voxel_m = settings->voxel_m;
    at->volume.inv_voxel = 1.0f / settings->voxel_m;
    at->slot_keys = (uint64_t *)m->slot_keys.at;
    at->entry_frame = (uint32_t *)m->entry_frame.at;
    at->work = (uint32_t *)m->work.at;
    at->visible = (uint32_t *)m->visible.at;
    at->pending = (uint64_t *)m->pending.at;
    at->pending_at = (uint32_t *)m->pending_at.at;
    at->counters = (struct cuda_counters *)m->counters.at;
    at->image = (uint32_t *)m->image.at;
    at->half_m = (float *)m->half_m.at;
    at->full_m = (float *)m->full_m.at;
    at->staging_keys = (uint64_t *)m->staging_keys.at;
    at->staging = (struct model_voxel *)m->staging.at;
    *out = &m->model;
    return 0;
}

static void pass_fill(const struct cuda_model *m, const struct se3 *T_map_camera,
                      struct cuda_pass *out)
{
    const struct gpu_settings *s = &m->device->gpu.settings;
    struct se3 T_camera_map = se3_inverse(T_map_camera);
    memset(out, 0, sizeof *out);
    memcpy(out->cameras, m->device->cameras, sizeof out->cameras);
    out->T_camera_map = view_pose_of(&T_camera_map);
    out->T_map_camera = view_pose_of(T_map_camera);
    out->frame = m->frame;
    out->depth_min_m = s->depth_min_m;
    out->depth_max_m = s->depth_max_m;
}

static int model_fuse_in(struct model *model, const struct gpu_frame *frame,
                         const struct se3 *T_map_camera, bool adds)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct cuda_pass pass;
    m->frame++;
    pass_fill(m, T_map_camera, &pass);
    pass.full = frame->maps[0];
    pass.half = frame->maps[1];
    pass.adds = adds;
    int rc = cuda_enter(&m->device->dev);
    return rc < 0 ? rc : cuda_model_integrate(m, &pass);
}

static int model_see(struct model *model, const struct se3 *T_map_camera,
                     struct gpu_frame *out_frame)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct cuda_pass pass;
    pass_fill(m, T_map_camera, &pass);
    int rc = cuda_enter(&m->device->dev);
    return rc < 0 ? rc : cuda_model_view(m, &pass, out_frame);
}

static int model_count(struct model *model, struct model_stats *out)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct cuda_counters counters;
    int rc = cuda_enter(&m->device->dev);
    if (rc == 0)
        rc = counters_read(m, &counters);
    if (rc < 0)
        return rc;
    out->n_blocks = counters.n_blocks;
    out->n_touched = counters.n_work;
    out->n_refused = counters.n_refused;
    return 0;
}

// Through a piece of host memory at a time: keys and voxels of COPY_BLOCKS slots.
struct copy {
    uint64_t *keys;
    struct model_voxel *voxels;
};

static int copy_open(struct copy *out)
{
    out->keys = (uint64_t *)malloc(COPY_BLOCKS * sizeof *out->keys);
    out->voxels =
        (struct model_voxel *)malloc((size_t)COPY_BLOCKS * VOXEL_BLOCK_COUNT * sizeof *out->voxels);
    return out->keys && out->voxels ? 0 : -ENOMEM;
}

static void copy_close(struct copy *copy)
{
    free(copy->keys);
    free(copy->voxels);
}

static int copy_piece(struct cuda_model *m, struct copy *copy, uint64_t *keys,
                      struct model_voxel *voxels, uint32_t n, bool to_device)
{
    struct cuda_dev *dev = &m->device->dev;
    const size_t n_bytes = (size_t)n * VOXEL_BLOCK_COUNT * sizeof *voxels;
    const size_t n_key_bytes = n * sizeof *keys;
    if (to_device) {
        CUDA_OR_RETURN(dev, cudaMemcpyAsync(keys, copy->keys, n_key_bytes, cudaMemcpyHostToDevice,
                                            dev->stream));
        CUDA_OR_RETURN(dev, cudaMemcpyAsync(voxels, copy->voxels, n_bytes, cudaMemcpyHostToDevice,
                                            dev->stream));
    } else {
        CUDA_OR_RETURN(dev, cudaMemcpyAsync(copy->keys, keys, n_key_bytes, cudaMemcpyDeviceToHost,
                                            dev->stream));
        CUDA_OR_RETURN(dev, cudaMemcpyAsync(copy->voxels, voxels, n_bytes, cudaMemcpyDeviceToHost,
                                            dev->stream));
    }
    return CUDA_TRY(dev, cudaStreamSynchronize(dev->stream));
}

static void copy_unpack(const struct copy *copy, uint32_t n, struct model_block *out)
{
    for (uint32_t i = 0; i < n; i++)
        model_block_of(copy->keys[i], copy->voxels + (size_t)i * VOXEL_BLOCK_COUNT, &out[i]);
}

static int model_get(struct model *model, struct model_block *out, uint32_t n_blocks)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct copy copy;
    int rc = copy_open(&copy);
    for (uint32_t first = 0; first < n_blocks && rc == 0; first += COPY_BLOCKS) {
        uint32_t n = n_blocks - first < COPY_BLOCKS ? n_blocks - first : COPY_BLOCKS;
        rc = copy_piece(m, &copy, m->at.slot_keys + first,
                        m->at.volume.voxels + (size_t)first * VOXEL_BLOCK_COUNT, n, false);
        if (rc == 0)
            copy_unpack(&copy, n, out + first);
    }
    copy_close(&copy);
    return rc;
}

static int model_keys(struct model *model, uint64_t *out, uint32_t n_blocks)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct cuda_dev *dev = &m->device->dev;
    int rc = cuda_enter(dev);
    if (rc < 0)
        return rc;
    CUDA_OR_RETURN(dev, cudaMemcpyAsync(out, m->at.slot_keys, n_blocks * sizeof *out,
                                        cudaMemcpyDeviceToHost, dev->stream));
    return CUDA_TRY(dev, cudaStreamSynchronize(dev->stream));
}

static int numbers_put(struct cuda_model *m, const uint32_t *numbers, uint32_t n, uint32_t *out)
{
    struct cuda_dev *dev = &m->device->dev;
    CUDA_OR_RETURN(
        dev, cudaMemcpyAsync(out, numbers, n * sizeof *out, cudaMemcpyHostToDevice, dev->stream));
    return CUDA_TRY(dev, cudaStreamSynchronize(dev->stream));
}

// Of n_blocks slots the last n are free now: the table is made anew from the others' keys.
static int table_renew(struct cuda_model *m, uint32_t n_blocks, uint32_t n)
{
    struct cuda_dev *dev = &m->device->dev;
    const uint32_t n_left = n_blocks - n;
    CUDA_OR_RETURN(dev, cudaMemsetAsync(m->at.volume.voxels + (size_t)n_left * VOXEL_BLOCK_COUNT, 0,
                                        (size_t)n * VOXEL_BLOCK_COUNT * sizeof(struct model_voxel),
                                        dev->stream));
    CUDA_OR_RETURN(dev, cudaMemsetAsync(m->keys.at, 0xff, m->keys.bytes, dev->stream));
    CUDA_OR_RETURN(dev, cudaMemsetAsync(m->entry_frame.at, 0, m->entry_frame.bytes, dev->stream));
    return cuda_model_enter(m, 0, n_left);
}

static int model_take(struct model *model, const uint32_t *slots, uint32_t n,
                      struct model_block *out)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct cuda_counters counters;
    struct copy copy;
    uint32_t *moving = (uint32_t *)malloc(n * sizeof *moving), n_moving = 0;
    int rc = copy_open(&copy);
    if (!moving)
        rc = -ENOMEM;
    if (rc == 0)
        rc = cuda_enter(&m->device->dev);
    if (rc == 0)
        rc = counters_read(m, &counters);
    if (rc == 0)
        rc = numbers_put(m, slots, n, m->at.work);
    for (uint32_t first = 0; first < n && rc == 0; first += MODEL_STAGING_BLOCKS) {
        uint32_t n_piece = n - first < MODEL_STAGING_BLOCKS ? n - first : MODEL_STAGING_BLOCKS;
        rc = cuda_model_gather(m, first, n_piece);
        if (rc == 0)
            rc = copy_piece(m, &copy, m->at.staging_keys, m->at.staging, n_piece, false);
        if (rc == 0)
            copy_unpack(&copy, n_piece, out + first);
    }
    if (rc == 0) {
        n_moving = model_moving(slots, n, counters.n_blocks, moving);
        rc = numbers_put(m, moving, n_moving, m->at.visible);
    }
    const bool begins = rc == 0;
    if (begins && n_moving > 0)
        rc = cuda_model_move(m, n_moving);
    if (rc == 0)
        rc = table_renew(m, counters.n_blocks, n);
    copy_close(&copy);
    free(moving);
    return begins && rc < 0 ? -EIO : rc; // nothing is as it was
}

static int model_add(struct model *model, const struct model_block *blocks, uint32_t n_blocks)
{
    struct cuda_model *m = (struct cuda_model *)model;
    struct cuda_counters counters;
    struct copy copy;
    int rc = copy_open(&copy);
    if (rc == 0)
        rc = cuda_enter(&m->device->dev);
    if (rc == 0)
        rc = counters_read(m, &counters);
    const bool begins = rc == 0;
    const uint32_t n_before = begins ? counters.n_blocks : 0;
    for (uint32_t first = 0; first < n_blocks && rc == 0; first += COPY_BLOCKS) {
        uint32_t n = n_blocks - first < COPY_BLOCKS ? n_blocks - first : COPY_BLOCKS;
        for (uint32_t i = 0; i < n; i++) {
            const struct model_block *block = &blocks[first + i];
            copy.keys[i] = voxel_key(block->x, block->y, block->z);
            model_voxels_of(block, copy.voxels + (size_t)i * VOXEL_BLOCK_COUNT);
        }
        const size_t to = n_before + first;
        rc = copy_piece(m, &copy, m->at.slot_keys + to,
                        m->at.volume.voxels + to * VOXEL_BLOCK_COUNT, n, true);
    }
    copy_close(&copy);
    if (rc == 0)
        rc = cuda_model_enter(m, n_before, n_blocks);
    if (rc == 0)
        rc = counters_read(m, &counters);
    if (rc < 0)
        return begins ? -EIO : rc;
    return counters.twice ? -EINVAL : 0;
}

extern "C" const struct model_ops model_cuda_ops = {
    .open = model_open,
    .close = model_close,
    .clear = model_empty,
    .integrate = model_fuse_in,
    .view = model_see,
    .stats = model_count,
    .read = model_get,
    .add = model_add,
    .keys = model_keys,
    .take = model_take,
};
