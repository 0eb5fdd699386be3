// SPDX-License-Identifier: Apache-2.0
// Where settings come from: files, conf.d, the environment, the command line. settings_table.c
// knows the keys. libinih splits the lines; this file counts them (the library's handler does not
// get the number) and refuses lines that do not fit its buffer.
#include "daemon/config/config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ini.h>

#include "capture/ros/domain.h"
#include "daemon/config/cameras.h"
#include "daemon/config/origins.h"
#include "daemon/config/settings_table.h"
#include "gpu/model/pose_graph.h"
#include "proto/closest.h"

#define FILE_MAX_BYTES (1 << 20)

struct parser {
    struct config *config;
    const struct log_sink *log;
    const char *text, *end, *name;
    unsigned line, first_wrong; // 0 = none
    char section[64];           // "" = none yet
    bool skips;                 // the keys of a section whose head is wrong
};

static void complain(struct parser *parser, const char *reason)
{
    log_to(parser->log, LOG_LEVEL_ERROR, "%s:%u: %s", parser->name, parser->line, reason);
    if (!parser->first_wrong)
        parser->first_wrong = parser->line;
}

static void origin_here(const struct parser *parser, char out[CONFIG_ORIGIN_MAX])
{
    snprintf(out, CONFIG_ORIGIN_MAX, "%.100s:%u", parser->name, parser->line);
}

// Returns the reason why there is no section of that name, in `out`, or NULL.
static const char *explain_section(const char *name, char *out, size_t size_bytes)
{
    const char *meant = NULL, *behind = "";
    const size_t n_word = strcspn(name, " \t");
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < config_n_keys(); i++) {
        if (strcmp(config_keys[i].section, name) == 0)
            return NULL;
        if (closest_is_better(name, n_word, config_keys[i].section, &best))
            meant = config_keys[i].section;
    }
    if (meant && name[n_word] && strcmp(meant, "camera") == 0)
        behind = name + n_word; // of a camera's section the first word alone is wrong
    else if (strncmp(name, "camera", strlen("camera")) == 0)
        meant = "camera] or [camera NAME";
    snprintf(out, size_bytes, "unknown section [%s]%s%s%s%s (posed --dump-config lists them)", name,
             meant ? ", did you mean [" : "", meant ? meant : "", behind, meant ? "]?" : "");
    return out;
}

// The head of a section, which inih tells nobody of. Where it is wrong, so would its keys be.
static void begin_section(struct parser *parser, const char *line)
{
    static const char camera[] = "camera";
    char origin[CONFIG_ORIGIN_MAX], error[300];
    const char *end = strchr(line, ']'), *from = line + 1 + strspn(line + 1, " \t"), *wrong = NULL;
    parser->skips = true;
    if (!end)
        return; // inih says so
    const char *behind = end + 1 + strspn(end + 1, " \t\r\n");
    const bool is_camera =
        strncmp(from, camera, strlen(camera)) == 0 && isspace((unsigned char)from[strlen(camera)]);
    if (is_camera)
        from += strlen(camera) + strspn(from + strlen(camera), " \t");
    while (end > from && isspace((unsigned char)end[-1]))
        end--;
    snprintf(parser->section, sizeof parser->section, "%s%.*s", is_camera ? "camera " : "",
             (int)(end - from), from);
    origin_here(parser, origin);
    if (*behind && *behind != ';' && *behind != '#') {
        snprintf(error, sizeof error, "nothing but a comment may stand behind [%s]",
                 parser->section);
        wrong = error;
    } else if (!is_camera) {
        wrong = explain_section(parser->section, error, sizeof error);
    } else if (cameras_add(parser->config, parser->section + strlen("camera "), origin, error,
                           sizeof error) < 0) {
        wrong = error;
    }
    parser->skips = wrong != NULL;
    if (wrong)
        complain(parser, wrong);
}

