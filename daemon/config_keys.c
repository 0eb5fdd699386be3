// SPDX-License-Identifier: Apache-2.0
// The table of keys, and what follows from it: values from text and back, defaults, the dump.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config.h"

enum key_type {
    KEY_TEXT,   // char[CONFIG_TEXT_MAX]
    KEY_NAME,   // char[32]
    KEY_BOOL,   // bool
    KEY_UINT,   // uint32_t
    KEY_UINT64, // uint64_t
    KEY_INT,    // int
    KEY_FLOAT,  // float
    KEY_DOUBLE, // double
    KEY_ENUM,   // an enum; `names` by value, NULL at values that have no name
    KEY_SPEED,  // double: "real", "max" or a number
    KEY_LEVELS, // uint32_t[GPU_LEVELS]
};

struct key {
    const char *section, *name;
    enum key_type type;
    size_t offset;
    double min, max;
    const char *const *names;
    bool live; // may change while the daemon runs
    const char *help;
};

static const char *const backend_names[] = {"auto", "cpu", "cuda", NULL};
static const char *const gpu_error_names[] = {"cpu", "rebuild", "stop", NULL};
static const char *const reference_names[] = {"previous", "keyframe", NULL};
static const char *const trajectory_names[] = {"tum", "kitti", NULL};
static const char *const format_names[] = {"auto", "text", "journal", "json", NULL};
static const char *const level_names[] = {"",       "",     "",      "error", "warning",
                                          "notice", "info", "debug", NULL};

#define AT(field) offsetof(struct config, field)

