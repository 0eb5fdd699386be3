// SPDX-License-Identifier: Apache-2.0
// The refinement of all hits with the stored points of the nearest view: a warp a candidate, a
// point a lane. All lanes keep the candidate and take the same step, so that nothing has to be
// handed round but the sums.
//
//   first    up to 16,384 candidates, 3 steps with 96 points each and the loose verdict
//   rest     the few per cent that are left: 12 steps with 256 points, the final verdict; the
//            seeds' rotations lie in shared memory. Four launches, each from one choice of the view
//            to the next: a tracker on the same device waits for the blocks that are there
//   a step   16 bytes of the image a point, 27 sums over the warp, a 6x6 solve in every lane
//   limit    latency of the gather, the sums and the solve, one after the other
//
// Measured on an H200 at 1.5 GHz: first 180, rest 337 us.
#include "gpu/search/cuda/find.cuh"
#include "gpu/search/kernels/hypothesis_counts.h"
#include "gpu/search/kernels/icp.h"
#include "gpu/search/kernels/score.h"

#define THREADS         128
#define SEED_BYTES_MOST (96 * 1024) // 2,730 seeds
#define LANES           32
#define FIRST           (SEARCH_POINTS_FIRST / LANES)
#define ALL             (SEARCH_POINTS / LANES)

struct views_of {
    const struct search_view *views;
    const struct search_point *points;
    const uint32_t *n_points, *n_ring;
    const float *seed_rotations;
    const uint32_t *seeds, *child_first, *children;
    uint32_t n_seeds;
    float radius_m, px_m;
};

// A lane's share of a view's points.
template <int N> struct lane_points {
    struct search_vec3 p[N], n[N];
    uint32_t count; // of all lanes
};

// The largest trace and its place; of equal ones the first place.
__device__ static void best_over_warp(float *trace, uint32_t *place)
{
    for (int d = LANES / 2; d > 0; d /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, *trace, d);
        const uint32_t there = __shfl_xor_sync(0xffffffffu, *place, d);
        if (other > *trace || (other == *trace && there < *place)) {
            *trace = other;
            *place = there;
        }
    }
}

// The view nearest to the candidate's rotation, through the seeds.
__device__ static uint32_t nearest_view(const struct views_of *of, const struct search_candidate *c,
                                        uint32_t lane)
{
    float seen[9], best = -2;
    search_seen_rotation(c, seen);
    uint32_t seed = 0;
    for (uint32_t s = lane; s < of->n_seeds; s += LANES) {
        float trace = 0;
#pragma unroll
        for (uint32_t k = 0; k < 9; k++)
            trace += of->seed_rotations[s / 8 * 72 + 8 * k + s % 8] * seen[k];
        if (trace > best) {
            best = trace;
            seed = s;
        }
    }
    best_over_warp(&best, &seed);
    const uint32_t first = of->child_first[seed], end = of->child_first[seed + 1];
    float child_best = -2;
    uint32_t child = end;
    for (uint32_t i = first + lane; i < end; i += LANES) {
        const float trace = search_trace(of->views[of->children[i]].rotation, seen);
        if (trace > child_best) {
            child_best = trace;
            child = i;
        }
    }
    best_over_warp(&child_best, &child);
    return child_best > best ? of->children[child] : of->seeds[seed];
}

template <int N>
__device__ static void take_points(const struct views_of *of, uint32_t view, uint32_t lane,
                                   struct lane_points<N> *out)
{
    const float *r = of->views[view].rotation;
    const struct search_point *points =
        of->points + (size_t)view * (SEARCH_POINTS + SEARCH_RING_POINTS);
    const uint32_t n = of->n_points[view];
    out->count = n < N * LANES ? n : N * LANES;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const uint32_t i = (uint32_t)k * LANES + lane;
        float p[3] = {0, 0, 0}, m[3] = {0, 0, 0};
        if (i < out->count) {
            const struct search_point point = points[i];
            search_view_point(r, point.u, point.v, point.z, of->px_m, p);
            search_view_normal(r, point.normal, m);
        }
        out->p[k] = {p[0], p[1], p[2]};
        out->n[k] = {m[0], m[1], m[2]};
    }
}

