// SPDX-License-Identifier: Apache-2.0
// A table of named rows of numbers that is compared with a file, or written to it.
#ifndef POSED_TESTS_CHECK_SEARCH_GOLDEN_ROWS_H
#define POSED_TESTS_CHECK_SEARCH_GOLDEN_ROWS_H

#include <stddef.h>
#include <stdint.h>

struct golden_row;

// Prints both and exits with 1.
__attribute__((noreturn)) void golden_die(const char *what, const char *name);

// A new row name/part; neither holds a blank.
struct golden_row *golden_add_row(const char *name, const char *part);
void golden_add(struct golden_row *row, double value);
void golden_add_floats(struct golden_row *row, const float *values, size_t n);

// Numbers one after the other: their sum, and their sum weighted by 1 .. 7, which also changes when
// two of them change places. Of absolute values, so that nothing cancels. Start it zeroed.
struct golden_sums {
    double plain, weighted;
    uint32_t n;
};
void golden_sum(struct golden_sums *sums, double value);
void golden_add_sums(struct golden_row *row, const struct golden_sums *sums);

// What main returns: 0, or 1 when the file cannot be written, or when its rows are others or one of
// its numbers is off by more than 1e-5 of itself and 1e-6 (entries of rotations, shares and metres
// that are nearly 0). The first such number of each row is printed. A NaN is off.
int golden_write(const char *path);
int golden_compare(const char *path);

#endif