// inih's fgets over memory. Lines come without what they are indented by: inih would take such a
// line as more of the value before it.
static char *next_line(char *out, int size_bytes, void *stream)
{
    struct parser *parser = stream;
    if (parser->text >= parser->end)
        return NULL;
    const char *newline = memchr(parser->text, '\n', (size_t)(parser->end - parser->text));
    const char *end = newline ? newline + 1 : parser->end;
    while (parser->text < end - 1 && (*parser->text == ' ' || *parser->text == '\t'))
        parser->text++;
    size_t n = (size_t)(end - parser->text);
    parser->line++;
    const char *zero = memchr(parser->text, 0, n);
    if (n >= (size_t)size_bytes || zero) {
        char reason[64];
        snprintf(reason, sizeof reason,
                 zero ? "a zero byte in the line: text in UTF-8 is wanted"
                      : "the line is longer than %d bytes",
                 size_bytes - 2);
        complain(parser, reason);
        return NULL;
    }
    memcpy(out, parser->text, n);
    out[n] = 0;
    parser->text = end;
    if (out[0] == '[')
        begin_section(parser, out);
    return out;
}

// What other formats have and this has not: it is part of the value.
static void warn_of_habits(const struct parser *parser, const char *value)
{
    const size_t n = strlen(value);
    const char *habit = NULL;
    if (strstr(value, "~/") || strchr(value, '$'))
        habit = "~ and $ stand for themselves";
    else if (strstr(value, " #"))
        habit = "a comment behind a value begins with ;";
    else if (n > 1 && (value[0] == '"' || value[0] == '\'') && value[n - 1] == value[0])
        habit = "values stand without quotes";
    if (habit)
        log_to(parser->log, LOG_LEVEL_WARNING, "%s:%u: the value is %s: %s", parser->name,
               parser->line, value, habit);
}

// The last one holds; that it is said twice is a slip as a rule.
static void warn_of_second(const struct parser *parser, const char *key, const char *first)
{
    char file[CONFIG_ORIGIN_MAX];
    snprintf(file, sizeof file, "%.100s:", parser->name);
    if (strncmp(first, file, strlen(file)) == 0)
        log_to(parser->log, LOG_LEVEL_WARNING,
               "%s:%u: %s is set a second time, and this one holds, not that of %s", parser->name,
               parser->line, key, first);
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
    struct parser *parser = user;
    (void)section; // begin_section has read it
    if (parser->skips)
        return 1;
    char full[160], origin[CONFIG_ORIGIN_MAX], first[CONFIG_ORIGIN_MAX] = "", error[300];
    snprintf(full, sizeof full, "%s.%s", parser->section, name);
    origin_here(parser, origin);
    const char *before = config_origin(parser->config, full);
    snprintf(first, sizeof first, "%s", before ? before : "");
    warn_of_habits(parser, value ? value : "");
    if (parser->section[0] &&
        config_set(parser->config, full, value ? value : "", origin, error, sizeof error) == 0) {
        warn_of_second(parser, full, first);
        return 1;
    }
    if (!parser->section[0])
        snprintf(error, sizeof error, "%.100s stands before the first [section]", name);
    complain(parser, error);
    return 0;
}

int config_parse(struct config *config, const char *text, size_t n_bytes, const char *name,
                 const struct log_sink *log)
{
    static const char mark[] = "\xef\xbb\xbf"; // that editors put before UTF-8
    const size_t n_mark =
        n_bytes >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0 ? strlen(mark) : 0;
    struct parser parser = {
        .config = config, .log = log, .text = text + n_mark, .end = text + n_bytes, .name = name};
    int line = ini_parse_stream(next_line, &parser, on_key, &parser);
    if (line == 0 && !parser.first_wrong)
        return 0;
    // The library's first wrong line; when it is none of ours, the syntax is wrong there.
    if (line > 0 && (!parser.first_wrong || (unsigned)line < parser.first_wrong))
        log_to(log, LOG_LEVEL_ERROR, "%s:%d: neither [section], key = value nor a comment", name,
               line);
    if (line < 0)
        log_to(log, LOG_LEVEL_ERROR, "%s: out of memory", name);
    return -EINVAL;
}

