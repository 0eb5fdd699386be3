// SPDX-License-Identifier: Apache-2.0
// What the finished runs of a registration say: how good each is, how close another basin comes,
// and the answer in the caller's metres with its covariance. Private to gpu.
#ifndef POSED_GPU_REGISTER_RESULT_H
#define POSED_GPU_REGISTER_RESULT_H

#include "gpu/register/candidates.h"
#include "gpu/register/ops.h"
#include "gpu/register/sets.h"

#define REGISTER_ELSEWHERE_RAD 0.175 // 10 degrees: another basin, for the ambiguity figure

// Share of the points that have a counterpart, of both sets: 0..1; 0 when not determined.
double register_score(const struct register_run *run);

// Whether a wrong pose would score as much: then no rival is needed to doubt it.
bool register_by_chance(const struct register_run *run);

// For qsort: the better score first.
int register_compare_scores(const void *run, const void *other);

// Angle between the rotations, radians.
double register_rotation_between(const struct se3 *a, const struct se3 *b);

// runs[0] is the answer, the others (best first) what else was finished. elapsed_ms and anneal_ms
// stay 0.
void register_result_fill(const struct register_sets *sets, const struct register_run *runs,
                          uint32_t n_runs, struct register_result *out);

// The same of poses on the surfaces, best first. ambiguity is 0.85 at REGISTER_TRUST.
void register_result_candidates(const struct register_surfaces *surfaces,
                                const struct register_candidates *candidates,
                                struct register_result *out);

// out->doubt: why a result is not to be trusted and what would help, in the sets' own sizes.
void register_result_doubt(const struct register_surfaces *surfaces,
                           const struct register_settings *settings, struct register_result *out);

// The same of what was judged by its points alone: no surfaces were built.
void register_result_doubt_points(struct register_result *out);

#endif
