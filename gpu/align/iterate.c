// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/iterate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/sparse.h"
#include "gpu/align/system.h"
#include "proto/clock.h"
#include "proto/se3.h"

#define MEAN_TO_SIGMA 1.2533 // of |e| of a Gaussian
#define MIN_PAIR_N    30.0   // fewer correspondences than that hold nothing

enum command { COMMAND_SUM, COMMAND_END };

// What the root sends each iteration, followed by the poses and by each pair's scale.
struct order {
    uint32_t command, level;
    double cos_angle;
};

struct solving {
    struct align_job *job;
    size_t n_order_bytes;
    unsigned char *order; // struct order, poses, scales, distances
    struct se3 *poses;
    double *scale, *distance_m; // of each pair
    struct align_task *tasks;   // of this rank, two a pair
    uint32_t *mine, n_mine;     // pairs of this rank
    double *own;                // sums of this rank, and how long they took
    // root
    double *gathered, *sums, *weight;
    size_t *rank_bytes;
    bool *refused;
    struct align_system system;
    struct sparse *sparse;
    double rank_ms;
};

void align_iterate_settings_default(struct align_iterate_settings *out)
{
    *out = (struct align_iterate_settings){.iterations = {30, 20, 30},
                                           .early_stop = true,
                                           .gate_m = 0.05,
                                           .max_angle_rad = M_PI / 4,
                                           .stop_spacings = 2e-3,
                                           .refuse_scales = 4};
}

static void solving_free(struct solving *s)
{
    free(s->order);
    free(s->tasks);
    free(s->mine);
    free(s->own);
    free(s->gathered);
    free(s->sums);
    free(s->weight);
    free(s->rank_bytes);
    free(s->refused);
    align_system_free(&s->system);
    sparse_destroy(&s->sparse);
}

static int solving_create(struct solving *s, struct align_job *job)
{
    size_t n = job->n_images, n_pairs = job->n_pairs;
    size_t sums_bytes = (2 * n_pairs * PAIR_N_SUMS + job->ranks->n + 1) * sizeof(double);
    *s = (struct solving){.job = job};
    s->n_order_bytes = sizeof(struct order) + n * sizeof(struct se3) + 2 * n_pairs * sizeof(double);
    s->order = calloc(1, s->n_order_bytes);
    s->tasks = calloc(2 * n_pairs + 1, sizeof *s->tasks);
    s->mine = calloc(n_pairs + 1, sizeof *s->mine);
    s->own = calloc(1, sums_bytes);
    if (!s->order || !s->tasks || !s->mine || !s->own)
        return -ENOMEM;
    s->poses = (struct se3 *)(void *)(s->order + sizeof(struct order));
    s->scale = (double *)(void *)(s->poses + n);
    s->distance_m = s->scale + n_pairs;
    for (uint32_t k = 0; k < n_pairs; k++)
        if (job->owner[k] == job->ranks->id)
            s->mine[s->n_mine++] = k;
    if (job->ranks->id != 0)
        return 0;
    s->gathered = calloc(1, sums_bytes);
    s->sums = calloc(1, sums_bytes);
    s->weight = calloc(n_pairs + 1, sizeof *s->weight);
    s->rank_bytes = calloc(job->ranks->n, sizeof *s->rank_bytes);
    s->refused = calloc(n_pairs + 1, sizeof *s->refused);
    if (!s->gathered || !s->sums || !s->weight || !s->rank_bytes || !s->refused)
        return -ENOMEM;
    for (uint32_t k = 0; k < n_pairs; k++)
        s->rank_bytes[job->owner[k]] += 2 * PAIR_N_SUMS * sizeof(double);
    for (uint32_t r = 0; r < job->ranks->n; r++)
        s->rank_bytes[r] += sizeof(double);
    int rc = align_system_create(&s->system, job->n_images, job->n_pairs);
    return rc ? rc : sparse_create(&s->sparse, job->n_images, job->pairs, job->n_pairs);
}

static struct pair_pose narrow(const struct se3 *T)
{
    struct pair_pose out;
    for (int i = 0; i < 9; i++)
        out.r[i] = (float)T->r[i];
    for (int i = 0; i < 3; i++)
        out.t_m[i] = (float)T->t_m[i];
    return out;
}

