// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/calibrate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/track/calibrate_pairs.h"
#include "gpu/track/normal_equations.h"

#define STRIDE_PX  4   // of the samples of a frame, in pixels of the maps' level
#define MAX_PAIRS  600 // adjusted
#define MAX_ASIDE  200
#define STEPS      6
#define POSE_STEPS 6
#define MIN_PAIRS  60
#define MIN_ASIDE  12

// What a field is like. Of the mean: a constant is nearly a change of the scene's depth that poses
// can follow, which would take it to 0.2 /m. It belongs to the factory's calibration.
static const struct calibrate_prior usual = {1e-3, 1e-2, 1e-6};
// Keeps a frame without pairs where it is.
#define POSE_STD   0.3
#define UNSEEN_STD 0.5 // of what the prior alone would leave: such a node was not seen

int calibrate_create(struct calibrate **out, const struct intrinsics *camera,
                     const struct log_sink *log)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return -ENOMEM;
    (*out)->eye.camera = *camera;
    (*out)->random = 88172645463325252u;
    calibrate_set_limits(*out, CALIBRATE_MAP_LEVEL, CALIBRATE_MIN_FRAMES, CALIBRATE_MAX_APART_S,
                         NULL, NULL);
    if (log)
        (*out)->log = *log;
    return 0;
}

void calibrate_destroy(struct calibrate **calibrate)
{
    if (!*calibrate)
        return;
    for (uint32_t i = 0; i < (*calibrate)->n_frames; i++)
        free((*calibrate)->frames[i].map);
    free(*calibrate);
    *calibrate = NULL;
}

void calibrate_set_limits(struct calibrate *c, uint32_t map_level, uint32_t min_frames,
                          double max_apart_s, const atomic_bool *stop, const struct yield *yield)
{
    c->stop = stop;
    if (yield)
        c->yield = *yield;
    c->eye.map_level = map_level;
    c->eye.level = camera_level(&c->eye.camera, map_level);
    c->min_frames = min_frames;
    c->max_apart_s = max_apart_s;
}

int calibrate_add(struct calibrate *c, uint32_t group, int64_t time_ns, const float *map,
                  const struct se3 *T_world_camera)
{
    const size_t bytes =
        (size_t)c->eye.level.width_px * (size_t)c->eye.level.height_px * 4 * sizeof *map;
    if (c->n_frames == CALIBRATE_MAX_FRAMES)
        return -ENOSPC;
    struct calibrate_frame *frame = &c->frames[c->n_frames];
    *frame = (struct calibrate_frame){group, time_ns, *T_world_camera, malloc(bytes)};
    if (!frame->map)
        return -ENOMEM;
    memcpy(frame->map, map, bytes);
    c->n_frames++;
    return 0;
}

void calibrate_leave_out(struct calibrate *c, enum track_reason reason)
{
    c->n_left_out[reason]++;
}

static void add_prior_row(struct normal_equations *system, int first,
                          const struct depth_error *field, const int *index, const double *row,
                          int n, double std)
{
    int shifted[FIELD_N_NODES];
    double r = 0;
    for (int k = 0; k < n; k++) {
        shifted[k] = first + index[k];
        r += row[k] * (double)field->node_per_m[index[k]];
    }
    normal_equations_add(system, shifted, row, n, 1 / (std * std), r);
}

void calibrate_add_prior(struct normal_equations *system, int first,
                         const struct depth_error *field, const struct calibrate_prior *prior)
{
    static const double bend[3] = {1, -2, 1}, twist[4] = {1, -1, -1, 1}, one[1] = {1};
    const double twist_per_m = prior->bend_per_m / 1.4142135623730951;
    int all[FIELD_N_NODES];
    double share[FIELD_N_NODES];
    for (int i = 0; i < FIELD_N_NODES; i++) {
        all[i] = i;
        share[i] = 1.0 / FIELD_N_NODES;
    }
    add_prior_row(system, first, field, all, share, FIELD_N_NODES, prior->mean_per_m);
    for (int v = 0; v < FIELD_ROWS; v++)
        for (int u = 0; u < FIELD_COLUMNS; u++) {
            int at = v * FIELD_COLUMNS + u;
            add_prior_row(system, first, field, (int[]){at}, one, 1, prior->size_per_m);
            if (u + 2 < FIELD_COLUMNS)
                add_prior_row(system, first, field, (int[]){at, at + 1, at + 2}, bend, 3,
                              prior->bend_per_m);
            if (v + 2 < FIELD_ROWS)
                add_prior_row(system, first, field,
                              (int[]){at, at + FIELD_COLUMNS, at + 2 * FIELD_COLUMNS}, bend, 3,
                              prior->bend_per_m);
            if (u + 1 < FIELD_COLUMNS && v + 1 < FIELD_ROWS)
                add_prior_row(system, first, field,
                              (int[]){at, at + 1, at + FIELD_COLUMNS, at + FIELD_COLUMNS + 1},
                              twist, 4, twist_per_m);
        }
}

