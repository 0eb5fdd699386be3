// SPDX-License-Identifier: Apache-2.0
// What one point adds to the sums of a GICP iteration: its counterpart, the weight of the pair, its
// part of the truncated cost. Both twins.
#ifndef POSED_GPU_REGISTER_KERNELS_PAIR_H
#define POSED_GPU_REGISTER_KERNELS_PAIR_H

#include "gpu/register/kernels/cells.h"
#include "gpu/register/kernels/gicp.h"
#include "gpu/register/kernels/solve.h"
#include "gpu/register/ops.h"

#define REGISTER_PAIR_FACING 0.5 // |cos| of the angle between the planes of a pair: 60 degrees

// A level of the set whose points are looked for.
struct register_pair_target {
    struct register_cells cells;
    const struct register_cell_point *points, *normals;
};

struct register_pair_rule {
    float reach_m;
    double cut2, inverse_cut2, epsilon;
};

// Adds the source point (p, with normal) to GICP_N_SUMS sums.
KERNEL_FN void register_pair_add(double *sums, const struct register_pair_target *target,
                                 const struct register_pair_rule *rule, const struct se3 *T,
                                 const struct register_cell_point *point,
                                 const struct register_cell_point *normal)
{
    const double p[3] = {point->x, point->y, point->z};
    double y[3], a[3];
    se3_apply(T, p, y);
    for (int i = 0; i < 3; i++)
        a[i] = T->r[3 * i] * normal->x + T->r[3 * i + 1] * normal->y + T->r[3 * i + 2] * normal->z;
    const float at[3] = {(float)y[0], (float)y[1], (float)y[2]};
    float d2;
    const uint32_t j =
        register_cells_nearest(&target->cells, target->points, at, rule->reach_m, &d2);
    sums[GICP_SUM_COST] += 1;
    if (j == REGISTER_CELLS_NONE)
        return;
    const double q[3] = {target->points[j].x, target->points[j].y, target->points[j].z};
    const double b[3] = {target->normals[j].x, target->normals[j].y, target->normals[j].z};
    const double e[3] = {q[0] - y[0], q[1] - y[1], q[2] - y[2]};
    const double apart2 = gicp_apart2(e, a, b);
    const double facing = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    const bool planes =
        (a[0] != 0 || a[1] != 0 || a[2] != 0) && (b[0] != 0 || b[1] != 0 || b[2] != 0);
    if (!(apart2 < rule->cut2) ||
        (planes && facing * facing < REGISTER_PAIR_FACING * REGISTER_PAIR_FACING))
        return;
    const double inside = 1 - apart2 * rule->inverse_cut2, w = inside * inside;
    sums[GICP_SUM_W] += w;
    sums[GICP_SUM_COST] -= inside;
    sums[GICP_SUM_R2] += w * apart2;
    sums[GICP_SUM_PAIRS] += 1;
    gicp_add(sums, w, y, a, q, b, rule->epsilon);
}

// What the sums of n points say of the pose.
KERNEL_FN void register_pair_judge(const double *sums, uint32_t n, struct register_fit *fit)
{
    fit->cost = n ? sums[GICP_SUM_COST] / n : 1;
    fit->share = n ? sums[GICP_SUM_PAIRS] / n : 0;
    fit->n_pairs = (uint32_t)sums[GICP_SUM_PAIRS];
    fit->residual2_m2 = sums[GICP_SUM_W] > 0 ? sums[GICP_SUM_R2] / sums[GICP_SUM_W] : 0;
    int k = GICP_SUM_H;
    for (int i = 0; i < 6; i++)
        for (int j = i; j < 6; j++)
            fit->information[6 * i + j] = fit->information[6 * j + i] = sums[k++];
}

// One step of Gauss and Newton. Returns how far it moves a point at reach_m from the origin at
// most, or a negative number when it is not determined: then T stays.
KERNEL_FN double register_pair_step(const double *sums, double reach_m, struct register_fit *fit)
{
    double h[36], minus_g[6], twist[6];
    int k = GICP_SUM_H;
    for (int i = 0; i < 6; i++) {
        for (int j = i; j < 6; j++)
            h[6 * i + j] = h[6 * j + i] = sums[k++];
        minus_g[i] = -sums[GICP_SUM_G + i];
    }
    if (!(sums[GICP_SUM_PAIRS] >= 6) || !register_solve6(h, minus_g, twist))
        return -1;
    const double turn2 = twist[3] * twist[3] + twist[4] * twist[4] + twist[5] * twist[5];
    const double shift2 = twist[0] * twist[0] + twist[1] * twist[1] + twist[2] * twist[2];
    const struct se3 step = se3_exp(twist);
    fit->T = se3_compose(&step, &fit->T);
    return sqrt(shift2) + sqrt(turn2) * reach_m;
}

#endif
