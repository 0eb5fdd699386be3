// SPDX-License-Identifier: Apache-2.0
// Keyframes whose links and revisits are what the test says: takes the place of
// gpu/model/keyframe_constraint.c and loop_closure.c. An image is known by the first depth of its
// keyframe. One inclusion a program, after cmocka's.
#ifndef POSED_TESTS_UNIT_GPU_FAKE_LINKS_H
#define POSED_TESTS_UNIT_GPU_FAKE_LINKS_H

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/pose_graph_private.h"
#include "proto/se3.h"

#define FAKE_KEYFRAMES 128
#define FAKE_PX        6

static const struct intrinsics fake_camera = {10, 10, 0, 0, 3, 2};
static const struct log_sink fake_quiet = {NULL, NULL};

static uint32_t fake_id(const struct align_image *image)
{
    return (uint32_t)image->n_bytes;
}

static float fake_image_m[FAKE_PX]; // that an image was made from last

// What was measured last, and what that says: a link is as it was asked for unless a test has
// fake_measure change it.
static struct {
    uint32_t image, other;
    struct link link;
} fake_asked[LINK_MAX];
static uint32_t fake_n_asked;
static void (*fake_measure)(uint32_t image, uint32_t other, struct link *inout);

static double fake_overlaps[FAKE_KEYFRAMES];        // of each with the newest
static double fake_overlap_doubt_m[FAKE_KEYFRAMES]; // as asked for
static uint32_t fake_overlap_image;
static struct se3 fake_overlap_T[FAKE_KEYFRAMES];
static double fake_conflict;      // of any two
static double fake_chain_worth;   // information of each direction of a step
static bool fake_detour_tells;    // which is less by the square of its way over its motion
static uint32_t fake_chain_steps; // of the last chain
static double fake_tie_motion;    // of the last tie

// What was looked for again, and what is found.
static struct revisit_place fake_places[REVISIT_PLACES];
static uint32_t fake_n_places, fake_n_revisits;
static double fake_usual_rms_m;
static struct revisit fake_revisit;
static bool fake_is_found, fake_agrees;
static struct se3 fake_agree_T[2];
static double fake_agree_motion;

int link_maker_create(struct link_maker **out, const struct log_sink *log)
{
    (void)log;
    *out = NULL;
    return 0;
}

void link_maker_destroy(struct link_maker **maker)
{
    *maker = NULL;
}

void link_maker_set_yield(struct link_maker *maker, const struct yield *yield)
{
    (void)maker;
    (void)yield;
}

int link_image(struct align_image **out, const float *z_m, const struct intrinsics *camera)
{
    (void)camera;
    *out = NULL;
    if (z_m[0] < 0)
        return -EINVAL;
    *out = calloc(1, sizeof **out);
    (*out)->n_bytes = (size_t)z_m[0];
    memcpy(fake_image_m, z_m, sizeof fake_image_m);
    return 0;
}

double link_overlap(const struct align_image *image, const struct align_image *other,
                    const struct se3 *T_other_image, double doubt_m)
{
    fake_overlap_image = fake_id(image);
    fake_overlap_doubt_m[fake_id(other)] = doubt_m;
    fake_overlap_T[fake_id(other)] = *T_other_image;
    return fake_overlaps[fake_id(other)];
}

double link_conflict(const struct align_image *image, const struct align_image *other,
                     const struct se3 *T_other_image)
{
    (void)image;
    (void)other;
    (void)T_other_image;
    return fake_conflict;
}

double link_motion(const struct se3 *T)
{
    return hypot(hypot(T->t_m[0], T->t_m[1]), T->t_m[2]) + se3_angle(T);
}

void link_chain(struct link *link, const struct se3 *T_j_i, double way, uint32_t steps)
{
    const double detour = fake_detour_tells ? fmax(1, way / link_motion(T_j_i)) : 1;
    fake_chain_steps = steps;
    *link = (struct link){.T_j_i = *T_j_i, .overlap = 1, .good = true};
    for (int i = 0; i < 36; i += 7)
        link->information[i] = fake_chain_worth / (detour * detour);
}

void link_tie(struct link *link, const struct se3 *T_j_i, double motion)
{
    fake_tie_motion = motion;
    *link = (struct link){.T_j_i = *T_j_i, .overlap = 1, .good = true};
    for (int i = 0; i < 36; i += 7)
        link->information[i] = 1e9;
}

