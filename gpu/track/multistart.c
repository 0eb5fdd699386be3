// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/multistart.h"

#include <string.h>

#include "proto/se3.h"

// All found by trying on random steps (check_steps): half the turn loses steps of 10 degrees, one
// and a half times as much those of 5.
#define TURN_RAD          0.1
#define WIDE_ITERATIONS   20
#define NARROW_GATES      0.25f // of the coarsest level's: what counts as a pair in the end
#define NARROW_ITERATIONS 3

static const double turns[][2] = {
    {0, 0}, {1, 0},  {-1, 0}, {0, 1},   {0, -1}, // about x and y, in TURN_RAD
    {1, 1}, {1, -1}, {-1, 1}, {-1, -1},
};
#define N_TURNS ((int)(sizeof turns / sizeof *turns))

static struct gpu_align_settings coarse_settings(const struct gpu_align_settings *settings,
                                                 uint32_t iterations, float gates)
{
    struct gpu_align_settings out = *settings;
    memset(out.iterations, 0, sizeof out.iterations);
    out.iterations[GPU_LEVELS - 1] = iterations;
    out.gate_distance_m *= gates;
    out.early_stop = true;
    return out;
}

int multistart_find(struct gpu *gpu, const struct gpu_frame *frame,
                    const struct gpu_frame *reference, const struct gpu_align_settings *settings,
                    const struct se3 *T_reference_guess, int n_guesses,
                    struct se3 out_T_reference_start[MULTISTART_MAX], int *out_n_starts)
{
    const struct gpu_align_settings wide = coarse_settings(settings, WIDE_ITERATIONS, 1);
    const struct gpu_align_settings narrow =
        coarse_settings(settings, NARROW_ITERATIONS, NARROW_GATES);
    uint32_t n_pairs[MULTISTART_MAX] = {0};
    *out_n_starts = 0;
    for (int i = 0; i < n_guesses - 1 + N_TURNS; i++) {
        int turn = i < n_guesses ? 0 : i - n_guesses + 1;
        const struct se3 *T_guess = &T_reference_guess[i < n_guesses ? i : n_guesses - 1];
        double twist[6] = {0, 0, 0, TURN_RAD * turns[turn][0], TURN_RAD * turns[turn][1], 0};
        struct se3 T_turn = se3_exp(twist), T = se3_compose(T_guess, &T_turn);
        struct gpu_alignment alignment;
        int rc = gpu_align(gpu, frame, reference, &T, &wide, &alignment);
        if (!rc && alignment.solvable) {
            T = alignment.T_reference_frame;
            rc = gpu_align(gpu, frame, reference, &T, &narrow, &alignment);
        }
        if (rc < 0)
            return rc;
        if (!alignment.solvable)
            continue;
        int at = *out_n_starts; // insertion into the best so far
        while (at > 0 && alignment.n_pairs > n_pairs[at - 1])
            at--;
        if (at == MULTISTART_MAX)
            continue;
        *out_n_starts += *out_n_starts < MULTISTART_MAX;
        for (int k = *out_n_starts - 1; k > at; k--) {
            n_pairs[k] = n_pairs[k - 1];
            out_T_reference_start[k] = out_T_reference_start[k - 1];
        }
        n_pairs[at] = alignment.n_pairs;
        out_T_reference_start[at] = alignment.T_reference_frame;
    }
    return 0;
}
