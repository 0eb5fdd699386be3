// SPDX-License-Identifier: Apache-2.0
// posed: reads its settings, opens what it needs in order, runs the frame loop, closes in reverse.
// Exit codes: 0 end of the recording or a signal, 1 other failure (a port in use, a full disk),
// 2 usage, 3 configuration, 4 device or recording, 5 GPU.
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "capture/recorder/recorder.h"
#include "daemon/config/options.h"
#include "daemon/config/settings.h"
#include "daemon/endpoint.h"
#include "daemon/frames.h"
#include "daemon/http.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/map_file.h"
#include "daemon/message.h"
#include "daemon/notify.h"
#include "daemon/publish.h"
#include "daemon/requests.h"
#include "daemon/ros/ros.h"
#include "daemon/shared.h"
#include "gpu/base/yield.h"

enum exit_code { EXIT_OK, EXIT_OTHER, EXIT_USAGE, EXIT_CONFIG, EXIT_DEVICE, EXIT_GPU };

struct daemon {
    struct options options;
    struct config config; // as started
    struct settings *settings;
    struct log *log;
    struct log_sink sink;
    struct capture *capture;
    struct backend *backend;
    struct shared *shared;
    struct endpoint *endpoint;
    struct publish *publish;
    struct requests *requests;
    struct http *http;
    struct frames *frames;
    struct yield_frames yield_frames;
    struct recorder *recorder;
    struct trajectory_file *trajectory;
    struct ros *ros;
    bool opened; // all of it
};

static volatile sig_atomic_t stop_signal, reload_signal;
static struct capture *_Atomic signal_capture; // to wake a read that waits

static void on_signal(int number)
{
    if (number == SIGHUP) {
        reload_signal = 1;
        return;
    }
    stop_signal = number;
    if (signal_capture)
        capture_interrupt(signal_capture);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); // a limit of file sizes ends a recording like a full disk
}

static bool must_stop(void *user)
{
    (void)user;
    return stop_signal != 0;
}

static int check_recorder(const struct config *config, const struct log_sink *sink)
{
    const char *start = config->recorder.start, *format = config->recorder.format;
    if (recorder_format_from_name(format) < 0)
        log_to(sink, LOG_LEVEL_ERROR,
               "recorder.format: \"%s\" is none of tum, klg, fakenect, mcap, ros2mcap", format);
    else if (start[0] && !config->recorder.folder[0])
        log_to(sink, LOG_LEVEL_ERROR, "recorder.start: recorder.folder is not set");
    else if (start[0] && !recorder_name_is_plain(start))
        log_to(
            sink, LOG_LEVEL_ERROR,
            "recorder.start: 1 to 64 of A-Z a-z 0-9 . _ - are wanted, without a point or dash in "
            "front or a suffix");
    else
        return 0;
    return -EINVAL;
}

// "x y z roll pitch yaw" of the camera's body on the base.
static int place_of_camera(const struct config *config, struct se3 *out_T_base_optical,
                           const struct log_sink *sink)
{
    double v[6];
    char rest;
    int n = sscanf(config->ros.camera_in_base, "%lf %lf %lf %lf %lf %lf %c", &v[0], &v[1], &v[2],
                   &v[3], &v[4], &v[5], &rest);
    for (int i = 0; i < n && i < 6; i++)
        n = fabs(v[i]) < 1000 ? n : 0; // 0 for NaN, too
    if (n != 6) {
        log_to(sink, LOG_LEVEL_ERROR, "ros.camera_in_base: \"%s\" is not x y z roll pitch yaw",
               config->ros.camera_in_base);
        return -EINVAL;
    }
    const double roll[6] = {0, 0, 0, v[3], 0, 0}, pitch[6] = {0, 0, 0, 0, v[4], 0};
    const double yaw[6] = {0, 0, 0, 0, 0, v[5]};
    struct se3 T = se3_exp(yaw), next = se3_exp(pitch), optical = ros_optical_in_base();
    T = se3_compose(&T, &next);
    next = se3_exp(roll);
    T = se3_compose(&T, &next);
    memcpy(T.t_m, v, sizeof T.t_m);
    *out_T_base_optical = se3_compose(&T, &optical);
    return 0;
}

static int create_ros(struct daemon *daemon)
{
    const struct config *config = &daemon->config;
    struct ros_settings settings = {
        .domain = config->ros.domain,
        .interface = config->ros.interface,
        .odom_frame = config->ros.odom_frame,
        .base_frame = config->ros.base_frame,
        .optical_frame = config->ros.optical_frame,
        .log = daemon->sink,
    };
    if (!config->ros.publish)
        return 0;
    int error = place_of_camera(config, &settings.T_base_optical, &daemon->sink);
    return error ? error : ros_create(&daemon->ros, &settings, capture_info(daemon->capture));
}

