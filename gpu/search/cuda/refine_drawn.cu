// SPDX-License-Identifier: Apache-2.0
// The refinement of the best candidates with the model drawn at the image's full resolution
// (draw.cu). A tracker on the same device waits for the blocks that are there when its frame
// comes: none takes longer than a tenth of a millisecond.
//
//   count    blocks over slices of the rectangle: drawn pixels
//   take     the same: model points from every step-th drawn pixel
//   align    a block a candidate: steps of ICP
//   score    blocks over slices of the rectangle: every drawn pixel, every pixel of the outline
//   conclude a block a candidate: a thread a tree of the score
//   limit    align: latency of a step (gather, sums over the block, solve)
#include "gpu/search/cuda/refine_drawn.cuh"
#include "gpu/search/kernels/icp.h"
#include "gpu/search/kernels/score.h"

#define ALIGN_THREADS 512
#define ALIGN_WARPS   (ALIGN_THREADS / 32)
#define POINTS_MOST   8192 // thinning aims at 2,457

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

__global__ void __launch_bounds__(DRAWN_THREADS) count_kernel(struct drawn_work work)
{
    struct drawn_place *place = drawn_place_here(&work);
    if (!place)
        return;
    const unsigned long long *keys = work.keys + place->first_key;
    const int n_px = place->at.width * place->at.height;
    int n_drawn = 0;
    for (int i = (int)(blockIdx.x * DRAWN_THREADS + threadIdx.x); i < n_px;
         i += (int)(gridDim.x * DRAWN_THREADS))
        n_drawn += keys[i] != RASTER_NOTHING;
    n_drawn = search_cuda_warp_sum(n_drawn);
    if (threadIdx.x % 32 == 0 && n_drawn > 0)
        atomicAdd(&place->n_drawn, (uint32_t)n_drawn);
}

// The order of the points does not matter.
__global__ void __launch_bounds__(DRAWN_THREADS) take_kernel(struct drawn_work work)
{
    struct drawn_place *place = drawn_place_here(&work);
    if (!place)
        return;
    const struct search_rectangle at = place->at;
    const struct search_candidate c = work.candidates[blockIdx.y];
    const unsigned long long *keys = work.keys + place->first_key;
    float *points = work.points + (size_t)blockIdx.y * 6 * POINTS_MOST;
    const int step = (int)search_drawn_thinning(place->n_drawn);
    const int columns = (at.width - step / 2 + step - 1) / step;
    const int rows = (at.height - step / 2 + step - 1) / step;
    for (int i = (int)(blockIdx.x * DRAWN_THREADS + threadIdx.x); i < columns * rows;
         i += (int)(gridDim.x * DRAWN_THREADS)) {
        const int u = step / 2 + i % columns * step, v = step / 2 + i / columns * step;
        const unsigned long long key = keys[v * at.width + u];
        if (key == RASTER_NOTHING)
            continue;
        float ray[3], normal[3], p[3], m[3];
        pixel_normal(&work, c.rotation, &at, (uint32_t)key, u, v, ray, normal);
        search_drawn_point(&c, ray, -1 / raster_key_value(key), normal, p, m);
        const uint32_t to = atomicAdd(&place->n_points, 1);
        if (to >= POINTS_MOST)
            continue;
        for (int k = 0; k < 3; k++) {
            points[k * POINTS_MOST + to] = p[k];
            points[(3 + k) * POINTS_MOST + to] = m[k];
        }
    }
}

struct align_shared {
    struct search_candidate c;
    int32_t sums[ALIGN_WARPS][SEARCH_ICP_SUMS];
    int64_t all[SEARCH_ICP_SUMS];
    float moved;
};

__global__ void __launch_bounds__(ALIGN_THREADS)
    align_kernel(struct drawn_work work, uint32_t round, uint32_t n_rounds)
{
    __shared__ struct align_shared shared;
    const struct drawn_place *place = drawn_place_here(&work);
    if (!place)
        return;
    const float *points = work.points + (size_t)blockIdx.y * 6 * POINTS_MOST;
    const struct search_camera *cam = &work.scene.camera;
    if (threadIdx.x == 0)
        shared.c = work.candidates[blockIdx.y];
    __syncthreads();
    const uint32_t n = place->n_points < POINTS_MOST ? place->n_points : POINTS_MOST;
    const struct search_icp_gates gates =
        search_drawn_gates(round, n_rounds, work.radius_m, shared.c.t_m[2]);
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
    if (threadIdx.x == 0) {
        work.candidates[blockIdx.y] = shared.c;
        if (work.slides && round + 1 == n_rounds)
            search_slides_of(shared.all, &work.slides[blockIdx.y]);
    }
}

