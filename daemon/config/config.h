// SPDX-License-Identifier: Apache-2.0
// The daemon's settings: one table (settings_table.c) gives each key its section, type, range, help
// and place in struct config; reading, checking, dumping and config/posed.conf all come from it.
//
// A later source wins: built-in < file < conf.d/*.conf beside it, by name < environment
// (POSED_SECTION_KEY) < command line. Each key remembers where its value comes from.
//
// Plain data: copy it freely. Not thread-safe while being written: daemon/config/settings.h
// holds the copy that changes while the daemon runs.
#ifndef POSED_DAEMON_CONFIG_CONFIG_H
#define POSED_DAEMON_CONFIG_CONFIG_H

#include <stdio.h>

#include "capture/capture.h"
#include "gpu/gpu.h"
#include "gpu/model/model.h"
#include "gpu/track/track.h"
#include "proto/log.h"
#include "proto/trajectory.h"

#define CONFIG_TEXT_MAX          256 // bytes of a text value, its end included
#define CONFIG_ORIGIN_MAX        128
#define CONFIG_MAX_KEYS          112
#define CONFIG_HTTP_PORT         8765
#define CONFIG_MAX_CAMERAS       16
#define CONFIG_CAMERA_NAME_BYTES 17   // its end included
#define CONFIG_CAMERA_BYTES      3072 // of the settings of one camera's own, with their origins
#define CONFIG_BUILT_IN          "built-in" // the origin of what nobody set
#define CONFIG_FILE              "/etc/posed/posed.conf"

enum config_log_format { CONFIG_LOG_AUTO, CONFIG_LOG_TEXT, CONFIG_LOG_JOURNAL, CONFIG_LOG_JSON };
enum config_gpu_error { CONFIG_GPU_ERROR_CPU, CONFIG_GPU_ERROR_REBUILD, CONFIG_GPU_ERROR_STOP };
enum config_trajectory_poses { CONFIG_POSES_ADJUSTED, CONFIG_POSES_PUBLISHED };

// A [camera NAME] section: what this camera has instead of the shared settings, as it was written.
struct config_camera {
    char name[CONFIG_CAMERA_NAME_BYTES];
    char origin[CONFIG_ORIGIN_MAX];     // of the section
    char settings[CONFIG_CAMERA_BYTES]; // key, value, origin, key ... each ended by a zero
    uint32_t n_bytes;                   // of them
};

struct config {
    struct capture_settings capture; // source points nowhere: use `source`
    char source[CONFIG_TEXT_MAX];

    enum gpu_backend backend;
    enum config_gpu_error on_gpu_error;
    uint32_t gpu_fail_every; // frames
    struct gpu_settings gpu; // camera and units_per_m are the source's
    struct track_settings track;
    bool adapt; // less work on frames that come too late
    struct model_settings map;
    uint32_t map_keyframes;           // adjusted together, 0 = none
    char map_folder[CONFIG_TEXT_MAX]; // empty = no maps are saved or loaded

    char trajectory[CONFIG_TEXT_MAX];   // file to write, empty = none
    char camera_field[CONFIG_TEXT_MAX]; // file, empty = none
    char camera_rig[CONFIG_TEXT_MAX];   // file, empty = none
    enum trajectory_format trajectory_format;
    enum config_trajectory_poses trajectory_poses;
    char map_output[CONFIG_TEXT_MAX]; // PLY to write at the end, empty = none

    struct {
        char run_dir[CONFIG_TEXT_MAX]; // empty = found by run_dir_find
        char group[CONFIG_TEXT_MAX];   // owner group of the ipc sockets, empty = the process's
        char pub[CONFIG_TEXT_MAX], latest[CONFIG_TEXT_MAX], img[CONFIG_TEXT_MAX],
            req[CONFIG_TEXT_MAX];
        bool insecure;
        char curve_secret_key_file[CONFIG_TEXT_MAX];
        char curve_clients_file[CONFIG_TEXT_MAX];
        uint32_t max_connections; // of a socket
    } endpoints;

    struct {
        uint32_t pub_hwm, img_hwm; // messages
        char odom_frame[32], camera_frame[32];
        double wait_subscriber_s;
    } publish;

    struct {
        uint32_t queue;            // commands waiting
        uint32_t deadline_ms;      // of a request that names none
        uint32_t max_deadline_ms;  // of all
        uint32_t history;          // frames whose poses are kept
        uint32_t keep_frames;      // frames whose depth is kept
        uint32_t max_points;       // of a set of points
        uint32_t upload_max_bytes; // of a request that carries points or images
    } requests;