int link_measure(struct link_maker *maker, const struct align_image *image,
                 const struct align_image *const *others, uint32_t n, struct link *inout)
{
    (void)maker;
    fake_n_asked = n;
    for (uint32_t k = 0; k < n; k++) {
        fake_asked[k].image = fake_id(image);
        fake_asked[k].other = fake_id(others[k]);
        fake_asked[k].link = inout[k];
        inout[k].good = true;
        inout[k].rms_m = 0.002;
        inout[k].overlap = 1;
        inout[k].weakest = 0.01;
        memset(inout[k].information, 0, sizeof inout[k].information);
        for (int i = 0; i < 36; i += 7)
            inout[k].information[i] = 1e4;
        if (fake_measure)
            fake_measure(fake_id(image), fake_id(others[k]), &inout[k]);
    }
    return 0;
}

int revisit_find(struct link_maker *maker, const struct align_image *image,
                 const struct se3 *T_map_camera, const struct revisit_place *places, uint32_t n,
                 double usual_rms_m, struct revisit *out, bool *out_found)
{
    (void)maker;
    (void)image;
    (void)T_map_camera;
    fake_n_places = n;
    fake_usual_rms_m = usual_rms_m;
    fake_n_revisits++;
    memcpy(fake_places, places, n * sizeof *places);
    *out_found = fake_is_found;
    if (fake_is_found)
        *out = fake_revisit;
    return 0;
}

bool revisit_agree(const struct se3 *a, const struct se3 *b, double motion)
{
    fake_agree_T[0] = *a;
    fake_agree_T[1] = *b;
    fake_agree_motion = motion;
    return fake_agrees;
}

static void fake_reset(void)
{
    fake_measure = NULL;
    fake_n_asked = fake_n_places = fake_n_revisits = 0;
    fake_is_found = fake_agrees = false;
    fake_conflict = 0;
    fake_chain_worth = 1e4;
    fake_detour_tells = false;
    for (int i = 0; i < FAKE_KEYFRAMES; i++)
        fake_overlaps[i] = 0.9;
}

static inline struct se3 fake_pose(double x_m, double y_m, double z_m, double yaw_rad)
{
    const double turn[6] = {0, 0, 0, 0, yaw_rad, 0};
    struct se3 T = se3_exp(turn);
    T.t_m[0] = x_m;
    T.t_m[1] = y_m;
    T.t_m[2] = z_m;
    return T;
}

static inline void assert_same_pose(const struct se3 *got, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        assert_true(fabs(got->r[i] - expected->r[i]) < 1e-9);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(got->t_m[i] - expected->t_m[i]) < 1e-9);
}

static inline struct graph *fake_graph(uint32_t max_keyframes, uint32_t max_links)
{
    struct graph *graph;
    const struct graph_settings settings = {.max_keyframes = max_keyframes, .max_links = max_links};
    fake_reset();
    assert_int_equal(graph_create(&graph, &fake_camera, &settings, &fake_quiet), 0);
    return graph;
}

// One more keyframe as it is, chained to none.
static inline void fake_keyframe(struct graph *g, const struct se3 *T_odom_camera,
                                 const struct se3 *T_map_camera)
{
    float *z_m = g->z_m[g->n] = calloc(FAKE_PX, sizeof *z_m);
    for (uint32_t px = 0; px < FAKE_PX; px++)
        z_m[px] = (float)(g->n_ever + px);
    assert_int_equal(link_image(&g->images[g->n], z_m, &fake_camera), 0);
    g->arrival[g->n] = g->n_ever++;
    g->keyframes[g->n] = (struct graph_keyframe){
        .seq = g->arrival[g->n], .T_odom_camera = *T_odom_camera, .T_map_camera = *T_map_camera};
    if (g->n > 0) {
        const struct graph_keyframe *last = &g->keyframes[g->n - 1];
        const struct se3 step = se3_between(&last->T_odom_camera, T_odom_camera);
        g->keyframes[g->n].walked = last->walked + link_motion(&step);
    }
    g->n++;
}

static inline struct edge *fake_edge(struct graph *g, uint32_t i, uint32_t j, bool chain)
{
    struct edge *e = &g->edges[g->n_edges++];
    const struct se3 T_j_i =
        se3_between(&g->keyframes[j].T_odom_camera, &g->keyframes[i].T_odom_camera);
    *e = (struct edge){.i = i, .j = j, .span = g->arrival[j] - g->arrival[i], .chain = chain};
    e->news = 1;
    link_chain(&e->link, &T_j_i, link_motion(&T_j_i), 1);
    e->link.rms_m = 0.002;
    return e;
}

#endif