// Eight nodes of the field and the poses of two frames. The poses' unknowns stand behind those of
// the nodes and are in the order of the frames: no place is looked for among them.
static void add_sample(struct normal_equations *system, struct calibrate_pair pair,
                       const struct calibrate_sample *s, double weight)
{
    const bool i_first = pair.i < pair.j;
    const size_t first = FIELD_N_NODES + 6 * (size_t)(i_first ? pair.i : pair.j);
    const size_t second = FIELD_N_NODES + 6 * (size_t)(i_first ? pair.j : pair.i);
    int node[8];
    double by_node[8], by_pose[12];
    for (int k = 0; k < 4; k++) {
        node[2 * k] = s->from.node[k];
        by_node[2 * k] = s->by_from * s->from.weight[k];
        node[2 * k + 1] = s->to.node[k];
        by_node[2 * k + 1] = s->by_to * s->to.weight[k];
    }
    memcpy(by_pose, i_first ? s->by_i : s->by_j, 6 * sizeof *by_pose);
    memcpy(by_pose + 6, i_first ? s->by_j : s->by_i, 6 * sizeof *by_pose);
    normal_equations_add(system, node, by_node, 8, weight, s->r);
    for (int a = 0; a < 12; a++) {
        const size_t at = a < 6 ? first + (size_t)a : second + (size_t)a - 6;
        const double wa = weight * by_pose[a];
        double *h = system->h + at * (size_t)system->n;
        system->g[at] += wa * s->r;
        for (int k = 0; k < 8; k++)
            h[node[k]] += wa * by_node[k];
        for (int k = 0; k < 6 && k <= a; k++)
            h[first + (size_t)k] += wa * by_pose[k];
        for (int k = 6; k <= a; k++)
            h[second + (size_t)k - 6] += wa * by_pose[k];
    }
}

// Adds all samples of a pair. Returns the sum of winsorised |r| and their number.
static void add_pair(const struct calibrate *c, const struct depth_error *field,
                     struct calibrate_pair pair, double scale, struct normal_equations *system,
                     double *sum_abs, double *n_samples)
{
    const struct calibrate_frame *i = &c->frames[pair.i], *j = &c->frames[pair.j];
    const double weight = calibrate_worth(&c->eye, STRIDE_PX) / (scale * scale);
    const struct calibrate_side from = {&c->eye, field, i->map}, to = {&c->eye, field, j->map};
    struct se3 T_j_i = se3_between(&j->T, &i->T);
    for (int y = STRIDE_PX / 2; y < c->eye.level.height_px; y += STRIDE_PX)
        for (int x = STRIDE_PX / 2; x < c->eye.level.width_px; x += STRIDE_PX) {
            struct calibrate_sample s;
            if (!calibrate_sample(&from, &to, &T_j_i, x, y, &s))
                continue;
            *sum_abs += fmin(fabs(s.r), 3 * scale);
            *n_samples += 1;
            double w = weight * calibrate_weight(s.r, scale);
            if (!(w > 0))
                continue;
            add_sample(system, pair, &s, w);
        }
}

// One Gauss-Newton step of field and poses; *scale is the robust one for this and the next.
static int step(struct calibrate *c, const struct calibrate_pair *pairs, uint32_t n_pairs,
                struct normal_equations *system, struct depth_error *field, double *scale)
{
    const size_t n = (size_t)system->n;
    double sum_abs = 0, n_samples = 0;
    memset(system->h, 0, n * n * sizeof *system->h);
    memset(system->g, 0, n * sizeof *system->g);
    for (uint32_t k = 0; k < n_pairs; k++) {
        yield_now(&c->yield);
        add_pair(c, field, pairs[k], *scale, system, &sum_abs, &n_samples);
    }
    calibrate_add_prior(system, 0, field, &usual);
    for (uint32_t i = 0; i < c->n_frames; i++) {
        // The first of a group stands for the world; the others are held by next to nothing.
        bool first = i == 0 || c->frames[i - 1].group != c->frames[i].group;
        for (int k = 0; k < 6; k++) {
            size_t at = FIELD_N_NODES + 6 * i + (size_t)k;
            system->h[at * n + at] += first ? 1e18 : 1 / (POSE_STD * POSE_STD);
        }
    }
    if (!normal_equations_factor(system) || !(n_samples > 0))
        return -ENODATA;
    normal_equations_solve(system, system->g);
    for (int i = 0; i < FIELD_N_NODES; i++)
        field->node_per_m[i] -= (float)system->g[i];
    for (uint32_t i = 0; i < c->n_frames; i++) {
        double twist[6];
        for (int k = 0; k < 6; k++)
            twist[k] = -system->g[FIELD_N_NODES + 6 * i + (size_t)k];
        struct se3 turn = se3_exp(twist), T = se3_compose(&c->frames[i].T, &turn);
        c->frames[i].T = se3_normalized(&T);
    }
    *scale = fmax(1.2533141 * sum_abs / n_samples, 1e-5);
    return 0;
}

