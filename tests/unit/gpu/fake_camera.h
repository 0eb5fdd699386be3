// SPDX-License-Identifier: Apache-2.0
// A camera that is somewhere: each alignment of its frames says so, whatever its start. One
// inclusion a program, after cmocka's.
#ifndef POSED_TESTS_UNIT_GPU_FAKE_CAMERA_H
#define POSED_TESTS_UNIT_GPU_FAKE_CAMERA_H

#include <math.h>

#include "gpu/track/multistart.h"
#include "tests/unit/gpu/fake_gpu.h"

// Where the camera "is"; an alignment says so whatever its start.
static struct se3 truth;
static struct track *track;
static struct gpu_alignment like; // all but the pose
static int answer_rc;
static struct se3 T_start; // of the last alignment

static int fake_answer(int i, const struct fake_call *call, struct gpu_alignment *out)
{
    (void)i;
    T_start = call->T_start;
    *out = like;
    out->T_reference_frame = se3_identity();
    for (int k = 0; k < TRACK_N_SLOTS && call->frame != call->reference; k++)
        if (track->slots[k].frame == call->reference)
            out->T_reference_frame = se3_between(&track->slots[k].T_odom_camera, &truth);
    fake_n_calls = 0;
    return answer_rc;
}

int multistart_find(struct gpu *gpu, const struct gpu_frame *frame,
                    const struct gpu_frame *reference, const struct gpu_align_settings *settings,
                    const struct se3 *T_reference_guess, int n_guesses,
                    struct se3 out_T_reference_start[MULTISTART_MAX], int *out_n_starts)
{
    (void)gpu, (void)frame, (void)reference, (void)settings, (void)T_reference_guess;
    (void)n_guesses, (void)out_T_reference_start;
    *out_n_starts = 0;
    return 0;
}

static const uint16_t depth;
static int64_t now_ns;

static inline struct track_result frame_after(double seconds)
{
    struct track_result out;
    now_ns += (int64_t)llround(seconds * 1e9);
    assert_int_equal(track_frame(track, &depth, now_ns, &out), 0);
    return out;
}

static inline void move(double x, double y, double z, double wx, double wy, double wz)
{
    const double twist[6] = {x, y, z, wx, wy, wz};
    struct se3 step = se3_exp(twist);
    truth = se3_compose(&truth, &step);
}

static inline void begin_with(enum track_reference reference)
{
    struct track_settings settings;
    track_settings_default(&settings);
    settings.reference = reference;
    fake_device.settings.camera = (struct intrinsics){500, 500, 319.5, 239.5, 640, 480};
    like = fake_alignment(&truth);
    answer_rc = fake_prepare_rc = 0;
    now_ns = 5000000000;
    truth = se3_identity();
    track_destroy(&track);
    assert_int_equal(track_create(&track, &fake_device, &settings, NULL), 0);
}

static inline void begin(enum track_reference reference)
{
    begin_with(reference);
    struct track_result first = frame_after(0);
    assert_int_equal(first.state, TRACK_STATE_INIT);
}

static inline void near(double got, double expected, double within)
{
    if (!(fabs(got - expected) <= within))
        fail_msg("%.12g instead of %.12g", got, expected);
}

static inline void assert_at(const struct track_result *got, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        near(got->T_odom_camera.r[i], expected->r[i], 1e-9);
    for (int i = 0; i < 3; i++)
        near(got->T_odom_camera.t_m[i], expected->t_m[i], 1e-9);
}

#endif