__device__ static bool drawn_at(const unsigned long long *key)
{
    return *key != RASTER_NOTHING;
}

// Beside pixel (u, v) of the rectangle, which matches.
__device__ static void score_jumps(const struct drawn_work *work, const struct search_rectangle *at,
                                   const unsigned long long *keys, int u, int v, float gate_m,
                                   struct search_tally *tally)
{
    const float z = -1 / raster_key_value(keys[v * at->width + u]);
    uint32_t n_beside = 0;
    for (int k = 0; k < 4; k++) {
        const int u2 = u + (k == 0 ? SEARCH_JUMP_PX : k == 1 ? -SEARCH_JUMP_PX : 0);
        const int v2 = v + (k == 2 ? SEARCH_JUMP_PX : k == 3 ? -SEARCH_JUMP_PX : 0);
        if (u2 < 0 || v2 < 0 || u2 >= at->width || v2 >= at->height ||
            !drawn_at(keys + v2 * at->width + u2))
            continue;
        n_beside++;
        search_score_jump(work->scene.normal_z +
                              4 * ((v2 + at->v0) * work->scene.camera.width + u2 + at->u0),
                          z, -1 / raster_key_value(keys[v2 * at->width + u2]), gate_m, tally);
    }
    tally->n_deep += n_beside == 4;
}

// Between pixel (u, v) of the rectangle, where the model is drawn with this normal, and the one to
// the right or below.
__device__ static void score_border(const struct drawn_work *work, const float rotation[9],
                                    const struct search_rectangle *at,
                                    const unsigned long long *keys, int u, int v, bool below,
                                    const float normal[3], struct search_tally *tally)
{
    const int u2 = u + (below ? 0 : SEARCH_CROSS_PX), v2 = v + (below ? SEARCH_CROSS_PX : 0);
    if (u2 >= at->width || v2 >= at->height || !drawn_at(keys + v2 * at->width + u2))
        return;
    const unsigned long long key2 = keys[v2 * at->width + u2];
    const float z = -1 / raster_key_value(keys[v * at->width + u]),
                z2 = -1 / raster_key_value(key2);
    const int way =
        search_score_cross(&work->scene, u + at->u0, v + at->v0, below, z, z2, work->radius_m);
    float ray[3], normal2[3];
    if (way > 0) {
        search_score_border(&work->scene, u + at->u0, v + at->v0, u2 + at->u0, v2 + at->v0, z,
                            normal, tally);
    } else if (way < 0) {
        pixel_normal(work, rotation, at, (uint32_t)key2, u2, v2, ray, normal2);
        search_score_border(&work->scene, u2 + at->u0, v2 + at->v0, u + at->u0, v + at->v0, z2,
                            normal2, tally);
    }
}

__global__ void __launch_bounds__(DRAWN_THREADS) score_kernel(struct drawn_work work)
{
    enum { OUT = SEARCH_OUTSIDE_PX };
    struct drawn_place *place = drawn_place_here(&work);
    if (!place)
        return;
    const unsigned long long *keys = work.keys + place->first_key;
    const struct search_candidate *c = &work.candidates[blockIdx.y];
    const struct search_camera *cam = &work.scene.camera;
    const struct search_rectangle at = place->at;
    struct search_tally tally = {};
    struct search_outline outline = {};
    for (int i = (int)(blockIdx.x * DRAWN_THREADS + threadIdx.x); i < at.width * at.height;
         i += (int)(gridDim.x * DRAWN_THREADS)) {
        const unsigned long long *key = keys + i;
        if (!drawn_at(key))
            continue;
        const int u = i % at.width, v = i / at.width;
        const float z = -1 / raster_key_value(*key);
        const float4 pixel =
            ((const float4 *)work.scene.normal_z)[(v + at.v0) * cam->width + u + at.u0];
        const float scene[4] = {pixel.x, pixel.y, pixel.z, pixel.w};
        float ray[3], normal[3];
        pixel_normal(&work, c->rotation, &at, (uint32_t)*key, u, v, ray, normal);
        const float gate_m = search_score_drawn(scene, z, normal, ray, work.radius_m, &tally);
        if (gate_m > 0)
            score_jumps(&work, &at, keys, u, v, gate_m, &tally);
        for (int k = 0; k < 2; k++)
            score_border(&work, c->rotation, &at, keys, u, v, k == 1, normal, &tally);
        if (u < OUT || v < OUT || u >= at.width - OUT || v >= at.height - OUT)
            continue;
        for (int k = 0; k < 4; k++) {
            const int du = k == 0 ? 1 : k == 1 ? -1 : 0, dv = k == 2 ? 1 : k == 3 ? -1 : 0;
            const int step = dv * at.width + du;
            if (drawn_at(key + step) || drawn_at(key + OUT * step))
                continue;
            const int in = search_score_inside(&work.scene, u + at.u0, v + at.v0, du, dv);
            const unsigned long long *key_in = key - in * step;
            const int u_in = u - in * du, v_in = v - in * dv;
            if (u_in < 0 || v_in < 0 || u_in >= at.width || v_in >= at.height || !drawn_at(key_in))
                continue;
            float ray_in[3], normal_in[3];
            pixel_normal(&work, c->rotation, &at, (uint32_t)*key_in, u_in, v_in, ray_in, normal_in);
            search_score_edge(&work.scene, u + at.u0, v + at.v0, du, dv, in,
                              -1 / raster_key_value(*key_in), normal_in, z, work.radius_m,
                              &outline);
        }
    }
    search_cuda_warp_tally(&tally, &outline);
    if (threadIdx.x % 32 == 0 && tally.n > 0)
        search_cuda_add_tally(&tally, &outline, &place->tally, &place->outline);
}