static int load_config(const struct options *options, struct config *out,
                       const struct log_sink *sink)
{
    int error =
        config_load(out, options->config_file, options->assignments, options->n_assignments, sink);
    if (!error)
        error = check_recorder(out, sink);
    struct se3 ignored;
    if (!error)
        error = place_of_camera(out, &ignored, sink);
#ifndef POSED_HAVE_HTTP
    if (!error && out->http.port && out->http.port != CONFIG_HTTP_PORT) {
        log_to(sink, LOG_LEVEL_ERROR, "http.port: this program was built without libmicrohttpd");
        error = -EINVAL;
    }
#endif
    return error ? error : endpoint_check(out, sink);
}

// SIGHUP: a bad file keeps the old settings and says why.
static void reload(void *user)
{
    struct daemon *daemon = user;
    static struct config fresh; // large, and the loop's thread alone comes here
    posed_Event event;
    if (!reload_signal)
        return;
    reload_signal = 0;
    notify_send("RELOADING=1");
    bool ok = load_config(&daemon->options, &fresh, &daemon->sink) == 0;
    if (ok) {
        unsigned n = settings_reload(daemon->settings, &fresh, &daemon->sink);
        log_to(&daemon->sink, LOG_LEVEL_NOTICE, "configuration read again: %u settings changed", n);
    } else {
        log_to(&daemon->sink, LOG_LEVEL_ERROR, "configuration not taken; the old one stays");
    }
    message_event(shared_info(daemon->shared), 0,
                  ok ? posed_Event_Kind_CONFIG_RELOADED : posed_Event_Kind_CONFIG_REJECTED,
                  ok ? "configuration read again" : "configuration refused, see the log", &event);
    publish_post(daemon->publish, PUBLISH_EVENT, posed_Event_fields, &event);
    notify_send("READY=1");
}

static void publish_log_line(void *user, enum log_level level, const char *line)
{
    struct publish *publish = user;
    posed_Log message;
    message_log(level, line, &message);
    publish_post(publish, PUBLISH_LOG, posed_Log_fields, &message);
}

static int open_capture(struct daemon *daemon)
{
    struct capture_settings settings = daemon->config.capture;
    settings.source = daemon->config.source;
    settings.n_kept = BACKEND_KEPT_FRAMES + daemon->config.requests.keep_frames;
    if (daemon->config.recorder.folder[0])
        settings.n_kept += daemon->config.recorder.queue_frames;
    settings.ros_domain = daemon->config.ros.domain;
    settings.ros_interface = daemon->config.ros.interface;
    settings.log = daemon->sink;
    int error = capture_open(&daemon->capture, &settings);
    if (!error)
        signal_capture = daemon->capture;
    return error;
}

static int create_shared(struct daemon *daemon)
{
    static const posed_Reference references[] = {
        [TRACK_REFERENCE_PREVIOUS] = posed_Reference_REFERENCE_PREVIOUS,
        [TRACK_REFERENCE_KEYFRAME] = posed_Reference_REFERENCE_KEYFRAME,
        [TRACK_REFERENCE_MODEL] = posed_Reference_REFERENCE_MODEL,
    };
    struct shared_info info = {
        .capture = *capture_info(daemon->capture),
        .reference = references[daemon->config.track.reference],
        .field = backend_field(daemon->backend),
        .n_history = daemon->config.requests.history,
    };
    if (getrandom(&info.session, sizeof info.session, 0) != sizeof info.session) {
        log_to(&daemon->sink, LOG_LEVEL_ERROR, "no random numbers: %s", strerror(errno));
        return -EIO;
    }
    snprintf(info.source, sizeof info.source, "%s", daemon->config.source);
    memcpy(info.odom_frame, daemon->config.publish.odom_frame, sizeof info.odom_frame);
    memcpy(info.camera_frame, daemon->config.publish.camera_frame, sizeof info.camera_frame);
    int error = shared_create(&daemon->shared, &info);
    if (error)
        log_to(&daemon->sink, LOG_LEVEL_ERROR, "out of memory (requests.history)");
    else
        shared_set_backend(daemon->shared, backend_description(daemon->backend));
    return error;
}

static int open_trajectory(struct daemon *daemon)
{
    const char *path = daemon->config.trajectory;
    if (!path[0])
        return 0;
    bool no_drop =
        !capture_info(daemon->capture)->live && daemon->config.capture.rate == CAPTURE_RATE_MAX;
    return trajectory_file_create(&daemon->trajectory, path, daemon->config.trajectory_format,
                                  no_drop, &daemon->sink);
}

