// SPDX-License-Identifier: Apache-2.0
// Which images are aligned to which: Oishi et al., section 2.2. Four rules, each on what the ones
// before left: bounding boxes overlap; viewing directions within an angle; enough of one image's
// sampled vertices find a correspondence in the other; no third image is nearer to both.
#ifndef POSED_GPU_ALIGN_PAIRS_H
#define POSED_GPU_ALIGN_PAIRS_H

#include "gpu/align/image_summary.h"
#include "gpu/base/pool.h"

struct align_pair_settings {
    double gate_m;         // start errors: boxes grow by it, correspondences are sought within it
    double max_view_rad;   // default 90 degrees: back faces
    double min_overlap;    // default 0.04 (the paper: 0.03 .. 0.05); the larger of both directions
    double relative;       // default 0.8: (i, j) goes when some k, paired with both, is nearer to
                           // both than this share of their distance. 1: the paper's rule; 0: off
    uint32_t max_an_image; // default 12; a pair that alone connects two parts is kept beyond it
};

struct align_pair {
    uint32_t i, j; // i < j
    float overlap;
    float distance_m; // between the images' surface middles
};

// How many pairs each rule took, and how many were left.
struct align_pair_counts {
    uint32_t all, by_box, by_view, by_overlap, by_distance, kept;
};

void align_pair_settings_default(struct align_pair_settings *out);

// T_world_image: the start poses. `pool` may be NULL. Pairs come sorted by (i, j), in memory that
// the caller frees. Returns their number, or -ENOMEM.
__attribute__((warn_unused_result)) long
align_pairs_choose(const struct align_sketch *sketches, const struct se3 *T_world_image,
                   uint32_t n_images, const struct align_pair_settings *settings, struct pool *pool,
                   struct align_pair **out, struct align_pair_counts *out_counts);

// Numbers the connected parts of the graph of pairs: out_part[i] is the least image of i's part.
// Returns how many parts there are.
uint32_t align_pairs_parts(const struct align_pair *pairs, uint32_t n_pairs, uint32_t n_images,
                           uint32_t *out_part);

#endif
