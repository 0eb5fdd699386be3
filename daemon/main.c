// SPDX-License-Identifier: Apache-2.0
// posed: reads its settings, opens what it needs in order, runs the frame loop, closes in reverse.
// Exit codes: 0 end of the recording or a signal, 1 other failure (a port in use, a full disk),
// 2 usage, 3 configuration, 4 device or recording, 5 GPU.
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "daemon/camera.h"
#include "daemon/check_settings.h"
#include "daemon/config/command_line.h"
#include "daemon/config/settings.h"
#include "daemon/endpoint.h"
#include "daemon/fill_messages.h"
#include "daemon/http.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/outputs.h"
#include "daemon/publish.h"
#include "daemon/recording.h"
#include "daemon/request_socket.h"
#include "daemon/ros/base_to_camera.h"
#include "daemon/ros/ros.h"
#include "daemon/signals.h"
#include "proto/clock.h"
#include "proto/rig_fusion.h"

_Static_assert(CONFIG_MAX_CAMERAS <= ROS_MAX_SOURCES, "enlarge ROS_MAX_SOURCES");

#define FETCH_NS INT64_C(2000000000) // subscribers that take nothing for so long stay behind

enum exit_code { EXIT_OK, EXIT_OTHER, EXIT_USAGE, EXIT_CONFIG, EXIT_DEVICE, EXIT_GPU };

struct daemon {
    struct options options;
    struct config config; // as started
    struct settings *settings;
    struct log *log;
    struct log_sink sink;
    struct camera cameras[CONFIG_MAX_CAMERAS];
    uint32_t n_cameras; // that are open, or were tried to be
    struct endpoint *endpoint;
    struct publish *publish;
    struct requests *requests;
    struct http *http;
    struct recording recording;
    struct ros *ros;      // NULL = none
    struct rig_pose *rig; // NULL = none
    struct trajectory_file *rig_trajectory;
    bool opened; // all of it
};

static bool must_stop(void *user)
{
    (void)user;
    return signals_stop();
}

static int create_ros(struct daemon *daemon)
{
    const struct config *config = &daemon->config;
    struct ros_source sources[CONFIG_MAX_CAMERAS];
    const char *domain_origin;
    const uint32_t domain = config_ros_domain(config, &domain_origin);
    const struct ros_settings settings = {
        .domain = domain,
        .domain_origin = domain_origin,
        .interface = config->ros.interface,
        .topic_namespace = config->ros.topic_namespace,
        .map_frame = config->ros.map_frame,
        .odom_frame = config->ros.odom_frame,
        .base_frame = config->ros.base_frame,
        .optical_frame = config->ros.optical_frame,
        .sources = sources,
        .n_sources = daemon->n_cameras,
        .has_rig = daemon->rig != NULL,
        .log = daemon->sink,
    };
    if (!config->ros.publish)
        return 0;
    for (uint32_t i = 0; i < daemon->n_cameras; i++) {
        const struct camera *camera = &daemon->cameras[i];
        sources[i] = (struct ros_source){daemon->n_cameras > 1 ? camera->name : "",
                                         capture_info(camera->capture), camera->T_base_optical,
                                         daemon->rig ? rig_pose_place(daemon->rig, i) : NULL,
                                         daemon->rig ? rig_pose_ahead_ns(daemon->rig, i) : 0};
    }
    int error = ros_create(&daemon->ros, &settings);
    for (uint32_t i = 0; i < daemon->n_cameras && !error; i++)
        daemon->cameras[i].ros = daemon->ros;
    if (!error && daemon->rig)
        rig_pose_publish_to(daemon->rig, daemon->ros);
    return error;
}

static int read_config(const struct options *options, struct config *out,
                       const struct log_sink *sink)
{
    return config_load(out, options->config_file, options->assignments, options->n_assignments,
                       sink);
}

static int load_config(const struct options *options, struct config *out,
                       const struct log_sink *sink)
{
    const int error = read_config(options, out, sink);
    return error ? error : check_settings(out, sink);
}

