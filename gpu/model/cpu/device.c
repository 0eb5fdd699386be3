// SPDX-License-Identifier: Apache-2.0
// The CPU twin of the model. Keys are gathered by chunks of rows and entered one after another, so
// that even the slots come out alike; blocks and rows are then independent.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/cpu/voxel_loops.h"
#include "gpu/model/ops.h"
#include "gpu/track/cpu/device.h"
#include "proto/se3.h"

#define BAND_ROWS    8 // of a chunk, at half resolution
#define BAND_LEVEL   1 // every second pixel meets every block
#define VIEW_LEVEL   1 // resolution of the search for the surface
#define BLOCKS_CHUNK 32

struct cpu_model {
    struct model model; // first
    struct cpu_device *device;
    const struct loops *loops;
    struct voxel_volume volume;
    uint64_t *slot_keys;
    uint32_t *slot_frame; // the newest frame that lies in the block
    uint32_t n_blocks, max_blocks, frame;
    uint32_t n_refused;

    uint64_t *band_keys; // of each chunk: places not yet in the volume
    uint32_t *n_band_keys;
    uint32_t *work; // slots that a pass is about
    uint32_t n_work;
    uint32_t *image; // of half the resolution: bits of depths, see view.h
    float *half_m;   // refined

    struct loops_camera camera; // of the pass under way
    struct gpu_frame *view;
};

const struct loops *loops_choose(const struct rows *rows)
{
#if defined(__x86_64__)
    if (rows == &rows_avx512)
        return &loops_avx512;
    if (rows == &rows_avx2)
        return &loops_avx2;
#endif
    (void)rows;
    return &loops_baseline;
}

static uint32_t n_band_chunks(const struct cpu_model *m)
{
    return ((uint32_t)m->device->cameras[BAND_LEVEL].height_px + BAND_ROWS - 1) / BAND_ROWS;
}

static size_t band_room(const struct cpu_model *m)
{
    return (size_t)m->device->cameras[BAND_LEVEL].width_px * VOXEL_MAX_STEPS * (BAND_ROWS + 1);
}

static void cpu_close(struct model *model)
{
    struct cpu_model *m = (struct cpu_model *)model;
    free(m->volume.keys);
    free(m->volume.slots);
    free(m->volume.voxels);
    free(m->slot_keys);
    free(m->slot_frame);
    free(m->band_keys);
    free(m->n_band_keys);
    free(m->work);
    free(m->image);
    free(m->half_m);
    free(m);
}

static int cpu_clear(struct model *model)
{
    struct cpu_model *m = (struct cpu_model *)model;
    memset(m->volume.keys, 0xff, ((size_t)m->volume.mask + 1) * sizeof *m->volume.keys);
    memset(m->volume.voxels, 0, (size_t)m->n_blocks * VOXEL_BLOCK_COUNT * sizeof *m->volume.voxels);
    m->n_blocks = m->n_work = m->n_refused = 0;
    return 0;
}

static int cpu_open(struct model **out, struct gpu *gpu, const struct model_settings *settings,
                    uint32_t max_blocks)
{
    struct cpu_model *m = calloc(1, sizeof *m);
    if (!m)
        return -ENOMEM;
    m->device = (struct cpu_device *)gpu;
    m->loops = loops_choose(m->device->rows);
    m->max_blocks = max_blocks;
    uint32_t n_entries = 1024;
    while (n_entries < 2 * max_blocks)
        n_entries *= 2;
    m->volume.mask = n_entries - 1;
    m->volume.voxel_m = settings->voxel_m;
    m->volume.inv_voxel = 1.0f / settings->voxel_m;
    const struct level_camera *half = &m->device->cameras[VIEW_LEVEL];
    size_t n_px = (size_t)half->width_px * (size_t)half->height_px;
    m->volume.keys = malloc(n_entries * sizeof *m->volume.keys);
    m->volume.slots = malloc(n_entries * sizeof *m->volume.slots);
    // Zero pages that the system hands out as they are written.
    m->volume.voxels = calloc((size_t)max_blocks * VOXEL_BLOCK_COUNT, sizeof *m->volume.voxels);
    m->slot_keys = malloc(max_blocks * sizeof *m->slot_keys);
    m->slot_frame = calloc(max_blocks, sizeof *m->slot_frame);
    m->work = malloc(max_blocks * sizeof *m->work);
    m->band_keys = malloc(n_band_chunks(m) * band_room(m) * sizeof *m->band_keys);
    m->n_band_keys = calloc(n_band_chunks(m), sizeof *m->n_band_keys);
    m->image = malloc(n_px * sizeof *m->image);
    m->half_m = malloc(n_px * sizeof *m->half_m);
    if (!m->volume.keys || !m->volume.slots || !m->volume.voxels || !m->slot_keys ||
        !m->slot_frame || !m->work || !m->band_keys || !m->n_band_keys || !m->image || !m->half_m) {
        cpu_close(&m->model);
        return -ENOMEM;
    }
    *out = &m->model;
    return cpu_clear(*out);
}

