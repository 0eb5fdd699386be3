// SPDX-License-Identifier: Apache-2.0
// How large a step between two frames the tracker still finds: random steps of a given size from
// random places of the synthetic room, with the sensor's noise, nothing known of the motion. A step
// is found when the pose ends within 1 cm and 0.5 degrees of the truth. A pose that is wrong must
// not be called TRACKING: those are counted and limited too.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/synth/scene.h"
#include "capture/synth/synth.h"
#include "gpu/track/track.h"
#include "proto/se3.h"
#include "tests/check/check.h"

#define N_STEPS   200
#define FOUND_M   0.01
#define FOUND_RAD (0.5 * M_PI / 180)
#define MAX_BELIEVED \
    2 // wrong poses (one is 1.1 cm off where the view holds little) called TRACKING

static const struct size {
    double step_m, turn_deg;
    double min_found; // share of N_STEPS
} sizes[] = {{0.05, 5, 0.99}, {0.10, 10, 0.95}};

static void random_direction(double length, double out[3])
{
    double n = 0;
    for (int i = 0; i < 3; i++) {
        out[i] = check_gaussian();
        n += out[i] * out[i];
    }
    for (int i = 0; i < 3; i++)
        out[i] *= length / sqrt(n);
}

static double length(const double v[3])
{
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

struct machine {
    struct gpu *gpu;
    struct track *track;
    struct scene *scene;
    uint16_t *depth;
    uint64_t n_rendered;
};

// One step; returns whether it was found, and whether a wrong pose was believed.
static bool take_step(struct machine *m, const struct size *size, bool *out_believed)
{
    double twist[6];
    random_direction(size->step_m, twist);
    random_direction(size->turn_deg * M_PI / 180, twist + 3);
    struct se3 T_a = synth_pose(synth_find("room"), check_random() % 600);
    struct se3 turn = se3_exp((double[6]){0, 0, 0, twist[3], twist[4], twist[5]});
    struct se3 T_a_b = turn;
    for (int i = 0; i < 3; i++)
        T_a_b.t_m[i] = twist[i];
    struct se3 T_b = se3_compose(&T_a, &T_a_b);
    struct track_result result;
    track_reset(m->track, NULL);
    scene_render_noisy(m->scene, &T_a, 1, m->n_rendered++, m->depth);
    check_that(track_frame(m->track, m->depth, 0, &result) == 0, "first frame");
    scene_render_noisy(m->scene, &T_b, 1, m->n_rendered++, m->depth);
    check_that(track_frame(m->track, m->depth, 33333333, &result) == 0, "second frame");
    struct se3 error = se3_between(&T_a_b, &result.T_odom_camera);
    bool found = length(error.t_m) <= FOUND_M && se3_angle(&error) <= FOUND_RAD;
    *out_believed = !found && result.state == TRACK_STATE_TRACKING;
    return found;
}

static void check_backend(enum gpu_backend backend)
{
    struct machine m = {0};
    struct gpu_settings settings;
    struct track_settings tracking;
    gpu_settings_default(&settings);
    settings.camera = scene_default_camera();
    settings.units_per_m = SCENE_UNITS_PER_M;
    settings.log = check_log();
    track_settings_default(&tracking);
    const char *name = backend == GPU_BACKEND_CPU ? "cpu" : "cuda";
    if (gpu_open(&m.gpu, backend, &settings) != 0) {
        check_skip("no %s here", name);
        return;
    }
    check_case("%s", name);
    m.depth = malloc((size_t)640 * 480 * sizeof *m.depth);
    if (check_that(m.depth && scene_create(&m.scene, "room", &settings.camera) == 0 &&
                       track_create(&m.track, m.gpu, &tracking, &settings.log) == 0,
                   "create"))
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            int n_found = 0, n_believed = 0;
            for (int i = 0; i < N_STEPS; i++) {
                bool believed;
                n_found += take_step(&m, &sizes[k], &believed);
                n_believed += believed;
            }
            printf("%s: steps of %.0f cm and %.0f degrees: %d of %d found, %d wrong and believed\n",
                   name, sizes[k].step_m * 100, sizes[k].turn_deg, n_found, N_STEPS, n_believed);
            check_that(n_found >= sizes[k].min_found * N_STEPS, "%d of %d steps found", n_found,
                       N_STEPS);
            check_that(n_believed <= MAX_BELIEVED, "%d wrong poses called TRACKING", n_believed);
        }
    track_destroy(&m.track);
    scene_destroy(&m.scene);
    free(m.depth);
    gpu_close(&m.gpu);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_backend(GPU_BACKEND_CPU);
    check_backend(GPU_BACKEND_CUDA);
    return check_end();
}
