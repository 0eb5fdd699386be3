// SPDX-License-Identifier: Apache-2.0
// From raw depth to start points, without the host: depth in metres, normals, planes larger than
// the object, cubes of space.
//
//   depth    a thread a pixel: 2 bytes in, 4 out
//   normal   a thread a pixel: 5 neighbours in, 16 bytes out
//   planes   a thread a cell and direction; the fit in double, as on the CPU
//   starts   one block: the cubes' hash table lies in shared memory; then a warp a start point
//
// Measured on an H200 at 1.5 GHz, 640 x 480: depth 5, normals 7, fits 25, marks 53, starts 82 us
// (34,000 pixels by one block: divisions), their normals 7 us.
#include "gpu/search/cuda/find.cuh"
#include "gpu/search/kernels/hypothesis_counts.h"
#include "gpu/search/kernels/normal.h"
#include "gpu/search/kernels/plane.h"
#include "gpu/search/kernels/start_points.h"

#define THREADS        256
#define STARTS_THREADS 1024

__global__ void depth_kernel(const uint16_t *raw, const uint8_t *mask,
                             struct search_cuda_region region, float m_per_unit, int width,
                             uint32_t n_pixels, float *z_m, struct search_cuda_counts *counts)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    float z = 0;
    if (i < n_pixels) {
        const int u = (int)i % width, v = (int)i / width;
        if (u >= region.u0 && u < region.u1 && v >= region.v0 && v < region.v1 &&
            (!mask || mask[i]))
            z = search_depth_m(raw[i], m_per_unit);
        z_m[i] = z;
    }
    const int n = __syncthreads_count(z > 0);
    if (threadIdx.x == 0 && n > 0)
        atomicAdd(&counts->n_valid, (uint32_t)n);
}

__global__ void normal_kernel(const float *z_m, struct search_camera camera, uint32_t n_pixels,
                              float4 *normal_z)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n_pixels)
        return;
    float out[4];
    search_normal_at(z_m, &camera, (int)i % camera.width, (int)i / camera.width, out);
    normal_z[i] = make_float4(out[0], out[1], out[2], out[3]);
}

__global__ void plane_cell_kernel(const float *z_m, struct search_planes planes, float *inverse)
{
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i < planes.width * planes.height)
        inverse[i] =
            search_plane_cell(z_m, planes.camera.width, i % planes.width, i / planes.width);
}

__global__ void plane_fit_kernel(struct search_planes planes, float *fits)
{
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i < planes.width * planes.height)
        search_plane_fit(&planes, i % planes.width, i / planes.width, fits + 3 * i);
}

// Eight threads a cell: a direction each, then half a row of the cell's pixels each.
__global__ void plane_mark_kernel(struct search_planes planes, const float *fits, float *z_m,
                                  float4 *normal_z)
{
    enum { STEP = SEARCH_PLANE_STEP };
    static_assert(STEP == SEARCH_PLANE_DIRECTIONS, "a pair of threads has a line and a row");
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x) / (2 * STEP);
    const int k = threadIdx.x / 2 % STEP, back = threadIdx.x % 2;
    const int u = i % planes.width, v = i / planes.width;
    const bool inside = i < planes.width * planes.height;
    float fit[3] = {0, 0, 0};
    for (int j = 0; j < 3 && inside; j++)
        fit[j] = fits[3 * i + j];
    float there = fit[2] > 0 ? search_plane_along(&planes, fit, u, v, k, back) : 0;
    there += __shfl_xor_sync(0xffffffffu, there, 1);
    const bool goes_on = fit[2] > 0 && !back && there >= search_plane_far_m(planes.radius_m);
    const uint32_t all = __ballot_sync(0xffffffffu, goes_on);
    const uint32_t of_cell = all >> (threadIdx.x % 32 / (2 * STEP) * (2 * STEP));
    if (__popc(of_cell & ((1u << 2 * STEP) - 1)) < SEARCH_PLANE_NEEDED)
        return;
    for (int x = 2 * back; x < 2 * back + 2; x++) {
        const int at = (v * STEP + k) * planes.camera.width + u * STEP + x;
        z_m[at] = search_plane_mark(&planes, fit, x, k, z_m[at]);
        normal_z[at].w = z_m[at];
    }
}