static void camera_fill(struct cpu_model *m, const struct se3 *T_map_camera)
{
    const struct gpu_settings *s = &m->device->gpu.settings;
    struct se3 T_camera_map = se3_inverse(T_map_camera);
    m->camera = (struct loops_camera){
        .camera = m->device->cameras[0],
        .T_camera_map = view_pose_of(&T_camera_map),
        .T_map_camera = view_pose_of(T_map_camera),
        .depth_min_m = s->depth_min_m,
        .depth_max_m = s->depth_max_m,
    };
}

// Places of the frame's surface: known ones are marked, others kept for the chunk.
static void chunk_band(void *context, uint32_t chunk)
{
    struct cpu_model *m = context;
    struct loops_camera c = m->camera;
    uint64_t *kept = m->band_keys + chunk * band_room(m);
    uint64_t *row = kept + (size_t)c.camera.width_px * VOXEL_MAX_STEPS * BAND_ROWS;
    uint32_t n_kept = 0;
    int32_t first = (int32_t)chunk * BAND_ROWS;
    for (int32_t y = first; y < first + BAND_ROWS && y < c.camera.height_px; y++) {
        uint32_t n = m->loops->band(&c, m->volume.voxel_m, y, row);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t slot = voxel_find(&m->volume, row[i]);
            if (slot == VOXEL_NO_SLOT)
                kept[n_kept++] = row[i];
            else
                __atomic_store_n(&m->slot_frame[slot], m->frame, __ATOMIC_RELAXED);
        }
    }
    m->n_band_keys[chunk] = n_kept;
}

// Returns the slot, new or not; VOXEL_NO_SLOT where there is no room.
static uint32_t enter(struct cpu_model *m, uint64_t key)
{
    uint32_t i = voxel_hash(key, m->volume.mask);
    for (; m->volume.keys[i] != VOXEL_NO_KEY; i = (i + 1) & m->volume.mask)
        if (m->volume.keys[i] == key)
            return m->volume.slots[i];
    if (m->n_blocks == m->max_blocks)
        return VOXEL_NO_SLOT;
    m->volume.keys[i] = key;
    m->volume.slots[i] = m->n_blocks;
    m->slot_keys[m->n_blocks] = key;
    return m->n_blocks++;
}

// All new places of the frame, or none. The newest entries of a table with linear probing can be
// taken out again in reverse order.
static void enter_all(struct cpu_model *m, bool adds)
{
    const uint32_t n_before = m->n_blocks;
    bool fits = true;
    for (uint32_t chunk = 0; chunk < n_band_chunks(m) && fits; chunk++)
        for (uint32_t i = 0; i < m->n_band_keys[chunk] && fits; i++) {
            uint32_t slot = enter(m, m->band_keys[chunk * band_room(m) + i]);
            fits = adds && slot != VOXEL_NO_SLOT && m->n_blocks - n_before <= MODEL_MAX_NEW;
            if (fits)
                m->slot_frame[slot] = m->frame;
        }
    if (fits)
        return;
    m->n_refused = m->n_blocks - n_before + 1;
    while (m->n_blocks > n_before) {
        uint64_t key = m->slot_keys[--m->n_blocks];
        uint32_t i = voxel_hash(key, m->volume.mask);
        while (m->volume.keys[i] != key)
            i = (i + 1) & m->volume.mask;
        m->volume.keys[i] = VOXEL_NO_KEY;
    }
}

