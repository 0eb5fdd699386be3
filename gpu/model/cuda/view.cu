// SPDX-License-Identifier: Apache-2.0
// The volume seen from a pose: blocks in the image, their crossings drawn by atomic minima, the
// surface on the rays of half the resolution, the pixels between, and maps as a frame has them.
#include "gpu/model/cuda/device.cuh"

#include "gpu/track/kernels/normal_maps.h"

#define LIST_THREADS 256
#define DRAW_THREADS 128 // of a block of voxels: four voxels each
#define DRAW_BLOCKS  12  // of an SM
#define RAY_THREADS  128
#define MAP_W        32
#define MAP_H        8

// Slots in the image; the order is of no account. The image is emptied on the way.
__global__ void __launch_bounds__(LIST_THREADS)
    model_visible(const __grid_constant__ struct cuda_volume m,
                  const __grid_constant__ struct cuda_pass p)
{
    const struct level_camera *camera = &p.cameras[1];
    const uint32_t n_px = (uint32_t)(camera->width_px * camera->height_px);
    const uint32_t first = blockIdx.x * LIST_THREADS + threadIdx.x;
    for (uint32_t i = first; i < n_px; i += gridDim.x * LIST_THREADS)
        m.image[i] = VIEW_NOTHING;
    for (uint32_t slot = first; slot < m.counters->n_blocks; slot += gridDim.x * LIST_THREADS)
        if (view_block_visible(camera, &p.T_camera_map, m.volume.voxel_m,
                               voxel_place_of(m.slot_keys[slot]), p.depth_min_m, p.depth_max_m))
            m.visible[atomicAdd(&m.counters->n_visible, 1)] = slot;
}

static __device__ __forceinline__ void draw(const struct cuda_volume *m, const struct cuda_pass *p,
                                            struct voxel_place place, int i, int axis,
                                            struct model_voxel a, struct model_voxel b)
{
    const struct level_camera *camera = &p->cameras[1];
    const float *t = p->T_map_camera.t_m;
    const struct icp_vec3 eye = {t[0], t[1], t[2]};
    const struct view_px_box box = view_crossing(camera, &p->T_camera_map, eye, m->volume.voxel_m,
                                                 VOXEL_BLOCK_EDGE * place.x + (i & 7),
                                                 VOXEL_BLOCK_EDGE * place.y + (i >> 3 & 7),
                                                 VOXEL_BLOCK_EDGE * place.z + (i >> 6), axis, a, b);
    for (int v = box.v0; v <= box.v1; v++)
        for (int u = box.u0; u <= box.u1; u++)
            atomicMin(&m->image[v * camera->width_px + u], view_bits(box.z_m));
}

// The neighbours of the last layer along an axis are the first layer of the next block.
__global__ void __launch_bounds__(DRAW_THREADS)
    model_draw(const __grid_constant__ struct cuda_volume m,
               const __grid_constant__ struct cuda_pass p)
{
    __shared__ struct model_voxel voxels[VOXEL_BLOCK_COUNT];
    __shared__ uint32_t next[3];
    const struct model_voxel none = {0, 0};
    for (uint32_t k = blockIdx.x; k < m.counters->n_visible; k += gridDim.x) {
        const uint32_t slot = m.visible[k];
        const struct voxel_place place = voxel_place_of(m.slot_keys[slot]);
        const struct model_voxel *from = m.volume.voxels + (size_t)slot * VOXEL_BLOCK_COUNT;
        __syncthreads();
        ((uint4 *)voxels)[threadIdx.x] = ((const uint4 *)from)[threadIdx.x];
        if (threadIdx.x < 3)
            next[threadIdx.x] = voxel_find(&m.volume, voxel_key(place.x + (threadIdx.x == 0),
                                                                place.y + (threadIdx.x == 1),
                                                                place.z + (threadIdx.x == 2)));
        __syncthreads();
        for (int i = (int)threadIdx.x; i < VOXEL_BLOCK_COUNT; i += DRAW_THREADS) {
            const struct model_voxel a = voxels[i];
            if (a.weight == 0)
                continue;
            for (int axis = 0; axis < 3; axis++) {
                const int stride = 1 << 3 * axis;
                struct model_voxel b = none;
                if ((i >> 3 * axis & 7) < 7)
                    b = voxels[i + stride];
                else if (next[axis] != VOXEL_NO_SLOT)
                    b = m.volume.voxels[(size_t)next[axis] * VOXEL_BLOCK_COUNT + (i - 7 * stride)];
                if (view_crosses(a, b))
                    draw(&m, &p, place, i, axis, a, b);
            }
        }
    }
}

