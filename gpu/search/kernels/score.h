// SPDX-License-Identifier: Apache-2.0
// What the image says about a pose: the verdict on one model pixel, on one pixel of its outline,
// and on all of them. Counts and sums are integers, so that they do not depend on the order.
//
// Candidates are ranked by the logarithm of a likelihood ratio: how much more often right poses
// look like this than wrong ones. Its weights were fitted as a conditional logit (the right
// candidate among the others of its scene) and not chosen by hand: over assembled objects in
// scenes as two kinds of sensors see them, one that loses pixels along edges, and such as fill
// them from behind, shift and round them (tools/bench/testsensor.h). What is rare in generated
// scenes gets little weight, as a real image may be full of it: tools/bench/search_weights.c fits
// them. Of the drawn model trees stand on top of the weights (score_trees.h), and no pose at all
// is one of the choices, worth 0, so that its score says how sure it is that the object is there.
// What tells right from wrong most when a third of the object is seen: that what hides the rest
// begins with a jump in depth (where the surface runs on smoothly into it, the two are one thing
// and no part of the object), that much of the outline is where the image has edges, and that the
// image jumps where one part of the model hides another, which a wrong pose meets by chance.
#ifndef POSED_GPU_SEARCH_KERNELS_SCORE_H
#define POSED_GPU_SEARCH_KERNELS_SCORE_H

#include "gpu/search/kernels/pose.h"
#include "gpu/search/kernels/score_trees.h"

#define SEARCH_SQUARE_UNIT  1048576 // steps in a metre of residual
#define SEARCH_NORMALS_UNIT 65536.f
#define SEARCH_AGREE_UNIT   64.f  // steps in one of what agrees
#define SEARCH_AGREE_MOST   6.f   // of a pixel, for a pose and against it
#define SEARCH_FACES        0.85f // cosine: the image's surface faces as the model's

struct search_tally {
    uint32_t n, n_match, n_tight, n_free, n_wrong, n_plane, n_hidden;
    uint32_t n_just; // of the hidden: by something close in front
    int64_t square;  // of residuals, (m / SEARCH_SQUARE_UNIT)^2
    // Of the drawn model only.
    uint32_t n_crossed, n_merged; // pairs of pixels, one matching, the other hidden
    uint32_t n_jumps, n_shown;    // where one part hides another; of these: the image has it
    uint32_t n_deep;              // of what matches: away from the outline
    int64_t normals[6];           // n n^T of what matches, upper triangle, 1 / SEARCH_NORMALS_UNIT
    int64_t agree;                // 1 / SEARCH_AGREE_UNIT
};

// What lies more than two gates in front is an occluder and says nothing, nor does a missing
// measurement. scene: normal and z of the image. Returns whether it matches.
KERNEL_FN bool search_score_pixel(const float scene[4], float z, const float n[3], float gate_m,
                                  struct search_tally *tally)
{
    const float d = kernel_abs(scene[3]) - z;
    tally->n++;
    if (scene[3] == 0.f || d < -2 * gate_m) {
        tally->n_hidden++;
        tally->n_just += (scene[3] != 0.f) & (d > -4 * gate_m);
        return false;
    }
    if (d > gate_m) {
        tally->n_free++;
        return false;
    }
    if (scene[3] < 0.f) {
        tally->n_plane++;
        return false;
    }
    bool has_normal = scene[0] != 0.f || scene[1] != 0.f || scene[2] != 0.f;
    float cosine = n[0] * scene[0] + n[1] * scene[1] + n[2] * scene[2];
    if (d < -gate_m || (has_normal && cosine < 0.7f)) {
        tally->n_wrong++;
        return false;
    }
    int64_t steps = (int32_t)(d * (float)SEARCH_SQUARE_UNIT);
    tally->n_match++;
    tally->n_tight += kernel_abs(d) < 0.4f * gate_m;
    tally->square += steps * steps;
    return true;
}

// What the outline says where the image shows the model just inside of it; n: looked at, the rest
// cannot be told.
struct search_outline {
    uint32_t n;
    uint32_t n_ended;     // beyond, the scene lies farther back or gives no echo: an edge
    uint32_t n_floor;     // it goes on as a plane larger than the object
    uint32_t n_smooth;    // it goes on in the plane of the surface inside: no object ends there
    uint32_t n_continued; // it goes on otherwise: something touches
    uint32_t n_sharp;     // drawn model only: an edge already SEARCH_SHARP_PX beyond
};

