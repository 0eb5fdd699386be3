// SPDX-License-Identifier: Apache-2.0
// The search itself: image -> start points -> hypotheses -> poses.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/kernels/search_distinct.h"
#include "gpu/kernels/search_error.h"
#include "gpu/kernels/search_icp.h"
#include "gpu/kernels/search_schedule.h"
#include "gpu/search_confidence.h"
#include "gpu/search_device.h"
#include "gpu/search_start.h"
#include "gpu/search_views.h"
#include "proto/se3.h"

void search_settings_default(struct search_settings *out)
{
    *out = (struct search_settings){.backend = GPU_BACKEND_AUTO, .cuda_device = -1};
}

void search_object_settings_default(struct search_object_settings *out)
{
    *out = (struct search_object_settings){.n_views = SEARCH_VIEWS_DEFAULT};
}

void search_query_default(struct search_query *out)
{
    *out = (struct search_query){.top = 1, .n_iterations = 15, .refine = true, .threshold = 0.9f};
}

int search_open(struct search **out, const struct search_settings *settings)
{
    *out = NULL;
    struct search *search = calloc(1, sizeof *search);
    if (!search)
        return -ENOMEM;
    search->log = settings->log;
    int err = pool_create(&search->pool, settings->n_threads);
    if (err)
        goto fail;
    pool_set_courtesy(search->pool, &settings->courtesy);
    search->n_threads = pool_n_threads(search->pool);
    err = -ENOTSUP;
#ifdef POSED_SEARCH_CUDA
    if (settings->backend != GPU_BACKEND_CPU) {
        search->ops = &search_ops_cuda;
        search->backend = GPU_BACKEND_CUDA;
        err = search->ops->open(&search->device, settings, search->pool);
    }
#endif
    if (err && settings->backend == GPU_BACKEND_CUDA) {
        log_to(&search->log, LOG_LEVEL_ERROR, "pose search: CUDA asked for, but %s",
               err == -ENOTSUP  ? "this build has none"
               : err == -ENODEV ? "no device answers, or none that can"
                                : "the device failed");
        goto fail;
    }
    if (err) {
        search->ops = &search_ops_cpu;
        search->backend = GPU_BACKEND_CPU;
        err = search->ops->open(&search->device, settings, search->pool);
        if (err)
            goto fail;
    }
    search->ops->describe(search->device, search->description, sizeof search->description);
    search->drawings = calloc(search->n_threads, sizeof *search->drawings);
    err = search->drawings ? 0 : -ENOMEM;
    if (err)
        goto close;
    *out = search;
    return 0;
close:
    search->ops->close(search->device);
fail:
    pool_destroy(&search->pool);
    free(search);
    return err;
}

void search_close(struct search **search)
{
    if (!search || !*search)
        return;
    struct search *s = *search;
    s->ops->close(s->device);
    for (uint32_t i = 0; i < s->n_threads; i++)
        search_drawing_destroy(&s->drawings[i]);
    free(s->drawings);
    free(s->z_m);
    free(s->normal_z);
    free(s->planes);
    pool_destroy(&s->pool);
    free(s);
    *search = NULL;
}

enum gpu_backend search_backend(const struct search *search)
{
    return search->backend;
}

const char *search_description(const struct search *search)
{
    return search->description;
}

static int refuse(struct search *search, char *out_field, const char *field, const char *why)
{
    if (out_field)
        snprintf(out_field, 32, "%s", field);
    log_to(&search->log, LOG_LEVEL_ERROR, "%s: %s", field, why);
    return -EINVAL;
}

static int refuse_empty(struct search *search, char *out_field)
{
    if (out_field)
        snprintf(out_field, 32, "frame");
    log_to(&search->log, LOG_LEVEL_WARNING,
           "frame: no pixel with valid depth (is the depth scale right?)");
    return -ENODATA;
}

