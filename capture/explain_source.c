// SPDX-License-Identifier: Apache-2.0
#include "capture/explain_source.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/recognise.h"
#include "capture/ros/topic_name.h"
#include "proto/closest.h"

#define AS_A_WHOLE                                                                                 \
    ": compressed as a whole (zstd), as `ros2 bag record --compression-mode file` does, which is " \
    "not read; "

// Says so where the place holds what zstd compressed as a whole. False: it does not.
static bool log_packed(const char *place, const struct log_sink *log)
{
    char *file;
    size_t n;
    if (recognise_packed(place, &file, &n) != 0)
        return false;
    const char *end = strrchr(file, '.');
    const bool is_named = end && (!strcmp(end, ".zst") || !strcmp(end, ".zstd"));
    const int n_name = is_named ? (int)(end - file) : (int)strlen(file);
    if (n == 1)
        log_to(log, LOG_LEVEL_ERROR,
               "source '%s': %s" AS_A_WHOLE "unpack it first: zstd -d \"%s\" -o \"%.*s%s\"", place,
               file, file, n_name, file, is_named ? "" : ".unpacked");
    else
        log_to(log, LOG_LEVEL_ERROR,
               "source '%s': %s and %zu more" AS_A_WHOLE
               "unpack them first: for f in \"%.*s\"/*.zst*; do zstd -d \"$f\" -o "
               "\"${f%%.zst*}\"; done",
               place, file, n - 1, (int)(strrchr(file, '/') - file), file);
    free(file);
    return true;
}

// How a file of this name would begin; NULL: any way.
static const char *promised_begin(const char *path)
{
    static const struct {
        const char *suffix, *begin;
    } kinds[] = {{".bag", "\"#ROSBAG V2.0\" (ROS 1)"},
                 {".db3", "\"SQLite format 3\" (ROS 2)"},
                 {".mcap", "a byte of 0x89 and \"MCAP0\""}};
    const char *suffix = strrchr(path, '.');
    struct stat file;
    const bool is_file = stat(path, &file) == 0 && S_ISREG(file.st_mode);
    for (size_t i = 0; is_file && suffix && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(suffix, kinds[i].suffix))
            return kinds[i].begin;
    return NULL;
}

// Whether a path that is not there may be the name of a topic, with or without the slash in front:
// not even its first folder is.
static bool is_like_topic(const char *path)
{
    char fault[ROS_TOPIC_FAULT_BYTES], folder[256];
    const char *end = path[0] ? strchr(path + 1, '/') : NULL;
    if (!end || ros_topic_fault(path, fault))
        return false;
    const int n = snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path);
    return n < (int)sizeof folder && access(folder, F_OK) != 0;
}

// Whether a shell would have made something else of a path, as it does neither in quotes nor behind
// a colon (~), nor anybody in a file of settings.
static bool is_shell(const char *path)
{
    const char *dollar = strchr(path, '$');
    return path[0] == '~' || (dollar && (dollar[1] == '{' || dollar[1] == '_' ||
                                         ((dollar[1] | 0x20) >= 'a' && (dollar[1] | 0x20) <= 'z')));
}

#define AS_IT_IS                                                                                 \
    "; ~ and $HOME stand for themselves in quotes, in files of settings, and ~ behind a colon: " \
    "write the whole path"

// Why a path is no recording. `error`: of recognise.
static void log_no_recording(const char *path, int error, const struct log_sink *log)
{
    if (error == -EINVAL && log_packed(path, log))
        return;
    const bool is_topic = is_like_topic(path);
    const char *begin = promised_begin(path);
    const char *slash = strrchr(path, '/'), *meant = NULL;
    char *folder = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    bool is_mixed = true;
    // Others are one file each, or images that may be any folder's.
    const bool is_part =
        error == -EINVAL && folder && recognise(folder, &meant, &is_mixed) == 0 && !is_mixed &&
        (!strcmp(meant, "tum") || !strcmp(meant, "fakenect") || !strcmp(meant, "sevenscenes"));
    if (is_part)
        log_to(log, LOG_LEVEL_ERROR,
               "source '%s': no recording by itself, did you mean the one it is in, %s:%s?", path,
               meant, folder);
    else if (error == -EINVAL && begin)
        log_to(log, LOG_LEVEL_ERROR,
               "source '%s': it is not what its name promises: a file of that kind begins with %s",
               path, begin);
    else if (error == -EINVAL)
        log_to(log, LOG_LEVEL_ERROR,
               "source '%s': no recording that is known, expected DRIVER:PLACE, e.g. tum:FOLDER",
               path);
    else if (error == -ENOENT || error == -ENOTDIR)
        log_to(log, LOG_LEVEL_ERROR,
               "source '%s': no such file or folder, and no DRIVER:PLACE, e.g. tum:FOLDER or "
               "synth:room%s%s%s%s",
               path,
               is_topic         ? "; did you mean the topic of ROS 2, ros2:"
               : is_shell(path) ? AS_IT_IS
                                : "",
               is_topic && path[0] != '/' ? "/" : "", is_topic ? path : "", is_topic ? "?" : "");
    else
        log_to(log, LOG_LEVEL_ERROR, "source '%s': %s%s", path,
               error == -ENODATA ? "the file is empty" : strerror(-error),
               error == -EACCES ? ": who runs this program must be able to read it, and to enter "
                                  "the folders above it"
                                : "");
    free(folder);
}

