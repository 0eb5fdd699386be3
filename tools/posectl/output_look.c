// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/output_look.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/posectl/posectl.h"

// Returns 0 or an errno.
static int look(const char *path)
{
    char folder[PATH_MAX];
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (stat(path, &info) == 0)
        return S_ISDIR(info.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
    if (errno != ENOENT)
        return errno;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    return access(folder, W_OK | X_OK) == 0 ? 0 : errno;
}

bool output_look(const char *path)
{
    const int error = path ? look(path) : 0;
    if (error)
        posectl_complain("%s: %s", path, strerror(error));
    return !error;
}

bool output_look_new(const char *path)
{
    struct stat info;
    if (path && lstat(path, &info) == 0) {
        posectl_complain("%s: is there already: name a new file, or remove it", path);
        return false;
    }
    return output_look(path);
}
