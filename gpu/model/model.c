// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/range.h"
#include "gpu/model/kernels/voxel.h"
#include "gpu/model/ops.h"

#define BLOCK_BYTES  (VOXEL_BLOCK_COUNT * sizeof(struct model_voxel))
#define TABLE_ENTRY  (2 * (sizeof(uint64_t) + sizeof(uint32_t))) // half full at most
#define PLACE_BYTES  (sizeof(uint64_t) + sizeof(uint32_t))       // key and frame of a slot
#define MEMORY_BLOCK (BLOCK_BYTES + 2 * TABLE_ENTRY + PLACE_BYTES)

_Static_assert(MODEL_BLOCK_VOXELS == VOXEL_BLOCK_COUNT, "one size of block");

void model_settings_default(struct model_settings *out)
{
    *out = (struct model_settings){
        .voxel_m = 0.008f, .memory_bytes = (uint64_t)512 << 20, .far_bytes = (uint64_t)512 << 20};
}

static uint32_t max_near(const struct model_settings *settings)
{
    return (uint32_t)(settings->memory_bytes / MEMORY_BLOCK);
}

static uint32_t max_far(const struct model_settings *settings)
{
    return (uint32_t)(settings->far_bytes / sizeof(struct model_block));
}

uint32_t model_max_blocks(const struct model_settings *settings)
{
    return max_near(settings) + max_far(settings);
}

double model_truncation_m(const struct model_settings *settings)
{
    return (double)voxel_truncation(settings->voxel_m, 1.0f);
}

int model_settings_check(const struct model_settings *s, const struct log_sink *log)
{
    const struct range ranges[] = {
        {"map.voxel_m", (double)s->voxel_m, MODEL_VOXEL_M_RANGE, true},
        {"map.memory_bytes", (double)s->memory_bytes, MODEL_MEMORY_BYTES_RANGE, false},
        {"map.far_bytes", (double)s->far_bytes, MODEL_FAR_BYTES_RANGE, false},
    };
    return ranges_check(log, ranges, sizeof ranges / sizeof *ranges);
}

int model_create(struct model **out, struct gpu *gpu, const struct model_settings *settings)
{
    *out = NULL;
    const struct log_sink *log = &gpu->settings.log;
    int rc = model_settings_check(settings, log);
    if (rc < 0)
        return rc;
    const struct model_ops *ops = &model_cpu_ops;
#ifdef POSED_HAVE_CUDA
    if (gpu->backend == GPU_BACKEND_CUDA)
        ops = &model_cuda_ops;
#endif
    const uint32_t max_blocks = max_near(settings);
    rc = ops->open(out, gpu, settings, max_blocks);
    if (rc < 0) {
        struct model_settings usual;
        model_settings_default(&usual);
        log_to(log, LOG_LEVEL_ERROR,
               "map.memory_bytes = %llu: the %s has no room for so many bytes of voxels (%s): give "
               "it less (the default is %llu); blocks out of sight wait in map.far_bytes",
               (unsigned long long)settings->memory_bytes,
               ops == &model_cpu_ops ? "machine" : "device", strerror(-rc),
               (unsigned long long)usual.memory_bytes);
        *out = NULL;
        return rc;
    }
    (*out)->ops = ops;
    (*out)->gpu = gpu;
    (*out)->settings = *settings;
    (*out)->max_blocks = max_blocks;
    (*out)->far.max_blocks = max_far(settings);
    return 0;
}

void model_destroy(struct model **model)
{
    if (model && *model) {
        far_blocks_clear(&(*model)->far);
        (*model)->ops->close(*model);
        *model = NULL;
    }
}

int model_clear(struct model *model)
{
    far_blocks_clear(&model->far);
    return model->ops->clear(model);
}

int model_integrate(struct model *model, const struct gpu_frame *frame,
                    const struct se3 *T_map_camera)
{
    bool adds;
    const int rc = far_blocks_follow(model, T_map_camera, true, &adds);
    return rc < 0 ? rc : model->ops->integrate(model, frame, T_map_camera, adds);
}