#define NO_CUBE (~0ull)

struct starts_shared {
    unsigned long long cube[SEARCH_START_TABLE];
    uint32_t first[SEARCH_START_TABLE]; // pixel of the thinned image
    uint32_t chosen[SEARCH_STARTS_MAX];
    uint32_t n, n_chosen;
};

// A cube in 63 bits.
__device__ static unsigned long long pack_cube(const struct search_cube *cube)
{
    const unsigned long long mask = 0x1fffff;
    return ((unsigned long long)cube->x & mask) | ((unsigned long long)cube->y & mask) << 21 |
           ((unsigned long long)cube->z & mask) << 42;
}

// A thousand pixels at a time; stops when there are too many cubes, so that the table never fills.
__device__ static void enter_cubes(struct starts_shared *shared, const float *z_m,
                                   const struct search_camera *camera, float cube_m, int columns,
                                   int n_pixels)
{
    enum { STEP = SEARCH_START_STEP };
    for (int from = 0; from < n_pixels; from += STARTS_THREADS) {
        const int i = from + (int)threadIdx.x;
        const int u = STEP + i % columns * STEP, v = STEP + i / columns * STEP;
        const float z = i < n_pixels ? z_m[(size_t)v * (size_t)camera->width + (size_t)u] : 0.f;
        if (z > 0) {
            float p[3];
            search_start_point(camera, u, v, z, p);
            const struct search_cube cube = search_cube_of(p, cube_m);
            const unsigned long long key = pack_cube(&cube);
            uint32_t at = search_cube_hash(&cube) & (SEARCH_START_TABLE - 1);
            for (;;) {
                const unsigned long long before = atomicCAS(&shared->cube[at], NO_CUBE, key);
                if (before == NO_CUBE)
                    atomicAdd(&shared->n, 1);
                if (before == NO_CUBE || before == key)
                    break;
                at = (at + 1) & (SEARCH_START_TABLE - 1);
            }
            atomicMin(&shared->first[at], (uint32_t)i);
        }
        __syncthreads();
        const bool many = shared->n > SEARCH_STARTS_MAX;
        __syncthreads();
        if (many)
            return;
    }
}

__global__ void __launch_bounds__(STARTS_THREADS)
    starts_kernel(const float *z_m, struct search_camera camera, float cube_m, float px_m,
                  struct search_frame *out, struct search_cuda_counts *counts)
{
    enum { STEP = SEARCH_START_STEP };
    extern __shared__ uint4 memory[];
    struct starts_shared *shared = (struct starts_shared *)memory;
    const int columns = camera.width > 2 * STEP ? (camera.width - STEP - 1) / STEP : 0;
    const int rows = camera.height > 2 * STEP ? (camera.height - STEP - 1) / STEP : 0;
    for (;; cube_m *= SEARCH_START_GROW) {
        for (int i = threadIdx.x; i < SEARCH_START_TABLE; i += STARTS_THREADS) {
            shared->cube[i] = NO_CUBE;
            shared->first[i] = 0xffffffffu;
        }
        if (threadIdx.x == 0)
            shared->n = shared->n_chosen = 0;
        __syncthreads();
        enter_cubes(shared, z_m, &camera, cube_m, columns, columns * rows);
        __syncthreads();
        const bool few = shared->n <= SEARCH_STARTS_MAX;
        __syncthreads();
        if (few)
            break;
    }
    for (int i = threadIdx.x; i < SEARCH_START_TABLE; i += STARTS_THREADS)
        if (shared->cube[i] != NO_CUBE)
            shared->chosen[atomicAdd(&shared->n_chosen, 1)] = shared->first[i];
    __syncthreads();
    const uint32_t n = shared->n_chosen;
    for (uint32_t i = threadIdx.x; i < n; i += STARTS_THREADS) {
        const uint32_t pixel = shared->chosen[i];
        uint32_t rank = 0; // in reading order
        for (uint32_t j = 0; j < n; j++)
            rank += shared->chosen[j] < pixel;
        const int u = STEP + (int)pixel % columns * STEP, v = STEP + (int)pixel / columns * STEP;
        float p[3];
        search_start_point(&camera, u, v, z_m[(size_t)v * (size_t)camera.width + (size_t)u], p);
        search_start_frame(p, px_m, &out[rank]);
    }
    if (threadIdx.x == 0) {
        counts->scan.n_starts = n;
        counts->scan.keep = search_keep_per_start(n);
    }
}

