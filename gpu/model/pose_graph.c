// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/pose_graph.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/sparse.h"
#include "gpu/align/system.h"
#include "gpu/base/range.h"
#include "gpu/model/keyframe_eviction.h"
#include "gpu/model/pose_graph_private.h"
#include "gpu/track/depth_error.h"
#include "proto/se3.h"

_Static_assert(LINK_MAX == 16, "GRAPH_LINKS_RANGE");

#define CHAIN_LONG  16   // keyframes: the chain's errors add up as they are, not as variances do
#define BESIDE_LOOP 6    // keyframes, at both ends
#define LOOP_STRAIN 18.0 // of a loop's chain, a step: (three sigmas)^2 of two degrees of freedom
#define LOOP_CHI2   25.0 // of its link
#define STEPS_FAR   4    // pulled by what is far off, too: a loop's first link
#define STEPS       8
#define CHI2_LOOSE  12.6 // 95 % of 6 degrees of freedom: there a link has a quarter of its weight

void graph_settings_default(struct graph_settings *out)
{
    *out = (struct graph_settings){.max_keyframes = 96, .max_links = 5};
}

int graph_settings_check(const struct graph_settings *settings, const struct log_sink *log)
{
    const struct range ranges[] = {
        {"map.keyframes", settings->max_keyframes, GRAPH_KEYFRAMES_RANGE, false},
        {"links of a keyframe", settings->max_links, GRAPH_LINKS_RANGE, false},
    };
    return ranges_check(log, ranges, sizeof ranges / sizeof *ranges);
}

int graph_create(struct graph **out, const struct intrinsics *camera,
                 const struct graph_settings *settings, const struct log_sink *log)
{
    *out = NULL;
    if (graph_settings_check(settings, log) != 0)
        return -EINVAL;
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->settings = *settings;
    g->max_links = settings->max_links;
    g->camera = *camera;
    g->log = *log;
    const size_t n = settings->max_keyframes + 1;
    g->keyframes = calloc(n, sizeof *g->keyframes);
    g->arrival = calloc(n, sizeof *g->arrival);
    g->images = calloc(n, sizeof(struct align_image *));
    g->z_m = calloc(n, sizeof(float *));
    g->log_z = calloc(n, sizeof *g->log_z);
    g->fixed = calloc(n, sizeof *g->fixed);
    g->poses = calloc(n, sizeof *g->poses);
    g->before = calloc(n, sizeof *g->before);
    g->way = calloc(n, sizeof *g->way);
    g->reached = calloc(n, sizeof *g->reached);
    const size_t n_edges = n * (LINK_MAX + GRAPH_LOOP_LINKS + 2); // the chain, a tie
    g->max_edges = (uint32_t)n_edges;
    g->enough_edges = (uint32_t)n * (settings->max_links + 1 + GRAPH_LOOP_LINKS);
    g->edges = calloc(n_edges, sizeof *g->edges);
    g->pairs = calloc(n_edges, sizeof *g->pairs);
    g->weight = calloc(n_edges, sizeof *g->weight);
    g->sums = calloc(2 * n_edges * PAIR_N_SUMS, sizeof *g->sums);
    if (!g->keyframes || !g->arrival || !g->images || !g->z_m || !g->log_z || !g->fixed ||
        !g->poses || !g->before || !g->way || !g->reached || !g->edges || !g->pairs || !g->weight ||
        !g->sums || link_maker_create(&g->maker, log) != 0) {
        graph_destroy(&g);
        return -ENOMEM;
    }
    graph_clear(g);
    *out = g;
    return 0;
}

void graph_destroy(struct graph **graph)
{
    struct graph *g = *graph;
    if (!g)
        return;
    if (g->images && g->z_m)
        graph_clear(g);
    link_maker_destroy(&g->maker);
    free(g->keyframes);
    free(g->arrival);
    free(g->images);
    free(g->body);
    free(g->z_m);
    free(g->log_z);
    free(g->field_per_m);
    between_frames_free(&g->between);
    free(g->fixed);
    free(g->poses);
    free(g->before);
    free(g->way);
    free(g->reached);
    free(g->edges);
    free(g->pairs);
    free(g->weight);
    free(g->sums);
    free(g);
    *graph = NULL;
}

