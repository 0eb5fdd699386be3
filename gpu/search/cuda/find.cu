// SPDX-License-Identifier: Apache-2.0
// A whole request on the device: image in, polished candidates out, one wait at the end. The host
// finds the image's planes meanwhile.
#include <errno.h>
#include <string.h>

#include "gpu/search/cuda/find.cuh"
#include "gpu/search/kernels/hypothesis_counts.h"
#include "gpu/search/kernels/start_points.h"

#define N_EVENTS (SEARCH_N_STAGES + 1)

int search_cuda_prepare_find(struct search_cuda *cuda)
{
    struct search_find *find = &cuda->find;
    for (int i = 0; i < N_EVENTS; i++)
        CUDA_OR_RETURN(&cuda->dev, cudaEventCreate(&find->events[i]));
    CUDA_OR_RETURN(&cuda->dev, cudaMallocHost((void **)&find->found, sizeof *find->found));
    int err = cuda_grow(&cuda->dev, &find->counts, sizeof(struct search_cuda_counts));
    if (!err)
        err = cuda_grow(&cuda->dev, &find->starts, SEARCH_STARTS_MAX * sizeof(struct search_frame));
    if (!err)
        err = cuda_grow(&cuda->dev, &find->hits, SEARCH_HITS_MAX * sizeof(struct search_hit));
    if (!err)
        err = cuda_grow(&cuda->dev, &find->candidates,
                        SEARCH_HITS_MAX * sizeof(struct search_candidate));
    if (!err)
        err = cuda_grow(&cuda->dev, &find->left, SEARCH_HITS_MAX * sizeof(uint32_t));
    if (!err)
        err = cuda_grow(&cuda->dev, &find->screened,
                        SEARCH_SCREENED * sizeof(struct search_candidate));
    if (!err)
        err =
            cuda_grow(&cuda->dev, &find->drawn, SEARCH_SCREENED * sizeof(struct search_candidate));
    if (!err)
        err = cuda_grow(&cuda->dev, &find->polished, sizeof find->found->polished);
    if (!err)
        err = cuda_grow(&cuda->dev, &find->slides,
                        SEARCH_POLISHED_MAX * sizeof(struct search_slides));
    if (!err)
        err = cuda_grow(&cuda->dev, &find->turned,
                        SEARCH_NEAR_SYMMETRIES_MAX * sizeof(struct search_candidate));
    if (err)
        return err;
    // As many are copied back as there can be, of which the device may have written fewer.
    CUDA_OR_RETURN(&cuda->dev, cudaMemsetAsync(find->polished.at, 0, sizeof find->found->polished,
                                               cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMemsetAsync(find->turned.at, 0,
                                   SEARCH_NEAR_SYMMETRIES_MAX * sizeof(struct search_candidate),
                                   cuda->dev.stream));
    err = search_cuda_prepare_starts(cuda);
    if (!err)
        err = search_cuda_prepare_points(cuda);
    return err ? err : search_cuda_prepare_distinct(cuda);
}

void search_cuda_close_find(struct search_cuda *cuda)
{
    struct search_find *find = &cuda->find;
    for (int i = 0; i < N_EVENTS; i++)
        if (find->events[i])
            cudaEventDestroy(find->events[i]);
    yield_long(&cuda->dev.yield);
    cudaFreeHost(find->found);
    struct cuda_memory *const memory[] = {
        &find->counts,   &find->raw,    &find->normal_z,   &find->planes,   &find->starts,
        &find->hits,     &find->left,   &find->candidates, &find->screened, &find->drawn,
        &find->polished, &find->slides, &find->turned,     &find->keys,     &find->corners,
        &find->units,    &find->places, &find->points};
    for (struct cuda_memory *grown : memory)
        cuda_shrink(&cuda->dev, grown);
    cuda_shrink_host(&cuda->dev, &find->staging);
}

static int grow_image(struct search_cuda *cuda, size_t n)
{
    struct search_find *find = &cuda->find;
    const size_t raw_bytes = n * (sizeof(uint16_t) + 1); // depth, then the mask
    int err = cuda_grow_host(&cuda->dev, &find->staging, raw_bytes);
    if (!err)
        err = search_cuda_grow_image(cuda, n);
    if (!err)
        err = cuda_grow(&cuda->dev, &find->raw, raw_bytes);
    if (!err)
        err = cuda_grow(&cuda->dev, &find->normal_z, n * 4 * sizeof(float));
    return err ? err : cuda_grow(&cuda->dev, &find->planes, (n / 16 + 1) * 4 * sizeof(float));
}

// Through page-locked memory, so that the copy runs beside the host.
static int upload_image(struct search_cuda *cuda, const struct search_image *image,
                        struct search_cuda_input *out)
{
    struct search_find *find = &cuda->find;
    const struct depth_frame *frame = &image->frame;
    const size_t n = (size_t)frame->width_px * frame->height_px;
    const size_t bytes = n * (sizeof(uint16_t) + (image->mask ? 1 : 0));
    int err = grow_image(cuda, n);
    if (err)
        return err;
    memcpy(find->staging.at, frame->depth, n * sizeof(uint16_t));
    if (image->mask)
        memcpy((char *)find->staging.at + n * sizeof(uint16_t), image->mask, n);
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(find->raw.at, find->staging.at, bytes,
                                               cudaMemcpyHostToDevice, cuda->dev.stream));
    const bool whole = image->u1 == 0;
    out->raw = (const uint16_t *)find->raw.at;
    out->mask = image->mask ? (const uint8_t *)find->raw.at + n * sizeof(uint16_t) : NULL;
    out->region.u0 = whole ? 0 : (int)image->u0;
    out->region.v0 = whole ? 0 : (int)image->v0;
    out->region.u1 = whole ? (int)frame->width_px : (int)image->u1;
    out->region.v1 = whole ? (int)frame->height_px : (int)image->v1;
    out->m_per_unit = (float)(1 / frame->units_per_m);
    return 0;
}

