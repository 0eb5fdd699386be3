// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/pose_graph_private.h"
#include "proto/se3.h"

#define NOWHERE UINT32_MAX

int graph_copy(struct graph **out, const struct graph *g, const struct between_frames *between)
{
    const size_t n_px = (size_t)g->camera.width_px * g->camera.height_px;
    struct graph *copy;
    int rc = graph_create(out, &g->camera, &g->settings, &g->log);
    if (rc < 0)
        return rc;
    copy = *out;
    copy->max_links = g->max_links;
    memcpy(copy->keyframes, g->keyframes, g->n * sizeof *g->keyframes);
    memcpy(copy->arrival, g->arrival, g->n * sizeof *g->arrival);
    memcpy(copy->edges, g->edges, g->n_edges * sizeof *g->edges);
    copy->n_edges = g->n_edges;
    copy->n_ever = g->n_ever;
    copy->T_map_odom = g->T_map_odom;
    if (between)
        rc = between_frames_copy(&copy->between, between);
    if (g->field_per_m && rc == 0)
        rc = graph_set_field(copy, g->field_per_m);
    for (; copy->n < g->n && rc == 0; copy->n++) {
        float *z_m = copy->z_m[copy->n] = malloc(n_px * sizeof *z_m);
        if (z_m)
            memcpy(z_m, g->z_m[copy->n], n_px * sizeof *z_m);
        else
            rc = -ENOMEM;
    }
    if (rc < 0)
        graph_destroy(out);
    return rc;
}

// Whether an edge of both stays as it is here: where what a camera was found by was handed on to it
// and the copy knows nothing of the way; and where it is a chain over a keyframe that went in
// between, and what was measured there tells but the news of it, or disagrees with where the copy
// has them. Else it takes that with it.
static bool stays(const struct edge *here, struct edge *there, const struct graph *from)
{
    if (there->lost && !here->lost)
        return true;
    if (here->chain && !here->lost && !there->chain &&
        (!graph_is_mended(from) || !graph_agrees(from, there)))
        return true;
    there->find |= here->find;
    return false;
}

// The edges of both: of what both know those of `from`, beside what holds a keyframe here.
// in_from: of each keyframe, or NOWHERE.
static void take_edges(struct graph *g, struct graph *from, const uint32_t *in_from)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < g->n_edges; k++) {
        const struct edge *e = &g->edges[k];
        const uint32_t i = in_from[e->i], j = in_from[e->j];
        struct edge *there =
            i == NOWHERE || j == NOWHERE ? NULL : graph_find_edge(from, from->n_edges, i, j);
        if (there ? stays(e, there, from)
                  : i == NOWHERE || j == NOWHERE || e->chain || e->find || e->inherited)
            g->edges[n++] = *e;
    }
    const uint32_t n_stay = n;
    for (uint32_t k = 0; k < from->n_edges; k++) {
        struct edge e = from->edges[k];
        uint32_t i = 0, j = 0;
        while (i < g->n && in_from[i] != e.i)
            i++;
        while (j < g->n && in_from[j] != e.j)
            j++;
        e.i = i;
        e.j = j;
        // What went in between here was measured there.
        e.chain = e.chain || j == i + 1;
        if (i < g->n && j < g->n && !graph_find_edge(g, n_stay, i, j) &&
            (e.chain || n + g->n < g->max_edges))
            g->edges[n++] = e;
    }
    g->n_edges = n;
}

int graph_take(struct graph *g, struct graph *from)
{
    uint32_t *in_from = malloc((g->n + 1) * sizeof *in_from);
    int rc = in_from ? 0 : -ENOMEM;
    for (uint32_t i = 0, at = 0; i < g->n && rc == 0; i++) {
        while (at < from->n && from->keyframes[at].seq < g->keyframes[i].seq)
            at++;
        bool known = at < from->n && from->keyframes[at].seq == g->keyframes[i].seq;
        in_from[i] = known ? at : NOWHERE;
    }
    if (rc == 0 && from->field_per_m)
        rc = graph_set_field(g, from->field_per_m);
    if (rc == 0)
        take_edges(g, from, in_from);
    for (uint32_t i = 0; i < g->n && rc == 0; i++) {
        struct graph_keyframe *k = &g->keyframes[i];
        const struct edge *find = graph_edge_of_find(g, i);
        if (in_from[i] != NOWHERE) {
            g->before[i] = from->keyframes[in_from[i]].T_map_camera;
            k->n_links = from->keyframes[in_from[i]].n_links;
        } else if (find) {
            const struct se3 T_found_k = se3_inverse(&find->link.T_j_i);
            g->before[i] = se3_compose(&g->before[find->i], &T_found_k);
        } else if (i > 0) {
            struct se3 step = se3_between(&k[-1].T_odom_camera, &k->T_odom_camera);
            g->before[i] = se3_compose(&g->before[i - 1], &step);
        } else {
            g->before[i] = k->T_map_camera;
        }
    }
    for (uint32_t i = 0; i < g->n && rc == 0; i++)
        g->keyframes[i].T_map_camera = g->before[i];
    if (rc == 0) {
        g->pending.at = UINT32_MAX;
        graph_set_T_map_odom(g);
    }
    free(in_from);
    return rc;
}