void graph_clear(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->n; i++) {
        align_image_destroy(&graph->images[i]);
        free(graph->z_m[i]);
    }
    graph->n = graph->n_edges = graph->n_ever = 0;
    graph->pending.at = UINT32_MAX;
    graph->find.i = UINT32_MAX;
    graph->T_map_odom = se3_identity();
}

// A link's residual: the twist that two poses lack to it, in j's frame.
static void lack_of(const struct se3 *T_i, const struct se3 *T_j, const struct edge *e,
                    double out[6])
{
    struct se3 T_j_i = se3_between(T_j, T_i), back = se3_inverse(&T_j_i);
    struct se3 lack = se3_compose(&e->link.T_j_i, &back);
    se3_log(&lack, out);
}

// The same of the poses that are being adjusted.
static void residual_of(const struct graph *g, const struct edge *e, double out[6])
{
    lack_of(&g->poses[e->i], &g->poses[e->j], e, out);
}

static double chi2_of(const double h[36], const double x[6])
{
    double sum = 0;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            sum += x[i] * h[6 * i + j] * x[j];
    return sum;
}

// A loop's link counts as many times as it spans keyframes: that was judged when it came. One
// beside it once the loop and the others have drawn the poses to where it agrees: a wrong one would
// draw them to itself, and agree then.
static bool is_worth_span(const struct edge *e, int step)
{
    return e->loop || (e->beside_loop && step >= STEPS_FAR);
}

// Gauss-Newton over all poses but the first. Returns 0, -EDOM or -ENOMEM.
static int adjust_steps(struct graph *g, struct align_system *system, struct sparse *sparse)
{
    int rc = 0;
    for (int step = 0; step < STEPS && rc == 0; step++) {
        yield_now(&g->yield);
        for (uint32_t k = 0; k < g->n_edges; k++) {
            struct edge *e = &g->edges[k];
            double x[6], *sums = g->sums + 2 * (size_t)k * PAIR_N_SUMS;
            residual_of(g, e, x);
            double chi2 = chi2_of(e->link.information, x), loose = CHI2_LOOSE / (CHI2_LOOSE + chi2);
            if (step == STEPS_FAR && chi2 > CHI2_LOOSE)
                e->beside_loop = false;
            double longer =
                is_worth_span(e, step) ? e->span : fmax(1, (double)e->span / CHAIN_LONG);
            double pull = e->loop ? 1 : fmin(1, sqrt(CHI2_LOOSE / chi2));
            g->weight[k] = e->chain ? 1 : step < STEPS_FAR ? longer * pull : longer * loose * loose;
            for (int i = 0, at = 0; i < 6; i++) {
                double sum = 0;
                for (int j = i; j < 6; j++)
                    sums[PAIR_SUM_H + at++] = e->link.information[6 * i + j];
                for (int j = 0; j < 6; j++)
                    sum += e->link.information[6 * i + j] * x[j];
                sums[PAIR_SUM_G + i] = -sum;
            }
        }
        align_system_fill(system, g->pairs, g->sums, g->weight, g->poses, g->fixed);
        rc = sparse_factor(sparse, system->diagonal, system->beside);
        if (rc == 0)
            sparse_solve(sparse, system->gradient, 1);
        for (uint32_t i = 1; i < g->n && rc == 0; i++) {
            double twist[6];
            for (int k = 0; k < 6; k++)
                twist[k] = -system->gradient[6 * (size_t)i + (size_t)k];
            struct se3 turn = se3_exp(twist), T = se3_compose(&g->poses[i], &turn);
            g->poses[i] = se3_normalized(&T);
        }
    }
    return rc;
}

