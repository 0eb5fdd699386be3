// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/pose_graph_private.h"
#include "proto/se3.h"

// How far the newest keyframe may be off, seen from an older one: a share of the way to it
// [m + rad], as the unkind synthetic sensor drifts.
#define DOUBT_SHARE 0.06
#define LINK_WAY    0.02 // what a measured link adds to its motion
#define LOST_STD    100  // [m, rad], of a way that the camera was not followed on: it pulls nothing
#define NEAR_M      0.2  // of doubt: beyond, a link alone is not believed

// Old keyframes that may see what the newest sees: their views and the doubt together.
#define REACH_M      0.3
#define REACH_RAD    0.4
#define APART        3 // keyframes: neighbours of one that is tried say the same
#define CONFIRMED_IN 4 // keyframes
#define BESIDE       3 // keyframes apart: their links' residual is the usual one
#define RMS_FLOOR_M  0.001

// The shortest ways to the newest keyframe over the edges (Dijkstra).
static void set_ways(struct graph *g)
{
    const uint32_t newest = g->n - 1;
    for (uint32_t i = 0; i < g->n; i++) {
        g->way[i] = i == newest ? 0 : INFINITY;
        g->reached[i] = false;
    }
    for (uint32_t k = 0; k < g->n; k++) {
        uint32_t at = UINT32_MAX;
        for (uint32_t i = 0; i < g->n; i++)
            if (!g->reached[i] && (at == UINT32_MAX || g->way[i] < g->way[at]))
                at = i;
        g->reached[at] = true;
        for (uint32_t e = 0; e < g->n_edges; e++) {
            const struct edge *edge = &g->edges[e];
            if (edge->lost || (edge->i != at && edge->j != at))
                continue;
            uint32_t other = edge->i == at ? edge->j : edge->i;
            const double measured = LINK_WAY + link_motion(&edge->link.T_j_i);
            double way = g->way[at] + (edge->chain ? graph_way(g, edge) : measured);
            if (edge->find)
                way += edge->link.doubt_m / DOUBT_SHARE;
            g->way[other] = fmin(g->way[other], way);
        }
    }
}

static double doubt_m(const struct graph *g, uint32_t i)
{
    return DOUBT_SHARE * g->way[i];
}

static double motion_to_newest(const struct graph *g, uint32_t i, struct se3 *out_T_i_new)
{
    *out_T_i_new = se3_between(&g->keyframes[i].T_map_camera, &g->keyframes[g->n - 1].T_map_camera);
    return link_motion(out_T_i_new);
}

// The keyframes to link the newest one to: of each age the one that stands nearest to it, of those
// that are not in doubt, see enough of the same surface, and have not found its camera: those are
// linked already.
static uint32_t choose(const struct graph *g, uint32_t *out)
{
    const uint32_t newest = g->n - 1;
    uint32_t n = 0, n_older = newest - 1, n_ages = g->max_links;
    for (uint32_t age = 0; age < n_ages; age++) {
        uint32_t begin = n_older * age / n_ages, end = n_older * (age + 1) / n_ages;
        double nearest = INFINITY;
        uint32_t at = UINT32_MAX;
        for (uint32_t i = begin; i < end; i++) {
            struct se3 T_i_new;
            double motion = motion_to_newest(g, i, &T_i_new);
            if (motion < nearest && doubt_m(g, i) <= NEAR_M &&
                !graph_find_edge(g, g->n_edges, i, newest) &&
                link_overlap(g->images[newest], g->images[i], &T_i_new, doubt_m(g, i)) >
                    LINK_MIN_OVERLAP) {
                nearest = motion;
                at = i;
            }
        }
        if (at != UINT32_MAX)
            out[n++] = at;
    }
    return n;
}

static void add_edge(struct graph *g, uint32_t i, uint32_t j, const struct link *link, double news,
                     bool loop)
{
    const uint32_t span = g->arrival[j] - g->arrival[i];
    if (g->n_edges + 1 >= g->max_edges)
        return;
    g->edges[g->n_edges++] = (struct edge){
        .i = i, .j = j, .span = span, .link = *link, .news = news, .loop = loop, .fresh = loop};
    g->edges[g->n_edges - 1].link.doubt_m = 0; // it was measured
    g->keyframes[j].n_links++;
}

// What a link across time is worth beside the chain, of what it says. As long as the camera's own
// error is in the images, both err alike by it over the same motion, so that of a straight way a
// link tells nothing new; what else the chain errs by adds up over the rest of its way, as it is.
// Against motion capture links err by 26 mm and 22 mrad where the way was straight, the chain by 20
// and 17; where it went to and fro by 18 and 29, the chain by 51 and 90 (fr1_rpy).
static double news(const struct graph *g, uint32_t i, const struct link *link)
{
    const double walked = g->keyframes[g->n - 1].walked - g->keyframes[i].walked;
    const double detour = fmax(0, 1 - link_motion(&link->T_j_i) / walked);
    return graph_is_mended(g) ? 1 : detour * detour;
}

// Whether a link across time is worth having. What two images with the camera's own error share of
// the rims alone, where that is largest, says less than the chain: 30 to 53 mm off for 1 to 9.
static bool is_link(const struct graph *g, const struct link *link)
{
    return link->good && (graph_is_mended(g) || link->overlap > LINK_MIN_OVERLAP);
}

