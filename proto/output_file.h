// SPDX-License-Identifier: Apache-2.0
// A file to write, by the name that a user gives. /dev/stdout, /dev/fd/N and links to them name a
// descriptor that the process has: that one is written to, at its own place. Opened afresh by its
// name, a file behind it would lose what `>>` keeps; and the name is a link of the machine's, which
// nobody renames or removes.
#ifndef POSED_PROTO_OUTPUT_FILE_H
#define POSED_PROTO_OUTPUT_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Follows links by their whole names. Returns the descriptor that `path` names, or -1.
static inline int output_file_descriptor(const char *path)
{
    static const char *const folders[] = {"/proc/self/fd/", "/dev/fd/"};
    char name[PATH_MAX], target[PATH_MAX];
    snprintf(name, sizeof name, "%s", path);
    for (int links = 0; links < 8; links++) {
        int fd, end = 0;
        for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
            const size_t n = strlen(folders[i]);
            if (strncmp(name, folders[i], n) == 0 && sscanf(name + n, "%9d%n", &fd, &end) == 1 &&
                !name[n + (size_t)end] && fd >= 0)
                return fd;
        }
        const ssize_t n = readlink(name, target, sizeof target - 1);
        if (n <= 0 || target[0] != '/')
            return -1;
        memcpy(name, target, (size_t)n);
        name[n] = 0;
    }
    return -1;
}

// A descriptor of the caller's for one that the process was given, or negative errno: -EBADF where
// it was given none of that number that can be written, be one of its own there (all of which are
// closed on exec).
static inline int output_file_duplicate(int given)
{
    const int flags = fcntl(given, F_GETFD), mode = fcntl(given, F_GETFL);
    if (flags < 0 || flags & FD_CLOEXEC || mode < 0 || (mode & O_ACCMODE) == O_RDONLY)
        return -EBADF;
    const int fd = fcntl(given, F_DUPFD_CLOEXEC, 3);
    return fd >= 0 ? fd : -errno;
}

// Opens it for writing, emptied unless it is a descriptor's. Returns a descriptor of the caller's,
// or negative errno.
static inline int output_file_open(const char *path)
{
    const int named = output_file_descriptor(path);
    if (named >= 0)
        return output_file_duplicate(named);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return fd >= 0 ? fd : -errno;
}

// Removes a file that could not be written whole; a link, a pipe or a device stays.
static inline void output_file_discard(const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISREG(info.st_mode))
        unlink(path);
}

#endif
