// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/cameras.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config/settings_table.h"
#include "proto/closest.h"

#define SECTION "camera "

// A camera's key may be any of these sections.
static const char *const sections[] = {"capture", "camera", "gpu"};
#define N_SECTIONS (sizeof sections / sizeof sections[0])

bool cameras_owns(const char *name)
{
    return strncmp(name, SECTION, strlen(SECTION)) == 0;
}

// Index of the shared key that a camera's own stands for, config_n_keys() when there is none.
static size_t find_key(const char *name)
{
    char full[96];
    size_t i = config_n_keys();
    for (size_t s = 0; s < N_SECTIONS && i == config_n_keys(); s++) {
        snprintf(full, sizeof full, "%s.%.60s", sections[s], name);
        i = config_find_key(full);
    }
    return i;
}

// --- The settings of one camera: three texts each

static const char *value_of(const char *key)
{
    return key + strlen(key) + 1;
}

static const char *origin_of(const char *key)
{
    const char *value = value_of(key);
    return value + strlen(value) + 1;
}

static const char *next_of(const char *key)
{
    const char *origin = origin_of(key);
    return origin + strlen(origin) + 1;
}

static const char *end_of(const struct config_camera *camera)
{
    return camera->settings + camera->n_bytes;
}

static const char *find_own(const struct config_camera *camera, const char *name)
{
    for (const char *key = camera->settings; key < end_of(camera); key = next_of(key))
        if (strcmp(key, name) == 0)
            return key;
    return NULL;
}

static const char *get(const struct config_camera *camera, const char *name)
{
    const char *key = find_own(camera, name);
    return key ? value_of(key) : NULL;
}

static void remove_key(struct config_camera *camera, const char *name)
{
    const char *found = find_own(camera, name);
    if (!found)
        return;
    char *key = camera->settings + (found - camera->settings);
    const char *next = next_of(key);
    camera->n_bytes -= (uint32_t)(next - key);
    memmove(key, next, (size_t)(camera->settings + camera->n_bytes - key));
}

static int put(struct config_camera *camera, const char *name, const char *value,
               const char *origin)
{
    const char *const texts[] = {name, value, origin};
    struct config_camera changed = *camera;
    remove_key(&changed, name);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const size_t n = strlen(texts[i]) + 1;
        if (n > sizeof changed.settings - changed.n_bytes)
            return -ENOSPC;
        memcpy(changed.settings + changed.n_bytes, texts[i], n);
        changed.n_bytes += (uint32_t)n;
    }
    *camera = changed;
    return 0;
}

// --- All cameras

static bool begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_plain(const char *name)
{
    size_t n = strlen(name);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-')
            return false;
    return n > 0 && n < CONFIG_CAMERA_NAME_BYTES && name[0] != '-';
}

static int find(const struct config *config, const char *name)
{
    for (uint32_t i = 0; i < config->n_cameras; i++)
        if (strcmp(config->cameras[i].name, name) == 0)
            return (int)i;
    return -ENOENT;
}

int cameras_add(struct config *config, const char *name, const char *origin, char *out_error,
                size_t error_bytes)
{
    if (!is_plain(name)) {
        snprintf(
            out_error, error_bytes,
            "[camera %.40s]: a name of 1 to %d of A-Z a-z 0-9 _ - is wanted, without a dash in "
            "front",
            name, CONFIG_CAMERA_NAME_BYTES - 1);
        return -EINVAL;
    }
    for (uint32_t i = 0; i < config->n_cameras; i++) {
        const struct config_camera *other = &config->cameras[i];
        if (strcmp(other->name, name) == 0) {
            snprintf(out_error, error_bytes, "[camera %s] is there already: %s", name,
                     other->origin);
            return -EEXIST;
        }
        if (begins_with(other->name, name) || begins_with(name, other->name)) {
            snprintf(out_error, error_bytes,
                     "[camera %s] and [camera %s] (%s): one name is the beginning of the other, so "
                     "that a subscriber to one camera would be sent both",
                     name, other->name, other->origin);
            return -EEXIST;
        }
    }
    if (strcmp(name, CAMERAS_RIG) == 0) {
        snprintf(
            out_error, error_bytes,
            "[camera %s]: so the pose of all cameras together is called: another name is wanted",
            name);
        return -EEXIST;
    }
    if (config->n_cameras == CONFIG_MAX_CAMERAS) {
        snprintf(out_error, error_bytes, "[camera %s]: more than %d cameras", name,
                 CONFIG_MAX_CAMERAS);
        return -ENOSPC;
    }
    struct config_camera *camera = &config->cameras[config->n_cameras];
    *camera = (struct config_camera){.n_bytes = 0};
    snprintf(camera->name, sizeof camera->name, "%s", name);
    snprintf(camera->origin, sizeof camera->origin, "%s", origin);
    return (int)config->n_cameras++;
}

