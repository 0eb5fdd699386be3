// SPDX-License-Identifier: Apache-2.0
// The best candidates drawn at the image's full resolution: a 64-bit key a pixel (depth, triangle)
// in memory, the least wins, so that the result does not depend on the order.
//
//   place    one block: rectangles and their memory; candidates that it does not hold wait
//   project  blocks over slices of pixels (emptied) and vertices: 12 bytes in, 16 out
//   draw     a thread a triangle: 70,000 triangles of one or two pixels, 300 candidates: 21 million
//            triangles, 60 bytes and some 300 instructions each. A large one would hold its block,
//            and with it a tracker that waits for the multiprocessor, for milliseconds (a box of 12
//            triangles near the camera): it is cut into units
//   units    a warp a unit: some rows of a triangle, 32 pixels at a time
//   limit    draw: instructions
#include "gpu/search/cuda/refine_drawn.cuh"

#define SMALL_PX     256  // a triangle's box that one thread draws
#define UNIT_PX      1024 // of a unit, at least
#define UNITS_EACH   64   // of a triangle, at most
#define UNITS_MOST   32768
// Memory of a batch: so many candidates as large as a VGA image, of a mesh of 130,000 vertices.
// They are smaller as a rule, so that one batch holds all. 315 MB of keys and 270 of corners at
// most, and 0.26 of units for each candidate.
#define BATCH_FULL   128u
#define KEYS_MOST    (BATCH_FULL * 640u * 480u)
#define CORNERS_MOST (BATCH_FULL << 17)

__global__ void __launch_bounds__(DRAWN_MOST) place_kernel(struct drawn_work work)
{
    __shared__ uint32_t area[DRAWN_MOST], first_key[DRAWN_MOST], batch[DRAWN_MOST];
    __shared__ uint32_t slot[DRAWN_MOST];
    const uint32_t i = threadIdx.x, n = *work.n;
    struct drawn_place place = {};
    if (i < n)
        place.at = search_rectangle_of(&work.scene.camera, work.radius_m, work.candidates[i].t_m);
    area[i] = (uint32_t)(place.at.width * place.at.height);
    __syncthreads();
    if (i == 0) {
        uint32_t used = 0, n_slots = 0, b = 0;
        for (uint32_t k = 0; k < n; k++) {
            if (used + area[k] > work.n_keys || n_slots == work.n_slots) {
                used = n_slots = 0;
                b++;
            }
            first_key[k] = used;
            slot[k] = n_slots++;
            batch[k] = b;
            used += area[k];
        }
        work.places->n_batches = b + 1;
    }
    __syncthreads();
    if (i >= n)
        return;
    place.first_key = first_key[i];
    place.batch = batch[i];
    place.slot = slot[i];
    work.places->of[i] = place;
}

// Empties the candidates' rectangles and projects their vertices.
__global__ void __launch_bounds__(DRAWN_THREADS) project_kernel(struct drawn_work work)
{
    const struct drawn_place *place = drawn_place_here(&work);
    if (!place)
        return;
    const struct search_candidate *c = &work.candidates[blockIdx.y];
    const struct search_camera *cam = &work.scene.camera;
    const float t_m[3] = {c->t_m[0], c->t_m[1], c->t_m[2]};
    const struct search_rectangle at = place->at;
    const float cu = cam->cx - (float)at.u0, cv = cam->cy - (float)at.v0;
    const uint32_t first = blockIdx.x * DRAWN_THREADS + threadIdx.x;
    unsigned long long *keys = work.keys + place->first_key;
    for (uint32_t i = first; i < (uint32_t)(at.width * at.height); i += gridDim.x * DRAWN_THREADS)
        keys[i] = RASTER_NOTHING;
    float scaled[9];
    for (int k = 0; k < 9; k++)
        scaled[k] = c->rotation[k] * work.px_m;
    int4 *corners = work.corners + (size_t)place->slot * work.n_vertices;
    for (uint32_t i = first; i < work.n_vertices; i += gridDim.x * DRAWN_THREADS) {
        int4 corner = {0, 0, 0, 0};
        float value;
        search_draw_corner(cam, cu, cv, scaled, t_m, work.x[i], work.y[i], work.z[i], &corner.x,
                           &corner.y, &value);
        corner.z = __float_as_int(value);
        corners[i] = corner;
    }
}

__device__ __forceinline__ int setup(const struct drawn_work *work, const struct drawn_place *place,
                                     uint32_t triangle, struct raster_triangle *out)
{
    const int4 *corners = work->corners + (size_t)place->slot * work->n_vertices;
    struct raster_corner corner[3];
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const int4 from = corners[work->triangles[3 * (size_t)triangle + (size_t)k]];
        corner[k].x = from.x;
        corner[k].y = from.y;
        corner[k].value = __int_as_float(from.z);
    }
    return raster_setup(&corner[0], &corner[1], &corner[2], place->at.width, place->at.height, out);
}

__device__ __forceinline__ int unit_row(const struct raster_triangle *t, uint32_t k, uint32_t n)
{
    return t->v0 + (int)((uint32_t)(t->v1 - t->v0 + 1) * k / n);
}

