// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/optimise.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/keyframe_map.h"
#include "gpu/model/pose_graph_private.h"
#include "gpu/track/calibrate.h"
#include "proto/se3.h"

#define ROUNDS     2
// Less on pairs kept aside, and the field is not taken out. A file's has to be better by more
// (FIELD_MIN_REDUCE): it goes on to other recordings, this one to the images that it was learnt
// from. Sensors without an error of their own have 0.004 at most.
#define MIN_REDUCE 0.05

// What is learnt from, in order of time: keyframe k, or the frame i between keyframes.
struct lesson {
    bool is_keyframe;
    uint32_t at;
    int64_t time_ns;
};

static int compare_lessons(const void *a, const void *b)
{
    const struct lesson *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

// All of them but frames that are a keyframe, too. Returns how many.
static uint32_t list_lessons(const struct graph *g, struct lesson *out)
{
    uint32_t n = 0, k = 0;
    for (uint32_t i = 0; i < g->n; i++)
        out[n++] = (struct lesson){true, i, g->keyframes[i].time_ns};
    for (uint32_t i = 0; i < g->between.n; i++) {
        const int64_t time_ns = g->between.frames[i].time_ns;
        while (k < g->n && g->keyframes[k].time_ns < time_ns)
            k++;
        if (k == g->n || g->keyframes[k].time_ns != time_ns)
            out[n++] = (struct lesson){false, i, time_ns};
    }
    qsort(out, n, sizeof *out, compare_lessons);
    return n;
}

// Where the camera was at a frame between keyframes: as it moved since the keyframe before it, or,
// where it was lost and found since that one, until the next. No frame is kept between a find and
// the next keyframe (keyframe_window.c), unless that was left out.
static struct se3 map_pose_between(const struct graph *g, const struct between_frame *frame)
{
    uint32_t k = 0;
    while (k + 1 < g->n && g->keyframes[k + 1].time_ns <= frame->time_ns)
        k++;
    if (k + 1 < g->n && g->keyframes[k + 1].is_found &&
        frame->time_ns > g->keyframes[k + 1].found_ns)
        k++;
    const struct se3 moved = se3_between(&g->keyframes[k].T_odom_camera, &frame->T_odom_camera);
    return se3_compose(&g->keyframes[k].T_map_camera, &moved);
}

static int add_lesson(struct graph *g, struct calibrate *calibrate, const struct lesson *lesson,
                      float *map)
{
    struct align_image *image = NULL;
    if (lesson->is_keyframe) {
        keyframe_map_fill(&g->camera, g->images[lesson->at], g->z_m[lesson->at], map);
        return calibrate_add(calibrate, 0, lesson->time_ns, map,
                             &g->keyframes[lesson->at].T_map_camera);
    }
    const float *z_m = between_frames_depth(&g->between, lesson->at);
    int rc = link_image(&image, z_m, &g->camera);
    if (rc < 0)
        return rc == -EINVAL ? 0 : rc; // too little depth
    keyframe_map_fill(&g->camera, image, z_m, map);
    align_image_destroy(&image);
    const struct se3 T = map_pose_between(g, &g->between.frames[lesson->at]);
    return calibrate_add(calibrate, 0, lesson->time_ns, map, &T);
}

// Learns the field from at most CALIBRATE_MAX_FRAMES keyframes and frames between them, evenly. Too
// few of them, or too short a time: there is none.
static int learn_field(struct graph *g, const atomic_bool *stop, struct optimise_report *report)
{
    static const struct log_sink quiet = {NULL, NULL};
    const size_t n_px = (size_t)g->camera.width_px * g->camera.height_px;
    const struct intrinsics camera = keyframe_map_camera(&g->camera);
    struct calibrate *calibrate = NULL;
    struct calibrate_report learnt;
    struct depth_error field;
    float *map = malloc(4 * n_px * sizeof *map), *per_m = malloc(n_px * sizeof *per_m);
    struct lesson *lessons = malloc((g->n + g->between.n) * sizeof *lessons);
    int rc = map && per_m && lessons ? calibrate_create(&calibrate, &camera, &quiet) : -ENOMEM;
    if (rc < 0)
        goto free_maps;
    calibrate_set_limits(calibrate, KEYFRAME_MAP_LEVEL, CALIBRATE_MIN_KEYFRAMES, INFINITY, stop,
                         &g->yield);
    const uint32_t n = list_lessons(g, lessons);
    const uint32_t n_used = n < CALIBRATE_MAX_FRAMES ? n : CALIBRATE_MAX_FRAMES;
    for (uint32_t i = 0; i < n_used && rc == 0; i++) {
        yield_now(&g->yield);
        rc = add_lesson(g, calibrate, &lessons[(size_t)i * n / n_used], map);
    }
    if (rc == 0)
        rc = calibrate_solve(calibrate, &field, &learnt);
    calibrate_destroy(&calibrate);
    if (rc == 0) {
        report->reduction = learnt.reduction;
        report->has_field = learnt.reduction >= MIN_REDUCE;
        for (size_t px = 0; px < n_px && report->has_field; px++)
            per_m[px] = (float)depth_error_at(
                &field, KEYFRAME_MAP_SCALE * (double)(px % g->camera.width_px),
                KEYFRAME_MAP_SCALE * (double)(px / g->camera.width_px));
    }
    if (report->has_field)
        rc = graph_set_field(g, per_m);
    rc = rc == -ENODATA ? 0 : rc;
free_maps:
    free(lessons);
    free(map);
    free(per_m);
    return rc;
}

// Mean residual of the links.
static double residual_m(const struct graph *g, uint32_t *out_n)
{
    double sum = 0;
    *out_n = 0;
    for (uint32_t k = 0; k < g->n_edges; k++)
        if (edge_is_measured(&g->edges[k])) {
            sum += g->edges[k].link.rms_m;
            ++*out_n;
        }
    return *out_n ? sum / *out_n : 0;
}

// How far keyframes at these poses lie from where their links have them, mean.
static void measure_apart(const struct graph *g, const struct se3 *T_map_camera, double *out_m,
                          double *out_rad)
{
    double sum_m = 0, sum_rad = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n_edges; k++) {
        const struct edge *e = &g->edges[k];
        if (!edge_is_measured(e))
            continue;
        const struct se3 T_j_i = se3_between(&T_map_camera[e->j], &T_map_camera[e->i]);
        const struct se3 off = se3_between(&e->link.T_j_i, &T_j_i);
        const double turn_rad = se3_angle(&off);
        sum_m += link_motion(&off) - turn_rad;
        sum_rad += turn_rad;
        n++;
    }
    *out_m = n > 0 ? sum_m / n : 0;
    *out_rad = n > 0 ? sum_rad / n : 0;
}

