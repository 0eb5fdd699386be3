// SPDX-License-Identifier: Apache-2.0
// What check_track aligns: pairs of depth images, of a room or of what must do no harm.
#ifndef POSED_TESTS_CHECK_TRACK_INPUT_H
#define POSED_TESTS_CHECK_TRACK_INPUT_H

#include "gpu/gpu.h"
#include "tests/check/track/reference.h"

struct input {
    struct gpu_settings settings;
    struct gpu_align_settings align;
    struct se3 T_start;            // of the reference to the frame
    struct se3 T_true;             // what the depth images were made with
    uint16_t *depth[2];            // 0: reference, 1: frame
    bool well_posed;               // a pose can be compared
    struct reference_px *filtered; // of depth[1], shared by the twins
};

enum fill {
    FILL_ROOM,
    FILL_ROOM_NOISE,
    FILL_RANDOM,
    FILL_INVALID,
    FILL_ONE_PIXEL,
    FILL_STEP,
    FILL_GRAZING,
    FILL_MARKS,
    N_FILLS
};
extern const char *const fill_names[N_FILLS];

// Settings, and the poses to start from and to find; the caller may change them before the images
// are filled.
void input_create(struct input *in, uint32_t width_px, uint32_t height_px, enum fill fill);
void input_fill(struct input *in, enum fill fill);
void input_destroy(struct input *in);

size_t level_px(const struct gpu_settings *s, int level);

#endif
