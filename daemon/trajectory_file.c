// SPDX-License-Identifier: Apache-2.0
#include "daemon/trajectory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/output_name.h"
#include "proto/se3.h"

#define QUEUE_POSES 16384 // nine minutes at 30 Hz

struct trajectory_file {
    FILE *file;
    enum trajectory_format format;
    bool wait;
    struct trajectory_marks marks; // the thread's own
    struct log_sink log;
    pthread_t thread;
    char path[256];
    char *real_path; // links followed; NULL: a stream

    pthread_mutex_t lock; // of what follows; never held while writing
    pthread_cond_t changed;
    uint64_t n_pushed, n_written;
    uint32_t epoch, n_epochs; // of the newest pose; of all
    bool end;
    int error; // negative errno of the first failure; then nothing more is written
    struct trajectory_frame queue[QUEUE_POSES];
    struct pose_error *errors; // QUEUE_POSES, NULL: the format has none

    struct trajectory_spool *spool; // NULL: the file is not completed
    bool is_full;                   // of the spool, said once
};

static void fail(struct trajectory_file *file, int error, const char *why)
{
    if (file->error)
        return;
    file->error = error;
    log_to(&file->log, LOG_LEVEL_ERROR, "%s: %s; the trajectory ends here", file->path, why);
}

// The line of a frame as it was published, and the frame for the end.
static int write_frame(struct trajectory_file *file, const struct trajectory_frame *frame,
                       const struct pose_error *error)
{
    const struct trajectory_part part = {frame->epoch, frame->clock_set_ns};
    struct stamped_pose pose = {frame->time_ns, frame->T_odom_camera};
    if (!error)
        pose.T_world_camera = se3_compose(&frame->T_map_odom, &frame->T_odom_camera);
    if (trajectory_write_marked(file->file, file->format, &file->marks, &part, frame->origin, &pose,
                                error) != 0)
        return -errno;
    return file->spool ? trajectory_spool_frame(file->spool, frame) : 0;
}

// Poses from n_written on, as far as they lie in one piece. The lock is held, but not while
// writing.
static void write_some(struct trajectory_file *file)
{
    const uint64_t first = file->n_written, n_free = file->n_pushed - first;
    const uint64_t at = first % QUEUE_POSES;
    const uint64_t n = n_free < QUEUE_POSES - at ? n_free : QUEUE_POSES - at;
    const bool last = n == n_free;
    int error = file->error;
    pthread_mutex_unlock(&file->lock);
    for (uint64_t i = 0; i < n && !error; i++)
        error =
            write_frame(file, &file->queue[at + i], file->errors ? &file->errors[at + i] : NULL);
    if (!error && last && fflush(file->file) != 0)
        error = -errno;
    pthread_mutex_lock(&file->lock);
    if (error)
        fail(file, error, strerror(-error));
    file->n_written = first + n;
    pthread_cond_broadcast(&file->changed);
}

static void *run(void *user)
{
    struct trajectory_file *file = user;
    pthread_mutex_lock(&file->lock);
    while (!file->end || file->n_written < file->n_pushed) {
        if (file->n_written < file->n_pushed)
            write_some(file);
        else
            pthread_cond_wait(&file->changed, &file->lock);
    }
    pthread_mutex_unlock(&file->lock);
    return NULL;
}

// What an earlier run has written is nobody's to lose: a service starts again by itself. Of a link
// it is the file behind it that is renamed. Returns 0 or negative errno.
static int keep_old(const char *path, const struct log_sink *log)
{
    char old[PATH_MAX], kept[PATH_MAX + 16];
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0)
        return 0;
    snprintf(old, sizeof old, "%s", path);
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode) && !realpath(path, old))
        return -errno;
    const int error = output_name_move_aside(old, old, kept, sizeof kept);
    if (!error)
        log_to(log, LOG_LEVEL_NOTICE, "%s was there: it is now %s", old, kept);
    return error;
}

static int open_stream(struct trajectory_file *file, const char *path)
{
    const int fd = output_name_open_stream(path);
    if (fd < 0)
        return fd;
    file->file = fdopen(fd, "w");
    if (file->file)
        return 0;
    close(fd);
    return -ENOMEM;
}

// real_path and, where the file can be completed, the spool. Returns 0 or negative errno, with
// file->file to be closed where it is open.
static int open_file(struct trajectory_file *file, const char *path, bool adjusted)
{
    struct stat info;
    if (output_name_is_stream(path))
        return open_stream(file, path);
    const int error = keep_old(path, &file->log);
    if (error)
        return error;
    file->file = fopen(path, "we");
    if (!file->file)
        return -errno;
    if (fstat(fileno(file->file), &info) != 0 || !S_ISREG(info.st_mode))
        return 0;
    file->real_path = realpath(path, NULL);
    if (!file->real_path)
        return -errno;
    return adjusted ? trajectory_spool_create(&file->spool, file->real_path) : 0;
}

