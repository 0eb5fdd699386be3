// SPDX-License-Identifier: Apache-2.0
#include "daemon/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/config/cameras.h"
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

static int check_folder_of(const char *path)
{
    char folder[CONFIG_TEXT_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    return check_folder(folder);
}

static int check_map_output(const char *path, const struct log_sink *log)
{
    if (!file_suffix_fits(path, ".ply")) {
        log_to(log, LOG_LEVEL_ERROR, "%s: the map's surface is written as .ply (output.map)", path);
        return -EINVAL;
    }
    if (path[0] && access(path, F_OK) == 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: is there already (output.map): name a new file", path);
        return -EEXIST;
    }
    const int error = path[0] ? check_folder_of(path) : 0;
    if (error)
        log_to(log, LOG_LEVEL_ERROR, "%s: %s (output.map)", path, strerror(-error));
    return error;
}

static int check_map_folder(const char *folder, const struct log_sink *log)
{
    const int error = folder[0] ? check_folder(folder) : 0;
    if (error == -ENOTDIR)
        log_to(log, LOG_LEVEL_ERROR, "map.folder %s cannot hold maps: %s", folder,
               strerror(-error));
    else if (error)
        log_to(log, LOG_LEVEL_WARNING,
               "map.folder %s: %s: no map can be saved before it is there and may be written to "
               "(mkdir, mount, chown); each save looks again",
               folder, strerror(-error));
    return error == -ENOTDIR ? error : 0;
}

int outputs_check(const struct config *config, const struct log_sink *log)
{
    static struct config one; // large
    int error = 0;
    for (uint32_t i = 0; (i == 0 || i < config->n_cameras) && !error; i++) {
        cameras_config(config, i, &one);
        error = check_map_output(one.map_output, log);
    }
    return error ? error : check_map_folder(config->map_folder, log);
}
