// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/cpu/icp.h"

#include <string.h>

#include "gpu/base/parallel.h"

typedef float lanes __attribute__((vector_size(MODEL_POINTS_LANES * sizeof(float))));
typedef int32_t int_lanes __attribute__((vector_size(MODEL_POINTS_LANES * sizeof(int32_t))));

void model_points_pad(struct model_points *out)
{
    for (; out->n % MODEL_POINTS_LANES; out->n++)
        for (int k = 0; k < 3; k++) {
            out->p[k][out->n] = -1e6f;
            out->n_[k][out->n] = 0;
        }
}

#define BLOCK 64 // points whose rows are made together

struct icp_block {
    float arm[3][BLOCK], n[3][BLOCK], u[BLOCK], v[BLOCK], s[4][BLOCK];
    int32_t pixel[BLOCK], use[BLOCK];
    float j[6][BLOCK], r[BLOCK], w[BLOCK];
};

// Rows of points from .. from + n - 1. The image is gathered between two vectorised loops.
static inline __attribute__((always_inline)) void
icp_rows(const struct search_scene *scene, const struct model_points *points, uint32_t from,
         uint32_t n, const struct search_icp_gates *gates, float inverse_radius,
         const struct search_candidate *c, struct icp_block *restrict b)
{
    const struct search_camera cam = scene->camera;
    const struct search_icp_gates limits = *gates;
    float rotation[9], t_m[3];
    memcpy(rotation, c->rotation, sizeof rotation);
    memcpy(t_m, c->t_m, sizeof t_m);
#pragma omp simd
    for (uint32_t i = 0; i < n; i++) {
        struct search_vec3 p = {points->p[0][from + i], points->p[1][from + i],
                                points->p[2][from + i]};
        struct search_vec3 m = {points->n_[0][from + i], points->n_[1][from + i],
                                points->n_[2][from + i]};
        struct search_icp_place at = search_icp_project(&cam, rotation, t_m, p, m);
        b->arm[0][i] = at.arm.x;
        b->arm[1][i] = at.arm.y;
        b->arm[2][i] = at.arm.z;
        b->n[0][i] = at.n.x;
        b->n[1][i] = at.n.y;
        b->n[2][i] = at.n.z;
        b->u[i] = at.u;
        b->v[i] = at.v;
        b->pixel[i] = at.pixel;
        b->use[i] = at.use;
    }
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 4; k++)
            b->s[k][i] = scene->normal_z[4 * (size_t)b->pixel[i] + (size_t)k];
#pragma omp simd
    for (uint32_t i = 0; i < n; i++) {
        struct search_icp_place at = {{b->arm[0][i], b->arm[1][i], b->arm[2][i]},
                                      {b->n[0][i], b->n[1][i], b->n[2][i]},
                                      b->u[i],
                                      b->v[i],
                                      0,
                                      b->use[i] != 0};
        struct search_vec3 s = {b->s[0][i], b->s[1][i], b->s[2][i]};
        struct search_icp_row row =
            search_icp_pair(&cam, &limits, inverse_radius, t_m, at, s, b->s[3][i]);
        b->j[0][i] = row.j[0];
        b->j[1][i] = row.j[1];
        b->j[2][i] = row.j[2];
        b->j[3][i] = row.j[3];
        b->j[4][i] = row.j[4];
        b->j[5][i] = row.j[5];
        b->r[i] = row.r;
        b->w[i] = row.w;
    }
}

CPU_CLONES static void sum_points(const struct search_scene *scene,
                                  const struct model_points *points,
                                  const struct search_icp_gates *gates, float radius_m,
                                  const struct search_candidate *c, int64_t out[SEARCH_ICP_SUMS])
{
    struct icp_block block;
    int_lanes sums[SEARCH_ICP_SUMS] = {{0}};
    for (uint32_t from = 0; from < points->n; from += BLOCK) {
        const uint32_t n = points->n - from < BLOCK ? points->n - from : BLOCK;
        icp_rows(scene, points, from, n, gates, 1 / radius_m, c, &block);
        for (uint32_t i = 0; i < n; i += MODEL_POINTS_LANES) {
            lanes j[6], r, w;
            for (int a = 0; a < 6; a++)
                memcpy(&j[a], &block.j[a][i], sizeof j[a]);
            memcpy(&r, &block.r[i], sizeof r);
            memcpy(&w, &block.w[i], sizeof w);
            w *= SEARCH_ICP_UNIT;
            for (int a = 0, k = 0; a < 6; a++) {
                lanes wj = w * j[a];
                for (int b = a; b < 6; b++, k++)
                    sums[k] += __builtin_convertvector(wj * j[b], int_lanes);
                sums[21 + a] += __builtin_convertvector(wj * r, int_lanes);
            }
        }
    }
    for (int k = 0; k < SEARCH_ICP_SUMS; k++) {
        out[k] = 0;
        for (int lane = 0; lane < MODEL_POINTS_LANES; lane++)
            out[k] += sums[k][lane];
    }
}

void model_points_sums(const struct search_scene *scene, const struct model_points *points,
                       const struct search_icp_gates *gates, float radius_m,
                       const struct search_candidate *c, int64_t out[SEARCH_ICP_SUMS])
{
    sum_points(scene, points, gates, radius_m, c, out);
}

float model_points_step(const struct search_scene *scene, const struct model_points *points,
                        const struct search_icp_gates *gates, float radius_m,
                        struct search_candidate *c)
{
    int64_t sums[SEARCH_ICP_SUMS];
    model_points_sums(scene, points, gates, radius_m, c, sums);
    return search_icp_step(sums, radius_m, gates->distance_m, c);
}
