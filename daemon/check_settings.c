// SPDX-License-Identifier: Apache-2.0
#include "daemon/check_settings.h"

#include <errno.h>
#include <string.h>

#include "capture/ros/topic_name.h"
#include "daemon/config/cameras.h"
#include "daemon/config/origins.h"
#include "daemon/endpoint.h"
#include "daemon/recording.h"
#include "daemon/rig_place.h"
#include "daemon/ros/base_to_camera.h"
#include "gpu/track/depth_error.h"

// What needs a library that this program was built without.
static int check_build(const struct config *config, const struct log_sink *log)
{
    int error = 0;
    (void)config, (void)log;
#ifndef POSED_HAVE_HTTP
    if (config->http.port && config->http.port != CONFIG_HTTP_PORT) {
        log_to(log, LOG_LEVEL_ERROR, "http.port: this program was built without libmicrohttpd");
        error = -EINVAL;
    }
#endif
#ifndef POSED_HAVE_ROS2
    if (config->ros.publish) {
        log_to(log, LOG_LEVEL_ERROR, "ros.publish: this program was built without Cyclone DDS");
        error = -EINVAL;
    }
#endif
    return error;
}

// What is taken as it stands, and would be of no use so. Returns 0 or -EINVAL.
static int check_words(const struct config *config, const struct log_sink *log)
{
    int error = 0;
    for (const char *s = config->http.origins; *(s += strspn(s, " ,"));) {
        const size_t n = strcspn(s, " ,");
        const char *host = strstr(s, "://");
        if (!host || host == s || host + 3 >= s + n ||
            memchr(host + 3, '/', (size_t)(s + n - host - 3))) {
            log_to(log, LOG_LEVEL_ERROR,
                   "http.origins: %.*s is no origin: https://HOST or http://HOST:PORT is wanted, "
                   "without a path or a / at the end",
                   (int)n, s);
            error = -EINVAL;
        }
        s += n;
    }
    if (!config->publish.odom_frame[0] || !config->publish.camera_frame[0]) {
        log_to(log, LOG_LEVEL_ERROR, "publish.%s_frame: a frame has a name",
               config->publish.odom_frame[0] ? "camera" : "odom");
        error = -EINVAL;
    } else if (strcmp(config->publish.odom_frame, config->publish.camera_frame) == 0) {
        log_to(log, LOG_LEVEL_ERROR,
               "publish.odom_frame and publish.camera_frame are both \"%s\": two frames have two "
               "names",
               config->publish.odom_frame);
        error = -EINVAL;
    }
    if (config->requests.deadline_ms > config->requests.max_deadline_ms)
        log_to(log, LOG_LEVEL_WARNING,
               "requests.deadline_ms = %u is above requests.max_deadline_ms = %u, which holds",
               config->requests.deadline_ms, config->requests.max_deadline_ms);
    return error;
}

static bool is_visible(const char *name)
{
    while (*name > ' ' && *name <= '~')
        name++;
    return *name == 0;
}

// The frames of tf are a tree.
static int check_ros_frames(const struct config *config, const struct log_sink *log)
{
    const struct {
        const char *key, *frame;
    } frames[] = {{"ros.map_frame", config->ros.map_frame},
                  {"ros.odom_frame", config->ros.odom_frame},
                  {"ros.base_frame", config->ros.base_frame},
                  {"ros.optical_frame", config->ros.optical_frame}};
    int error = 0;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        if (!frames[i].frame[0] && i > 0) { // no map_frame: none is told
            log_to(log, LOG_LEVEL_ERROR, "%s: a frame has a name", frames[i].key);
            error = -EINVAL;
        }
        if (frames[i].frame[0] == '/') { // as in ROS 1; who asks tf2 for such a one is refused
            log_to(log, LOG_LEVEL_ERROR, "%s: \"%s\": frames of ROS 2 have no slash in front",
                   frames[i].key, frames[i].frame);
            error = -EINVAL;
        }
        if (!is_visible(frames[i].frame)) {
            log_to(log, LOG_LEVEL_ERROR,
                   "%s: \"%s\": a frame has no space in it, and only ASCII's visible characters",
                   frames[i].key, frames[i].frame);
            error = -EINVAL;
        }
        for (size_t k = 0; k < i; k++)
            if (frames[i].frame[0] && strcmp(frames[i].frame, frames[k].frame) == 0) {
                log_to(log, LOG_LEVEL_ERROR, "%s and %s are both \"%s\": two frames have two names",
                       frames[k].key, frames[i].key, frames[i].frame);
                error = -EINVAL;
            }
    }
    return error;
}