static int mark_stage(struct search_cuda *cuda, int stage)
{
    int err = search_cuda_yield(cuda);
    if (err)
        return err;
    CUDA_OR_RETURN(&cuda->dev, cudaEventRecord(cuda->find.events[stage], cuda->dev.stream));
    return 0;
}

// The best of the polished candidates moved along their slides; out: after those that there may be.
__global__ void slide_kernel(const struct search_candidate *polished,
                             const struct search_slides *slides, float radius_m, uint32_t n_best,
                             struct search_candidate *out, struct search_cuda_counts *counts)
{
    const uint32_t n = counts->n_polished, n_slid = n < n_best ? n : n_best;
    const uint32_t i = threadIdx.x / SEARCH_SLIDE_WAYS, way = threadIdx.x % SEARCH_SLIDE_WAYS;
    const uint32_t rank = i < n ? search_slide_rank(polished, n, i) : n;
    if (rank < n_slid)
        search_slide(&slides[i], way, radius_m, &polished[i], &out[rank * SEARCH_SLIDE_WAYS + way]);
    if (threadIdx.x == 0)
        counts->n_slid = n_slid * SEARCH_SLIDE_WAYS;
}

static int enqueue_slid(struct search_cuda *cuda, const struct search_object *object,
                        uint32_t n_polished)
{
    struct search_find *find = &cuda->find;
    struct search_cuda_counts *counts = (struct search_cuda_counts *)find->counts.at;
    struct search_candidate *polished = (struct search_candidate *)find->polished.at;
    struct search_candidate *slid = polished + SEARCH_POLISHED_MAX;
    const uint32_t n_best = n_polished - SEARCH_NOT_SLID;
    slide_kernel<<<1, SEARCH_POLISHED_MAX * SEARCH_SLIDE_WAYS, 0, cuda->dev.stream>>>(
        polished, (const struct search_slides *)find->slides.at, object->info.radius_m, n_best,
        slid, counts);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    int err = search_cuda_yield(cuda);
    return err ? err
               : search_cuda_enqueue_drawn(cuda, object, slid, &counts->n_slid,
                                           n_best * SEARCH_SLIDE_WAYS, 0, NULL);
}