// The log speaks as the configuration says also where the configuration is wrong: whoever reads it
// by program would lose just these lines. What is right in it is taken.
static void set_log_format(struct daemon *daemon)
{
    static const struct log_sink silent = {NULL, NULL};
    const int ignored = read_config(&daemon->options, &daemon->config, &silent);
    (void)ignored;
    const struct log_settings settings = {LOG_LEVEL_INFO, daemon->config.log.format, 0};
    log_configure(daemon->log, &settings);
}

// What can be told before anything is opened; --check-config ends with the start's exit code.
static enum exit_code look_at_config(struct daemon *daemon)
{
    struct config *config = &daemon->config;
    // What is dumped may name files that whoever looks cannot read.
    if (daemon->options.dump)
        return read_config(&daemon->options, config, &daemon->sink) ? EXIT_CONFIG : EXIT_OK;
    if (load_config(&daemon->options, config, &daemon->sink) != 0)
        return EXIT_CONFIG;
    if (check_sources(config, &daemon->sink) != 0)
        return EXIT_DEVICE;
    if (daemon->options.check)
        outputs_look_at_folders(config, &daemon->sink);
    const int error = outputs_check(config, &daemon->sink);
    if (!error && !daemon->options.check)
        outputs_make_folders(config, &daemon->sink);
    return error == -EINVAL ? EXIT_CONFIG : error ? EXIT_OTHER : EXIT_OK;
}

// SIGHUP: a bad file keeps the old settings and says why.
static void reload(void *user)
{
    struct daemon *daemon = user;
    static struct config fresh; // large, and the loop's thread alone comes here
    posed_Event event;
    if (!signals_take_reload())
        return;
    notify_send("RELOADING=1");
    bool ok = load_config(&daemon->options, &fresh, &daemon->sink) == 0, has_clients = true;
    if (ok) {
        unsigned n = settings_reload(daemon->settings, &fresh, &daemon->sink);
        has_clients = endpoint_reload(daemon->endpoint, &daemon->config) == 0;
        log_to(&daemon->sink, LOG_LEVEL_NOTICE, "configuration read again: %u settings changed", n);
    } else {
        log_to(&daemon->sink, LOG_LEVEL_ERROR, "configuration not taken; the old one stays");
    }
    message_event(
        shared_info(daemon->cameras[0].shared), 0,
        ok && has_clients ? posed_Event_Kind_CONFIG_RELOADED : posed_Event_Kind_CONFIG_REJECTED,
        !ok           ? "configuration refused, see the log"
        : has_clients ? "configuration read again"
                      : "settings read again, but not the list of clients: the old one stays in "
                        "force, see the log",
        &event);
    publish_post(daemon->cameras[0].publish, PUBLISH_EVENT, posed_Event_fields, &event);
    notify_send("READY=1");
}

static void publish_log_line(void *user, enum log_level level, const char *line)
{
    posed_Log message;
    message_log(level, line, &message);
    publish_post(user, PUBLISH_LOG, posed_Log_fields, &message);
}

static int create_requests(struct daemon *daemon)
{
    struct handlers handlers[CONFIG_MAX_CAMERAS];
    for (uint32_t i = 0; i < daemon->n_cameras; i++) {
        struct camera *camera = &daemon->cameras[i];
        handlers[i] = (struct handlers){
            .camera = camera->name,
            .shared = camera->shared,
            .config = &camera->config,
            .recorder = camera->recorder,
            .T_rig_camera = camera->rig ? rig_pose_place(camera->rig, i) : NULL,
            .ahead_ns = camera->rig ? rig_pose_ahead_ns(camera->rig, i) : 0,
            .T_base_optical = camera->T_base_optical,
            .frames = camera->frames,
            .yield_frames = &camera->yield_frames,
            .publish = camera->publish,
            .log = camera->sink,
        };
    }
    return requests_create(&daemon->requests, daemon->endpoint, handlers, daemon->n_cameras,
                           daemon->settings);
}

