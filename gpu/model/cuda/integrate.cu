// SPDX-License-Identifier: Apache-2.0
// A frame into the volume: places of its surface, room for the new ones, one thread a voxel.
//
// New places go into a hash set of the frame's own first, so that it is known how many there are
// before any is entered: all of them are, or none.
#include "gpu/model/cuda/device.cuh"

#define BAND_THREADS  256
#define ENTER_THREADS 256
#define FUSE_THREADS  256 // two voxels each
#define FUSE_BLOCKS   8   // of an SM

static __device__ __forceinline__ uint64_t compare_and_swap(uint64_t *at, uint64_t old,
                                                            uint64_t value)
{
    return atomicCAS((unsigned long long *)at, (unsigned long long)old, (unsigned long long)value);
}

static __device__ __forceinline__ void note_new(const struct cuda_volume *m, uint64_t key)
{
    uint32_t i = voxel_hash(key, MODEL_PENDING_MASK);
    for (;; i = (i + 1) & MODEL_PENDING_MASK) {
        uint64_t found = m->pending[i];
        if (found == VOXEL_NO_KEY) {
            if (*(volatile uint32_t *)&m->counters->n_new > MODEL_MAX_NEW)
                return; // too many: none will be entered
            found = compare_and_swap(&m->pending[i], VOXEL_NO_KEY, key);
        }
        if (found == key)
            return;
        if (found == VOXEL_NO_KEY)
            break;
    }
    uint32_t at = atomicAdd(&m->counters->n_new, 1);
    if (at < MODEL_PENDING_MASK)
        m->pending_at[at] = i;
}

// The entry of a known place goes on the list of work once a frame.
static __device__ __forceinline__ void touch(const struct cuda_volume *m, uint64_t key,
                                             uint32_t frame)
{
    for (uint32_t i = voxel_hash(key, m->volume.mask);; i = (i + 1) & m->volume.mask) {
        uint64_t found = m->volume.keys[i];
        if (found == key) {
            if (m->entry_frame[i] != frame && atomicExch(&m->entry_frame[i], frame) != frame)
                m->work[atomicAdd(&m->counters->n_work, 1)] = i;
            return;
        }
        if (found == VOXEL_NO_KEY)
            break;
    }
    note_new(m, key);
}

// In one instruction from compute capability 8.0 on.
static __device__ int warp_max(int value)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, value);
#else
    for (int d = 16; d > 0; d >>= 1) {
        const int other = __shfl_xor_sync(0xffffffffu, value, d);
        value = other > value ? other : value;
    }
    return value;
#endif
}

// A thread a pixel of half the resolution; a place that the neighbour to the left names is left to
// it.
__global__ void __launch_bounds__(BAND_THREADS)
    model_band(const __grid_constant__ struct cuda_volume m,
               const __grid_constant__ struct cuda_pass p)
{
    const struct level_camera *camera = &p.cameras[1];
    const int n_px = camera->width_px * camera->height_px;
    const int i = (int)(blockIdx.x * BAND_THREADS + threadIdx.x);
    const int u = i % camera->width_px, v = i / camera->width_px;
    const float z_m = i < n_px ? p.half[i].z_m : 0.0f;
    const float truncation_m = voxel_truncation(m.volume.voxel_m, z_m);
    const int n_steps = z_m > 0.0f ? voxel_band_steps(m.volume.voxel_m, truncation_m) : 0;
    const int most = warp_max(n_steps);
    const float ray_x = camera_ray_x(camera, (float)u), ray_y = camera_ray_y(camera, (float)v);
    for (int step = 0; step < most; step++) {
        uint64_t key = VOXEL_NO_KEY;
        if (step < n_steps) {
            float z =
                kernel_fma(2.0f * (float)step / (float)(n_steps - 1) - 1.0f, truncation_m, z_m);
            const struct icp_vec3 q = {ray_x * z, ray_y * z, z};
            key = voxel_key_at(icp_transform(&p.T_map_camera, q), m.volume.inv_voxel);
        }
        uint64_t left = __shfl_up_sync(0xffffffffu, (unsigned long long)key, 1);
        if (key != VOXEL_NO_KEY && (threadIdx.x % 32 == 0 || left != key))
            touch(&m, key, p.frame);
    }
}