static void chunk_integrate(void *context, uint32_t chunk)
{
    struct cpu_model *m = context;
    for (uint32_t i = chunk * BLOCKS_CHUNK; i < (chunk + 1) * BLOCKS_CHUNK && i < m->n_work; i++) {
        uint32_t slot = m->work[i];
        m->loops->integrate(&m->camera, m->volume.voxel_m, voxel_place_of(m->slot_keys[slot]),
                            m->volume.voxels + (size_t)slot * VOXEL_BLOCK_COUNT);
    }
}

static uint32_t n_chunks_of(uint32_t n)
{
    return (n + BLOCKS_CHUNK - 1) / BLOCKS_CHUNK;
}

static int cpu_integrate(struct model *model, const struct gpu_frame *frame,
                         const struct se3 *T_map_camera, bool adds)
{
    struct cpu_model *m = (struct cpu_model *)model;
    m->frame++;
    m->n_refused = 0;
    camera_fill(m, T_map_camera);
    m->camera.camera = m->device->cameras[BAND_LEVEL];
    m->camera.map = frame->maps[BAND_LEVEL];
    pool_run(m->device->pool, chunk_band, m, n_band_chunks(m));
    enter_all(m, adds);
    m->n_work = 0;
    for (uint32_t slot = 0; slot < m->n_blocks; slot++)
        if (m->slot_frame[slot] == m->frame)
            m->work[m->n_work++] = slot;
    m->camera.camera = m->device->cameras[0];
    m->camera.map = frame->maps[0];
    pool_run(m->device->pool, chunk_integrate, m, n_chunks_of(m->n_work));
    return 0;
}

static void chunk_draw(void *context, uint32_t chunk)
{
    struct cpu_model *m = context;
    const struct loops_camera *c = &m->camera;
    for (uint32_t slot = chunk * BLOCKS_CHUNK;
         slot < (chunk + 1) * BLOCKS_CHUNK && slot < m->n_blocks; slot++) {
        struct voxel_place place = voxel_place_of(m->slot_keys[slot]);
        if (view_block_visible(&c->camera, &c->T_camera_map, m->volume.voxel_m, place,
                               c->depth_min_m, c->depth_max_m))
            m->loops->draw(c, &m->volume, place,
                           m->volume.voxels + (size_t)slot * VOXEL_BLOCK_COUNT, m->image);
    }
}

static void chunk_clear(void *context, uint32_t chunk)
{
    struct cpu_model *m = context;
    const struct level_camera *c = &m->camera.camera;
    int32_t first = (int32_t)chunk * CPU_CHUNK_ROWS, end = first + CPU_CHUNK_ROWS;
    end = end < c->height_px ? end : c->height_px;
    for (int32_t i = first * c->width_px; i < end * c->width_px; i++)
        m->image[i] = VIEW_NOTHING;
}

static void chunk_refine(void *context, uint32_t chunk)
{
    struct cpu_model *m = context;
    int32_t first = (int32_t)chunk * CPU_CHUNK_ROWS;
    for (int32_t y = first; y < first + CPU_CHUNK_ROWS && y < m->camera.camera.height_px; y++)
        m->loops->refine(&m->camera, &m->volume, y, m->image,
                         m->half_m + (size_t)y * (size_t)m->camera.camera.width_px);
}

static void chunk_between(void *context, uint32_t chunk)
{
    struct cpu_model *m = context;
    const struct level_camera *half = &m->device->cameras[VIEW_LEVEL];
    int32_t first = (int32_t)chunk * CPU_CHUNK_ROWS;
    for (int32_t y = first; y < first + CPU_CHUNK_ROWS && y < m->camera.camera.height_px; y++)
        m->loops->between(&m->camera, &m->volume, y, m->half_m, half->width_px, half->height_px,
                          padded_row(&m->device->filtered_m, y));
}

