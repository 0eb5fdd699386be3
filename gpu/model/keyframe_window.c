// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/keyframe_window_private.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/model/keyframe_choice.h"
#include "gpu/model/keyframe_constraint.h"
#include "proto/clock.h"
#include "proto/se3.h"

// Links of a quarter of the resolution are as good as full ones: what errs is systematic.
#define LEVEL (GPU_LEVELS - 1)

// Where time is short the worker rests so many times as long as its last keyframe took: it has a
// tenth of a processor, which the frames may need.
#define SPARING_REST 9

static bool is_at_work(const struct keyframe_window *w)
{
    return w->job == JOB_ADD || w->job == JOB_COPY || w->job == JOB_TAKE;
}

static int do_job(struct keyframe_window *w, enum job job)
{
    if (job == JOB_ADD && w->job_is_found)
        graph_found(w->graph, &w->job_find, w->job_found_ns);
    if (job == JOB_ADD)
        return graph_add(w->graph, w->job_seq, w->job_time_ns, w->z_m, &w->T_job);
    if (job == JOB_COPY)
        return graph_copy(&w->copy, w->graph, &w->between);
    int rc = graph_take(w->graph, w->copy);
    graph_destroy(&w->copy);
    return rc;
}

static void *work(void *user)
{
    struct keyframe_window *w = user;
    pthread_mutex_lock(&w->lock);
    while (w->job != JOB_END) {
        if (!is_at_work(w)) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        const enum job job = w->job;
        pthread_mutex_unlock(&w->lock);
        const int64_t began_ns = clock_monotonic_ns();
        int rc = do_job(w, job);
        pthread_mutex_lock(&w->lock);
        if (job == JOB_ADD) {
            w->job_error = rc;
            w->job_ended_ns = clock_monotonic_ns();
            w->job_took_ns = w->job_ended_ns - began_ns;
        } else {
            w->optimise_error = rc;
            w->stage = rc < 0 ? STAGE_FAILED : job == JOB_COPY ? STAGE_COPIED : STAGE_TAKEN;
        }
        w->job = JOB_DONE;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void *run_optimiser(void *user)
{
    struct keyframe_window *w = user;
    // What the frame loop and the keyframes leave of the processors; where the system does not
    // allow it, it runs like any other.
    (void)!sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    pthread_mutex_lock(&w->lock);
    while (w->stage != STAGE_END) {
        if (w->stage != STAGE_COPIED) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        struct optimise_report report;
        struct graph *given_up = NULL;
        int rc = optimise(w->copy, &w->stop, &w->yield, &report);
        pthread_mutex_lock(&w->lock);
        if (rc < 0 || atomic_load(&w->stop)) {
            given_up = w->copy;
            w->copy = NULL;
            w->optimise_error = rc < 0 ? rc : -ECANCELED;
        }
        w->report = report;
        w->stage = w->stage == STAGE_END ? STAGE_END : w->copy ? STAGE_FOUND : STAGE_FAILED;
        pthread_cond_broadcast(&w->changed);
        if (given_up) {
            pthread_mutex_unlock(&w->lock);
            graph_destroy(&given_up);
            pthread_mutex_lock(&w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void end_work(struct keyframe_window *w)
{
    pthread_mutex_lock(&w->lock);
    w->job = JOB_END;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
}

int keyframe_window_create(struct keyframe_window **out, const struct intrinsics *camera,
                           const struct graph_settings *settings, const struct yield *yield,
                           const struct log_sink *log)
{
    *out = NULL;
    struct keyframe_window *w = calloc(1, sizeof *w);
    if (!w)
        return -ENOMEM;
    if (yield)
        w->yield = *yield;
    const double scale = 1.0 / (1u << LEVEL);
    const struct intrinsics level = {camera->fx_px * scale,     camera->fy_px * scale,
                                     camera->cx_px * scale,     camera->cy_px * scale,
                                     camera->width_px >> LEVEL, camera->height_px >> LEVEL};
    w->log = *log;
    w->n_px = (size_t)level.width_px * level.height_px;
    w->map = malloc(4 * w->n_px * sizeof *w->map);
    w->z_m = malloc(w->n_px * sizeof *w->z_m);
    w->keyframes = malloc((settings->max_keyframes + 1) * sizeof *w->keyframes);
    w->T_map_odom = w->T_newest = se3_identity();
    // Two that have not entered: the one under way, and one that it could not take.
    int rc = keyframe_images_create(&w->seen, &level, settings->max_keyframes + 2);
    if (rc == 0)
        rc = between_frames_create(&w->between, w->n_px);
    if (rc == 0)
        rc = w->map && w->z_m && w->keyframes ? graph_create(&w->graph, &level, settings, log)
                                              : -ENOMEM;
    if (rc < 0)
        goto free_window;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    rc = -pthread_create(&w->thread, NULL, work, w);
    if (rc < 0)
        goto destroy_lock;
    rc = -pthread_create(&w->optimiser, NULL, run_optimiser, w);
    if (rc < 0)
        goto join;
    *out = w;
    return 0;
join:
    end_work(w);
destroy_lock:
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    graph_destroy(&w->graph);
free_window:
    free(w->map);
    free(w->z_m);
    free(w->keyframes);
    between_frames_free(&w->between);
    keyframe_images_free(&w->seen);
    free(w);
    return rc;
}

// The job that is under way, if any, is done when this returns. Returns whether there was one.
static bool wait_for_job(struct keyframe_window *w, int *out_error)
{
    pthread_mutex_lock(&w->lock);
    while (is_at_work(w))
        pthread_cond_wait(&w->changed, &w->lock);
    bool done = w->job == JOB_DONE;
    *out_error = w->job_error;
    w->job = JOB_NONE;
    pthread_mutex_unlock(&w->lock);
    return done;
}

void keyframe_window_destroy(struct keyframe_window **window)
{
    struct keyframe_window *w = *window;
    int error;
    if (!w)
        return;
    wait_for_job(w, &error);
    end_work(w);
    atomic_store(&w->stop, true);
    pthread_mutex_lock(&w->lock);
    w->stage = STAGE_END;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->optimiser, NULL);
    graph_destroy(&w->copy);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    graph_destroy(&w->graph);
    free(w->map);
    free(w->z_m);
    free(w->keyframes);
    between_frames_free(&w->between);
    keyframe_images_free(&w->seen);
    free(w);
    *window = NULL;
}

// What is being optimised belongs to an epoch that has ended.
static void cancel(struct keyframe_window *w)
{
    pthread_mutex_lock(&w->lock);
    if (w->stage == STAGE_COPIED)
        atomic_store(&w->stop, true); // the optimiser gives it up
    if (w->stage == STAGE_WANTED || w->stage == STAGE_FOUND || w->stage == STAGE_TAKEN) {
        graph_destroy(&w->copy);
        w->stage = STAGE_FAILED;
        w->optimise_error = -ECANCELED;
    }
    pthread_mutex_unlock(&w->lock);
}

void keyframe_window_enter(struct keyframe_window *w, uint32_t epoch)
{
    int error;
    if (epoch == w->epoch)
        return;
    wait_for_job(w, &error);
    cancel(w);
    graph_clear(w->graph);
    w->epoch = epoch;
    w->has_keyframe = w->is_found = w->is_tried = false;
    w->finds = (struct relocalise_finds){0};
    w->moved_m = 0;
    w->n_keyframes = w->n_lost = 0;
    keyframe_images_forget_but(&w->seen, NULL, 0);
    between_frames_clear(&w->between);
    w->T_map_odom = w->T_newest = se3_identity();
}

void keyframe_window_set_T_map_odom(struct keyframe_window *w)
{
    w->T_map_odom = w->T_newest;
    for (uint32_t i = 0; i < w->n_keyframes && w->is_found; i++)
        if (w->keyframes[i].seq == w->found.seq)
            w->T_map_odom = graph_keyframe_T_map_odom(&w->keyframes[i]);
}

// Keyframes and T_map_odom as the graph has them; no job is under way.
static void take_graph(struct keyframe_window *w)
{
    const struct graph_keyframe *keyframes;
    w->n_keyframes = graph_keyframes(w->graph, &keyframes);
    memcpy(w->keyframes, keyframes, w->n_keyframes * sizeof *keyframes);
    w->T_newest = graph_T_map_odom(w->graph);
    keyframe_images_forget_but(&w->seen, w->keyframes, w->n_keyframes);
    keyframe_window_set_T_map_odom(w);
}

double keyframe_window_take_result(struct keyframe_window *w, const struct se3 *T_odom_camera)
{
    int error;
    if (!wait_for_job(w, &error))
        return 0;
    if (error < 0) {
        log_to(&w->log, LOG_LEVEL_ERROR, "no memory for the map's keyframes: they end here");
        w->failed = true;
        pthread_mutex_lock(&w->lock);
        if (w->stage == STAGE_TAKEN) {
            w->stage = STAGE_FAILED;
            w->optimise_error = -ENOMEM;
        }
        pthread_mutex_unlock(&w->lock);
        return 0;
    }
    pthread_mutex_lock(&w->lock);
    if (w->stage == STAGE_TAKEN)
        w->stage = STAGE_ENTERED;
    pthread_mutex_unlock(&w->lock);
    struct se3 before = se3_compose(&w->T_map_odom, T_odom_camera);
    take_graph(w);
    struct se3 after = se3_compose(&w->T_map_odom, T_odom_camera);
    struct se3 step = se3_between(&before, &after);
    w->moved_m =
        sqrt(step.t_m[0] * step.t_m[0] + step.t_m[1] * step.t_m[1] + step.t_m[2] * step.t_m[2]);
    return w->moved_m;
}

int keyframe_window_read_depth(struct keyframe_window *w, struct gpu *gpu,
                               const struct gpu_frame *frame, float *out_m)
{
    if (gpu_frame_read(gpu, frame, LEVEL, w->map) != 0)
        return -EIO;
    for (size_t i = 0; i < w->n_px; i++)
        out_m[i] = w->map[4 * i + 3];
    return 0;
}

// Keeps a frame to learn the camera's own error from, where a keyframe tells of its odom: not one
// between a find and the next keyframe. What is being copied is left alone.
static int keep_between(struct keyframe_window *w, struct gpu *gpu, const struct gpu_frame *frame,
                        const struct track_result *result, int64_t time_ns)
{
    pthread_mutex_lock(&w->lock);
    const bool is_copied = w->job == JOB_COPY;
    pthread_mutex_unlock(&w->lock);
    if (w->failed || w->is_found || is_copied || !frame || result->state != TRACK_STATE_TRACKING)
        return 0;
    float *z_m = between_frames_offer(&w->between, time_ns, &result->T_odom_camera);
    int rc = z_m ? keyframe_window_read_depth(w, gpu, frame, z_m) : 0;
    if (rc < 0)
        between_frames_withdraw(&w->between);
    return rc;
}

static int begin_job(struct keyframe_window *w, struct gpu *gpu, const struct gpu_frame *frame,
                     const struct se3 *T_odom_camera, uint64_t seq, int64_t time_ns)
{
    if (keyframe_window_read_depth(w, gpu, frame, w->z_m) != 0)
        return -EIO;
    w->has_keyframe = true;
    w->keyframe = w->n_frames;
    w->job_seq = seq;
    w->job_time_ns = time_ns;
    w->job_is_found = w->is_found;
    w->job_find = w->found;
    w->job_found_ns = w->found_ns;
    w->is_found = false;
    w->T_odom_keyframe = w->T_job = *T_odom_camera;
    keyframe_images_keep(&w->seen, seq, w->z_m);
    pthread_mutex_lock(&w->lock);
    w->job = JOB_ADD;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

bool keyframe_window_await(struct keyframe_window *w, int64_t until_ns)
{
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    if (until_ns == INT64_MAX)
        return true;
    int timed_out = 0;
    pthread_mutex_lock(&w->lock);
    while (is_at_work(w) && timed_out == 0)
        timed_out = pthread_cond_timedwait(&w->changed, &w->lock, &until);
    bool is_ready = !is_at_work(w);
    pthread_mutex_unlock(&w->lock);
    return is_ready;
}

// Whether the worker's result does not enter with frame number n_frames.
static bool goes_by(const struct keyframe_window *w, uint64_t n_frames)
{
    return w->has_keyframe && n_frames < w->keyframe + KEYFRAME_WINDOW_FRAMES;
}

bool keyframe_window_is_ready(struct keyframe_window *w, int64_t until_ns)
{
    return goes_by(w, w->n_frames + 1) || keyframe_window_await(w, until_ns);
}

// Has the worker do what the optimiser waits for, unless it is at work. Returns whether it does.
static bool serve_optimiser(struct keyframe_window *w)
{
    pthread_mutex_lock(&w->lock);
    bool serves = !is_at_work(w) && (w->stage == STAGE_WANTED || w->stage == STAGE_FOUND);
    if (serves) {
        w->job = w->stage == STAGE_WANTED ? JOB_COPY : JOB_TAKE;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return serves;
}

void keyframe_window_spare(struct keyframe_window *w, bool sparing)
{
    w->sparing = sparing;
}

static bool must_rest(struct keyframe_window *w)
{
    if (!w->sparing)
        return false;
    pthread_mutex_lock(&w->lock);
    const bool must = clock_monotonic_ns() - w->job_ended_ns < SPARING_REST * w->job_took_ns;
    pthread_mutex_unlock(&w->lock);
    return must;
}

int keyframe_window_follow(struct keyframe_window *w, struct gpu *gpu, const struct track *track,
                           const struct track_result *result, uint64_t seq, int64_t time_ns,
                           double *out_moved_m)
{
    const struct gpu_frame *frame = track_newest_frame(track);
    *out_moved_m = 0;
    w->n_frames++;
    if (keep_between(w, gpu, frame, result, time_ns) != 0)
        return -EIO;
    if (w->failed || goes_by(w, w->n_frames))
        return 0;
    *out_moved_m = keyframe_window_take_result(w, &result->T_odom_camera);
    if (w->failed || serve_optimiser(w) || !frame ||
        !keyframe_choice(result, w->has_keyframe ? &w->T_odom_keyframe : NULL, w->moved_m,
                         w->sparing) ||
        must_rest(w))
        return 0;
    return begin_job(w, gpu, frame, &result->T_odom_camera, seq, time_ns);
}

int keyframe_window_optimise(struct keyframe_window *w)
{
    int rc = 0;
    pthread_mutex_lock(&w->lock);
    if (w->stage > STAGE_NONE && w->stage < STAGE_ENTERED)
        rc = -EALREADY;
    else if (w->failed || w->n_keyframes < 3)
        rc = -ENODATA;
    if (rc == 0) {
        atomic_store(&w->stop, false);
        w->stage = STAGE_WANTED;
    }
    pthread_mutex_unlock(&w->lock);
    if (rc == 0)
        serve_optimiser(w);
    return rc;
}

int keyframe_window_optimised(struct keyframe_window *w, struct optimise_report *out)
{
    const struct se3 anywhere = se3_identity();
    serve_optimiser(w);
    pthread_mutex_lock(&w->lock);
    const bool taken = w->stage == STAGE_TAKEN && !is_at_work(w);
    pthread_mutex_unlock(&w->lock);
    if (taken)
        keyframe_window_take_result(w, &anywhere);
    pthread_mutex_lock(&w->lock);
    *out = w->report;
    int rc = w->stage == STAGE_NONE      ? -ENODATA
             : w->stage == STAGE_ENTERED ? 0
             : w->stage == STAGE_FAILED  ? w->optimise_error
                                         : -EAGAIN;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

int keyframe_window_finish(struct keyframe_window *w, bool all, const atomic_bool *stop,
                           const struct yield *yield, struct optimise_report *out)
{
    const struct se3 anywhere = se3_identity();
    struct graph *copy = NULL;
    *out = (struct optimise_report){0};
    keyframe_window_take_result(w, &anywhere);
    if (!all)
        return 0;
    if (w->failed || w->n_keyframes < 3)
        return -ENODATA;
    cancel(w);
    int rc = graph_copy(&copy, w->graph, &w->between);
    if (rc == 0)
        rc = optimise(copy, stop, yield, out);
    if (rc == 0)
        rc = graph_take(w->graph, copy);
    graph_destroy(&copy);
    if (rc == 0)
        take_graph(w);
    return rc;
}

const struct graph *keyframe_window_graph(const struct keyframe_window *window)
{
    return window->graph;
}

uint32_t keyframe_window_epoch(const struct keyframe_window *window)
{
    return window->epoch;
}

struct se3 keyframe_window_T_map_odom(const struct keyframe_window *window)
{
    return window->T_map_odom;
}

uint32_t keyframe_window_list(const struct keyframe_window *window,
                              const struct graph_keyframe **out)
{
    *out = window->keyframes;
    return window->n_keyframes;
}

int keyframe_window_correction(const struct keyframe_window *window, struct deformation_field *out)
{
    return keyframe_images_correction(&window->seen, window->keyframes, window->n_keyframes, out);
}