__global__ void __launch_bounds__(RAY_THREADS)
    model_refine(const __grid_constant__ struct cuda_volume m,
                 const __grid_constant__ struct cuda_pass p)
{
    const struct level_camera *camera = &p.cameras[1];
    const int i = (int)(blockIdx.x * RAY_THREADS + threadIdx.x);
    struct view_cache cache = {VOXEL_NO_KEY, VOXEL_NO_SLOT};
    if (i >= camera->width_px * camera->height_px)
        return;
    const uint32_t bits = m.image[i];
    m.half_m[i] = bits == VIEW_NOTHING
                      ? 0.0f
                      : view_refine(&m.volume, &cache, camera, &p.T_map_camera,
                                    (float)(i % camera->width_px), (float)(i / camera->width_px),
                                    view_depth(bits), p.depth_min_m, p.depth_max_m);
    if (i == 0)
        m.counters->n_visible = 0;
}

__global__ void __launch_bounds__(RAY_THREADS)
    model_between(const __grid_constant__ struct cuda_volume m,
                  const __grid_constant__ struct cuda_pass p)
{
    const struct level_camera *camera = &p.cameras[0], *half = &p.cameras[1];
    const int i = (int)(blockIdx.x * RAY_THREADS + threadIdx.x);
    struct view_cache cache = {VOXEL_NO_KEY, VOXEL_NO_SLOT};
    if (i >= camera->width_px * camera->height_px)
        return;
    const int x = i % camera->width_px, y = i / camera->width_px;
    const int left = min(x / 2, half->width_px - 1), right = min((x + 1) / 2, half->width_px - 1);
    const int above = min(y / 2, half->height_px - 1),
              below = min((y + 1) / 2, half->height_px - 1);
    const float z[4] = {
        m.half_m[above * half->width_px + left], m.half_m[above * half->width_px + right],
        m.half_m[below * half->width_px + left], m.half_m[below * half->width_px + right]};
    m.full_m[i] = view_between(&m.volume, &cache, camera, &p.T_map_camera, x, y, z, p.depth_min_m,
                               p.depth_max_m);
}

static __device__ __forceinline__ float depth_at(const struct cuda_volume *m,
                                                 const struct cuda_pass *p, int level, int x, int y)
{
    const struct level_camera *c = &p->cameras[level];
    if (x < 0 || y < 0 || x >= c->width_px || y >= c->height_px)
        return 0.0f;
    return m->full_m[(y << level) * p->cameras[0].width_px + (x << level)];
}

struct model_maps {
    struct map_px *level[GPU_LEVELS];
};

// blockIdx.z: the level.
__global__ void __launch_bounds__(MAP_W *MAP_H)
    model_make_maps(const __grid_constant__ struct cuda_volume m,
                    const __grid_constant__ struct cuda_pass p, const struct model_maps out)
{
    const int level = (int)blockIdx.z;
    const int x = (int)(blockIdx.x * MAP_W + threadIdx.x);
    const int y = (int)(blockIdx.y * MAP_H + threadIdx.y);
    const struct level_camera camera = level == 0   ? p.cameras[0]
                                       : level == 1 ? p.cameras[1]
                                                    : p.cameras[2];
    struct map_px *map = level == 0 ? out.level[0] : level == 1 ? out.level[1] : out.level[2];
    if (x >= camera.width_px || y >= camera.height_px)
        return;
    map[y * camera.width_px + x] =
        maps_pixel(&camera, (float)x, (float)y, depth_at(&m, &p, level, x, y),
                   depth_at(&m, &p, level, x - 1, y), depth_at(&m, &p, level, x + 1, y),
                   depth_at(&m, &p, level, x, y - 1), depth_at(&m, &p, level, x, y + 1));
}

int cuda_model_view(struct cuda_model *m, const struct cuda_pass *pass, struct gpu_frame *out)
{
    struct cuda_dev *dev = &m->device->dev;
    const struct level_camera *full = &pass->cameras[0], *half = &pass->cameras[1];
    const unsigned n_full = (unsigned)(full->width_px * full->height_px);
    const unsigned n_half = (unsigned)(half->width_px * half->height_px);
    const unsigned n_sms = (unsigned)dev->n_sms;
    const dim3 maps_grid((unsigned)(full->width_px + MAP_W - 1) / MAP_W,
                         (unsigned)(full->height_px + MAP_H - 1) / MAP_H, GPU_LEVELS);
    struct model_maps maps;
    for (int level = 0; level < GPU_LEVELS; level++)
        maps.level[level] = out->maps[level];
    model_visible<<<2 * n_sms, LIST_THREADS, 0, dev->stream>>>(m->at, *pass);
    model_draw<<<DRAW_BLOCKS * n_sms, DRAW_THREADS, 0, dev->stream>>>(m->at, *pass);
    model_refine<<<(n_half + RAY_THREADS - 1) / RAY_THREADS, RAY_THREADS, 0, dev->stream>>>(m->at,
                                                                                            *pass);
    model_between<<<(n_full + RAY_THREADS - 1) / RAY_THREADS, RAY_THREADS, 0, dev->stream>>>(m->at,
                                                                                             *pass);
    model_make_maps<<<maps_grid, dim3(MAP_W, MAP_H), 0, dev->stream>>>(m->at, *pass, maps);
    for (int stage = 0; stage < GPU_N_STAGES; stage++)
        out->stage_us[stage] = 0;
    return CUDA_TRY(dev, cudaGetLastError());
}