static int cpu_view(struct model *model, const struct se3 *T_map_camera,
                    struct gpu_frame *out_frame)
{
    struct cpu_model *m = (struct cpu_model *)model;
    uint32_t n_rows = cpu_n_chunks(m->device->cameras[VIEW_LEVEL].height_px);
    camera_fill(m, T_map_camera);
    m->camera.camera = m->device->cameras[VIEW_LEVEL];
    pool_run(m->device->pool, chunk_clear, m, n_rows);
    pool_run(m->device->pool, chunk_draw, m, n_chunks_of(m->n_blocks));
    pool_run(m->device->pool, chunk_refine, m, n_rows);
    m->camera.camera = m->device->cameras[0];
    pool_run(m->device->pool, chunk_between, m, cpu_n_chunks(m->camera.camera.height_px));
    cpu_maps(m->device, out_frame);
    memset(out_frame->stage_us, 0, sizeof out_frame->stage_us);
    return 0;
}

static int cpu_stats(struct model *model, struct model_stats *out)
{
    const struct cpu_model *m = (const struct cpu_model *)model;
    out->n_blocks = m->n_blocks;
    out->n_touched = m->n_work;
    out->n_refused = m->n_refused;
    return 0;
}

static struct model_voxel *voxels_of(const struct cpu_model *m, uint32_t slot)
{
    return m->volume.voxels + (size_t)slot * VOXEL_BLOCK_COUNT;
}

static void block_read(const struct cpu_model *m, uint32_t slot, struct model_block *out)
{
    model_block_of(m->slot_keys[slot], voxels_of(m, slot), out);
}

static int cpu_read(struct model *model, struct model_block *out, uint32_t n_blocks)
{
    const struct cpu_model *m = (const struct cpu_model *)model;
    for (uint32_t slot = 0; slot < n_blocks; slot++)
        block_read(m, slot, &out[slot]);
    return 0;
}

static int cpu_keys(struct model *model, uint64_t *out, uint32_t n_blocks)
{
    const struct cpu_model *m = (const struct cpu_model *)model;
    memcpy(out, m->slot_keys, n_blocks * sizeof *out);
    return 0;
}

// A table with linear probing loses no entry from its middle: it is made anew.
static int cpu_take(struct model *model, const uint32_t *slots, uint32_t n, struct model_block *out)
{
    struct cpu_model *m = (struct cpu_model *)model;
    const uint32_t n_moving = model_moving(slots, n, m->n_blocks, m->work);
    for (uint32_t i = 0; i < n; i++)
        block_read(m, slots[i], &out[i]);
    for (uint32_t i = 0; i < n_moving; i++) {
        memcpy(voxels_of(m, slots[i]), voxels_of(m, m->work[i]),
               VOXEL_BLOCK_COUNT * sizeof *m->volume.voxels);
        m->slot_keys[slots[i]] = m->slot_keys[m->work[i]];
        m->slot_frame[slots[i]] = m->slot_frame[m->work[i]];
    }
    const uint32_t n_left = m->n_blocks - n;
    memset(voxels_of(m, n_left), 0, (size_t)n * VOXEL_BLOCK_COUNT * sizeof *m->volume.voxels);
    memset(m->volume.keys, 0xff, ((size_t)m->volume.mask + 1) * sizeof *m->volume.keys);
    for (m->n_blocks = 0; m->n_blocks < n_left;)
        (void)enter(m, m->slot_keys[m->n_blocks]);
    return 0;
}

static int cpu_add(struct model *model, const struct model_block *blocks, uint32_t n_blocks)
{
    struct cpu_model *m = (struct cpu_model *)model;
    const uint32_t n_before = m->n_blocks;
    for (uint32_t b = 0; b < n_blocks; b++) {
        uint32_t slot = enter(m, voxel_key(blocks[b].x, blocks[b].y, blocks[b].z));
        if (slot != n_before + b) // this place was there before
            return -EINVAL;
        m->slot_frame[slot] = 0;
        model_voxels_of(&blocks[b], voxels_of(m, slot));
    }
    return 0;
}

const struct model_ops model_cpu_ops = {
    .open = cpu_open,
    .close = cpu_close,
    .clear = cpu_clear,
    .integrate = cpu_integrate,
    .view = cpu_view,
    .stats = cpu_stats,
    .read = cpu_read,
    .add = cpu_add,
    .keys = cpu_keys,
    .take = cpu_take,
};