// This rank's share of an iteration. A device's failure is told to the root as a time of NaN.
static int sum_mine(struct solving *s)
{
    struct align_job *job = s->job;
    struct order order;
    memcpy(&order, s->order, sizeof order);
    double begin = clock_monotonic_ms();
    for (uint32_t m = 0; m < s->n_mine; m++) {
        uint32_t k = s->mine[m], i = job->pairs[k].i, j = job->pairs[k].j;
        struct se3 T_j_i = se3_between(&s->poses[j], &s->poses[i]), T_i_j = se3_inverse(&T_j_i);
        float cut = PAIR_TUKEY_CUT * (float)s->scale[k];
        struct pair_gates gates = {(float)s->distance_m[k], (float)order.cos_angle,
                                   1.0f / (cut * cut)};
        s->tasks[2 * m] = (struct align_task){job->slot[i], job->slot[j], narrow(&T_j_i), gates};
        s->tasks[2 * m + 1] =
            (struct align_task){job->slot[j], job->slot[i], narrow(&T_i_j), gates};
    }
    int rc = s->n_mine == 0
                 ? 0
                 : align_device_sum(job->device, s->tasks, 2 * s->n_mine, order.level, s->own);
    s->own[2 * (size_t)s->n_mine * PAIR_N_SUMS] =
        rc < 0 ? (double)NAN : clock_monotonic_ms() - begin;
    job->ranks->gather(s->own, (2 * (size_t)s->n_mine * PAIR_N_SUMS + 1) * sizeof(double),
                       s->gathered, s->rank_bytes);
    return rc;
}

// Sums of all ranks into the order of the pairs. Returns -EIO when a rank's device failed.
static int spread(struct solving *s)
{
    const struct align_job *job = s->job;
    const double *at = s->gathered;
    s->rank_ms = 0;
    for (uint32_t r = 0; r < job->ranks->n; r++) {
        for (uint32_t k = 0; k < job->n_pairs; k++)
            if (job->owner[k] == r) {
                memcpy(s->sums + 2 * (size_t)k * PAIR_N_SUMS, at, 2 * PAIR_N_SUMS * sizeof *at);
                at += 2 * PAIR_N_SUMS;
            }
        double ms = *at++;
        if (isnan(ms)) {
            log_to(&job->log, LOG_LEVEL_ERROR, "the device of rank %u failed", r);
            return -EIO;
        }
        s->rank_ms = ms > s->rank_ms ? ms : s->rank_ms;
    }
    return 0;
}

static int iterate_pairs(struct solving *s, uint32_t level)
{
    struct order order = {COMMAND_SUM, level, cos(s->job->settings.max_angle_rad)};
    memcpy(s->order, &order, sizeof order);
    memcpy(s->poses, s->job->T_world_image, s->job->n_images * sizeof *s->poses);
    s->job->ranks->broadcast(s->order, s->n_order_bytes, 0);
    int rc = sum_mine(s);
    int all = spread(s);
    return rc ? rc : all;
}

static const double *sums_of(const struct solving *s, uint32_t k, uint32_t direction)
{
    return s->sums + (2 * (size_t)k + direction) * PAIR_N_SUMS;
}

static double sum_both(const struct solving *s, uint32_t k, enum pair_sum which)
{
    return sums_of(s, k, 0)[which] + sums_of(s, k, 1)[which];
}

static double noise_of(const struct solving *s, uint32_t k)
{
    const struct align_sketch *sketches = s->job->sketches;
    double a = sketches[s->job->pairs[k].i].noise_m, b = sketches[s->job->pairs[k].j].noise_m;
    return a > b ? a : b;
}

// The weight that each pair's sums get, and the scale and gate of its next iteration.
static void weigh_pairs(struct solving *s)
{
    for (uint32_t k = 0; k < s->job->n_pairs; k++) {
        double tw = sum_both(s, k, PAIR_SUM_TW), n = sum_both(s, k, PAIR_SUM_N);
        s->weight[k] = 0;
        if (s->refused[k] || n < MIN_PAIR_N || !(tw > 0.1 * MIN_PAIR_N))
            continue;
        double scale = MEAN_TO_SIGMA * sum_both(s, k, PAIR_SUM_ABS) / tw;
        scale = scale > 1 ? scale : 1;
        s->weight[k] = 1 / (scale * scale);
        s->scale[k] = scale;
    }
}