// False: the step cannot be solved.
template <int N>
__device__ static bool take_step(const struct search_scene *scene, const struct lane_points<N> *at,
                                 const struct search_icp_gates *gates, float radius_m,
                                 uint32_t lane, struct search_candidate *c)
{
    int32_t sums[SEARCH_ICP_SUMS];
    for (int k = 0; k < SEARCH_ICP_SUMS; k++)
        sums[k] = 0;
#pragma unroll
    for (int k = 0; k < N; k++) {
        if ((uint32_t)k * LANES + lane >= at->count)
            continue;
        const struct search_icp_place place =
            search_icp_project(&scene->camera, c->rotation, c->t_m, at->p[k], at->n[k]);
        const float4 pixel = ((const float4 *)scene->normal_z)[place.pixel];
        const struct search_vec3 s = {pixel.x, pixel.y, pixel.z};
        const struct search_icp_row row =
            search_icp_pair(&scene->camera, gates, 1 / radius_m, c->t_m, place, s, pixel.w);
        search_icp_add(&row, sums);
    }
    int64_t all[SEARCH_ICP_SUMS];
    for (int k = 0; k < SEARCH_ICP_SUMS; k++)
        all[k] = search_cuda_warp_sum(sums[k]);
    return search_icp_step(all, radius_m, gates->distance_m, c) >= 0;
}

template <int N>
__device__ static void score_candidate(const struct search_scene *scene, const struct views_of *of,
                                       const struct lane_points<N> *at,
                                       enum search_evidence evidence, uint32_t n_ring_most,
                                       uint32_t lane, struct search_candidate *c)
{
    struct search_tally tally = {};
    struct search_outline outline = {};
#pragma unroll
    for (int k = 0; k < N; k++) {
        const float p[3] = {at->p[k].x, at->p[k].y, at->p[k].z};
        const float m[3] = {at->n[k].x, at->n[k].y, at->n[k].z};
        if ((uint32_t)k * LANES + lane < at->count)
            search_score_point(scene, c, p, m, evidence, of->radius_m, &tally);
    }
    const float *r = of->views[c->view].rotation;
    const struct search_point *ring =
        of->points + (size_t)c->view * (SEARCH_POINTS + SEARCH_RING_POINTS) + SEARCH_POINTS;
    const uint32_t n_ring = of->n_ring[c->view] < n_ring_most ? of->n_ring[c->view] : n_ring_most;
    for (uint32_t i = lane; i < n_ring; i += LANES) {
        float out[3], in[3];
        search_view_point(r, ring[i].u, ring[i].v, ring[i].z, of->px_m, out);
        search_view_point(r, ring[i].u + ring[i].normal[0], ring[i].v + ring[i].normal[1],
                          ring[i].z, of->px_m, in);
        search_score_ring(scene, c, out, in, evidence, of->radius_m, &outline);
    }
    search_cuda_warp_tally(&tally, &outline);
    search_conclude_points(evidence, &tally, &outline, of->radius_m, of->px_m,
                           of->views[c->view].n_cover, c);
}

