// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fails.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    const char *name; // NULL: none
    long n, at;
    int error;
} now;

void fails_at(const char *name, long n, int error)
{
    now.n = 0;
    now.at = n;
    now.error = error;
    now.name = name;
}

long fails_end(void)
{
    now.name = NULL;
    return now.n;
}

static bool fails(const char *name)
{
    if (!now.name || strcmp(now.name, name) != 0 || ++now.n != now.at)
        return false;
    errno = now.error;
    return true;
}

// What a call of `kind` returns instead, then its declaration.
#define WRAP(kind, failure, type, name, parameters, arguments)          \
    type __real_##name parameters;                                      \
    type __wrap_##name parameters;                                      \
    type __wrap_##name parameters                                       \
    {                                                                   \
        return fails(kind) ? (type)(failure) : __real_##name arguments; \
    }
#define MEMORY(name, parameters, arguments) \
    WRAP("memory", NULL, void *, name, parameters, arguments)
#define CALL(name, parameters, arguments) WRAP(#name, -1, int, name, parameters, arguments)

MEMORY(malloc, (size_t n_bytes), (n_bytes))
MEMORY(calloc, (size_t n, size_t n_bytes), (n, n_bytes))
MEMORY(realloc, (void *memory, size_t n_bytes), (memory, n_bytes))
MEMORY(aligned_alloc, (size_t alignment, size_t n_bytes), (alignment, n_bytes))
WRAP("memory", NULL, char *, strdup, (const char *text), (text))
WRAP("memory", NULL, FILE *, open_memstream, (char **out, size_t *out_n), (out, out_n))
WRAP("fopen", NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP("fdopen", NULL, FILE *, fdopen, (int fd, const char *mode), (fd, mode))
WRAP("fdopendir", NULL, DIR *, fdopendir, (int fd), (fd))
WRAP("fwrite", 0, size_t, fwrite, (const void *from, size_t size, size_t n, FILE *to),
     (from, size, n, to))
WRAP("pwrite", -1, ssize_t, pwrite, (int fd, const void *bytes, size_t n_bytes, off_t at),
     (fd, bytes, n_bytes, at))
WRAP("sendmsg", -1, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
     (fd, message, flags))
CALL(fflush, (FILE * file), (file))
CALL(fsync, (int fd), (fd))
CALL(ftruncate, (int fd, off_t n_bytes), (fd, n_bytes))
CALL(rename, (const char *from, const char *to), (from, to))
CALL(lstat, (const char *path, struct stat *out), (path, out))
CALL(fstat, (int fd, struct stat *out), (fd, out))
CALL(chmod, (const char *path, mode_t mode), (path, mode))
CALL(chown, (const char *path, uid_t user, gid_t group), (path, user, group))
CALL(socket, (int family, int type, int protocol), (family, type, protocol))
CALL(bind, (int fd, const struct sockaddr *address, socklen_t n), (fd, address, n))
CALL(listen, (int fd, int n), (fd, n))
CALL(accept4, (int fd, struct sockaddr *out, socklen_t *out_n, int flags), (fd, out, out_n, flags))
CALL(getsockname, (int fd, struct sockaddr *out, socklen_t *out_n), (fd, out, out_n))
CALL(getpeername, (int fd, struct sockaddr *out, socklen_t *out_n), (fd, out, out_n))
CALL(getsockopt, (int fd, int level, int option, void *out, socklen_t *out_n),
     (fd, level, option, out, out_n))
CALL(getifaddrs, (struct ifaddrs * *out), (out))
CALL(getrlimit, (int what, struct rlimit *out), (what, out))
CALL(setrlimit, (int what, const struct rlimit *limit), (what, limit))
CALL(epoll_create1, (int flags), (flags))
CALL(epoll_ctl, (int epoll, int action, int fd, struct epoll_event *event),
     (epoll, action, fd, event))
CALL(eventfd, (unsigned count, int flags), (count, flags))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    return fails("open") ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    return fails("openat") ? -1 : __real_openat(folder, path, flags, mode);
}

// With four arguments: what our objects call so is openat2.
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long a[4];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    return fails("syscall") ? -1 : __real_syscall(number, a[0], a[1], a[2], a[3]);
}
