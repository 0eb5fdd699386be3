// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/rig_extrinsics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/solve6.h"
#include "gpu/track/calibrate_pairs.h"

#define STRIDE_PX   4 // of the samples of an image, in pixels of the maps' level
#define STEPS       12
#define FIRST_SCALE 0.01 // [1/m], of the residuals to begin with
#define N_UNKNOWNS  (6 + 2 * FIELD_N_NODES)
#define N_BLOCKS    30 // of the recording, whose errors are taken for independent
// How much of the samples' information the covariance counts: what stays of the errors of a camera
// and of the surfaces, and is no smooth field, is the same in all blocks. By the errors of four
// pairs of cameras (tools/bench/MEASURED.md).
#define COUNTED     (1 / 5.0)

// What a camera's field is like when nothing is known of it, and what learning leaves of it: its
// mean is not learnt (calibrate.c), of the rest a fifth to a third is left.
static const struct calibrate_prior unlearnt = {1e-3, 1e-2, 1e-3}, learnt = {3e-4, 2e-3, 1e-3};

struct solver {
    struct calibrate_eye eyes[2];
    const struct rig_extrinsics_pair *pairs;
    size_t n_pairs;
    const struct calibrate_prior *prior;
    struct se3 T_known, T_a_b;
    double information[36]; // of T_known, for a twist from the right
    struct depth_error fields[2];
    double scale, counted;
    double blocks[N_BLOCKS][N_UNKNOWNS]; // what each adds to the gradient
    // Of one step.
    double sum_abs;
    uint64_t n_samples, n_asked;
};

// Covariance of a twist from one side as of a twist from the other: Ad C Ad^T.
static void change_side(const struct se3 *T, const double covariance[36], double out[36])
{
    double ad[36];
    se3_adjoint(T, ad);
    memset(out, 0, 36 * sizeof *out);
    for (int i = 0; i < 36; i++)
        for (int k = 0; k < 36; k++)
            out[i] += ad[6 * (i / 6) + k / 6] * covariance[k] * ad[6 * (i % 6) + k % 6];
}

// All pixels of camera `from` (0: A, 1: B) in the other's image.
static void add_pair(struct solver *solver, const struct rig_extrinsics_pair *pair, int from,
                     struct normal_equations *system)
{
    const int to = 1 - from;
    const struct calibrate_side sides[2] = {
        {&solver->eyes[0], &solver->fields[0], pair->map_a},
        {&solver->eyes[1], &solver->fields[1], pair->map_b},
    };
    const double weight = solver->counted * calibrate_worth(&solver->eyes[from], STRIDE_PX) /
                          (solver->scale * solver->scale);
    struct se3 T_a_b = se3_compose(&pair->T_a_at_b, &solver->T_a_b);
    struct se3 T_to_from = from == 1 ? T_a_b : se3_inverse(&T_a_b);
    const struct level_camera *level = &solver->eyes[from].level;
    for (int y = STRIDE_PX / 2; y < level->height_px; y += STRIDE_PX)
        for (int x = STRIDE_PX / 2; x < level->width_px; x += STRIDE_PX) {
            struct calibrate_sample s;
            int index[14], n = 0;
            double row[14];
            solver->n_asked++;
            if (!calibrate_sample(&sides[from], &sides[to], &T_to_from, x, y, &s))
                continue;
            solver->n_samples++;
            solver->sum_abs += fmin(fabs(s.r), 3 * solver->scale);
            const double w = weight * calibrate_weight(s.r, solver->scale);
            if (!(w > 0))
                continue;
            // A twist of T_a_b from the right is one of B's pose.
            for (int k = 0; k < 6; k++) {
                index[n] = k;
                row[n++] = from == 1 ? s.by_i[k] : s.by_j[k];
            }
            for (int k = 0; k < 4; k++) {
                index[n] = 6 + from * FIELD_N_NODES + s.from.node[k];
                row[n++] = s.by_from * s.from.weight[k];
                index[n] = 6 + to * FIELD_N_NODES + s.to.node[k];
                row[n++] = s.by_to * s.to.weight[k];
            }
            normal_equations_add(system, index, row, n, w, s.r);
        }
}

static void add_known(const struct solver *solver, struct normal_equations *system)
{
    double e[6];
    struct se3 away = se3_between(&solver->T_known, &solver->T_a_b);
    se3_log(&away, e);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++) {
            system->g[i] += solver->information[6 * i + k] * e[k];
            system->h[N_UNKNOWNS * i + k] += solver->information[6 * i + k];
        }
}

