// SPDX-License-Identifier: Apache-2.0
// PLY polygon files: ascii, binary little-endian, binary big-endian. No C library for the format
// is packaged, and the loaders in use trust the counts of the header; this one does not.
//
// Read: `vertex` with x y z and, when all three are there, nx ny nz; `face` lists (`vertex_indices`
// or `vertex_index`) as triangles, larger polygons as fans; `range_grid` with the sizes
// of `obj_info num_cols` and `num_rows` (Stanford scans) as the grid; every other element and
// property is skipped by its declared type.
#ifndef POSED_CAPTURE_CLOUD_PLY_H
#define POSED_CAPTURE_CLOUD_PLY_H

#include "capture/cloud/cloud.h"

// Parses a PLY file held in memory. `name` is what errors call it. Returns 0, or with *out empty
// and file and line (header, ascii) or byte (binary) in the log:
//   -EINVAL  not a PLY file; unknown format, property type or version; no x y z; a count that the
//            file cannot hold; truncation; a number that is none; a NaN or infinite coordinate; a
//            face or cell that names a vertex beyond the last; a grid of another size than
//            num_cols x num_rows
//   -ENOMEM
__attribute__((warn_unused_result)) int ply_parse(const void *data, size_t n_bytes,
                                                  const char *name, const struct log_sink *log,
                                                  struct cloud *out);

#endif
