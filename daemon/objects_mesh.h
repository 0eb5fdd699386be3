// SPDX-License-Identifier: Apache-2.0
// An object's mesh, or its points, in the folder, as binary PLY beside its views: so that these can
// be drawn again when their file is damaged, or of another version of posed. How many, and how
// chosen, is in a comment of the file.
#ifndef POSED_DAEMON_OBJECTS_MESH_H
#define POSED_DAEMON_OBJECTS_MESH_H

#include "gpu/search/search.h"
#include "proto/log.h"

// Writes beside and renames. Returns 0 or negative errno; the reason is in the log.
__attribute__((warn_unused_result)) int
objects_mesh_save(const char *path, const struct search_mesh *mesh,
                  const struct search_object_settings *settings, const struct log_sink *log);

// Returns 0, or with *out empty and the reason in the log: as cloud_read; -EINVAL, too: no points.
__attribute__((warn_unused_result)) int
objects_mesh_load(const char *path, const struct log_sink *log, struct search_mesh *out,
                  struct search_object_settings *settings); // untouched without the comment
void objects_mesh_free(struct search_mesh *mesh);           // what load gave; accepts an empty one

#endif
