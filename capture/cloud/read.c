// SPDX-License-Identifier: Apache-2.0
// Clouds from files: the suffix decides which reader, text is read here.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "capture/cloud/pcd.h"
#include "capture/cloud/ply.h"
#include "capture/io/folder.h"

#define MAX_FILE_BYTES ((size_t)1 << 31)

// The numbers of one line, at most six. Returns how many there are, or -1: a word is no number.
static int parse_numbers(const char *at, const char *end, double out[6])
{
    int n = 0;
    while (n < 6) {
        while (at < end && strchr(" \t\r,;", *at))
            at++;
        if (at == end || *at == '#')
            break;
        char word[64], *stop;
        size_t length = 0;
        while (at < end && !strchr(" \t\r,;#", *at)) {
            if (length + 1 < sizeof word)
                word[length++] = *at;
            at++;
        }
        word[length] = 0;
        out[n] = strtod(word, &stop);
        if (stop == word || *stop)
            return -1;
        n++;
    }
    return n;
}

// Three further columns are a normal only if they look like a unit vector: they may be a colour.
static bool is_direction(const double v[3])
{
    double length2 = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    return length2 > 0.81 && length2 < 1.21;
}

static int text_error(const struct log_sink *log, const char *name, size_t line, const char *what)
{
    log_to(log, LOG_LEVEL_ERROR, "%s:%zu: %s", name, line, what);
    return -EINVAL;
}

int cloud_parse_text(const void *data, size_t n_bytes, const char *name, const struct log_sink *log,
                     struct cloud *out)
{
    const char *bytes = data, *end = bytes + n_bytes;
    size_t n_lines = 1, n = 0, line = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n_lines += bytes[i] == '\n';
    int rc = cloud_alloc(out, n_lines, true), n_columns = 0;
    if (rc < 0)
        return rc;
    float *const columns[6] = {out->x_m, out->y_m, out->z_m, out->nx, out->ny, out->nz};
    for (const char *at = bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        double numbers[6];
        int n_numbers = parse_numbers(at, stop, numbers);
        at = stop < end ? stop + 1 : end;
        line++;
        if (n_numbers == 0)
            continue;
        if (n_numbers < 0)
            rc = text_error(log, name, line, "not a number (no PLY or PCD: read as lines x y z)");
        else if (n_numbers < 3 || n_numbers < n_columns)
            rc = text_error(log, name, line, "too few numbers");
        if (rc < 0)
            goto fail;
        if (n_columns == 0)
            n_columns = n_numbers == 6 && is_direction(numbers + 3) ? 6 : 3;
        for (int i = 0; i < n_columns; i++) {
            columns[i][n] = (float)numbers[i];
            if (!isfinite(columns[i][n])) {
                rc = text_error(log, name, line, "coordinate is NaN or infinite");
                goto fail;
            }
        }
        n++;
    }
    out->n_points = n;
    if (n_columns != 6) {
        free(out->nx);
        free(out->ny);
        free(out->nz);
        out->nx = out->ny = out->nz = NULL;
    }
    return 0;
fail:
    cloud_free(out);
    return rc;
}

int cloud_read(const char *path, const struct log_sink *log, struct cloud *out)
{
    memset(out, 0, sizeof *out);
    struct file_bytes file = {0};
    int rc = file_read(path, MAX_FILE_BYTES, log, &file);
    if (rc < 0)
        goto free_file;
    const char *dot = strrchr(path, '.');
    if (dot && !strcasecmp(dot, ".ply"))
        rc = ply_parse(file.data, file.n_bytes, path, log, out);
    else if (dot && !strcasecmp(dot, ".pcd"))
        rc = pcd_parse(file.data, file.n_bytes, path, log, out);
    else
        rc = cloud_parse_text(file.data, file.n_bytes, path, log, out);
    if (rc == -ENOMEM)
        log_to(log, LOG_LEVEL_ERROR, "%s: out of memory", path);
free_file:
    file_bytes_free(&file);
    return rc;
}