// A warp a start point.
__global__ void start_normal_kernel(struct search_scene scene, float radius_m,
                                    const struct search_cuda_counts *counts,
                                    struct search_frame *starts)
{
    const uint32_t i = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (i >= counts->scan.n_starts)
        return;
    struct search_frame frame = starts[i];
    const struct search_start_around at =
        search_start_surroundings(&scene.camera, &frame, radius_m);
    const int side = 2 * at.r + 1;
    int32_t sum[3] = {0, 0, 0};
    for (int k = (int)lane; k < side * side; k += 32)
        search_start_add(&scene, &at, at.u - at.r + k % side, at.v - at.r + k / side, sum);
    for (int k = 0; k < 3; k++)
        sum[k] = search_cuda_warp_sum(sum[k]);
    search_start_normal(sum, &frame);
    if (lane == 0)
        starts[i] = frame;
}

int search_cuda_enqueue_prepare(struct search_cuda *cuda, const struct search_cuda_input *input,
                                float radius_m, float map_px_m)
{
    struct search_find *find = &cuda->find;
    const uint32_t n = (uint32_t)(cuda->camera.width * cuda->camera.height);
    const uint32_t n_blocks = (n + THREADS - 1) / THREADS;
    struct search_cuda_counts *counts = (struct search_cuda_counts *)find->counts.at;
    float4 *normal_z = (float4 *)find->normal_z.at;
    depth_kernel<<<n_blocks, THREADS, 0, cuda->dev.stream>>>(input->raw, input->mask, input->region,
                                                             input->m_per_unit, cuda->camera.width,
                                                             n, cuda->z_m, counts);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    normal_kernel<<<n_blocks, THREADS, 0, cuda->dev.stream>>>(cuda->z_m, cuda->camera, n, normal_z);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    float *inverse = (float *)find->planes.at, *fits = inverse + n / 16;
    const struct search_planes planes = {cuda->camera, radius_m, inverse,
                                         cuda->camera.width / SEARCH_PLANE_STEP,
                                         cuda->camera.height / SEARCH_PLANE_STEP};
    const uint32_t n_cells = (uint32_t)(planes.width * planes.height);
    if (n_cells > 0) {
        const uint32_t cell_blocks = (n_cells + THREADS - 1) / THREADS;
        plane_cell_kernel<<<cell_blocks, THREADS, 0, cuda->dev.stream>>>(cuda->z_m, planes,
                                                                         inverse);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
        plane_fit_kernel<<<cell_blocks, THREADS, 0, cuda->dev.stream>>>(planes, fits);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
        plane_mark_kernel<<<(n_cells * 2 * SEARCH_PLANE_STEP + THREADS - 1) / THREADS, THREADS, 0,
                            cuda->dev.stream>>>(planes, fits, cuda->z_m, normal_z);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    }
    struct search_frame *starts = (struct search_frame *)find->starts.at;
    starts_kernel<<<1, STARTS_THREADS, sizeof(struct starts_shared), cuda->dev.stream>>>(
        cuda->z_m, cuda->camera, SEARCH_START_CUBE * radius_m, map_px_m, starts, counts);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    const struct search_scene scene = {(const float *)normal_z, cuda->camera};
    start_normal_kernel<<<SEARCH_STARTS_MAX * 32 / THREADS, THREADS, 0, cuda->dev.stream>>>(
        scene, radius_m, counts, starts);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

int search_cuda_prepare_starts(struct search_cuda *cuda)
{
    CUDA_OR_RETURN(&cuda->dev,
                   cudaFuncSetAttribute(starts_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)sizeof(struct starts_shared)));
    return 0;
}