int model_view(struct model *model, const struct se3 *T_map_camera, struct gpu_frame *out_frame)
{
    bool all_here;
    const int rc = far_blocks_follow(model, T_map_camera, false, &all_here);
    return rc < 0 ? rc : model->ops->view(model, T_map_camera, out_frame);
}

int model_stats_get(struct model *model, struct model_stats *out)
{
    memset(out, 0, sizeof *out);
    int rc = model->ops->stats(model, out);
    out->max_blocks = model->max_blocks;
    out->n_far = model->far.n_blocks;
    out->max_far = model->far.max_blocks;
    out->used_bytes = out->n_blocks * BLOCK_BYTES;
    return rc;
}

static int by_place(const void *left, const void *right)
{
    const struct model_block *a = left, *b = right;
    if (a->z != b->z)
        return a->z < b->z ? -1 : 1;
    if (a->y != b->y)
        return a->y < b->y ? -1 : 1;
    return a->x < b->x ? -1 : a->x > b->x;
}

int model_read(struct model *model, struct model_block *out, uint32_t room, uint32_t *out_n_blocks)
{
    struct model_stats stats;
    *out_n_blocks = 0;
    int rc = model_stats_get(model, &stats);
    if (rc < 0)
        return rc;
    *out_n_blocks = stats.n_blocks + stats.n_far;
    if (*out_n_blocks > room)
        return -ENOBUFS;
    if (stats.n_far > 0)
        far_blocks_read(&model->far, out + stats.n_blocks);
    return model->ops->read(model, out, stats.n_blocks);
}

void model_order(struct model_block *blocks, uint32_t n_blocks)
{
    if (n_blocks > 0)
        qsort(blocks, n_blocks, sizeof *blocks, by_place);
}

static bool number_can_be(int32_t i)
{
    return i > -VOXEL_KEY_OFFSET && i < VOXEL_KEY_OFFSET - 1;
}

bool model_place_can_be(const struct model_block *block)
{
    return number_can_be(block->x) && number_can_be(block->y) && number_can_be(block->z);
}

int model_write(struct model *model, const struct model_block *blocks, uint32_t n_blocks)
{
    if (n_blocks > model->max_blocks + model->far.max_blocks)
        return -ENOSPC;
    int rc = 0;
    for (uint32_t i = 0; i < n_blocks && rc == 0; i++)
        rc = model_place_can_be(&blocks[i]) ? 0 : -EINVAL;
    if (rc == 0 && n_blocks > model->max_blocks) {
        rc = far_blocks_write(model, blocks, n_blocks);
    } else if (rc == 0) {
        rc = model_clear(model);
        rc = rc < 0 ? rc : model->ops->add(model, blocks, n_blocks);
    }
    if (rc == -EINVAL)
        (void)!model_clear(model);
    return rc;
}

void model_block_of(uint64_t key, const struct model_voxel *voxels, struct model_block *out)
{
    const struct voxel_place place = voxel_place_of(key);
    out->x = place.x;
    out->y = place.y;
    out->z = place.z;
    for (int i = 0; i < VOXEL_BLOCK_COUNT; i++) {
        out->distance[i] = voxels[i].distance;
        out->weight[i] = voxels[i].weight;
    }
}

void model_voxels_of(const struct model_block *block, struct model_voxel *out)
{
    for (int i = 0; i < VOXEL_BLOCK_COUNT; i++) {
        const uint16_t weight = block->weight[i];
        out[i].distance = weight ? block->distance[i] : 0;
        out[i].weight = weight < VOXEL_WEIGHT_MAX ? weight : VOXEL_WEIGHT_MAX;
    }
}

uint32_t model_moving(const uint32_t *slots, uint32_t n, uint32_t n_blocks, uint32_t *out)
{
    const uint32_t n_left = n_blocks - n;
    uint32_t n_gaps = 0, n_moving = 0;
    while (n_gaps < n && slots[n_gaps] < n_left)
        n_gaps++;
    for (uint32_t slot = n_left, k = n_gaps; n_moving < n_gaps; slot++) {
        if (k < n && slots[k] == slot)
            k++;
        else
            out[n_moving++] = slot;
    }
    return n_moving;
}