__global__ void __launch_bounds__(THREADS)
    points_first_kernel(struct search_scene scene, struct views_of of,
                        const struct search_coarse *coarse, const struct search_frame *starts,
                        const struct search_hit *hits, struct search_cuda_counts *counts,
                        struct search_candidate *candidates, uint32_t *left)
{
    const uint32_t i = (blockIdx.x * THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (i >= counts->scan.n_starts * counts->scan.keep)
        return;
    const struct search_hit hit = hits[i];
    if (hit.score == INT32_MIN)
        return;
    struct search_candidate c;
    const struct search_coarse *map = &coarse[hit.view];
    search_from_hit(&starts[hit.start], of.views[hit.view].rotation, map->anchor_u[hit.anchor],
                    map->anchor_v[hit.anchor], map->anchor_z[hit.anchor], &c);
    c.view = hit.view;
    struct lane_points<FIRST> points;
    take_points(&of, c.view, lane, &points);
    for (int step = 0; !search_points_give_up_here(step); step++) {
        const struct search_icp_gates gates = search_points_gates(step, of.radius_m, c.t_m[2]);
        if (!take_step(&scene, &points, &gates, of.radius_m, lane, &c))
            return;
    }
    score_candidate(&scene, &of, &points, SEARCH_SCORE_LOOSE, SEARCH_RING_FIRST, lane, &c);
    if (lane > 0 || c.score < SEARCH_LOOSE_SCORE)
        return;
    candidates[i] = c;
    left[atomicAdd(&counts->n_left, 1)] = i;
}

__global__ void __launch_bounds__(THREADS)
    points_rest_kernel(struct search_scene scene, struct views_of of,
                       const struct search_cuda_counts *counts, const uint32_t *left,
                       struct search_candidate *candidates, int step)
{
    extern __shared__ float4 seed_rotations[]; // read four times by each warp
    const uint32_t i = (blockIdx.x * THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    if (blockIdx.x * (THREADS / LANES) >= counts->n_left)
        return;
    for (uint32_t k = threadIdx.x; k < (of.n_seeds + 7) / 8 * 18; k += THREADS)
        seed_rotations[k] = ((const float4 *)of.seed_rotations)[k];
    __syncthreads();
    of.seed_rotations = (const float *)seed_rotations;
    if (i >= counts->n_left)
        return;
    struct search_candidate c = candidates[left[i]];
    if (c.score == SEARCH_GIVEN_UP)
        return;
    c.view = nearest_view(&of, &c, lane);
    struct lane_points<ALL> points;
    take_points(&of, c.view, lane, &points);
    do {
        const struct search_icp_gates gates = search_points_gates(step, of.radius_m, c.t_m[2]);
        if (!take_step(&scene, &points, &gates, of.radius_m, lane, &c)) {
            if (lane == 0)
                candidates[left[i]].score = SEARCH_GIVEN_UP;
            return;
        }
        step++;
    } while (step < SEARCH_POINTS_STEPS && !search_points_new_view(step));
    if (step == SEARCH_POINTS_STEPS)
        score_candidate(&scene, &of, &points, SEARCH_SCORE_POINTS, SEARCH_RING_POINTS, lane, &c);
    if (lane == 0)
        candidates[left[i]] = c;
}

int search_cuda_prepare_points(struct search_cuda *cuda)
{
    CUDA_OR_RETURN(&cuda->dev, cudaFuncSetAttribute(points_rest_kernel,
                                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    SEED_BYTES_MOST));
    return 0;
}

int search_cuda_enqueue_points(struct search_cuda *cuda, const struct search_object *object)
{
    struct search_find *find = &cuda->find;
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    const struct search_scene scene = {(const float *)find->normal_z.at, cuda->camera};
    const struct views_of of = {copy->views,           copy->points,         copy->n_points,
                                copy->n_ring,          copy->seed_rotations, copy->seeds,
                                copy->child_first,     copy->children,       object->n_seeds,
                                object->info.radius_m, object->info.map_px_m};
    struct search_cuda_counts *counts = (struct search_cuda_counts *)find->counts.at;
    struct search_candidate *candidates = (struct search_candidate *)find->candidates.at;
    const uint32_t n_blocks = SEARCH_HITS_MAX * LANES / THREADS;
    points_first_kernel<<<n_blocks, THREADS, 0, cuda->dev.stream>>>(
        scene, of, copy->coarse, (const struct search_frame *)find->starts.at,
        (const struct search_hit *)find->hits.at, counts, candidates, (uint32_t *)find->left.at);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    int step = 0;
    while (!search_points_give_up_here(step))
        step++;
    for (; step < SEARCH_POINTS_STEPS; step++) {
        if (!search_points_new_view(step))
            continue;
        points_rest_kernel<<<n_blocks, THREADS, (object->n_seeds + 7) / 8 * 72 * sizeof(float),
                             cuda->dev.stream>>>(scene, of, counts, (const uint32_t *)find->left.at,
                                                 candidates, step);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    }
    return 0;
}