// The residual of one pair after its own pose has been refined: sum of r^2, each at most cap^2.
static void judge_pair(const struct calibrate *c, const struct depth_error *field,
                       struct calibrate_pair pair, double cap, double *sum2, double *n_samples)
{
    const struct calibrate_frame *i = &c->frames[pair.i], *j = &c->frames[pair.j];
    const struct calibrate_side from = {&c->eye, field, i->map}, to = {&c->eye, field, j->map};
    struct se3 T_j_i = se3_between(&j->T, &i->T);
    double scale = cap, h[36], g[6];
    for (int t = 0; t <= POSE_STEPS; t++) {
        struct normal_equations system = {6, h, g, NULL};
        double sum_abs = 0, n = 0, capped2 = 0;
        memset(h, 0, sizeof h);
        memset(g, 0, sizeof g);
        for (int y = STRIDE_PX / 2; y < c->eye.level.height_px; y += STRIDE_PX)
            for (int x = STRIDE_PX / 2; x < c->eye.level.width_px; x += STRIDE_PX) {
                static const int index[6] = {0, 1, 2, 3, 4, 5};
                struct calibrate_sample s;
                if (!calibrate_sample(&from, &to, &T_j_i, x, y, &s))
                    continue;
                sum_abs += fmin(fabs(s.r), 3 * scale);
                capped2 += fmin(s.r * s.r, cap * cap);
                n++;
                normal_equations_add(&system, index, s.by_i, 6, calibrate_weight(s.r, scale), s.r);
            }
        if (t == POSE_STEPS) {
            *sum2 += capped2;
            *n_samples += n;
            return;
        }
        for (int k = 0; k < 6; k++)
            h[7 * k] += 1e-9;
        if (!(n > 0) || !normal_equations_factor(&system))
            return;
        normal_equations_solve(&system, g);
        for (int k = 0; k < 6; k++)
            g[k] = -g[k];
        struct se3 turn = se3_exp(g);
        T_j_i = se3_compose(&T_j_i, &turn);
        scale = fmax(1.2533141 * sum_abs / n, 1e-5);
    }
}

static double judge_pairs(const struct calibrate *c, const struct depth_error *field,
                          const struct calibrate_pair *pairs, uint32_t n_pairs)
{
    double sum2 = 0, n = 0;
    for (uint32_t k = 0; k < n_pairs; k++) {
        yield_now(&c->yield);
        judge_pair(c, field, pairs[k], CALIBRATE_GATE_PER_M / 2, &sum2, &n);
    }
    return n > 0 ? sqrt(sum2 / n) : 0;
}

static void judge_both(const struct calibrate *c, const struct depth_error *field,
                       const struct calibrate_pair *pairs, uint32_t n_pairs,
                       struct calibrate_report *report)
{
    report->n_pairs_aside = n_pairs;
    report->before_per_m = judge_pairs(c, NULL, pairs, n_pairs);
    report->after_per_m = judge_pairs(c, field, pairs, n_pairs);
    report->reduction =
        report->before_per_m > 0 ? 1 - report->after_per_m / report->before_per_m : 0;
    report->rms_per_m = depth_error_rms_per_m(field);
}

static int too_few(const struct calibrate *c)
{
    uint32_t n_left_out = 0, most = TRACK_REASON_NONE;
    for (uint32_t i = 0; i <= TRACK_REASON_DEVICE; i++) {
        n_left_out += c->n_left_out[i];
        most = c->n_left_out[i] > c->n_left_out[most] ? i : most;
    }
    if (c->n_frames + n_left_out < c->min_frames)
        log_to(&c->log, LOG_LEVEL_ERROR,
               "%u frames that could be tracked, %u are needed: record 10 s or more", c->n_frames,
               c->min_frames);
    else
        log_to(&c->log, LOG_LEVEL_ERROR,
               "%u frames that could be tracked, %u are needed; %u could not (most: %s): "
               "record things at several distances, not a wall alone, and move slowly",
               c->n_frames, c->min_frames, n_left_out, track_reason_text((enum track_reason)most));
    return -ENODATA;
}

