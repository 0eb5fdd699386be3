// SPDX-License-Identifier: Apache-2.0
// The simultaneous alignment: all ranks sum their pairs at the root's poses, the root solves for
// all poses at once, until the step is negligible. Coarse to fine over the images' levels.
//
// Each pair has a robust scale of its own, from the residuals of both its directions: an image that
// starts far off is not cut away by the others' small residuals, and a pair that never fits counts
// little. A pair whose scale stays far above the others' is refused.
#ifndef POSED_GPU_ALIGN_ITERATE_H
#define POSED_GPU_ALIGN_ITERATE_H

#include "gpu/align/ops.h"
#include "gpu/align/pairs.h"
#include "gpu/align/ranks.h"

struct align_iterate_settings {
    uint32_t iterations[ALIGN_LEVELS]; // most, fine to coarse; default 30, 20, 30; 0 skips a level
    bool early_stop;                   // default true: leave a level when the step is negligible
    double gate_m;                     // distance gate at the start; shrinks with the residuals
    double max_angle_rad;              // default 45 degrees, between normals
    double stop_spacings; // default 2e-3: largest movement of an image's corners in grid spacings
                          // below which the finest level is left (coarser ones: ten times that)
    double refuse_scales; // default 4: a pair whose scale exceeds the median pair's so many times
                          // is refused when the finest level begins; 0: none
};

enum align_pair_state { ALIGN_PAIR_USED, ALIGN_PAIR_REFUSED, ALIGN_PAIR_EMPTY };

struct align_pair_result {
    double rms_m; // of the weighted residuals
    double scale; // robust scale in units of the sensor's noise
    double n;     // correspondences of both directions
    enum align_pair_state state;
};

struct align_progress {
    uint32_t level, iteration, n_iterations; // of this level; of all
    double step_m;                           // largest movement of a corner
    double rms_m;                            // weighted residual of all pairs
    double pairs_ms, solve_ms;               // of this iteration: of the slowest rank; of the root
};

// What all ranks know alike, but for the device and its slots.
struct align_job {
    uint32_t n_images, n_pairs;
    struct se3 *T_world_image; // in and out
    bool *fixed;               // images that keep their pose
    const struct align_pair *pairs;
    const uint32_t *owner; // rank of each pair
    const struct align_sketch *sketches;
    struct align_device *device;
    const uint32_t *slot; // of each image on this rank
    const struct align_ranks *ranks;
    struct align_iterate_settings settings;
    // Root, after each iteration; may be NULL. Non-zero stops: the poses so far are the result.
    int (*progress)(void *user, const struct align_progress *progress);
    void *user;
    struct log_sink log;
};

struct align_solution {              // on the root only
    struct align_pair_result *pairs; // n_pairs
    double *covariance;              // 36 an image, twist (m, rad) in its own frame; fixed: 0
    uint32_t n_iterations;
    bool converged;
    double rms_m, step_m;
    double pairs_ms, solve_ms; // sums
};

void align_iterate_settings_default(struct align_iterate_settings *out);

// Collective. Returns 0, -ENOMEM, -EIO (device), -EDOM (the system has no solution: logged), the
// same on all ranks as far as the root knows; *out is filled on the root and freed with
// align_solution_free.
__attribute__((warn_unused_result)) int align_iterate(struct align_job *job,
                                                      struct align_solution *out);
void align_solution_free(struct align_solution *solution);

#endif