static bool is_near_in_time(const struct graph *g, uint32_t a, uint32_t b)
{
    const uint32_t apart = g->arrival[a] > g->arrival[b] ? g->arrival[a] - g->arrival[b]
                                                         : g->arrival[b] - g->arrival[a];
    return apart <= BESIDE_LOOP && (!g->body || g->body[a].camera == g->body[b].camera);
}

// A link beside a loop's spans the same way, over which the tracker's errors have added up as they
// are: it weighs as much for each thing that it knows. So where the camera has come back holds the
// link with the least motion between its views, not the two far ones that closed the loop.
static void mark_beside_loops(struct graph *g)
{
    for (uint32_t k = 0; k < g->n_edges; k++)
        g->edges[k].beside_loop = false;
    for (uint32_t l = 0; l < g->n_edges; l++) {
        const struct edge *loop = &g->edges[l];
        for (uint32_t k = 0; k < g->n_edges && loop->loop; k++) {
            struct edge *e = &g->edges[k];
            if (edge_is_measured(e) && is_near_in_time(g, e->i, loop->i) &&
                is_near_in_time(g, e->j, loop->j))
                e->beside_loop = true;
        }
    }
}

static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->i != y->i)
        return x->i < y->i ? -1 : 1;
    return (x->j > y->j) - (x->j < y->j);
}

int graph_adjust(struct graph *g)
{
    struct align_system system = {0};
    struct sparse *sparse = NULL;
    qsort(g->edges, g->n_edges, sizeof *g->edges, compare_edges);
    mark_beside_loops(g);
    for (uint32_t k = 0; k < g->n_edges; k++)
        g->pairs[k] = (struct align_pair){g->edges[k].i, g->edges[k].j, 1, 0};
    for (uint32_t i = 0; i < g->n; i++)
        g->poses[i] = g->keyframes[i].T_map_camera;
    memset(g->fixed, 0, g->n * sizeof *g->fixed);
    g->fixed[0] = true;
    int rc = align_system_create(&system, g->n, g->n_edges);
    if (rc == 0)
        rc = sparse_create(&sparse, g->n, g->pairs, g->n_edges);
    if (rc == 0)
        rc = adjust_steps(g, &system, sparse);
    sparse_destroy(&sparse);
    align_system_free(&system);
    for (uint32_t i = 0; i < g->n && rc == 0; i++)
        g->keyframes[i].T_map_camera = g->poses[i];
    return rc;
}

bool graph_agrees(const struct graph *g, const struct edge *e)
{
    double x[6];
    lack_of(&g->keyframes[e->i].T_map_camera, &g->keyframes[e->j].T_map_camera, e, x);
    return chi2_of(e->link.information, x) <= CHI2_LOOSE;
}

struct fit {
    double chi2, news;
};

static int compare_fits(const void *a, const void *b)
{
    const struct fit *x = a, *y = b;
    return (x->chi2 > y->chi2) - (x->chi2 < y->chi2);
}

int graph_usual_chi2(const struct graph *g, double least, double *out)
{
    struct fit *fits = malloc((g->n_edges + 1) * sizeof *fits);
    double sum = 0, below = 0, x[6];
    uint32_t n = 0, at = 0;
    *out = 0;
    if (!fits)
        return -ENOMEM;
    for (uint32_t k = 0; k < g->n_edges; k++) {
        const struct edge *e = &g->edges[k];
        if (!edge_is_measured(e) || !(e->news > 0))
            continue;
        lack_of(&g->keyframes[e->i].T_map_camera, &g->keyframes[e->j].T_map_camera, e, x);
        fits[n++] = (struct fit){chi2_of(e->link.information, x) / e->news, e->news};
        sum += e->news;
    }
    qsort(fits, n, sizeof *fits, compare_fits);
    while (at < n && below + fits[at].news < sum / 2)
        below += fits[at++].news;
    if (n > 0 && sum >= least)
        *out = fits[at].chi2;
    free(fits);
    return 0;
}