static const struct key keys[] = {
    {"capture", "source", KEY_TEXT, AT(source), 0, 0, NULL, false,
     "Where frames come from, driver:location: tum:DIR, sevenscenes:DIR, synth:NAME, ...\n"
     "(posed --help lists the drivers)."},
    {"capture", "speed", KEY_SPEED, AT(capture.rate), 0, 1000, NULL, false,
     "Replay: real (as recorded; a frame that comes too late is dropped and counted), a number of\n"
     "times that, or max (as fast as possible; nothing is dropped)."},
    {"capture", "loop", KEY_BOOL, AT(capture.loop), 0, 0, NULL, false,
     "Replay: start again at the end."},
    {"capture", "start_s", KEY_DOUBLE, AT(capture.start_s), 0, 1e9, NULL, false,
     "Replay: skip this much of the recording [s]."},
    {"capture", "duration_s", KEY_DOUBLE, AT(capture.duration_s), 0, 1e9, NULL, false,
     "Replay: stop after this much [s]; 0 = to the end."},
    {"capture", "step", KEY_UINT, AT(capture.step), 1, 1000000, NULL, false,
     "Replay: every step-th frame."},
    {"capture", "frames", KEY_UINT, AT(capture.n_frames), 0, 100000000, NULL, false,
     "End after so many frames (with loop: of each round); 0 = all there are."},
    {"capture", "seed", KEY_UINT64, AT(capture.seed), 0, 9007199254740992.0, NULL, false,
     "Synthetic scenes: seed of the noise."},
    {"capture", "allow_implausible", KEY_BOOL, AT(capture.allow_implausible), 0, 0, NULL, false,
     "Open a recording although its size, depth scale or intrinsics cannot be right."},

    {"camera", "fx", KEY_DOUBLE, AT(capture.fx_px), -1e5, 1e5, NULL, false,
     "Intrinsics [px]; 0 = what the source says of itself. fy may be negative (ICL-NUIM)."},
    {"camera", "fy", KEY_DOUBLE, AT(capture.fy_px), -1e5, 1e5, NULL, false, NULL},
    {"camera", "cx", KEY_DOUBLE, AT(capture.cx_px), -1e5, 1e5, NULL, false, NULL},
    {"camera", "cy", KEY_DOUBLE, AT(capture.cy_px), -1e5, 1e5, NULL, false, NULL},
    {"camera", "depth_scale", KEY_DOUBLE, AT(capture.depth_scale), 0, 1e6, NULL, false,
     "Depth units per metre (TUM 5000, millimetres 1000); 0 = what the source says of itself."},

    {"gpu", "backend", KEY_ENUM, AT(backend), 0, 0, backend_names, false,
     "auto (CUDA when a device answers, else the CPU), cpu, cuda."},
    {"gpu", "on_error", KEY_ENUM, AT(on_gpu_error), 0, 0, gpu_error_names, false,
     "When the device fails: cpu (go on there), rebuild (open the device again), stop (exit 5)."},
    {"gpu", "fail_every", KEY_UINT, AT(gpu_fail_every), 0, 1000000000, NULL, false,
     "To try on_error: every so many frames the device is taken to have failed; 0 = never."},
    {"gpu", "threads", KEY_UINT, AT(gpu.n_threads), 0, 1024, NULL, false,
     "CPU backend: threads; 0 = all cores."},
    {"gpu", "cuda_device", KEY_INT, AT(gpu.cuda_device), -1, 255, NULL, false,
     "CUDA backend: device number; -1 = the first that answers."},
    {"gpu", "depth_min_m", KEY_FLOAT, AT(gpu.depth_min_m), 0, 100, NULL, false,
     "Depth outside this range is no measurement [m]."},
    {"gpu", "depth_max_m", KEY_FLOAT, AT(gpu.depth_max_m), 0.1, 100, NULL, false, NULL},
    {"gpu", "bilateral_radius_px", KEY_UINT, AT(gpu.bilateral_radius_px), 0, 6, NULL, false,
     "Bilateral filter: radius [px] (3 = 7x7; 0 = off), spatial sigma [px], and the difference in\n"
     "depth beyond which a neighbour counts nothing, in multiples of the sensor's noise there."},
    {"gpu", "bilateral_sigma_px", KEY_FLOAT, AT(gpu.bilateral_sigma_px), 0.01, 100, NULL, false,
     NULL},
    {"gpu", "bilateral_cut_sigmas", KEY_FLOAT, AT(gpu.bilateral_cut_sigmas), 0.1, 20, NULL, false,
     NULL},

    {"tracker", "reference", KEY_ENUM, AT(track.reference), 0, 0, reference_names, false,
     "What a frame is aligned to: previous (frame to frame) or keyframe."},
    {"tracker", "iterations", KEY_LEVELS, AT(track.align.iterations), 0, 100, NULL, false,
     "Iterations a level, fine to coarse."},
    {"tracker", "early_stop", KEY_BOOL, AT(track.align.early_stop), 0, 0, NULL, false,
     "Leave a level when the step is negligible."},
    {"tracker", "gate_distance_m", KEY_FLOAT, AT(track.align.gate_distance_m), 1e-4, 10, NULL,
     false,
     "Pairs farther apart are not associated [m], nor those whose normals differ by more\n"
     "than the angle [rad]."},
    {"tracker", "gate_angle_rad", KEY_FLOAT, AT(track.align.gate_angle_rad), 1e-3, 1.5707964, NULL,
     false, NULL},

    {"tracker", "min_valid_share", KEY_DOUBLE, AT(track.min_valid_share), 0, 1, NULL, false,
     "When a frame is LOST. Fewer pixels with a normal than this share of all: no depth."},
    {"tracker", "min_pair_ratio", KEY_DOUBLE, AT(track.min_pair_ratio), 0, 1, NULL, false,
     "Fewer pairs per valid pixel: too little overlap."},
    {"tracker", "max_step_m", KEY_DOUBLE, AT(track.max_step_m), 1e-9, 10, NULL, false,
     "A larger last step: not converged."},
    {"tracker", "max_residual_sigmas", KEY_DOUBLE, AT(track.max_residual_sigmas), 0.1, 1e6, NULL,
     false, "A larger residual, in units of the sensor's noise: it does not fit."},
    {"tracker", "max_speed_m_s", KEY_DOUBLE, AT(track.max_speed_m_s), 1e-3, 1e6, NULL, false,
     "A faster motion is not believed."},
    {"tracker", "max_turn_rad_s", KEY_DOUBLE, AT(track.max_turn_rad_s), 1e-3, 1e6, NULL, false,
     NULL},
    {"tracker", "restart_s", KEY_DOUBLE, AT(track.restart_s), 0, 1e6, NULL, false,
     "Lost for so long although there is depth: start anew at the last pose, map epoch + 1."},
    {"tracker", "min_eigenvalue", KEY_DOUBLE, AT(track.min_eigenvalue), 0, 1, NULL, false,
     "When a frame is DEGRADED. A direction with less than this share of the information is held\n"
     "to the prediction, with this standard deviation per frame."},
    {"tracker", "hold_std_m", KEY_DOUBLE, AT(track.hold_std_m), 1e-9, 10, NULL, false, NULL},
    {"tracker", "gap_s", KEY_DOUBLE, AT(track.gap_s), 1e-3, 1e6, NULL, false,
     "Longer without a frame: nothing is predicted."},
    {"tracker", "still_m", KEY_DOUBLE, AT(track.still_m), 0, 10, NULL, false,
     "When the newest frame becomes the reference. Reference previous: motion since the reference\n"
     "that noise alone may fake."},
    {"tracker", "keyframe_distance", KEY_DOUBLE, AT(track.keyframe_distance), 1e-6, 100, NULL,
     false,
     "Reference keyframe: translation by the scene's distance, turn, share of its best overlap."},
    {"tracker", "keyframe_turn_rad", KEY_DOUBLE, AT(track.keyframe_turn_rad), 1e-6, 3.1415927, NULL,
     false, NULL},
    {"tracker", "keyframe_overlap", KEY_DOUBLE, AT(track.keyframe_overlap), 0, 1, NULL, false,
     NULL},

    {"output", "trajectory", KEY_TEXT, AT(trajectory), 0, 0, NULL, false,
     "File for the trajectory, one line per captured frame as it comes; empty = none."},
    {"output", "trajectory_format", KEY_ENUM, AT(trajectory_format), 0, 0, trajectory_names, false,
     "tum (time, position, quaternion) or kitti (the 3x4 matrix, without time)."},

    {"endpoints", "run_dir", KEY_TEXT, AT(endpoints.run_dir), 0, 0, NULL, false,
     "Folder of the ipc sockets. Empty = $RUNTIME_DIRECTORY (systemd), else /run/posed where that\n"
     "can be written, else $XDG_RUNTIME_DIR/posed, else /tmp/posed-UID."},
    {"endpoints", "group", KEY_TEXT, AT(endpoints.group), 0, 0, NULL, false,
     "Group that may connect to the ipc sockets (they are 0660); empty = the daemon's own."},
    {"endpoints", "pub", KEY_TEXT, AT(endpoints.pub), 0, 0, NULL, false,
     "Addresses of each socket, separated by spaces: ipc (a socket of that name in run_dir),\n"
     "tcp://ADDRESS:PORT. Empty = none. Beyond loopback a key file or insecure = true is needed."},
    {"endpoints", "latest", KEY_TEXT, AT(endpoints.latest), 0, 0, NULL, false, NULL},
    {"endpoints", "img", KEY_TEXT, AT(endpoints.img), 0, 0, NULL, false, NULL},
    {"endpoints", "req", KEY_TEXT, AT(endpoints.req), 0, 0, NULL, false, NULL},
    {"endpoints", "insecure", KEY_BOOL, AT(endpoints.insecure), 0, 0, NULL, false,
     "Allow addresses beyond loopback without CURVE: anybody who reaches them may read and "
     "command."},
    {"endpoints", "curve_secret_key_file", KEY_TEXT, AT(endpoints.curve_secret_key_file), 0, 0,
     NULL, false,
     "The daemon's CURVE secret key (40 characters Z85, file mode 0600): tcp is then encrypted."},
    {"endpoints", "curve_clients_file", KEY_TEXT, AT(endpoints.curve_clients_file), 0, 0, NULL,
     false,
     "Public keys of the clients that may connect, one a line; empty = any that knows the\n"
     "daemon's public key."},

    {"publish", "pub_hwm", KEY_UINT, AT(publish.pub_hwm), 1, 100000, NULL, false,
     "Messages kept for a subscriber that is slow, on pub and on img."},
    {"publish", "img_hwm", KEY_UINT, AT(publish.img_hwm), 1, 100, NULL, false, NULL},
    {"publish", "odom_frame", KEY_NAME, AT(publish.odom_frame), 0, 0, NULL, false,
     "Names of the frames in the messages."},
    {"publish", "camera_frame", KEY_NAME, AT(publish.camera_frame), 0, 0, NULL, false, NULL},
    {"publish", "wait_subscriber_s", KEY_DOUBLE, AT(publish.wait_subscriber_s), 0, 3600, NULL,
     false, "Before the first frame, wait at most this long for a subscriber of pose [s]."},

    {"requests", "queue", KEY_UINT, AT(requests.queue), 1, 1024, NULL, false,
     "Commands that may wait; one more is answered RESOURCE_EXHAUSTED, and so is a client that "
     "has\n"
     "as many waiting as places are free: one alone gets half of them."},
    {"requests", "deadline_ms", KEY_UINT, AT(requests.deadline_ms), 1, 3600000, NULL, true,
     "Deadline of a request that names none [ms]."},
    {"requests", "history", KEY_UINT, AT(requests.history), 16, 10000000, NULL, false,
     "Frames whose poses are kept for GetPose and GetTrajectory (72 bytes each)."},

    {"requests", "keep_frames", KEY_UINT, AT(requests.keep_frames), 0, 1000, NULL, false,
     "Frames whose depth is kept for requests that name a frame (0.6 MB each at 640x480)."},
    {"requests", "max_points", KEY_UINT, AT(requests.max_points), 3, 5000000, NULL, false,
     "Points that a set of Register may have."},
    {"requests", "upload_max_bytes", KEY_UINT, AT(requests.upload_max_bytes), 131072, 1 << 30, NULL,
     false, "Longest request that carries points or images; all others have at most 64 KiB."},

    {"http", "port", KEY_UINT, AT(http_port), 0, 65535, NULL, false,
     "Port on 127.0.0.1 for /metrics (Prometheus), /healthz, /readyz, /v1/status and /v1/pose\n"
     "(8765 is usual); 0 = none."},

    {"search", "folder", KEY_TEXT, AT(search.folder), 0, 0, NULL, false,
     "Folder where objects and their reference views are kept; empty = until the daemon ends."},
    {"search", "max_triangles", KEY_UINT, AT(search.max_triangles), 1, 10000000, NULL, false,
     "Triangles, and vertices, that an object may have."},
    {"search", "max_views", KEY_UINT, AT(search.max_views), 64, 1 << 24, NULL, false,
     "Reference views that all objects together may have (10 kB each; an object has 8192 unless\n"
     "the request says otherwise)."},

    {"recorder", "folder", KEY_TEXT, AT(recorder.folder), 0, 0, NULL, false,
     "Folder of recordings; empty = none can be made."},
    {"recorder", "format", KEY_NAME, AT(recorder.format), 0, 0, NULL, false,
     "Format of a recording that names none: tum, klg, fakenect, mcap."},
    {"recorder", "start", KEY_TEXT, AT(recorder.start), 0, 0, NULL, false,
     "Name of a recording that begins with the daemon; empty = none."},
    {"recorder", "queue_frames", KEY_UINT, AT(recorder.queue_frames), 2, 300, NULL, false,
     "Frames that may wait for the disk; more are dropped from the recording and counted."},
    {"recorder", "max_bytes", KEY_UINT64, AT(recorder.max_bytes), 0, 9007199254740992.0, NULL,
     false, "A recording is stopped before it exceeds these; 0 = no limit."},
    {"recorder", "max_duration_s", KEY_DOUBLE, AT(recorder.max_duration_s), 0, 1e9, NULL, false,
     NULL},
    {"recorder", "keep_bytes", KEY_UINT64, AT(recorder.keep_bytes), 0, 9007199254740992.0, NULL,
     false,
     "When one starts, the oldest recordings beyond this size of the folder and beyond this\n"
     "age are deleted; 0 = never."},
    {"recorder", "keep_age_s", KEY_DOUBLE, AT(recorder.keep_age_s), 0, 1e12, NULL, false, NULL},

    {"log", "level", KEY_ENUM, AT(log.level), 0, 0, level_names, true,
     "error, warning, notice, info, debug."},
    {"log", "format", KEY_ENUM, AT(log.format), 0, 0, format_names, true,
     "auto (journal under systemd, else text), text, journal (<level> prefixes), json."},
    {"log", "rate_hz", KEY_UINT, AT(log.rate_hz), 0, 100000, NULL, true,
     "Lines a second and level; what exceeds it is counted and left out. 0 = no limit."},
};

