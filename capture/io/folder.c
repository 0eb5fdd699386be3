// SPDX-License-Identifier: Apache-2.0
// Names are resolved by openat2(RESOLVE_BENEATH), which lets links inside the folder work and stops
// everything that leaves it. Kernels and sandboxes without that call get the stricter walk: part by
// part, following no link at all.
#include "capture/io/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READ_MIN_BYTES ((size_t)1 << 16)

int folder_open(const char *path, const struct log_sink *log)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    int err = -errno;
    log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, folder_error(err));
    return err;
}

bool folder_name_is_safe(const char *name)
{
    if (name[0] == '/' || name[0] == '\0')
        return false;
    for (const char *part = name; *part;) {
        size_t n = strcspn(part, "/");
        if (n == 2 && part[0] == '.' && part[1] == '.')
            return false;
        part += n;
        part += strspn(part, "/");
    }
    return true;
}

static int open_without_links(int folder, const char *name, int flags)
{
    char part[256];
    int at = fcntl(folder, F_DUPFD_CLOEXEC, 0);
    while (at >= 0) {
        size_t n = strcspn(name, "/");
        const char *next = name + n + strspn(name + n, "/");
        if (n >= sizeof part) {
            close(at);
            return -ENAMETOOLONG;
        }
        memcpy(part, name, n);
        part[n] = '\0';
        int fd = openat(at, part,
                        *next ? O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC : flags | O_NOFOLLOW);
        int err = -errno;
        close(at);
        if (fd < 0)
            return err;
        if (!*next)
            return fd;
        at = fd;
        name = next;
    }
    return -errno;
}

int folder_open_file(int folder, const char *name)
{
    if (!folder_name_is_safe(name))
        return -EXDEV;
    // O_NONBLOCK: a pipe in place of a file must not hang us before fstat finds it out
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    struct open_how how = {.flags = (unsigned)flags,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
    if (fd < 0) {
        if (errno != ENOSYS && errno != EPERM)
            return -errno;
        fd = open_without_links(folder, name, flags);
        if (fd < 0)
            return fd;
    }
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return -EINVAL;
    }
    return fd;
}

static int reserve(struct file_bytes *bytes, size_t n_bytes)
{
    if (n_bytes <= bytes->capacity)
        return 0;
    size_t capacity = n_bytes + n_bytes / 2 + 4096;
    unsigned char *data = realloc(bytes->data, capacity);
    if (!data)
        return -ENOMEM;
    bytes->data = data;
    bytes->capacity = capacity;
    return 0;
}

int folder_read(int folder, const char *name, size_t max_bytes, struct file_bytes *bytes)
{
    bytes->n_bytes = 0;
    int fd = folder_open_file(folder, name);
    if (fd < 0)
        return fd;
    struct stat st;
    int err = fstat(fd, &st) ? -errno : 0;
    if (!err && (uint64_t)st.st_size > max_bytes)
        err = -EFBIG;
    if (!err)
        err = reserve(bytes, (size_t)st.st_size + 1);
    while (!err && bytes->n_bytes < (size_t)st.st_size) {
        ssize_t n = read(fd, bytes->data + bytes->n_bytes, (size_t)st.st_size - bytes->n_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            err = -errno;
        if (n <= 0)
            break;
        bytes->n_bytes += (size_t)n;
    }
    if (!err)
        bytes->data[bytes->n_bytes] = 0;
    close(fd);
    return err;
}

int folder_read_text(int folder, const char *path, const char *name, const struct log_sink *log,
                     struct file_bytes *bytes)
{
    int err = folder_read(folder, name, FOLDER_MAX_TEXT_BYTES, bytes);
    if (err && err != -ENOENT)
        log_to(log, LOG_LEVEL_ERROR, "%s/%s: %s", path, name, folder_error(err));
    if (!err && memchr(bytes->data, 0, bytes->n_bytes)) {
        log_to(log, LOG_LEVEL_ERROR, "%s/%s: not a text file (NUL byte)", path, name);
        err = -EINVAL;
    }
    return err;
}

int file_open(const char *path, const struct log_sink *log)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int err = fd < 0 || fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
    if (!err)
        return fd;
    log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, folder_error(err));
    if (fd >= 0)
        close(fd);
    return err;
}

int file_read(const char *path, size_t max_bytes, const struct log_sink *log,
              struct file_bytes *bytes)
{
    bytes->n_bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 ? -errno : 0;
    ssize_t n = 1;
    while (!err && n != 0) {
        err = reserve(bytes, bytes->n_bytes + READ_MIN_BYTES);
        size_t room = bytes->capacity - bytes->n_bytes;
        n = err ? 0 : read(fd, bytes->data + bytes->n_bytes, room - 1);
        if (n < 0 && errno != EINTR)
            err = -errno;
        if (n > 0)
            bytes->n_bytes += (size_t)n;
        if (!err && bytes->n_bytes > max_bytes)
            err = -EFBIG;
    }
    if (!err)
        bytes->data[bytes->n_bytes] = 0;
    else
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, folder_error(err));
    if (fd >= 0)
        close(fd);
    return err;
}

int file_read_at(int fd, void *out, size_t n_bytes, uint64_t offset)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pread(fd, (char *)out + done, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return -EBADMSG;
        if (n > 0)
            done += (size_t)n;
    }
    return 0;
}

int file_write(int fd, const void *data, size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = write(fd, (const char *)data + done, n_bytes - done);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            done += (size_t)n;
    }
    return 0;
}

const char *folder_error(int negative_errno)
{
    switch (-negative_errno) {
    case EXDEV:
        return "leads out of the recording's folder, refused: put a copy (cp -L) or a hard link "
               "there in place of the link";
    case EINVAL:
        return "not a regular file";
    case EFBIG:
        return "file too large";
    default:
        return strerror(-negative_errno);
    }
}

void file_bytes_free(struct file_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct file_bytes){0};
}
