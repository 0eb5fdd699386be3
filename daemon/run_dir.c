// SPDX-License-Identifier: Apache-2.0
#include "daemon/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/config/config.h"

void run_dir_find(const char *configured, char *out, size_t size_bytes)
{
    const char *systemd = getenv("RUNTIME_DIRECTORY"), *xdg = getenv("XDG_RUNTIME_DIR");
    if (configured[0])
        snprintf(out, size_bytes, "%s", configured);
    else if (systemd && systemd[0] == '/')
        snprintf(out, size_bytes, "%.*s", (int)strcspn(systemd, ":"), systemd);
    else if (access("/run/posed", W_OK) == 0 || access("/run", W_OK) == 0)
        snprintf(out, size_bytes, "/run/posed");
    else if (xdg && xdg[0] == '/')
        snprintf(out, size_bytes, "%s/posed", xdg);
    else
        snprintf(out, size_bytes, "/tmp/posed-%u", (unsigned)getuid());
}

static bool is_ours(const struct stat *info)
{
    return info->st_uid == geteuid() || info->st_uid == 0;
}

static const char *what_is_wrong(const struct stat *folder)
{
    return !S_ISDIR(folder->st_mode)     ? "not a folder"
           : !is_ours(folder)            ? "belongs to another user"
           : (folder->st_mode & S_IWOTH) ? "everybody can write there"
                                         : NULL;
}

// Whether the run directory is ours alone: a folder, or a link to one, that somebody else prepared
// in /tmp is refused. If it is not, the reason is in the log.
static bool is_ours_alone(const char *path, const struct log_sink *log)
{
    char target[4096] = "";
    struct stat info;
    const char *wrong = NULL;
    const bool is_there = lstat(path, &info) == 0, is_link = is_there && S_ISLNK(info.st_mode);
    if (is_link && !is_ours(&info))
        wrong = "the link belongs to another user";
    else if (!is_there || (is_link && stat(path, &info) != 0))
        wrong = strerror(errno);
    else
        wrong = what_is_wrong(&info);
    if (wrong && is_link && readlink(path, target, sizeof target - 1) < 0)
        target[0] = 0;
    if (wrong)
        log_to(log, LOG_LEVEL_ERROR, "%s%s%s: %s (endpoints.run_dir)", path,
               is_link ? ", a symbolic link to " : "", target, wrong);
    return !wrong;
}

bool run_dir_check(const char *run_dir, const struct log_sink *log)
{
    struct stat info;
    if (stat(run_dir, &info) != 0 || S_ISDIR(info.st_mode))
        return true;
    log_to(log, LOG_LEVEL_ERROR, "endpoints.run_dir: %s: not a folder", run_dir);
    return false;
}

int run_dir_lock(const char *run_dir, const struct log_sink *log)
{
    char path[CONFIG_TEXT_MAX + 8], text[32] = "";
    if (mkdir(run_dir, 0750) != 0 && errno != EEXIST) {
        const int error = -errno;
        log_to(log, LOG_LEVEL_ERROR, "%s: %s (endpoints.run_dir)", run_dir, strerror(-error));
        return error;
    }
    if (!is_ours_alone(run_dir, log))
        return -EPERM;
    snprintf(path, sizeof path, "%s/lock", run_dir);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0) {
        const int error = -errno;
        log_to(log, LOG_LEVEL_ERROR, "%s: %s (endpoints.run_dir)", path, strerror(-error));
        return error;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        long pid = n > 0 ? strtol(text, NULL, 10) : 0;
        log_to(log, LOG_LEVEL_ERROR,
               "another posed (process %ld) is running with %s: stop it, or give this one its own "
               "--run-dir and ports",
               pid, run_dir);
        close(fd);
        return -EBUSY;
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n)
        log_to(log, LOG_LEVEL_WARNING, "%s: %s", path, strerror(errno));
    return fd;
}