// Whether the scene lies behind a surface at z. No echo: the shadow beside an edge or the end of a
// segmented object - or the shadow of another thing on this one, which says nothing.
KERNEL_FN bool search_is_behind(const float scene[4], float z, float gate_m)
{
    const float behind = scene[3] == 0.f ? scene[0] : kernel_abs(scene[3]);
    return behind == 0.f || behind > z + gate_m;
}

// How a scene goes on from pixel a to b, at rays of z 1: in the plane of a.
KERNEL_FN bool search_is_smooth(const float a[4], const float b[4], const float ray_a[3],
                                const float ray_b[3], float cosine_least, float off_most_m)
{
    float off = 0, cosine = 0, length = 0;
    for (int k = 0; k < 3; k++) {
        off += a[k] * (ray_b[k] * kernel_abs(b[3]) - ray_a[k] * kernel_abs(a[3]));
        cosine += a[k] * b[k];
        length += a[k] * a[k];
    }
    return (length > 0.5f) & (cosine > cosine_least) & (kernel_abs(off) < off_most_m);
}

// The scene `inside` and `outside` of the outline (normal and z), at rays of z 1. z: the model's;
// n_in: its normal inside, NULL: not asked. Where the surface inside faces otherwise than the model
// it is what the object stands on or touches, which goes on of course.
KERNEL_FN void search_score_outline(const float inside[4], const float outside[4],
                                    const float ray_in[3], const float ray_out[3], float z_in,
                                    const float *n_in, float z, float gate_m,
                                    struct search_outline *outline)
{
    outline->n++;
    if (inside[3] == 0.f || kernel_abs(kernel_abs(inside[3]) - z_in) > gate_m)
        return;
    if (search_is_behind(outside, z, gate_m)) {
        outline->n_ended++;
        return;
    }
    if (outside[3] == 0.f || kernel_abs(outside[3]) < z - gate_m)
        return;
    const bool faces =
        !n_in || n_in[0] * inside[0] + n_in[1] * inside[1] + n_in[2] * inside[2] >= SEARCH_FACES;
    if (outside[3] < 0.f)
        outline->n_floor++;
    else if (faces && search_is_smooth(inside, outside, ray_in, ray_out, 0.9f, 2 * search_sigma(z)))
        outline->n_smooth++;
    else
        outline->n_continued++;
}

// ---- The likelihood ratio

enum search_evidence {
    SEARCH_SCORE_LOOSE,  // a view's points after the first steps
    SEARCH_SCORE_POINTS, // a view's points, settled
    SEARCH_SCORE_DRAWN,  // every pixel of the drawn model
};

#define SEARCH_N_FEATURES  31
#define SEARCH_FEATURE_ONE 22 // 1 of every pose: a score of 0 is that of no pose at all

// Shares of the model's visible side and of its outline; the area, because an object seen end on
// fits by chance; the gate, because far away everything fits; of the drawn model (13 to 18) how
// many ways the matching surface faces, because one plane fits anywhere on another; how much of the
// pose is seen to match at all, because little is seen at the image's edge and behind others; the
// model's own jumps that the image shows; and how long the outline is at which it has an edge. From
// 23 on: how much is hidden, and hidden by something so close in front that it may be the surface
// itself; how rough the match is and how well it agrees pixel by pixel; how much can be told at all
// of outline, borders and jumps; and the area that matches away from the outline, where sensors
// make fewer errors.
KERNEL_FN void search_features(const struct search_candidate *c, float out[SEARCH_N_FEATURES])
{
    const float least = 0.05f;
    out[0] = sqrtf(c->area);
    out[1] = c->tight;
    out[2] = c->free;
    out[3] = c->wrong;
    out[4] = c->plane;
    out[5] = c->continued;
    out[6] = c->ended;
    out[7] = c->smooth;
    out[8] = c->gate;
    out[9] = c->free / (c->match + least);
    out[10] = c->wrong / (c->match + least);
    out[11] = sqrtf(c->ended);
    out[12] = c->floor;
    out[13] = c->merged;
    out[14] = c->sharp;
    out[15] = sqrtf(c->sharp);
    out[16] = c->spread;
    out[17] = sqrtf(c->volume);
    out[18] = sqrtf(sqrtf(c->area));
    out[19] = c->match;
    out[20] = sqrtf(c->shown);
    out[21] = sqrtf(c->edged);
    out[SEARCH_FEATURE_ONE] = 1;
    out[23] = c->hidden;
    out[24] = c->rough;
    out[25] = c->agreed;
    out[26] = c->told;
    out[27] = sqrtf(c->crossed);
    out[28] = sqrtf(c->jumps);
    out[29] = sqrtf(c->deep);
    out[30] = sqrtf(c->just);
}

