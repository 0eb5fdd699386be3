// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/pose_graph_join.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/pose_graph_private.h"
#include "proto/se3.h"

// By so much (m + rad), and of the way, a camera's odometry may differ from the body's.
#define JUMP       0.03
#define JUMP_SHARE 0.12
#define BESIDE     0.2 // m + rad; a keyframe comes after 0.16 at most

#define MIN_LINKS 10  // of a camera, all news, to tell how well it fits
#define MOST      4.0 // times the mean of all cameras, or a part of it, that its edges count

// A keyframe of a part.
struct member {
    int64_t time_ns; // the body's clock
    uint32_t part, at;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static struct member *order(const struct graph_part *parts, uint32_t n_parts, uint32_t n)
{
    struct member *members = malloc(n * sizeof *members);
    uint32_t k = 0;
    for (uint32_t part = 0; part < n_parts && members; part++)
        for (uint32_t i = 0; i < parts[part].graph->n; i++)
            members[k++] = (struct member){
                parts[part].graph->keyframes[i].time_ns - parts[part].ahead_ns, part, i};
    if (members)
        qsort(members, n, sizeof *members, compare_members);
    return members;
}

// Each keyframe where its camera has it, the camera's first one where the body's odometry has it.
// That goes on over a camera's find, so that none was found in it.
static void take_keyframe(struct graph *g, const struct graph_part *part, const struct member *m)
{
    const struct graph_keyframe *from = part->graph->keyframes;
    const struct se3 T_odom_first = se3_compose(&part->T_odom_body[0], &part->T_body_camera);
    const struct se3 T_first_k = se3_between(&from[0].T_map_camera, &from[m->at].T_map_camera);
    const uint32_t k = g->n++;
    g->keyframes[k] = (struct graph_keyframe){
        .seq = from[m->at].seq,
        .time_ns = m->time_ns,
        .T_odom_camera = se3_compose(&part->T_odom_body[m->at], &part->T_body_camera),
        .T_map_camera = se3_compose(&T_odom_first, &T_first_k),
        .n_links = from[m->at].n_links,
        .walked = from[m->at].walked};
    g->arrival[k] = part->graph->arrival[m->at];
    g->body[k] = (struct graph_mount){m->part, m->at, part->T_body_camera};
}

// From a camera's keyframe i to j as the body's odometry has it.
static struct se3 by_body(const struct graph_part *part, uint32_t i, uint32_t j)
{
    const struct se3 at_i = se3_compose(&part->T_odom_body[i], &part->T_body_camera);
    const struct se3 at_j = se3_compose(&part->T_odom_body[j], &part->T_body_camera);
    return se3_between(&at_j, &at_i);
}

// A chain over which the camera came elsewhere in its own odometry, farther than it drifts on the
// way that it walked, and nobody knows why: the body's takes its place. Not where the camera was
// found by a keyframe, as was measured: to chain it so would hold it where the body's odometry
// drifted to. Other cameras' ties tell of that way.
static void mend_chain(const struct graph_part *part, struct edge *e)
{
    const struct graph_keyframe *k = part->graph->keyframes;
    const struct se3 moved = se3_between(&part->T_odom_body[e->i], &part->T_odom_body[e->j]);
    const struct se3 T_j_i = by_body(part, e->i, e->j);
    const struct se3 own = se3_between(&k[e->j].T_odom_camera, &k[e->i].T_odom_camera);
    const struct se3 apart = se3_between(&T_j_i, &own);
    const double way = e->span > 1 ? graph_way(part->graph, e) : 0; // over keyframes that went
    if (link_motion(&apart) > JUMP + JUMP_SHARE * fmax(way, link_motion(&moved)))
        link_chain(&e->link, &T_j_i, way, e->span);
}

// A part's edges, worth `times` what they say; index: where its keyframes stand.
static void take_edges(struct graph *g, const struct graph_part *from, double times,
                       const uint32_t *index)
{
    const struct graph *part = from->graph;
    for (uint32_t k = 0; k < part->n_edges && g->n_edges + 1 < g->max_edges; k++) {
        struct edge e = part->edges[k];
        if (e.chain && !e.find && !e.lost)
            mend_chain(from, &e);
        e.i = index[e.i];
        e.j = index[e.j];
        for (int i = 0; i < 36; i++)
            e.link.information[i] *= times;
        g->edges[g->n_edges++] = e;
    }
}

// What each camera's edges are worth beside the others': how well its links usually fit, where it
// has its keyframes, is what it errs by in units of what is expected of any. A camera whose links
// tell nothing of it, as its own error is in them and in its chain alike, counts as any other.
// Returns 0 or -ENOMEM.
static int weigh(const struct graph_part *parts, uint32_t n_parts, double *out)
{
    double sum = 0;
    uint32_t n = 0;
    int rc = 0;
    for (uint32_t part = 0; part < n_parts && rc == 0; part++) {
        rc = graph_usual_chi2(parts[part].graph, MIN_LINKS, &out[part]);
        sum += rc == 0 ? out[part] : 0;
        n += rc == 0 && out[part] > 0;
    }
    for (uint32_t part = 0; part < n_parts && rc == 0; part++)
        out[part] = out[part] > 0 ? fmin(MOST, fmax(1 / MOST, sum / n / out[part])) : 1;
    return rc;
}

static struct se3 body_at(const struct graph *g, uint32_t k)
{
    const struct se3 T_camera_body = se3_inverse(&g->body[k].T_body_camera);
    return se3_compose(&g->keyframes[k].T_odom_camera, &T_camera_body);
}

// The way of the body between two keyframes, by its own odometry.
static double way(const struct graph *g, uint32_t i, uint32_t j)
{
    const struct se3 body_i = body_at(g, i), body_j = body_at(g, j);
    const struct se3 moved = se3_between(&body_i, &body_j);
    return link_motion(&moved);
}

// Of the keyframes that a camera took just before and just after keyframe k the nearer one;
// UINT32_MAX: there is none.
static uint32_t nearest(const struct graph *g, uint32_t k, uint32_t camera)
{
    uint32_t before = k, after = k;
    while (before-- > 0 && g->body[before].camera != camera)
        ;
    while (++after < g->n && g->body[after].camera != camera)
        ;
    if (after == g->n)
        return before; // UINT32_MAX where there is none
    return before == UINT32_MAX || way(g, k, after) < way(g, before, k) ? after : before;
}

// Keyframes of two cameras, tied.
static void tie(struct graph *g, uint32_t a, uint32_t b)
{
    const uint32_t i = a < b ? a : b, j = a < b ? b : a;
    if (g->n_edges + 1 >= g->max_edges)
        return;
    struct edge *e = &g->edges[g->n_edges++];
    *e = (struct edge){.i = i, .j = j, .span = 1, .chain = true};
    const struct se3 T_j_i =
        se3_between(&g->keyframes[j].T_odom_camera, &g->keyframes[i].T_odom_camera);
    link_tie(&e->link, &T_j_i, way(g, i, j));
}

// Ties a camera's keyframes to the first of the cameras before it that has one beside, where each
// is the nearest of the other. Not more: a way from keyframe to keyframe over ties would believe
// the body's odometry more than what was measured. A camera that is beside none is tied once.
static void tie_camera(struct graph *g, uint32_t camera)
{
    uint32_t from = UINT32_MAX, to = 0;
    bool is_tied = false;
    for (uint32_t i = 0; i < g->n; i++) {
        bool done = g->body[i].camera != camera;
        for (uint32_t other = 0; other < camera && !done; other++) {
            const uint32_t j = nearest(g, i, other);
            if (j == UINT32_MAX)
                continue;
            if (from == UINT32_MAX || way(g, i, j) < way(g, from, to)) {
                from = i;
                to = j;
            }
            done = way(g, i, j) <= BESIDE && nearest(g, j, camera) == i;
            is_tied = is_tied || done;
            if (done)
                tie(g, i, j);
        }
    }
    if (!is_tied && from != UINT32_MAX)
        tie(g, from, to);
}

static int fill(struct graph *g, const struct graph_part *parts, uint32_t n_parts, uint32_t n)
{
    struct member *members = order(parts, n_parts, n);
    uint32_t *index = malloc(n * sizeof *index);
    double *times = malloc(n_parts * sizeof *times);
    int rc = members && index && times ? 0 : -ENOMEM;
    if (rc == 0)
        rc = weigh(parts, n_parts, times);
    for (uint32_t k = 0; k < n && rc == 0; k++)
        take_keyframe(g, &parts[members[k].part], &members[k]);
    for (uint32_t part = 0; part < n_parts && rc == 0; part++) {
        for (uint32_t k = 0; k < n; k++)
            if (members[k].part == part)
                index[members[k].at] = k;
        take_edges(g, &parts[part], times[part], index);
    }
    for (uint32_t part = 1; part < n_parts && rc == 0; part++)
        tie_camera(g, part);
    free(members);
    free(index);
    free(times);
    return rc;
}

int graph_join(struct graph **out, const struct graph_part *parts, uint32_t n_parts,
               const struct log_sink *log)
{
    const struct graph *first = NULL;
    uint32_t n = 0;
    *out = NULL;
    for (uint32_t part = 0; part < n_parts; part++) {
        n += parts[part].graph->n;
        if (!first && parts[part].graph->n > 0)
            first = parts[part].graph;
    }
    if (!first)
        return -ENODATA;
    if (n > GRAPH_MOST_KEYFRAMES)
        return -E2BIG;
    const struct graph_settings settings = {.max_keyframes = n > 4 ? n : 4,
                                            .max_links = first->settings.max_links};
    int rc = graph_create(out, &first->camera, &settings, log);
    if (rc < 0)
        return -ENOMEM;
    struct graph *g = *out;
    g->body = calloc(n, sizeof *g->body);
    rc = g->body ? fill(g, parts, n_parts, n) : -ENOMEM;
    if (rc == 0)
        rc = graph_adjust(g);
    if (rc < 0)
        graph_destroy(out);
    return rc;
}

uint32_t graph_bodies(const struct graph *g, struct graph_keyframe *out)
{
    for (uint32_t k = 0; k < g->n; k++) {
        const struct se3 T_camera_body = se3_inverse(&g->body[k].T_body_camera);
        out[k] = g->keyframes[k];
        out[k].T_odom_camera = body_at(g, k);
        out[k].T_map_camera = se3_compose(&g->keyframes[k].T_map_camera, &T_camera_body);
    }
    return g->n;
}
