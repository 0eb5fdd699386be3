// SPDX-License-Identifier: Apache-2.0
// Known objects on this machine: files in one folder, NAME.object (mesh and reference views) and
// NAME.ply (what it was made of, in case the views are damaged). A mesh that lay there before its
// object has NAME.kept beside it. What goes wrong is said on stderr; functions return 0 or negative
// errno.
#ifndef POSED_TOOLS_POSECTL_OBJECTS_H
#define POSED_TOOLS_POSECTL_OBJECTS_H

#include "gpu/search/search.h"

struct objects {
    const char *folder; // NULL = POSED_OBJECTS, or the user's data folder; made when missing
    enum gpu_backend backend;
    uint32_t n_views; // of what is drawn
    enum search_choice choice;
};

// Names become file names: letters, digits, _ and -, at most 64.
bool objects_is_name(const char *name);

// The mesh of a file, to be given back with objects_free_mesh.
__attribute__((warn_unused_result)) int objects_read_mesh(const char *path,
                                                          struct search_mesh *out);
void objects_free_mesh(struct search_mesh *mesh);

__attribute__((warn_unused_result)) int objects_open_search(const struct objects *objects,
                                                            struct search **out);

// An object drawn from a mesh; `path` is what is said where none can be made of it.
__attribute__((warn_unused_result)) int objects_build(const struct objects *objects,
                                                      struct search *search, const char *path,
                                                      const struct search_mesh *mesh,
                                                      struct search_object **out);

// An object by name from the folder, or drawn from a mesh by its path. Damaged views are drawn
// again.
__attribute__((warn_unused_result)) int objects_open(const struct objects *objects,
                                                     struct search *search, const char *name,
                                                     struct search_object **out);

// A file of the folder itself becomes no copy. -EEXIST: there is an object of this name, or another
// file where its mesh would be.
__attribute__((warn_unused_result)) int objects_add(const struct objects *objects,
                                                    struct search *search, const char *name,
                                                    const char *file,
                                                    struct search_object_info *out);

// Its mesh goes, too, unless it was there before the object.
__attribute__((warn_unused_result)) int objects_remove(const struct objects *objects,
                                                       const char *name);

// Calls visit for the name of each object of the folder, in the order of the alphabet, until it
// returns other than 0, which is returned.
__attribute__((warn_unused_result)) int
objects_visit_names(const struct objects *objects, int (*visit)(void *user, const char *name),
                    void *user);

// Calls visit for each object of the folder that can be read, in the same order.
__attribute__((warn_unused_result)) int
objects_list(const struct objects *objects, struct search *search,
             void (*visit)(void *user, const char *name, const struct search_object_info *info),
             void *user);

#endif