static int link_near(struct graph *g)
{
    const uint32_t newest = g->n - 1;
    uint32_t with[LINK_MAX];
    struct link links[LINK_MAX];
    const struct align_image *images[LINK_MAX];
    uint32_t n = choose(g, with);
    for (uint32_t k = 0; k < n; k++) {
        images[k] = g->images[with[k]];
        links[k].doubt_m = doubt_m(g, with[k]);
        links[k].T_j_i =
            se3_between(&g->keyframes[newest].T_map_camera, &g->keyframes[with[k]].T_map_camera);
    }
    int rc = n > 0 ? link_measure(g->maker, g->images[newest], images, n, links) : 0;
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        if (!is_link(g, &links[k]))
            continue;
        const double worth = news(g, with[k], &links[k]);
        for (int c = 0; c < 36; c++)
            links[k].information[c] *= worth;
        add_edge(g, with[k], newest, &links[k], worth, false);
    }
    return rc;
}

double graph_usual_rms_m(const struct graph *g)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n_edges; k++)
        if (edge_is_measured(&g->edges[k]) && g->edges[k].j - g->edges[k].i <= BESIDE) {
            sum += g->edges[k].link.rms_m;
            n++;
        }
    return n > 0 ? fmax(RMS_FLOOR_M, sum / n) : 0;
}

// Old keyframes in doubt that may see what the newest sees, nearest first, not beside each other.
static uint32_t reachable(const struct graph *g, struct revisit_place out[REVISIT_PLACES])
{
    const uint32_t newest = g->n - 1;
    uint32_t n = 0;
    for (double least = -1; n < REVISIT_PLACES;) {
        double nearest = INFINITY;
        uint32_t at = UINT32_MAX;
        for (uint32_t i = 0; i < newest; i++) {
            struct se3 T_i_new;
            double motion = motion_to_newest(g, i, &T_i_new), turn = se3_angle(&T_i_new);
            double doubt = doubt_m(g, i);
            if (motion <= least || motion >= nearest || doubt <= NEAR_M ||
                turn > REACH_RAD + doubt || motion - turn > REACH_M + doubt)
                continue;
            nearest = motion;
            at = i;
        }
        if (at == UINT32_MAX)
            return n;
        least = nearest;
        bool beside = false;
        for (uint32_t k = 0; k < n; k++)
            beside = beside || abs((int)out[k].at - (int)at) < APART;
        if (!beside)
            out[n++] = (struct revisit_place){g->images[at], at, g->keyframes[at].T_map_camera,
                                              doubt_m(g, at), doubt_m(g, at)};
    }
    return n;
}

// A revisit counts when two keyframes have found it and agree.
static int link_far(struct graph *g)
{
    const uint32_t newest = g->n - 1;
    struct revisit_place places[REVISIT_PLACES];
    struct revisit found;
    bool is_found;
    double rms_m = graph_usual_rms_m(g);
    if (g->pending.at != UINT32_MAX && newest - g->pending_newest > CONFIRMED_IN)
        g->pending.at = UINT32_MAX;
    uint32_t n = rms_m > 0 ? reachable(g, places) : 0;
    int rc = revisit_find(g->maker, g->images[newest], &g->keyframes[newest].T_map_camera, places,
                          n, rms_m, &found, &is_found);
    if (rc < 0 || !is_found)
        return rc;
    if (g->pending.at != UINT32_MAX) {
        struct se3 step = se3_between(&g->keyframes[g->pending_newest].T_odom_camera,
                                      &g->keyframes[newest].T_odom_camera);
        struct se3 expected = se3_compose(&g->pending.T_map_camera, &step);
        if (revisit_agree(&expected, &found.T_map_camera, link_motion(&step))) {
            add_edge(g, g->pending.at, g->pending_newest, &g->pending.link, 1, true);
            add_edge(g, found.at, newest, &found.link, 1, true);
            g->pending.at = UINT32_MAX;
            return 0;
        }
    }
    g->pending = found;
    g->pending_newest = newest;
    return 0;
}

// To the one before it: as the tracker went, or, where the camera's own error is known, which the
// tracker does not take out, as measured. A camera that was lost was not followed on the way, which
// holds the two together only where nothing else does: where the map has them.
static int link_chained(struct graph *g)
{
    const uint32_t i = g->n - 2, j = g->n - 1;
    struct edge *e = &g->edges[g->n_edges++];
    *e = (struct edge){.i = i, .j = j, .span = g->arrival[j] - g->arrival[i], .chain = true};
    const struct graph_keyframe *to = &g->keyframes[j], *from = &g->keyframes[i];
    struct link measured = {.T_j_i = se3_between(&to->T_map_camera, &from->T_map_camera)};
    if (to->is_found) {
        e->lost = true;
        e->link = (struct link){.T_j_i = measured.T_j_i, .good = true};
        for (int k = 0; k < 36; k += 7)
            e->link.information[k] = 1.0 / (LOST_STD * LOST_STD);
        return 0;
    }
    const struct se3 T_j_i = se3_between(&to->T_odom_camera, &from->T_odom_camera);
    e->link.T_j_i = T_j_i;
    link_chain(&e->link, &T_j_i, graph_way(g, e), e->span);
    if (!g->field_per_m)
        return 0;
    const struct align_image *image = g->images[i];
    int rc = link_measure(g->maker, g->images[j], &image, 1, &measured);
    if (rc == 0 && measured.good)
        e->link = measured;
    return rc;
}

int graph_link_newest(struct graph *g)
{
    int rc = link_chained(g);
    graph_link_found(g);
    set_ways(g);
    if (rc == 0)
        rc = link_near(g);
    return rc < 0 ? rc : link_far(g);
}

int graph_link_again(struct graph *g)
{
    int rc = link_chained(g);
    memset(g->way, 0, g->n * sizeof *g->way);
    g->keyframes[g->n - 1].n_links = 0;
    return rc < 0 ? rc : link_near(g);
}