static int check_image(struct search *search, const struct search_image *image, char *out_field)
{
    const struct intrinsics *c = &image->camera;
    const struct depth_frame *f = &image->frame;
    if (!f->depth || f->width_px == 0 || f->height_px == 0 || f->width_px > 8192 ||
        f->height_px > 8192)
        return refuse(search, out_field, "frame", "no pixels, or more than 8192 on a side");
    if (!(f->units_per_m >= 1) || !(f->units_per_m <= 1e6))
        return refuse(search, out_field, "frame.units_per_m", "outside 1 .. 1,000,000");
    if (c->width_px != f->width_px || c->height_px != f->height_px)
        return refuse(search, out_field, "camera", "made for another image size");
    double w = f->width_px, h = f->height_px;
    // Between a tele lens of 4 degrees and a fisheye of 160.
    if (!(c->fx_px > 0.09 * w && c->fx_px < 15 * w && fabs(c->fy_px) > 0.09 * h &&
          fabs(c->fy_px) < 15 * h))
        return refuse(search, out_field, "camera", "focal length cannot be right for this image");
    if (!(c->cx_px > 0 && c->cx_px < w && c->cy_px > 0 && c->cy_px < h))
        return refuse(search, out_field, "camera", "principal point outside the image");
    bool whole = image->u0 == 0 && image->v0 == 0 && image->u1 == 0 && image->v1 == 0;
    if (!whole && (image->u0 >= image->u1 || image->v0 >= image->v1 || image->u1 > f->width_px ||
                   image->v1 > f->height_px))
        return refuse(search, out_field, "region", "empty, or not inside the image");
    return 0;
}

// `object` not NULL: surfaces larger than it are marked.
static int prepare(struct search *search, const struct search_image *image,
                   const struct search_object *object, struct search_scene *out_scene,
                   char *out_field)
{
    int err = check_image(search, image, out_field);
    if (!err)
        err = search_prepare(search, image, object, out_scene);
    return err == -ENODATA ? refuse_empty(search, out_field) : err;
}

// The pose of the model as the caller gave it, from the pose of the centred model.
static struct se3 outward(const struct search_object *object, const struct search_candidate *c)
{
    struct se3 T;
    for (int i = 0; i < 9; i++)
        T.r[i] = (double)c->rotation[i];
    const double zero[3] = {0, 0, 0};
    memcpy(T.t_m, zero, sizeof zero);
    T = se3_normalized(&T);
    for (int i = 0; i < 3; i++)
        T.t_m[i] = (double)c->t_m[i] - (T.r[3 * i] * object->info.centre_m[0] +
                                        T.r[3 * i + 1] * object->info.centre_m[1] +
                                        T.r[3 * i + 2] * object->info.centre_m[2]);
    return T;
}

static void inward(const struct search_object *object, const struct se3 *T,
                   struct search_candidate *out)
{
    memset(out, 0, sizeof *out);
    out->view = SEARCH_VIEW_UNKNOWN;
    double centre[3];
    se3_apply(T, object->info.centre_m, centre);
    for (int i = 0; i < 9; i++)
        out->rotation[i] = (float)T->r[i];
    for (int i = 0; i < 3; i++)
        out->t_m[i] = (float)centre[i];
}

static void report(const struct search_object *object, const struct search_candidate *c,
                   float rival, float threshold, struct search_pose *out)
{
    out->T_camera_model = out->T_camera_view = outward(object, c);
    out->confidence = search_confidence(c, rival);
    out->accepted = out->confidence >= threshold;
    out->visible = 1 - c->hidden;
    out->contradicted = c->free + c->wrong;
    out->ended = c->ended;
    out->continued = c->continued + c->smooth;
    out->score = c->score;
    out->rival = rival;
    out->residual_rms_m = c->rms_m;
    out->n_pixels = c->n_match;
    out->view = c->view;
}

// The views worth fitting when not all of them are: the children of the seeds that the coarse pass
// likes best at this start point. Returns their number or a negative errno.
static long choose_views(struct search *search, const struct search_object *object,
                         const struct search_frame *frame, uint32_t n_wanted, uint32_t *out)
{
    enum { KEEP_MAX = 256 };
    struct search_hit hits[KEEP_MAX];
    uint32_t n = 0, keep = (uint32_t)((uint64_t)n_wanted * object->n_seeds / object->n_views);
    keep = keep < 8 ? 8 : keep < KEEP_MAX ? keep : KEEP_MAX;
    keep = keep < object->n_seeds ? keep : object->n_seeds;
    int err = search->ops->scan(search->device, object, frame, 1, keep, hits);
    if (err)
        return err;
    for (uint32_t k = 0; k < keep && hits[k].score > INT32_MIN; k++) {
        uint32_t seed = 0; // of the view; seeds are few and this is once a request
        while (object->seeds[seed] != hits[k].view)
            seed++;
        for (uint32_t i = object->child_first[seed]; i < object->child_first[seed + 1]; i++)
            out[n++] = object->children[i];
    }
    return n;
}

