// SPDX-License-Identifier: Apache-2.0
// The sums of one direction of a pair, vertex by vertex in double precision, from plain arrays: no
// formula of gpu/align is part of it.
#ifndef POSED_TESTS_CHECK_ALIGN_REFERENCE_H
#define POSED_TESTS_CHECK_ALIGN_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

struct reference_input {
    const float *p[3], *n[3]; // of the vertices
    uint32_t n_vertices;
    const float *planes; // 4 a cell: n and d
    int width, height;
    const float *projection;      // 3x4
    const float *rotation, *move; // T_target_source
    double noise_a, noise_b;
    double rounding; // of a residual
    double distance, cosine, inverse_cut2;
};

struct reference_sums {
    double h[6][6], g[6], ee, w, abs, n, rr;
    // What single precision may do to each sum: a residual is the small difference of two lengths
    // as large as the scene is deep.
    double slack_h[6][6], slack_g[6], slack_ee, slack_w, slack_abs, slack_rr;
    double n_doubtful; // within 1e-5 of a gate or of a cell's edge: rounding decides
};

void reference_sum(const struct reference_input *input, struct reference_sums *out);

#endif
