// SPDX-License-Identifier: Apache-2.0
#include "daemon/map_export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "capture/cloud/cloud.h"
#include "daemon/config/config.h"
#include "daemon/output_name.h"
#include "proto/file_suffix.h"

// What a single look from two metres weighs, or several from farther off; less is mostly the fringe
// of edges.
#define EXPORT_MIN_WEIGHT 8
#define NAME_BYTES        (CONFIG_TEXT_MAX + 8)

int map_export_surface(const struct model_block *blocks, uint32_t n_blocks, float voxel_m,
                       struct model_surface *out)
{
    int rc = model_surface_create(blocks, n_blocks, voxel_m, EXPORT_MIN_WEIGHT, out);
    if (rc == 0 && out->n_points == 0) { // a single look, or far off
        model_surface_free(out);
        rc = model_surface_create(blocks, n_blocks, voxel_m, 1, out);
    }
    if (rc == 0 && out->n_points == 0) {
        model_surface_free(out);
        rc = -ENODATA;
    }
    return rc;
}

const char *map_export_why_none(uint32_t n_left_out)
{
    return n_left_out > 0 ? "the map is full and holds no surface: map.memory_bytes is too small "
                            "for what one frame sees"
                          : "the map has seen nothing yet: it begins with the first frame (posectl "
                            "status: whether any come)";
}

// Writes under the first of NAME.ply, NAME.1.ply, ... that is free: what has come meanwhile stays,
// and the session's map is not lost.
static int write_new(const char *path, const struct point_set *points,
                     const struct model_surface *surface, char name[NAME_BYTES],
                     const struct log_sink *log)
{
    const size_t n_ending = file_suffix_is(path, ".ply") ? strlen(".ply") : 0;
    const int n_stem = (int)(strlen(path) - n_ending);
    int rc = -EEXIST;
    snprintf(name, NAME_BYTES, "%s", path);
    for (int i = 1; rc == -EEXIST && i <= OUTPUT_NAME_MAX_KEPT; i++) {
        if (faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
            rc = cloud_write_mesh(name, points, surface->triangles, surface->n_triangles, log);
        if (rc == -EEXIST)
            snprintf(name, NAME_BYTES, "%.*s.%d%s", n_stem, path, i, path + n_stem);
    }
    return rc;
}

int map_export_write(const char *path, const struct model_block *blocks, uint32_t n_blocks,
                     uint32_t n_left_out, float voxel_m, const struct log_sink *log)
{
    struct model_surface surface;
    int rc = map_export_surface(blocks, n_blocks, voxel_m, &surface);
    if (rc < 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: no map: %s", path,
               rc == -ENODATA ? map_export_why_none(n_left_out) : strerror(-rc));
        return rc;
    }
    const struct point_set points = {surface.x_m, surface.y_m, surface.z_m,     surface.nx,
                                     surface.ny,  surface.nz,  surface.n_points};
    char name[NAME_BYTES];
    rc = write_new(path, &points, &surface, name, log);
    if (rc == 0 && strcmp(name, path) != 0)
        log_to(log, LOG_LEVEL_WARNING, "%s: has come meanwhile and stays; the map is in %s", path,
               name);
    if (rc == 0)
        log_to(log, LOG_LEVEL_NOTICE, "%s: %zu points with normals, %zu triangles", name,
               surface.n_points, surface.n_triangles);
    else if (rc == -EEXIST)
        log_to(log, LOG_LEVEL_ERROR, "%s: no map: this name and all behind it to %s are taken",
               path, name);
    model_surface_free(&surface);
    return rc;
}
