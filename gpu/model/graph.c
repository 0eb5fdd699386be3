// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/graph.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/sparse.h"
#include "gpu/align/system.h"
#include "gpu/model/link.h"
#include "proto/se3.h"

#define DOUBT_SHARE 0.06
#define DOUBT_MAX_M 0.6
#define CHAIN_LONG  16 // keyframes: the chain's errors add up as they are, not as variances do
#define STEPS_FAR   4  // pulled by what is far off, too: a loop's first link
#define STEPS       8
#define CHI2_LOOSE  12.6 // 95 % of 6 degrees of freedom: there a link has a quarter of its weight

struct edge {
    uint32_t i, j; // i < j
    struct link link;
    bool chain; // of a keyframe to the one before it: never doubted
};

struct graph {
    struct graph_settings settings;
    struct intrinsics camera;
    struct log_sink log;
    struct link_maker *maker;
    uint32_t n;
    struct graph_keyframe *keyframes;
    struct align_image **images;
    uint32_t n_edges;
    struct edge *edges;
    // Of an adjustment.
    struct align_pair *pairs;
    double *sums, *weight;
    bool *fixed;
    struct se3 *poses;
    struct se3 T_map_odom;
};

void graph_settings_default(struct graph_settings *out)
{
    *out = (struct graph_settings){.max_keyframes = 96, .max_links = 5};
}

int graph_create(struct graph **out, const struct intrinsics *camera,
                 const struct graph_settings *settings, const struct log_sink *log)
{
    *out = NULL;
    if (settings->max_keyframes < 4 || settings->max_keyframes > 1024 || settings->max_links < 1 ||
        settings->max_links > LINK_MAX) {
        log_to(log, LOG_LEVEL_ERROR, "keyframes of the map: 4 .. 1024, links of one: 1 .. %d",
               LINK_MAX);
        return -EINVAL;
    }
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        return -ENOMEM;
    g->settings = *settings;
    g->camera = *camera;
    g->log = *log;
    const size_t n = settings->max_keyframes + 1;
    g->keyframes = calloc(n, sizeof *g->keyframes);
    g->images = calloc(n, sizeof(struct align_image *));
    g->fixed = calloc(n, sizeof *g->fixed);
    g->poses = calloc(n, sizeof *g->poses);
    const size_t n_edges = (size_t)settings->max_keyframes * (settings->max_links + 1) + 1;
    g->edges = calloc(n_edges, sizeof *g->edges);
    g->pairs = calloc(n_edges, sizeof *g->pairs);
    g->weight = calloc(n_edges, sizeof *g->weight);
    g->sums = calloc(2 * n_edges * PAIR_N_SUMS, sizeof *g->sums);
    if (!g->keyframes || !g->images || !g->fixed || !g->poses || !g->edges || !g->pairs ||
        !g->weight || !g->sums || link_maker_create(&g->maker, log) != 0) {
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
    if (g->images)
        graph_clear(g);
    link_maker_destroy(&g->maker);
    free(g->keyframes);
    free(g->images);
    free(g->fixed);
    free(g->poses);
    free(g->edges);
    free(g->pairs);
    free(g->weight);
    free(g->sums);
    free(g);
    *graph = NULL;
}

void graph_clear(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->n; i++)
        align_image_destroy(&graph->images[i]);
    graph->n = graph->n_edges = 0;
    graph->T_map_odom = se3_identity();
}

// The link's residual: the twist that the poses lack to it, in j's frame.
static void residual_of(const struct graph *g, const struct edge *e, double out[6])
{
    struct se3 T_j_i = se3_between(&g->poses[e->j], &g->poses[e->i]), back = se3_inverse(&T_j_i);
    struct se3 lack = se3_compose(&e->link.T_j_i, &back);
    se3_log(&lack, out);
}

static double chi2_of(const double h[36], const double x[6])
{
    double sum = 0;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            sum += x[i] * h[6 * i + j] * x[j];
    return sum;
}

