// SPDX-License-Identifier: Apache-2.0
// A camera that looks for itself in a map of blocks and keyframes, with each twin.
#include <math.h>
#include <stdlib.h>

#include "gpu/model/relocalise.h"
#include "proto/se3.h"
#include "tests/check/check.h"
#include "tests/check/model/room.h"

// A camera beside where the map was made finds itself; one that sees another room does not. Of the
// frames of the map only the columns on the left are taken in: the less they show, the less sure.
static void check_relocalise(enum gpu_backend backend, const char *name, uint32_t n_columns,
                             enum relocalise_trust expected)
{
    static const double moves[][6] = {{0.03, -0.03, 0.04, 0.03, -0.04, -0.02},
                                      {-0.04, 0.02, 0.0, -0.04, 0.03, 0.06}};
    struct room_input in;
    struct gpu *gpu;
    struct gpu_frame *frame;
    struct model *model;
    struct relocaliser *relocaliser;
    struct gpu_align_settings align;
    check_case("%s, found again, %u of 320 columns mapped", name, n_columns);
    if (!check_wanted(name, 0))
        return;
    room_create(&in, 320, 240, 3, ROOM_FILL_ROOM);
    if (gpu_open(&gpu, backend, &in.settings) != 0) {
        check_skip("no CUDA device answers");
        room_destroy(&in);
        return;
    }
    gpu_align_settings_default(&align);
    const struct relocalise_keyframe *kept;
    bool ok = gpu_frame_create(gpu, &frame) == 0 && model_create(&model, gpu, &in.model) == 0 &&
              relocalise_create(&relocaliser, gpu, &align) == 0;
    for (int i = 0; i < ROOM_FRAMES && ok; i++) {
        for (uint32_t k = 0; k < 320 * 240; k++)
            in.depth[i][k] = k % 320 < n_columns ? in.depth[i][k] : 0;
        ok = gpu_prepare(gpu, in.depth[i], frame) == 0 &&
             model_integrate(model, frame, &in.T_map_camera[i]) == 0 &&
             relocalise_add(relocaliser, frame, &in.T_map_camera[i]) == 0;
    }
    check_that(ok && relocalise_keyframes(relocaliser, &kept) >= 1, "a map with keyframes");
    for (int other = 0; other < 2 && ok; other++)
        for (int move = 0; move < 2; move++) {
            const struct se3 T = se3_exp(moves[move]);
            struct se3 T_found;
            enum relocalise_trust trust = RELOCALISE_NOT_FOUND;
            for (uint32_t i = 0; i < 320 * 240; i++) {
                double z = room_z(&in, &T, i % 320, i / 320);
                z = other ? 0.5 + 0.7 * fmod(0.8 * z + 0.004 * (i % 320), 1.5) : z;
                in.depth[0][i] = z < 8 ? (uint16_t)lrint(5000 * z) : 0;
            }
            ok = gpu_prepare(gpu, in.depth[0], frame) == 0 &&
                 relocalise_find(relocaliser, model, frame, 0, NULL, &trust, &T_found) == 0;
            struct se3 off = se3_between(&T, &T_found);
            double off_m =
                sqrt(off.t_m[0] * off.t_m[0] + off.t_m[1] * off.t_m[1] + off.t_m[2] * off.t_m[2]);
            check_that(ok && trust == (other ? RELOCALISE_NOT_FOUND : expected),
                       "%s room, move %d: trust %d", other ? "another" : "the same", move,
                       (int)trust);
            check_that(!trust || (off_m < 0.01 && se3_angle(&off) < 0.01),
                       "found %.4f m and %.4f rad beside", off_m, se3_angle(&off));
        }
    relocalise_forget(relocaliser);
    check_that(relocalise_keyframes(relocaliser, &kept) == 0, "forgotten");
    relocalise_destroy(&relocaliser);
    model_destroy(&model);
    gpu_frame_destroy(gpu, &frame);
    gpu_close(&gpu);
    room_destroy(&in);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    for (int twin = 0; twin < 2; twin++) {
        const enum gpu_backend backend = twin ? GPU_BACKEND_CUDA : GPU_BACKEND_CPU;
        const char *name = twin ? "cuda" : "cpu";
        check_relocalise(backend, name, 320, RELOCALISE_SURE);
        check_relocalise(backend, name, 200, RELOCALISE_FAIR);
        check_relocalise(backend, name, 80, RELOCALISE_NOT_FOUND);
    }
    return check_end();
}