static __device__ __forceinline__ bool new_places_fit(const struct cuda_volume *m, bool adds)
{
    uint32_t n_new = m->counters->n_new;
    return adds && n_new <= MODEL_MAX_NEW && n_new <= m->max_blocks - m->counters->n_blocks;
}

// Returns the entry, VOXEL_NO_SLOT when the key is there already.
static __device__ __forceinline__ uint32_t enter(const struct cuda_volume *m, uint64_t key,
                                                 uint32_t slot)
{
    for (uint32_t i = voxel_hash(key, m->volume.mask);; i = (i + 1) & m->volume.mask) {
        uint64_t found = compare_and_swap(&m->volume.keys[i], VOXEL_NO_KEY, key);
        if (found == key)
            return VOXEL_NO_SLOT;
        if (found != VOXEL_NO_KEY)
            continue;
        m->volume.slots[i] = slot;
        m->slot_keys[slot] = key;
        return i;
    }
}

__global__ void __launch_bounds__(ENTER_THREADS)
    model_enter(const __grid_constant__ struct cuda_volume m, uint32_t frame, bool adds)
{
    const uint32_t n_new = min(m.counters->n_new, MODEL_PENDING_MASK), n = m.counters->n_blocks;
    const bool fits = new_places_fit(&m, adds);
    for (uint32_t i = blockIdx.x * ENTER_THREADS + threadIdx.x; i < n_new;
         i += gridDim.x * ENTER_THREADS) {
        uint64_t key = m.pending[m.pending_at[i]];
        m.pending[m.pending_at[i]] = VOXEL_NO_KEY;
        if (!fits)
            continue;
        uint32_t entry = enter(&m, key, n + i);
        m.entry_frame[entry] = frame;
        m.work[atomicAdd(&m.counters->n_work, 1)] = entry;
    }
}

// The counters, after everybody has read them.
__global__ void model_entered(const __grid_constant__ struct cuda_volume m, bool adds)
{
    bool fits = new_places_fit(&m, adds);
    m.counters->n_refused = fits ? 0 : m.counters->n_new;
    m.counters->n_blocks += fits ? m.counters->n_new : 0;
    m.counters->n_new = 0;
}

__global__ void model_begin(const __grid_constant__ struct cuda_volume m)
{
    m.counters->n_work = m.counters->n_new = 0;
}

// Four bytes a voxel in and out, one gather of 16.
__global__ void __launch_bounds__(FUSE_THREADS)
    model_fuse(const __grid_constant__ struct cuda_volume m,
               const __grid_constant__ struct cuda_pass p)
{
    const struct level_camera *camera = &p.cameras[0];
    const float voxel_m = m.volume.voxel_m;
    for (uint32_t w = blockIdx.x; w < m.counters->n_work; w += gridDim.x) {
        const uint32_t slot = m.volume.slots[m.work[w]];
        const struct voxel_place place = voxel_place_of(m.slot_keys[slot]);
        struct model_voxel *voxels = m.volume.voxels + (size_t)slot * VOXEL_BLOCK_COUNT;
#pragma unroll
        for (int k = 0; k < VOXEL_BLOCK_COUNT / FUSE_THREADS; k++) {
            const int i = (int)threadIdx.x + k * FUSE_THREADS;
            const struct icp_vec3 at = {(float)(VOXEL_BLOCK_EDGE * place.x + (i & 7)) * voxel_m,
                                        (float)(VOXEL_BLOCK_EDGE * place.y + (i >> 3 & 7)) *
                                            voxel_m,
                                        (float)(VOXEL_BLOCK_EDGE * place.z + (i >> 6)) * voxel_m};
            const struct icp_vec3 q = icp_transform(&p.T_camera_map, at);
            const struct icp_px px = icp_project(camera, q);
            const float4 target = __ldg((const float4 *)p.full + px.v * camera->width_px + px.u);
            const struct map_px map = {target.x, target.y, target.z, target.w};
            const struct voxel_measurement seen =
                voxel_measure(camera, voxel_m, q, (float)px.u, (float)px.v, px.inside, map);
            if (seen.weight > 0.0f)
                voxels[i] = voxel_add(voxels[i], seen);
        }
    }
}

