// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/multistart.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "gpu/register/result.h"
#include "gpu/register/verdict.h"

#define N_STARTS        1344u // 192 rotations
#define START_SHIFT     0.7   // of the shifted starts, along the axes
#define N_SHIFTS        7     // none, and both ways along three axes
#define N_POLISHED      32u   // distinct basins that are polished ...
#define N_FINISHED      3u    // ... and finished with all points
#define BASIN_RAD       0.25  // nearer rotations are one basin while candidates are chosen
#define FINISH_RAD      0.35  // 20 degrees: what is nearer runs into one basin when polished
#define RIVAL_STARTS    3u    // a start at one place looks for others from every third start only
#define RIVALS_POLISHED 12u
#define RIVAL_SHARE     0.6 // of the found pose's score: what comes nearer than that is finished

// Evenly spread rotations: the super-Fibonacci spiral (Alexa 2022).
static struct se3 start_rotation(uint32_t i, uint32_t n)
{
    double s = i + 0.5, r = sqrt(s / n), q = sqrt(1 - s / n);
    double a = 2 * M_PI * s / 1.4142135623730951, b = 2 * M_PI * s / 1.5337511687552043;
    const double xyzw[4] = {r * sin(a), r * cos(a), q * sin(b), q * cos(b)}, zero[3] = {0, 0, 0};
    return se3_from_quaternion(xyzw, zero);
}

// Best first, those that repeat a better one left out. Returns how many remain, at most `most`.
static uint32_t keep_distinct(struct register_run *runs, uint32_t n, uint32_t most,
                              double apart_rad)
{
    qsort(runs, n, sizeof *runs, register_compare_scores);
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n && n_kept < most; i++) {
        bool repeated = false;
        for (uint32_t k = 0; k < n_kept && !repeated; k++)
            repeated = register_rotation_between(&runs[i].T, &runs[k].T) < apart_rad;
        if (!repeated)
            runs[n_kept++] = runs[i];
    }
    return n_kept;
}

// From everywhere: a coarse anneal of all starts. *out has room for one run more than *out_n, which
// are the best of distinct basins; the caller frees it, also after an error.
static int find_basins(const struct register_task *task, uint32_t n_starts, uint32_t n_kept,
                       struct register_run **out, uint32_t *out_n)
{
    uint32_t n_rotations = (n_starts + N_SHIFTS - 1) / N_SHIFTS;
    struct register_run *runs = calloc((size_t)n_rotations * N_SHIFTS + 1, sizeof *runs);
    *out = runs;
    if (!runs)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_rotations * N_SHIFTS; i++) {
        uint32_t shift = i % N_SHIFTS;
        runs[i].T = start_rotation(i / N_SHIFTS, n_rotations);
        if (shift)
            runs[i].T.t_m[(shift - 1) / 2] = shift & 1 ? START_SHIFT : -START_SHIFT;
    }
    int rc = register_stage_coarse(task, runs, n_rotations * N_SHIFTS);
    if (rc == 0)
        *out_n = keep_distinct(runs, n_rotations * N_SHIFTS, n_kept, BASIN_RAD);
    return rc;
}

static uint32_t starts_wanted(const struct register_task *task)
{
    return task->settings->n_starts ? task->settings->n_starts : N_STARTS;
}

int register_multistart(const struct register_task *task, struct register_run **out,
                        uint32_t *out_n)
{
    register_report(task, 0, "starts");
    int rc = find_basins(task, starts_wanted(task), N_POLISHED, out, out_n);
    if (rc < 0)
        return rc;
    register_report(task, 0.5, "polish");
    rc = register_stage_polish(task, *out, *out_n);
    if (rc == 0)
        *out_n = keep_distinct(*out, *out_n, N_FINISHED, FINISH_RAD);
    return rc;
}

int register_multistart_rival(const struct register_task *task, struct register_run runs[2])
{
    struct register_run *others;
    uint32_t n = 0;
    register_report(task, 0.95, "elsewhere");
    int rc =
        find_basins(task, starts_wanted(task) / RIVAL_STARTS + 1, RIVALS_POLISHED, &others, &n);
    if (rc == 0) {
        others[n] = (struct register_run){.T = runs[0].T};
        rc = register_stage_polish(task, others, n + 1);
    }
    double best = rc == 0 ? RIVAL_SHARE * register_score(&others[n]) : 0;
    bool found = false;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if (register_score(&others[i]) > best &&
            register_rotation_between(&others[i].T, &runs[0].T) > REGISTER_ELSEWHERE_RAD) {
            best = register_score(&others[i]);
            runs[1] = others[i];
            found = true;
        }
    free(others);
    if (rc == 0 && found)
        rc = register_stage_finish(task, &runs[1], 1);
    return rc < 0 ? rc
                  : found &&
                        register_rotation_between(&runs[1].T, &runs[0].T) > REGISTER_ELSEWHERE_RAD;
}