// The page is there by default, and where its usual port is taken (by a second daemon) it is not;
// any other port somebody wants.
static int create_http(struct daemon *daemon)
{
#ifdef POSED_HAVE_HTTP
    struct http_settings settings = {
        .port = (uint16_t)daemon->config.http.port,
        .control = daemon->config.http.control,
        .origins = daemon->config.http.origins,
        .n_cameras = daemon->n_cameras,
        .requests = daemon->requests,
        .log = daemon->sink,
    };
    for (uint32_t i = 0; i < daemon->n_cameras; i++)
        settings.cameras[i] = (struct web_camera){
            daemon->cameras[i].name, daemon->cameras[i].shared, daemon->cameras[i].publish};
    if (!settings.port)
        return 0;
    int error = http_create(&daemon->http, &settings);
    bool is_usual = settings.port == CONFIG_HTTP_PORT;
    if (error)
        log_to(&daemon->sink, is_usual ? LOG_LEVEL_NOTICE : LOG_LEVEL_ERROR,
               "no page at http://127.0.0.1:%u: %s (http.port)", settings.port, strerror(-error));
    return is_usual ? 0 : error;
#else
    (void)daemon;
    return 0;
#endif
}

static enum exit_code open_cameras(struct daemon *daemon)
{
    static const enum exit_code codes[] = {[CAMERA_OK] = EXIT_OK,
                                           [CAMERA_STOPPED] = EXIT_OK,
                                           [CAMERA_NO_SOURCE] = EXIT_DEVICE,
                                           [CAMERA_OTHER_FIELD] = EXIT_CONFIG,
                                           [CAMERA_NO_ROOM] = EXIT_CONFIG,
                                           [CAMERA_NO_BACKEND] = EXIT_GPU,
                                           [CAMERA_NO_MEMORY] = EXIT_OTHER};
    uint32_t n = daemon->config.n_cameras ? daemon->config.n_cameras : 1;
    enum camera_error error = CAMERA_OK;
    uint64_t session;
    // Of several cameras the first one is placed on the robot; the others' base is the camera.
    struct se3 T_base_optical;
    if (ros_place_of_camera(&daemon->config, &T_base_optical, &daemon->sink) != 0)
        return EXIT_CONFIG;
    if (getrandom(&session, sizeof session, 0) != sizeof session) {
        log_to(&daemon->sink, LOG_LEVEL_ERROR, "no random numbers: %s", strerror(errno));
        return EXIT_OTHER;
    }
    // One there always is, for all that comes behind.
    for (uint32_t i = 0; i < n && error == CAMERA_OK && (i == 0 || !signals_stop()); i++) {
        struct camera *camera = &daemon->cameras[i];
        daemon->n_cameras++;
        camera->T_base_optical = i == 0 ? T_base_optical : ros_optical_in_base();
        error = camera_open(camera, &daemon->config, i, session, &daemon->sink);
        signals_wake(i, camera->capture);
    }
    return codes[error];
}

static bool all_unpaced(const struct daemon *daemon)
{
    for (uint32_t i = 0; i < daemon->n_cameras; i++)
        if (!camera_is_unpaced(&daemon->cameras[i]))
            return false;
    return true;
}

static int create_publish(struct daemon *daemon)
{
    struct publish_settings settings = {.n_cameras = daemon->n_cameras,
                                        .has_rig = cameras_have_rig(&daemon->config),
                                        .no_drop = all_unpaced(daemon)};
    for (uint32_t i = 0; i < daemon->n_cameras; i++)
        settings.cameras[i] = daemon->cameras[i].name;
    int error = publish_create(&daemon->publish, daemon->endpoint, &daemon->config, &settings,
                               &daemon->sink);
    for (uint32_t i = 0; i < daemon->n_cameras && !error; i++)
        daemon->cameras[i].publish = publish_channel(daemon->publish, i);
    return error;
}

// The rig's poses are told at the first camera's stamps, where that delivers.
static void tell_slow(const struct camera *camera)
{
    const int64_t period_ns = capture_info(camera->capture)->period_ns;
    if (period_ns > RIG_GAP_NS)
        log_to(&camera->sink, LOG_LEVEL_WARNING,
               "%.1f frames/s are too few for the rig, which interpolates over %lld ms at most: "
               "it has of this camera only what is of the first one's stamps",
               1e9 / (double)period_ns, (long long)(RIG_GAP_NS / 1000000));
}

