// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/pairs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "proto/se3.h"

#define OVERLAP_COSINE 0.5f // normals within 60 degrees: start poses are rough

void align_pair_settings_default(struct align_pair_settings *out)
{
    *out = (struct align_pair_settings){.gate_m = 0.05,
                                        .max_view_rad = M_PI / 2,
                                        .min_overlap = 0.04,
                                        .relative = 0.8,
                                        .max_an_image = 12};
}

// Does the box of b, brought into a's frame, meet a's box?
static bool boxes_meet(const struct align_sketch *a, const struct align_sketch *b,
                       const struct se3 *T_a_b, double margin_m)
{
    double middle[3], half[3], at[3];
    for (int i = 0; i < 3; i++) {
        middle[i] = 0.5 * (b->low_m[i] + b->high_m[i]);
        half[i] = 0.5 * (b->high_m[i] - b->low_m[i]);
    }
    se3_apply(T_a_b, middle, at);
    for (int i = 0; i < 3; i++) {
        double reach = margin_m;
        for (int j = 0; j < 3; j++)
            reach += fabs(T_a_b->r[3 * i + j]) * half[j];
        if (at[i] - reach > a->high_m[i] || at[i] + reach < a->low_m[i])
            return false;
    }
    return true;
}

static void rotate(const struct se3 *T, const double v[3], double out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = T->r[3 * i] * v[0] + T->r[3 * i + 1] * v[1] + T->r[3 * i + 2] * v[2];
}

// Share of a's samples that find a correspondence in b (the paper's S_a_b).
static float overlap(const struct align_sketch *a, const struct align_sketch *b,
                     const struct se3 *T_b_a, double gate_m)
{
    struct pair_pose T;
    struct pair_gates gates = {(float)gate_m, OVERLAP_COSINE, 0};
    uint32_t n = 0;
    for (int i = 0; i < 9; i++)
        T.r[i] = (float)T_b_a->r[i];
    for (int i = 0; i < 3; i++)
        T.t_m[i] = (float)T_b_a->t_m[i];
    for (uint32_t k = 0; k < a->n_samples; k++) {
        struct pair_vec3 p = {a->sample_m[k][0], a->sample_m[k][1], a->sample_m[k][2]};
        struct pair_vec3 normal = {a->sample_normal[k][0], a->sample_normal[k][1],
                                   a->sample_normal[k][2]};
        struct pair_vec3 q = pair_transform(&T, p);
        struct pair_cell cell =
            pair_project(b->projection, (int32_t)b->width, (int32_t)b->height, q);
        struct pair_plane plane = b->planes[(uint32_t)cell.v * b->width + (uint32_t)cell.u];
        n += pair_residual(&gates, cell.inside, q, pair_rotate(&T, normal), 1.0f, plane).n != 0;
    }
    return a->n_samples ? (float)n / (float)a->n_samples : 0;
}

struct choosing {
    const struct align_sketch *sketches;
    const struct se3 *T_world_image;
    const struct align_pair_settings *settings;
    struct align_pair *pairs;
    uint32_t n_pairs;
};

static void sample_pair(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    struct choosing *c = user;
    struct align_pair *pair = &c->pairs[item];
    struct se3 T_i_j = se3_between(&c->T_world_image[pair->i], &c->T_world_image[pair->j]);
    struct se3 T_j_i = se3_inverse(&T_i_j);
    float of_i = overlap(&c->sketches[pair->i], &c->sketches[pair->j], &T_j_i, c->settings->gate_m);
    float of_j = overlap(&c->sketches[pair->j], &c->sketches[pair->i], &T_i_j, c->settings->gate_m);
    pair->overlap = of_i > of_j ? of_i : of_j;
}

// Boxes and viewing directions: what they leave goes into pairs.
static void choose_near(struct choosing *c, uint32_t n_images, struct align_pair_counts *counts)
{
    double least_cosine = cos(c->settings->max_view_rad);
    for (uint32_t i = 0; i < n_images; i++)
        for (uint32_t j = i + 1; j < n_images; j++) {
            const struct align_sketch *a = &c->sketches[i], *b = &c->sketches[j];
            struct se3 T_i_j = se3_between(&c->T_world_image[i], &c->T_world_image[j]);
            struct se3 T_j_i = se3_inverse(&T_i_j);
            double view[3], p[3], q[3], cosine = 0, d2 = 0;
            counts->all++;
            if (!boxes_meet(a, b, &T_i_j, c->settings->gate_m) ||
                !boxes_meet(b, a, &T_j_i, c->settings->gate_m)) {
                counts->by_box++;
                continue;
            }
            rotate(&T_i_j, b->view, view);
            for (int k = 0; k < 3; k++)
                cosine += a->view[k] * view[k];
            if (cosine < least_cosine) {
                counts->by_view++;
                continue;
            }
            se3_apply(&c->T_world_image[i], a->surface_m, p);
            se3_apply(&c->T_world_image[j], b->surface_m, q);
            for (int k = 0; k < 3; k++)
                d2 += (p[k] - q[k]) * (p[k] - q[k]);
            c->pairs[c->n_pairs++] = (struct align_pair){i, j, 0, (float)sqrt(d2)};
        }
}