static void refuse_pairs(struct solving *s)
{
    uint32_t n = 0;
    double *scales = s->own; // free between iterations, long enough
    for (uint32_t k = 0; k < s->job->n_pairs; k++)
        if (s->weight[k] > 0)
            scales[n++] = s->scale[k];
    for (uint32_t a = 1; a < n; a++) // few: insertion
        for (uint32_t b = a; b > 0 && scales[b - 1] > scales[b]; b--) {
            double swap = scales[b];
            scales[b] = scales[b - 1];
            scales[b - 1] = swap;
        }
    double limit = n ? s->job->settings.refuse_scales * scales[n / 2] : 0;
    for (uint32_t k = 0; k < s->job->n_pairs && limit > 0; k++)
        if (s->weight[k] > 0 && s->scale[k] > limit) {
            s->refused[k] = true;
            s->weight[k] = 0;
        }
}

// Moves the poses by the solved twists. Returns the largest movement of a box's corner.
static double move(struct align_job *job, const double *twists)
{
    double most = 0;
    for (uint32_t i = 0; i < job->n_images; i++) {
        if (job->fixed[i])
            continue;
        double twist[6];
        for (int k = 0; k < 6; k++)
            twist[k] = -twists[6 * (size_t)i + (size_t)k];
        struct se3 step = se3_exp(twist);
        const struct align_sketch *sketch = &job->sketches[i];
        for (int corner = 0; corner < 8; corner++) {
            double p[3], q[3], d2 = 0;
            for (int k = 0; k < 3; k++)
                p[k] = corner >> k & 1 ? sketch->high_m[k] : sketch->low_m[k];
            se3_apply(&step, p, q);
            for (int k = 0; k < 3; k++)
                d2 += (q[k] - p[k]) * (q[k] - p[k]);
            most = d2 > most ? d2 : most;
        }
        struct se3 moved = se3_compose(&job->T_world_image[i], &step);
        job->T_world_image[i] = se3_normalized(&moved);
    }
    return sqrt(most);
}

static double spacing_of(const struct align_job *job)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < job->n_images; i++)
        least = job->sketches[i].spacing_m < least ? job->sketches[i].spacing_m : least;
    return least;
}

static double rms_of_all(const struct solving *s)
{
    double rr = 0, tw = 0;
    for (uint32_t k = 0; k < s->job->n_pairs; k++)
        if (s->weight[k] > 0) {
            rr += s->weight[k] * sum_both(s, k, PAIR_SUM_RR);
            tw += s->weight[k] * sum_both(s, k, PAIR_SUM_TW);
        }
    return tw > 0 ? sqrt(rr / tw) : 0;
}

static int solve_once(struct solving *s, double *out_step_m)
{
    struct align_job *job = s->job;
    align_system_fill(&s->system, job->pairs, s->sums, s->weight, job->T_world_image, job->fixed);
    int rc = sparse_factor(s->sparse, s->system.diagonal, s->system.beside);
    if (rc == -EDOM)
        log_to(&job->log, LOG_LEVEL_ERROR,
               "the normal equations are not positive definite: too little holds the images");
    if (rc < 0)
        return rc;
    sparse_solve(s->sparse, s->system.gradient, 1);
    *out_step_m = move(job, s->system.gradient);
    return 0;
}

// One level. Returns 0, 1 when the caller's progress said stop, or a negative errno.
static int run_level(struct solving *s, uint32_t level, struct align_solution *out)
{
    struct align_job *job = s->job;
    const struct align_iterate_settings *settings = &job->settings;
    double stop_m = settings->stop_spacings * spacing_of(job) * (level ? 10 : 1);
    out->converged = false;
    for (uint32_t it = 0; it < settings->iterations[level]; it++) {
        double begin = clock_monotonic_ms();
        int rc = iterate_pairs(s, level);
        if (rc < 0)
            return rc;
        double summed = clock_monotonic_ms();
        weigh_pairs(s);
        if (level == 0 && it == 1 && settings->refuse_scales > 0)
            refuse_pairs(s);
        rc = solve_once(s, &out->step_m);
        if (rc < 0)
            return rc;
        // The gate follows the residuals: what Tukey gives no weight needs not be counted.
        for (uint32_t k = 0; k < job->n_pairs; k++) {
            double cut_m = 1.5 * (double)PAIR_TUKEY_CUT * s->scale[k] * noise_of(s, k);
            s->distance_m[k] = cut_m < settings->gate_m ? cut_m : settings->gate_m;
        }
        double solved = clock_monotonic_ms();
        out->rms_m = rms_of_all(s);
        out->n_iterations++;
        out->pairs_ms += summed - begin;
        out->solve_ms += solved - summed;
        struct align_progress progress = {level,      it + 1,     out->n_iterations, out->step_m,
                                          out->rms_m, s->rank_ms, solved - summed};
        if (job->progress && job->progress(job->user, &progress))
            return 1;
        out->converged = out->step_m <= stop_m;
        if (out->converged && settings->early_stop && !(level == 0 && it < 2))
            break;
    }
    return 0;
}

