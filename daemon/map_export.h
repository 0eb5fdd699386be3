// SPDX-License-Identifier: Apache-2.0
// The map as a file: a surface with normals for others (PLY).
#ifndef POSED_DAEMON_MAP_EXPORT_H
#define POSED_DAEMON_MAP_EXPORT_H

#include "gpu/model/surface_nets.h"
#include "proto/log.h"

// The surface of the blocks as it is shown to others, without the fringe of edges. Returns 0, or
// with *out empty -ENODATA (no surface), -EFBIG or -ENOMEM.
__attribute__((warn_unused_result)) int map_export_surface(const struct model_block *blocks,
                                                           uint32_t n_blocks, float voxel_m,
                                                           struct model_surface *out);

// Why a map has no surface, given its n_left_out.
const char *map_export_why_none(uint32_t n_left_out);

// Writes the surface of the blocks into a new file: NAME.ply, which `path` is, or where that is
// there NAME.1.ply, NAME.2.ply, ..., with a warning; what is there stays. n_left_out is the map's.
// Returns 0, -EEXIST (all are there), -ENODATA (no surface) or another negative errno, in the log.
__attribute__((warn_unused_result)) int map_export_write(const char *path,
                                                         const struct model_block *blocks,
                                                         uint32_t n_blocks, uint32_t n_left_out,
                                                         float voxel_m, const struct log_sink *log);

#endif
