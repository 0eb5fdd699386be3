// SPDX-License-Identifier: Apache-2.0
// A room with a ball in it: exact depths and distances, and frames, for model and relocalise.
#ifndef POSED_TESTS_CHECK_MODEL_ROOM_H
#define POSED_TESTS_CHECK_MODEL_ROOM_H

#include "gpu/model/model.h"

#define ROOM_FRAMES 4

enum room_fill {
    ROOM_FILL_ROOM,
    ROOM_FILL_RANDOM,
    ROOM_FILL_INVALID,
    ROOM_FILL_ONE_PIXEL,
    ROOM_N_FILLS
};

struct room_input {
    struct gpu_settings settings;
    struct model_settings model;
    uint32_t n_walls;
    uint16_t *depth[ROOM_FRAMES];
    struct se3 T_map_camera[ROOM_FRAMES];
};

const char *room_fill_name(enum room_fill fill);

// Two walls and a ball, or with three walls a room in which every direction is held.
void room_create(struct room_input *out, uint32_t width_px, uint32_t height_px, uint32_t n_walls,
                 enum room_fill fill);
void room_destroy(struct room_input *input);

// Depth of the nearest surface at (u, v), infinite if there is none.
double room_z(const struct room_input *input, const struct se3 *T_map_camera, double u, double v);

// Signed distance of a map point to the room, positive where the camera is, and its direction.
double room_distance(const struct room_input *input, const double p_m[3], double out_n[3]);

#endif
