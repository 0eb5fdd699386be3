// SPDX-License-Identifier: Apache-2.0
// Poses from the directions of rooms. Walls, floors and furniture stand at right angles, so that
// only 24 rotations bring the directions of one set onto those of another. Which of them is right
// the planes do not say, but the few right correspondences of sets that hardly overlap agree on a
// shift under that one, and wrong ones hardly on any. Found so, a pose needs no two or three right
// correspondences that lie well, as a vote does. Private to gpu.
#ifndef POSED_GPU_REGISTER_MANHATTAN_H
#define POSED_GPU_REGISTER_MANHATTAN_H

#include "gpu/register/ops.h"
#include "proto/se3.h"

struct register_matched_pair;

#define REGISTER_N_AXES      24u // rotations
#define REGISTER_N_SHIFTS    3u  // under each of them
#define REGISTER_AXES_PAIRS  1500u
#define REGISTER_MOST_TURNED (REGISTER_N_AXES * REGISTER_N_SHIFTS)

struct register_axes {
    double row[3][3]; // at right angles
    bool valid;
};

// The direction, either way, that most of n normals have (none: 0, 0, 0), the one across it that
// most of the rest have, and the one across both. Not valid: hardly any normal is across.
void register_axes_find(const struct register_cell_point *normals, uint32_t n,
                        struct register_axes *out);

// The shifts under each rotation that most of n correspondences agree on within `within_m`, each
// pose settled on these. More than REGISTER_AXES_PAIRS are taken evenly. Returns how many poses, or
// -ENOMEM.
__attribute__((warn_unused_result)) int
register_axes_poses(const struct register_axes *source, const struct register_axes *target,
                    const struct register_matched_pair *pairs, uint32_t n, double within_m,
                    struct se3 out[REGISTER_MOST_TURNED]);

#endif
