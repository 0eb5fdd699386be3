// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/keyframe_eviction.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/keyframe_constraint.h"
#include "gpu/model/pose_graph_private.h"
#include "proto/se3.h"

#define HEIR_FROM 4    // keyframes apart: what a link across time is
#define KNOWN     1e12 // information of what counts as known [1/m^2, 1/rad^2]

// The keyframe that is missed least: the one whose neighbours in time stand nearest to each other.
// The first and the newest half stay, and what was seen between two losses: nothing beside it in
// time would take over how it hangs together with the others.
static uint32_t least_missed(const struct graph *g)
{
    uint32_t at = 1;
    double least = INFINITY;
    for (uint32_t i = 1; i < g->n / 2; i++) {
        struct se3 T =
            se3_between(&g->keyframes[i - 1].T_map_camera, &g->keyframes[i + 1].T_map_camera);
        const bool is_alone = g->keyframes[i].is_found && g->keyframes[i + 1].is_found;
        if (!is_alone && link_motion(&T) < least) {
            least = link_motion(&T);
            at = i;
        }
    }
    return at;
}

// The same link from the other end.
static struct link turned(const struct link *link)
{
    struct link out = *link;
    const struct se3 back = se3_inverse(&link->T_j_i);
    graph_move_link(&out, &back);
    out.T_j_i = back;
    return out;
}

// From one keyframe to the one beside it in time as the chain has it; over a loss as the map has
// it, which counts as known.
static struct link step_to(const struct graph *g, uint32_t from, uint32_t to)
{
    const uint32_t i = from < to ? from : to, j = from < to ? to : from;
    const struct edge *chain = graph_find_edge(g, g->n_edges, i, j);
    if (!chain->lost)
        return i == from ? chain->link : turned(&chain->link);
    struct link out = {
        .T_j_i = se3_between(&g->keyframes[to].T_map_camera, &g->keyframes[from].T_map_camera)};
    for (int k = 0; k < 36; k += 7)
        out.information[k] = KNOWN;
    return out;
}

// A link of a keyframe that goes, given to the one beside it in time: what was measured, and the
// step from there to the heir as it was measured, with the errors of both. As the map has that
// step, what closed a loop has bent it, and by so much the loop would open.
static struct edge given_to(const struct edge *e, const struct link *step, uint32_t from,
                            uint32_t to)
{
    struct edge out = *e;
    if (e->i == from) {
        struct link first = turned(step);
        graph_lead_on(&first, &e->link);
        out.i = to;
        out.link.T_j_i = first.T_j_i;
        memcpy(out.link.information, first.information, sizeof first.information);
        return out;
    }
    graph_lead_on(&out.link, step);
    out.j = to;
    return out;
}

// Chains the neighbours of a keyframe that goes, as well as the two steps were known; what was
// measured between them says less, but where the camera was lost between them and found by the one
// before.
static struct edge chain_over(struct graph *g, uint32_t at)
{
    struct edge out = {.i = at - 1, .j = at + 1, .chain = true};
    const struct edge *find = graph_find_edge(g, g->n_edges, at - 1, at + 1);
    const struct edge *to = graph_find_edge(g, g->n_edges, at - 1, at);
    const struct edge *on = graph_find_edge(g, g->n_edges, at, at + 1);
    if (find && find->find) {
        out = *find;
        out.chain = true;
        return out;
    }
    out.link = to->link;
    graph_lead_on(&out.link, &on->link);
    out.span = to->span + on->span;
    out.lost = to->lost || on->lost;
    out.find = !out.lost && (to->find || on->find);
    return out;
}

// What a camera was found by goes to the heir whatever else is there: the chain over the loss gives
// way to it, and of another measurement it is what it was found by from then on. Returns whether it
// is an edge of its own.
static bool hand_on_find(struct graph *g, const struct edge *e)
{
    struct edge *there = graph_find_edge(g, g->n_edges, e->i, e->j);
    if (!there)
        return true;
    if (there->lost) {
        there->link = e->link;
        there->lost = false;
    }
    there->find = true;
    return false;
}

