// SPDX-License-Identifier: Apache-2.0
// Which rank works on which pair: Oishi et al., section 2.3. The pairs are the nodes of a
// hypergraph, weight v_i + v_j (work); the images are its nets, weight v_i (memory of every rank
// that has a pair of the image). Work is to be even, the largest rank's memory least.
//
// Recursive bisection by breadth-first growth from random nodes; then the part of most memory is
// refined against each other one by moving whole nets (Kernighan-Lin, Fiduccia-Mattheyses, as the
// paper extends it). Then single pairs are moved and exchanged under a falling temperature: at a
// few pairs a rank a net is too coarse a piece to balance with.
#ifndef POSED_GPU_ALIGN_PARTITION_H
#define POSED_GPU_ALIGN_PARTITION_H

#include "gpu/align/pairs.h"

struct partition_settings {
    uint32_t n_parts;
    uint64_t seed;
    double max_imbalance; // default 0.03: of the largest part's work over the average
    uint32_t n_starts;    // default 16: random nodes a bisection is grown from
    uint32_t n_moves;     // default 2000 a pair: single moves tried at the end
};

struct partition_result {
    double imbalance;              // largest work / average - 1
    uint64_t largest_weight;       // the most memory of a part
    uint64_t all_weight;           // of all images once
    uint64_t sum_weight;           // over the parts
    uint32_t n_idle;               // parts without a pair
    uint64_t paper_largest_weight; // after growth and net moves, before single moves
};

void partition_settings_default(struct partition_settings *out);

// image_weight: v_i. Writes the part of each pair. The same seed gives the same parts. With more
// parts than pairs some stay idle. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
partition_pairs(const struct align_pair *pairs, uint32_t n_pairs, const uint32_t *image_weight,
                uint32_t n_images, const struct partition_settings *settings, uint32_t *out_part,
                struct partition_result *out);

// Judges any assignment by the same measures.
__attribute__((warn_unused_result)) int
partition_measure(const struct align_pair *pairs, uint32_t n_pairs, const uint32_t *image_weight,
                  uint32_t n_images, uint32_t n_parts, const uint32_t *part,
                  struct partition_result *out);

#endif
