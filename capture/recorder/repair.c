// SPDX-License-Identifier: Apache-2.0
#include "capture/recorder/repair.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/io/folder.h"
#include "capture/io/little_endian.h"
#include "capture/io/zero_tail.h"
#include "capture/mcap/repair.h"
#include "capture/recorder/writer.h"
#include "capture/recording/klg.h"

#define COPY_BYTES ((size_t)1 << 20)

// Walks behind the last whole frame of a klg. Returns 0 or a negative errno.
static int find_klg_end(struct klg_walk *walk, uint32_t *out_n)
{
    struct klg_frame frame;
    int err;
    for (*out_n = 0; (err = klg_walk_next(walk, &frame)) == 0;)
        ++*out_n;
    return err == -ENODATA || err == -EBADMSG ? 0 : err;
}

// What to say of zeros at the end, or "".
#define ZEROS_BYTES 80
static const char *describe_zeros(uint64_t n_zeros, char out[ZEROS_BYTES])
{
    *out = 0;
    if (n_zeros)
        snprintf(out, ZEROS_BYTES, "; it ends in %" PRIu64 " zeros, as a power cut leaves them",
                 n_zeros);
    return out;
}

struct outcome {
    bool is_complete;  // nothing is to mend
    bool write_failed; // what was returned is an error of out_fd, which is not logged yet
};

static int put(int out_fd, const void *data, size_t n_bytes, struct outcome *out)
{
    const int err = writer_append(out_fd, data, n_bytes);
    out->write_failed = err != 0;
    return err;
}

static int copy(int fd, int out_fd, uint64_t from, uint64_t end, struct outcome *out)
{
    unsigned char *data = malloc(COPY_BYTES);
    int err = data ? 0 : -ENOMEM;
    while (!err && from < end) {
        size_t n = end - from < COPY_BYTES ? (size_t)(end - from) : COPY_BYTES;
        err = file_read_at(fd, data, n, from);
        if (!err)
            err = put(out_fd, data, n, out);
        from += n;
    }
    free(data);
    return err;
}

// Both: out_fd < 0 only looks, and says something of a file that is complete or no recording.
static int repair_klg(int fd, int out_fd, const char *path, const struct log_sink *log,
                      struct outcome *out)
{
    struct klg_walk walk;
    uint32_t n = 0;
    unsigned char head[KLG_HEADER_BYTES] = {0};
    uint64_t n_zeros = 0;
    char zeros[ZEROS_BYTES];
    int err = klg_walk_begin(&walk, fd);
    if (!err)
        err = klg_walk_check(&walk);
    if (!err)
        err = find_klg_end(&walk, &n);
    if (!err && n == 0)
        err = -ENOENT;
    if (!err)
        err = file_read_at(fd, head, sizeof head, 0);
    if (!err)
        err = zero_tail(fd, (uint64_t)walk.at, (uint64_t)walk.n_bytes, &n_zeros);
    *out = (struct outcome){!err && little_u32(head) == n && walk.at == walk.n_bytes, false};
    for (int i = 0; i < KLG_HEADER_BYTES && !err; i++)
        head[i] = (unsigned char)(n >> 8 * i);
    if (!err && out_fd >= 0)
        err = put(out_fd, head, sizeof head, out);
    if (!err && out_fd >= 0)
        err = copy(fd, out_fd, KLG_HEADER_BYTES, (uint64_t)walk.at, out);
    if (err && !out->write_failed)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path,
               err == -ENOENT    ? "no whole frame in it"
               : err == -EBADMSG ? "not a klg log, whatever its name says"
                                 : strerror(-err));
    else if (!err && out->is_complete)
        log_to(log, LOG_LEVEL_NOTICE, "%s: %" PRIu32 " frames, nothing to mend", path, n);
    else if (!err && out_fd >= 0)
        log_to(log, LOG_LEVEL_NOTICE,
               "%s: %" PRIu32 " frames, %" PRIu64 " bytes behind them lost%s", path, n,
               (uint64_t)(walk.n_bytes - walk.at) - n_zeros, describe_zeros(n_zeros, zeros));
    return err == -EBADMSG ? -EINVAL : err;
}

