// SPDX-License-Identifier: Apache-2.0
// The harness of the twin tests: one program runs the same inputs through both operation tables and
// through a plain reference, counts what it checked, and with --bench times the same cases.
//
// Limits are written so that a NaN fails: !(error <= limit). Each limit is a row of a table with
// its reason. Every output lies between guard bytes and is poisoned with NaN before it is written.
#ifndef POSED_TESTS_CHECK_CHECK_H
#define POSED_TESTS_CHECK_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/log.h"

// A tolerance: |got - expected| <= absolute + relative * scale, scale given where it is used.
struct check_limit {
    const char *what;
    double absolute, relative;
    const char *reason;
};

// Reads the options and prints the seed. Exits with 2 on a bad option.
//   --seed N      of the random numbers
//   --bench       time the cases instead of checking them
//   --only NAME   only backends whose name contains NAME
//   --max-px N    only cases with images of at most N pixels (for slow tools around the program);
//                 --max-points N is the same for point sets
void check_begin(int argc, char **argv);
bool check_bench_wanted(void);
bool check_wanted(const char *backend, size_t n);
bool check_is_short(
    void); // one case of a kind is enough: a largest size was given, or under a sanitizer

// What the following checks are about; printed with each failure. printf-like.
__attribute__((format(printf, 1, 2))) void check_case(const char *format, ...);

// Counts one check; prints case and message when `good` is false (the first few of a case only).
// Returns good.
__attribute__((format(printf, 2, 3))) bool check_that(bool good, const char *format, ...);

// One number against a limit, and the largest share of the limit that was used, for the summary.
bool check_close(const struct check_limit *limit, double got, double expected, double scale,
                 const char *name);

// A part that cannot run here: prints "SKIP: reason" once per reason and counts it.
__attribute__((format(printf, 1, 2))) void check_skip(const char *format, ...);

// Prints the totals and the share of each limit that was used. Returns main's exit status.
int check_end(void);

// Random numbers from the printed seed.
uint32_t check_random(void);
double check_uniform(double low, double high);
double check_gaussian(void);
void check_direction(double out[3]); // a unit vector, alike in all directions

// Memory between guards, filled with 0xFF (NaN as float or double). check_free checks the guards.
void *check_alloc(size_t bytes);
void check_free(void *memory);

// Prints min and median of `repeats` timed calls in microseconds.
void check_time(const char *name, int repeats, void (*call)(void *context), void *context);

// For settings: collects the library's lines, printed only with a failure.
struct log_sink check_log(void);
unsigned check_log_count(enum log_level level); // lines of that level or more severe, since reset
void check_log_reset(void);

#endif