int cuda_model_integrate(struct cuda_model *m, const struct cuda_pass *pass)
{
    struct cuda_dev *dev = &m->device->dev;
    const unsigned n_px = (unsigned)(pass->cameras[1].width_px * pass->cameras[1].height_px);
    model_begin<<<1, 1, 0, dev->stream>>>(m->at);
    model_band<<<(n_px + BAND_THREADS - 1) / BAND_THREADS, BAND_THREADS, 0, dev->stream>>>(m->at,
                                                                                           *pass);
    model_enter<<<64, ENTER_THREADS, 0, dev->stream>>>(m->at, pass->frame, pass->adds);
    model_entered<<<1, 1, 0, dev->stream>>>(m->at, pass->adds);
    model_fuse<<<(unsigned)(FUSE_BLOCKS * dev->n_sms), FUSE_THREADS, 0, dev->stream>>>(m->at,
                                                                                       *pass);
    return CUDA_TRY(dev, cudaGetLastError());
}

__global__ void __launch_bounds__(ENTER_THREADS)
    model_enter_written(const __grid_constant__ struct cuda_volume m, uint32_t first, uint32_t n)
{
    for (uint32_t i = blockIdx.x * ENTER_THREADS + threadIdx.x; i < n;
         i += gridDim.x * ENTER_THREADS)
        if (enter(&m, m.slot_keys[first + i], first + i) == VOXEL_NO_SLOT)
            m.counters->twice = 1;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        m.counters->n_blocks = first + n;
}

int cuda_model_enter(struct cuda_model *m, uint32_t first, uint32_t n)
{
    struct cuda_dev *dev = &m->device->dev;
    model_enter_written<<<64, ENTER_THREADS, 0, dev->stream>>>(m->at, first, n);
    return CUDA_TRY(dev, cudaGetLastError());
}

static __device__ __forceinline__ void copy_block(struct model_voxel *out,
                                                  const struct model_voxel *in)
{
    for (uint32_t i = threadIdx.x; i < VOXEL_BLOCK_COUNT; i += blockDim.x)
        out[i] = in[i];
}

__global__ void __launch_bounds__(FUSE_THREADS)
    model_gather(const __grid_constant__ struct cuda_volume m, uint32_t first)
{
    const uint32_t slot = m.work[first + blockIdx.x];
    copy_block(m.staging + (size_t)blockIdx.x * VOXEL_BLOCK_COUNT,
               m.volume.voxels + (size_t)slot * VOXEL_BLOCK_COUNT);
    if (threadIdx.x == 0)
        m.staging_keys[blockIdx.x] = m.slot_keys[slot];
}

int cuda_model_gather(struct cuda_model *m, uint32_t first, uint32_t n)
{
    struct cuda_dev *dev = &m->device->dev;
    model_gather<<<n, FUSE_THREADS, 0, dev->stream>>>(m->at, first);
    return CUDA_TRY(dev, cudaGetLastError());
}

__global__ void __launch_bounds__(FUSE_THREADS)
    model_move(const __grid_constant__ struct cuda_volume m)
{
    const uint32_t from = m.visible[blockIdx.x], to = m.work[blockIdx.x];
    copy_block(m.volume.voxels + (size_t)to * VOXEL_BLOCK_COUNT,
               m.volume.voxels + (size_t)from * VOXEL_BLOCK_COUNT);
    if (threadIdx.x == 0)
        m.slot_keys[to] = m.slot_keys[from];
}

int cuda_model_move(struct cuda_model *m, uint32_t n)
{
    struct cuda_dev *dev = &m->device->dev;
    model_move<<<n, FUSE_THREADS, 0, dev->stream>>>(m->at);
    return CUDA_TRY(dev, cudaGetLastError());
}