// The paper's winner is right in two cases of three, and near it in error when it is not.
#define VIEWS_REFINED  16
#define VIEWS_POLISHED 12
_Static_assert(VIEWS_REFINED >= SEARCH_TOP_MAX, "the bare views that may be wanted");

// What the paper's section 7 proposes: rendering and fitting, from the best views on. Returns how
// many distinct poses there are, best first; at least one.
static uint32_t refine_views(struct search *search, const struct search_object *object,
                             const struct search_scene *scene, struct search_candidate *c,
                             uint32_t n)
{
    const struct search_nearness to_draw = search_nearness_to_draw(object->info.radius_m);
    const struct search_nearness of_answers = search_nearness_of_answers(object->info.radius_m);
    const struct search_candidate best = c[0];
    search_refine_all_points(search, scene, object, c, n);
    n = search_keep_distinct(object, &to_draw, c, n, VIEWS_POLISHED);
    while (n > 0 && c[n - 1].score <= SEARCH_GIVEN_UP)
        n--;
    if (n == 0)
        c[n++] = best;
    search_refine_all_drawn(search, scene, object, c, n, SEARCH_POLISHED_ROUNDS);
    return search_keep_distinct(object, &of_answers, c, n, n);
}

static int run_views(struct search *search, const struct search_object *object,
                     const struct search_scene *scene, const struct search_query *query,
                     struct search_answer *out)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    struct search_frame frame;
    int err = search_start_nearest(search->z_m, &scene->camera, object->info.map_px_m, &frame);
    if (err)
        return err;
    out->n_starts = 1;
    out->stage_ms[SEARCH_STAGE_PREPARE] += search_elapsed_ms(&clock);
    long n = object->n_views;
    uint32_t *views = query->n_coarse ? malloc((size_t)n * sizeof *views) : NULL;
    err = views || !query->n_coarse ? 0 : -ENOMEM;
    if (!err && views) {
        n = choose_views(search, object, &frame, query->n_coarse, views);
        err = n < 0 ? (int)n : 0;
        out->stage_ms[SEARCH_STAGE_COARSE] = search_elapsed_ms(&clock);
    }
    uint32_t best[VIEWS_REFINED], n_best = query->refine ? VIEWS_REFINED : query->top;
    n_best = !err && n < n_best ? (uint32_t)n : n_best;
    struct search_fit fits[VIEWS_REFINED];
    struct search_candidate bare[VIEWS_REFINED], refined[VIEWS_REFINED];
    if (!err)
        err = search->ops->fit_best(search->device, object, &frame, views, (uint32_t)n,
                                    query->n_iterations, n_best, best, fits);
    n_best = err ? 0 : n_best;
    out->stage_ms[SEARCH_STAGE_FIT] = search_elapsed_ms(&clock);
    for (uint32_t k = 0; k < n_best; k++) {
        uint32_t view = views ? views[best[k]] : best[k];
        const float half = SEARCH_WINDOW_PX / 2;
        search_from_frame(&frame, object->views[view].rotation,
                          (float)search_shift(fits[k].x) + SEARCH_CENTRE_PX - half,
                          (float)search_shift(fits[k].y) + SEARCH_CENTRE_PX - half, fits[k].z,
                          &bare[k]);
        bare[k].view = view;
    }
    memcpy(refined, bare, n_best * sizeof *bare);
    const uint32_t n_refined =
        query->refine && n_best ? refine_views(search, object, scene, refined, n_best) : 0;
    if (!err && pool_stopped(search->pool)) {
        err = -ECANCELED;
        n_best = 0;
    }
    for (uint32_t k = 0; k < query->top && k < n_best && (k < n_refined || !query->refine); k++) {
        struct search_pose *pose = &out->poses[out->n_poses++];
        if (!query->refine) // judged, for its confidence
            search_refine_drawn(scene, object, &refined[k], 0, &search->drawings[0]);
        report(object, &refined[k],
               query->refine ? search_rival(object, refined, n_refined, k) : SEARCH_NO_RIVAL,
               query->threshold, pose);
        pose->T_camera_view = outward(object, &bare[k]);
        pose->error_px = fits[k].error_px;
        pose->view = bare[k].view;
    }
    out->stage_ms[SEARCH_STAGE_REFINE] = search_elapsed_ms(&clock);
    out->n_compared = (uint64_t)(n > 0 ? n : 0) * query->n_iterations;
    free(views);
    return err;
}

