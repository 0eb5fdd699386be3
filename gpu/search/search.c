// SPDX-License-Identifier: Apache-2.0
// The search itself: image -> start points -> hypotheses -> poses.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "gpu/search/confidence.h"
#include "gpu/search/host.h"
#include "gpu/search/instances.h"
#include "proto/se3.h"

struct opening {
    struct search *search;
    const struct search_settings *settings;
};

static int open_backend(const struct opening *opening, const struct search_ops *ops)
{
    struct search *search = opening->search;
    search->ops = ops;
    return ops->open(&search->device, opening->settings, search->pool);
}

#ifdef POSED_HAVE_CUDA
static int open_cuda(void *opening)
{
    return open_backend(opening, &search_ops_cuda);
}
#define OPEN_CUDA open_cuda
#else
#define OPEN_CUDA NULL
#endif

static int open_cpu(void *opening)
{
    return open_backend(opening, &search_ops_cpu);
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
        goto free_search;
    pool_set_yield(search->pool, &settings->yield);
    search->n_threads = pool_n_threads(search->pool);
    struct opening opening = {search, settings};
    enum gpu_backend backend;
    err = gpu_open_twin("pose search", settings->backend, OPEN_CUDA, open_cpu, &opening,
                        &search->log, &backend);
    if (err)
        goto destroy_pool;
    search->ops->describe(search->device, search->description, sizeof search->description);
    err = search_create_drawings(search);
    if (err)
        goto close_device;
    if (backend != GPU_BACKEND_CPU)
        log_to(
            &search->log, LOG_LEVEL_NOTICE,
            "pose search: following an object, and start point and fit of the preset germann, run "
            "on the CPU: the other twin has none of them");
    *out = search;
    return 0;
close_device:
    search->ops->close(search->device);
destroy_pool:
    pool_destroy(&search->pool);
free_search:
    free(search);
    return err;
}

void search_close(struct search **search)
{
    if (!search || !*search)
        return;
    struct search *s = *search;
    s->ops->close(s->device);
    search_destroy_drawings(s);
    free(s->z_m);
    free(s->normal_z);
    free(s->planes);
    free(s->reduced);
    pool_destroy(&s->pool);
    free(s);
    *search = NULL;
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

int search_refuse_empty(struct search *search, char *out_field)
{
    if (out_field)
        snprintf(out_field, 32, "frame");
    log_to(&search->log, LOG_LEVEL_WARNING,
           "frame: no pixel with valid depth (is the depth scale right?)");
    return -ENODATA;
}

int search_check_image(struct search *search, const struct search_image *image, char *out_field)
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

// The pose of the model as the caller gave it, from the pose of the centred model.
struct se3 search_pose_outward(const struct search_object *object, const struct search_candidate *c)
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

void search_pose_inward(const struct search_object *object, const struct se3 *T,
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

void search_report(const struct search_object *object, const struct search_candidate *c,
                   float rival, float threshold, uint32_t reduction, struct search_pose *out)
{
    out->T_camera_model = out->T_camera_view = search_pose_outward(object, c);
    out->confidence = search_confidence(c, rival);
    out->accepted = out->confidence >= threshold;
    out->visible = 1 - c->hidden;
    out->contradicted = c->free + c->wrong;
    out->ended = c->ended;
    out->continued = c->continued + c->smooth;
    out->score = c->score;
    out->rival = rival;
    out->residual_rms_m = c->rms_m;
    out->n_pixels = c->n_match * reduction * reduction;
    out->view = c->view;
}

int search_run(struct search *search, const struct search_object *object,
               const struct search_image *image, const struct search_query *query,
               struct search_answer *out, char *out_field)
{
    memset(out, 0, sizeof *out);
    const char *why, *wrong = search_query_check(query, &why);
    if (wrong)
        return refuse(search, out_field, wrong, why);
    pool_set_stop(search->pool, query->stopped, query->user);
    int err;
    if (pool_stopped(search->pool))
        err = -ECANCELED;
    else if (query->preset == SEARCH_PRESET_GERMANN)
        err = search_run_germann(search, object, image, query, out, out_field);
    else
        err = search_run_instances(search, object, image, query, out, out_field);
    pool_set_stop(search->pool, NULL, NULL);
    return err;
}
