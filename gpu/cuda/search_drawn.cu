// SPDX-License-Identifier: Apache-2.0
// The refinement of the best candidates with the model drawn at the image's full resolution.
//
//   project  blocks over slices of the vertices: 12 bytes in, 16 out
//   draw     blocks over slices of the triangles; a 64-bit key a pixel (depth, triangle) in memory,
//            the least wins: 70,000 triangles of one or two pixels, 64 candidates: 4.5 million
//            triangles, 60 bytes and some 300 instructions each
//   align    a block a candidate: model points from the drawn pixels, then steps of ICP
//   judge    a block a candidate: every drawn pixel, every pixel of the outline
//   limit    draw: instructions; align: latency of a step (gather, sums over the block, solve)
//
// Measured on an H200 at 1.5 GHz, 64 candidates of 69,000 triangles: project 20, draw 95, align 86,
// judge 60 us; with 12 candidates project 7, draw 26 us, the others as long.
#include "gpu/cuda/search_find.cuh"
#include "gpu/kernels/search_draw.h"
#include "gpu/kernels/search_icp.h"
#include "gpu/kernels/search_judge.h"

#define DRAW_THREADS  256
#define DRAW_SLICES   48
#define ALIGN_THREADS 256
#define ALIGN_WARPS   (ALIGN_THREADS / 32)
#define JUDGE_THREADS 1024
#define JUDGE_WARPS   (JUDGE_THREADS / 32)
#define POINTS_MOST   8192 // thinning aims at 2,457
#define NOTHING       (~0ull)

struct drawn_work {
    struct search_scene scene;
    const float *x, *y, *z; // vertices, map pixels
    const uint32_t *triangles;
    uint32_t n_triangles;
    float radius_m, px_m;
    uint32_t image_pixels;
    uint32_t n_vertices;
    unsigned long long *keys; // image_pixels a candidate
    int4 *corners;            // n_vertices a candidate: x, y, bits of the value
    float *points;            // 6 x POINTS_MOST a candidate
    struct search_candidate *candidates;
    const uint32_t *n;
};

