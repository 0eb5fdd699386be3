// SPDX-License-Identifier: Apache-2.0
// Near symmetries, by fitting the object to itself: from rotations in steps of 30 degrees about the
// principal axes of its surface and the axes of its model, with and without a half turn across, its
// visible points are laid on themselves by ICP (the axis of a mug is neither an axis of the model
// nor a principal one: the handle pulls it aside). What is left between the two surfaces is the
// measure.
#include "gpu/search/object/near_symmetry.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/search/kernels/icp.h"

#define N_VIEWS     128
#define EACH        8 // points of a view
#define N_POINTS    (N_VIEWS * EACH)
#define N_STEPS     12 // of 30 degrees
#define N_ROTATIONS (2 * 3 * 2 * N_STEPS)
#define N_ICP       10

#define STRIDE_FIT     8 // of the points that are laid
#define STRIDE_MEASURE 2

// In radii of the object. Points that are spread so: the distance to the plane counts up to there.
// What is off by more counts as this much, so that a body that fits exactly but for its knob is
// more alike than a shape that fits nowhere. Near symmetries of 14 assembled and built-in objects
// were below 0.035 and the rest above 0.04; of these the N_LOOSE best are taken, too, as far as
// their poses can still both be right by ADD-S.
#define SPACING            0.15f
#define OFF_MOST           0.1f
#define NEAR_SYMMETRY_MOST 0.035f
#define LOOSE_MOST         0.06f
#define N_LOOSE            4
#define START_MOST         0.09f // before the fit
#define FAR_AWAY           1e9f

struct surface {
    uint32_t n;
    float p[3][N_POINTS], m[3][N_POINTS]; // points and normals about the centre [radii]
};

struct near_symmetry_job {
    const struct surface *surface;
    struct search_candidate *rotations; // t_m in radii; score: minus the mean distance
};

static void take_surface(const struct search_object *object, struct surface *out)
{
    out->n = 0;
    for (uint32_t k = 0; k < N_VIEWS; k++) {
        const uint32_t view = (uint32_t)((uint64_t)k * object->n_views / N_VIEWS);
        const struct search_point *points =
            object->points + (size_t)view * (SEARCH_POINTS + SEARCH_RING_POINTS);
        const float *r = object->views[view].rotation;
        for (uint32_t i = 0; i < EACH && i < object->n_points[view]; i++, out->n++) {
            float p[3], m[3];
            search_view_point(r, points[i].u, points[i].v, points[i].z,
                              object->info.map_px_m / object->info.radius_m, p);
            search_view_normal(r, points[i].normal, m);
            for (int j = 0; j < 3; j++) {
                out->p[j][out->n] = p[j];
                out->m[j][out->n] = m[j];
            }
        }
    }
}

// The nearest point that faces the same way; its distance's square is FAR_AWAY when none does.
CPU_CLONES static uint32_t nearest(const struct surface *s, const float p[3], const float m[3],
                                   float *out_d2)
{
    float d2[N_POINTS], best = FAR_AWAY;
    const float px = p[0], py = p[1], pz = p[2], mx = m[0], my = m[1], mz = m[2];
#pragma omp simd reduction(min : best)
    for (uint32_t i = 0; i < s->n; i++) {
        const float x = s->p[0][i] - px, y = s->p[1][i] - py, z = s->p[2][i] - pz;
        const float cosine = s->m[0][i] * mx + s->m[1][i] * my + s->m[2][i] * mz;
        const float here = cosine > 0.3f ? x * x + y * y + z * z : FAR_AWAY;
        d2[i] = here;
        best = here < best ? here : best;
    }
    uint32_t at = 0;
    while (at < s->n && d2[at] != best)
        at++;
    *out_d2 = best;
    return at;
}

