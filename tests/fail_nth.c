// SPDX-License-Identifier: Apache-2.0
// Preloaded before the C library: the n-th call of one kind fails, as the environment says.
//   POSED_FAIL=malloc|open|write|fsync|rename|thread   POSED_FAIL_AT=n (from 1)
// Calls count from main() on, which parses the command line first: what the CUDA runtime allocates
// before, to register its kernels, it does not check.
// A file named by POSED_FAIL_MARK is made when it did, and says of which file, or who asked for the
// memory. With n = 0 none fails, and the file holds how many there were of each, in this order.
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
#include <sys/uio.h>
#include <unistd.h>

enum kind { NONE, MALLOC, OPEN, WRITE, FSYNC, RENAME, THREAD, N_KINDS };

static enum kind kind;
static long at;
static _Atomic long n_calls[N_KINDS];
static const char *mark;
static _Atomic bool counts;

__attribute__((constructor)) static void begin(void)
{
    static const char *const names[N_KINDS] = {"",      "malloc", "open",  "write",
                                               "fsync", "rename", "thread"};
    const char *name = getenv("POSED_FAIL"), *number = getenv("POSED_FAIL_AT");
    mark = getenv("POSED_FAIL_MARK");
    at = number ? strtol(number, NULL, 10) : 0;
    for (int i = 1; name && i < N_KINDS; i++)
        if (strcmp(name, names[i]) == 0)
            kind = (enum kind)i;
}

__attribute__((destructor)) static void end(void)
{
    int fd = mark && at == 0
                 ? (int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY | O_TRUNC, 0600)
                 : -1;
    for (int i = 1; fd >= 0 && i < N_KINDS; i++)
        dprintf(fd, "%ld\n", n_calls[i]);
}

static bool fails_for(enum kind of, const char *path)
{
    if (!counts || atomic_fetch_add(&n_calls[of], 1) + 1 != at || of != kind)
        return false;
    int fd = mark ? (int)syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0600) : -1;
    if (fd >= 0) {
        syscall(SYS_write, fd, path, strlen(path));
        close(fd);
    }
    return true;
}

static bool fails(enum kind of)
{
    return fails_for(of, "");
}

static bool write_fails(int fd)
{
    char link[40], path[256] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (kind == WRITE && n_calls[WRITE] + 1 == at && readlink(link, path, sizeof path - 1) < 0)
        path[0] = '\0';
    return fd > STDERR_FILENO && fails_for(WRITE, path);
}

// Who asked for it: where in which file (addr2line).
static bool malloc_fails(const void *caller)
{
    Dl_info info;
    char text[256] = "";
    if (kind == MALLOC && n_calls[MALLOC] + 1 == at && dladdr(caller, &info))
        snprintf(text, sizeof text, "%s+%#lx", info.dli_fname,
                 (unsigned long)((const char *)caller - (const char *)info.dli_fbase));
    return fails_for(MALLOC, text);
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
extern void *__libc_memalign(size_t alignment, size_t n_bytes);

void *malloc(size_t n_bytes)
{
    if (!malloc_fails(__builtin_return_address(0)))
        return __libc_malloc(n_bytes);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t n, size_t size)
{
    if (!malloc_fails(__builtin_return_address(0)))
        return __libc_calloc(n, size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *old, size_t n_bytes)
{
    if (!malloc_fails(__builtin_return_address(0)))
        return __libc_realloc(old, n_bytes);
    errno = ENOMEM;
    return NULL;
}

void *aligned_alloc(size_t alignment, size_t n_bytes)
{
    if (!malloc_fails(__builtin_return_address(0)))
        return __libc_memalign(alignment, n_bytes);
    errno = ENOMEM;
    return NULL;
}

int posix_memalign(void **out, size_t alignment, size_t n_bytes)
{
    void *memory =
        malloc_fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, n_bytes);
    if (!memory)
        return ENOMEM;
    *out = memory;
    return 0;
}

// glibc's own streams call it under the name __open, which nobody can take the place of: fopen is
// taken itself.
int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    int mode = va_arg(args, int);
    va_end(args);
    if (!fails_for(OPEN, path))
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
    if (!fails_for(OPEN, path))
        return (int)syscall(SYS_openat, folder, path, flags, mode);
    errno = EMFILE;
    return -1;
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    if (!fails_for(OPEN, path))
        return next(path, mode);
    errno = EMFILE;
    return NULL;
}

ssize_t write(int fd, const void *bytes, size_t n_bytes)
{
    if (!write_fails(fd))
        return syscall(SYS_write, fd, bytes, n_bytes);
    errno = ENOSPC;
    return -1;
}

ssize_t pwrite(int fd, const void *bytes, size_t n_bytes, off_t at_byte)
{
    if (!write_fails(fd))
        return syscall(SYS_pwrite64, fd, bytes, n_bytes, at_byte);
    errno = ENOSPC;
    return -1;
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    if (!write_fails(fd))
        return syscall(SYS_writev, fd, parts, n);
    errno = ENOSPC;
    return -1;
}

// What a stream writes itself, it writes past this library: its ends are taken. Text in memory is
// no file, and what is only read has nothing to write. ferror() knows of it, as of a write of the C
// library's own.
static bool stream_fails(FILE *stream)
{
    int fd = fileno(stream);
    if (fd < 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY || !write_fails(fd))
        return false;
    stream->_flags |= _IO_ERR_SEEN;
    return true;
}

size_t fwrite(const void *bytes, size_t size, size_t n, FILE *stream)
{
    size_t (*next)(const void *, size_t, size_t, FILE *);
    *(void **)&next = dlsym(RTLD_NEXT, "fwrite");
    if (!stream_fails(stream))
        return next(bytes, size, n, stream);
    errno = ENOSPC;
    return 0;
}

int fflush(FILE *stream)
{
    int (*next)(FILE *);
    *(void **)&next = dlsym(RTLD_NEXT, "fflush");
    if (!stream || !stream_fails(stream))
        return next(stream);
    errno = ENOSPC;
    return EOF;
}

int fclose(FILE *stream)
{
    int (*next)(FILE *);
    *(void **)&next = dlsym(RTLD_NEXT, "fclose");
    bool failed = stream_fails(stream);
    int result = next(stream);
    if (!failed)
        return result;
    errno = ENOSPC;
    return EOF;
}

static int fail_or(enum kind of, int err, long call, long a, long b, long c, long d, long e)
{
    if (!fails(of))
        return (int)syscall(call, a, b, c, d, e);
    errno = err;
    return -1;
}

int fsync(int fd)
{
    return fail_or(FSYNC, EIO, SYS_fsync, fd, 0, 0, 0, 0);
}

int fdatasync(int fd)
{
    return fail_or(FSYNC, EIO, SYS_fdatasync, fd, 0, 0, 0, 0);
}

int rename(const char *from, const char *to)
{
    return fail_or(RENAME, EIO, SYS_renameat2, AT_FDCWD, (long)from, AT_FDCWD, (long)to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return fail_or(RENAME, EIO, SYS_renameat2, from_folder, (long)from, to_folder, (long)to, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *user)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return fails(THREAD) ? EAGAIN : next(thread, attributes, run, user);
}