static int read_file(struct config *config, const char *path, const struct log_sink *log)
{
    FILE *file = fopen(path, "re");
    int error = -errno;
    if (!file) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(-error));
        return error == -ENOENT ? -ENOENT : -EIO;
    }
    error = -EIO;
    char *text = malloc(FILE_MAX_BYTES);
    if (!text) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(ENOMEM));
        goto close_file;
    }
    size_t n = fread(text, 1, FILE_MAX_BYTES, file);
    if (ferror(file) || n == FILE_MAX_BYTES) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path,
               ferror(file) ? strerror(errno) : "larger than 1 MiB, no configuration file");
        goto free_text;
    }
    error = config_parse(config, text, n, path, log);
free_text:
    free(text);
close_file:
    fclose(file);
    return error;
}

static int is_conf(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return entry->d_name[0] != '.' && n > 5 && strcmp(entry->d_name + n - 5, ".conf") == 0;
}

// The folder conf.d beside `file`, in the order of the names. No folder is fine.
static int read_conf_d(struct config *config, const char *file, const struct log_sink *log)
{
    char folder[512], path[1024];
    const char *slash = strrchr(file, '/');
    snprintf(folder, sizeof folder, "%.*sconf.d", slash ? (int)(slash - file) + 1 : 0, file);
    struct dirent **entries;
    int n = scandir(folder, &entries, is_conf, alphasort);
    if (n < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return 0;
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", folder, strerror(errno));
        return -EIO;
    }
    int error = 0;
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        int status = read_file(config, path, log);
        error = error ? error : status;
        free(entries[i]);
    }
    free(entries);
    return error;
}

// POSED_SECTION_KEY. Returns the length of POSED_SECTION_.
static size_t variable_of(size_t key, char out[128])
{
    char name[96];
    config_key_name(key, name, sizeof name);
    snprintf(out, 128, "POSED_%s", name);
    const size_t n_section = strcspn(out, ".") + 1;
    for (char *c = out; *c; c++)
        *c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
    return n_section;
}

// A variable with a section's name that is no setting: mistyped. Others are other programs'.
static void warn_of_unknown(const char *entry, const struct log_sink *log)
{
    const size_t n = strcspn(entry, "=");
    char variable[128], meant[128] = "";
    size_t best = SIZE_MAX;
    bool has_section = false;
    for (size_t i = 0; i < config_n_keys(); i++) {
        const size_t n_section = variable_of(i, variable);
        if (strlen(variable) == n && memcmp(variable, entry, n) == 0)
            return;
        has_section = has_section || strncmp(variable, entry, n_section) == 0;
        if (closest_is_better(entry + 6, n - 6, variable + 6, &best))
            memcpy(meant, variable, sizeof meant);
    }
    if (has_section)
        log_to(log, LOG_LEVEL_WARNING, "environment %.*s: no setting, and ignored%s%s", (int)n,
               entry, *meant ? "; did you mean " : "", meant);
}

static int read_environment(struct config *config, const struct log_sink *log)
{
    int result = 0;
    for (char **entry = environ; *entry; entry++)
        if (strncmp(*entry, "POSED_", 6) == 0)
            warn_of_unknown(*entry, log);
    for (size_t i = 0; i < config_n_keys(); i++) {
        char variable[128], name[96], error[300];
        config_key_name(i, name, sizeof name);
        variable_of(i, variable);
        const char *value = getenv(variable);
        if (!value)
            continue;
        if (config_set(config, name, value, variable, error, sizeof error) != 0) {
            log_to(log, LOG_LEVEL_ERROR, "environment %s: %s", variable, error);
            result = -EINVAL;
        }
    }
    return result;
}

uint32_t config_ros_domain(const struct config *config, const char **out_origin)
{
    static const struct log_sink silent = {NULL, NULL}; // it was checked when it was read
    uint32_t domain = 0;
    *out_origin = NULL;
    if (config->ros.domain != ROS_DOMAIN_OF_ENVIRONMENT) {
        *out_origin = config_origin(config, "ros.domain");
        return (uint32_t)config->ros.domain;
    }
    return ros_domain_of_environment(&domain, out_origin, &silent) == 0 ? domain : 0;
}