__global__ void __launch_bounds__(DRAWN_THREADS) conclude_kernel(struct drawn_work work)
{
    __shared__ struct search_candidate c;
    __shared__ float features[SEARCH_N_FEATURES];
    __shared__ int32_t trees;
    if (blockIdx.x >= *work.n)
        return;
    if (threadIdx.x == 0) {
        const struct drawn_place *place = &work.places->of[blockIdx.x];
        c = work.candidates[blockIdx.x];
        search_shares_drawn(&work.scene.camera, &place->tally, &place->outline, work.radius_m, &c);
        search_features(&c, features);
        trees = 0;
    }
    __syncthreads();
    int32_t sum = 0;
    for (uint32_t k = threadIdx.x; k < SEARCH_N_TREES; k += DRAWN_THREADS)
        sum += search_tree_worth(features, k);
    sum = search_cuda_warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&trees, sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        c.score = search_worth(SEARCH_SCORE_DRAWN, features, trees);
        work.candidates[blockIdx.x] = c;
    }
}

static int enqueue_align(struct search_cuda *cuda, const struct drawn_work *work, uint32_t n_most,
                         uint32_t round, uint32_t n_rounds)
{
    const dim3 grid(drawn_slices(work), n_most);
    count_kernel<<<grid, DRAWN_THREADS, 0, cuda->dev.stream>>>(*work);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    take_kernel<<<grid, DRAWN_THREADS, 0, cuda->dev.stream>>>(*work);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    align_kernel<<<dim3(1, n_most), ALIGN_THREADS, 0, cuda->dev.stream>>>(*work, round, n_rounds);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

static int enqueue_score(struct search_cuda *cuda, const struct drawn_work *work, uint32_t n_most)
{
    score_kernel<<<dim3(drawn_slices(work), n_most), DRAWN_THREADS, 0, cuda->dev.stream>>>(*work);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

int search_cuda_enqueue_drawn(struct search_cuda *cuda, const struct search_object *object,
                              struct search_candidate *candidates, const uint32_t *n,
                              uint32_t n_most, uint32_t n_rounds, struct search_slides *slides)
{
    struct search_find *find = &cuda->find;
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    struct drawn_work work = {};
    work.scene = {(const float *)find->normal_z.at, cuda->camera};
    work.x = copy->x;
    work.y = copy->y;
    work.z = copy->z;
    work.triangles = copy->triangles;
    work.n_triangles = object->n_triangles;
    work.n_vertices = object->n_vertices;
    work.radius_m = object->info.radius_m;
    work.px_m = object->info.map_px_m;
    work.candidates = candidates;
    work.slides = slides;
    work.n = n;
    int err = search_cuda_prepare_drawings(cuda, n_most, &work);
    if (!err && n_rounds > 0) // who is scored alone has none
        err =
            cuda_grow(&cuda->dev, &find->points, (size_t)n_most * 6 * POINTS_MOST * sizeof(float));
    work.points = (float *)find->points.at;
    for (uint32_t round = 0; round <= n_rounds && !err; round++) {
        uint32_t n_batches = 0;
        err = search_cuda_enqueue_places(cuda, &work, n_most, &n_batches);
        for (work.batch = 0; work.batch < n_batches && !err; work.batch++) {
            err = search_cuda_enqueue_draw(cuda, &work, n_most);
            if (!err)
                err = round < n_rounds ? enqueue_align(cuda, &work, n_most, round, n_rounds)
                                       : enqueue_score(cuda, &work, n_most);
            if (!err && n_batches > 1)
                err = search_cuda_yield(cuda);
        }
    }
    if (err)
        return err;
    conclude_kernel<<<n_most, DRAWN_THREADS, 0, cuda->dev.stream>>>(work);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}