// The chain's chi2, a step in the mean, between the ends of a loop, each step as well known as the
// tracker's own, also where it was measured.
static double strain(struct graph *g, uint32_t i, uint32_t j)
{
    double sum = 0, x[6];
    for (uint32_t k = 0; k < g->n_edges; k++) {
        const struct edge *e = &g->edges[k];
        if (!e->chain || e->lost || e->i < i || e->j > j)
            continue;
        struct link usual;
        link_chain(&usual, &e->link.T_j_i, graph_way(g, e), 1);
        residual_of(g, e, x);
        sum += chi2_of(usual.information, x);
    }
    return sum / fmax(1, (double)j - i);
}

// Whether what a camera was found by over a loss on a loop's way held before, and no longer: that
// gives way, where a chain would be strained.
static bool tears_find(const struct graph *g, const struct edge *loop)
{
    for (uint32_t k = 0; k < g->n_edges; k++) {
        const struct edge *e = &g->edges[k];
        double was[6], x[6];
        if (!e->find || !edge_is_measured(e) || e->j <= loop->i || e->j > loop->j)
            continue;
        lack_of(&g->before[e->i], &g->before[e->j], e, was);
        residual_of(g, e, x);
        if (chi2_of(e->link.information, was) <= LOOP_CHI2 &&
            chi2_of(e->link.information, x) > LOOP_CHI2)
            return true;
    }
    return false;
}

// Adjusts. A loop that bends the chain more than the tracker errs, that tears a find, or that the
// others do not let close, is a wrong one: it is taken out, and the poses are as they were. So is
// one that could not be judged.
static int adjust_and_judge(struct graph *g)
{
    uint32_t n = 0;
    bool wrong = false;
    for (uint32_t i = 0; i < g->n; i++)
        g->before[i] = g->keyframes[i].T_map_camera;
    int rc = graph_adjust(g);
    for (uint32_t k = 0; k < g->n_edges; k++) {
        struct edge *e = &g->edges[k];
        double x[6];
        if (!e->fresh)
            continue;
        residual_of(g, e, x);
        wrong = wrong || rc < 0 || strain(g, e->i, e->j) > LOOP_STRAIN || tears_find(g, e) ||
                chi2_of(e->link.information, x) > LOOP_CHI2;
    }
    for (uint32_t k = 0; k < g->n_edges; k++)
        if (!g->edges[k].fresh || !wrong) {
            g->edges[n] = g->edges[k];
            g->edges[n++].fresh = false;
        }
    g->n_edges = n;
    for (uint32_t i = 0; i < g->n && wrong; i++)
        g->keyframes[i].T_map_camera = g->before[i];
    return wrong && rc != -ENOMEM ? graph_adjust(g) : rc;
}

struct se3 graph_keyframe_T_map_odom(const struct graph_keyframe *keyframe)
{
    const struct se3 back = se3_inverse(&keyframe->T_odom_camera);
    const struct se3 T = se3_compose(&keyframe->T_map_camera, &back);
    return se3_normalized(&T);
}

void graph_set_T_map_odom(struct graph *g)
{
    g->T_map_odom = graph_keyframe_T_map_odom(&g->keyframes[g->n - 1]);
}

struct edge *graph_find_edge(const struct graph *g, uint32_t n_edges, uint32_t i, uint32_t j)
{
    for (uint32_t k = 0; k < n_edges; k++)
        if (g->edges[k].i == i && g->edges[k].j == j)
            return &g->edges[k];
    return NULL;
}

int graph_make_image(const struct graph *g, const float *z_m, struct align_image **out)
{
    const size_t n_px = (size_t)g->camera.width_px * g->camera.height_px;
    yield_now(&g->yield);
    if (!g->field_per_m)
        return link_image(out, z_m, &g->camera);
    float *mended_m = malloc(n_px * sizeof *mended_m);
    if (!mended_m)
        return -ENOMEM;
    for (size_t i = 0; i < n_px; i++)
        mended_m[i] = depth_error_mended_m(z_m[i], g->field_per_m[i]);
    int rc = link_image(out, mended_m, &g->camera);
    free(mended_m);
    return rc;
}

