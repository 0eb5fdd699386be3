// SPDX-License-Identifier: Apache-2.0
// The host's steps that work on candidates: on all threads, or one with the first thread's drawing.
#include "gpu/search/host.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "gpu/base/parallel.h"
#include "gpu/search/cpu/refine_drawn.h"

int search_create_drawings(struct search *search)
{
    search->drawings = calloc(search->n_threads, sizeof *search->drawings);
    return search->drawings ? 0 : -ENOMEM;
}

void search_destroy_drawings(struct search *search)
{
    for (uint32_t i = 0; i < search->n_threads; i++)
        search_drawing_destroy(&search->drawings[i]);
    free(search->drawings);
}

int search_ensure_drawings(struct search *search, const struct search_object *object,
                           uint32_t n_pixels)
{
    if (object->n_vertices <= search->drawing_vertices && n_pixels <= search->drawing_pixels)
        return 0;
    uint32_t n_vertices = object->n_vertices > search->drawing_vertices ? object->n_vertices
                                                                        : search->drawing_vertices;
    n_pixels = n_pixels > search->drawing_pixels ? n_pixels : search->drawing_pixels;
    search->drawing_vertices = search->drawing_pixels = 0;
    for (uint32_t i = 0; i < search->n_threads; i++) {
        search_drawing_destroy(&search->drawings[i]);
        int err = search_drawing_create(&search->drawings[i], n_vertices, n_pixels);
        if (err)
            return err;
    }
    search->drawing_vertices = n_vertices;
    search->drawing_pixels = n_pixels;
    return 0;
}

struct refine_job {
    struct search *search;
    const struct search_scene *scene;
    const struct search_object *object;
    struct search_candidate *candidates;
    uint32_t n_rounds;
    struct search_slides *slides;
};

static void refine_points(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    struct refine_job *job = user;
    if (!pool_stopped(job->search->pool))
        search_refine_points(job->scene, job->object, &job->candidates[item]);
}

static void refine_drawn(void *user, uint32_t item, uint32_t thread)
{
    struct refine_job *job = user;
    if (!pool_stopped(job->search->pool))
        search_refine_drawn(job->scene, job->object, &job->candidates[item], job->n_rounds,
                            &job->search->drawings[thread],
                            job->slides ? &job->slides[item] : NULL);
}

void search_refine_all_points(struct search *search, const struct search_scene *scene,
                              const struct search_object *object,
                              struct search_candidate *candidates, uint32_t n)
{
    struct refine_job job = {search, scene, object, candidates, 0, NULL};
    parallel_for(search->pool, n, refine_points, &job);
}

void search_refine_all_drawn(struct search *search, const struct search_scene *scene,
                             const struct search_object *object,
                             struct search_candidate *candidates, uint32_t n, uint32_t n_rounds,
                             struct search_slides *out_slides)
{
    struct refine_job job = {search, scene, object, candidates, n_rounds, out_slides};
    parallel_for(search->pool, n, refine_drawn, &job);
}

uint32_t search_slide_best(const struct search_object *object,
                           const struct search_candidate *polished,
                           const struct search_slides *slides, uint32_t n, uint32_t n_best,
                           struct search_candidate *out)
{
    const uint32_t n_slid = n < n_best ? n : n_best;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t rank = search_slide_rank(polished, n, i);
        for (uint32_t way = 0; way < SEARCH_SLIDE_WAYS && rank < n_slid; way++)
            search_slide(&slides[i], way, object->info.radius_m, &polished[i],
                         &out[rank * SEARCH_SLIDE_WAYS + way]);
    }
    return n_slid * SEARCH_SLIDE_WAYS;
}

void search_score_drawing(struct search *search, const struct search_scene *scene,
                          const struct search_object *object, struct search_candidate *candidate)
{
    search_refine_drawn(scene, object, candidate, 0, &search->drawings[0], NULL);
}

void search_refine_to_edges(struct search *search, const struct search_scene *scene,
                            const struct search_object *object, struct search_candidate *candidate,
                            uint32_t n_rounds)
{
    search_refine_edges(scene, object, candidate, n_rounds, &search->drawings[0]);
}

#define EXPLAINED 0.25f // of the radius: what the image may be off the pose in depth

int search_take_out(struct search *search, const struct search_object *object,
                    const struct search_image *image, const struct search_pose *pose, uint8_t *mask)
{
    const struct depth_frame *frame = &image->frame;
    const struct search_camera camera = {(float)image->camera.fx_px, (float)image->camera.fy_px,
                                         (float)image->camera.cx_px, (float)image->camera.cy_px,
                                         (int)frame->width_px,       (int)frame->height_px};
    const float within_m = EXPLAINED * object->info.radius_m;
    struct search_drawing *drawing = &search->drawings[0];
    struct search_candidate candidate;
    int err = search_ensure_drawings(search, object, frame->width_px * frame->height_px);
    if (err)
        return err;
    search_pose_inward(object, &pose->T_camera_model, &candidate);
    search_draw_candidate(object, &camera, &candidate, drawing);
    for (int v = 0; v < drawing->at.height; v++)
        for (int u = 0; u < drawing->at.width; u++) {
            const float depth = drawing->depth[v * drawing->at.width + u]; // -1 / z
            const size_t pixel =
                (size_t)(v + drawing->at.v0) * frame->width_px + (size_t)(u + drawing->at.u0);
            const float z_m = (float)frame->depth[pixel] / (float)frame->units_per_m;
            if (depth < INFINITY && fabsf(z_m + 1 / depth) < within_m)
                mask[pixel] = 0;
        }
    return 0;
}
