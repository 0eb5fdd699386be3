// SPDX-License-Identifier: Apache-2.0
#include "capture/cloud/pcd.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/tokenizer.h"

#define MAX_FIELDS 64

struct pcd_field {
    int column; // 0..5 = x y z normal_x normal_y normal_z, -1 = none of them
    size_t n_bytes, count;
    char type; // I, U or F
};

struct pcd_reader {
    struct tokenizer in;
    struct pcd_field fields[MAX_FIELDS];
    size_t n_fields, n_points, width, height;
    bool binary, has_points;
};

static int fail(const struct pcd_reader *r, const char *what)
{
    return tokenizer_fail(&r->in, what);
}

static int parse_fields(struct pcd_reader *r)
{
    static const char *const names[] = {"x", "y", "z", "normal_x", "normal_y", "normal_z"};
    char word[64];
    for (r->n_fields = 0; tokenizer_next(&r->in, word, sizeof word); r->n_fields++) {
        if (r->n_fields == MAX_FIELDS)
            return fail(r, "more than 64 fields");
        struct pcd_field *field = &r->fields[r->n_fields];
        *field = (struct pcd_field){-1, 4, 1, 'F'};
        for (int i = 0; i < 6; i++)
            if (!strcmp(word, names[i]))
                field->column = i;
        for (size_t i = 0; i < r->n_fields; i++)
            if (field->column >= 0 && r->fields[i].column == field->column)
                return fail(r, "field named twice");
    }
    return 0;
}

static int parse_count(struct pcd_reader *r, size_t most, size_t *out)
{
    char word[64], *end;
    if (!tokenizer_next(&r->in, word, sizeof word))
        return fail(r, "a number is missing");
    errno = 0;
    unsigned long long value = strtoull(word, &end, 10);
    if (errno || *end || word[0] == '-' || value > most)
        return fail(r, "not a number in range");
    *out = (size_t)value;
    return 0;
}