// "camera NAME.KEY". Returns KEY.
static const char *split_name(const char *name, char out_camera[64])
{
    const char *from = name + strlen(SECTION), *dot = strrchr(from, '.');
    snprintf(out_camera, 64, "%.*s", dot ? (int)(dot - from) : (int)strlen(from), from);
    return dot ? dot + 1 : "";
}

const char *cameras_origin(const struct config *config, const char *name)
{
    char camera[64];
    const char *key = split_name(name, camera);
    const int index = find(config, camera);
    const char *own = index < 0 ? NULL : find_own(&config->cameras[index], key);
    return own ? origin_of(own) : NULL;
}

// `name` is "camera CAMERA.KEY".
static void explain_unknown(const char *name, const char *camera, const char *key, char *out_error,
                            size_t error_bytes)
{
    const char *meant = NULL;
    char did_you_mean[160] = "";
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < config_n_keys(); i++)
        if (find_key(config_keys[i].name) == i &&
            closest_is_better(key, strlen(key), config_keys[i].name, &best))
            meant = config_keys[i].name;
    if (meant)
        snprintf(did_you_mean, sizeof did_you_mean, ", did you mean camera %s.%s?", camera, meant);
    snprintf(out_error, error_bytes,
             "%.60s: a camera's own keys are those of [capture], [camera] and [gpu]%s", name,
             did_you_mean);
}

int cameras_set(struct config *config, const char *name, const char *value, const char *origin,
                char *out_error, size_t error_bytes)
{
    char camera[64], reason[200];
    union { // room for any key's
        char text[CONFIG_TEXT_MAX];
        double number;
    } field;
    const char *key = split_name(name, camera);
    size_t k = find_key(key);
    if (k == config_n_keys()) {
        explain_unknown(name, camera, key, out_error, error_bytes);
        return -ENOENT;
    }
    int error = config_set_field(&config_keys[k], value, &field, reason, sizeof reason);
    if (error) {
        snprintf(out_error, error_bytes, "%.60s: %s", name, reason);
        return error;
    }
    int index = find(config, camera);
    if (index < 0)
        index = cameras_add(config, camera, origin, out_error, error_bytes);
    if (index < 0)
        return index;
    if (put(&config->cameras[index], key, value, origin) != 0) {
        snprintf(out_error, error_bytes, "%.60s: the settings of a camera have %d bytes at most",
                 name, CONFIG_CAMERA_BYTES);
        return -ERANGE;
    }
    return 0;
}

static bool has_place(const struct config_camera *camera)
{
    const char *rig = get(camera, "rig");
    return rig && rig[0];
}

bool cameras_have_rig(const struct config *config)
{
    for (uint32_t i = 0; i < config->n_cameras; i++)
        if (has_place(&config->cameras[i]))
            return true;
    return false;
}

// In frames (set_frame) and file names (insert_name).
static bool has_room_for_name(const struct config *config, const char *name)
{
    const size_t n = strlen(name) + 1;
    return n + strlen(config->publish.odom_frame) < sizeof config->publish.odom_frame &&
           n + strlen(config->publish.camera_frame) < sizeof config->publish.camera_frame &&
           n + strlen(config->trajectory) < CONFIG_TEXT_MAX &&
           n + strlen(config->map_output) < CONFIG_TEXT_MAX;
}

int cameras_check(const struct config *config, const struct log_sink *log)
{
    const char *source_origin = config->origin[config_find_key("capture.source")];
    int error = 0;
    for (uint32_t i = 0; i < config->n_cameras; i++) {
        const struct config_camera *camera = &config->cameras[i];
        const char *source = get(camera, "source");
        if (!has_room_for_name(config, camera->name)) {
            log_to(log, LOG_LEVEL_ERROR,
                   "%s: [camera %s]: with the name in front publish.odom_frame or camera_frame has "
                   "more than 31 bytes, or with it behind output.trajectory or output.map more "
                   "than %d",
                   camera->origin, camera->name, CONFIG_TEXT_MAX - 1);
            error = -EINVAL;
        }
        if (source && source[0])
            continue;
        log_to(log, LOG_LEVEL_ERROR, "%s: [camera %s] has no source", camera->origin, camera->name);
        error = -EINVAL;
    }
    if (config->n_cameras && strcmp(source_origin, CONFIG_BUILT_IN) != 0) {
        log_to(log, LOG_LEVEL_ERROR,
               "%s: capture.source beside [camera %s] (%s): each camera has its own source, and "
               "there is none besides",
               source_origin, config->cameras[0].name, config->cameras[0].origin);
        error = -EINVAL;
    }
    if (config->camera_rig[0]) {
        log_to(log, LOG_LEVEL_ERROR, "%s: camera.rig stands in [camera NAME]",
               config->origin[config_find_key("camera.rig")]);
        error = -EINVAL;
    }
    for (uint32_t i = 0; i < config->n_cameras && cameras_have_rig(config); i++) {
        const struct config_camera *camera = &config->cameras[i];
        if (has_place(camera) == (i > 0))
            continue;
        log_to(
            log, LOG_LEVEL_ERROR,
            i ? "%s: [camera %s] has no rig: each camera but the first says where it sits"
              : "%s: [camera %s] is the first, whose place the others' are beside: it has no rig",
            camera->origin, camera->name);
        error = -EINVAL;
    }
    return error;
}

