// SPDX-License-Identifier: Apache-2.0
// The map as a file: a surface with normals for others (PLY).
#ifndef POSED_DAEMON_MAP_FILE_H
#define POSED_DAEMON_MAP_FILE_H

#include "gpu/model/model.h"
#include "proto/log.h"

// Writes the surface of the blocks into a new file. Returns 0, -EEXIST (a file of that name is
// there and stays as it is), -ENODATA (nothing has been seen) or another negative errno, in the
// log.
__attribute__((warn_unused_result)) int map_file_export(const char *path,
                                                        const struct model_block *blocks,
                                                        uint32_t n_blocks, float voxel_m,
                                                        const struct log_sink *log);

#endif
