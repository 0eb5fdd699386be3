// SPDX-License-Identifier: Apache-2.0
// posed-bench: times the parts of posed without the daemon. One subcommand per part; each lives in
// its own <name>.c.
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/bench/bench.h"

static const struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"align", "time and accuracy of aligning many range images at once", bench_align},
    {"capture", "frames per second of a recording's reader; what recording costs", bench_capture},
    {"kidnap", "how often and how soon a camera is found again in its map", bench_kidnap},
    {"latency", "what each kind of request adds to the time from a frame to its pose",
     bench_latency},
    {"loops", "end error of synthetic walks that come back, many seeds at once", bench_loops},
    {"pairs", "registers the pairs of a folder whose truth is known", bench_pairs},
    {"map", "time of the pose and of all work of a frame with a map", bench_map},
    {"register", "time of a registration, or the errors over the trials of a folder",
     bench_register},
    {"search", "time of a pose search, or how well it does over synthetic scenes", bench_search},
    {"track", "time per frame and per stage, frame to frame, from a recording", bench_track},
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

const char *const bench_backends[] = {"auto", "cpu", "cuda", NULL};
const char *const bench_methods[] = {"emicp", "softassign", "icp", "gicp", NULL};
const char *const bench_starts[] = {"identity", "many", NULL};

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct bench_stats bench_stats(double *times_us, size_t n)
{
    struct bench_stats out = {0};
    if (n == 0)
        return out;
    qsort(times_us, n, sizeof *times_us, compare_doubles);
    out.n = n;
    out.min_us = times_us[0];
    out.p50_us = times_us[n / 2];
    out.p90_us = times_us[n * 90 / 100];
    out.p99_us = times_us[n * 99 / 100];
    out.max_us = times_us[n - 1];
    return out;
}

void bench_log_write(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (level <= LOG_LEVEL_INFO)
        fprintf(stderr, "%s\n", line);
}

static void usage(FILE *to)
{
    fprintf(to, "Usage: posed-bench COMMAND [OPTION...]\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\nposed-bench COMMAND --help lists the options of a command.\n");
}

const char *argp_program_version = "posed-bench " POSED_VERSION;

int main(int argc, char **argv)
{
    argp_err_exit_status = 2;
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (argc >= 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        puts(argp_program_version);
        return 0;
    }
    for (size_t i = 0; i < N_COMMANDS && argc >= 2; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            char name[64];
            snprintf(name, sizeof name, "posed-bench %s", commands[i].name);
            argv[1] = name; // argp prints it in its messages
            return commands[i].run(argc - 1, argv + 1);
        }
    if (argc >= 2)
        fprintf(stderr, "posed-bench: no command %s\n", argv[1]);
    usage(stderr);
    return 2;
}
