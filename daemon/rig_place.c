// SPDX-License-Identifier: Apache-2.0
#include "daemon/rig_place.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proto/se3.h"

#define MAX_PLACE_M 100.0
#define MAX_CLOCK_S 10.0 // read_clock says so, too

// The lines of a place's file; of a longer one than `text` has room for, what it begins with.
struct place_lines {
    FILE *file;
    uint32_t number;
    bool is_whole; // the newline was there
    char text[1024];
};

// To the next line that is no comment and not empty.
static bool next_line(struct place_lines *lines)
{
    do {
        if (!fgets(lines->text, sizeof lines->text, lines->file))
            return false;
        lines->number++;
        lines->is_whole = strchr(lines->text, '\n') != NULL;
        for (int c = 0; !lines->is_whole && (c = fgetc(lines->file)) != EOF;)
            lines->is_whole = c == '\n';
    } while (lines->text[0] == '#' || !lines->text[strspn(lines->text, " \t\r\n")]);
    return true;
}

// Returns NULL, or what is wrong with the line.
static const char *read_transform(struct place_lines *lines, struct se3 *out)
{
    double v[7], norm2 = 0;
    bool good = next_line(lines) && sscanf(lines->text, "%lf %lf %lf %lf %lf %lf %lf", &v[0], &v[1],
                                           &v[2], &v[3], &v[4], &v[5], &v[6]) == 7;
    for (int i = 0; i < 7 && good; i++) {
        good = fabs(v[i]) < MAX_PLACE_M; // false for NaN, too
        norm2 += i >= 3 ? v[i] * v[i] : 0;
    }
    if (!good || fabs(norm2 - 1) > 0.02)
        return "no file of posectl rig calibrate: x y z [m] and a quaternion of length 1 are "
               "wanted in its first line that is no comment";
    *out = se3_from_quaternion(v + 3, v);
    return NULL;
}

// Row `row` of the covariance, which nothing but its being whole is asked of.
static const char *check_row(const char *text, uint32_t row)
{
    double v[6];
    int n = 0;
    bool good = sscanf(text, "%lf %lf %lf %lf %lf %lf %n", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
                       &n) == 6 &&
                !text[n];
    for (int i = 0; i < 6 && good; i++)
        good = isfinite(v[i]);
    if (!good)
        return "behind the place six rows of six numbers are wanted, its covariance, then \"clock "
               "SECONDS\": was the file cut off?";
    return v[row] < 0 ? "a variance is negative, in the covariance of the place" : NULL;
}

// Behind the place there may be nothing, or the clock alone, as one writes by hand. posectl writes
// the covariance and the clock: where one has begun and the rest is not there, the file was cut.
static const char *read_clock(struct place_lines *lines, double *out_s)
{
    static const char keyword[] = "clock ";
    const size_t n_keyword = sizeof keyword - 1;
    const char *wrong = NULL;
    uint32_t n_rows = 0;
    bool found = false;
    *out_s = 0;
    while (!wrong && !found && next_line(lines)) {
        found = strncmp(lines->text, keyword, n_keyword) == 0;
        if (found &&
            (sscanf(lines->text + n_keyword, "%lf", out_s) != 1 || !(fabs(*out_s) <= MAX_CLOCK_S)))
            wrong = "clock: seconds are wanted, 10 at most";
        else if (!found && n_rows == 6)
            wrong = "behind the covariance's six rows \"clock SECONDS\" is wanted";
        else if (!found)
            wrong = check_row(lines->text, n_rows++);
    }
    if (!wrong && n_rows > 0 && (n_rows < 6 || !found || !lines->is_whole))
        wrong = "the file was cut off: it ends before its covariance, six rows, and the line "
                "\"clock SECONDS\" behind it are complete";
    return wrong;
}

int rig_place_read(const char *path, struct rig_place *out, const struct log_sink *log)
{
    struct place_lines lines = {.file = fopen(path, "re")};
    if (!lines.file) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s (camera.rig)", path, strerror(errno));
        return -EINVAL;
    }
    const char *wrong = read_transform(&lines, &out->T_a_b);
    if (!wrong)
        wrong = read_clock(&lines, &out->clock_s);
    fclose(lines.file);
    if (wrong)
        log_to(log, LOG_LEVEL_ERROR, "%s:%u: %s", path, lines.number, wrong);
    return wrong ? -EINVAL : 0;
}
