// SPDX-License-Identifier: Apache-2.0
// A relocaliser on a device whose views and alignments are what the test says. One inclusion a
// program, after cmocka's.
#ifndef POSED_TESTS_UNIT_GPU_FAKE_VIEWS_H
#define POSED_TESTS_UNIT_GPU_FAKE_VIEWS_H

#include <math.h>
#include <stdlib.h>

#include "gpu/model/relocalise.h"
#include "gpu/track/multistart.h"
#include "tests/unit/gpu/fake_gpu.h"

#define INSIDE  0.996
#define OUTSIDE 1.004

#define LEVEL  2
#define WIDTH  112 // of that level
#define HEIGHT 96
#define N_PX   (WIDTH * HEIGHT)
#define PITCH  5 // pixels between two with a normal: the view's patch around each is its own
#define N      400
#define VIEWS  32

static const double fx = 60.5, fy = 58, cx = 54.3, cy = 45.8; // of that level

static struct relocaliser *relocaliser;
static struct gpu_align_settings align;
static struct gpu_frame lost;
static float frame_m;                    // depth of all its pixels
static bool (*has_normal)(int u, int v); // of them
static float frame_map_m[N_PX];          // instead of frame_m, where has_own
static bool has_own;

// What view i shows: of the patches so many, and of these so many at the frame's depth; or pixels.
static struct {
    int n_known, n_agree;
    const float *z_m;
} views[VIEWS];
static struct se3 seen_from[VIEWS];
static int n_views;

static struct gpu_alignment answers[FAKE_CALLS_MAX];
static struct se3 starts[MULTISTART_MAX];
static int n_starts, fails_at, n_device_calls;

static enum relocalise_trust trust;
static struct se3 T_found;

static int device_call(void)
{
    return n_device_calls++ == fails_at ? -EIO : 0;
}

// Where a test says nothing, the alignment ends where it begins.
static int fake_answer(int i, const struct fake_call *call, struct gpu_alignment *out)
{
    *out = answers[i];
    if (out->T_reference_frame.r[0] == 0)
        out->T_reference_frame = call->T_start;
    return device_call();
}

int multistart_find(struct gpu *gpu, const struct gpu_frame *frame,
                    const struct gpu_frame *reference, const struct gpu_align_settings *settings,
                    const struct se3 *T_reference_guess, int n_guesses,
                    struct se3 out_T_reference_start[MULTISTART_MAX], int *out_n_starts)
{
    assert_true(gpu == &fake_device && frame == &lost && reference == &fake_frames[0]);
    assert_memory_equal(settings, &align, sizeof align);
    assert_int_equal(n_guesses, 1);
    assert_true(T_reference_guess->r[0] == 1 && T_reference_guess->t_m[0] == 0);
    memcpy(out_T_reference_start, starts, sizeof starts);
    *out_n_starts = n_starts;
    return device_call();
}

int model_view(struct model *model, const struct se3 *T_map_camera, struct gpu_frame *out_frame)
{
    (void)model;
    assert_true(out_frame == &fake_frames[0] && n_views < VIEWS);
    seen_from[n_views++] = *T_map_camera;
    return device_call();
}

static bool on_grid(int u, int v)
{
    const int cell = v / PITCH * (WIDTH / PITCH) + u / PITCH;
    return u % PITCH == 2 && v % PITCH == 2 && u / PITCH < WIDTH / PITCH && cell < N;
}

int gpu_frame_read(struct gpu *gpu, const struct gpu_frame *frame, uint32_t level, float *out)
{
    assert_true(gpu == &fake_device && level == LEVEL);
    memset(out, 0, 4 * N_PX * sizeof *out);
    for (int i = 0; i < N_PX; i++) {
        const int u = i % WIDTH, v = i / WIDTH;
        if (frame == &lost) {
            out[4 * i + 3] = has_own ? frame_map_m[i] : frame_m;
            out[4 * i + (u + v) % 3] = has_normal(u, v) ? -1 : 0;
            continue;
        }
        const int view = n_views - 1, cell = v / PITCH * (WIDTH / PITCH) + u / PITCH;
        const bool inside = u / PITCH < WIDTH / PITCH && cell < views[view].n_known;
        const float patch_m = cell < views[view].n_agree ? frame_m : 1.5f * frame_m;
        out[4 * i + 3] = views[view].z_m ? views[view].z_m[i] : inside ? patch_m : 0;
    }
    return device_call();
}

static struct se3 moved(double x_m, double turn_rad)
{
    const double turn[6] = {0, 0, 0, 0, turn_rad, 0};
    struct se3 T = se3_exp(turn);
    T.t_m[0] = x_m;
    return T;
}

static void keyframes_at(const struct se3 *T, const double *log_z, uint32_t n)
{
    static struct relocalise_keyframe keyframes[16];
    for (uint32_t i = 0; i < n; i++) {
        keyframes[i].T_map_camera = T[i];
        for (int cell = 0; cell < DEPTH_CELLS; cell++)
            keyframes[i].log_z[cell] = (float)(log(2) + (log_z ? log_z[i] : 0));
    }
    assert_int_equal(relocalise_set(relocaliser, keyframes, n), 0);
}

// One keyframe, from which one start leads to the place itself, where all agrees.
static void reset(void)
{
    const struct se3 T = moved(1, 0.2);
    keyframes_at(&T, NULL, 1);
    frame_m = 2;
    has_own = false;
    has_normal = on_grid;
    n_starts = 1;
    starts[0] = starts[1] = starts[2] = se3_identity();
    fails_at = -1;
    for (int i = 0; i < VIEWS; i++) {
        views[i].n_known = views[i].n_agree = N;
        views[i].z_m = NULL;
    }
    for (int i = 0; i < FAKE_CALLS_MAX; i++) {
        answers[i] = fake_alignment(&starts[0]);
        answers[i].n_valid_px = 100000;
        memset(&answers[i].T_reference_frame, 0, sizeof answers[i].T_reference_frame);
    }
}

static int find_with(uint32_t attempt, const struct se3 *guess)
{
    n_views = fake_n_calls = n_device_calls = 0;
    return relocalise_find(relocaliser, NULL, &lost, attempt, guess, &trust, &T_found);
}

static enum relocalise_trust find(void)
{
    assert_int_equal(find_with(0, NULL), 0);
    return trust;
}

static void assert_at(const struct se3 *T, double x_m)
{
    assert_true(fabs(T->t_m[0] - x_m) < 1e-9);
}

static int load(void **state)
{
    (void)state;
    gpu_align_settings_default(&align);
    fake_device.settings.camera =
        (struct intrinsics){4 * fx, 4 * fy, 4 * cx, 4 * cy, 4 * WIDTH, 4 * HEIGHT};
    return relocalise_create(&relocaliser, &fake_device, &align);
}

static int unload(void **state)
{
    (void)state;
    relocalise_destroy(&relocaliser);
    return relocaliser != NULL;
}

#endif