// trees: search_trees_worth of the same features; of the drawn model only.
KERNEL_FN float search_worth(enum search_evidence evidence, const float features[SEARCH_N_FEATURES],
                             int32_t trees)
{
    // clang-format off
    //  area tight free wrong plane contin. ended smooth gate free/m wrong/m ended floor
    const float loose[SEARCH_N_FEATURES] =
        {2.f, 10.1f, -16.1f, -8.4f, -6.9f, -1.6f, -0.9f, -14.5f, -7.3f, 1.4f, 0.6f, 10.3f, -8.5f};
    const float points[SEARCH_N_FEATURES] =
        {10.1f, 10.2f, -18.3f, 0.3f, -9.6f, -5.2f, -0.4f, -26.3f, -2.6f, -1.8f, -4.3f, 11.f, -8.8f,
         0, 0, 0, 0, 0, 0, -4.5f};
    //  and: merged sharp sharp spread volume area match shown edged
    const float drawn[SEARCH_N_FEATURES] =
        {-3.5f, 4.5f, -4.7f, -3.3f, 0.5f, 1.4f, -4.f, -11.5f, -9.8f, 0.9f, -1.7f, -8.7f, -1.4f,
         -6.5f, 8.2f, 6.7f, 3.9f, 7.6f, 1.2f, -2.5f, 4.8f, 6.3f, -9.6f, 0.5f, 2.1f, 0.7f, -5.3f,
         1.6f, 1.f, 3.7f, -5.6f};
    // clang-format on
    const float *weights = evidence == SEARCH_SCORE_LOOSE    ? loose
                           : evidence == SEARCH_SCORE_POINTS ? points
                                                             : drawn;
    float sum = 0;
    for (int k = 0; k < SEARCH_N_FEATURES; k++)
        sum += weights[k] * features[k];
    return evidence == SEARCH_SCORE_DRAWN ? sum + (float)trees / SEARCH_TREE_UNIT : sum;
}

KERNEL_FN float search_likelihood(enum search_evidence evidence, const struct search_candidate *c)
{
    float features[SEARCH_N_FEATURES];
    search_features(c, features);
    return search_worth(evidence, features,
                        evidence == SEARCH_SCORE_DRAWN ? search_trees_worth(features) : 0);
}

// Second and third invariant of the normals' scatter: how far they fill a plane, and space.
KERNEL_FN void search_normals_spread(const struct search_tally *tally, float *out_spread,
                                     float *out_volume)
{
    float m[6];
    for (int k = 0; k < 6; k++)
        m[k] = (float)tally->normals[k] / SEARCH_NORMALS_UNIT / (float)(tally->n_match + 1);
    const float volume = m[0] * (m[3] * m[5] - m[4] * m[4]) - m[1] * (m[1] * m[5] - m[4] * m[2]) +
                         m[2] * (m[1] * m[4] - m[3] * m[2]);
    *out_spread = m[0] * m[3] + m[0] * m[5] + m[3] * m[5] - m[1] * m[1] - m[2] * m[2] - m[4] * m[4];
    *out_volume = volume > 0 ? volume : 0;
}