// "run.txt" -> "run-NAME.txt".
static void insert_name(char path[CONFIG_TEXT_MAX], const char *name)
{
    char whole[2 * CONFIG_TEXT_MAX];
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t n = dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
    if (!path[0])
        return;
    snprintf(whole, sizeof whole, "%.*s-%s%s", (int)n, path, name, path + n);
    snprintf(path, CONFIG_TEXT_MAX, "%.*s", CONFIG_TEXT_MAX - 1, whole);
}

static void set_frame(char frame[32], const char *name)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s/%s", name, frame);
    snprintf(frame, 32, "%.31s", whole);
}

// Of a rig: the field that posectl rig calibrate has written beside the camera's place, of the
// first camera beside any other's. Where a field is set, or set to none, that holds.
static void find_field(const struct config *config, uint32_t index, struct config *out)
{
    char path[CONFIG_TEXT_MAX];
    if (out->camera_field[0] || get(&config->cameras[index], "field"))
        return;
    for (uint32_t i = index ? index : 1; i < config->n_cameras; i++) {
        const struct config_camera *placed = &config->cameras[i];
        if (!has_place(placed) || (index && i > index))
            return;
        int n = snprintf(path, sizeof path, "%s%s", get(placed, "rig"),
                         index ? CAMERAS_FIELD_B : CAMERAS_FIELD_A);
        if (n < (int)sizeof path && access(path, F_OK) == 0) {
            memcpy(out->camera_field, path, sizeof path);
            return;
        }
    }
}

void cameras_config(const struct config *config, uint32_t index, struct config *out)
{
    *out = *config;
    if (config->n_cameras == 0)
        return;
    const struct config_camera *camera = &config->cameras[index];
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN), n = (long)config->n_cameras;
    char ignored[200];
    for (const char *key = camera->settings; key < end_of(camera); key = next_of(key)) {
        size_t k = find_key(key); // there, and of its range: cameras_set has seen to it
        if (config_set_field(&config_keys[k], value_of(key), (char *)out + config_keys[k].offset,
                             ignored, sizeof ignored) != 0)
            return;
        snprintf(out->origin[k], sizeof out->origin[k], "%s", origin_of(key));
    }
    if (out->gpu.n_threads == 0)
        out->gpu.n_threads = n_cores > n ? (uint32_t)((n_cores + n - 1) / n) : 1;
    // Of many cameras' frames some come at the same moment: four side by side wait less. Measured
    // with 16 (tools/bench/cameras.py); fewer have the whole device in turns.
    out->gpu.n_sharing = n < 16 ? 1 : 4;
    find_field(config, index, out);
    set_frame(out->publish.odom_frame, camera->name);
    set_frame(out->publish.camera_frame, camera->name);
    insert_name(out->trajectory, camera->name);
    insert_name(out->map_output, camera->name);
}

void cameras_explain_field(const struct config *own, const struct log_sink *log)
{
    const int n = (int)strlen(own->camera_field) - (int)strlen(CAMERAS_FIELD_A);
    const bool is_set = strcmp(own->origin[config_find_key("camera.field")], CONFIG_BUILT_IN) != 0;
    if (!is_set && n > 0)
        log_to(log, LOG_LEVEL_ERROR,
               "%s is taken because it lies beside %.*s (rig = %.*s): \"field =\" in the camera's "
               "section turns it off, \"field = FILE\" takes another",
               own->camera_field, n, own->camera_field, n, own->camera_field);
}

void cameras_rig_config(const struct config *config, struct config *out)
{
    *out = *config;
    set_frame(out->publish.odom_frame, CAMERAS_RIG);
    insert_name(out->trajectory, CAMERAS_RIG);
}

bool cameras_are_same(const struct config *a, const struct config *b)
{
    bool same = a->n_cameras == b->n_cameras;
    for (uint32_t i = 0; same && i < a->n_cameras; i++) {
        const struct config_camera *x = &a->cameras[i], *y = &b->cameras[i];
        const char *key = x->settings, *other = y->settings;
        same = strcmp(x->name, y->name) == 0;
        for (; same && key < end_of(x) && other < end_of(y);
             key = next_of(key), other = next_of(other))
            same = strcmp(key, other) == 0 && strcmp(value_of(key), value_of(other)) == 0;
        same = same && key == end_of(x) && other == end_of(y);
    }
    return same;
}

void cameras_dump(const struct config *config, FILE *file)
{
    for (uint32_t i = 0; i < config->n_cameras; i++) {
        const struct config_camera *camera = &config->cameras[i];
        fprintf(file, "\n[camera %s]\n", camera->name);
        for (const char *key = camera->settings; key < end_of(camera); key = next_of(key))
            fprintf(file, "%s =%s%s\n", key, value_of(key)[0] ? " " : "", value_of(key));
    }
}