static int run_default(struct search *search, const struct search_object *object,
                       const struct search_image *image, const struct search_query *query,
                       struct search_answer *out, char *out_field)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    struct search_found found = {0};
    const uint32_t n_polished = query->top + SEARCH_POLISHED - 1;
    int err;
    if (search->ops->find) {
        struct search_turns turns;
        search_turns_of(&object->info, &turns);
        err = check_image(search, image, out_field);
        if (!err)
            err = search->ops->find(search->device, object, image, &turns, n_polished, &found);
        if (!err && found.n_valid == 0)
            err = refuse_empty(search, out_field);
    } else {
        struct search_scene scene;
        err = prepare(search, image, object, &scene, out_field);
        if (!err)
            err = search_ensure_drawings(search, object,
                                         image->frame.width_px * image->frame.height_px);
        out->stage_ms[SEARCH_STAGE_PREPARE] = search_elapsed_ms(&clock);
        if (!err)
            err = search_find_on_host(search, object, &scene, n_polished, &found);
    }
    if (err)
        return err;
    for (int s = 0; s < SEARCH_N_STAGES; s++)
        out->stage_ms[s] += found.stage_ms[s];
    out->n_starts = found.n_starts;
    // As measured, two anchors in five face as the surface does.
    out->n_compared = (uint64_t)out->n_starts * object->n_seeds * SEARCH_ANCHORS * 2 / 5;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    uint32_t n = search_keep_answers(object, found.candidates, found.n, query->top);
    for (uint32_t i = 0; i < n && i < query->top; i++)
        report(object, &found.candidates[i], search_rival(object, found.candidates, n, i),
               query->threshold, &out->poses[out->n_poses++]);
    out->stage_ms[SEARCH_STAGE_REFINE] += search_elapsed_ms(&clock);
    return 0;
}

static int run_germann(struct search *search, const struct search_object *object,
                       const struct search_image *image, const struct search_query *query,
                       struct search_answer *out, char *out_field)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    struct search_scene scene;
    int err = prepare(search, image, NULL, &scene, out_field);
    if (!err)
        err =
            search_ensure_drawings(search, object, image->frame.width_px * image->frame.height_px);
    if (err)
        return err;
    out->stage_ms[SEARCH_STAGE_PREPARE] = search_elapsed_ms(&clock);
    return run_views(search, object, &scene, query, out);
}

int search_run(struct search *search, const struct search_object *object,
               const struct search_image *image, const struct search_query *query,
               struct search_answer *out, char *out_field)
{
    memset(out, 0, sizeof *out);
    if (query->top < 1 || query->top > SEARCH_TOP_MAX)
        return refuse(search, out_field, "top", "outside 1 .. 16");
    if (query->n_iterations < 1 || query->n_iterations > 1000)
        return refuse(search, out_field, "n_iterations", "outside 1 .. 1000");
    pool_set_stop(search->pool, query->stopped, query->user);
    int err;
    if (pool_stopped(search->pool))
        err = -ECANCELED;
    else if (query->preset == SEARCH_PRESET_GERMANN)
        err = run_germann(search, object, image, query, out, out_field);
    else
        err = run_default(search, object, image, query, out, out_field);
    pool_set_stop(search->pool, NULL, NULL);
    return err;
}

#define FOLLOW_HYPOTHESES 33
#define FOLLOW_SURE       0.7f // then nothing else is tried
#define FOLLOW_LEAST      0.5f // less than in a search: the guess speaks for it

