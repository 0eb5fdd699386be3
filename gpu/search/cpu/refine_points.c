// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/cpu/refine_points.h"

#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/search/cpu/icp.h"
#include "gpu/search/host.h"
#include "gpu/search/kernels/icp.h"
#include "gpu/search/kernels/score.h"

#define LANES 8 // seeds of a block, see seed_rotations
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

// The view nearest to the candidate's rotation, through the seeds.
CPU_CLONES static uint32_t view_for(const struct search_object *object,
                                    const struct search_candidate *c)
{
    float seen[9];
    search_seen_rotation(c, seen);
    uint32_t best, best_seed = 0;
    float best_trace = -2;
    for (uint32_t from = 0; from < object->n_seeds; from += LANES) {
        lanes trace = {0};
        for (int k = 0; k < 9; k++) {
            lanes r;
            memcpy(&r, object->seed_rotations + (size_t)from * 9 + k * LANES, sizeof r);
            trace += r * seen[k];
        }
        for (int k = 0; k < LANES; k++)
            if (trace[k] > best_trace) {
                best_trace = trace[k];
                best_seed = from + (uint32_t)k;
            }
    }
    best = object->seeds[best_seed];
    for (uint32_t i = object->child_first[best_seed]; i < object->child_first[best_seed + 1]; i++) {
        float trace = search_trace(object->views[object->children[i]].rotation, seen);
        if (trace > best_trace) {
            best_trace = trace;
            best = object->children[i];
        }
    }
    return best;
}

static const struct search_point *view_list(const struct search_object *object, uint32_t view)
{
    return object->points + (size_t)view * (SEARCH_POINTS + SEARCH_RING_POINTS);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// The first `n_most` points of a view.
static void view_points(const struct search_object *object, uint32_t view, uint32_t n_most,
                        struct model_points *out)
{
    const float *r = object->views[view].rotation;
    const struct search_point *points = view_list(object, view);
    out->n = least(object->n_points[view], n_most);
    for (uint32_t i = 0; i < out->n; i++) {
        float p[3], n[3];
        search_view_point(r, points[i].u, points[i].v, points[i].z, object->info.map_px_m, p);
        search_view_normal(r, points[i].normal, n);
        for (int k = 0; k < 3; k++) {
            out->p[k][i] = p[k];
            out->n_[k][i] = n[k];
        }
    }
    model_points_pad(out);
}

static void score_points(const struct search_scene *scene, const struct search_object *object,
                         const struct model_points *points, enum search_evidence evidence,
                         struct search_candidate *c)
{
    const bool loose = evidence == SEARCH_SCORE_LOOSE;
    const uint32_t n_points =
        least(object->n_points[c->view], loose ? SEARCH_POINTS_FIRST : SEARCH_POINTS);
    const uint32_t n_ring =
        least(object->n_ring[c->view], loose ? SEARCH_RING_FIRST : SEARCH_RING_POINTS);
    const float radius_m = object->info.radius_m, px_m = object->info.map_px_m;
    struct search_tally tally = {0};
    struct search_outline outline = {0};
    for (uint32_t i = 0; i < n_points; i++) {
        float p[3] = {points->p[0][i], points->p[1][i], points->p[2][i]};
        float m[3] = {points->n_[0][i], points->n_[1][i], points->n_[2][i]};
        search_score_point(scene, c, p, m, evidence, radius_m, &tally);
    }
    const float *r = object->views[c->view].rotation;
    const struct search_point *ring = view_list(object, c->view) + SEARCH_POINTS;
    for (uint32_t i = 0; i < n_ring; i++) {
        float out[3], in[3];
        search_view_point(r, ring[i].u, ring[i].v, ring[i].z, px_m, out);
        search_view_point(r, ring[i].u + ring[i].normal[0], ring[i].v + ring[i].normal[1],
                          ring[i].z, px_m, in);
        search_score_ring(scene, c, out, in, evidence, radius_m, &outline);
    }
    search_conclude_points(evidence, &tally, &outline, radius_m, px_m,
                           object->views[c->view].n_cover, c);
}

// Step i of the refinement with a view's points. False: it has no solution.
static bool points_step(const struct search_scene *scene, const struct search_object *object, int i,
                        struct model_points *points, struct search_candidate *c)
{
    if (search_points_new_view(i)) {
        if (i > 0 || c->view == SEARCH_VIEW_UNKNOWN)
            c->view = view_for(object, c);
        view_points(object, c->view, i == 0 ? SEARCH_POINTS_FIRST : SEARCH_POINTS, points);
    }
    struct search_icp_gates gates = search_points_gates(i, object->info.radius_m, c->t_m[2]);
    return model_points_step(scene, points, &gates, object->info.radius_m, c) >= 0;
}

void search_refine_points(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *c)
{
    struct model_points points;
    for (int i = 0; i < SEARCH_POINTS_STEPS; i++) {
        if (search_points_give_up_here(i)) {
            score_points(scene, object, &points, SEARCH_SCORE_LOOSE, c);
            if (c->score < SEARCH_LOOSE_SCORE) {
                c->score = SEARCH_GIVEN_UP;
                return;
            }
        }
        if (!points_step(scene, object, i, &points, c)) {
            c->score = SEARCH_GIVEN_UP;
            return;
        }
    }
    score_points(scene, object, &points, SEARCH_SCORE_POINTS, c);
}

bool search_score_loosely(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *c)
{
    struct model_points points;
    for (int i = 0; !search_points_give_up_here(i); i++)
        if (!points_step(scene, object, i, &points, c))
            return false;
    score_points(scene, object, &points, SEARCH_SCORE_LOOSE, c);
    return true;
}
