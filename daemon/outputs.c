// SPDX-License-Identifier: Apache-2.0
#include "daemon/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/config/cameras.h"
#include "daemon/config/origins.h"
#include "daemon/output_name.h"
#include "proto/file_suffix.h"

// Whether files can be made in this folder. Returns 0 or a negative errno.
static int check_folder(const char *folder)
{
    struct stat info;
    if (stat(folder, &info) != 0)
        return -errno;
    if (!S_ISDIR(info.st_mode))
        return -ENOTDIR;
    return access(folder, W_OK | X_OK) == 0 ? 0 : -errno;
}

// Whether a file can be made where `path` leads, or a stream, a pipe or a device is there. Returns
// 0 or a negative errno.
static int check_writable(const char *path)
{
    char *real;
    struct stat info;
    bool is_stream;
    int error = output_name_resolve(path, &real, &is_stream);
    if (error)
        return error;
    const bool is_there = stat(path, &info) == 0;
    if (is_there && S_ISDIR(info.st_mode))
        error = -EISDIR;
    else if (is_stream && !is_there)
        error = -ENOENT;
    else if (!is_stream && (!is_there || S_ISREG(info.st_mode))) {
        real[strrchr(real, '/') - real + 1] = 0;
        error = access(real, W_OK | X_OK) == 0 ? 0 : -errno;
    }
    free(real);
    return error;
}

// Of two results the one to be told: -EINVAL before what may be mended on the disk.
static int worse(int a, int b)
{
    return a == -EINVAL || b == 0 ? a : b;
}

// A file that is not written over needs the name with .1 behind it, or in it, some day.
static int check_length(const char *key, const char *path, const struct log_sink *log)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strlen(name) <= OUTPUT_NAME_MAX_BYTES)
        return 0;
    log_to(log, LOG_LEVEL_ERROR,
           "%s: the name has %zu bytes, and at most %d leave room for NAME.1 beside it (%s)", path,
           strlen(name), OUTPUT_NAME_MAX_BYTES, key);
    return -EINVAL;
}

static int check_output(const char *key, const char *path, const struct log_sink *log)
{
    if (check_length(key, path, log) != 0)
        return -EINVAL;
    const int error = path[0] ? check_writable(path) : 0;
    if (error)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s (%s)", path, strerror(-error), key);
    return error == -EISDIR ? -EINVAL : error;
}

// The map is written at the end, and never over what is there.
static int check_map(const char *path, const struct log_sink *log)
{
    struct stat info;
    if (!file_suffix_fits(path, ".ply")) {
        log_to(log, LOG_LEVEL_ERROR, "%s: the map's surface is written as .ply (output.map)", path);
        return -EINVAL;
    }
    if (path[0] && lstat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        log_to(log, LOG_LEVEL_ERROR, "%s: is there already (output.map): name a new file", path);
        return -EEXIST;
    }
    return check_output("output.map", path, log);
}

// Whether a file is in a folder's place. Returns 0 or -EINVAL.
static int check_place(const char *key, const char *folder, const char *what,
                       const struct log_sink *log)
{
    if (!folder[0] || check_folder(folder) != -ENOTDIR)
        return 0;
    log_to(log, LOG_LEVEL_ERROR, "%s %s cannot hold %s: %s", key, folder, what, strerror(ENOTDIR));
    return -EINVAL;
}

// The folders and what does not work before each is there. Whoever records makes and looks at
// theirs, too, at the start and at each recording.
struct folder {
    const char *key, *path, *what;
};

static void warn_of_folder(const struct folder *folder, int error, const struct log_sink *log)
{
    if (error)
        log_to(log, LOG_LEVEL_WARNING,
               "%s %s: %s: %s before it is there and may be written to (mkdir, mount, chown)",
               folder->key, folder->path, strerror(-error), folder->what);
}

static struct folder map_folder(const struct config *config)
{
    return (struct folder){"map.folder", config->map_folder, "no map can be saved"};
}

static struct folder search_folder(const struct config *config)
{
    return (struct folder){"search.folder", config->search.folder, "no object is kept"};
}

// One that the start makes where the folder around it is there.
static void look_at(struct folder folder, const struct log_sink *log)
{
    const int error = folder.path[0] ? check_folder(folder.path) : 0;
    warn_of_folder(&folder, error == -ENOENT ? check_writable(folder.path) : error, log);
}

static void make(struct folder folder, const struct log_sink *log)
{
    if (!folder.path[0])
        return;
    if (mkdir(folder.path, 0750) == 0)
        log_to(log, LOG_LEVEL_NOTICE, "%s %s did not exist: created", folder.key, folder.path);
    else
        warn_of_folder(&folder, errno == EEXIST ? check_folder(folder.path) : -errno, log);
}

void outputs_look_at_folders(const struct config *config, const struct log_sink *log)
{
    struct origins origins = {config, NULL, *log};
    const struct log_sink sink = origins_log(&origins);
    look_at((struct folder){"recorder.folder", config->recorder.folder, "nothing can be recorded"},
            &sink);
    look_at(map_folder(config), &sink);
    look_at(search_folder(config), &sink);
}

void outputs_make_folders(const struct config *config, const struct log_sink *log)
{
    struct origins origins = {config, NULL, *log};
    const struct log_sink sink = origins_log(&origins);
    make(map_folder(config), &sink);
    make(search_folder(config), &sink);
}

int outputs_check(const struct config *config, const struct log_sink *log)
{
    static struct config own; // large
    struct origins origins = {&own, NULL, *log};
    const struct log_sink sink = origins_log(&origins);
    int error = 0;
    for (uint32_t i = 0; i == 0 || i < config->n_cameras; i++) {
        cameras_config(config, i, &own);
        error = worse(error, check_map(own.map_output, &sink));
        error = worse(error, check_output("output.trajectory", own.trajectory, &sink));
        if (own.map_output[0] && own.trajectory[0] &&
            output_name_is_same(own.map_output, own.trajectory)) {
            log_to(&sink, LOG_LEVEL_ERROR,
                   "output.map and output.trajectory are both %s: two files have two names",
                   own.map_output);
            error = -EINVAL;
        }
    }
    error = worse(error, check_place("map.folder", config->map_folder, "maps", &sink));
    error =
        worse(error, check_place("recorder.folder", config->recorder.folder, "recordings", &sink));
    return worse(error, check_place("search.folder", config->search.folder, "objects", &sink));
}
