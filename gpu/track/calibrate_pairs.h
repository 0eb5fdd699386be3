// SPDX-License-Identifier: Apache-2.0
// What two frames of a recording say of the same surface: which pairs of frames are asked, and the
// residual at one pixel of such a pair (calibrate.h). Private to gpu/track.
#ifndef POSED_GPU_TRACK_CALIBRATE_PAIRS_H
#define POSED_GPU_TRACK_CALIBRATE_PAIRS_H

#include "gpu/base/camera.h"
#include "gpu/track/calibrate.h"
#include "proto/se3.h"

#define CALIBRATE_GATE_PER_M 0.04 // residuals beyond are another surface

struct calibrate_frame {
    uint32_t group;
    int64_t time_ns;
    struct se3 T;
    float *map; // nx ny nz z
};

struct calibrate_pair {
    uint32_t i, j;
};

struct calibrate {
    struct intrinsics camera; // full resolution
    struct level_camera level;
    struct log_sink log;
    struct calibrate_frame frames[CALIBRATE_MAX_FRAMES];
    uint32_t n_frames, map_level, min_frames;
    double max_apart_s;
    const atomic_bool *stop;
    uint64_t random;
};

// One sample of a pair: residual and its derivatives.
struct calibrate_sample {
    double r;
    struct field_cell from, to;
    double by_from, by_to;   // derivative by the field at the pixel of i, of j
    double by_i[6], by_j[6]; // by right twists of T_i, T_j
    double flow_px;
};

// The sample of pixel (x, y) of frame i. False where there is none. `field` NULL: none.
bool calibrate_sample(const struct calibrate *calibrate, const struct field *field,
                      const struct calibrate_frame *i, const struct calibrate_frame *j,
                      const struct se3 *T_j_i, int x, int y, struct calibrate_sample *out);

// Of the frames that the field is fitted to, of those kept aside (one in five), or of all.
enum calibrate_choice { CALIBRATE_FIT, CALIBRATE_ASIDE, CALIBRATE_ALL };

// Draws at most `max` different pairs of frames that see enough of the same surface from far enough
// elsewhere in the image. Returns their number.
uint32_t calibrate_choose_pairs(struct calibrate *calibrate, enum calibrate_choice choice,
                                uint32_t max, struct calibrate_pair *out);

#endif