// The guess, moved by a third of the object's radius each way and turned by 15 degrees about each
// axis: what fast motion leaves of a prediction.
static void around(const struct search_object *object, const struct search_candidate *guess,
                   struct search_candidate out[FOLLOW_HYPOTHESES])
{
    const float shift_m = 0.33f * object->info.radius_m;
    const float cosine = 0.9659258f, sine = 0.2588190f;
    for (int i = 0; i < 27; i++) {
        out[i] = *guess;
        out[i].t_m[0] += (float)(i % 3 - 1) * shift_m;
        out[i].t_m[1] += (float)(i / 3 % 3 - 1) * shift_m;
        out[i].t_m[2] += (float)(i / 9 - 1) * shift_m;
    }
    for (int i = 0; i < 6; i++) {
        const int a = (i / 2 + 1) % 3, b = (i / 2 + 2) % 3;
        struct search_candidate *c = &out[27 + i];
        *c = *guess;
        for (int k = 0; k < 3; k++) {
            float p = guess->rotation[3 * a + k], q = guess->rotation[3 * b + k];
            float s = i % 2 ? sine : -sine;
            c->rotation[3 * a + k] = cosine * p - s * q;
            c->rotation[3 * b + k] = s * p + cosine * q;
        }
    }
}

static void follow_to_edges(struct search *search, const struct search_scene *scene,
                            const struct search_object *object, float threshold,
                            struct search_candidate *c, struct search_pose *out)
{
    search_refine_edges(scene, object, c, SEARCH_POLISHED_ROUNDS, &search->drawings[0]);
    report(object, c, SEARCH_NO_RIVAL, threshold, out);
}

int search_follow(struct search *search, const struct search_object *object,
                  const struct search_image *image, struct search_pose *pose)
{
    struct search_scene scene;
    struct search_candidate guess, c[FOLLOW_HYPOTHESES];
    struct search_pose found = {0};
    int err = prepare(search, image, object, &scene, NULL);
    if (!err)
        err =
            search_ensure_drawings(search, object, image->frame.width_px * image->frame.height_px);
    if (err)
        return err;
    inward(object, &pose->T_camera_model, &guess);
    c[0] = guess;
    search_refine_points(&scene, object, &c[0]);
    if (c[0].score > SEARCH_GIVEN_UP)
        follow_to_edges(search, &scene, object, FOLLOW_SURE, &c[0], &found);
    if (!found.accepted) {
        const struct search_nearness nearness = search_nearness_to_draw(object->info.radius_m);
        around(object, &guess, c);
        search_refine_all_points(search, &scene, object, c, FOLLOW_HYPOTHESES);
        uint32_t n = search_keep_distinct(object, &nearness, c, FOLLOW_HYPOTHESES, 4);
        while (n > 0 && c[n - 1].score <= SEARCH_GIVEN_UP)
            n--;
        search_refine_all_drawn(search, &scene, object, c, n, SEARCH_DRAWN_ROUNDS);
        if (search_keep_distinct(object, &nearness, c, n, 1) == 0)
            return -ENODATA;
        follow_to_edges(search, &scene, object, FOLLOW_LEAST, &c[0], &found);
    }
    if (!found.accepted)
        return -ENODATA;
    *pose = found;
    return 0;
}

int search_draw(const struct search_object *object, const struct intrinsics *camera,
                const struct se3 *T_camera_model, float *out_z)
{
    struct search_drawing drawing;
    struct search_candidate c;
    struct search_camera cam = {(float)camera->fx_px,  (float)camera->fy_px,
                                (float)camera->cx_px,  (float)camera->cy_px,
                                (int)camera->width_px, (int)camera->height_px};
    int err =
        search_drawing_create(&drawing, object->n_vertices, camera->width_px * camera->height_px);
    if (err)
        return err;
    memset(out_z, 0, (size_t)camera->width_px * camera->height_px * sizeof *out_z);
    inward(object, T_camera_model, &c);
    if (search_draw_candidate(object, &cam, &c, &drawing) > 0)
        for (int v = 0; v < drawing.at.height; v++)
            for (int u = 0; u < drawing.at.width; u++) {
                float depth = drawing.depth[v * drawing.at.width + u];
                if (depth < INFINITY)
                    out_z[(size_t)(v + drawing.at.v0) * camera->width_px +
                          (size_t)(u + drawing.at.u0)] = -1 / depth;
            }
    search_drawing_destroy(&drawing);
    return 0;
}