#define N_KEYS (sizeof keys / sizeof keys[0])
_Static_assert(N_KEYS <= CONFIG_MAX_KEYS, "enlarge CONFIG_MAX_KEYS");

void config_default(struct config *out)
{
    *out = (struct config){
        .source = "synth:room",
        .capture = {.rate = CAPTURE_RATE_REAL, .step = 1, .seed = 1},
        .backend = GPU_BACKEND_AUTO,
        .endpoints = {.pub = "ipc tcp://127.0.0.1:5570",
                      .latest = "ipc tcp://127.0.0.1:5571",
                      .img = "ipc tcp://127.0.0.1:5572",
                      .req = "ipc tcp://127.0.0.1:5573"},
        .publish = {.pub_hwm = 1000, .img_hwm = 2, .odom_frame = "odom", .camera_frame = "camera"},
        .requests = {.queue = 32,
                     .deadline_ms = 5000,
                     .history = 36000,
                     .keep_frames = 30,
                     .max_points = 200000,
                     .upload_max_bytes = 64 << 20},
        .search = {.max_triangles = 2000000, .max_views = 65536},
        .recorder = {.format = "tum", .queue_frames = 30},
        .log = {.level = LOG_LEVEL_INFO, .format = CONFIG_LOG_AUTO, .rate_hz = 50},
    };
    gpu_settings_default(&out->gpu);
    track_settings_default(&out->track);
    for (size_t i = 0; i < N_KEYS; i++)
        snprintf(out->origin[i], sizeof out->origin[i], "built-in");
}

