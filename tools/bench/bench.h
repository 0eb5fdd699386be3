// SPDX-License-Identifier: Apache-2.0
// What the subcommands of posed-bench share: order statistics, log, words of options.
#ifndef POSED_TOOLS_BENCH_BENCH_H
#define POSED_TOOLS_BENCH_BENCH_H

#include <stddef.h>

#include "proto/log.h"

// Order statistics of n times in microseconds; all 0 for n = 0.
struct bench_stats {
    double min_us, p50_us, p90_us, p99_us, max_us;
    size_t n;
};

struct bench_stats bench_stats(double *times_us, size_t n); // sorts times_us

// Writes the library's lines of INFO and above to stderr; `user` is unused.
void bench_log_write(void *user, enum log_level level, const char *line);

// Words of options, for argument_choose: as enum gpu_backend, register_method, register_start.
extern const char *const bench_backends[], *const bench_methods[], *const bench_starts[];

// A subcommand: argv[0] is "posed-bench NAME", the rest are its options. Returns the exit status:
// 0 done, 1 error, 2 usage, 4 source, 5 GPU.
int bench_align(int argc, char **argv);
int bench_capture(int argc, char **argv);
int bench_kidnap(int argc, char **argv);
int bench_latency(int argc, char **argv);
int bench_loops(int argc, char **argv);
int bench_pairs(int argc, char **argv);
int bench_map(int argc, char **argv);
int bench_register(int argc, char **argv);
int bench_search(int argc, char **argv);
int bench_track(int argc, char **argv);

#endif
