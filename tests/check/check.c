// SPDX-License-Identifier: Apache-2.0
#include "tests/check/check.h"
#include "proto/clock.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PRINTED_PER_CASE 5
#define MAX_LIMITS           32
#define MAX_SKIPS            32
#define GUARD_BYTES          64
#define GUARD_VALUE          0xA5

static struct {
    uint64_t random;
    bool bench;
    const char *only;
    size_t most;    // pixels or points of a case
    char name[256]; // of the case
    unsigned n_printed, n_checks, n_failed, n_cases, n_skips;
    char skips[MAX_SKIPS][160];
    struct {
        const struct check_limit *limit;
        double used; // largest share
        unsigned n;
    } limits[MAX_LIMITS];
    unsigned n_limits;
    char last_line[1024];
    unsigned n_lines[8];
} check;

void check_begin(int argc, char **argv)
{
    uint64_t seed = 20261120;
    check.most = SIZE_MAX;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) {
            check.bench = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            check.only = argv[++i];
        } else if ((strcmp(argv[i], "--max-px") == 0 || strcmp(argv[i], "--max-points") == 0) &&
                   i + 1 < argc) {
            check.most = strtoull(argv[++i], NULL, 0);
        } else {
            fprintf(
                stderr,
                "usage: %s [--seed N] [--bench] [--only BACKEND] [--max-px N | --max-points N]\n",
                argv[0]);
            exit(2);
        }
    }
    check.random = seed;
    printf("seed %llu\n", (unsigned long long)seed);
}

bool check_bench_wanted(void)
{
    return check.bench;
}

void check_case(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(check.name, sizeof check.name, format, args);
    va_end(args);
    check.n_printed = 0;
    check.n_cases++;
}

bool check_wanted(const char *backend, size_t n)
{
    return n <= check.most && (!check.only || strstr(backend, check.only));
}

bool check_is_short(void)
{
#ifdef POSED_SANITIZED
    return true;
#else
    return check.most < SIZE_MAX;
#endif
}

bool check_that(bool good, const char *format, ...)
{
    check.n_checks++;
    if (good)
        return true;
    check.n_failed++;
    if (check.n_printed++ < MAX_PRINTED_PER_CASE) {
        printf("FAIL: %s: ", check.name);
        va_list args;
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("%s%s\n", check.last_line[0] ? "; last log line: " : "", check.last_line);
    }
    return false;
}

bool check_close(const struct check_limit *limit, double got, double expected, double scale,
                 const char *name)
{
    double allowed = limit->absolute + limit->relative * scale, error = fabs(got - expected);
    double used = error == 0 ? 0 : error / allowed;
    unsigned i = 0;
    while (i < check.n_limits && check.limits[i].limit != limit)
        i++;
    if (i < MAX_LIMITS) {
        if (i == check.n_limits)
            check.limits[check.n_limits++].limit = limit;
        check.limits[i].n++;
        if (!(used <= check.limits[i].used))
            check.limits[i].used = used;
    }
    return check_that(error <= allowed, "%s: %s is %.9g, expected %.9g: off by %.3g, limit %.3g",
                      limit->what, name, got, expected, error, allowed);
}

void check_skip(const char *format, ...)
{
    char reason[sizeof check.skips[0]];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    for (unsigned i = 0; i < check.n_skips && i < MAX_SKIPS; i++)
        if (strcmp(check.skips[i], reason) == 0)
            return;
    if (check.n_skips < MAX_SKIPS)
        memcpy(check.skips[check.n_skips], reason, sizeof reason);
    check.n_skips++;
    printf("SKIP: %s\n", reason);
}

int check_end(void)
{
    printf("%-28s %8s %12s  %s\n", "limit", "checks", "share used", "reason");
    for (unsigned i = 0; i < check.n_limits; i++)
        printf("%-28s %8u %11.1f%%  %s\n", check.limits[i].limit->what, check.limits[i].n,
               100 * check.limits[i].used, check.limits[i].limit->reason);
    printf("%u cases, %u checks, %u failed, %u parts skipped\n", check.n_cases, check.n_checks,
           check.n_failed, check.n_skips);
    if (check.n_checks == 0)
        return 77;
    return check.n_failed > 0;
}

uint32_t check_random(void)
{
    check.random = check.random * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = check.random ^ check.random >> 29; // the low bits of an LCG are poor
    return (uint32_t)(x >> 32);
}

double check_uniform(double low, double high)
{
    return low + (high - low) * (check_random() + 0.5) / 4294967296.0;
}

double check_gaussian(void)
{
    double r = sqrt(-2 * log(check_uniform(0, 1)));
    return r * cos(check_uniform(0, 6.283185307179586));
}

void check_direction(double out[3])
{
    double length2 = 0;
    for (int i = 0; i < 3; i++) {
        out[i] = check_gaussian();
        length2 += out[i] * out[i];
    }
    for (int i = 0; i < 3; i++)
        out[i] /= sqrt(length2);
}

void *check_alloc(size_t bytes)
{
    unsigned char *all = aligned_alloc(64, (2 * GUARD_BYTES + bytes + 127) / 64 * 64);
    if (!all) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    memset(all, GUARD_VALUE, GUARD_BYTES);
    memcpy(all, &bytes, sizeof bytes);
    memset(all + GUARD_BYTES, 0xFF, bytes);
    memset(all + GUARD_BYTES + bytes, GUARD_VALUE, GUARD_BYTES);
    return all + GUARD_BYTES;
}

void check_free(void *memory)
{
    if (!memory)
        return;
    unsigned char *all = (unsigned char *)memory - GUARD_BYTES;
    size_t bytes;
    memcpy(&bytes, all, sizeof bytes);
    bool intact = true;
    for (size_t i = sizeof bytes; i < GUARD_BYTES; i++)
        intact = intact && all[i] == GUARD_VALUE;
    for (size_t i = 0; i < GUARD_BYTES; i++)
        intact = intact && all[GUARD_BYTES + bytes + i] == GUARD_VALUE;
    check_that(intact, "guard bytes around %zu bytes were overwritten", bytes);
    free(all);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void check_time(const char *name, int repeats, void (*call)(void *context), void *context)
{
    double *us = malloc((size_t)repeats * sizeof *us);
    if (!us)
        return;
    for (int i = -2; i < repeats; i++) {
        const int64_t start_ns = clock_monotonic_ns();
        call(context);
        if (i >= 0)
            us[i] = (double)(clock_monotonic_ns() - start_ns) * 1e-3;
    }
    qsort(us, (size_t)repeats, sizeof *us, compare_doubles);
    printf("%-60s min %10.1f us  median %10.1f us\n", name, us[0], us[repeats / 2]);
    free(us);
}

static void log_write(void *user, enum log_level level, const char *line)
{
    (void)user;
    check.n_lines[level & 7]++;
    if (level <= LOG_LEVEL_WARNING)
        snprintf(check.last_line, sizeof check.last_line, "%s", line);
}

struct log_sink check_log(void)
{
    return (struct log_sink){log_write, NULL};
}

unsigned check_log_count(enum log_level level)
{
    unsigned n = 0;
    for (unsigned i = 0; i <= (unsigned)level; i++)
        n += check.n_lines[i];
    return n;
}

void check_log_reset(void)
{
    memset(check.n_lines, 0, sizeof check.n_lines);
    check.last_line[0] = '\0';
}
