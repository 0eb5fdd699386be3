// SPDX-License-Identifier: Apache-2.0
#include "daemon/output_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/output_file.h"

#define MAX_LINKS 40 // as the kernel has it

static bool is_below(const char *folder, const char *parent)
{
    const size_t n = strlen(parent);
    return strncmp(folder, parent, n) == 0 && (folder[n] == 0 || folder[n] == '/');
}

// The real path of the folder that a name is in, to be freed, or NULL with errno.
static char *real_folder(const char *path, const char **out_base)
{
    const char *slash = strrchr(path, '/');
    *out_base = slash ? slash + 1 : path;
    char *folder = strndup(slash ? path : "./", slash ? (size_t)(slash + 1 - path) : 2);
    char *real = folder ? realpath(folder, NULL) : NULL;
    free(folder);
    return real;
}

// One step: *path, to be freed, becomes the real folder and the name in it; *out_next, to be freed,
// where that is a link to, or NULL. Returns 0 or a negative errno.
static int step(char **path, char **out_next, bool *is_stream)
{
    char target[4096], *name = NULL;
    const char *base;
    *out_next = NULL;
    char *folder = real_folder(*path, &base);
    if (!folder)
        return -errno;
    if ((is_below(folder, "/dev") && !is_below(folder, "/dev/shm")) || is_below(folder, "/proc"))
        *is_stream = true;
    const char *root = strcmp(folder, "/") == 0 ? "" : folder;
    int error = asprintf(&name, "%s/%s", root, base) < 0 ? -ENOMEM : 0;
    if (!error) {
        free(*path);
        *path = name;
        const ssize_t n = readlink(name, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = 0;
        if (n > 0 && asprintf(out_next, "%s%s%s", target[0] == '/' ? "" : root,
                              target[0] == '/' ? "" : "/", target) < 0)
            error = -ENOMEM;
    }
    free(folder);
    return error;
}

int output_name_resolve(const char *path, char **out, bool *out_is_stream)
{
    char *next = strdup(path);
    bool is_stream = false;
    int error = next ? 0 : -ENOMEM;
    *out = NULL;
    for (int i = 0; next && !error; i++) {
        free(*out);
        *out = next;
        next = NULL;
        error = i < MAX_LINKS ? step(out, &next, &is_stream) : -ELOOP;
    }
    if (error) {
        free(*out);
        *out = NULL;
    }
    if (out_is_stream)
        *out_is_stream = is_stream;
    return error;
}

// The descriptor that the name has, or standard output or error where they are written to and it is
// their file; else -1.
static int find_open(const char *path)
{
    struct stat named, open_one;
    const int descriptor = output_file_descriptor(path);
    if (descriptor >= 0)
        return descriptor;
    if (stat(path, &named) != 0)
        return -1;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &open_one) == 0 && open_one.st_dev == named.st_dev &&
            open_one.st_ino == named.st_ino && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
            return fd;
    return -1;
}

bool output_name_is_stream(const char *path)
{
    bool is_stream = false;
    char *real;
    if (find_open(path) >= 0)
        return true;
    if (output_name_resolve(path, &real, &is_stream) == 0)
        free(real);
    return is_stream;
}

int output_name_open_stream(const char *path)
{
    const int given = find_open(path);
    if (given >= 0)
        return output_file_duplicate(given);
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

bool output_name_is_same(const char *a, const char *b)
{
    char *real_a = NULL, *real_b = NULL;
    const bool is_same = output_name_resolve(a, &real_a, NULL) == 0 &&
                         output_name_resolve(b, &real_b, NULL) == 0 && strcmp(real_a, real_b) == 0;
    free(real_a);
    free(real_b);
    return is_same || strcmp(a, b) == 0;
}

int output_name_make_beside(const char *path, char **out_name)
{
    const char *slash = strrchr(path, '/');
    const int n_folder = slash ? (int)(slash + 1 - path) : 0;
    *out_name = NULL;
    if (asprintf(out_name, "%.*s.posed-XXXXXX", n_folder, path) < 0)
        return -ENOMEM;
    const int fd = mkostemp(*out_name, O_CLOEXEC);
    if (fd >= 0)
        return fd;
    const int error = -errno;
    free(*out_name);
    *out_name = NULL;
    return error;
}

int output_name_move_aside(const char *from, const char *path, char *out, size_t out_bytes)
{
    int error = -EEXIST;
    for (int i = 1; i <= OUTPUT_NAME_MAX_KEPT && error == -EEXIST; i++) {
        if (snprintf(out, out_bytes, "%s.%d", path, i) >= (int)out_bytes)
            return -ENAMETOOLONG;
        error = renameat2(AT_FDCWD, from, AT_FDCWD, out, RENAME_NOREPLACE) == 0 ? 0 : -errno;
    }
    return error;
}