// Told at the start, not after the recording; written at the end, and never over what is there.
static int check_map_output(const struct daemon *daemon)
{
    const char *path = daemon->config.map_output;
    if (!path[0] || access(path, F_OK) != 0)
        return 0;
    log_to(&daemon->sink, LOG_LEVEL_ERROR, "%s: is there already (output.map): name a new file",
           path);
    return -EEXIST;
}

static int write_map_output(struct daemon *daemon)
{
    const char *path = daemon->config.map_output;
    struct map_contents map;
    if (!path[0])
        return 0;
    int error = backend_read_map(daemon->backend, &map);
    if (error) {
        log_to(&daemon->sink, LOG_LEVEL_ERROR, "%s: no map: %s", path,
               error == -EAGAIN ? "the camera was not found in the loaded one" : strerror(-error));
        return error;
    }
    error =
        map_file_export(path, map.blocks, map.n_blocks, daemon->config.map.voxel_m, &daemon->sink);
    map_contents_free(&map);
    return error;
}

// Called by the recorder's thread, and by whoever starts a recording.
static void on_recorder_event(void *user, enum recorder_event event, const char *name,
                              const char *detail)
{
    struct daemon *daemon = user;
    posed_Event message;
    bool started = event == RECORDER_EVENT_STARTED;
    shared_set_recording(daemon->shared, started ? name : "");
    message_event(shared_info(daemon->shared), 0,
                  started ? posed_Event_Kind_RECORDING_STARTED : posed_Event_Kind_RECORDING_STOPPED,
                  detail, &message);
    publish_post(daemon->publish, PUBLISH_EVENT, posed_Event_fields, &message);
}

static int create_recorder(struct daemon *daemon)
{
    const struct config *config = &daemon->config;
    const struct recorder_settings settings = {
        .folder = config->recorder.folder,
        .queue_frames = config->recorder.queue_frames,
        .max_bytes = config->recorder.max_bytes,
        .max_duration_s = config->recorder.max_duration_s,
        .keep_bytes = config->recorder.keep_bytes,
        .keep_age_s = config->recorder.keep_age_s,
        .event = on_recorder_event,
        .event_user = daemon,
        .log = daemon->sink,
    };
    if (!config->recorder.folder[0])
        return 0;
    int error = recorder_create(&daemon->recorder, &settings);
    if (error || !config->recorder.start[0])
        return error;
    int format = recorder_format_from_name(config->recorder.format); // checked with the settings
    return recorder_start(daemon->recorder, config->recorder.start, (enum recorder_format)format,
                          capture_info(daemon->capture));
}

static int create_requests(struct daemon *daemon)
{
    int error = frames_create(&daemon->frames, daemon->config.requests.keep_frames);
    if (error)
        log_to(&daemon->sink, LOG_LEVEL_ERROR, "out of memory (requests.keep_frames)");
    const struct handlers handlers = {
        .shared = daemon->shared,
        .config = &daemon->config,
        .settings = daemon->settings,
        .recorder = daemon->recorder,
        .frames = daemon->frames,
        .yield_frames = &daemon->yield_frames,
        .publish = daemon->publish,
        .log = daemon->sink,
    };
    return error ? error : requests_create(&daemon->requests, daemon->endpoint, &handlers);
}

