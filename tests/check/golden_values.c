// SPDX-License-Identifier: Apache-2.0
#include "tests/check/golden_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PRINTED 40u
#define MOST_NUMBERS 128u

static struct {
    FILE *file;
    bool writes;
    char name[96];
    size_t n_rows, n_numbers, n_wrong;
    double worst; // share of a limit that was used
    uint64_t random;
} golden;

static _Noreturn void die(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(2);
}

void golden_begin(int argc, char **argv)
{
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "write") != 0))
        die("usage: FILE [write]", argv[0]);
    golden.writes = argc == 3;
    golden.file = fopen(argv[1], golden.writes ? "w" : "r");
    if (!golden.file)
        die("cannot be opened", argv[1]);
    if (golden.writes)
        fprintf(golden.file, "# case, name, numbers: made by %s\n",
                strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0]);
}

void golden_needs_fma(void)
{
    bool has = true;
#if defined(__x86_64__)
    has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif !defined(__ARM_FEATURE_FMA)
    has = false;
#endif
    if (!has) {
        printf("SKIP: this processor has no fused multiply and add\n");
        exit(77);
    }
}

void golden_case(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(golden.name, sizeof golden.name, format, list);
    va_end(list);
}

static void wrong(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (golden.n_wrong++ < MOST_PRINTED)
        vprintf(format, list);
    va_end(list);
}

// The table's next row. Returns how many numbers it has, -1 where it is another row.
static int read_row(const char *name, double out[MOST_NUMBERS])
{
    char line[4096], expected[160];
    do {
        if (!fgets(line, sizeof line, golden.file))
            return -1;
    } while (line[0] == '#');
    snprintf(expected, sizeof expected, "%s %s ", golden.name, name);
    if (strncmp(line, expected, strlen(expected)) != 0)
        return -1;
    int n = 0;
    for (char *at = line + strlen(expected), *end = NULL; n < (int)MOST_NUMBERS; at = end) {
        out[n] = strtod(at, &end);
        if (end == at)
            break;
        n++;
    }
    return n;
}

void golden_numbers(const char *name, const double *values, size_t n, double relative)
{
    double expected[MOST_NUMBERS], scale = 0;
    if (n > MOST_NUMBERS)
        die("more than MOST_NUMBERS", name);
    golden.n_rows++;
    golden.n_numbers += n;
    if (golden.writes) {
        fprintf(golden.file, "%s %s", golden.name, name);
        for (size_t i = 0; i < n; i++)
            fprintf(golden.file, " %.9g", values[i]);
        fprintf(golden.file, "\n");
        return;
    }
    if (read_row(name, expected) != (int)n) {
        wrong("%s %s: another row stands in the table\n", golden.name, name);
        return;
    }
    for (size_t i = 0; i < n; i++)
        scale = fmax(scale, fabs(expected[i]));
    for (size_t i = 0; i < n; i++) {
        const double off = fabs(values[i] - expected[i]), limit = relative * scale;
        const bool same = values[i] == expected[i] || (isnan(values[i]) && isnan(expected[i]));
        if (!same && !(off <= limit))
            wrong("%s %s[%zu]: expected %.9g, got %.9g, off by %.2g of %.2g\n", golden.name, name,
                  i, expected[i], values[i], off, limit);
        else if (!same)
            golden.worst = fmax(golden.worst, off / limit);
    }
}

void golden_number(const char *name, double value, double relative)
{
    golden_numbers(name, &value, 1, relative);
}

void golden_count(const char *name, int64_t count)
{
    golden_number(name, (double)count, 0);
}

void golden_pose(const char *name, const struct se3 *T, double relative)
{
    char row[64];
    snprintf(row, sizeof row, "%s.rotation", name);
    golden_numbers(row, T->r, 9, relative);
    snprintf(row, sizeof row, "%s.translation_m", name);
    golden_numbers(row, T->t_m, 3, relative);
}

void golden_covariance(const char *name, const double covariance[36], double relative)
{
    double std[6], correlation[15];
    char row[64];
    for (int i = 0; i < 6; i++)
        std[i] = sqrt(covariance[7 * i]);
    for (int i = 0, at = 0; i < 6; i++)
        for (int j = i + 1; j < 6; j++)
            correlation[at++] = covariance[6 * i + j] / (std[i] * std[j]);
    snprintf(row, sizeof row, "%s.std", name);
    golden_numbers(row, std, 6, relative);
    snprintf(row, sizeof row, "%s.correlation", name);
    golden_numbers(row, correlation, 15, relative);
}

int golden_end(void)
{
    char line[4096];
    while (!golden.writes && fgets(line, sizeof line, golden.file))
        if (line[0] != '#')
            wrong("the table has one row more: %s", line);
    const bool failed = fclose(golden.file) != 0 && golden.writes;
    printf("%zu rows, %zu numbers, %zu wrong; %.3g of a limit used at most\n", golden.n_rows,
           golden.n_numbers, golden.n_wrong, golden.worst);
    return golden.n_wrong > 0 || failed || golden.n_rows == 0;
}

void golden_seed(uint64_t seed)
{
    golden.random = seed;
}

double golden_uniform(double low, double high)
{
    uint64_t z = golden.random += 0x9e3779b97f4a7c15u; // splitmix64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return low + (high - low) * (double)(z >> 11) * 0x1p-53;
}

double golden_noise(void)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += golden_uniform(-0.5, 0.5);
    return sum * sqrt(3);
}