// How long, how many.
static int check_frames(const struct calibrate *c, struct calibrate_report *report)
{
    *report = (struct calibrate_report){.n_frames = c->n_frames};
    for (uint32_t i = 1; i < c->n_frames; i++)
        if (c->frames[i].group == c->frames[i - 1].group)
            report->seconds += (double)(c->frames[i].time_ns - c->frames[i - 1].time_ns) * 1e-9;
    if (c->n_frames < c->min_frames)
        return too_few(c);
    if (report->seconds < CALIBRATE_MIN_S) {
        log_to(&c->log, LOG_LEVEL_ERROR,
               "the recordings cover %.1f s, %.0f s are needed: what a camera sees within a moment "
               "says little",
               report->seconds, CALIBRATE_MIN_S);
        return -ENODATA;
    }
    return 0;
}

static int too_still(const struct calibrate *c, uint32_t n, uint32_t wanted)
{
    log_to(
        &c->log, LOG_LEVEL_ERROR,
        "%u pairs of frames see the same surface %.0f px apart, %u are needed: turn and move the "
        "camera so that things cross the whole image",
        n, CALIBRATE_FLOW_PX, wanted);
    return -ENODATA;
}

// Standard deviations of the nodes from the factored system of the last step.
static int doubts(const struct normal_equations *system, struct calibrate_report *report)
{
    double *x = malloc((size_t)system->n * sizeof *x);
    if (!x)
        return -ENOMEM;
    uint32_t n_unseen = 0;
    for (int i = 0; i < FIELD_N_NODES; i++) {
        memset(x, 0, (size_t)system->n * sizeof *x);
        x[i] = 1;
        normal_equations_solve(system, x);
        double std = sqrt(x[i]);
        report->std_per_m += std / FIELD_N_NODES;
        n_unseen += std > UNSEEN_STD * usual.bend_per_m;
    }
    report->unseen = (double)n_unseen / FIELD_N_NODES;
    free(x);
    return 0;
}

int calibrate_solve(struct calibrate *c, struct depth_error *out,
                    struct calibrate_report *out_report)
{
    int status = check_frames(c, out_report);
    if (status < 0)
        return status;
    memset(out, 0, sizeof *out);
    out->camera = c->eye.camera;
    out->n_frames = c->n_frames;
    const size_t n = FIELD_N_NODES + 6 * (size_t)c->n_frames;
    struct normal_equations system = {(int)n, malloc(n * n * sizeof *system.h),
                                      malloc(n * sizeof *system.g), &c->yield};
    struct calibrate_pair *pairs = malloc(MAX_PAIRS * sizeof *pairs),
                          *aside = malloc(MAX_ASIDE * sizeof *aside);
    double scale = 0.01;
    status = system.h && system.g && pairs && aside ? 0 : -ENOMEM;
    if (status < 0)
        goto free_all;
    uint32_t n_aside = calibrate_choose_pairs(c, CALIBRATE_ASIDE, MAX_ASIDE, aside);
    out_report->n_pairs = calibrate_choose_pairs(c, CALIBRATE_FIT, MAX_PAIRS, pairs);
    out_report->n_pairs_aside = n_aside;
    if (out_report->n_pairs < MIN_PAIRS || n_aside < MIN_ASIDE) {
        status = out_report->n_pairs < MIN_PAIRS ? too_still(c, out_report->n_pairs, MIN_PAIRS)
                                                 : too_still(c, n_aside, MIN_ASIDE);
        goto free_all;
    }
    for (int i = 0; i < STEPS && status == 0; i++)
        status = c->stop && atomic_load(c->stop)
                     ? -ECANCELED
                     : step(c, pairs, out_report->n_pairs, &system, out, &scale);
    if (status == 0)
        status = doubts(&system, out_report);
    if (status == 0)
        judge_both(c, out, aside, n_aside, out_report);
    out->reduction = out_report->reduction;
free_all:
    free(system.h);
    free(system.g);
    free(pairs);
    free(aside);
    return status;
}

int calibrate_judge(struct calibrate *c, const struct depth_error *field,
                    struct calibrate_report *out_report)
{
    int status = check_frames(c, out_report);
    if (status < 0)
        return status;
    struct calibrate_pair *pairs = malloc(MAX_ASIDE * sizeof *pairs);
    if (!pairs)
        return -ENOMEM;
    uint32_t n = calibrate_choose_pairs(c, CALIBRATE_ALL, MAX_ASIDE, pairs);
    if (n < MIN_ASIDE)
        status = too_still(c, n, MIN_ASIDE);
    else
        judge_both(c, field, pairs, n, out_report);
    free(pairs);
    return status;
}