// The best candidate as it would look turned; equal ones: the first, the polished before the slid.
__global__ void turn_kernel(struct search_near_symmetries near_symmetries,
                            const struct search_candidate *polished, struct search_candidate *out,
                            struct search_cuda_counts *counts)
{
    const uint32_t n = counts->n_polished;
    const struct search_candidate *best = polished;
    for (uint32_t i = 1; i < n; i++)
        best = polished[i].score > best->score ? &polished[i] : best;
    for (uint32_t i = 0; i < counts->n_slid; i++) {
        const struct search_candidate *slid = &polished[SEARCH_POLISHED_MAX + i];
        best = slid->score > best->score ? slid : best;
    }
    if (n > 0 && threadIdx.x < near_symmetries.n)
        search_near_symmetry_pose(&near_symmetries.of[threadIdx.x], best, &out[threadIdx.x]);
    if (threadIdx.x == 0)
        counts->n_turned = n > 0 ? near_symmetries.n : 0;
}

static int enqueue_turned(struct search_cuda *cuda, const struct search_object *object)
{
    struct search_find *find = &cuda->find;
    struct search_cuda_counts *counts = (struct search_cuda_counts *)find->counts.at;
    struct search_candidate *turned = (struct search_candidate *)find->turned.at;
    if (object->near_symmetries.n == 0)
        return 0;
    turn_kernel<<<1, SEARCH_NEAR_SYMMETRIES_MAX, 0, cuda->dev.stream>>>(
        object->near_symmetries, (const struct search_candidate *)find->polished.at, turned,
        counts);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    int err = search_cuda_yield(cuda);
    return err ? err
               : search_cuda_enqueue_drawn(cuda, object, turned, &counts->n_turned,
                                           object->near_symmetries.n, SEARCH_TURNED_ROUNDS, NULL);
}

static int enqueue_refine(struct search_cuda *cuda, const struct search_object *object,
                          const struct search_rotations *rotations, uint32_t n_polished)
{
    struct search_find *find = &cuda->find;
    struct search_cuda_counts *counts = (struct search_cuda_counts *)find->counts.at;
    struct search_candidate *screened = (struct search_candidate *)find->screened.at;
    struct search_candidate *drawn = (struct search_candidate *)find->drawn.at;
    struct search_candidate *polished = (struct search_candidate *)find->polished.at;
    const struct search_nearness nearness = search_nearness_to_draw(object->info.radius_m);
    const uint32_t n_drawn = n_polished + SEARCH_DRAWN_MORE;
    int err = search_cuda_enqueue_distinct(
        cuda, rotations, &nearness, (const struct search_candidate *)find->candidates.at,
        (const uint32_t *)find->left.at, &counts->n_left, SEARCH_SCREENED, SEARCH_SCREENED_BEHIND,
        screened, &counts->n_screened);
    if (!err)
        err = mark_stage(cuda, SEARCH_STAGE_REFINE);
    if (!err)
        err = search_cuda_enqueue_drawn(cuda, object, screened, &counts->n_screened,
                                        SEARCH_SCREENED, 0, NULL);
    if (!err)
        err = search_cuda_enqueue_distinct(cuda, rotations, &nearness, screened, NULL,
                                           &counts->n_screened, n_drawn, INFINITY, drawn,
                                           &counts->n_drawn);
    if (!err)
        err = search_cuda_yield(cuda);
    if (!err)
        err = search_cuda_enqueue_drawn(cuda, object, drawn, &counts->n_drawn, n_drawn,
                                        SEARCH_DRAWN_ROUNDS, NULL);
    if (!err)
        err =
            search_cuda_enqueue_distinct(cuda, rotations, &nearness, drawn, NULL, &counts->n_drawn,
                                         n_polished, INFINITY, polished, &counts->n_polished);
    if (!err)
        err = search_cuda_yield(cuda);
    if (!err)
        err = search_cuda_enqueue_drawn(cuda, object, polished, &counts->n_polished, n_polished,
                                        SEARCH_POLISHED_ROUNDS,
                                        (struct search_slides *)find->slides.at);
    if (!err)
        err = search_cuda_yield(cuda);
    if (!err)
        err = enqueue_slid(cuda, object, n_polished);
    return err ? err : enqueue_turned(cuda, object);
}