static bool uses_ros(const struct config *config)
{
    struct config laid;
    bool uses = config->ros.publish;
    for (uint32_t i = 0; i < (config->n_cameras ? config->n_cameras : 1) && !uses; i++) {
        cameras_config(config, i, &laid);
        uses = strncmp(laid.source, "ros2:", strlen("ros2:")) == 0;
    }
    return uses;
}

// ROS users set their domain in the environment, once for all programs. posed's own setting counts
// more, which is a surprise to who has forgotten it.
static int check_ros_domain(const struct config *config, const struct log_sink *log)
{
    static const struct log_sink silent = {NULL, NULL};
    const bool is_set = config->ros.domain != ROS_DOMAIN_OF_ENVIRONMENT;
    const char *origin = NULL;
    uint32_t domain;
    const int error = ros_domain_of_environment(&domain, &origin, is_set ? &silent : log);
    if (!is_set)
        return error;
    if (!error && origin && domain != (uint32_t)config->ros.domain && uses_ros(config))
        log_to(log, LOG_LEVEL_WARNING,
               "ros.domain = %d (%s) counts, not " ROS_DOMAIN_VARIABLE
               "=%u of the environment: with ros.domain = %d that does",
               config->ros.domain, config_origin(config, "ros.domain"), domain,
               ROS_DOMAIN_OF_ENVIRONMENT);
    return 0;
}

// What no key can say alone, by the rules of the libraries that take the settings; of one camera
// where `camera` is its name.
static int check_together(const struct config *config, const char *camera,
                          const struct log_sink *log)
{
    struct origins origins = {config, camera, *log};
    const struct log_sink sink = origins_log(&origins);
    struct capture_settings capture = config->capture;
    struct gpu_settings gpu = config->gpu;
    struct graph_settings graph;
    capture.log = gpu.log = sink;
    graph_settings_default(&graph);
    graph.max_keyframes = config->map_keyframes;
    bool good = capture_settings_check(&capture) == 0;
    good = gpu_settings_check(&gpu) == 0 && good;
    good = track_settings_check(&config->track, &sink) == 0 && good;
    good = model_settings_check(&config->map, &sink) == 0 && good;
    if (config->map_keyframes > 0)
        good = graph_settings_check(&graph, &sink) == 0 && good;
    return good ? 0 : -EINVAL;
}

static int check_cameras(const struct config *config, const struct log_sink *log)
{
    struct config laid;
    int error = cameras_check(config, log);
    for (uint32_t i = 0; i < config->n_cameras; i++) {
        cameras_config(config, i, &laid);
        if (check_together(&laid, config->cameras[i].name, log) != 0)
            error = -EINVAL;
    }
    return error;
}

int config_load(struct config *out, const char *file, const struct config_assignment *assignments,
                size_t n_assignments, const struct log_sink *log)
{
    config_default(out);
    // One that cannot be read is an error: without its keys the sockets would be open to others.
    if (!file && (access(CONFIG_FILE, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)))
        file = CONFIG_FILE;
    snprintf(out->file, sizeof out->file, "%s", file ? file : "");
    // A mistake does not hide the ones after it.
    int error = file ? read_file(out, file, log) : 0;
    int status = file && error != -ENOENT ? read_conf_d(out, file, log) : 0;
    error = error ? error : status;
    status = read_environment(out, log);
    error = error ? error : status;
    for (size_t i = 0; i < n_assignments; i++) {
        char reason[300];
        if (config_set(out, assignments[i].name, assignments[i].value, assignments[i].origin,
                       reason, sizeof reason) != 0) {
            log_to(log, LOG_LEVEL_ERROR, "%s: %s", assignments[i].origin, reason);
            error = error ? error : -EINVAL;
        }
    }
    status = check_ros_domain(out, log);
    error = error ? error : status;
    if (!error)
        error = check_together(out, NULL, log);
    return error ? error : check_cameras(out, log);
}

bool config_keeps_map(const struct config *config)
{
    return config->map_folder[0] || config->map_output[0] ||
           config->track.reference == TRACK_REFERENCE_MODEL;
}
