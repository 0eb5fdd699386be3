// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/confidence.h"

#include <math.h>

#include "gpu/search/context.h"

#define N_ASKED   64
#define N_ANSWERS 512

static void vertex_at(const struct search_object *object, const struct search_candidate *c,
                      uint32_t i, float out[3])
{
    const float p[3] = {object->x[i] * object->info.map_px_m, object->y[i] * object->info.map_px_m,
                        object->z[i] * object->info.map_px_m};
    search_turn(c->rotation, p, out);
    for (int k = 0; k < 3; k++)
        out[k] += c->t_m[k];
}

// Mean distance from the surface in pose a to the nearest surface in pose b [m]: ADD-S on a few
// vertices.
static float distance_between(const struct search_object *object, const struct search_candidate *a,
                              const struct search_candidate *b)
{
    const uint32_t n = object->n_vertices;
    const uint32_t ask = n / N_ASKED + 1, answer = n / N_ANSWERS + 1;
    float x[N_ANSWERS], y[N_ANSWERS], z[N_ANSWERS], sum = 0;
    uint32_t n_answers = 0, n_asked = 0;
    for (uint32_t i = 0; i < n && n_answers < N_ANSWERS; i += answer, n_answers++) {
        float p[3];
        vertex_at(object, b, i, p);
        x[n_answers] = p[0];
        y[n_answers] = p[1];
        z[n_answers] = p[2];
    }
    for (uint32_t i = 0; i < n; i += ask, n_asked++) {
        float p[3], nearest = INFINITY;
        vertex_at(object, a, i, p);
#pragma omp simd reduction(min : nearest)
        for (uint32_t k = 0; k < n_answers; k++) {
            const float dx = x[k] - p[0], dy = y[k] - p[1], dz = z[k] - p[2];
            const float d2 = dx * dx + dy * dy + dz * dz;
            nearest = d2 < nearest ? d2 : nearest;
        }
        sum += sqrtf(nearest);
    }
    return sum / (float)(n_asked ? n_asked : 1);
}

// No vertex moves farther than this between the poses [m], and so no surface.
static float farthest_between(const struct search_object *object, const struct search_candidate *a,
                              const struct search_candidate *b)
{
    const float cosine = (search_trace(a->rotation, b->rotation) - 1) / 2;
    float d2 = 0;
    for (int k = 0; k < 3; k++)
        d2 += (a->t_m[k] - b->t_m[k]) * (a->t_m[k] - b->t_m[k]);
    return sqrtf(d2) + object->info.radius_m * sqrtf(fmaxf(2 - 2 * cosine, 0));
}

// Radii of the object; of a few vertices in each pose, so that some of it is the vertices' spacing.
#define CONTRADICTS 0.16f // poses farther apart cannot both be right,
#define SAME_ANSWER 0.25f // ones farther apart not by ADD-S either (tools/bench/MEASURED.md),
#define SAME_PLACE  0.5f  // ones farther apart have little to do with each other

// Of scores. True poses were up to 2 below those that differ by a near symmetry. Where little is
// seen a pose that reaches over what hides the object agrees with more pixels, so that other
// surfaces compete at nearly the same score only.
#define AS_GOOD_TURNED 2.5f
#define AS_GOOD_THERE  1.f

static bool is_as_good(const struct search_object *object, const struct search_candidate *best,
                       const struct search_candidate *c)
{
    const float behind = best->score - c->score;
    if (!(behind < AS_GOOD_TURNED))
        return false;
    if (farthest_between(object, best, c) < SAME_ANSWER * object->info.radius_m)
        return true;
    const float apart = distance_between(object, best, c) / object->info.radius_m;
    return apart < SAME_ANSWER || (apart < SAME_PLACE && behind < AS_GOOD_THERE);
}

uint32_t search_keep_answers(const struct search_object *object, struct search_candidate *c,
                             uint32_t n, uint32_t top)
{
    const struct search_nearness nearness = search_nearness_of_answers(object->info.radius_m);
    struct search_rotations rotations;
    search_rotations_of(&object->info, &rotations);
    uint32_t n_kept = 0;
    for (; n_kept < n; n_kept++) {
        const uint32_t best = search_best(c, n, n_kept);
        uint32_t chosen = best;
        for (uint32_t i = n_kept; i < n && n_kept < top; i++)
            if (c[i].agree > c[chosen].agree && is_as_good(object, &c[best], &c[i]))
                chosen = i;
        c[chosen].sure = c[best].sure;
        n = search_keep_one(&rotations, &nearness, c, n, n_kept, chosen);
    }
    for (uint32_t i = 0; i < n_kept; i++)
        c[i].score = c[i].sure;
    return n_kept;
}

float search_rival(const struct search_object *object, const struct search_candidate *candidates,
                   uint32_t n, uint32_t k)
{
    const struct search_candidate *c = &candidates[k];
    const float radius_m = object->info.radius_m;
    float best = SEARCH_NO_RIVAL;
    for (uint32_t i = 0; i < n; i++) {
        float d2 = 0;
        for (int j = 0; j < 3; j++)
            d2 += (candidates[i].t_m[j] - c->t_m[j]) * (candidates[i].t_m[j] - c->t_m[j]);
        if (i != k && candidates[i].score - c->score > best && d2 < 2 * radius_m * radius_m &&
            farthest_between(object, c, &candidates[i]) > CONTRADICTS * radius_m &&
            distance_between(object, c, &candidates[i]) > CONTRADICTS * radius_m)
            best = candidates[i].score - c->score;
    }
    return best;
}

// Logistic regression over the answers in 3,723 scenes of 239 objects, placed freely in half of
// them and resting in the other; those of which 60 % and more is seen, 40 to 60, 25 to 36 and none
// as often each, mostly as an unkind sensor sees them; scored by weights and trees that were fitted
// on the other half of the objects. Where the surface goes on beyond the outline it may be part of
// something larger. An absent object counts 16 times (tools/bench/search_weights.c, WEIGHT_ABSENT),
// so that at most one in a hundred is accepted also of plain shapes, which much resembles; in a
// world in which the object is there three times in four the curve says too little.
float search_confidence(const struct search_candidate *c, float rival)
{
    const float x = -3.17f + 0.83f * c->score - 1.70f * logf(1 + expf(rival < 10 ? rival : 10)) -
                    1.81f * (c->continued + c->smooth);
    return 1 / (1 + expf(-x));
}
