// SPDX-License-Identifier: Apache-2.0
#include "capture/recorder/recordings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/recorder/writer.h"
#include "capture/recording/klg.h"
#include "proto/clock.h"

static const struct writer_format *const formats[RECORDER_N_FORMATS] = {
    [RECORDER_FORMAT_TUM] = &writer_tum,           [RECORDER_FORMAT_KLG] = &writer_klg,
    [RECORDER_FORMAT_FAKENECT] = &writer_fakenect, [RECORDER_FORMAT_MCAP] = &writer_mcap,
    [RECORDER_FORMAT_ROS2MCAP] = &writer_ros2mcap,
};

const struct writer_format *recordings_format(enum recorder_format format)
{
    return formats[format];
}

int recordings_open(const char *path, const struct log_sink *log)
{
    if (mkdir(path, 0755) == 0)
        log_to(log, LOG_LEVEL_NOTICE, "recorder.folder %s did not exist: created", path);
    else if (errno != EEXIST)
        return -errno;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int recorder_format_from_name(const char *name)
{
    for (int i = 0; i < RECORDER_N_FORMATS; i++)
        if (!strcmp(formats[i]->name, name))
            return i;
    return -EINVAL;
}

const char *recorder_format_name(enum recorder_format format)
{
    return format < RECORDER_N_FORMATS ? formats[format]->name : "unknown";
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), n_suffix = strlen(suffix);
    return n > n_suffix && !strcmp(name + n - n_suffix, suffix);
}

bool recorder_name_is_plain(const char *name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(name);
    if (n == 0 || n >= RECORDER_NAME_BYTES || name[0] == '.' || name[0] == '-' ||
        strspn(name, letters) != n)
        return false;
    for (int i = 0; i < RECORDER_N_FORMATS; i++)
        if (*formats[i]->suffix && ends_with(name, formats[i]->suffix))
            return false;
    return !ends_with(name, KLG_CALIBRATION_SUFFIX);
}

// Bytes of a folder and, one level down, of its folders.
static uint64_t folder_bytes(int folder, const char *name, int depth)
{
    uint64_t n_bytes = 0;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct stat st;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && !fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
            n_bytes += S_ISDIR(st.st_mode) && depth > 0 ? folder_bytes(fd, entry->d_name, depth - 1)
                       : S_ISREG(st.st_mode)            ? (uint64_t)st.st_size
                                                        : 0;
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return n_bytes;
}

// Fills in *out when `name` in the folder is a recording.
static bool recognise(int folder, const char *name, struct recorder_entry *out)
{
    struct stat st, marker;
    if (name[0] == '.' || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW))
        return false;
    for (int i = RECORDER_N_FORMATS - 1; i >= 0; i--) { // .ros2.mcap before .mcap
        const struct writer_format *format = formats[i];
        size_t n = strlen(name) - (ends_with(name, format->suffix) ? strlen(format->suffix) : 0);
        char inside[512];
        snprintf(inside, sizeof inside, "%s/%s", name, format->marker ? format->marker : "");
        bool is_it = *format->suffix ? S_ISREG(st.st_mode) && ends_with(name, format->suffix)
                                     : S_ISDIR(st.st_mode) && !fstatat(folder, inside, &marker, 0);
        if (!is_it || n >= RECORDER_NAME_BYTES)
            continue;
        if (!*format->suffix)
            st.st_mtim = marker.st_mtim;
        *out = (struct recorder_entry){
            .format = (enum recorder_format)i,
            .n_bytes = *format->suffix ? (uint64_t)st.st_size : folder_bytes(folder, name, 1),
            .modified_unix_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
        memcpy(out->name, name, n);
        return true;
    }
    return false;
}