// Index of "section.name", N_KEYS when there is none.
static size_t find_key(const char *full_name)
{
    const char *dot = strchr(full_name, '.');
    size_t n_section = dot ? (size_t)(dot - full_name) : 0;
    for (size_t i = 0; i < N_KEYS && dot; i++)
        if (strlen(keys[i].section) == n_section &&
            memcmp(keys[i].section, full_name, n_section) == 0 &&
            strcmp(keys[i].name, dot + 1) == 0)
            return i;
    return N_KEYS;
}

bool config_is_live(const char *name)
{
    size_t i = find_key(name);
    return i < N_KEYS && keys[i].live;
}

// A finite number and nothing after it.
static bool parse_number(const char *text, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*out) && !isspace((unsigned char)text[0]);
}

static bool parse_bool(const char *text, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no",
                                                                                "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *out = strcasecmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static int set_number(const struct key *key, const char *value, void *field, char *out_error,
                      size_t error_bytes)
{
    double number;
    bool whole = key->type == KEY_UINT || key->type == KEY_UINT64 || key->type == KEY_INT;
    if (!parse_number(value, &number) || (whole && number != floor(number))) {
        snprintf(out_error, error_bytes, "\"%s\" is not a %s", value,
                 whole ? "whole number" : "number");
        return -EINVAL;
    }
    if (number < key->min || number > key->max) {
        snprintf(out_error, error_bytes, "%s is outside %.9g..%.9g", value, key->min, key->max);
        return -ERANGE;
    }
    if (key->type == KEY_UINT)
        *(uint32_t *)field = (uint32_t)number;
    else if (key->type == KEY_UINT64)
        *(uint64_t *)field = (uint64_t)number;
    else if (key->type == KEY_INT)
        *(int *)field = (int)number;
    else if (key->type == KEY_FLOAT)
        *(float *)field = (float)number;
    else
        *(double *)field = number;
    return 0;
}

