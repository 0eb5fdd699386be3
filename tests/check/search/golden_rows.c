// SPDX-License-Identifier: Apache-2.0
#include "tests/check/search/golden_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE  1e-5
#define ABSOLUTE   1e-6
#define MAX_ROWS   500
#define MAX_VALUES 24

struct golden_row {
    char name[64];
    int n;
    double values[MAX_VALUES];
};

static struct golden_row rows[MAX_ROWS];
static size_t n_rows;

void golden_die(const char *what, const char *name)
{
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

struct golden_row *golden_add_row(const char *name, const char *part)
{
    if (n_rows == MAX_ROWS)
        golden_die("more than MAX_ROWS", name);
    struct golden_row *row = &rows[n_rows++];
    snprintf(row->name, sizeof row->name, "%s/%s", name, part);
    return row;
}

void golden_add(struct golden_row *row, double value)
{
    if (row->n == MAX_VALUES)
        golden_die("more than MAX_VALUES", row->name);
    row->values[row->n++] = value;
}

void golden_add_floats(struct golden_row *row, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        golden_add(row, (double)values[i]);
}

void golden_sum(struct golden_sums *sums, double value)
{
    sums->plain += fabs(value);
    sums->weighted += fabs(value) * (1 + sums->n++ % 7);
}

void golden_add_sums(struct golden_row *row, const struct golden_sums *sums)
{
    golden_add(row, sums->plain);
    golden_add(row, sums->weighted);
}

int golden_write(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return 1;
    fprintf(file, "# scene/part and its numbers: made by check_golden_search\n");
    for (size_t i = 0; i < n_rows; i++) {
        fprintf(file, "%s", rows[i].name);
        for (int k = 0; k < rows[i].n; k++)
            fprintf(file, " %.9g", rows[i].values[k]);
        fprintf(file, "\n");
    }
    return fclose(file) != 0;
}

// How many of a line's numbers are not those of the row; prints the first of them.
static size_t compare_row(char *line, const struct golden_row *row)
{
    char *rest, *name = strtok_r(line, " \n", &rest);
    size_t n_wrong = 0;
    if (!name || strcmp(name, row->name) != 0) {
        printf("expected %s, got %s\n", name ? name : "a name", row->name);
        return 1;
    }
    int k = 0;
    for (char *word; (word = strtok_r(NULL, " \n", &rest)); k++) {
        const double expected = strtod(word, NULL);
        const double got = k < row->n ? row->values[k] : (double)NAN;
        if (fabs(got - expected) <= TOLERANCE * fabs(expected) + ABSOLUTE)
            continue;
        if (n_wrong++ == 0)
            printf("%s: number %d is %.9g, expected %.9g\n", row->name, k + 1, got, expected);
    }
    return n_wrong + (k < row->n);
}

int golden_compare(const char *path)
{
    char line[1024];
    size_t n_wrong = 0, n = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        golden_die("cannot be read", path);
    while (fgets(line, sizeof line, file))
        if (line[0] != '#') {
            n_wrong +=
                compare_row(line, n < n_rows ? &rows[n] : &(struct golden_row){.name = "no row"});
            n++;
        }
    fclose(file);
    printf("%zu rows, %zu in the table, %zu numbers wrong\n", n_rows, n, n_wrong);
    return n_wrong || n != n_rows;
}