    struct {
        uint32_t port; // 0 = none
        bool control;
        char origins[CONFIG_TEXT_MAX];
    } http;

    struct {
        char folder[CONFIG_TEXT_MAX]; // empty = objects are forgotten at the end
        uint32_t max_triangles;       // of an object; its vertices, too
        uint32_t max_views;           // of all objects together
    } search;

    struct {
        char folder[CONFIG_TEXT_MAX]; // empty = no recordings
        char format[32];
        char start[CONFIG_TEXT_MAX]; // name of a recording that begins with the daemon
        uint32_t queue_frames;
        uint64_t max_bytes, keep_bytes; // 0 = no limit
        double max_duration_s, keep_age_s;
    } recorder;

    struct {
        bool publish;
        int domain;                      // ROS_DOMAIN_OF_ENVIRONMENT: config_ros_domain
        char interface[CONFIG_TEXT_MAX]; // empty = the library's choice
        char topic_namespace[32];        // empty = none
        char map_frame[32], odom_frame[32], base_frame[32], optical_frame[32];
        char camera_in_base[CONFIG_TEXT_MAX]; // "x y z roll pitch yaw" [m], [rad]
    } ros;

    struct {
        enum log_level level;
        enum config_log_format format;
        uint32_t rate_hz; // lines a second and level; 0 = no limit
    } log;

    char file[CONFIG_TEXT_MAX]; // that config_load has read, empty = none
    char origin[CONFIG_MAX_KEYS][CONFIG_ORIGIN_MAX];

    struct config_camera cameras[CONFIG_MAX_CAMERAS]; // cameras.h
    uint32_t n_cameras;                               // 0: one, which has no name
};

// One assignment of the command line.
struct config_assignment {
    const char *name;   // "tracker.iterations"
    const char *value;  // "10,5,4"
    const char *origin; // "--set", "--speed"
};

void config_default(struct config *out);

// Sets one key from text; "camera NAME.KEY" one of a camera's own, which is then there. Returns 0,
// -ENOENT (no such key), -EINVAL (not of its type) or -ERANGE, with the reason in out_error;
// *config is then unchanged.
__attribute__((warn_unused_result)) int config_set(struct config *config, const char *name,
                                                   const char *value, const char *origin,
                                                   char *out_error, size_t error_bytes);

// Where the key, or "camera NAME.KEY", was set; NULL: nowhere yet.
const char *config_origin(const struct config *config, const char *name);

// Applies INI text, as from a file `name`. Each wrong key is logged as "name:line: reason", and a
// line that is no INI when nothing before it is wrong; the others are taken, up to a line that is
// too long or has a zero byte. A key that is set twice is warned about; the last holds. Returns 0
// or -EINVAL.
__attribute__((warn_unused_result)) int config_parse(struct config *config, const char *text,
                                                     size_t n_bytes, const char *name,
                                                     const struct log_sink *log);

// All sources in their order. `file` NULL: CONFIG_FILE if there is one. Returns 0; -EINVAL with
// every reason in the log; -ENOENT when a named file is missing; -EIO.
__attribute__((warn_unused_result)) int config_load(struct config *out, const char *file,
                                                    const struct config_assignment *assignments,
                                                    size_t n_assignments,
                                                    const struct log_sink *log);

// ROS 2's domain and who set it: the setting, else ROS_DOMAIN_ID of the environment, else 0 and
// *out_origin NULL.
uint32_t config_ros_domain(const struct config *config, const char **out_origin);

// Whether a map is kept: somebody wants it saved or written, or frames are aligned to it.
bool config_keeps_map(const struct config *config);

// Whether the key `name` may change while the daemon runs (log.*, requests.deadline_ms).
bool config_is_live(const char *name);

// Takes from `fresh` the keys that may change while the daemon runs; names in the log each other
// key that differs and needs a restart. Returns the keys taken.
unsigned config_reload(struct config *config, const struct config *fresh,
                       const struct log_sink *log);

// Writes every key with its help and its value; of built-in defaults this is config/posed.conf.
void config_dump(const struct config *config, FILE *file);

size_t config_n_keys(void);
void config_key_name(size_t key, char *out, size_t size_bytes);
void config_key_value(const struct config *config, size_t key, char *out, size_t size_bytes);

#endif
