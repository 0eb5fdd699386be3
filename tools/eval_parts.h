// SPDX-License-Identifier: Apache-2.0
// The parts of a trajectory that are not connected with each other (map epochs) or have times of
// another clock (the machine's was set; proto/trajectory.h), each compared with the truth by an
// alignment of its own: one alignment of all would take for an error what nobody has claimed. The
// one with most poses is the trajectory's, as in the daemon's log.
#ifndef POSED_TOOLS_EVAL_PARTS_H
#define POSED_TOOLS_EVAL_PARTS_H

#include <jansson.h>

#include "proto/evaluate.h"

struct eval_part {
    struct trajectory_part part;
    size_t n_poses, n_matched;
    double ate_rmse_m; // where any is matched
};

struct eval_parts {
    struct eval_part *parts; // in the order of their first poses
    size_t n;                // 1: all is connected
    size_t longest;          // of equal ones the first
};

// Counts the poses of each. Returns 0 and parts to free, or -ENOMEM with *out empty.
__attribute__((warn_unused_result)) int eval_parts_find(const struct trajectory *trajectory,
                                                        struct eval_parts *out);

// n_matched and ate_rmse_m of each, with the trajectory's times offset_ns later. Returns 0 or
// -ENOMEM.
__attribute__((warn_unused_result)) int eval_parts_judge(struct eval_parts *parts,
                                                         const struct trajectory *truth,
                                                         const struct trajectory *trajectory,
                                                         int64_t offset_ns, int64_t max_gap_ns);

// Its epoch, and how far the clock was set where it was.
#define EVAL_PART_NAME_BYTES 64
void eval_part_name(const struct trajectory_part *part, char out[EVAL_PART_NAME_BYTES]);

void eval_parts_print(const struct eval_parts *parts);
json_t *eval_parts_to_json(const struct eval_parts *parts);
void eval_parts_free(struct eval_parts *parts);

#endif