static int set_levels(const struct key *key, const char *value, uint32_t *field, char *out_error,
                      size_t error_bytes)
{
    uint32_t levels[GPU_LEVELS];
    const char *s = value;
    for (int i = 0; i < GPU_LEVELS; i++) {
        char *end;
        s += strspn(s, " \t");
        bool is_number = isdigit((unsigned char)*s);
        unsigned long n = is_number ? strtoul(s, &end, 10) : 0;
        if (!is_number || *(end += strspn(end, " \t")) != (i + 1 < GPU_LEVELS ? ',' : 0)) {
            snprintf(out_error, error_bytes, "\"%s\" is not %d whole numbers with commas between",
                     value, GPU_LEVELS);
            return -EINVAL;
        }
        if ((double)n > key->max) {
            snprintf(out_error, error_bytes, "%lu is outside 0..%g", n, key->max);
            return -ERANGE;
        }
        levels[i] = (uint32_t)n;
        s = end + 1;
    }
    memcpy(field, levels, sizeof levels);
    return 0;
}

static int set_enum(const struct key *key, const char *value, void *field, char *out_error,
                    size_t error_bytes)
{
    size_t n = 0;
    for (unsigned i = 0; key->names[i]; i++)
        if (*value && strcmp(key->names[i], value) == 0) {
            memcpy(field, &i, sizeof i);
            return 0;
        }
    n = (size_t)snprintf(out_error, error_bytes, "\"%s\" is none of:", value);
    for (unsigned i = 0; key->names[i] && n < error_bytes; i++)
        if (key->names[i][0])
            n += (size_t)snprintf(out_error + n, error_bytes - n, " %s", key->names[i]);
    return -EINVAL;
}

