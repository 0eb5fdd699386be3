// SPDX-License-Identifier: Apache-2.0
#include "daemon/map_export.h"

#include <errno.h>
#include <string.h>

#include "capture/cloud/cloud.h"

// What a single look from two metres weighs, or several from farther off; less is mostly the fringe
// of edges.
#define EXPORT_MIN_WEIGHT 8

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

int map_export_write(const char *path, const struct model_block *blocks, uint32_t n_blocks,
                     float voxel_m, const struct log_sink *log)
{
    struct model_surface surface;
    int rc = map_export_surface(blocks, n_blocks, voxel_m, &surface);
    if (rc < 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: no surface: %s", path,
               rc == -ENODATA ? "the map has seen nothing" : strerror(-rc));
        return rc;
    }
    const struct point_set points = {surface.x_m, surface.y_m, surface.z_m,     surface.nx,
                                     surface.ny,  surface.nz,  surface.n_points};
    rc = cloud_write_mesh(path, &points, surface.triangles, surface.n_triangles, log);
    if (rc == 0)
        log_to(log, LOG_LEVEL_NOTICE, "%s: %zu points with normals, %zu triangles", path,
               surface.n_points, surface.n_triangles);
    model_surface_free(&surface);
    return rc;
}