int graph_make_images(struct graph *g)
{
    int rc = 0;
    for (uint32_t i = 0; i < g->n && rc == 0; i++)
        if (!g->images[i])
            rc = graph_make_image(g, g->z_m[i], &g->images[i]);
    return rc == -EINVAL ? -ENOMEM : rc; // each was made once
}

int graph_set_field(struct graph *g, const float *per_m)
{
    const size_t n_px = (size_t)g->camera.width_px * g->camera.height_px;
    if (!g->field_per_m)
        g->field_per_m = malloc(n_px * sizeof *g->field_per_m);
    if (!g->field_per_m)
        return -ENOMEM;
    memcpy(g->field_per_m, per_m, n_px * sizeof *per_m);
    for (uint32_t i = 0; i < g->n; i++) {
        struct align_image *image;
        int rc = graph_make_image(g, g->z_m[i], &image);
        if (rc == -EINVAL)
            continue; // it stays as it was
        if (rc < 0)
            return rc;
        align_image_destroy(&g->images[i]);
        g->images[i] = image;
    }
    return 0;
}

static int not_kept(const struct graph *g, uint64_t seq, int error)
{
    log_to(&g->log, LOG_LEVEL_WARNING, "the keyframe of frame %llu is not kept: %s",
           (unsigned long long)seq, strerror(-error));
    return error;
}

int graph_add(struct graph *g, uint64_t seq, int64_t time_ns, const float *z_m,
              const struct se3 *T_odom_camera)
{
    const size_t n_bytes = (size_t)g->camera.width_px * g->camera.height_px * sizeof *z_m;
    struct align_image *image;
    int rc = graph_make_image(g, z_m, &image);
    if (rc == -EINVAL)
        return 0; // too little depth
    if (rc < 0)
        return not_kept(g, seq, rc);
    float *kept_m = malloc(n_bytes);
    if (!kept_m) {
        align_image_destroy(&image);
        return not_kept(g, seq, -ENOMEM);
    }
    memcpy(kept_m, z_m, n_bytes);
    if (g->n == g->settings.max_keyframes)
        graph_make_room(g);
    const uint32_t newest = g->n++;
    struct se3 T = se3_compose(&g->T_map_odom, T_odom_camera);
    g->images[newest] = image;
    g->z_m[newest] = kept_m;
    depth_cells_of(z_m, 1, g->camera.width_px, g->camera.height_px, g->log_z[newest]);
    g->arrival[newest] = g->n_ever++;
    g->keyframes[newest] = (struct graph_keyframe){.seq = seq,
                                                   .time_ns = time_ns,
                                                   .T_odom_camera = *T_odom_camera,
                                                   .T_map_camera = T,
                                                   .is_found = g->find.i != UINT32_MAX,
                                                   .found_ns = g->found_ns};
    if (newest == 0)
        return 0;
    const struct graph_keyframe *last = &g->keyframes[newest - 1];
    const struct se3 step = se3_between(&last->T_odom_camera, T_odom_camera);
    g->keyframes[newest].walked = last->walked + link_motion(&step);
    rc = graph_link_newest(g);
    g->find.i = UINT32_MAX;
    if (rc < 0)
        return rc; // nothing more can be added
    rc = adjust_and_judge(g);
    if (rc == 0)
        graph_set_T_map_odom(g);
    return rc == -EDOM ? 0 : rc; // the poses stay as they were
}

uint32_t graph_keyframes(const struct graph *graph, const struct graph_keyframe **out)
{
    *out = graph->keyframes;
    return graph->n;
}

struct se3 graph_T_map_odom(const struct graph *graph)
{
    return graph->T_map_odom;
}
