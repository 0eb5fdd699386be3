// SPDX-License-Identifier: Apache-2.0
// What the finished runs of a registration say: how good each is, how close another basin comes,
// and the answer in the caller's metres with its covariance. Private to gpu.
#ifndef POSED_GPU_REGISTER_RESULT_H
#define POSED_GPU_REGISTER_RESULT_H

#include "gpu/register/candidates.h"
#include "gpu/register/normalise.h"
#include "gpu/register/ops.h"

#define REGISTER_ELSEWHERE_RAD 0.175 // 10 degrees: another basin, for the ambiguity figure

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

#endif