// Lays every `stride`-th of the turned points on those that do not turn: the mean distance [radii],
// and, where `sums` is not NULL, the sums of one step.
static float lay(const struct surface *s, const struct search_candidate *c, uint32_t stride,
                 float gate, int64_t *sums)
{
    float sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i += stride, n++) {
        const float p[3] = {s->p[0][i], s->p[1][i], s->p[2][i]};
        const float m[3] = {s->m[0][i], s->m[1][i], s->m[2][i]};
        float arm[3], at[3], turned[3], d2;
        search_turn(c->rotation, p, arm);
        search_turn(c->rotation, m, turned);
        for (int k = 0; k < 3; k++)
            at[k] = arm[k] + c->t_m[k];
        const uint32_t j = nearest(s, at, turned, &d2);
        float off = 0;
        for (int k = 0; k < 3 && j < s->n; k++)
            off += turned[k] * (s->p[k][j] - at[k]);
        sum += d2 < SPACING * SPACING && fabsf(off) < OFF_MOST ? fabsf(off) : OFF_MOST;
        if (!sums || !(d2 < gate * gate))
            continue;
        const float share = d2 / (gate * gate);
        const struct search_icp_row row = {
            {turned[0], turned[1], turned[2], arm[1] * turned[2] - arm[2] * turned[1],
             arm[2] * turned[0] - arm[0] * turned[2], arm[0] * turned[1] - arm[1] * turned[0]},
            off / gate,
            (1 - share) * (1 - share)};
        int32_t step[SEARCH_ICP_SUMS] = {0};
        search_icp_add(&row, step);
        for (int k = 0; k < SEARCH_ICP_SUMS; k++)
            sums[k] += step[k];
    }
    return n ? sum / (float)n : 1;
}

static void fit_rotation(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct near_symmetry_job *job = user;
    struct search_candidate *c = &job->rotations[item];
    c->score = -lay(job->surface, c, STRIDE_FIT, 0, NULL);
    if (!(c->score > -START_MOST))
        return;
    for (int i = 0; i < N_ICP; i++) {
        const float gate = i < 3 ? 0.4f : i < 6 ? 0.2f : 0.1f;
        int64_t sums[SEARCH_ICP_SUMS] = {0};
        lay(job->surface, c, STRIDE_FIT, gate, sums);
        if (search_icp_step(sums, 1, gate, c) < 0)
            break;
    }
    c->score = -lay(job->surface, c, STRIDE_MEASURE, 0, NULL);
}

// Rotations about the rows of `axes`, with and without a half turn about the next one before.
static void list_rotations(const double axes[3][3], struct search_candidate *out)
{
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2 * N_STEPS; i++, out++) {
            float about[9], across[9];
            search_about_axis(axes[k], 2 * M_PI * (i % N_STEPS) / N_STEPS, about);
            search_about_axis(axes[(k + 1) % 3], i < N_STEPS ? 0 : M_PI, across);
            memset(out, 0, sizeof *out);
            search_rotation_product(about, across, out->rotation);
        }
}

int search_find_near_symmetries(struct search *search, struct search_object *object)
{
    struct surface *surface = malloc(sizeof *surface);
    struct search_candidate *rotations = calloc(1 + N_ROTATIONS, sizeof *rotations);
    int err = surface && rotations ? 0 : -ENOMEM;
    if (err)
        goto out;
    static const double model_axes[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    double principal_axes[3][3];
    take_surface(object, surface);
    search_principal_axes(object, principal_axes);
    // First the model as it is: nothing is more like it, and what is the same is no alternative.
    rotations[0] = (struct search_candidate){.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .score = 1};
    list_rotations(model_axes, rotations + 1);
    list_rotations(principal_axes, rotations + 1 + N_ROTATIONS / 2);
    struct near_symmetry_job job = {surface, rotations + 1};
    parallel_for(search->pool, N_ROTATIONS, fit_rotation, &job);
    uint32_t n = 1;
    for (uint32_t i = 1; i <= N_ROTATIONS; i++) {
        if (!(rotations[i].score > -LOOSE_MOST))
            continue;
        rotations[n] = rotations[i];
        for (int k = 0; k < 3; k++)
            rotations[n].t_m[k] *= object->info.radius_m;
        n++;
    }
    const struct search_nearness nearness = search_nearness_of_answers(object->info.radius_m);
    n = search_keep_distinct(object, &nearness, rotations, n, 1 + SEARCH_NEAR_SYMMETRIES_MAX,
                             INFINITY);
    while (n > 1 + N_LOOSE && rotations[n - 1].score < -NEAR_SYMMETRY_MOST)
        n--;
    object->near_symmetries.n = n - 1;
    for (uint32_t i = 0; i < n - 1; i++) {
        memcpy(object->near_symmetries.of[i].rotation, rotations[1 + i].rotation,
               sizeof rotations->rotation);
        memcpy(object->near_symmetries.of[i].shift_m, rotations[1 + i].t_m, sizeof rotations->t_m);
    }
out:
    free(surface);
    free(rotations);
    return err;
}
