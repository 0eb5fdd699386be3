// SPDX-License-Identifier: Apache-2.0
// The objects that SearchPose knows, by name, on one search device; kept in a folder if there is
// one: views in <name>.object, the mesh in <name>.ply. Views that are damaged or of another version
// are drawn again, with a warning.
//
// One thread at a time (the compute queue).
#ifndef POSED_DAEMON_OBJECTS_H
#define POSED_DAEMON_OBJECTS_H

#include "gpu/search/search.h"
#include "proto/log.h"

#define OBJECTS_MAX        32
#define OBJECTS_NAME_BYTES 80
#define OBJECTS_NOT_KEPT   1

struct objects; // opaque

// Opens the device and loads what `folder` holds (empty = nothing, and nothing is kept). What is
// wrong with files goes to `log`, what is wrong with a mesh to the settings' own. Returns 0, or
// negative errno as search_open.
__attribute__((warn_unused_result)) int objects_create(struct objects **out,
                                                       const struct search_settings *settings,
                                                       const char *folder,
                                                       const struct log_sink *log);
void objects_destroy(struct objects **objects);

// Draws the views and takes the object in. `name` is a plain name. Returns 0; OBJECTS_NOT_KEPT
// (it is known, but could not be written to the folder; the log says why); -EEXIST; -ENOSPC
// (OBJECTS_MAX are known); else as search_object_create.
__attribute__((warn_unused_result)) int objects_add(struct objects *objects, const char *name,
                                                    const struct search_mesh *mesh,
                                                    const struct search_object_settings *settings);

// Forgets it, in the folder too. Returns 0 or -ENOENT.
__attribute__((warn_unused_result)) int objects_remove(struct objects *objects, const char *name);

// Objects 0 .. objects_count - 1, in the order in which they came. NULL / -1 where there is none.
size_t objects_count(const struct objects *objects);
const char *objects_name(const struct objects *objects, size_t i);
const struct search_object *objects_get(const struct objects *objects, size_t i);
long objects_find(const struct objects *objects, const char *name);

struct search *objects_search(struct objects *objects);

#endif
