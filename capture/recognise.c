// SPDX-License-Identifier: Apache-2.0
// Files by their first bytes, folders by the file that makes them what they are.
#include "capture/recognise.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);
    return n > n_end && !strcmp(name + n - n_end, end);
}

static const char *recognise_file(const char *path)
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
        return NULL;
    size_t n = fread(begin, 1, sizeof begin, file);
    fclose(file);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (n >= files[i].n && !memcmp(begin, files[i].begin, files[i].n))
            return files[i].driver;
    return ends_with(path, ".klg") ? "klg" : NULL; // its first bytes are a count
}

// 7-Scenes has a colour image and a pose beside each depth image.
#define MIXED 4

static bool has(const char *folder, const char *name)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n < (int)sizeof path && access(path, F_OK) == 0;
}

static const char *recognise_folder(const char *path, bool *out_is_mixed)
{
    // the first that is there decides; a folder of PNG alone is the last resort
    static const struct {
        const char *driver, *end;
    } ends[] = {{"sevenscenes", ".depth.png"}, {"mcap", ".mcap"},  {"ros2db3", ".db3"},
                {"ros1bag", ".bag"},           {"rawpgm", ".pgm"}, {"png", ".png"}};
    enum { N = sizeof ends / sizeof *ends };
    size_t found = N, n_of[N] = {0}, n_entries = 0;
    if (has(path, "depth.txt"))
        return "tum";
    if (has(path, "INDEX.txt"))
        return "fakenect";
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        n_entries += entry->d_name[0] != '.';
        for (size_t i = 0; i < N; i++)
            if (ends_with(entry->d_name, ends[i].end)) {
                n_of[i]++;
                found = i < found ? i : found;
            }
    }
    if (dir)
        closedir(dir);
    *out_is_mixed = found < N && n_of[found] * MIXED < n_entries;
    if (found == N && has(path, "depth"))
        return "png";
    return found < N ? ends[found].driver : NULL;
}

const char *recognise(const char *path, bool *out_is_mixed)
{
    struct stat st;
    const char *hash = strrchr(path, '#');
    char *file = NULL;
    *out_is_mixed = false;
    if (stat(path, &st) != 0) {
        file = hash ? strndup(path, (size_t)(hash - path)) : NULL;
        if (!file || stat(file, &st) != 0) {
            free(file);
            return NULL;
        }
        path = file;
    }
    const char *driver = S_ISDIR(st.st_mode)   ? recognise_folder(path, out_is_mixed)
                         : S_ISREG(st.st_mode) ? recognise_file(path)
                                               : NULL;
    free(file);
    return driver;
}
