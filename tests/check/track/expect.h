// SPDX-License-Identifier: Apache-2.0
// What check_track holds a twin's output to: the reference in double precision, another run's bits,
// another twin's numbers. Failures and the share used of each limit are counted by check.h.
//
// Each stage of the reference starts from the backend's own output of the stage before, so that a
// limit covers one stage and is tight.
#ifndef POSED_TESTS_CHECK_TRACK_EXPECT_H
#define POSED_TESTS_CHECK_TRACK_EXPECT_H

#include "tests/check/track/input.h"

struct output {
    float *maps[2][GPU_LEVELS];
    struct gpu_alignment one[GPU_LEVELS]; // one iteration of this level alone
    struct gpu_alignment all, early;
};

// All of it, of two runs of one twin.
void expect_same_bits(const struct input *in, const struct output *a, const struct output *b,
                      const char *what);
bool alignment_same_bits(const struct gpu_alignment *a, const struct gpu_alignment *b);

// Against the reference.
void expect_maps(const struct input *in, const struct output *out);
void expect_alignment(const struct input *in, const struct output *out);

// Maps of two twins: the same numbers, or nearly where one has no FMA (`exact` false); and poses.
void expect_twins(const struct input *in, const struct output *a, const struct output *b,
                  bool exact, const char *names);

#endif
