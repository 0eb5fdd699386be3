// SPDX-License-Identifier: Apache-2.0
// The inner loop of the soft methods on the CPU: for each row point p_i the sums over all column
// points x_j of e_ij = w_j exp2(-|p_i - x_j|^2), in coordinates that were scaled beforehand by
// sqrt(log2(e) / (2 sigma^2)), so that a pair costs no multiplication by 1 / sigma^2.
//
// pass.c is compiled once for each instruction set; register_pass_choose takes the best
// that the machine has. One lane of a vector is one row, so that a row's sums are added in the
// order of the columns: the result depends neither on the number of threads nor on where a row
// stands. No thread of its own: the caller shares out rows in blocks.
#ifndef POSED_GPU_REGISTER_CPU_PASS_H
#define POSED_GPU_REGISTER_CPU_PASS_H

#include <stddef.h>

// Rows are worked in blocks of this many; arrays of rows have room for a multiple of it.
#define REGISTER_PASS_BLOCK 64

struct register_columns {
    const float *x, *y, *z; // scaled, n each
    const float *w;         // weights, NULL: all 1
    size_t n;
};

// Sums of each row; sums that a function does not name are left alone.
struct register_rows {
    const float *x, *y, *z;       // scaled
    float *sum;                   // sum e
    float *sum2;                  // sum e^2
    float *sum_x, *sum_y, *sum_z; // sum e x_j, in scaled coordinates
};

struct register_passes {
    const char *name; // "AVX-512", "AVX2", "baseline"
    // All work on rows [begin, end), multiples of REGISTER_PASS_BLOCK.
    void (*sums)(const struct register_rows *rows, const struct register_columns *columns,
                 size_t begin, size_t end); // sum
    void (*moments)(const struct register_rows *rows, const struct register_columns *columns,
                    size_t begin, size_t end); // sum, sum_x, sum_y, sum_z
    void (*emicp)(const struct register_rows *rows, const struct register_columns *columns,
                  size_t begin, size_t end); // all five; weights are not used
};

const struct register_passes *register_pass_choose(void);

#endif