// What users call a driver that is called otherwise here, and what is to be said beside it.
static const struct alias {
    const char *word, *driver, *more; // driver NULL: `more` says all
} aliases[] = {
    {"bag", "ros1bag", " (of ROS 1; recordings of ROS 2 are mcap: and ros2db3:)"},
    {"rosbag", "ros1bag", " (of ROS 1; recordings of ROS 2 are mcap: and ros2db3:)"},
    {"ros1", "ros1bag", ""},
    {"ros2bag", "mcap", " (of a .db3 ros2db3:)"},
    {"rosbag2", "mcap", " (of a .db3 ros2db3:)"},
    {"ros2mcap", "mcap", ""},
    {"db3", "ros2db3", ""},
    {"sqlite", "ros2db3", ""},
    {"sqlite3", "ros2db3", ""},
    {"freenect", "kinect", ""},
    {"kinect1", "kinect", ""},
    {"openni", "openni2", ""},
    {"xtion", "openni2", ""},
    {"astra", "openni2", ""},
    {"7scenes", "sevenscenes", ""},
    {"realsense", NULL,
     "a RealSense is read through its ROS 2 driver, ros2:/camera/depth/image_rect_raw, or as "
     "v4l2:DEVICE; what it recorded (.bag) is ros1bag:FILE"},
};

static bool is_name(const char *name, const char *(*name_of)(size_t i))
{
    for (size_t i = 0; name && name_of(i); i++)
        if (!strcmp(name_of(i), name))
            return true;
    return false;
}

// "DRIVER:PLACE" of a driver that there is none of: what the place holds says which is meant, else
// the name.
static void log_unknown_driver(const char *source, size_t n, const char *(*name_of)(size_t i),
                               const struct log_sink *log)
{
    const char *place = source + n + 1, *meant = NULL, *more = "";
    const struct alias *alias = NULL;
    bool is_mixed;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases && !alias; i++)
        if (strlen(aliases[i].word) == n && !memcmp(aliases[i].word, source, n))
            alias = &aliases[i];
    if (recognise(place, &meant, &is_mixed) != 0 || is_mixed || !is_name(meant, name_of))
        meant = NULL;
    if (!meant && alias) {
        meant = alias->driver;
        more = alias->more;
    }
    for (size_t i = 0; !meant && !alias && name_of(i); i++)
        if (closest_is_better(source, n, name_of(i), &best))
            meant = name_of(i);
    if (meant)
        log_to(log, LOG_LEVEL_ERROR, "source '%s': unknown driver, did you mean %s:%s?%s", source,
               meant, place, more);
    else
        log_to(log, LOG_LEVEL_ERROR, "source '%s': unknown driver, %s", source,
               alias ? alias->more : "expected DRIVER:PLACE, e.g. tum:FOLDER or synth:room");
}

void explain_unknown(const char *source, int error, const char *(*name_of)(size_t i),
                     const struct log_sink *log)
{
    const bool is_there = error != -ENOENT && error != -ENOTDIR;
    const size_t n = strcspn(source, ":");
    if (source[0] == '"' || source[0] == '\'')
        log_to(log, LOG_LEVEL_ERROR,
               "source %s: values stand without quotes: DRIVER:PLACE as it is, e.g. tum:FOLDER or "
               "synth:room",
               source);
    else if (source[0] && (is_there || !source[n]))
        log_no_recording(source, error, log);
    else if (source[n])
        log_unknown_driver(source, n, name_of, log);
    else
        log_to(log, LOG_LEVEL_ERROR,
               "source '%s': unknown driver, expected DRIVER:PLACE, e.g. tum:FOLDER or synth:room, "
               "or the path of a recording",
               source);
}

void explain_unopened(const char *driver, const char *location, const char *(*name_of)(size_t i),
                      const struct log_sink *log)
{
    bool is_mixed;
    const char *meant;
    const int error = recognise(location, &meant, &is_mixed);
    if ((error == -ENOENT || error == -ENOTDIR) && is_shell(location))
        log_to(log, LOG_LEVEL_ERROR, "source '%s:%s': no such place" AS_IT_IS, driver, location);
    else if (error != 0)
        log_packed(location, log);
    else if (!is_mixed && strcmp(meant, driver) != 0 && is_name(meant, name_of))
        log_to(log, LOG_LEVEL_ERROR, "source '%s:%s': did you mean %s:%s?", driver, location, meant,
               location);
}