// Fills the candidate's shares. gate_m: of a pixel at the candidate's depth; unit: the area that a
// match stands for. Where little of the outline can be told little is concluded from how it goes
// on.
KERNEL_FN void search_shares(const struct search_tally *tally, const struct search_outline *outline,
                             float radius_m, float gate_m, float unit, struct search_candidate *c)
{
    const float n = (float)(tally->n ? tally->n : 1), n_match = (float)tally->n_match;
    const uint32_t n_told =
        outline->n_ended + outline->n_floor + outline->n_smooth + outline->n_continued;
    const uint32_t least = outline->n / 4 + 1;
    const float told = (float)(n_told > least ? n_told : least);
    c->match = n_match / n;
    c->tight = (float)tally->n_tight / (n_match + 0.01f * n);
    c->free = (float)tally->n_free / n;
    c->wrong = (float)tally->n_wrong / n;
    c->plane = (float)tally->n_plane / n;
    c->hidden = (float)tally->n_hidden / n;
    c->n_match = tally->n_match;
    c->just = (float)tally->n_just / n;
    c->rms_m =
        tally->n_match ? sqrtf((float)tally->square / n_match) / (float)SEARCH_SQUARE_UNIT : 0;
    c->ended = (float)outline->n_ended / (float)(outline->n + 1);
    c->continued = (float)outline->n_continued / told;
    c->smooth = (float)outline->n_smooth / told;
    c->floor = (float)outline->n_floor / told;
    c->sharp = (float)outline->n_sharp / (float)(outline->n + 1);
    c->merged = (float)tally->n_merged / (float)(tally->n_crossed + 20);
    c->shown = (float)tally->n_shown / (float)(tally->n_jumps + 20);
    c->edged = (float)outline->n_ended * sqrtf(unit);
    c->rough = c->rms_m / gate_m;
    c->told = (float)n_told / (float)(outline->n + 1);
    c->crossed = (float)tally->n_crossed / n;
    c->jumps = (float)tally->n_jumps / n;
    c->deep = (float)tally->n_deep * unit;
    search_normals_spread(tally, &c->spread, &c->volume);
    c->agree = (float)tally->agree / SEARCH_AGREE_UNIT;
    c->agreed = c->agree / n;
    c->area = n_match * unit;
    c->gate = gate_m / radius_m;
}

// ---- A view's stored points

// Gate of a point at depth z: that of the evidence and the sensor's.
KERNEL_FN float search_points_gate_m(enum search_evidence evidence, float radius_m, float z_m)
{
    float share = evidence == SEARCH_SCORE_LOOSE ? 0.15f : 0.03f;
    return share * radius_m + 3 * search_sigma(z_m);
}

KERNEL_FN void search_score_point(const struct search_scene *scene,
                                  const struct search_candidate *c, const float p[3],
                                  const float m[3], enum search_evidence evidence, float radius_m,
                                  struct search_tally *tally)
{
    const float nothing[4] = {0, 0, 0, 0};
    float q[3], n[3];
    search_turn(c->rotation, p, q);
    search_turn(c->rotation, m, n);
    for (int k = 0; k < 3; k++)
        q[k] += c->t_m[k];
    int32_t at = search_pixel_at(&scene->camera, q);
    search_score_pixel(at < 0 ? nothing : scene->normal_z + 4 * (size_t)at, q[2], n,
                       search_points_gate_m(evidence, radius_m, q[2]), tally);
}

// A point just outside of the view's silhouette and one just inside, in the model's frame.
KERNEL_FN void search_score_ring(const struct search_scene *scene, const struct search_candidate *c,
                                 const float p_out[3], const float p_in[3],
                                 enum search_evidence evidence, float radius_m,
                                 struct search_outline *outline)
{
    const struct search_camera *cam = &scene->camera;
    float out[3], in[3];
    search_turn(c->rotation, p_out, out);
    search_turn(c->rotation, p_in, in);
    for (int k = 0; k < 3; k++) {
        out[k] += c->t_m[k];
        in[k] += c->t_m[k];
    }
    int32_t at_out = search_pixel_at(cam, out), at_in = search_pixel_at(cam, in);
    if (at_out < 0 || at_in < 0) {
        outline->n++;
        return;
    }
    float ray_out[3], ray_in[3];
    search_pixel_ray(cam, at_out % cam->width, at_out / cam->width, ray_out);
    search_pixel_ray(cam, at_in % cam->width, at_in / cam->width, ray_in);
    search_score_outline(scene->normal_z + 4 * (size_t)at_in, scene->normal_z + 4 * (size_t)at_out,
                         ray_in, ray_out, in[2], NULL, in[2],
                         1.5f * search_points_gate_m(evidence, radius_m, in[2]), outline);
}

// Shares and score. n_cover: foreground pixels of the view's map, whose pixels are px_m wide.
KERNEL_FN void search_conclude_points(enum search_evidence evidence,
                                      const struct search_tally *tally,
                                      const struct search_outline *outline, float radius_m,
                                      float px_m, uint32_t n_cover, struct search_candidate *c)
{
    const float px = px_m / radius_m;
    search_shares(tally, outline, radius_m, search_points_gate_m(evidence, radius_m, c->t_m[2]),
                  px * px * (float)n_cover / (float)(tally->n ? tally->n : 1), c);
    c->score = search_likelihood(evidence, c);
}

// ---- The drawn model