static int set_key(const struct key *key, const char *value, void *field, char *out_error,
                   size_t error_bytes)
{
    size_t n_text =
        key->type == KEY_NAME ? sizeof((struct config *)0)->publish.odom_frame : CONFIG_TEXT_MAX;
    switch (key->type) {
    case KEY_TEXT:
    case KEY_NAME:
        if (strlen(value) >= n_text) {
            snprintf(out_error, error_bytes, "longer than %zu bytes", n_text - 1);
            return -ERANGE;
        }
        snprintf(field, n_text, "%s", value);
        return 0;
    case KEY_BOOL:
        if (parse_bool(value, field))
            return 0;
        snprintf(out_error, error_bytes, "\"%s\" is neither true nor false", value);
        return -EINVAL;
    case KEY_ENUM:
        return set_enum(key, value, field, out_error, error_bytes);
    case KEY_LEVELS:
        return set_levels(key, value, field, out_error, error_bytes);
    case KEY_SPEED:
        if (strcmp(value, "real") == 0 || strcmp(value, "max") == 0) {
            *(double *)field = value[0] == 'r' ? CAPTURE_RATE_REAL : CAPTURE_RATE_MAX;
            return 0;
        }
        if (set_number(key, value, field, out_error, error_bytes) == 0 && *(double *)field > 0)
            return 0;
        snprintf(out_error, error_bytes, "\"%s\" is neither real, max nor a number in 0..1000",
                 value);
        return -EINVAL;
    default:
        return set_number(key, value, field, out_error, error_bytes);
    }
}

int config_set(struct config *config, const char *name, const char *value, const char *origin,
               char *out_error, size_t error_bytes)
{
    size_t i = find_key(name);
    if (i == N_KEYS) {
        snprintf(out_error, error_bytes, "unknown key \"%s\" (posed --dump-config lists them)",
                 name);
        return -ENOENT;
    }
    char reason[200];
    struct config before = *config;
    int error = set_key(&keys[i], value, (char *)config + keys[i].offset, reason, sizeof reason);
    if (error) {
        *config = before;
        snprintf(out_error, error_bytes, "%s: %s", name, reason);
        return error;
    }
    snprintf(config->origin[i], sizeof config->origin[i], "%s", origin);
    return 0;
}

static size_t key_size(const struct key *key)
{
    switch (key->type) {
    case KEY_TEXT:
        return CONFIG_TEXT_MAX;
    case KEY_NAME:
        return sizeof((struct config *)0)->publish.odom_frame;
    case KEY_BOOL:
        return sizeof(bool);
    case KEY_UINT64:
    case KEY_DOUBLE:
    case KEY_SPEED:
        return sizeof(double);
    case KEY_LEVELS:
        return GPU_LEVELS * sizeof(uint32_t);
    default:
        return sizeof(uint32_t);
    }
}

unsigned config_reload(struct config *config, const struct config *fresh,
                       const struct log_sink *log)
{
    unsigned n_taken = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        char *to = (char *)config + keys[i].offset, name[96], before[CONFIG_TEXT_MAX],
             after[CONFIG_TEXT_MAX];
        config_key_name(i, name, sizeof name);
        config_key_value(config, i, before, sizeof before);
        config_key_value(fresh, i, after, sizeof after);
        if (strcmp(before, after) == 0)
            continue;
        if (!keys[i].live) {
            log_to(log, LOG_LEVEL_WARNING, "%s = %s needs a restart; %s stays in force", name,
                   after, before[0] ? before : "(empty)");
            continue;
        }
        memcpy(to, (const char *)fresh + keys[i].offset, key_size(&keys[i]));
        memcpy(config->origin[i], fresh->origin[i], sizeof config->origin[i]);
        log_to(log, LOG_LEVEL_NOTICE, "%s = %s (was %s)", name, after, before);
        n_taken++;
    }
    return n_taken;
}