static int check_ros_namespace(const struct config *config, const struct log_sink *log)
{
    const char *name = config->ros.topic_namespace;
    char text[ROS_TOPIC_FAULT_BYTES];
    const char *fault = name[0] ? ros_topic_fault(name, text) : NULL;
    if (!fault)
        return 0;
    log_to(log, LOG_LEVEL_ERROR, "ros.namespace: \"%s\" is no name of ROS 2: %s", name, fault);
    return -EINVAL;
}

// Two cameras that are one in topics of ROS 2, where they are published or recorded from the start.
static int check_ros_names(const struct config *config, const struct log_sink *log)
{
    const char *names[CONFIG_MAX_CAMERAS];
    char text[ROS_NAMES_FAULT_BYTES];
    for (uint32_t i = 0; i < config->n_cameras; i++)
        names[i] = config->cameras[i].name;
    const char *fault = ros_names_fault(names, config->n_cameras, text);
    const bool is_recorded =
        config->recorder.start[0] && strcmp(config->recorder.format, "ros2mcap") == 0;
    if (!fault || (!config->ros.publish && !is_recorded))
        return 0;
    log_to(log, LOG_LEVEL_ERROR, "%s: %s: rename one",
           config->ros.publish ? "ros.publish" : "recorder.format", fault);
    return -EINVAL;
}

// A log that says of each line which setting it is about: who reads its file does not know.
struct setting_log {
    const char *key;
    struct log_sink log;
};

static void say_setting(void *user, enum log_level level, const char *line)
{
    const struct setting_log *setting = user;
    if (level > LOG_LEVEL_WARNING) // whoever takes the file says it
        return;
    log_to(&setting->log, level, "%s: %s", setting->key, line);
}

// What a camera's settings need: the backend, and files, which say why they cannot be taken.
static int check_camera(const struct config *config, const struct log_sink *log)
{
    struct setting_log field_setting = {"camera.field", *log}, rig_setting = {"camera.rig", *log};
    const struct log_sink field_log = {say_setting, &field_setting};
    const struct log_sink rig_log = {say_setting, &rig_setting};
    struct depth_error field;
    struct rig_place place;
    int error = 0;
#ifndef POSED_HAVE_CUDA
    if (config->backend == GPU_BACKEND_CUDA) {
        log_to(log, LOG_LEVEL_ERROR,
               "gpu.backend = cuda: this program was built without CUDA (build it with "
               "-DPOSED_CUDA=ON)");
        error = -EINVAL;
    }
#endif
    if (config->camera_field[0] &&
        depth_error_read(config->camera_field, &field_log, &field) != 0) {
        log_to(log, LOG_LEVEL_ERROR,
               "camera.field = %s cannot be taken: posectl calibrate makes such a file",
               config->camera_field);
        cameras_explain_field(config, log);
        error = -EINVAL;
    }
    if (config->camera_rig[0] && rig_place_read(config->camera_rig, &place, &rig_log) != 0) {
        log_to(log, LOG_LEVEL_ERROR,
               "camera.rig = %s cannot be taken: posectl rig calibrate makes such a file",
               config->camera_rig);
        error = -EINVAL;
    }
    return error;
}

int check_settings(const struct config *config, const struct log_sink *log)
{
    static struct config own; // large, and the loop's thread or the start alone comes here
    struct origins origins = {config, NULL, *log};
    const struct log_sink sink = origins_log(&origins);
    struct se3 ignored;
    bool good = recording_check(config, &sink) == 0;
    good = ros_place_of_camera(config, &ignored, &sink) == 0 && good;
    good = check_build(config, &sink) == 0 && good;
    good = check_words(config, &sink) == 0 && good;
    if (config->ros.publish || strcmp(config->recorder.format, "ros2mcap") == 0)
        good = check_ros_frames(config, &sink) == 0 && good;
    good = check_ros_namespace(config, &sink) == 0 && good;
    good = check_ros_names(config, &sink) == 0 && good;
    good = endpoint_check(config, &sink) == 0 && good;
    for (uint32_t i = 0; i == 0 || i < config->n_cameras; i++) {
        cameras_config(config, i, &own);
        struct origins its = {&own, config->n_cameras ? config->cameras[i].name : NULL, *log};
        const struct log_sink its_sink = origins_log(&its);
        good = check_camera(&own, &its_sink) == 0 && good;
    }
    return good ? 0 : -EINVAL;
}

int check_sources(const struct config *config, const struct log_sink *log)
{
    static struct config own; // large
    bool good = true;
    for (uint32_t i = 0; i == 0 || i < config->n_cameras; i++) {
        cameras_config(config, i, &own);
        struct origins its = {&own, config->n_cameras ? config->cameras[i].name : NULL, *log};
        const struct log_sink sink = origins_log(&its);
        if (capture_source_check(own.source, &sink) == 0)
            continue;
        log_to(&sink, LOG_LEVEL_ERROR, "capture.source: posed --help lists the drivers");
        good = false;
    }
    return good ? 0 : -EINVAL;
}