#define SEARCH_OUTSIDE_PX 4 // how far outside of the outline is looked
#define SEARCH_SHARP_PX   2 // where an edge that fits well is
#define SEARCH_INSIDE_PX  5 // and how far inside at most: sensors lose the pixels along an edge
#define SEARCH_JUMP_PX    4 // in all four directions, for one part of the model behind another
#define SEARCH_JUMP_GATES 6 // at least so far behind
// To the right and below, for the border of what hides the model: a sensor may round a step into a
// slope of so many pixels.
#define SEARCH_CROSS_PX   8

KERNEL_FN float search_drawn_gate_m(float radius_m, float z_m)
{
    return 0.012f * radius_m + 2.5f * search_sigma(z_m);
}

// How much likelier a measurement is of the model's surface than of any other, as twice a
// logarithm: which of two poses that nearly look the same is the better one is a question of a
// fraction of the gate at many pixels, and the shares of search_features do not see it. What says
// nothing about a pixel (an occluder, no measurement, the table that it stands on) is 0.
KERNEL_FN float search_score_agrees(const float scene[4], float z, float slant, float gate_m)
{
    const float d = kernel_abs(scene[3]) - z, off = d * slant / search_sigma(z);
    if (scene[3] == 0.f || d < -2 * gate_m || (scene[3] < 0.f && kernel_abs(d) < gate_m))
        return 0;
    const float agrees = SEARCH_AGREE_MOST - off * off;
    return agrees > -SEARCH_AGREE_MOST ? agrees : -SEARCH_AGREE_MOST;
}

// A surface seen at a slant moves more in z for the same misplacement. ray: the pixel's, z 1.
// Returns the pixel's gate where it matches, else 0.
KERNEL_FN float search_score_drawn(const float scene[4], float z, const float n[3],
                                   const float ray[3], float radius_m, struct search_tally *tally)
{
    float slant = -(n[0] * ray[0] + n[1] * ray[1] + n[2] * ray[2]);
    slant = slant > 0.3f ? slant : 0.3f;
    const float gate_m = search_drawn_gate_m(radius_m, z) / slant;
    tally->agree += (int32_t)(search_score_agrees(scene, z, slant, gate_m) * SEARCH_AGREE_UNIT);
    if (!search_score_pixel(scene, z, n, gate_m, tally))
        return 0;
    for (int i = 0, k = 0; i < 3; i++)
        for (int j = i; j < 3; j++, k++)
            tally->normals[k] += (int32_t)(n[i] * n[j] * SEARCH_NORMALS_UNIT);
    return gate_m;
}

// Beside a pixel that matches at z (gate_m: its gate) the model is drawn at z_far: where that lies
// behind, the scene must show it there. far: normal and z of the image.
KERNEL_FN void search_score_jump(const float far[4], float z, float z_far, float gate_m,
                                 struct search_tally *tally)
{
    if (z_far - z < SEARCH_JUMP_GATES * gate_m)
        return;
    tally->n_jumps++;
    tally->n_shown += kernel_abs(kernel_abs(far[3]) - z_far) < 2 * gate_m;
}

// Pixel (u, v) of the image, where the model is drawn at z, and the one SEARCH_CROSS_PX to the
// right or below, where it is at z_next. 1: the first one matches and the other is hidden, -1: the
// other way round, 0: neither.
KERNEL_FN int search_score_cross(const struct search_scene *scene, int32_t u, int32_t v, bool below,
                                 float z, float z_next, float radius_m)
{
    const int32_t u_next = u + (below ? 0 : SEARCH_CROSS_PX);
    const int32_t v_next = v + (below ? SEARCH_CROSS_PX : 0);
    const size_t width = (size_t)scene->camera.width;
    const float *here = scene->normal_z + 4 * ((size_t)v * width + (size_t)u);
    const float *next = scene->normal_z + 4 * ((size_t)v_next * width + (size_t)u_next);
    const float gate_m = search_drawn_gate_m(radius_m, z);
    const float d = kernel_abs(here[3]) - z, d_next = kernel_abs(next[3]) - z_next;
    const bool into = (kernel_abs(d) < gate_m) & (d_next < -2 * gate_m);
    const bool out_of = (kernel_abs(d_next) < gate_m) & (d < -2 * gate_m);
    if (here[3] == 0.f || next[3] == 0.f)
        return 0;
    return into ? 1 : out_of ? -1 : 0;
}