// The page is there by default, and where its usual port is taken (by a second daemon) it is not;
// any other port somebody wants.
static int create_http(struct daemon *daemon)
{
#ifdef POSED_HAVE_HTTP
    const struct http_settings settings = {
        .port = (uint16_t)daemon->config.http.port,
        .control = daemon->config.http.control,
        .origins = daemon->config.http.origins,
        .shared = daemon->shared,
        .publish = daemon->publish,
        .requests = daemon->requests,
        .log = daemon->sink,
    };
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

// What most often is wrong with a recording, so that it can be seen.
static void log_camera(const struct capture_info *info, const struct log_sink *sink)
{
    const struct intrinsics *camera = &info->camera;
    log_to(sink, LOG_LEVEL_INFO,
           "camera: %ux%u, fx %g, fy %g, cx %g, cy %g, %g depth units per metre", camera->width_px,
           camera->height_px, camera->fx_px, camera->fy_px, camera->cx_px, camera->cy_px,
           info->units_per_m);
}

// Opens everything in order. Returns an exit code, EXIT_OK to go on.
static enum exit_code open_all(struct daemon *daemon)
{
    const struct capture_info *info;
    if (check_map_output(daemon) != 0)
        return EXIT_OTHER;
    if (open_capture(daemon) != 0)
        return EXIT_DEVICE;
    info = capture_info(daemon->capture);
    log_to(&daemon->sink, LOG_LEVEL_INFO, "source: %s", info->description);
    log_camera(info, &daemon->sink);
    if (backend_open(&daemon->backend, &daemon->config, daemon->capture, &daemon->sink) != 0)
        return EXIT_GPU;
    log_to(&daemon->sink, LOG_LEVEL_INFO, "%s", backend_description(daemon->backend));
    if (create_shared(daemon) != 0)
        return EXIT_OTHER;
    // The trajectory last: a second daemon started by mistake ends before it, at the endpoints, and
    // does not empty the file of the first one.
    bool no_drop = !info->live && daemon->config.capture.rate == CAPTURE_RATE_MAX;
    if (endpoint_open(&daemon->endpoint, &daemon->config, &daemon->sink) != 0 ||
        publish_create(&daemon->publish, daemon->endpoint, &daemon->config, no_drop,
                       &daemon->sink) != 0 ||
        create_recorder(daemon) != 0 || create_ros(daemon) != 0 || create_requests(daemon) != 0 ||
        create_http(daemon) != 0 || open_trajectory(daemon) != 0)
        return EXIT_OTHER;
    log_listen(daemon->log, publish_log_line, daemon->publish);
    daemon->opened = true;
    return EXIT_OK;
}

// As fast as possible, with a person who waits.
static bool is_progress_shown(const struct daemon *daemon)
{
    return isatty(STDERR_FILENO) && !capture_info(daemon->capture)->live &&
           daemon->config.capture.rate == CAPTURE_RATE_MAX;
}

static enum exit_code run_loop(struct daemon *daemon)
{
    const struct loop_settings settings = {
        .capture = daemon->capture,
        .backend = daemon->backend,
        .shared = daemon->shared,
        .publish = daemon->publish,
        .recorder = daemon->recorder,
        .ros = daemon->ros,
        .frames = daemon->frames,
        .yield_frames = &daemon->yield_frames,
        .trajectory = daemon->trajectory,
        .wait_subscriber_s = daemon->config.publish.wait_subscriber_s,
        .stop = must_stop,
        .poll = reload,
        .user = daemon,
        .log = daemon->sink,
        .terminal = is_progress_shown(daemon) ? daemon->log : NULL,
    };
    notify_send("READY=1");
    enum loop_end end = loop_run(&settings);
    notify_send("STOPPING=1");
    switch (end) {
    case LOOP_END_OF_RECORDING:
    case LOOP_STOPPED:
        return write_map_output(daemon) == 0 ? EXIT_OK : EXIT_OTHER;
    case LOOP_SOURCE_FAILED:
        return EXIT_DEVICE;
    case LOOP_BACKEND_FAILED:
        return EXIT_GPU;
    case LOOP_NO_MEMORY:
        break;
    }
    return EXIT_OTHER;
}

// Subscribers get 2 s to fetch the end of a recording, but a signal is obeyed within 500 ms.
static void close_all(struct daemon *daemon)
{
    log_listen(daemon->log, NULL, NULL);
    if (daemon->shared)
        shared_end_commands(daemon->shared);
#ifdef POSED_HAVE_HTTP
    http_destroy(&daemon->http);
#endif
    requests_destroy(&daemon->requests);
    recorder_destroy(&daemon->recorder);
    ros_destroy(&daemon->ros);
    frames_destroy(&daemon->frames);
    publish_destroy(&daemon->publish, stop_signal ? 200 : 2000);
    endpoint_close(&daemon->endpoint);
    shared_destroy(&daemon->shared);
    backend_close(&daemon->backend);
    signal_capture = NULL;
    capture_close(&daemon->capture);
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
    const struct log_settings start = {LOG_LEVEL_INFO, CONFIG_LOG_AUTO, 0};
    // A wrong command line ends inside, with EXIT_USAGE.
    if (options_parse(&daemon.options, argc, argv, 0) != 0 || log_create(&daemon.log, &start) != 0)
        return end_without_memory();
    daemon.sink = log_sink(daemon.log);
    int error = load_config(&daemon.options, &daemon.config, &daemon.sink);
    if (error || daemon.options.check || daemon.options.dump) {
        if (!error && daemon.options.dump)
            config_dump(&daemon.config, stdout);
        log_destroy(&daemon.log);
        return error ? EXIT_CONFIG : EXIT_OK;
    }
    catch_signals();
    enum exit_code code = EXIT_OTHER;
    if (settings_create(&daemon.settings, &daemon.config, daemon.log) == 0)
        code = open_all(&daemon);
    else
        log_to(&daemon.sink, LOG_LEVEL_ERROR, "out of memory");
    if (code == EXIT_OK)
        code = run_loop(&daemon);
    if (trajectory_file_destroy(&daemon.trajectory) != 0 && code == EXIT_OK)
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