static int create_rig(struct daemon *daemon)
{
    static struct config config; // large
    struct camera *first = &daemon->cameras[0];
    if (!cameras_have_rig(&daemon->config))
        return 0;
    cameras_rig_config(&daemon->config, &config);
    struct rig_pose_settings settings = {
        .n_cameras = daemon->n_cameras,
        .patient = all_unpaced(daemon),
        .replay = !capture_info(first->capture)->live,
        .session = shared_info(first->shared)->session,
        .odom_frame = config.publish.odom_frame,
        .base_frame = first->config.publish.camera_frame,
        .publish = publish_channel(daemon->publish, daemon->n_cameras),
        .stop = must_stop,
        .log = daemon->sink,
    };
    for (uint32_t i = 0; i < daemon->n_cameras; i++) {
        settings.places[i] = daemon->cameras[i].config.camera_rig;
        if (i > 0)
            tell_slow(&daemon->cameras[i]);
    }
    int error = rig_pose_create(&daemon->rig, &settings);
    for (uint32_t i = 0; i < daemon->n_cameras && !error; i++)
        daemon->cameras[i].rig = daemon->rig;
    return error;
}

static int open_trajectories(struct daemon *daemon)
{
    static struct config config; // large
    int error = 0;
    for (uint32_t i = 0; i < daemon->n_cameras && !error; i++)
        error = camera_open_trajectory(&daemon->cameras[i]);
    cameras_rig_config(&daemon->config, &config);
    if (error || !daemon->rig || !config.trajectory[0])
        return error;
    error = trajectory_file_create(&daemon->rig_trajectory, config.trajectory,
                                   config.trajectory_format, all_unpaced(daemon),
                                   config.trajectory_poses == CONFIG_POSES_ADJUSTED, &daemon->sink);
    rig_pose_write_to(daemon->rig, daemon->rig_trajectory);
    return error;
}

// Opens everything in order. Returns an exit code, EXIT_OK to go on.
static enum exit_code open_all(struct daemon *daemon)
{
    struct camera *first = &daemon->cameras[0];
    enum exit_code code = open_cameras(daemon);
    if (code != EXIT_OK || signals_stop())
        return code;
    // The trajectories last: a second daemon started by mistake ends before them, at the endpoints,
    // and does not empty the files of the first one.
    const int error = endpoint_open(&daemon->endpoint, &daemon->config, &daemon->sink);
    if (error)
        return error == -EINVAL ? EXIT_CONFIG : EXIT_OTHER;
    if (create_publish(daemon) != 0 || create_rig(daemon) != 0 ||
        recording_create(&daemon->recording, &daemon->config, daemon->cameras, daemon->n_cameras,
                         &daemon->sink) != 0 ||
        create_ros(daemon) != 0)
        return EXIT_OTHER;
    if (daemon->rig && daemon->recording.recorder)
        rig_pose_record_to(daemon->rig, daemon->recording.recorder);
    if (create_requests(daemon) != 0 || create_http(daemon) != 0 || open_trajectories(daemon) != 0)
        return EXIT_OTHER;
    log_listen(daemon->log, publish_log_line, first->publish);
    daemon->opened = true;
    return EXIT_OK;
}

static enum exit_code code_of(const struct camera *camera)
{
    switch (camera->end) {
    case LOOP_END_OF_RECORDING:
    case LOOP_STOPPED:
        return camera->failed ? EXIT_OTHER : EXIT_OK;
    case LOOP_SOURCE_FAILED:
        return EXIT_DEVICE;
    case LOOP_BACKEND_FAILED:
        return EXIT_GPU;
    case LOOP_NO_MEMORY:
        break;
    }
    return EXIT_OTHER;
}

// Of several cameras, the first that failed has the exit code.
static enum exit_code run_cameras(struct daemon *daemon)
{
    struct camera *first = &daemon->cameras[0];
    // As fast as possible, with a person who waits.
    bool shows_progress = isatty(STDERR_FILENO) && camera_is_unpaced(first);
    const struct camera_run run = {
        .stop = must_stop,
        .poll = reload,
        .user = daemon,
        .terminal = shows_progress ? daemon->log : NULL,
    };
    enum exit_code code = EXIT_OK;
    if (daemon->n_cameras == 1)
        camera_run(first, &run);
    else if (camera_run_all(daemon->cameras, daemon->n_cameras, &run) != 0)
        return EXIT_OTHER;
    for (uint32_t i = 0; i < daemon->n_cameras && code == EXIT_OK; i++)
        code = code_of(&daemon->cameras[i]);
    return code;
}