int trajectory_file_create(struct trajectory_file **out, const char *path,
                           enum trajectory_format format, bool wait, bool adjusted,
                           const struct log_sink *log)
{
    *out = NULL;
    struct trajectory_file *file = calloc(1, sizeof *file);
    if (!file) {
        log_to(log, LOG_LEVEL_ERROR, "%s: out of memory", path);
        return -ENOMEM;
    }
    file->format = format;
    file->wait = wait;
    file->log = *log;
    snprintf(file->path, sizeof file->path, "%s", path);
    int error = 0;
    if (format == TRAJECTORY_FORMAT_COVARIANCE) {
        file->errors = calloc(QUEUE_POSES, sizeof *file->errors);
        error = file->errors ? 0 : -ENOMEM;
    }
    if (!error)
        error = open_file(file, path, adjusted && format != TRAJECTORY_FORMAT_COVARIANCE);
    if (error)
        goto close_file;
    pthread_mutex_init(&file->lock, NULL);
    pthread_cond_init(&file->changed, NULL);
    error = -pthread_create(&file->thread, NULL, run, file);
    if (error)
        goto destroy_lock;
    *out = file;
    return 0;
destroy_lock:
    pthread_cond_destroy(&file->changed);
    pthread_mutex_destroy(&file->lock);
close_file:
    trajectory_spool_destroy(&file->spool);
    if (file->file)
        fclose(file->file);
    log_to(log, LOG_LEVEL_ERROR, "%s: %s (output.trajectory)", path, strerror(-error));
    free(file->real_path);
    free(file->errors);
    free(file);
    return error;
}

static enum trajectory_origin origin_of(const struct track_result *result)
{
    if (result->state == TRACK_STATE_LOST)
        return TRAJECTORY_ORIGIN_LOST;
    return result->reason == TRACK_REASON_DROPPED ? TRAJECTORY_ORIGIN_PREDICTED
                                                  : TRAJECTORY_ORIGIN_MEASURED;
}

void trajectory_file_push(struct trajectory_file *file, int64_t time_ns, int64_t clock_set_ns,
                          const struct se3 *T_map_odom, const struct track_result *result)
{
    pthread_mutex_lock(&file->lock);
    while (file->wait && !file->error && file->n_pushed - file->n_written == QUEUE_POSES)
        pthread_cond_wait(&file->changed, &file->lock);
    if (file->n_pushed - file->n_written == QUEUE_POSES)
        fail(file, -ENOBUFS, "the disk does not keep up");
    if (!file->error) {
        const uint64_t at = file->n_pushed++ % QUEUE_POSES;
        file->queue[at] = (struct trajectory_frame){.time_ns = time_ns,
                                                    .clock_set_ns = clock_set_ns,
                                                    .epoch = result->map_epoch,
                                                    .n_finds = result->n_finds,
                                                    .T_odom_camera = result->T_odom_camera,
                                                    .T_map_odom = *T_map_odom,
                                                    .origin = origin_of(result)};
        if (file->errors)
            file->errors[at] = result->error;
        file->n_epochs += file->n_epochs == 0 || file->epoch != result->map_epoch;
        file->epoch = result->map_epoch;
        pthread_cond_broadcast(&file->changed);
    }
    pthread_mutex_unlock(&file->lock);
}

bool trajectory_file_is_adjusted(const struct trajectory_file *file)
{
    return file->spool != NULL;
}

void trajectory_file_adjust(struct trajectory_file *file, uint32_t epoch,
                            const struct graph_keyframe *keyframes, uint32_t n_keyframes)
{
    if (!file->spool)
        return;
    int error = trajectory_spool_keyframes(file->spool, epoch, keyframes, n_keyframes);
    if (error && !file->is_full)
        log_to(&file->log, LOG_LEVEL_WARNING,
               "%s: no room for more keyframes: later map epochs stay as they were published",
               file->path);
    file->is_full = file->is_full || error;
}

int trajectory_file_find(struct trajectory_file *file, struct trajectory_find *inout, uint32_t n,
                         int64_t max_gap_ns)
{
    if (!file->spool)
        return -ENODATA;
    pthread_mutex_lock(&file->lock);
    while (!file->error && file->n_written < file->n_pushed)
        pthread_cond_wait(&file->changed, &file->lock);
    const int error = file->error;
    pthread_mutex_unlock(&file->lock);
    return error ? error : trajectory_spool_find(file->spool, inout, n, max_gap_ns);
}

