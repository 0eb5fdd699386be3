// SPDX-License-Identifier: Apache-2.0
// A device whose alignments are what the test says: takes the place of gpu/gpu.c in tests of the
// tracker's decisions. Each call is written down. One inclusion a program.
#ifndef POSED_TESTS_UNIT_GPU_FAKE_GPU_H
#define POSED_TESTS_UNIT_GPU_FAKE_GPU_H

#include <errno.h>
#include <string.h>

#include "gpu/gpu.h"
#include "gpu/track/sparse_depth.h"
#include "proto/se3.h"

struct gpu_frame {
    int unused;
};

struct gpu {
    struct gpu_settings settings;
};

#define FAKE_CALLS_MAX 64

struct fake_call {
    bool prepares;
    const struct gpu_frame *frame, *reference;
    struct se3 T_start;
    struct gpu_align_settings settings;
};

// What call i answers; the frames as they were given. Returns the call's return code.
static int fake_answer(int i, const struct fake_call *call, struct gpu_alignment *out);

static struct fake_call fake_calls[FAKE_CALLS_MAX];
static int fake_n_calls;
static struct gpu fake_device;
static struct gpu_frame fake_frames[8];
static int fake_n_frames, fake_prepare_rc;

static int fake_align(bool prepares, const struct gpu_frame *frame,
                      const struct gpu_frame *reference, const struct se3 *T_start,
                      const struct gpu_align_settings *settings, struct gpu_alignment *out)
{
    if (fake_n_calls >= FAKE_CALLS_MAX)
        return -EIO;
    struct fake_call *call = &fake_calls[fake_n_calls];
    *call = (struct fake_call){prepares, frame, reference, *T_start, *settings};
    return fake_answer(fake_n_calls++, call, out);
}

int gpu_align(struct gpu *gpu, const struct gpu_frame *frame, const struct gpu_frame *reference,
              const struct se3 *T_reference_frame, const struct gpu_align_settings *settings,
              struct gpu_alignment *out)
{
    (void)gpu;
    return fake_align(false, frame, reference, T_reference_frame, settings, out);
}

int gpu_prepare_align(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame,
                      const struct gpu_frame *reference, const struct se3 *T_reference_frame,
                      const struct gpu_align_settings *settings, struct gpu_alignment *out)
{
    (void)gpu;
    (void)depth;
    return fake_align(true, out_frame, reference, T_reference_frame, settings, out);
}

int gpu_prepare(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame)
{
    (void)gpu;
    (void)depth;
    (void)out_frame;
    return fake_prepare_rc;
}

int gpu_frame_create(struct gpu *gpu, struct gpu_frame **out)
{
    (void)gpu;
    *out = &fake_frames[fake_n_frames++ % 8];
    return 0;
}

void gpu_frame_destroy(struct gpu *gpu, struct gpu_frame **frame)
{
    (void)gpu;
    *frame = NULL;
}

// Frames have no pixels here, so none has gaps.
int sparse_depth_create(struct sparse_depth **out, struct gpu *gpu)
{
    (void)gpu;
    *out = NULL;
    return 0;
}

void sparse_depth_destroy(struct sparse_depth **gaps)
{
    (void)gaps;
}

double sparse_depth_measured_share(const struct sparse_depth *gaps, const uint16_t *depth)
{
    (void)gaps;
    (void)depth;
    return 0;
}

const uint16_t *sparse_depth_fill(struct sparse_depth *gaps, const uint16_t *depth)
{
    (void)gaps;
    return depth;
}

const struct gpu_settings *gpu_settings_get(const struct gpu *gpu)
{
    return &gpu->settings;
}

// An alignment that nothing speaks against and that holds all directions: pairs 2 m away, each
// direction with a share of the information of at least a tenth.
static inline struct gpu_alignment fake_alignment(const struct se3 *T)
{
    struct gpu_alignment a;
    memset(&a, 0, sizeof a);
    a.T_reference_frame = *T;
    a.weight_sum = 8000;
    a.n_pairs = 8000;
    a.n_valid_px = 10000;
    a.information_weight = 1000;
    for (int i = 0; i < 6; i++)
        a.information[7 * i] = (i < 3 ? 1000 : 4000) / 3.0;
    a.residual_rms_m = 0.0012;
    a.solvable = a.converged = true;
    a.step_norm = 1e-6;
    return a;
}

#endif
