// SPDX-License-Identifier: Apache-2.0
// Files by their first bytes, folders by the file that makes them what they are.
#include "capture/recognise.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/ros/bag_metadata.h"

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);
    return n > n_end && !strcmp(name + n - n_end, end);
}

static int recognise_file(const char *path, const char **out_driver)
{
    static const struct {
        const char *driver, *begin;
        size_t n;
    } files[] = {{"mcap", "\x89MCAP0\r\n", 8},
                 {"ros1bag", "#ROSBAG V2.0", 12},
                 {"ros2db3", "SQLite format 3", 16}};
    char begin[16] = {0};
    FILE *file = fopen(path, "rbe");
    if (!file)
        return -errno;
    size_t n = fread(begin, 1, sizeof begin, file);
    fclose(file);
    if (n == 0)
        return -ENODATA;
    *out_driver = ends_with(path, ".klg") ? "klg" : NULL; // its first bytes are a count
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (n >= files[i].n && !memcmp(begin, files[i].begin, files[i].n))
            *out_driver = files[i].driver;
    return *out_driver ? 0 : -EINVAL;
}

// 7-Scenes has a colour image and a pose beside each depth image.
#define MIXED 4

static bool has(const char *folder, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n < (int)sizeof path && access(path, F_OK) == 0;
}

// The end of the files that a recording of ROS 2 is in, where the folder has some of both formats:
// that of the first in its metadata.yaml which is there. Returns 0 (*out NULL: it does not tell) or
// -ENOMEM.
static int listed_end(const char *folder, const char **out)
{
    static const char *const ends[] = {".mcap", ".db3"};
    struct file_bytes text = {0};
    char **names = NULL;
    size_t n = 0;
    *out = NULL;
    int err = bag_metadata_read(folder, &(struct log_sink){0}, &text, &names, &n);
    for (size_t i = 0; !err && !*out && i < n; i++) {
        const char *slash = strrchr(names[i], '/'), *name = slash ? slash + 1 : names[i];
        char *end = strrchr(names[i], '.');
        if (end && (!strcmp(end, ".zstd") || !strcmp(end, ".zst")))
            *end = '\0'; // it may be unpacked now
        for (size_t k = 0; k < 2 && !*out; k++)
            if (ends_with(name, ends[k]) && has(folder, name))
                *out = ends[k];
    }
    free(names);
    file_bytes_free(&text);
    return err == -ENOMEM ? err : 0;
}

static int recognise_folder(const char *path, const char **out_driver, bool *out_is_mixed)
{
    // the first that is there decides; a folder of PNG alone is the last resort
    static const struct {
        const char *driver, *end;
    } ends[] = {{"sevenscenes", ".depth.png"}, {"mcap", ".mcap"},  {"ros2db3", ".db3"},
                {"ros1bag", ".bag"},           {"rawpgm", ".pgm"}, {"png", ".png"}};
    enum { MCAP = 1, DB3 = 2, N = sizeof ends / sizeof *ends };
    size_t found = N, n_of[N] = {0}, n_entries = 0;
    if (has(path, "depth.txt") || has(path, "INDEX.txt")) {
        *out_driver = has(path, "depth.txt") ? "tum" : "fakenect";
        return 0;
    }
    DIR *dir = access(path, X_OK) == 0 ? opendir(path) : NULL;
    if (!dir)
        return -errno;
    for (struct dirent *entry; (entry = readdir(dir));) {
        n_entries += entry->d_name[0] != '.';
        for (size_t i = 0; i < N; i++)
            if (ends_with(entry->d_name, ends[i].end)) {
                n_of[i]++;
                found = i < found ? i : found;
            }
    }
    closedir(dir);
    if (found == MCAP && n_of[DB3] > 0) {
        const char *listed;
        const int err = listed_end(path, &listed);
        if (err)
            return err;
        found = listed && !strcmp(listed, ends[DB3].end) ? DB3 : MCAP;
    }
    *out_is_mixed = found < N && n_of[found] * MIXED < n_entries;
    *out_driver = found < N ? ends[found].driver : has(path, "depth") ? "png" : NULL;
    return *out_driver ? 0 : -EINVAL;
}

static int recognise_path(const char *path, const char **out_driver, bool *out_is_mixed)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return -errno;
    return S_ISDIR(st.st_mode)   ? recognise_folder(path, out_driver, out_is_mixed)
           : S_ISREG(st.st_mode) ? recognise_file(path, out_driver)
                                 : -EINVAL;
}

static bool is_packed(const char *path)
{
    char begin[4] = {0};
    struct stat st;
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rbe") : NULL;
    if (!file)
        return false;
    size_t n = fread(begin, 1, sizeof begin, file);
    fclose(file);
    return n == sizeof begin && memcmp(begin, "\x28\xb5\x2f\xfd", sizeof begin) == 0;
}

// Returns 0 (NULL: no such file in the folder) or -ENOMEM.
static int first_packed(const char *folder, char **out_file, size_t *out_n)
{
    DIR *dir = opendir(folder);
    char *first = NULL;
    int err = 0;
    for (struct dirent *entry; dir && !err && (entry = readdir(dir));) {
        if (!ends_with(entry->d_name, ".zstd") && !ends_with(entry->d_name, ".zst"))
            continue;
        char *file;
        if (asprintf(&file, "%s/%s", folder, entry->d_name) < 0) {
            err = -ENOMEM;
            break;
        }
        const bool counts = is_packed(file);
        *out_n += counts;
        if (counts && (!first || strcmp(file, first) < 0)) {
            free(first);
            first = file;
        } else {
            free(file);
        }
    }
    if (dir)
        closedir(dir);
    if (err) {
        free(first);
        first = NULL;
    }
    *out_file = first;
    return err;
}

static int packed_at(const char *path, char **out_file, size_t *out_n)
{
    struct stat st;
    const char *driver;
    bool is_mixed;
    int err = 0;
    *out_file = NULL;
    *out_n = 0;
    if (stat(path, &st) != 0 || recognise_path(path, &driver, &is_mixed) != -EINVAL)
        return -ENOENT;
    if (S_ISDIR(st.st_mode))
        err = first_packed(path, out_file, out_n);
    else if (is_packed(path) && !(*out_file = strdup(path)))
        err = -ENOMEM;
    else if (*out_file)
        *out_n = 1;
    return err ? err : *out_file ? 0 : -ENOENT;
}

int recognise_packed(const char *path, char **out_file, size_t *out_n)
{
    const char *hash = strrchr(path, '#');
    int err = packed_at(path, out_file, out_n);
    if (err != -ENOENT || !hash)
        return err;
    char *file = strndup(path, (size_t)(hash - path));
    err = file ? packed_at(file, out_file, out_n) : -ENOMEM;
    free(file);
    return err;
}

int recognise(const char *path, const char **out_driver, bool *out_is_mixed)
{
    const char *hash = strrchr(path, '#');
    *out_driver = NULL;
    *out_is_mixed = false;
    int error = recognise_path(path, out_driver, out_is_mixed);
    if (error != -ENOENT || !hash)
        return error;
    char *file = strndup(path, (size_t)(hash - path));
    error = file ? recognise_path(file, out_driver, out_is_mixed) : -ENOMEM;
    free(file);
    return error;
}