int search_cuda_find(struct search *search, const struct search_object *object,
                     const struct search_image *image, uint32_t n_polished,
                     struct search_found *out)
{
    struct search_cuda *cuda = (struct search_cuda *)search->device;
    struct search_rotations rotations; // of the object's symmetry
    search_rotations_of(&object->info, &rotations);
    struct search_find *find = &cuda->find;
    struct search_cuda_counts *counts = (struct search_cuda_counts *)find->counts.at;
    struct search_cuda_input input;
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    search_cuda_set_camera(cuda, &image->camera);
    int err = mark_stage(cuda, SEARCH_STAGE_PREPARE);
    CUDA_OR_RETURN(&cuda->dev, cudaMemsetAsync(counts, 0, sizeof *counts, cuda->dev.stream));
    if (!err)
        err = upload_image(cuda, image, &input);
    if (!err)
        err =
            search_cuda_enqueue_prepare(cuda, &input, object->info.radius_m, object->info.map_px_m);
    if (!err)
        err = mark_stage(cuda, SEARCH_STAGE_COARSE);
    if (!err)
        err = search_cuda_enqueue_scan(cuda, object, (const struct search_frame *)find->starts.at,
                                       &counts->scan, SEARCH_STARTS_MAX, SEARCH_KEEP_MOST,
                                       (struct search_hit *)find->hits.at);
    if (!err) // while the device is busy with the coarse pass
        search_find_supports(image, object->info.radius_m, &out->supports);
    if (!err)
        err = mark_stage(cuda, SEARCH_STAGE_FIT);
    if (!err)
        err = search_cuda_enqueue_points(cuda, object);
    if (!err)
        err = enqueue_refine(cuda, object, &rotations, n_polished);
    if (err)
        return err;
    CUDA_OR_RETURN(&cuda->dev, cudaEventRecord(find->events[SEARCH_N_STAGES], cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(&find->found->counts, counts, sizeof *counts,
                                               cudaMemcpyDeviceToHost, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(find->found->polished, find->polished.at,
                                               sizeof find->found->polished, cudaMemcpyDeviceToHost,
                                               cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMemcpyAsync(find->found->turned, find->turned.at,
                                   object->near_symmetries.n * sizeof *find->found->turned,
                                   cudaMemcpyDeviceToHost, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    out->n_valid = find->found->counts.n_valid;
    out->n_starts = find->found->counts.scan.n_starts;
    out->n_polished = find->found->counts.n_polished;
    out->n_slid = find->found->counts.n_slid;
    const struct search_candidate *const from[] = {
        find->found->polished, find->found->polished + SEARCH_POLISHED_MAX, find->found->turned};
    const uint32_t n_from[] = {out->n_polished, out->n_slid, find->found->counts.n_turned};
    for (int k = 0; k < 3; k++) {
        memcpy(out->candidates + out->n, from[k], n_from[k] * sizeof *out->candidates);
        out->n += n_from[k];
    }
    for (int s = 0; s < SEARCH_N_STAGES; s++)
        CUDA_OR_RETURN(&cuda->dev, cudaEventElapsedTime(&out->stage_ms[s], find->events[s],
                                                        find->events[s + 1]));
    return 0;
}
