// SPDX-License-Identifier: Apache-2.0
#include "capture/cloud/cloud.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/file_suffix.h"
#include "proto/output_file.h"

int cloud_alloc(struct cloud *out, size_t n_points, bool with_normals)
{
    memset(out, 0, sizeof *out);
    size_t n = n_points ? n_points : 1;
    out->x_m = calloc(n, sizeof *out->x_m);
    out->y_m = calloc(n, sizeof *out->y_m);
    out->z_m = calloc(n, sizeof *out->z_m);
    if (with_normals) {
        out->nx = calloc(n, sizeof *out->nx);
        out->ny = calloc(n, sizeof *out->ny);
        out->nz = calloc(n, sizeof *out->nz);
    }
    out->n_points = n_points;
    if (!out->x_m || !out->y_m || !out->z_m ||
        (with_normals && (!out->nx || !out->ny || !out->nz))) {
        cloud_free(out);
        return -ENOMEM;
    }
    return 0;
}

void cloud_free(struct cloud *cloud)
{
    free(cloud->x_m);
    free(cloud->y_m);
    free(cloud->z_m);
    free(cloud->nx);
    free(cloud->ny);
    free(cloud->nz);
    free(cloud->triangles);
    free(cloud->grid);
    memset(cloud, 0, sizeof *cloud);
}

struct point_set cloud_points(const struct cloud *cloud)
{
    return (struct point_set){cloud->x_m, cloud->y_m, cloud->z_m,     cloud->nx,
                              cloud->ny,  cloud->nz,  cloud->n_points};
}

static void put_le(FILE *file, uint32_t bits)
{
    for (int i = 0; i < 4; i++)
        putc((int)(bits >> (8 * i) & 0xff), file);
}

static void put_float_le(FILE *file, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_le(file, bits);
}

// Closes the file; one that could not be written completely is removed.
static int finish(FILE *file, const char *path, const struct log_sink *log)
{
    int rc = ferror(file) ? -EIO : 0;
    if (fclose(file) != 0)
        rc = -errno;
    if (rc) {
        log_to(log, LOG_LEVEL_ERROR, "%s: could not write: %s", path, strerror(-rc));
        output_file_discard(path);
    }
    return rc;
}

static FILE *open_new(const char *path, const char *mode, const struct log_sink *log, int *out_rc)
{
    const bool is_new = strchr(mode, 'x') != NULL;
    const int fd = is_new ? -1 : output_file_open(path);
    FILE *file = is_new ? fopen(path, mode) : fd >= 0 ? fdopen(fd, mode) : NULL;
    *out_rc = file ? 0 : is_new || fd >= 0 ? -errno : fd;
    if (!file && fd >= 0)
        close(fd);
    if (!file)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(-*out_rc));
    return file;
}

static void put_points(FILE *file, const struct point_set *points, int n_columns)
{
    const float *const columns[6] = {points->x_m, points->y_m, points->z_m,
                                     points->nx,  points->ny,  points->nz};
    for (size_t k = 0; k < points->n_points; k++)
        for (int i = 0; i < n_columns; i++)
            put_float_le(file, columns[i][k]);
}

static int write_ply(const char *path, const char *mode, const struct point_set *points,
                     const uint32_t *triangles, size_t n_triangles, const struct log_sink *log)
{
    int n_columns = points->nx ? 6 : 3, rc;
    FILE *file = open_new(path, mode, log, &rc);
    if (!file)
        return rc;
    fprintf(file, "ply\nformat binary_little_endian 1.0\nelement vertex %zu\n", points->n_points);
    static const char *const names[] = {"x", "y", "z", "nx", "ny", "nz"};
    for (int i = 0; i < n_columns; i++)
        fprintf(file, "property float %s\n", names[i]);
    if (triangles)
        fprintf(file, "element face %zu\nproperty list uchar int vertex_indices\n", n_triangles);
    fprintf(file, "end_header\n");
    put_points(file, points, n_columns);
    for (size_t k = 0; k < n_triangles; k++) {
        putc(3, file);
        for (int i = 0; i < 3; i++)
            put_le(file, triangles[3 * k + (size_t)i]);
    }
    return finish(file, path, log);
}

int cloud_write_ply(const char *path, const struct point_set *points, const struct log_sink *log)
{
    return write_ply(path, "wb", points, NULL, 0, log);
}

int cloud_write_mesh(const char *path, const struct point_set *points, const uint32_t *triangles,
                     size_t n_triangles, const struct log_sink *log)
{
    static const uint32_t none;
    return write_ply(path, "wbx", points, triangles ? triangles : &none, n_triangles, log);
}

// Fields and header as PCL has them (version .7).
int cloud_write_pcd(const char *path, const struct point_set *points, const struct log_sink *log)
{
    const bool has_normals = points->nx != NULL;
    int rc;
    FILE *file = open_new(path, "wb", log, &rc);
    if (!file)
        return rc;
    fprintf(
        file,
        "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x y z%s\nSIZE 4 4 4%s\n"
        "TYPE F F F%s\nCOUNT 1 1 1%s\nWIDTH %zu\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS %zu\n"
        "DATA binary\n",
        has_normals ? " normal_x normal_y normal_z" : "", has_normals ? " 4 4 4" : "",
        has_normals ? " F F F" : "", has_normals ? " 1 1 1" : "", points->n_points,
        points->n_points);
    put_points(file, points, has_normals ? 6 : 3);
    return finish(file, path, log);
}

int cloud_write(const char *path, const struct point_set *points, const struct log_sink *log)
{
    return file_suffix_is(path, ".pcd") ? cloud_write_pcd(path, points, log)
                                        : cloud_write_ply(path, points, log);
}