// Diagonal blocks of the inverse, times the variance of a unit weight. Weights are 1 / sigma^2 of
// single correspondences.
static int find_covariance(struct solving *s, struct align_solution *out)
{
    uint32_t n = s->job->n_images;
    size_t rows = 6 * (size_t)n;
    double *columns = malloc(rows * 6 * sizeof *columns);
    if (!columns)
        return -ENOMEM;
    int rc = sparse_factor(s->sparse, s->system.diagonal, s->system.beside);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if (s->job->fixed[i])
            continue;
        memset(columns, 0, rows * 6 * sizeof *columns);
        for (uint32_t k = 0; k < 6; k++)
            columns[k * rows + 6 * (size_t)i + k] = 1;
        sparse_solve(s->sparse, columns, 6);
        for (uint32_t r = 0; r < 6; r++)
            for (uint32_t c = 0; c < 6; c++)
                out->covariance[36 * (size_t)i + 6 * r + c] = columns[c * rows + 6 * (size_t)i + r];
    }
    free(columns);
    return rc;
}

static void fill_pairs(const struct solving *s, struct align_solution *out)
{
    for (uint32_t k = 0; k < s->job->n_pairs; k++) {
        double tw = sum_both(s, k, PAIR_SUM_TW);
        out->pairs[k] =
            (struct align_pair_result){tw > 0 ? sqrt(sum_both(s, k, PAIR_SUM_RR) / tw) : 0,
                                       s->scale[k], sum_both(s, k, PAIR_SUM_N),
                                       s->refused[k]      ? ALIGN_PAIR_REFUSED
                                       : s->weight[k] > 0 ? ALIGN_PAIR_USED
                                                          : ALIGN_PAIR_EMPTY};
    }
}

// Scales of the first iteration: all that the gate lets through counts.
static void open_gates(struct solving *s)
{
    for (uint32_t k = 0; k < s->job->n_pairs; k++) {
        s->scale[k] = s->job->settings.gate_m / ((double)PAIR_TUKEY_CUT * noise_of(s, k));
        s->distance_m[k] = s->job->settings.gate_m;
    }
}

static int solve_root(struct solving *s, struct align_solution *out)
{
    struct align_job *job = s->job;
    out->pairs = calloc(job->n_pairs + 1, sizeof *out->pairs);
    out->covariance = calloc(36 * (size_t)job->n_images + 1, sizeof *out->covariance);
    int rc = out->pairs && out->covariance ? 0 : -ENOMEM;
    open_gates(s);
    for (int level = ALIGN_LEVELS - 1; level >= 0 && rc == 0; level--)
        if (job->settings.iterations[level] > 0)
            rc = run_level(s, (uint32_t)level, out);
    struct order end = {COMMAND_END, 0, 0};
    memcpy(s->order, &end, sizeof end);
    job->ranks->broadcast(s->order, s->n_order_bytes, 0);
    if (rc < 0)
        return rc;
    fill_pairs(s, out);
    return find_covariance(s, out);
}

static int serve(struct solving *s)
{
    struct order order;
    int rc = 0;
    for (;;) {
        s->job->ranks->broadcast(s->order, s->n_order_bytes, 0);
        memcpy(&order, s->order, sizeof order);
        if (order.command == COMMAND_END)
            return rc;
        rc = sum_mine(s);
    }
}

int align_iterate(struct align_job *job, struct align_solution *out)
{
    struct solving s;
    memset(out, 0, sizeof *out);
    int rc = solving_create(&s, job);
    if (rc == 0)
        rc = job->ranks->id == 0 ? solve_root(&s, out) : serve(&s);
    if (rc == -ENOMEM)
        log_to(&job->log, LOG_LEVEL_ERROR, "no memory for the normal equations");
    if (rc < 0)
        align_solution_free(out);
    solving_free(&s);
    return rc;
}

void align_solution_free(struct align_solution *solution)
{
    free(solution->pairs);
    free(solution->covariance);
    solution->pairs = NULL;
    solution->covariance = NULL;
}
