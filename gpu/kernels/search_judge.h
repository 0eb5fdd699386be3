// SPDX-License-Identifier: Apache-2.0
// What the image says about a pose: the verdict on one model pixel, and on all of them. Counts and
// sums are integers, so that they do not depend on the order.
#ifndef POSED_GPU_KERNELS_SEARCH_JUDGE_H
#define POSED_GPU_KERNELS_SEARCH_JUDGE_H

#include "gpu/kernels/search_pose.h"

#define SEARCH_EVIDENCE_ONE 65536   // fixed point
#define SEARCH_SQUARE_UNIT  1048576 // steps in a metre of residual

struct search_tally {
    uint32_t n, n_match, n_free, n_wrong, n_hidden;
    int64_t evidence; // 1 / SEARCH_EVIDENCE_ONE
    int64_t square;   // of residuals, (m / SEARCH_SQUARE_UNIT)^2
};

// Evidence of a pixel: 1 - (d / gate)^2, cut at -1: a residual of the sensor's size speaks for the
// pose, one of a few times that speaks against it, however many such pixels there are. What lies
// more than two gates in front is an occluder and says nothing. scene: normal and z of the image.
KERNEL_FN void search_judge_pixel(const float scene[4], float z, const float n[3], float gate_m,
                                  struct search_tally *tally)
{
    tally->n++;
    float d = scene[3] - z;
    if (scene[3] == 0.f || d < -2 * gate_m) {
        tally->n_hidden++;
        return;
    }
    if (d > gate_m) {
        tally->n_free++;
        tally->evidence -= SEARCH_EVIDENCE_ONE;
        return;
    }
    bool has_normal = scene[0] != 0.f || scene[1] != 0.f || scene[2] != 0.f;
    if (has_normal && n[0] * scene[0] + n[1] * scene[1] + n[2] * scene[2] < 0.7f) {
        tally->n_wrong++;
        tally->evidence -= SEARCH_EVIDENCE_ONE / 2;
        return;
    }
    float ratio = d / gate_m;
    tally->evidence += ratio > -1.4f ? (int32_t)((1 - ratio * ratio) * (float)SEARCH_EVIDENCE_ONE)
                                     : -SEARCH_EVIDENCE_ONE;
    int64_t steps = (int32_t)(d * (float)SEARCH_SQUARE_UNIT);
    tally->n_match += d > -gate_m;
    tally->square += d > -gate_m ? steps * steps : 0;
}

// The score is the evidence of a pixel that could be seen; hidden ones count a third, so that of
// two poses that fit what is seen the one that is seen more wins. Far away, where the gate comes to
// the size of the object, everything fits: there the evidence weighs less.
KERNEL_FN void search_conclude(const struct search_tally *tally, float radius_m, float gate_m,
                               struct search_candidate *c)
{
    float n = (float)(tally->n ? tally->n : 1);
    c->match = (float)tally->n_match / n;
    c->free = ((float)tally->n_free + 0.5f * (float)tally->n_wrong) / n;
    c->hidden = (float)tally->n_hidden / n;
    c->n_match = tally->n_match;
    c->rms_m = tally->n_match
                   ? sqrtf((float)tally->square / (float)tally->n_match) / (float)SEARCH_SQUARE_UNIT
                   : 0;
    float weight = 0.1f * radius_m / gate_m;
    float evidence = (float)tally->evidence / (float)SEARCH_EVIDENCE_ONE;
    c->score = (weight < 1 ? weight : 1) * evidence / (n * (1 - 0.67f * c->hidden));
}

// Beyond the silhouette: does the scene go on at the model's depth?
struct search_outline {
    uint32_t n, n_continued, n_ended; // n: looked at; the rest of them cannot be told
};

KERNEL_FN void search_judge_outside(float scene_z, float z, float gate_m,
                                    struct search_outline *outline)
{
    if (scene_z == 0.f || scene_z < z - gate_m)
        return;
    outline->n_continued += scene_z < z + gate_m ? 1 : 0;
    outline->n_ended += scene_z < z + gate_m ? 0 : 1;
}

