// SPDX-License-Identifier: Apache-2.0
// What the ending of a file's name promises: nothing else is written into it.
#ifndef POSED_PROTO_FILE_SUFFIX_H
#define POSED_PROTO_FILE_SUFFIX_H

#include <stdbool.h>
#include <string.h>
#include <strings.h>

// Whether the name ends so (".ply"), in any case, with something in front.
static inline bool file_suffix_is(const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(name), n_ending = strlen(ending);
    return n > n_ending && strcasecmp(name + n - n_ending, ending) == 0;
}

// The same, or it has no ending and promises nothing, as /dev/stdout does.
static inline bool file_suffix_fits(const char *path, const char *ending)
{
    const char *slash = strrchr(path, '/');
    return file_suffix_is(path, ending) || !strchr(slash ? slash + 1 : path, '.');
}

#endif