static int repair_mcap(int fd, int out_fd, const char *path, const struct log_sink *log,
                       struct outcome *out)
{
    struct mcap_repaired result;
    char zeros[ZEROS_BYTES];
    int err = mcap_repair(fd, out_fd, path, log, &result);
    *out = (struct outcome){!err && result.was_complete, result.write_failed};
    if (out->is_complete)
        log_to(log, LOG_LEVEL_NOTICE,
               "%s: %" PRIu64 " messages in %" PRIu64 " chunks, nothing to mend", path,
               result.n_messages, result.n_chunks);
    else if (!err && out_fd >= 0)
        log_to(log, LOG_LEVEL_NOTICE,
               "%s: %" PRIu64 " messages in %" PRIu64 " chunks, %" PRIu64 " bytes lost%s", path,
               result.n_messages, result.n_chunks, result.n_lost_bytes,
               describe_zeros(result.n_zeros, zeros));
    return err;
}

// A new file. Returns its descriptor, or a negative errno after logging it.
static int make(const char *path, const struct log_sink *log)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    const int err = fd < 0 ? errno : 0;
    if (err)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s%s", path, strerror(err),
               err == EEXIST ? ", and is not written over: name the copy with -o" : "");
    return err ? -err : fd;
}

// The sidecar of the klg at `path`, for the copy at `out_path`; there may be none. Not through a
// link: no reader takes that.
static int copy_sidecar(const char *path, const char *out_path, const struct log_sink *log)
{
    char from[4200], to[4200];
    struct stat info;
    struct outcome outcome = {false, false};
    if (snprintf(from, sizeof from, "%s" KLG_CALIBRATION_SUFFIX, path) >= (int)sizeof from ||
        snprintf(to, sizeof to, "%s" KLG_CALIBRATION_SUFFIX, out_path) >= (int)sizeof to) {
        log_to(log, LOG_LEVEL_ERROR, "%.80s...: path too long", path);
        return -ENAMETOOLONG;
    }
    const int fd = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        log_to(
            log, LOG_LEVEL_ERROR,
            "%s: a link, no regular file, or unreadable: without it the copy has other intrinsics",
            from);
        if (fd >= 0)
            close(fd);
        return -EINVAL;
    }
    const int out_fd = make(to, log);
    int err = out_fd < 0 ? out_fd : 0;
    if (!err) {
        err = copy(fd, out_fd, 0, (uint64_t)info.st_size, &outcome);
        if (close(out_fd) != 0 && !err)
            err = -errno;
        if (err) {
            log_to(log, LOG_LEVEL_ERROR, "%s: %s: nothing is left of this copy", to,
                   strerror(-err));
            unlink(to);
        }
    }
    close(fd);
    return err;
}

int recorder_repair(const char *path, const char *out_path, bool always, const struct log_sink *log)
{
    struct outcome outcome = {false, false};
    if (access(path, F_OK) != 0) {
        const int err = errno;
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(err));
        return -err;
    }
    const char *const suffix = strrchr(path, '.');
    const bool is_mcap = suffix && strcmp(suffix, ".mcap") == 0;
    if (!is_mcap && !(suffix && strcmp(suffix, ".klg") == 0)) {
        log_to(log, LOG_LEVEL_ERROR,
               "%s: a .mcap or .klg is wanted; a folder of images is whole image by image", path);
        return -ENOTSUP;
    }
    int fd = file_open(path, log);
    if (fd < 0)
        return fd;
    struct stat info;
    if (fstat(fd, &info) == 0 && info.st_size == 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: the file is empty", path);
        close(fd);
        return -EINVAL;
    }
    int (*const repair)(int, int, const char *, const struct log_sink *, struct outcome *) =
        is_mcap ? repair_mcap : repair_klg;
    int err = always ? 0 : repair(fd, -1, path, log, &outcome);
    if (err || outcome.is_complete) {
        close(fd);
        return err ? err : 1;
    }
    int out_fd = make(out_path, log);
    if (out_fd < 0) {
        close(fd);
        return out_fd;
    }
    err = repair(fd, out_fd, path, log, &outcome);
    if (close(out_fd) != 0 && !err) {
        err = -errno;
        outcome.write_failed = true;
    }
    if (outcome.write_failed)
        log_to(log, LOG_LEVEL_ERROR,
               "%s: %s: nothing is left of this copy, and %s is as it was; -o names another place",
               out_path, strerror(-err), path);
    close(fd);
    if (!err && !is_mcap)
        err = copy_sidecar(path, out_path, log);
    if (err)
        unlink(out_path);
    return err;
}