// SIZE, TYPE and COUNT have one word for each field.
static int parse_per_field(struct pcd_reader *r, const char *key)
{
    for (size_t i = 0; i < r->n_fields; i++) {
        struct pcd_field *field = &r->fields[i];
        int rc = 0;
        if (!strcmp(key, "SIZE")) {
            rc = parse_count(r, 8, &field->n_bytes);
            if (rc == 0 && (field->n_bytes == 0 || (field->n_bytes & (field->n_bytes - 1))))
                rc = fail(r, "SIZE is not 1, 2, 4 or 8");
        } else if (!strcmp(key, "COUNT")) {
            rc = parse_count(r, 1 << 16, &field->count);
            if (rc == 0 && field->column >= 0 && field->count != 1)
                rc = fail(r, "COUNT of a coordinate is not 1");
        } else {
            char word[8];
            if (!tokenizer_next(&r->in, word, sizeof word) || word[1] || !strchr("IUF", word[0]))
                rc = fail(r, "TYPE is not I, U or F");
            field->type = word[0];
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int parse_data_kind(struct pcd_reader *r)
{
    char word[64];
    if (!tokenizer_next(&r->in, word, sizeof word))
        return fail(r, "DATA without a kind");
    r->binary = !strcmp(word, "binary");
    if (!r->binary && strcmp(word, "ascii") != 0)
        return fail(r, "DATA is neither ascii nor binary (binary_compressed: convert it first)");
    return 0;
}

static int check_header(struct pcd_reader *r)
{
    bool has[6] = {false};
    for (size_t i = 0; i < r->n_fields; i++) {
        const struct pcd_field *field = &r->fields[i];
        if (field->column >= 0)
            has[field->column] = true;
        if (field->type == 'F' && field->n_bytes < 4)
            return fail(r, "a field of type F has SIZE 1 or 2");
    }
    if (!has[0] || !has[1] || !has[2])
        return fail(r, "FIELDS has no x, y and z");
    if (!r->has_points)
        r->n_points = r->width * r->height;
    if (r->n_points > INT32_MAX)
        return fail(r, "more than 2^31 - 1 points");
    return 0;
}

static int parse_header(struct pcd_reader *r)
{
    char word[64];
    r->height = 1;
    for (; r->in.at < r->in.n_bytes; tokenizer_skip_line(&r->in)) {
        int rc = 0;
        if (!tokenizer_next(&r->in, word, sizeof word) || word[0] == '#' ||
            !strcmp(word, "VERSION") || !strcmp(word, "VIEWPOINT"))
            continue;
        if (!strcmp(word, "FIELDS"))
            rc = parse_fields(r);
        else if (!strcmp(word, "SIZE") || !strcmp(word, "TYPE") || !strcmp(word, "COUNT"))
            rc = parse_per_field(r, word);
        else if (!strcmp(word, "WIDTH"))
            rc = parse_count(r, INT32_MAX, &r->width);
        else if (!strcmp(word, "HEIGHT"))
            rc = parse_count(r, INT32_MAX, &r->height);
        else if (!strcmp(word, "POINTS")) {
            rc = parse_count(r, INT32_MAX, &r->n_points);
            r->has_points = true;
        } else if (!strcmp(word, "DATA")) {
            if ((rc = parse_data_kind(r)) < 0 || (rc = check_header(r)) < 0)
                return rc;
            tokenizer_skip_line(&r->in);
            return 0;
        } else
            rc = fail(r, "unknown word in the header");
        if (rc < 0)
            return rc;
    }
    return fail(r, "the file ends inside the header");
}

static double decode(const struct pcd_field *field, const uint8_t *bytes)
{
    uint64_t u = 0;
    for (size_t i = 0; i < field->n_bytes; i++)
        u |= (uint64_t)bytes[i] << (8 * i);
    if (field->type == 'F' && field->n_bytes == 4) {
        uint32_t bits = (uint32_t)u;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    if (field->type == 'F') {
        double d;
        memcpy(&d, &u, sizeof d);
        return d;
    }
    unsigned unused_bits = (unsigned)(64 - 8 * field->n_bytes);
    return field->type == 'U' ? (double)u : (double)((int64_t)(u << unused_bits) >> unused_bits);
}

static int read_value(struct pcd_reader *r, const struct pcd_field *field, double *out)
{
    if (r->binary) {
        if (tokenizer_left_bytes(&r->in) < field->n_bytes)
            return fail(r, "the file ends before all points are read");
        *out = decode(field, (const uint8_t *)r->in.data + r->in.at);
        r->in.at += field->n_bytes;
        return 0;
    }
    char word[64], *end;
    if (!tokenizer_next(&r->in, word, sizeof word))
        return fail(r, "a point has too few numbers, or the file ends too early");
    *out = strtod(word, &end);
    return end != word && !*end ? 0 : fail(r, "not a number");
}

// One point into values[6]; columns that the file lacks keep what they have.
static int read_point(struct pcd_reader *r, double values[6])
{
    for (size_t i = 0; i < r->n_fields; i++)
        for (size_t k = 0; k < r->fields[i].count; k++) {
            double value = 0;
            int rc = read_value(r, &r->fields[i], &value);
            if (rc < 0)
                return rc;
            if (r->fields[i].column >= 0)
                values[r->fields[i].column] = value;
        }
    if (!r->binary)
        tokenizer_skip_line(&r->in);
    return 0;
}

static int read_points(struct pcd_reader *r, struct cloud *out)
{
    size_t least = 0, n_normals = 0;
    for (size_t i = 0; i < r->n_fields; i++) {
        least += r->fields[i].count * (r->binary ? r->fields[i].n_bytes : 1);
        n_normals += r->fields[i].column >= 3;
    }
    bool with_normals = n_normals == 3;
    // cppcheck-suppress zerodiv; x, y and z are there, each counts
    if (r->n_points > tokenizer_left_bytes(&r->in) / least)
        return fail(r, "POINTS is larger than the rest of the file");
    int rc = cloud_alloc(out, r->n_points, with_normals);
    if (rc < 0)
        return rc;
    float *const columns[6] = {out->x_m, out->y_m, out->z_m, out->nx, out->ny, out->nz};
    size_t n = 0;
    for (size_t k = 0; k < r->n_points; k++) {
        double values[6] = {0};
        if ((rc = read_point(r, values)) < 0)
            return rc;
        if (!isfinite((float)values[0]) || !isfinite((float)values[1]) ||
            !isfinite((float)values[2]))
            continue;
        for (int i = 0; i < (with_normals ? 6 : 3); i++)
            columns[i][n] = isfinite((float)values[i]) ? (float)values[i] : 0;
        n++;
    }
    if (n < r->n_points)
        log_to(r->in.log, LOG_LEVEL_NOTICE, "%s: %zu of %zu points hold no measurement (NaN)",
               r->in.name, r->n_points - n, r->n_points);
    out->n_points = n;
    return 0;
}

int pcd_parse(const void *data, size_t n_bytes, const char *name, const struct log_sink *log,
              struct cloud *out)
{
    memset(out, 0, sizeof *out);
    struct pcd_reader *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    r->in =
        (struct tokenizer){.data = data, .n_bytes = n_bytes, .line = 1, .name = name, .log = log};
    int rc = parse_header(r);
    if (rc == 0)
        rc = read_points(r, out);
    if (rc < 0)
        cloud_free(out);
    free(r);
    return rc;
}