// Gauss-Newton over all poses but the first. Returns 0, -EDOM or -ENOMEM.
static int adjust_steps(struct graph *g, struct align_system *system, struct sparse *sparse)
{
    int rc = 0;
    for (int step = 0; step < STEPS && rc == 0; step++) {
        for (uint32_t k = 0; k < g->n_edges; k++) {
            const struct edge *e = &g->edges[k];
            double x[6], *sums = g->sums + 2 * (size_t)k * PAIR_N_SUMS;
            residual_of(g, e, x);
            double chi2 = chi2_of(e->link.information, x), loose = CHI2_LOOSE / (CHI2_LOOSE + chi2);
            double longer = fmax(1, (double)(e->j - e->i) / CHAIN_LONG);
            g->weight[k] = e->chain           ? 1
                           : step < STEPS_FAR ? longer * fmin(1, sqrt(CHI2_LOOSE / chi2))
                                              : longer * loose * loose;
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

static int compare_edges(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->i != y->i)
        return x->i < y->i ? -1 : 1;
    return (x->j > y->j) - (x->j < y->j);
}

static int adjust(struct graph *g)
{
    struct align_system system = {0};
    struct sparse *sparse = NULL;
    qsort(g->edges, g->n_edges, sizeof *g->edges, compare_edges);
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

static void set_T_map_odom(struct graph *g)
{
    const struct graph_keyframe *k = &g->keyframes[g->n - 1];
    struct se3 back = se3_inverse(&k->T_odom_camera);
    struct se3 T = se3_compose(&k->T_map_camera, &back);
    g->T_map_odom = se3_normalized(&T);
}

// How far the tracker may have drifted between two keyframes [m]: a share of the way and of the
// turns at a room's distance, as the unkind synthetic sensor drifts.
static double doubt_m(const struct graph *g, uint32_t i, uint32_t j)
{
    double motion = 0;
    for (uint32_t k = i; k < j; k++) {
        struct se3 T =
            se3_between(&g->keyframes[k].T_odom_camera, &g->keyframes[k + 1].T_odom_camera);
        motion += link_motion(&T);
    }
    return fmin(DOUBT_MAX_M, DOUBT_SHARE * motion);
}

// The keyframes to link the newest one to: of each age the one that stands nearest to it, of those
// that see enough of the same surface.
static uint32_t choose(const struct graph *g, uint32_t newest, uint32_t *out)
{
    uint32_t n = 0, n_older = newest - 1, n_ages = g->settings.max_links;
    for (uint32_t age = 0; age < n_ages; age++) {
        uint32_t begin = n_older * age / n_ages, end = n_older * (age + 1) / n_ages;
        double nearest = INFINITY;
        uint32_t at = UINT32_MAX;
        for (uint32_t i = begin; i < end; i++) {
            struct se3 T_i_new =
                se3_between(&g->keyframes[i].T_map_camera, &g->keyframes[newest].T_map_camera);
            double motion = link_motion(&T_i_new);
            if (motion < nearest && link_overlap(g->images[newest], g->images[i], &T_i_new,
                                                 doubt_m(g, i, newest)) > LINK_MIN_OVERLAP) {
                nearest = motion;
                at = i;
            }
        }
        if (at != UINT32_MAX)
            out[n++] = at;
    }
    return n;
}

static void chain(struct graph *g, uint32_t i, uint32_t j)
{
    struct edge *e = &g->edges[g->n_edges++];
    *e = (struct edge){.i = i, .j = j, .chain = true};
    struct se3 T_j_i = se3_between(&g->keyframes[j].T_odom_camera, &g->keyframes[i].T_odom_camera);
    link_chain(&e->link, &T_j_i);
}

static int link_newest(struct graph *g)
{
    const uint32_t newest = g->n - 1;
    uint32_t with[LINK_MAX];
    struct link links[LINK_MAX];
    const struct align_image *images[LINK_MAX];
    uint32_t n = choose(g, newest, with);
    for (uint32_t k = 0; k < n; k++) {
        images[k] = g->images[with[k]];
        links[k].doubt_m = doubt_m(g, with[k], newest);
        links[k].T_j_i =
            se3_between(&g->keyframes[newest].T_map_camera, &g->keyframes[with[k]].T_map_camera);
    }
    int rc = n > 0 ? link_measure(g->maker, g->images[newest], images, n, links) : 0;
    if (rc < 0)
        return rc;
    chain(g, newest - 1, newest);
    for (uint32_t k = 0; k < n; k++)
        if (links[k].good) {
            g->edges[g->n_edges++] =
                (struct edge){.i = with[k], .j = newest, .link = links[k], .chain = false};
            g->keyframes[newest].n_links++;
        }
    return 0;
}

// The keyframe that is missed least: the one whose neighbours in time stand nearest to each other.
// The first and the newest half stay.
static uint32_t least_missed(const struct graph *g)
{
    uint32_t at = 1;
    double least = INFINITY;
    for (uint32_t i = 1; i < g->n / 2; i++) {
        struct se3 T =
            se3_between(&g->keyframes[i - 1].T_map_camera, &g->keyframes[i + 1].T_map_camera);
        if (link_motion(&T) < least) {
            least = link_motion(&T);
            at = i;
        }
    }
    return at;
}

// Takes a keyframe out; its neighbours are chained.
static void forget(struct graph *g, uint32_t at)
{
    uint32_t n = 0;
    align_image_destroy(&g->images[at]);
    for (uint32_t k = 0; k < g->n_edges; k++) {
        struct edge e = g->edges[k];
        if (e.i == at || e.j == at)
            continue;
        e.i -= e.i > at;
        e.j -= e.j > at;
        g->edges[n++] = e;
    }
    g->n_edges = n;
    g->n--;
    memmove(g->images + at, g->images + at + 1, (g->n - at) * sizeof *g->images);
    memmove(g->keyframes + at, g->keyframes + at + 1, (g->n - at) * sizeof *g->keyframes);
    g->images[g->n] = NULL;
    for (uint32_t k = 0; k < n; k++)
        if (g->edges[k].i == at - 1 && g->edges[k].j == at)
            return; // linked already, by what was seen
    chain(g, at - 1, at);
}

int graph_add(struct graph *g, uint64_t seq, int64_t time_ns, const float *z_m,
              const struct se3 *T_odom_camera)
{
    struct align_image *image;
    int rc = link_image(&image, z_m, &g->camera);
    if (rc == -EINVAL)
        return 0; // too little depth
    if (rc < 0)
        return rc;
    if (g->n == g->settings.max_keyframes)
        forget(g, least_missed(g));
    const uint32_t newest = g->n++;
    struct se3 T = se3_compose(&g->T_map_odom, T_odom_camera);
    g->images[newest] = image;
    g->keyframes[newest] = (struct graph_keyframe){seq, time_ns, *T_odom_camera, T, 0};
    if (newest == 0)
        return 0;
    rc = link_newest(g);
    if (rc < 0) {
        g->n--;
        align_image_destroy(&g->images[newest]);
        return rc;
    }
    rc = adjust(g);
    if (rc == 0)
        set_T_map_odom(g);
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