// Whether the name still belongs to the open file: what somebody has moved away is left alone.
static bool is_its_name(const struct trajectory_file *file)
{
    struct stat open_one, named;
    return fstat(fileno(file->file), &open_one) == 0 && stat(file->real_path, &named) == 0 &&
           open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

// What was published, of a file that has no name any more. Returns 0 or negative errno.
static int copy_published(struct trajectory_file *file, int to)
{
    char name[64];
    struct stat info;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fileno(file->file));
    const int from = open(name, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return -errno;
    int error = fstat(from, &info) == 0 ? 0 : -errno;
    ssize_t n = 0;
    for (off_t at = 0; !error && at < info.st_size; at += n)
        if ((n = sendfile(to, from, NULL, (size_t)(info.st_size - at))) <= 0)
            error = n < 0 ? -errno : -EIO;
    close(from);
    return error;
}

// A whole file of all poses, adjusted where keyframes are known, under a name of its own. Returns
// 0, *out_name to be freed, or negative errno with nothing left.
static int write_whole(struct trajectory_file *file, char **out_name)
{
    struct stat info;
    const int fd = output_name_make_beside(file->real_path, out_name);
    int error = fd < 0 ? fd : 0;
    FILE *whole = NULL;
    if (!error && (fstat(fileno(file->file), &info) != 0 || fchmod(fd, info.st_mode & 0777) != 0 ||
                   !(whole = fdopen(fd, "w"))))
        error = -errno;
    if (!error)
        error = file->spool ? trajectory_spool_write(file->spool, whole, file->format)
                            : copy_published(file, fd);
    if (!error && (fflush(whole) != 0 || fsync(fd) != 0))
        error = -errno;
    if (whole && fclose(whole) != 0 && !error)
        error = -errno;
    if (!whole && fd >= 0)
        close(fd);
    if (!error)
        return 0;
    if (fd >= 0)
        unlink(*out_name);
    free(*out_name);
    return error;
}

// Somebody has removed the file: there is another, and whatever has its name now stays. Returns 0
// or negative errno.
static int write_again(struct trajectory_file *file)
{
    char *name, taken[4096];
    const char *path = file->real_path;
    int error = write_whole(file, &name);
    if (error)
        return error;
    if (renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_NOREPLACE) != 0)
        error = -errno;
    if (error == -EEXIST) {
        error = output_name_move_aside(name, path, taken, sizeof taken);
        path = taken;
    }
    if (error)
        unlink(name);
    else
        log_to(&file->log, LOG_LEVEL_WARNING, "%s: removed meanwhile: written once more, as %s",
               file->path, path);
    free(name);
    return error;
}

// The whole session in place of what came frame by frame. Returns 0 or negative errno.
static int replace(struct trajectory_file *file)
{
    char *name;
    int error = write_whole(file, &name);
    if (error)
        return error;
    if (rename(name, file->real_path) != 0) {
        error = -errno;
        unlink(name);
    }
    free(name);
    return error;
}

static void complete(struct trajectory_file *file)
{
    struct stat info;
    if (!file->real_path || file->error)
        return;
    const bool is_removed = fstat(fileno(file->file), &info) == 0 && info.st_nlink == 0;
    const bool is_known = file->spool && trajectory_spool_has_keyframes(file->spool);
    if (!is_removed && is_known && !is_its_name(file)) {
        log_to(&file->log, LOG_LEVEL_WARNING,
               "%s: moved away meanwhile: it stays as it was published", file->path);
        return;
    }
    if (is_removed)
        file->error = write_again(file);
    else if (is_known)
        file->error = replace(file);
    if (file->error)
        log_to(&file->log, LOG_LEVEL_ERROR, "%s: %s; %s", file->path, strerror(-file->error),
               is_removed ? "removed meanwhile, the trajectory is lost"
                          : "it stays as it was published");
}

int trajectory_file_destroy(struct trajectory_file **file)
{
    struct trajectory_file *f = *file;
    if (!f)
        return 0;
    pthread_mutex_lock(&f->lock);
    f->end = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    complete(f);
    if (f->n_epochs > 1)
        log_to(&f->log, LOG_LEVEL_NOTICE,
               "%s: its %u parts (map epochs) are not connected with each other: compare and use "
               "each alone",
               f->path, f->n_epochs);
    if (fclose(f->file) != 0)
        fail(f, -errno, strerror(errno));
    const int error = f->error;
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    trajectory_spool_destroy(&f->spool);
    free(f->real_path);
    free(f->errors);
    free(f);
    *file = NULL;
    return error;
}