static void drop_little_overlap(struct choosing *c, struct align_pair_counts *counts)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->n_pairs; k++)
        if ((double)c->pairs[k].overlap >= c->settings->min_overlap)
            c->pairs[n++] = c->pairs[k];
    counts->by_overlap = c->n_pairs - n;
    c->n_pairs = n;
}

static int by_images(const void *a, const void *b)
{
    const struct align_pair *x = a, *y = b;
    if (x->i != y->i)
        return x->i < y->i ? -1 : 1;
    return (x->j > y->j) - (x->j < y->j);
}

static int by_distance(const void *a, const void *b)
{
    const struct align_pair *x = a, *y = b;
    if (x->distance_m != y->distance_m)
        return x->distance_m < y->distance_m ? -1 : 1;
    return by_images(a, b);
}

static uint32_t root_of(uint32_t *part, uint32_t i)
{
    while (part[i] != i)
        i = part[i] = part[part[i]];
    return i;
}

// The part's least image becomes its root.
static bool join(uint32_t *part, uint32_t i, uint32_t j)
{
    uint32_t a = root_of(part, i), b = root_of(part, j);
    if (a == b)
        return false;
    part[a > b ? a : b] = a > b ? b : a;
    return true;
}

// Relative distance, then the most an image may have, nearest first. A pair is dropped for a
// triangle of which it is the longest side, so that what was connected stays so.
static int drop_far(struct choosing *c, uint32_t n_images, struct align_pair_counts *counts)
{
    float *distance = malloc((size_t)n_images * n_images * sizeof *distance);
    uint32_t *part = malloc(n_images * sizeof *part), *degree = calloc(n_images, sizeof *degree);
    int rc = distance && part && degree ? 0 : -ENOMEM;
    if (rc < 0)
        goto free_all;
    for (size_t k = 0; k < (size_t)n_images * n_images; k++)
        distance[k] = INFINITY;
    for (uint32_t k = 0; k < c->n_pairs; k++) {
        struct align_pair p = c->pairs[k];
        distance[(size_t)p.i * n_images + p.j] = distance[(size_t)p.j * n_images + p.i] =
            p.distance_m;
    }
    for (uint32_t i = 0; i < n_images; i++)
        part[i] = i;
    qsort(c->pairs, c->n_pairs, sizeof *c->pairs, by_distance);
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->n_pairs; k++) {
        struct align_pair p = c->pairs[k];
        float limit = (float)c->settings->relative * p.distance_m;
        bool redundant = false;
        for (uint32_t m = 0; m < n_images && !redundant; m++)
            redundant = distance[(size_t)p.i * n_images + m] < limit &&
                        distance[(size_t)p.j * n_images + m] < limit;
        if (redundant)
            continue;
        bool full =
            degree[p.i] >= c->settings->max_an_image || degree[p.j] >= c->settings->max_an_image;
        if (!join(part, p.i, p.j) && full)
            continue;
        degree[p.i]++;
        degree[p.j]++;
        c->pairs[n++] = p;
    }
    counts->by_distance = c->n_pairs - n;
    c->n_pairs = n;
    qsort(c->pairs, n, sizeof *c->pairs, by_images);
free_all:
    free(distance);
    free(part);
    free(degree);
    return rc;
}

long align_pairs_choose(const struct align_sketch *sketches, const struct se3 *T_world_image,
                        uint32_t n_images, const struct align_pair_settings *settings,
                        struct pool *pool, struct align_pair **out,
                        struct align_pair_counts *out_counts)
{
    size_t n_all = n_images > 1 ? (size_t)n_images * (n_images - 1) / 2 : 1;
    struct choosing c = {sketches, T_world_image, settings, malloc(n_all * sizeof *c.pairs), 0};
    memset(out_counts, 0, sizeof *out_counts);
    *out = NULL;
    if (!c.pairs)
        return -ENOMEM;
    choose_near(&c, n_images, out_counts);
    // Chunks of a pool are counted in 20 bits.
    if (pool && c.n_pairs < 1u << 20)
        parallel_for(pool, c.n_pairs, sample_pair, &c);
    else
        for (uint32_t k = 0; k < c.n_pairs; k++)
            sample_pair(&c, k, 0);
    drop_little_overlap(&c, out_counts);
    int rc = drop_far(&c, n_images, out_counts);
    if (rc < 0) {
        free(c.pairs);
        return rc;
    }
    out_counts->kept = c.n_pairs;
    *out = c.pairs;
    return (long)c.n_pairs;
}

uint32_t align_pairs_parts(const struct align_pair *pairs, uint32_t n_pairs, uint32_t n_images,
                           uint32_t *out_part)
{
    uint32_t n = n_images;
    for (uint32_t i = 0; i < n_images; i++)
        out_part[i] = i;
    for (uint32_t k = 0; k < n_pairs; k++)
        n -= join(out_part, pairs[k].i, pairs[k].j);
    for (uint32_t i = 0; i < n_images; i++)
        out_part[i] = root_of(out_part, i);
    return n;
}
