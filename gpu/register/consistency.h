// SPDX-License-Identifier: Apache-2.0
// Poses from correspondences most of which are wrong. Two correspondences are consistent when a
// rigid motion can do both: same distance between the points, same angles of their normals. Right
// ones are consistent with each other and so have many common neighbours in that graph (second
// order: Chen et al. 2022, SC2-PCR; the graph as in TEASER++, Yang et al. 2021). The best connected
// ones are seeds; each votes for the pose of its own clique. Private to gpu.
#ifndef POSED_GPU_REGISTER_CONSISTENCY_H
#define POSED_GPU_REGISTER_CONSISTENCY_H

#include "gpu/base/pool.h"
#include "gpu/register/features.h"

#define REGISTER_MOST_MATCHES 4096u
#define REGISTER_MOST_SEEDS   160u // and so many poses that are voted for

struct register_vote {
    struct se3 T;       // local coordinates, source onto target
    uint32_t n_inliers; // correspondences that it does within the tolerance
};

// At most `most` poses, the one with most inliers first, no two alike. Returns how many, or
// -ENOMEM.
int register_consistency_vote(struct pool *pool, const struct register_features *source,
                              const struct register_features *target,
                              const struct register_match *matches, uint32_t n_matches,
                              double tolerance_m, struct register_vote *out, uint32_t most);

#endif