uint64_t recordings_bytes(int folder, const char *file)
{
    struct recorder_entry entry;
    return recognise(folder, file, &entry) ? entry.n_bytes : 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct recorder_entry *x = a, *y = b;
    if (x->modified_unix_ns != y->modified_unix_ns)
        return x->modified_unix_ns < y->modified_unix_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

long recordings_list(int folder, struct recorder_entry **out)
{
    *out = NULL;
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int err = -errno;
        if (fd >= 0)
            close(fd);
        return err;
    }
    struct recorder_entry *entries = NULL, found;
    size_t n = 0, capacity = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!recognise(fd, entry->d_name, &found))
            continue;
        if (n == capacity) {
            capacity = 2 * capacity + 16;
            struct recorder_entry *grown = realloc(entries, capacity * sizeof *grown);
            if (!grown) {
                free(entries);
                closedir(dir);
                return -ENOMEM;
            }
            entries = grown;
        }
        entries[n++] = found;
    }
    closedir(dir);
    if (n)
        qsort(entries, n, sizeof *entries, compare_entries);
    *out = entries;
    return (long)n;
}

static void delete_folder(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") &&
            unlinkat(fd, entry->d_name, 0))
            delete_folder(fd, entry->d_name); // a recording is two levels deep
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    unlinkat(folder, name, AT_REMOVEDIR);
}

void recordings_delete(int folder, const char *name, enum recorder_format format)
{
    char file[128], sidecar[160];
    const char *suffix = formats[format]->suffix;
    snprintf(file, sizeof file, "%s%s", name, suffix);
    snprintf(sidecar, sizeof sidecar, "%s" KLG_CALIBRATION_SUFFIX, file);
    if (*suffix) {
        unlinkat(folder, file, 0);
        unlinkat(folder, sidecar, 0);
    } else {
        delete_folder(folder, file);
    }
}

// Whether the format wrote all that is in the folder, as far as names tell: what it did not may be
// all that there is of somebody's data. `inside` is where `name` stands in the recording. A folder
// that cannot be read is nobody's.
static bool is_all_own(int folder, const char *name, const struct writer_format *format,
                       const char *inside)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool all_own = dir != NULL;
    for (struct dirent *entry; all_own && (entry = readdir(dir));) {
        const char *const file = entry->d_name;
        struct stat st;
        char path[512];
        if (!strcmp(file, ".") || !strcmp(file, ".."))
            continue;
        all_own = fstatat(fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                  (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) &&
                  snprintf(path, sizeof path, "%s%s%s", inside, file,
                           S_ISDIR(st.st_mode) ? "/" : "") < (int)sizeof path &&
                  format->is_own(path) &&
                  (!S_ISDIR(st.st_mode) || is_all_own(fd, file, format, path));
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    return all_own;
}

void recordings_keep_limits(int folder, uint64_t keep_bytes, double keep_age_s,
                            const struct log_sink *log)
{
    struct recorder_entry *entries = NULL;
    if (!keep_bytes && keep_age_s == 0)
        return;
    const long n_all = recordings_list(folder, &entries);
    if (n_all <= 0 || !entries)
        return;
    long n = 0;
    uint64_t n_bytes = 0;
    for (long i = 0; i < n_all; i++) {
        const struct writer_format *format = formats[entries[i].format];
        if (format->is_own && !is_all_own(folder, entries[i].name, format, ""))
            continue;
        entries[n++] = entries[i];
        n_bytes += entries[i].n_bytes;
    }
    const int64_t now_ns = clock_wall_ns();
    for (long i = 0; i < n; i++) {
        double age_s = (double)(now_ns - entries[i].modified_unix_ns) * 1e-9;
        bool too_old = keep_age_s > 0 && age_s > keep_age_s;
        if (!too_old && !(keep_bytes && n_bytes > keep_bytes))
            continue;
        recordings_delete(folder, entries[i].name, entries[i].format);
        log_to(log, LOG_LEVEL_NOTICE, "recording %s deleted, to keep within the folder's limits",
               entries[i].name);
        n_bytes -= entries[i].n_bytes;
    }
    free(entries);
}
