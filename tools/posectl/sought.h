// SPDX-License-Identifier: Apache-2.0
// The objects that `posectl search` looks for, and what was found of each.
#ifndef POSED_TOOLS_POSECTL_SOUGHT_H
#define POSED_TOOLS_POSECTL_SOUGHT_H

#include "gpu/search/search.h"
#include "tools/posectl/posectl.h"

#define SOUGHT_NAME_BYTES 256

struct sought_object {
    const char *given;            // --object as given; NULL: of --all
    char name[SOUGHT_NAME_BYTES]; // UTF-8; of a mesh file its name without folder and ending
    struct search_answer answer;
};

struct sought {
    struct sought_object *objects; // in the order in which they came
    size_t n;
    bool all;   // --all: whatever is known, found out later
    bool files; // a mesh file is among them
};

// Adds one as --object has it (borrowed). Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int sought_add(struct sought *sought, const char *given);
void sought_free(struct sought *sought);

// The object of that name; with --all it is added when it is not there. NULL: not asked for, or no
// memory.
struct sought_object *sought_find(struct sought *sought, const char *name);

// Two of one name, NULL: none. Answers could not be told apart.
const struct sought_object *sought_twice(const struct sought *sought,
                                         const struct sought_object **out_other);

struct sought_report {
    double total_ms;
    const char *backend;
    bool views; // the paper's search: its view of each pose, too
};

// Prints what was found, a line a pose or JSON. Returns POSECTL_DOUBTFUL, and says of which, unless
// each object has an accepted pose; with --all, unless one has.
enum posectl_exit sought_print(const struct posectl *ctl, const struct sought *sought,
                               const struct sought_report *report);

#endif
