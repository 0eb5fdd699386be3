// SPDX-License-Identifier: Apache-2.0
// That the unkind sensor misleads the tracker as recordings of a Kinect do: the rotation over ten
// frames comes out 0.87 to 0.96 of the true one frame to frame and 0.96 to 1.00 with a keyframe,
// the error over a second is some degrees, and played backwards the recording gives the same wrong
// trajectory: what is wrong is systematic. The kind sensor shows none of this. And that the tracker
// knows a bare wall and a corridor all the same.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/synth/synth.h"
#include "gpu/track/track.h"
#include "proto/se3.h"
#include "tests/check/check.h"

#define N_FRAMES 46
#define GAIN     10 // frames
#define PERIOD   33333333

static const struct expected {
    const char *location;
    enum track_reference reference;
    double gain_low, gain_high;
    double rpe_low_deg, rpe_high_deg; // over 30 frames
    double kept_low, kept_high; // length of the error that is the same backwards, by the error
} expectations[] = {
    {"room-rotation,sensor=unkind,seed=1", TRACK_REFERENCE_PREVIOUS, 0.87, 0.96, 1, 4, 0.5, 1.5},
    {"room-rotation,sensor=unkind,seed=1", TRACK_REFERENCE_KEYFRAME, 0.96, 1.00, 0.4, 3, 0.5, 1.5},
    {"room-rotation,seed=3", TRACK_REFERENCE_PREVIOUS, 0.995, 1.005, 0, 0.2, 0, 9},
};

static const char *const degenerate[] = {
    "wall,sensor=unkind,camera=1,seed=1",     "wall,sensor=unkind,camera=2,seed=2",
    "wall,sensor=field,camera=3,seed=3",      "corridor,sensor=unkind,camera=1,seed=1",
    "corridor,sensor=unkind,camera=4,seed=4",
};

struct played {
    struct se3 truth[N_FRAMES], forwards[N_FRAMES], backwards[N_FRAMES];
};

// Poses of the frames in that order, relative to the first one.
static bool play(struct gpu *gpu, enum track_reference reference, uint16_t *const *depth,
                 bool backwards, struct se3 *out)
{
    struct track_settings settings;
    struct track *track;
    track_settings_default(&settings);
    settings.reference = reference;
    if (!check_that(track_create(&track, gpu, &settings, NULL) == 0, "create"))
        return false;
    bool good = true;
    for (int i = 0; i < N_FRAMES && good; i++) {
        struct track_result result;
        int at = backwards ? N_FRAMES - 1 - i : i;
        good = check_that(track_frame(track, depth[at], (int64_t)i * PERIOD, &result) == 0 &&
                              result.state != TRACK_STATE_LOST,
                          "frame %d", at);
        out[at] = result.T_odom_camera;
    }
    track_destroy(&track);
    return good;
}

static void rotation_between(const struct se3 *poses, int i, int j, double out[3])
{
    struct se3 T = se3_between(&poses[i], &poses[j]);
    se3_rotation_vector(&T, out);
}

static void judge(const struct expected *e, const struct played *p)
{
    double dot = 0, true2 = 0, rpe2 = 0, error2 = 0, both = 0;
    int n = 0;
    for (int i = 0; i + GAIN < N_FRAMES; i++) {
        double a[3], b[3];
        rotation_between(p->truth, i, i + GAIN, a);
        rotation_between(p->forwards, i, i + GAIN, b);
        for (int k = 0; k < 3; k++) {
            dot += a[k] * b[k];
            true2 += a[k] * a[k];
        }
    }
    for (int i = 0; i + 30 < N_FRAMES; i++, n++) {
        double a[3], f[3], b[3];
        rotation_between(p->truth, i, i + 30, a);
        rotation_between(p->forwards, i, i + 30, f);
        rotation_between(p->backwards, i, i + 30, b);
        for (int k = 0; k < 3; k++) {
            rpe2 += (f[k] - a[k]) * (f[k] - a[k]) / (N_FRAMES - 30);
            error2 += (f[k] - a[k]) * (f[k] - a[k]);
            both += (f[k] - a[k]) * (b[k] - a[k]);
        }
    }
    double gain = dot / true2, rpe_deg = sqrt(rpe2) * 180 / M_PI, kept = both / error2;
    printf("%s, %s: gain %.3f, RPE over 30 frames %.2f degrees, backwards the same by %.2f\n",
           e->location, e->reference == TRACK_REFERENCE_KEYFRAME ? "keyframe" : "previous", gain,
           rpe_deg, kept);
    check_that(gain >= e->gain_low && gain <= e->gain_high, "gain %.3f", gain);
    check_that(rpe_deg >= e->rpe_low_deg && rpe_deg <= e->rpe_high_deg, "RPE %.3f deg", rpe_deg);
    check_that(kept >= e->kept_low && kept <= e->kept_high, "backwards %.3f", kept);
}

