// SPDX-License-Identifier: Apache-2.0
// What two frames say of the same surface: which pairs of frames of a recording are asked
// (calibrate.h), and the residual at one pixel of a pair, of one camera or of two
// (rig_extrinsics.h). Private to gpu/track.
#ifndef POSED_GPU_TRACK_CALIBRATE_PAIRS_H
#define POSED_GPU_TRACK_CALIBRATE_PAIRS_H

#include "gpu/base/camera.h"
#include "gpu/track/calibrate.h"
#include "gpu/track/normal_equations.h"
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

// A camera, and the level of the maps that it is looked at through.
struct calibrate_eye {
    struct intrinsics camera; // full resolution
    struct level_camera level;
    uint32_t map_level;
};

struct calibrate {
    struct calibrate_eye eye;
    struct log_sink log;
    struct calibrate_frame frames[CALIBRATE_MAX_FRAMES];
    uint32_t n_frames, min_frames;
    uint32_t n_left_out[TRACK_REASON_DEVICE + 1];
    double max_apart_s;
    const atomic_bool *stop;
    struct yield yield;
    uint64_t random;
};

// One sample of a pair: residual and its derivatives.
struct calibrate_sample {
    double r;
    struct depth_error_cell from, to;
    double by_from, by_to;   // derivative by the field at the pixel of i, of j
    double by_i[6], by_j[6]; // by right twists of T_i, T_j
    double flow_px;
};

// A frame as one side of a pair. `field` NULL: none.
struct calibrate_side {
    const struct calibrate_eye *eye;
    const struct depth_error *field;
    const float *map;
};

// The sample of pixel (x, y) of side i, seen from side j. False where there is none.
bool calibrate_sample(const struct calibrate_side *i, const struct calibrate_side *j,
                      const struct se3 *T_j_i, int x, int y, struct calibrate_sample *out);

// Whether enough of side i is seen from side j, and far enough elsewhere in the image. One pixel in
// CALIBRATE_LOOK_PX of the eye's level is looked at, each way.
#define CALIBRATE_LOOK_PX 24
bool calibrate_sees_enough(const struct calibrate_side *i, const struct calibrate_side *j,
                           const struct se3 *T_j_i);

// How much a sample counts, one of each stride_px x stride_px pixels of the eye's level: neighbours
// do not err independently.
double calibrate_worth(const struct calibrate_eye *eye, int stride_px);

// Tukey's biweight of a residual.
double calibrate_weight(double r, double scale);

// What is known of a field beforehand, standard deviations: second differences of neighbouring
// nodes, the nodes themselves, their mean.
struct calibrate_prior {
    double bend_per_m, size_per_m, mean_per_m;
};

// Adds it to a system whose unknowns `first` and on are the field's nodes.
void calibrate_add_prior(struct normal_equations *system, int first,
                         const struct depth_error *field, const struct calibrate_prior *prior);

// Of the frames that the field is fitted to, of those kept aside (one in five), or of all.
enum calibrate_choice { CALIBRATE_FIT, CALIBRATE_ASIDE, CALIBRATE_ALL };

// Draws at most `max` different pairs of frames that see enough of the same surface from far enough
// elsewhere in the image. Returns their number.
uint32_t calibrate_choose_pairs(struct calibrate *calibrate, enum calibrate_choice choice,
                                uint32_t max, struct calibrate_pair *out);

#endif