// Subscribers may fetch the end of a recording for as long as they go on, but a signal is obeyed
// within 500 ms.
static void wait_for_subscribers(const struct daemon *daemon)
{
    uint64_t n, fewest = UINT64_MAX;
    int64_t until_ns = 0;
    while (!signals_stop() && daemon->publish && (n = publish_n_waiting(daemon->publish)) > 0) {
        int64_t now_ns = clock_monotonic_ns();
        if (n < fewest) {
            fewest = n;
            until_ns = now_ns + FETCH_NS;
        }
        if (now_ns >= until_ns)
            return;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
}

static void close_all(struct daemon *daemon)
{
    log_listen(daemon->log, NULL, NULL);
    for (uint32_t i = 0; i < daemon->n_cameras; i++)
        if (daemon->cameras[i].shared)
            shared_end_commands(daemon->cameras[i].shared);
#ifdef POSED_HAVE_HTTP
    http_destroy(&daemon->http);
#endif
    requests_destroy(&daemon->requests);
    recording_destroy(&daemon->recording);
    ros_destroy(&daemon->ros);
    for (uint32_t i = 0; i < daemon->n_cameras; i++)
        camera_close_frames(&daemon->cameras[i]);
    wait_for_subscribers(daemon);
    publish_destroy(&daemon->publish, 200);
    endpoint_close(&daemon->endpoint);
    rig_pose_destroy(&daemon->rig);
    for (uint32_t i = 0; i < daemon->n_cameras; i++) {
        signals_wake(i, NULL);
        camera_close(&daemon->cameras[i]);
    }
}

static int close_trajectories(struct daemon *daemon)
{
    int error = 0;
    for (uint32_t i = 0; i < daemon->n_cameras; i++)
        error = camera_close_trajectory(&daemon->cameras[i]) || error;
    return trajectory_file_destroy(&daemon->rig_trajectory) || error;
}

// Before there is a log.
static enum exit_code end_without_memory(void)
{
    static const char said[] = "posed: error: out of memory\n";
    ssize_t n = write(STDERR_FILENO, said, sizeof said - 1);
    (void)n;
    return EXIT_OTHER;
}

int main(int argc, char **argv)
{
    static struct daemon daemon; // too large for the stack
    // A queue of the GPU's for each camera: of its eight by default, two cameras share one and wait
    // for each other.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    const struct log_settings start = {LOG_LEVEL_INFO, CONFIG_LOG_AUTO, 0};
    // A wrong command line ends inside, with EXIT_USAGE.
    if (options_parse(&daemon.options, argc, argv, 0) != 0 || log_create(&daemon.log, &start) != 0)
        return end_without_memory();
    daemon.sink = log_sink(daemon.log);
    set_log_format(&daemon);
    enum exit_code code = look_at_config(&daemon);
    if (code != EXIT_OK || daemon.options.check || daemon.options.dump) {
        if (code == EXIT_OK && daemon.options.dump)
            config_dump(&daemon.config, stdout);
        log_destroy(&daemon.log);
        return code;
    }
    signals_catch();
    code = EXIT_OTHER;
    if (settings_create(&daemon.settings, &daemon.config, daemon.log) == 0)
        code = open_all(&daemon);
    else
        log_to(&daemon.sink, LOG_LEVEL_ERROR, "out of memory");
    if (code == EXIT_OK && daemon.opened)
        code = run_cameras(&daemon);
    if (close_trajectories(&daemon) != 0 && code == EXIT_OK)
        code = EXIT_OTHER;
    // Whoever failed has said why, unless the reason was so plain that nobody thought of it.
    if (code != EXIT_OK && log_errors(daemon.log) == 0)
        log_to(&daemon.sink, LOG_LEVEL_ERROR, "the daemon ends: %s",
               daemon.opened ? "its output failed" : "out of memory, descriptors or threads");
    close_all(&daemon);
    settings_destroy(&daemon.settings);
    log_destroy(&daemon.log);
    return code;
}