// All frames of a recording and their true poses. To be freed with discard.
static bool render(const char *location, uint16_t *depth[N_FRAMES], struct se3 truth[N_FRAMES])
{
    struct synth_request request = {.n_frames = N_FRAMES};
    struct scene *scene = NULL;
    struct log_sink log = check_log();
    const struct intrinsics camera = scene_default_camera();
    check_case("%s", location);
    bool good = check_that(synth_parse(location, &log, &request) == 0 &&
                               scene_create(&scene, request.recording->scene, &camera) == 0 &&
                               synth_set_sensor(&request, scene) == 0,
                           "scene");
    for (int i = 0; i < N_FRAMES && good; i++) {
        depth[i] = malloc((size_t)camera.width_px * camera.height_px * sizeof **depth);
        good = check_that(depth[i] != NULL, "memory");
        if (good)
            synth_render(&request, scene, (uint64_t)i, depth[i]);
        truth[i] = synth_pose(request.recording, (uint64_t)i);
    }
    scene_destroy(&scene);
    return good;
}

static void discard(uint16_t *depth[N_FRAMES])
{
    for (int i = 0; i < N_FRAMES; i++)
        free(depth[i]);
}

static void check_expected(struct gpu *gpu, const struct expected *e)
{
    static struct played p;
    uint16_t *depth[N_FRAMES] = {NULL};
    if (render(e->location, depth, p.truth) && play(gpu, e->reference, depth, false, p.forwards) &&
        play(gpu, e->reference, depth, true, p.backwards))
        judge(e, &p);
    discard(depth);
}

// What the camera's own error puts on a bare wall or into a corridor holds no direction.
static void check_degenerate(struct gpu *gpu, const char *location)
{
    struct track_settings settings;
    struct track *track;
    struct se3 truth[N_FRAMES];
    uint16_t *depth[N_FRAMES] = {NULL};
    int n_degenerate = 0;
    track_settings_default(&settings);
    if (render(location, depth, truth) &&
        check_that(track_create(&track, gpu, &settings, NULL) == 0, "create")) {
        for (int i = 0; i < N_FRAMES; i++) {
            struct track_result result;
            check_that(track_frame(track, depth[i], (int64_t)i * PERIOD, &result) == 0, "frame");
            n_degenerate +=
                result.state == TRACK_STATE_DEGRADED && result.reason == TRACK_REASON_DEGENERATE;
        }
        track_destroy(&track);
        check_that(n_degenerate == N_FRAMES - 1, "%d of %d frames", n_degenerate, N_FRAMES - 1);
    }
    discard(depth);
}

int main(int argc, char **argv)
{
    struct gpu *gpu;
    struct gpu_settings settings;
    check_begin(argc, argv);
    gpu_settings_default(&settings);
    settings.camera = scene_default_camera();
    settings.units_per_m = SCENE_UNITS_PER_M;
    settings.log = check_log();
    if (check_that(gpu_open(&gpu, GPU_BACKEND_CPU, &settings) == 0, "cpu")) {
        for (size_t i = 0; i < sizeof expectations / sizeof *expectations; i++)
            check_expected(gpu, &expectations[i]);
        for (size_t i = 0; i < sizeof degenerate / sizeof *degenerate; i++)
            check_degenerate(gpu, degenerate[i]);
        gpu_close(&gpu);
    }
    return check_end();
}