size_t config_n_keys(void)
{
    return N_KEYS;
}

void config_key_name(size_t key, char *out, size_t size_bytes)
{
    snprintf(out, size_bytes, "%s.%s", keys[key].section, keys[key].name);
}

// The shortest text that reads back as the same number; 500 rather than 5e+02.
static void print_number(double number, bool is_float, char *out, size_t size_bytes)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, size_bytes, "%.*g", digits, number);
        double back = strtod(out, NULL);
        bool is_odd = strchr(out, 'e') && fabs(number) >= 1e-4 && fabs(number) < 1e9;
        if (!is_odd && (is_float ? (float)back == (float)number : back == number))
            return;
    }
}

void config_key_value(const struct config *config, size_t index, char *out, size_t size_bytes)
{
    const struct key *key = &keys[index];
    const void *field = (const char *)config + key->offset;
    const uint32_t *levels = field;
    switch (key->type) {
    case KEY_TEXT:
    case KEY_NAME:
        snprintf(out, size_bytes, "%s", (const char *)field);
        return;
    case KEY_BOOL:
        snprintf(out, size_bytes, "%s", *(const bool *)field ? "true" : "false");
        return;
    case KEY_UINT:
        snprintf(out, size_bytes, "%u", *(const uint32_t *)field);
        return;
    case KEY_UINT64:
        snprintf(out, size_bytes, "%llu", (unsigned long long)*(const uint64_t *)field);
        return;
    case KEY_INT:
        snprintf(out, size_bytes, "%d", *(const int *)field);
        return;
    case KEY_FLOAT:
        print_number((double)*(const float *)field, true, out, size_bytes);
        return;
    case KEY_ENUM:
        snprintf(out, size_bytes, "%s", key->names[*(const unsigned *)field]);
        return;
    case KEY_LEVELS:
        snprintf(out, size_bytes, "%u,%u,%u", levels[0], levels[1], levels[2]);
        return;
    case KEY_SPEED:
        if (*(const double *)field == CAPTURE_RATE_MAX ||
            *(const double *)field == CAPTURE_RATE_REAL)
            snprintf(out, size_bytes, "%s",
                     *(const double *)field == CAPTURE_RATE_MAX ? "max" : "real");
        else
            print_number(*(const double *)field, false, out, size_bytes);
        return;
    case KEY_DOUBLE:
        print_number(*(const double *)field, false, out, size_bytes);
        return;
    }
}

static void dump_help(const char *help, FILE *file)
{
    while (help && *help) {
        const char *newline = strchr(help, '\n');
        size_t n = newline ? (size_t)(newline - help) : strlen(help);
        fprintf(file, "# %.*s\n", (int)n, help);
        help += newline ? n + 1 : n;
    }
}

void config_dump(const struct config *config, FILE *file)
{
    fprintf(
        file,
        "# Settings of posed: every key, with its built-in default in config/posed.conf.\n"
        "# A later source wins: built-in, this file, conf.d/*.conf beside it (by name),\n"
        "# the environment (POSED_SECTION_KEY), the command line. `posed --check-config` checks,\n"
        "# `posed --dump-config` prints what is in force. Lines have at most 198 bytes.\n");
    for (size_t i = 0; i < N_KEYS; i++) {
        char value[CONFIG_TEXT_MAX];
        if (i == 0 || strcmp(keys[i].section, keys[i - 1].section) != 0)
            fprintf(file, "\n[%s]\n", keys[i].section);
        else if (keys[i].help)
            fprintf(file, "\n");
        dump_help(keys[i].help, file);
        if (keys[i].min < keys[i].max)
            fprintf(file, "# Range of %s: %.9g .. %.9g\n", keys[i].name, keys[i].min, keys[i].max);
        config_key_value(config, i, value, sizeof value);
        fprintf(file, "%s =%s%s\n", keys[i].name, value[0] ? " " : "", value);
    }
}