// Pixel (u, v) of the image matches the model, drawn there at z with normal n, and (u_hidden,
// v_hidden) is hidden: the scene must jump in between. Not asked where the surface faces otherwise:
// it is a step that the sensor has rounded.
KERNEL_FN void search_score_border(const struct search_scene *scene, int32_t u, int32_t v,
                                   int32_t u_hidden, int32_t v_hidden, float z, const float n[3],
                                   struct search_tally *tally)
{
    const size_t width = (size_t)scene->camera.width;
    const float *match = scene->normal_z + 4 * ((size_t)v * width + (size_t)u);
    const float *hidden = scene->normal_z + 4 * ((size_t)v_hidden * width + (size_t)u_hidden);
    if (match[0] * n[0] + match[1] * n[1] + match[2] * n[2] < SEARCH_FACES)
        return;
    float ray[3], ray_hidden[3];
    search_pixel_ray(&scene->camera, u, v, ray);
    search_pixel_ray(&scene->camera, u_hidden, v_hidden, ray_hidden);
    tally->n_crossed++;
    tally->n_merged +=
        search_is_smooth(match, hidden, ray, ray_hidden, SEARCH_FACES, 2 * search_sigma(z));
}

// The first pixel that is measured on the way from (u, v) against (du, dv): 1 to SEARCH_INSIDE_PX,
// or where the image ends. The one beside (u, v) must lie in the image.
KERNEL_FN int32_t search_score_inside(const struct search_scene *scene, int32_t u, int32_t v,
                                      int32_t du, int32_t dv)
{
    const int32_t width = scene->camera.width, height = scene->camera.height;
    for (int32_t k = 1;; k++) {
        const int32_t u_k = u - k * du, v_k = v - k * dv, u_next = u_k - du, v_next = v_k - dv;
        const bool ends = (u_next < 0) | (v_next < 0) | (u_next >= width) | (v_next >= height);
        if (k == SEARCH_INSIDE_PX || ends ||
            scene->normal_z[4 * ((size_t)v_k * (size_t)width + (size_t)u_k) + 3] != 0.f)
            return k;
    }
}

// Outline pixel (u, v) of the image where the model is drawn at z; (du, dv): one pixel outwards;
// z_in, normal_in: the model n_in pixels inwards. All these pixels must lie in the image.
KERNEL_FN void search_score_edge(const struct search_scene *scene, int32_t u, int32_t v, int32_t du,
                                 int32_t dv, int32_t n_in, float z_in, const float normal_in[3],
                                 float z, float radius_m, struct search_outline *outline)
{
    const int32_t u_in = u - n_in * du, v_in = v - n_in * dv;
    const int32_t u_out = u + SEARCH_OUTSIDE_PX * du, v_out = v + SEARCH_OUTSIDE_PX * dv;
    const int32_t u_sharp = u + SEARCH_SHARP_PX * du, v_sharp = v + SEARCH_SHARP_PX * dv;
    const size_t width = (size_t)scene->camera.width;
    const float *inside = scene->normal_z + 4 * ((size_t)v_in * width + (size_t)u_in);
    const float *outside = scene->normal_z + 4 * ((size_t)v_out * width + (size_t)u_out);
    const float *sharp = scene->normal_z + 4 * ((size_t)v_sharp * width + (size_t)u_sharp);
    const float gate_m = 0.048f * radius_m + 3 * search_sigma(z);
    float ray_in[3], ray_out[3];
    search_pixel_ray(&scene->camera, u_in, v_in, ray_in);
    search_pixel_ray(&scene->camera, u_out, v_out, ray_out);
    search_score_outline(inside, outside, ray_in, ray_out, z_in, normal_in, z, gate_m, outline);
    outline->n_sharp += (inside[3] != 0.f) & (kernel_abs(kernel_abs(inside[3]) - z_in) <= gate_m) &
                        search_is_behind(sharp, z, gate_m);
}

KERNEL_FN void search_shares_drawn(const struct search_camera *cam,
                                   const struct search_tally *tally,
                                   const struct search_outline *outline, float radius_m,
                                   struct search_candidate *c)
{
    const float z = c->t_m[2] / radius_m;
    search_shares(tally, outline, radius_m, search_drawn_gate_m(radius_m, c->t_m[2]),
                  z * z / kernel_abs(cam->fx * cam->fy), c);
}

KERNEL_FN void search_conclude_drawn(const struct search_camera *cam,
                                     const struct search_tally *tally,
                                     const struct search_outline *outline, float radius_m,
                                     struct search_candidate *c)
{
    search_shares_drawn(cam, tally, outline, radius_m, c);
    c->score = search_likelihood(SEARCH_SCORE_DRAWN, c);
}

#endif
