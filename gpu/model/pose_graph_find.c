// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/solve6.h"
#include "gpu/model/keyframe_recovery.h"
#include "gpu/model/pose_graph_private.h"
#include "proto/se3.h"

// Keyframes that stand nearer than this [m + rad] beyond the nearest one may have seen the place.
#define VISIT 0.5

int graph_find(struct graph *g, const float *z_m, uint32_t attempt, struct keyframe_find *out)
{
    float log_z[DEPTH_CELLS];
    struct align_image *image;
    struct recovery found;
    *out = (struct keyframe_find){.T_odom_camera = se3_identity()};
    struct recovery_place *places = malloc((g->n + 1) * sizeof *places);
    if (!places)
        return -ENOMEM;
    int rc = graph_make_image(g, z_m, &image);
    if (rc < 0) {
        free(places);
        return rc == -EINVAL ? 0 : rc; // too little depth
    }
    depth_cells_of(z_m, 1, g->camera.width_px, g->camera.height_px, log_z);
    for (uint32_t i = 0; i < g->n; i++)
        places[i] = (struct recovery_place){{g->images[i], g->z_m[i], g->log_z[i]},
                                            g->keyframes[i].T_odom_camera,
                                            g->keyframes[i].T_map_camera};
    const struct recovery_view frame = {image, z_m, log_z};
    rc = recovery_find(g->maker, &g->camera, &frame, places, g->n, attempt, graph_usual_rms_m(g),
                       &found);
    found.link.doubt_m = 0; // it was measured
    if (rc == 0 && found.trust)
        *out = (struct keyframe_find){found.trust, g->keyframes[found.at].seq, found.T_odom_camera,
                                      found.link};
    align_image_destroy(&image);
    free(places);
    return rc;
}

// Which of several visits a place in odom is of nobody knows where they lie apart in the map: by as
// much the tie is in doubt.
static void doubt_visits(const struct graph_keyframe *keyframes, uint32_t n, uint32_t nearest,
                         const struct se3 *T_odom_camera, struct link *inout)
{
    const struct se3 T_map_odom = graph_keyframe_T_map_odom(&keyframes[nearest]);
    const struct se3 here = se3_compose(&T_map_odom, T_odom_camera);
    double apart_m2 = 0, apart_rad2 = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct se3 T_k_frame = se3_between(&keyframes[i].T_odom_camera, T_odom_camera);
        if (link_motion(&T_k_frame) > link_motion(&inout->T_j_i) + VISIT)
            continue;
        const struct se3 T_other = graph_keyframe_T_map_odom(&keyframes[i]);
        const struct se3 there = se3_compose(&T_other, T_odom_camera);
        const struct se3 apart = se3_between(&here, &there);
        const double *t = apart.t_m, rad = se3_angle(&apart);
        apart_m2 = fmax(apart_m2, t[0] * t[0] + t[1] * t[1] + t[2] * t[2]);
        apart_rad2 = fmax(apart_rad2, rad * rad);
    }
    for (int k = 0; k < 6; k++) {
        double *information = &inout->information[7 * k];
        *information = 1 / (1 / *information + (k < 3 ? apart_m2 : apart_rad2));
    }
    inout->doubt_m = sqrt(apart_m2);
}

struct keyframe_find graph_find_at(const struct graph_keyframe *keyframes, uint32_t n,
                                   const struct se3 *T_odom_camera)
{
    struct keyframe_find out = {.T_odom_camera = *T_odom_camera};
    uint32_t nearest = n;
    double least = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        const struct se3 T_frame_k = se3_between(T_odom_camera, &keyframes[i].T_odom_camera);
        const double motion = link_motion(&T_frame_k);
        if (motion < least) {
            least = motion;
            nearest = i;
        }
    }
    if (nearest == n)
        return out;
    const struct se3 T_frame_k = se3_between(T_odom_camera, &keyframes[nearest].T_odom_camera);
    out.trust = RELOCALISE_SURE;
    out.seq = keyframes[nearest].seq;
    link_tie(&out.link, &T_frame_k, least);
    doubt_visits(keyframes, n, nearest, T_odom_camera, &out.link);
    return out;
}

static uint32_t index_of(const struct graph *g, uint64_t seq)
{
    uint32_t i = 0;
    while (i < g->n && g->keyframes[i].seq != seq)
        i++;
    return i;
}

void graph_found(struct graph *g, const struct keyframe_find *find, int64_t time_ns)
{
    struct keyframe_find by = *find;
    if (g->n == 0)
        return;
    if (!by.trust || index_of(g, by.seq) == g->n)
        by = graph_find_at(g->keyframes, g->n, &find->T_odom_camera);
    const uint32_t i = index_of(g, by.seq);
    g->T_map_odom = graph_keyframe_T_map_odom(&g->keyframes[i]);
    g->find = (struct edge){.i = i, .link = by.link, .news = 1, .find = true};
    g->T_odom_found = by.T_odom_camera;
    g->found_ns = time_ns;
    g->pending.at = UINT32_MAX; // odom's step since then holds the find's
}

const struct edge *graph_edge_of_find(const struct graph *g, uint32_t j)
{
    for (uint32_t k = 0; k < g->n_edges; k++)
        if (g->edges[k].find && g->edges[k].j == j)
            return &g->edges[k];
    return NULL;
}

void graph_move_link(struct link *inout, const struct se3 *T_to_from)
{
    // The twist's frame is another one, too.
    const struct se3 T_from_to = se3_inverse(T_to_from);
    double ad[36], half[36];
    inout->T_j_i = se3_compose(T_to_from, &inout->T_j_i);
    se3_adjoint(&T_from_to, ad);
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++) {
            half[6 * r + c] = 0;
            for (int k = 0; k < 6; k++)
                half[6 * r + c] += inout->information[6 * r + k] * ad[6 * k + c];
        }
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++) {
            inout->information[6 * r + c] = 0;
            for (int k = 0; k < 6; k++)
                inout->information[6 * r + c] += ad[6 * k + r] * half[6 * k + c];
        }
}

void graph_lead_on(struct link *inout, const struct link *on)
{
    double first[36], second[36];
    graph_move_link(inout, &on->T_j_i);
    inout->doubt_m += on->doubt_m;
    const bool is_known =
        solve6_invert(inout->information, 0, first) && solve6_invert(on->information, 0, second);
    for (int k = 0; k < 36 && is_known; k++)
        second[k] += first[k];
    if (!is_known || !solve6_invert(second, 0, inout->information))
        memset(inout->information, 0, sizeof inout->information);
}

// Found by the keyframe before the loss the newest one is chained to it so.
void graph_link_found(struct graph *g)
{
    const uint32_t j = g->n - 1;
    struct edge e = g->find;
    if (e.i == UINT32_MAX)
        return;
    const struct se3 T_new_found = se3_between(&g->keyframes[j].T_odom_camera, &g->T_odom_found);
    struct link tracked;
    link_chain(&tracked, &T_new_found, link_motion(&T_new_found), 1);
    graph_lead_on(&e.link, &tracked);
    e.j = j;
    e.span = g->arrival[j] - g->arrival[e.i];
    struct edge *chain = graph_find_edge(g, g->n_edges, e.i, j);
    e.chain = chain != NULL;
    if (chain)
        *chain = e;
    if (chain || g->n_edges + 1 >= g->max_edges)
        return;
    g->edges[g->n_edges++] = e;
    g->keyframes[j].n_links++;
}