// Cuts a large triangle into units; what the list has no room for is drawn here and now.
__device__ static void cut(const struct drawn_work *work, struct drawn_place *place,
                           const struct raster_triangle *t, uint32_t triangle,
                           unsigned long long *keys)
{
    const uint32_t n_rows = (uint32_t)(t->v1 - t->v0 + 1);
    uint32_t n = (raster_box_px(t) + UNIT_PX - 1) / UNIT_PX;
    n = n < UNITS_EACH ? n : UNITS_EACH;
    n = n < n_rows ? n : n_rows;
    const uint32_t first = atomicAdd(&place->n_units, n);
    uint2 *units = work->units + (size_t)place->slot * UNITS_MOST;
    for (uint32_t k = 0; k < n; k++)
        if (first + k < UNITS_MOST)
            units[first + k] = make_uint2(triangle, k | n << 16);
        else
            raster_rows(t, triangle, unit_row(t, k, n), unit_row(t, k + 1, n), 0, 1,
                        place->at.width, keys);
}

__global__ void __launch_bounds__(DRAWN_THREADS) draw_kernel(struct drawn_work work)
{
    struct drawn_place *place = drawn_place_here(&work);
    if (!place)
        return;
    unsigned long long *keys = work.keys + place->first_key;
    for (uint32_t i = blockIdx.x * DRAWN_THREADS + threadIdx.x; i < work.n_triangles;
         i += gridDim.x * DRAWN_THREADS) {
        struct raster_triangle t;
        if (!setup(&work, place, i, &t))
            continue;
        if (raster_box_px(&t) > SMALL_PX)
            cut(&work, place, &t, i, keys);
        else
            raster_rows(&t, i, t.v0, t.v1 + 1, 0, 1, place->at.width, keys);
    }
}

__global__ void __launch_bounds__(DRAWN_THREADS) units_kernel(struct drawn_work work)
{
    const struct drawn_place *place = drawn_place_here(&work);
    if (!place)
        return;
    const uint32_t n = place->n_units < UNITS_MOST ? place->n_units : UNITS_MOST;
    const uint2 *units = work.units + (size_t)place->slot * UNITS_MOST;
    unsigned long long *keys = work.keys + place->first_key;
    for (uint32_t i = (blockIdx.x * DRAWN_THREADS + threadIdx.x) / 32; i < n;
         i += gridDim.x * (DRAWN_THREADS / 32)) {
        const uint2 unit = units[i];
        const uint32_t k = unit.y & 0xffffu, n_parts = unit.y >> 16;
        struct raster_triangle t;
        if (setup(&work, place, unit.x, &t))
            raster_rows(&t, unit.x, unit_row(&t, k, n_parts), unit_row(&t, k + 1, n_parts),
                        (int)(threadIdx.x % 32), 32, place->at.width, keys);
    }
}

int search_cuda_prepare_drawings(struct search_cuda *cuda, uint32_t n_most, struct drawn_work *work)
{
    struct search_find *find = &cuda->find;
    const size_t pixels = (size_t)cuda->camera.width * (size_t)cuda->camera.height;
    size_t n_keys = n_most * pixels;
    n_keys = n_keys < KEYS_MOST ? n_keys : KEYS_MOST > pixels ? KEYS_MOST : pixels;
    const size_t slots = CORNERS_MOST / ((size_t)work->n_vertices + 1) + 1;
    const uint32_t n_slots = slots < n_most ? (uint32_t)slots : n_most;
    int err = cuda_grow(&cuda->dev, &find->keys, n_keys * sizeof *work->keys);
    if (!err)
        err = cuda_grow(&cuda->dev, &find->corners,
                        (size_t)n_slots * work->n_vertices * sizeof *work->corners);
    if (!err)
        err =
            cuda_grow(&cuda->dev, &find->units, (size_t)n_slots * UNITS_MOST * sizeof *work->units);
    if (!err)
        err = cuda_grow(&cuda->dev, &find->places, sizeof *work->places);
    work->keys = (unsigned long long *)find->keys.at;
    work->n_keys = (uint32_t)n_keys;
    work->corners = (int4 *)find->corners.at;
    work->units = (uint2 *)find->units.at;
    work->n_slots = n_slots;
    work->places = (struct drawn_places *)find->places.at;
    return err;
}

int search_cuda_enqueue_places(struct search_cuda *cuda, const struct drawn_work *work,
                               uint32_t n_most, uint32_t *out_n_batches)
{
    const size_t pixels = (size_t)cuda->camera.width * (size_t)cuda->camera.height;
    place_kernel<<<1, DRAWN_MOST, 0, cuda->dev.stream>>>(*work);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    *out_n_batches = 1;
    if (n_most * pixels <= work->n_keys && n_most <= work->n_slots)
        return 0;
    uint32_t *n_batches = &cuda->find.found->n_batches;
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMemcpyAsync(n_batches, &work->places->n_batches, sizeof *n_batches,
                                   cudaMemcpyDeviceToHost, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    *out_n_batches = *n_batches;
    return 0;
}

int search_cuda_enqueue_draw(struct search_cuda *cuda, const struct drawn_work *work,
                             uint32_t n_most)
{
    const dim3 grid(drawn_slices(work), n_most);
    project_kernel<<<grid, DRAWN_THREADS, 0, cuda->dev.stream>>>(*work);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    draw_kernel<<<grid, DRAWN_THREADS, 0, cuda->dev.stream>>>(*work);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    units_kernel<<<grid, DRAWN_THREADS, 0, cuda->dev.stream>>>(*work);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}
