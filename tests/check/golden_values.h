// SPDX-License-Identifier: Apache-2.0
// Numbers of answers against a table of what they were: a formula or a constant that changes
// unnoticed changes them. A program takes FILE, and then `write` to write the table anew: for a
// change that means to change answers, with the reason in the commit.
//
// A row is a case, a name and numbers. A number may be off by a share of the row's largest: another
// instruction set, or a compiler that does not optimise, rounds sums of floats otherwise. Counts
// are exact.
#ifndef POSED_TESTS_CHECK_GOLDEN_VALUES_H
#define POSED_TESTS_CHECK_GOLDEN_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "proto/types.h"

// Reads the table, or gets ready to write it. Exits with 2 where it cannot.
void golden_begin(int argc, char **argv);

// Where answers hang on a fused multiply and add: exits with 77, a skip, on a processor without.
void golden_needs_fma(void);

// What the following rows are of; no space in it. printf-like.
__attribute__((format(printf, 1, 2))) void golden_case(const char *format, ...);

void golden_numbers(const char *name, const double *values, size_t n, double relative);
void golden_number(const char *name, double value, double relative);
void golden_count(const char *name, int64_t count);
void golden_pose(const char *name, const struct se3 *T, double relative); // two rows
// Six standard deviations, and the fifteen correlations.
void golden_covariance(const char *name, const double covariance[36], double relative);

// Prints the totals. Returns main's exit status.
int golden_end(void);

// Random numbers of their own, the same on every machine.
void golden_seed(uint64_t seed);
double golden_uniform(double low, double high);
double golden_noise(void); // sum of four uniform ones: mean 0, standard deviation 1

#endif