// Floats in their order as unsigned integers.
__device__ static uint32_t ordered_bits(float value)
{
    const uint32_t bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ static float key_value(unsigned long long key)
{
    const uint32_t bits = (uint32_t)(key >> 32);
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

// Empties the candidates' rectangles and projects their vertices.
__global__ void __launch_bounds__(DRAW_THREADS) project_kernel(struct drawn_work work)
{
    if (blockIdx.y >= *work.n)
        return;
    const struct search_candidate *c = &work.candidates[blockIdx.y];
    const struct search_camera *cam = &work.scene.camera;
    const float t_m[3] = {c->t_m[0], c->t_m[1], c->t_m[2]};
    const struct search_rectangle at = search_rectangle_of(cam, work.radius_m, t_m);
    const float cu = cam->cx - (float)at.u0, cv = cam->cy - (float)at.v0;
    const uint32_t first = blockIdx.x * DRAW_THREADS + threadIdx.x;
    unsigned long long *keys = work.keys + (size_t)blockIdx.y * work.image_pixels;
    for (uint32_t i = first; i < (uint32_t)(at.width * at.height); i += DRAW_SLICES * DRAW_THREADS)
        keys[i] = NOTHING;
    float scaled[9];
    for (int k = 0; k < 9; k++)
        scaled[k] = c->rotation[k] * work.px_m;
    int4 *corners = work.corners + (size_t)blockIdx.y * work.n_vertices;
    for (uint32_t i = first; i < work.n_vertices; i += DRAW_SLICES * DRAW_THREADS) {
        int4 corner = {0, 0, 0, 0};
        float value;
        search_draw_corner(cam, cu, cv, scaled, t_m, work.x[i], work.y[i], work.z[i], &corner.x,
                           &corner.y, &value);
        corner.z = __float_as_int(value);
        corners[i] = corner;
    }
}

__global__ void __launch_bounds__(DRAW_THREADS) draw_kernel(struct drawn_work work)
{
    if (blockIdx.y >= *work.n)
        return;
    const struct search_rectangle at =
        search_rectangle_of(&work.scene.camera, work.radius_m, work.candidates[blockIdx.y].t_m);
    unsigned long long *keys = work.keys + (size_t)blockIdx.y * work.image_pixels;
    const int4 *corners = work.corners + (size_t)blockIdx.y * work.n_vertices;
    for (uint32_t i = blockIdx.x * DRAW_THREADS + threadIdx.x; i < work.n_triangles;
         i += DRAW_SLICES * DRAW_THREADS) {
        struct raster_corner corner[3];
#pragma unroll
        for (int k = 0; k < 3; k++) {
            const int4 from = corners[work.triangles[3 * (size_t)i + (size_t)k]];
            corner[k].x = from.x;
            corner[k].y = from.y;
            corner[k].value = __int_as_float(from.z);
        }
        struct raster_triangle t;
        if (!raster_setup(&corner[0], &corner[1], &corner[2], at.width, at.height, &t))
            continue;
        for (int v = t.v0; v <= t.v1; v++)
            for (int u = t.u0; u <= t.u1; u++) {
                float value;
                if (raster_value(&t, u, v, &value))
                    atomicMin(&keys[v * at.width + u],
                              (unsigned long long)ordered_bits(value) << 32 | i);
            }
    }
}

// Ray and normal of pixel (u, v) of the rectangle, which `triangle` covers.
__device__ static void pixel_normal(const struct drawn_work *work, const float rotation[9],
                                    const struct search_rectangle *at, uint32_t triangle, int u,
                                    int v, float out_ray[3], float out_normal[3])
{
    const uint32_t *t = work->triangles + 3 * (size_t)triangle;
    const float a[3] = {work->x[t[0]], work->y[t[0]], work->z[t[0]]};
    const float b[3] = {work->x[t[1]], work->y[t[1]], work->z[t[1]]};
    const float c[3] = {work->x[t[2]], work->y[t[2]], work->z[t[2]]};
    search_pixel_ray(&work->scene.camera, u + at->u0, v + at->v0, out_ray);
    search_drawn_normal(a, b, c, rotation, out_ray, out_normal);
}

struct align_shared {
    struct search_candidate c;
    int32_t sums[ALIGN_WARPS][SEARCH_ICP_SUMS];
    int64_t all[SEARCH_ICP_SUMS];
    uint32_t n_drawn, n_points;
    float moved;
};

// Model points of a drawn candidate into `points`; their order does not matter.
__device__ static void take_points(const struct drawn_work *work, const struct search_rectangle *at,
                                   const unsigned long long *keys, float *points,
                                   struct align_shared *shared)
{
    int n_drawn = 0;
    for (int i = threadIdx.x; i < at->width * at->height; i += ALIGN_THREADS)
        n_drawn += keys[i] != NOTHING;
    n_drawn = search_cuda_warp_sum(n_drawn);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&shared->n_drawn, (uint32_t)n_drawn);
    __syncthreads();
    const int step = (int)search_drawn_thinning(shared->n_drawn);
    const int columns = (at->width - step / 2 + step - 1) / step;
    const int rows = (at->height - step / 2 + step - 1) / step;
    for (int i = threadIdx.x; i < columns * rows; i += ALIGN_THREADS) {
        const int u = step / 2 + i % columns * step, v = step / 2 + i / columns * step;
        const unsigned long long key = keys[v * at->width + u];
        if (key == NOTHING)
            continue;
        float ray[3], normal[3], p[3], m[3];
        pixel_normal(work, shared->c.rotation, at, (uint32_t)key, u, v, ray, normal);
        search_drawn_point(&shared->c, ray, -1 / key_value(key), normal, p, m);
        const uint32_t to = atomicAdd(&shared->n_points, 1);
        if (to >= POINTS_MOST)
            continue;
        for (int k = 0; k < 3; k++) {
            points[k * POINTS_MOST + to] = p[k];
            points[(3 + k) * POINTS_MOST + to] = m[k];
        }
    }
    __syncthreads();
}

__global__ void __launch_bounds__(ALIGN_THREADS)
    align_kernel(struct drawn_work work, uint32_t round)
{
    __shared__ struct align_shared shared;
    if (blockIdx.x >= *work.n)
        return;
    const unsigned long long *keys = work.keys + (size_t)blockIdx.x * work.image_pixels;
    float *points = work.points + (size_t)blockIdx.x * 6 * POINTS_MOST;
    const struct search_camera *cam = &work.scene.camera;
    if (threadIdx.x == 0) {
        shared.c = work.candidates[blockIdx.x];
        shared.n_drawn = shared.n_points = 0;
    }
    __syncthreads();
    const struct search_rectangle at = search_rectangle_of(cam, work.radius_m, shared.c.t_m);
    take_points(&work, &at, keys, points, &shared);
    const uint32_t n = shared.n_points < POINTS_MOST ? shared.n_points : POINTS_MOST;
    const struct search_icp_gates gates = search_drawn_gates(round, work.radius_m, shared.c.t_m[2]);
    for (int step = 0; step < SEARCH_DRAWN_STEPS; step++) {
        int32_t sums[SEARCH_ICP_SUMS];
        for (int k = 0; k < SEARCH_ICP_SUMS; k++)
            sums[k] = 0;
        for (uint32_t i = threadIdx.x; i < n; i += ALIGN_THREADS) {
            const struct search_vec3 p = {points[i], points[POINTS_MOST + i],
                                          points[2 * POINTS_MOST + i]};
            const struct search_vec3 m = {points[3 * POINTS_MOST + i], points[4 * POINTS_MOST + i],
                                          points[5 * POINTS_MOST + i]};
            const struct search_icp_place place =
                search_icp_project(cam, shared.c.rotation, shared.c.t_m, p, m);
            const float4 pixel = ((const float4 *)work.scene.normal_z)[place.pixel];
            const struct search_vec3 s = {pixel.x, pixel.y, pixel.z};
            const struct search_icp_row row =
                search_icp_pair(cam, &gates, 1 / work.radius_m, shared.c.t_m, place, s, pixel.w);
            search_icp_add(&row, sums);
        }
        for (int k = 0; k < SEARCH_ICP_SUMS; k++) {
            sums[k] = search_cuda_warp_sum(sums[k]);
            if (threadIdx.x % 32 == 0)
                shared.sums[threadIdx.x / 32][k] = sums[k];
        }
        __syncthreads();
        if (threadIdx.x < SEARCH_ICP_SUMS) {
            int64_t sum = 0;
            for (int w = 0; w < ALIGN_WARPS; w++)
                sum += shared.sums[w][threadIdx.x];
            shared.all[threadIdx.x] = sum;
        }
        __syncthreads();
        if (threadIdx.x == 0)
            shared.moved = search_icp_step(shared.all, work.radius_m, gates.distance_m, &shared.c);
        __syncthreads();
        if (shared.moved < SEARCH_DRAWN_SMALL)
            break;
    }
    if (threadIdx.x == 0)
        work.candidates[blockIdx.x] = shared.c;
}

struct judge_shared {
    struct search_tally tally[JUDGE_WARPS];
    struct search_outline outline[JUDGE_WARPS];
};

__device__ static bool drawn_at(const unsigned long long *key)
{
    return *key != NOTHING;
}

__global__ void __launch_bounds__(JUDGE_THREADS) judge_kernel(struct drawn_work work)
{
    enum { OUT = SEARCH_OUTSIDE_PX, IN = SEARCH_INSIDE_PX };
    __shared__ struct judge_shared shared;
    if (blockIdx.x >= *work.n)
        return;
    const unsigned long long *keys = work.keys + (size_t)blockIdx.x * work.image_pixels;
    struct search_candidate c = work.candidates[blockIdx.x];
    const struct search_camera *cam = &work.scene.camera;
    const struct search_rectangle at = search_rectangle_of(cam, work.radius_m, c.t_m);
    struct search_tally tally = {};
    struct search_outline outline = {};
    for (int i = threadIdx.x; i < at.width * at.height; i += JUDGE_THREADS) {
        const unsigned long long *key = keys + i;
        if (!drawn_at(key))
            continue;
        const int u = i % at.width, v = i / at.width;
        const float z = -1 / key_value(*key);
        const float4 pixel =
            ((const float4 *)work.scene.normal_z)[(v + at.v0) * cam->width + u + at.u0];
        const float scene[4] = {pixel.x, pixel.y, pixel.z, pixel.w};
        float ray[3], normal[3];
        pixel_normal(&work, c.rotation, &at, (uint32_t)*key, u, v, ray, normal);
        search_judge_drawn(scene, z, normal, ray, work.radius_m, &tally);
        if (u < OUT || v < OUT || u >= at.width - OUT || v >= at.height - OUT)
            continue;
        for (int k = 0; k < 4; k++) {
            const int du = k == 0 ? 1 : k == 1 ? -1 : 0, dv = k == 2 ? 1 : k == 3 ? -1 : 0;
            const int step = dv * at.width + du;
            if (!drawn_at(key + step) && !drawn_at(key + OUT * step) && drawn_at(key - IN * step))
                search_judge_edge(&work.scene, u + at.u0, v + at.v0, du, dv, z, work.radius_m,
                                  &outline);
        }
    }
    search_cuda_warp_tally(&tally, &outline);
    if (threadIdx.x % 32 == 0) {
        shared.tally[threadIdx.x / 32] = tally;
        shared.outline[threadIdx.x / 32] = outline;
    }
    __syncthreads();
    if (threadIdx.x >= 32)
        return;
    tally = shared.tally[threadIdx.x];
    outline = shared.outline[threadIdx.x];
    search_cuda_warp_tally(&tally, &outline);
    search_conclude_drawn(cam, &tally, &outline, work.radius_m, &c);
    if (threadIdx.x == 0)
        work.candidates[blockIdx.x] = c;
}

static int enqueue_draw(struct search_cuda *cuda, const struct drawn_work *work, uint32_t n)
{
    project_kernel<<<dim3(DRAW_SLICES, n), DRAW_THREADS, 0, cuda->stream>>>(*work);
    TRY(cudaGetLastError());
    draw_kernel<<<dim3(DRAW_SLICES, n), DRAW_THREADS, 0, cuda->stream>>>(*work);
    TRY(cudaGetLastError());
    return 0;
}

int search_cuda_enqueue_drawn(struct search_cuda *cuda, const struct search_object *object,
                              struct search_candidate *candidates, const uint32_t *n,
                              uint32_t n_most, uint32_t n_rounds)
{
    struct search_find *find = &cuda->find;
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    const size_t pixels = (size_t)cuda->camera.width * (size_t)cuda->camera.height;
    int err = search_cuda_grow(cuda, &find->keys, n_most * pixels * sizeof(unsigned long long));
    if (!err)
        err =
            search_cuda_grow(cuda, &find->points, (size_t)n_most * 6 * POINTS_MOST * sizeof(float));
    if (!err)
        err = search_cuda_grow(cuda, &find->corners,
                               (size_t)n_most * object->n_vertices * sizeof(int4));
    if (err)
        return err;
    const struct drawn_work work = {{(const float *)find->normal_z.at, cuda->camera},
                                    copy->x,
                                    copy->y,
                                    copy->z,
                                    copy->triangles,
                                    object->n_triangles,
                                    object->info.radius_m,
                                    object->info.map_px_m,
                                    (uint32_t)pixels,
                                    object->n_vertices,
                                    (unsigned long long *)find->keys.at,
                                    (int4 *)find->corners.at,
                                    (float *)find->points.at,
                                    candidates,
                                    n};
    for (uint32_t round = 0; round < n_rounds; round++) {
        err = enqueue_draw(cuda, &work, n_most);
        if (err)
            return err;
        align_kernel<<<n_most, ALIGN_THREADS, 0, cuda->stream>>>(work, round);
        TRY(cudaGetLastError());
    }
    err = enqueue_draw(cuda, &work, n_most);
    if (err)
        return err;
    judge_kernel<<<n_most, JUDGE_THREADS, 0, cuda->stream>>>(work);
    TRY(cudaGetLastError());
    return 0;
}
