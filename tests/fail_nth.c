// SPDX-License-Identifier: Apache-2.0
// Preloaded before the C library: the n-th call of one kind fails, as the environment says.
//   POSED_FAIL=malloc|open|write|thread   POSED_FAIL_AT=n (from 1)
// Calls count from main() on, which parses the command line first: what the CUDA runtime allocates
// before, to register its kernels, it does not check.
// A file named by POSED_FAIL_MARK is made when it did, so that a test knows how many there are.
#include <argp.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind { NONE, MALLOC, OPEN, WRITE, THREAD };

static enum kind kind;
static long at;
static _Atomic long n_calls;
static const char *mark;
static _Atomic bool counts;

__attribute__((constructor)) static void begin(void)
{
    static const char *const names[] = {"", "malloc", "open", "write", "thread"};
    const char *name = getenv("POSED_FAIL"), *number = getenv("POSED_FAIL_AT");
    mark = getenv("POSED_FAIL_MARK");
    at = number ? strtol(number, NULL, 10) : 0;
    for (int i = 1; name && i < 5; i++)
        if (strcmp(name, names[i]) == 0)
            kind = (enum kind)i;
}

static bool fails(enum kind of)
{
    if (kind != of || !counts || atomic_fetch_add(&n_calls, 1) + 1 != at)
        return false;
    if (mark)
        close((int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600));
    return true;
}

error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *at_index,
                   void *input)
{
    error_t (*next)(const struct argp *, int, char **, unsigned, int *, void *);
    *(void **)&next = dlsym(RTLD_NEXT, "argp_parse");
    counts = true;
    return next(argp, argc, argv, flags, at_index, input);
}

extern void *__libc_malloc(size_t n_bytes);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t n_bytes);

void *malloc(size_t n_bytes)
{
    if (!fails(MALLOC))
        return __libc_malloc(n_bytes);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t n, size_t size)
{
    if (!fails(MALLOC))
        return __libc_calloc(n, size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *old, size_t n_bytes)
{
    if (!fails(MALLOC))
        return __libc_realloc(old, n_bytes);
    errno = ENOMEM;
    return NULL;
}

// glibc's own streams call it under the name __open, which nobody can take the place of: fopen is
// taken itself.
int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = va_arg(args, int);
    va_end(args);
    if (!fails(OPEN))
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    errno = EMFILE;
    return -1;
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = va_arg(args, int);
    va_end(args);
    if (!fails(OPEN))
        return (int)syscall(SYS_openat, folder, path, flags, mode);
    errno = EMFILE;
    return -1;
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    if (!fails(OPEN))
        return next(path, mode);
    errno = EMFILE;
    return NULL;
}

ssize_t write(int fd, const void *bytes, size_t n_bytes)
{
    if (fd <= STDERR_FILENO || !fails(WRITE))
        return syscall(SYS_write, fd, bytes, n_bytes);
    errno = ENOSPC;
    return -1;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *user)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return fails(THREAD) ? EAGAIN : next(thread, attributes, run, user);
}