// The keyframe beside it in time that stands nearer, on its side of a loss.
static uint32_t heir_of(const struct graph *g, uint32_t at)
{
    const struct graph_keyframe *k = &g->keyframes[at];
    if (k->is_found != k[1].is_found)
        return k->is_found ? at + 1 : at - 1;
    const struct se3 back = se3_between(&k->T_map_camera, &k[-1].T_map_camera);
    const struct se3 on = se3_between(&k->T_map_camera, &k[1].T_map_camera);
    return link_motion(&back) < link_motion(&on) ? at - 1 : at + 1;
}

// Takes a keyframe out; its neighbours are chained, and the one that stands nearer takes over its
// links across time, without which a loop would open again: its own as long as there is any room,
// others as long as there is room for those of the next two keyframes.
static void forget(struct graph *g, uint32_t at)
{
    uint32_t n = 0, n_edges = g->n_edges;
    const bool full =
        n_edges + 2 * (g->settings.max_links + 1 + GRAPH_LOOP_LINKS) > g->enough_edges;
    const bool is_crowded = 4 * n_edges > 3 * g->max_edges;
    const struct edge over = chain_over(g, at);
    const uint32_t heir = heir_of(g, at);
    const struct link step = step_to(g, at, heir);
    for (uint32_t k = 0; k < n_edges; k++) {
        struct edge e = g->edges[k];
        if (e.i == over.i && e.j == over.j)
            continue;
        if (e.i == at || e.j == at) {
            uint32_t other = e.i == at ? e.j : e.i;
            uint32_t low = other < heir ? other : heir, high = other < heir ? heir : other;
            const bool is_find = e.find && !e.chain;
            if (!is_find && ((full && (is_crowded || !e.loop)) || e.chain ||
                             high - low < HEIR_FROM || graph_find_edge(g, n_edges, low, high)))
                continue;
            e = given_to(&e, &step, at, heir);
            e.inherited = true;
            if (is_find && !hand_on_find(g, &e))
                continue;
            g->edges[k] = e;
        }
        g->edges[n++] = e;
    }
    g->edges[n++] = over;
    g->n_edges = n;
    for (uint32_t k = 0; k < n; k++) {
        g->edges[k].i -= g->edges[k].i > at;
        g->edges[k].j -= g->edges[k].j > at;
    }
    if (g->find.i == at)
        g->find = given_to(&g->find, &step, at, heir);
    if (g->find.i != UINT32_MAX)
        g->find.i -= g->find.i > at;
    if (g->keyframes[at].is_found && !g->keyframes[at + 1].is_found) {
        g->keyframes[at + 1].is_found = true;
        g->keyframes[at + 1].found_ns = g->keyframes[at].found_ns;
    }
    align_image_destroy(&g->images[at]);
    free(g->z_m[at]);
    g->n--;
    memmove(g->images + at, g->images + at + 1, (g->n - at) * sizeof *g->images);
    memmove(g->z_m + at, g->z_m + at + 1, (g->n - at) * sizeof *g->z_m);
    memmove(g->log_z + at, g->log_z + at + 1, (g->n - at) * sizeof *g->log_z);
    memmove(g->arrival + at, g->arrival + at + 1, (g->n - at) * sizeof *g->arrival);
    memmove(g->keyframes + at, g->keyframes + at + 1, (g->n - at) * sizeof *g->keyframes);
    g->images[g->n] = NULL;
    if (g->pending.at == at || g->pending_newest == at)
        g->pending.at = UINT32_MAX;
    if (g->pending.at != UINT32_MAX)
        g->pending.at -= g->pending.at > at;
    g->pending_newest -= g->pending_newest > at;
}

void graph_make_room(struct graph *g)
{
    forget(g, least_missed(g));
}