// Share of the silhouette beyond which the scene goes on at the same depth. A real object ends
// there, unless something in front hides the end or it touches what it stands on. Where little of
// the outline can be told (a segmented image has nothing around the object) little is concluded.
KERNEL_FN void search_conclude_outline(const struct search_outline *outline,
                                       struct search_candidate *c)
{
    uint32_t n = outline->n_continued + outline->n_ended, least = outline->n / 4 + 1;
    c->continued = (float)outline->n_continued / (float)(n > least ? n : least);
    c->score -= 0.5f * c->continued * c->match;
}

// ---- A view's stored points

// Gate of a point at depth z, from the gate of the judgement: loose (before giving up) or final.
KERNEL_FN float search_points_judge_m(bool final, float radius_m)
{
    return (final ? 0.05f : 0.15f) * radius_m;
}

KERNEL_FN void search_judge_point(const struct search_scene *scene,
                                  const struct search_candidate *c, const float p[3],
                                  const float m[3], float gate_m, struct search_tally *tally)
{
    const float nothing[4] = {0, 0, 0, 0};
    float q[3], n[3];
    search_turn(c->rotation, p, q);
    search_turn(c->rotation, m, n);
    for (int k = 0; k < 3; k++)
        q[k] += c->t_m[k];
    int32_t at = search_pixel_at(&scene->camera, q);
    search_judge_pixel(at < 0 ? nothing : scene->normal_z + 4 * (size_t)at, q[2], n,
                       gate_m + 3 * search_sigma(q[2]), tally);
}

KERNEL_FN void search_judge_ring(const struct search_scene *scene, const struct search_candidate *c,
                                 const float p[3], float gate_m, struct search_outline *outline)
{
    float q[3];
    search_turn(c->rotation, p, q);
    for (int k = 0; k < 3; k++)
        q[k] += c->t_m[k];
    int32_t at = search_pixel_at(&scene->camera, q);
    outline->n++;
    search_judge_outside(at < 0 ? 0.f : scene->normal_z[4 * (size_t)at + 3], q[2],
                         1.5f * gate_m + 3 * search_sigma(q[2]), outline);
}

KERNEL_FN void search_conclude_points(const struct search_tally *tally,
                                      const struct search_outline *outline, float radius_m,
                                      float gate_m, struct search_candidate *c)
{
    search_conclude(tally, 2 * radius_m, gate_m + 3 * search_sigma(c->t_m[2]), c);
    search_conclude_outline(outline, c);
}

// ---- The drawn model

#define SEARCH_OUTSIDE_PX 4 // how far outside of the outline is looked
#define SEARCH_INSIDE_PX  1 // and how far inside the scene must be the model's

KERNEL_FN float search_drawn_judge_m(float radius_m)
{
    return 0.012f * radius_m;
}

// A surface seen at a slant moves more in z for the same misplacement. ray: the pixel's, z 1.
KERNEL_FN void search_judge_drawn(const float scene[4], float z, const float n[3],
                                  const float ray[3], float gate_m, struct search_tally *tally)
{
    float slant = -(n[0] * ray[0] + n[1] * ray[1] + n[2] * ray[2]);
    slant = slant > 0.3f ? slant : 0.3f;
    search_judge_pixel(scene, z, n, (gate_m + 2.5f * search_sigma(z)) / slant, tally);
}

// An outline pixel at depth z; inside and outside: the scene's depths there.
KERNEL_FN void search_judge_outline(float inside, float outside, float z, float gate_m,
                                    struct search_outline *outline)
{
    float gate = 4 * gate_m + 3 * search_sigma(z);
    outline->n++;
    if (kernel_abs(inside - z) <= gate)
        search_judge_outside(outside, z, gate, outline);
}

KERNEL_FN void search_conclude_drawn(const struct search_tally *tally,
                                     const struct search_outline *outline, float radius_m,
                                     float gate_m, struct search_candidate *c)
{
    search_conclude(tally, radius_m, gate_m + 2.5f * search_sigma(c->t_m[2]), c);
    search_conclude_outline(outline, c);
}

#endif
