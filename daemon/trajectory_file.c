// SPDX-License-Identifier: Apache-2.0
#include "daemon/trajectory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/se3.h"

#define QUEUE_POSES 16384 // nine minutes at 30 Hz
#define MAX_KEPT    9999

struct trajectory_file {
    FILE *file;
    enum trajectory_format format;
    bool wait;
    struct log_sink log;
    pthread_t thread;
    char path[256];

    pthread_mutex_t lock; // of what follows; never held while writing
    pthread_cond_t changed;
    uint64_t n_pushed, n_written;
    bool end;
    int error; // negative errno of the first failure; then nothing more is written
    struct stamped_pose queue[QUEUE_POSES];
    struct pose_error *errors; // QUEUE_POSES, NULL: the format has none
};

static void fail(struct trajectory_file *file, int error, const char *why)
{
    if (file->error)
        return;
    file->error = error;
    log_to(&file->log, LOG_LEVEL_ERROR, "%s: %s; the trajectory ends here", file->path, why);
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
        if (trajectory_write(file->file, file->format, &file->queue[at + i],
                             file->errors ? &file->errors[at + i] : NULL) != 0)
            error = -errno;
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

// What an earlier run has written is nobody's to lose: a service starts again by itself. Pipes and
// devices are written to. Returns 0 or negative errno.
static int keep_old(const char *path, const struct log_sink *log)
{
    char kept[320];
    struct stat info;
    int error = -EEXIST;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0)
        return 0;
    for (int i = 1; i <= MAX_KEPT && error == -EEXIST; i++) {
        snprintf(kept, sizeof kept, "%s.%d", path, i);
        error = renameat2(AT_FDCWD, path, AT_FDCWD, kept, RENAME_NOREPLACE) == 0 ? 0 : -errno;
    }
    if (!error)
        log_to(log, LOG_LEVEL_NOTICE, "%s was there: it is now %s", path, kept);
    return error;
}

int trajectory_file_create(struct trajectory_file **out, const char *path,
                           enum trajectory_format format, bool wait, const struct log_sink *log)
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
        error = keep_old(path, log);
    if (error)
        goto free_file;
    file->file = fopen(path, "we");
    error = file->file ? 0 : -errno;
    if (error)
        goto free_file;
    pthread_mutex_init(&file->lock, NULL);
    pthread_cond_init(&file->changed, NULL);
    error = -pthread_create(&file->thread, NULL, run, file);
    if (error)
        goto close_file;
    *out = file;
    return 0;
close_file:
    pthread_cond_destroy(&file->changed);
    pthread_mutex_destroy(&file->lock);
    fclose(file->file);
free_file:
    log_to(log, LOG_LEVEL_ERROR, "%s: %s (output.trajectory)", path, strerror(-error));
    free(file->errors);
    free(file);
    return error;
}

void trajectory_file_push(struct trajectory_file *file, int64_t time_ns,
                          const struct se3 *T_map_odom, const struct track_result *result)
{
    pthread_mutex_lock(&file->lock);
    while (file->wait && !file->error && file->n_pushed - file->n_written == QUEUE_POSES)
        pthread_cond_wait(&file->changed, &file->lock);
    if (file->n_pushed - file->n_written == QUEUE_POSES)
        fail(file, -ENOBUFS, "the disk does not keep up");
    if (!file->error) {
        const uint64_t at = file->n_pushed++ % QUEUE_POSES;
        file->queue[at] = (struct stamped_pose){time_ns, result->T_odom_camera};
        if (file->errors)
            file->errors[at] = result->error;
        else
            file->queue[at].T_world_camera = se3_compose(T_map_odom, &result->T_odom_camera);
        pthread_cond_broadcast(&file->changed);
    }
    pthread_mutex_unlock(&file->lock);
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
    if (fclose(f->file) != 0)
        fail(f, -errno, strerror(errno));
    const int error = f->error;
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f->errors);
    free(f);
    *file = NULL;
    return error;
}