// The normal equations at the present estimate, factored.
static int assemble(struct solver *solver, struct normal_equations *system)
{
    memset(system->h, 0, N_UNKNOWNS * N_UNKNOWNS * sizeof *system->h);
    memset(system->g, 0, N_UNKNOWNS * sizeof *system->g);
    solver->sum_abs = 0;
    solver->n_samples = solver->n_asked = 0;
    memset(solver->blocks, 0, sizeof solver->blocks);
    for (size_t i = 0; i < solver->n_pairs; i++) {
        double *block = solver->blocks[i * N_BLOCKS / solver->n_pairs];
        for (int k = 0; k < N_UNKNOWNS; k++)
            block[k] -= system->g[k];
        add_pair(solver, &solver->pairs[i], 0, system);
        add_pair(solver, &solver->pairs[i], 1, system);
        for (int k = 0; k < N_UNKNOWNS; k++)
            block[k] += system->g[k];
    }
    add_known(solver, system);
    for (int i = 0; i < 2; i++)
        calibrate_add_prior(system, 6 + i * FIELD_N_NODES, &solver->fields[i], solver->prior);
    return normal_equations_factor(system) ? 0 : -EDOM;
}

static int step(struct solver *solver, struct normal_equations *system)
{
    int status = assemble(solver, system);
    if (status < 0)
        return status;
    normal_equations_solve(system, system->g);
    double twist[6];
    for (int k = 0; k < 6; k++)
        twist[k] = -system->g[k];
    struct se3 moved = se3_exp(twist);
    moved = se3_compose(&solver->T_a_b, &moved);
    solver->T_a_b = se3_normalized(&moved);
    for (int i = 0; i < FIELD_N_NODES; i++) {
        solver->fields[0].node_per_m[i] -= (float)system->g[6 + i];
        solver->fields[1].node_per_m[i] -= (float)system->g[6 + FIELD_N_NODES + i];
    }
    if (solver->n_samples)
        solver->scale = fmax(1.2533141 * solver->sum_abs / (double)solver->n_samples, 1e-5);
    return 0;
}

// How much more the blocks of the recording contradict each other than the covariance would have
// it: a mean over the six directions, 1 at least (a sandwich of the normal equations: Huber, 1967).
static double inflation(const struct solver *solver, const double columns[6][N_UNKNOWNS])
{
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        double spread = 0;
        for (int b = 0; b < N_BLOCKS; b++) {
            double pull = 0;
            for (int k = 0; k < N_UNKNOWNS; k++)
                pull += columns[i][k] * solver->blocks[b][k];
            spread += pull * pull;
        }
        sum += spread / columns[i][i];
    }
    return fmax(sum / 6, 1);
}

static void fill_result(const struct solver *solver, const struct normal_equations *system,
                        struct rig_extrinsics_result *out)
{
    double columns[6][N_UNKNOWNS] = {{0}}, covariance[36]; // of the inverse of the normal matrix
    for (int i = 0; i < 6; i++) {
        columns[i][i] = 1;
        normal_equations_solve(system, columns[i]);
    }
    const double more = inflation(solver, (const double(*)[N_UNKNOWNS])columns);
    for (int i = 0; i < 36; i++)
        covariance[i] = more * columns[i % 6][i / 6];
    change_side(&solver->T_a_b, covariance, out->covariance);
    out->T_a_b = solver->T_a_b;
    out->residual_per_m = solver->n_samples ? solver->scale : 0;
    out->n_samples = solver->n_samples;
    out->shared = solver->n_asked ? (double)solver->n_samples / (double)solver->n_asked : 0;
}

int rig_extrinsics_solve(const struct intrinsics cameras[2],
                         const struct rig_extrinsics_pair *pairs, size_t n_pairs, bool is_corrected,
                         const struct se3 *T_a_b, const double covariance[36],
                         struct rig_extrinsics_result *out)
{
    double right[36];
    struct se3 T_b_a = se3_inverse(T_a_b);
    struct solver *solver = calloc(1, sizeof *solver);
    struct normal_equations system = {N_UNKNOWNS,
                                      malloc(N_UNKNOWNS * N_UNKNOWNS * sizeof *system.h),
                                      malloc(N_UNKNOWNS * sizeof *system.g), NULL};
    int status = solver && system.h && system.g ? 0 : -ENOMEM;
    if (status < 0)
        goto free_all;
    *solver = (struct solver){.pairs = pairs,
                              .n_pairs = n_pairs,
                              .prior = is_corrected ? &learnt : &unlearnt,
                              .T_known = *T_a_b,
                              .T_a_b = *T_a_b,
                              .scale = FIRST_SCALE,
                              .counted = 1};
    for (int i = 0; i < 2; i++)
        solver->eyes[i] =
            (struct calibrate_eye){cameras[i], camera_level(&cameras[i], RIG_EXTRINSICS_MAP_LEVEL),
                                   RIG_EXTRINSICS_MAP_LEVEL};
    change_side(&T_b_a, covariance, right);
    if (!solve6_invert(right, 0, solver->information))
        status = -EDOM;
    for (int i = 0; i < STEPS && status == 0; i++)
        status = step(solver, &system);
    solver->counted = COUNTED;
    if (status == 0)
        status = assemble(solver, &system);
    if (status == 0)
        fill_result(solver, &system, out);
free_all:
    free(solver);
    free(system.h);
    free(system.g);
    return status;
}
