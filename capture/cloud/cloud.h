// SPDX-License-Identifier: Apache-2.0
// Point clouds in memory and in files: PLY (ply.h), PCD (pcd.h) and plain text with three or six
// numbers a line (.xyz, .txt). Every reader takes the whole file as bytes, so that a fuzzer can
// drive it, and reports a malformed file through the log with file name and line or byte.
#ifndef POSED_CAPTURE_CLOUD_CLOUD_H
#define POSED_CAPTURE_CLOUD_CLOUD_H

#include "proto/log.h"
#include "proto/types.h"

// An owned cloud; all arrays come from malloc and go with cloud_free.
struct cloud {
    float *x_m, *y_m, *z_m; // n_points each, finite
    float *nx, *ny, *nz;    // n_points each, or all NULL: the file has no normals
    size_t n_points;
    uint32_t *triangles; // 3 * n_triangles vertex indices, each < n_points; NULL: none
    size_t n_triangles;
    // Range scans: the vertex of each cell of the scanner's grid (n_columns * n_rows, row by
    // row), CLOUD_GRID_EMPTY where it holds none; NULL: no grid.
    uint32_t *grid;
    uint32_t n_columns, n_rows;
};
#define CLOUD_GRID_EMPTY UINT32_MAX

// Reads a cloud; the name's ending decides the format: .ply, .pcd, anything else is text.
// Returns 0, or with *out empty and the reason in the log: -ENOENT and other errno of open,
// -EINVAL (malformed), -EFBIG (more than 2^31 points or bytes), -ENOMEM, -EIO.
__attribute__((warn_unused_result)) int cloud_read(const char *path, const struct log_sink *log,
                                                   struct cloud *out);

// Text: `x y z` or `x y z nx ny nz` a line, separated by blanks, tabs, commas or semicolons; '#'
// starts a comment, blank lines are skipped. Normals are read when the first line's last three
// numbers are a unit vector; other columns (colours, intensity) are ignored. `name` is what
// errors call the input.
__attribute__((warn_unused_result)) int cloud_parse_text(const void *data, size_t n_bytes,
                                                         const char *name,
                                                         const struct log_sink *log,
                                                         struct cloud *out);

// Writes points (and normals) as binary little-endian PLY. Returns 0 or negative errno; a file that
// could not be written completely is removed.
__attribute__((warn_unused_result)) int
cloud_write_ply(const char *path, const struct point_set *points, const struct log_sink *log);

// The same as binary PCD.
__attribute__((warn_unused_result)) int
cloud_write_pcd(const char *path, const struct point_set *points, const struct log_sink *log);

// One of these two, as the ending of the name says: PCD where it is .pcd.
__attribute__((warn_unused_result)) int
cloud_write(const char *path, const struct point_set *points, const struct log_sink *log);

// Writes points, normals and triangles as binary little-endian PLY into a new file. Returns 0,
// -EEXIST (a file of that name is there and stays as it is) or another negative errno; a file that
// could not be written completely is removed.
__attribute__((warn_unused_result)) int
cloud_write_mesh(const char *path, const struct point_set *points, const uint32_t *triangles,
                 size_t n_triangles, const struct log_sink *log);

// Takes room for n points; with_normals also for normals. Returns 0 or -ENOMEM with *out empty.
__attribute__((warn_unused_result)) int cloud_alloc(struct cloud *out, size_t n_points,
                                                    bool with_normals);

struct point_set cloud_points(const struct cloud *cloud); // a view, valid as long as the cloud
void cloud_free(struct cloud *cloud);                     // empties it; accepts an empty one

#endif