// Measures every keyframe anew against its predecessor and older ones, as if it had just come and
// were where it is thought to be. What closed a loop, or was taken over from a keyframe that went,
// is kept where it is not measured again: without it the loop would open. So is what a camera was
// found by after a loss, without which nothing would hold what came then.
static void keep(struct graph *g, const struct edge *e)
{
    struct edge *anew = graph_find_edge(g, g->n_edges, e->i, e->j);
    if (!anew)
        g->edges[g->n_edges++] = *e;
    else if (anew->lost)
        *anew = *e;
    else
        anew->find |= e->find;
}

static int measure_again(struct graph *g, const atomic_bool *stop)
{
    const uint32_t n = g->n, n_old = g->n_edges;
    struct edge *old = malloc((n_old + 1) * sizeof *old);
    int rc = old ? 0 : -ENOMEM;
    if (rc == 0)
        memcpy(old, g->edges, n_old * sizeof *old);
    g->n_edges = 0;
    for (g->n = 2; g->n <= n && rc == 0; g->n++) {
        if (atomic_load(stop))
            rc = -ECANCELED;
        else
            rc = graph_link_again(g);
    }
    g->n = n;
    for (uint32_t k = 0; k < n_old && rc == 0 && g->n_edges + 1 < g->max_edges; k++) {
        const struct edge *e = &old[k];
        if (e->find || (!e->chain && (e->loop || e->inherited)))
            keep(g, e);
    }
    free(old);
    return rc;
}

int optimise(struct graph *g, const atomic_bool *stop, const struct yield *yield,
             struct optimise_report *out_report)
{
    *out_report = (struct optimise_report){.n_keyframes = g->n};
    if (g->n < 3)
        return -ENODATA;
    g->yield = yield ? *yield : (struct yield){0};
    link_maker_set_yield(g->maker, yield);
    struct se3 *before = malloc(g->n * sizeof *before);
    int rc = before ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < g->n && rc == 0; i++)
        before[i] = g->keyframes[i].T_map_camera;
    if (rc == 0)
        rc = graph_make_images(g);
    out_report->before = residual_m(g, &out_report->n_links_before);
    if (rc == 0)
        rc = learn_field(g, stop, out_report);
    // Without the camera's own error, learnt now or before, what is left is the surfaces' and the
    // views', and the more of them are asked the better; with it all links are wrong alike.
    if (graph_is_mended(g))
        g->max_links = LINK_MAX;
    for (int round = 0; round < ROUNDS && rc == 0; round++) {
        rc = measure_again(g, stop);
        out_report->after = residual_m(g, &out_report->n_links);
        if (rc == 0)
            rc = out_report->n_links > 0 ? graph_adjust(g) : -ENOLINK;
    }
    if (rc == 0)
        measure_apart(g, before, &out_report->apart_before_m, &out_report->apart_before_rad);
    for (uint32_t i = 0; i < g->n && rc == 0; i++) {
        struct se3 moved = se3_between(&before[i], &g->keyframes[i].T_map_camera);
        const double *t = moved.t_m;
        out_report->moved_m =
            fmax(out_report->moved_m, sqrt(t[0] * t[0] + t[1] * t[1] + t[2] * t[2]));
        out_report->moved_rad = fmax(out_report->moved_rad, se3_angle(&moved));
        before[i] = g->keyframes[i].T_map_camera;
    }
    if (rc == 0)
        measure_apart(g, before, &out_report->apart_m, &out_report->apart_rad);
    free(before);
    return rc;
}
