// SPDX-License-Identifier: Apache-2.0
// Where settings come from: files, conf.d, the environment, the command line. config_keys.c knows
// the keys. libinih splits the lines; this file counts them (the library's handler does not get the
// number) and refuses lines that do not fit its buffer.
#include "daemon/config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#define FILE_MAX_BYTES (1 << 20)

struct parser {
    struct config *config;
    const char *text, *end, *name;
    unsigned line;
    bool too_long;
    char error[300]; // of the first wrong line, empty = none
};

// inih's fgets over memory.
static char *next_line(char *out, int size_bytes, void *stream)
{
    struct parser *parser = stream;
    if (parser->text >= parser->end || parser->error[0])
        return NULL;
    const char *newline = memchr(parser->text, '\n', (size_t)(parser->end - parser->text));
    size_t n = (size_t)((newline ? newline + 1 : parser->end) - parser->text);
    parser->line++;
    const char *zero = memchr(parser->text, 0, n);
    if (n >= (size_t)size_bytes || zero) {
        snprintf(parser->error, sizeof parser->error,
                 zero ? "a zero byte in the line" : "the line is longer than %d bytes",
                 size_bytes - 2);
        return NULL;
    }
    memcpy(out, parser->text, n);
    out[n] = 0;
    parser->text += n;
    return out;
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
    struct parser *parser = user;
    char full[160], origin[CONFIG_ORIGIN_MAX];
    if (parser->error[0])
        return 0;
    snprintf(full, sizeof full, "%s.%s", section, name);
    snprintf(origin, sizeof origin, "%.100s:%u", parser->name, parser->line);
    return config_set(parser->config, full, value ? value : "", origin, parser->error,
                      sizeof parser->error) == 0;
}

int config_parse(struct config *config, const char *text, size_t n_bytes, const char *name,
                 const struct log_sink *log)
{
    struct parser parser = {.config = config, .text = text, .end = text + n_bytes, .name = name};
    int line = ini_parse_stream(next_line, &parser, on_key, &parser);
    if (line == 0 && !parser.error[0])
        return 0;
    // The library's first wrong line; when it is none of ours, the syntax is wrong there.
    if (line > 0 && (!parser.error[0] || (unsigned)line < parser.line)) {
        parser.line = (unsigned)line;
        snprintf(parser.error, sizeof parser.error, "neither [section], key = value nor a comment");
    }
    log_to(log, LOG_LEVEL_ERROR, "%s:%u: %s", name, parser.line,
           parser.error[0] ? parser.error : "out of memory");
    return -EINVAL;
}

static int read_file(struct config *config, const char *path, const struct log_sink *log)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
        return errno == ENOENT ? -ENOENT : -EIO;
    }
    int error = -EIO;
    char *text = malloc(FILE_MAX_BYTES);
    if (!text)
        goto close_file;
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
    if (n < 0)
        return 0;
    int error = 0;
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (!error)
            error = read_file(config, path, log);
        free(entries[i]);
    }
    free(entries);
    return error;
}

static int read_environment(struct config *config, const struct log_sink *log)
{
    int result = 0;
    for (size_t i = 0; i < config_n_keys(); i++) {
        char variable[128], name[96], error[300];
        config_key_name(i, name, sizeof name);
        snprintf(variable, sizeof variable, "POSED_%s", name);
        for (char *c = variable; *c; c++)
            *c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
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

int config_load(struct config *out, const char *file, const struct config_assignment *assignments,
                size_t n_assignments, const struct log_sink *log)
{
    config_default(out);
    FILE *probe = file ? NULL : fopen(CONFIG_FILE, "re");
    if (probe) {
        fclose(probe);
        file = CONFIG_FILE;
    }
    int error = 0;
    if (file) {
        error = read_file(out, file, log);
        if (!error)
            error = read_conf_d(out, file, log);
    }
    if (!error)
        error = read_environment(out, log);
    for (size_t i = 0; i < n_assignments && !error; i++) {
        char reason[300];
        if (config_set(out, assignments[i].name, assignments[i].value, assignments[i].origin,
                       reason, sizeof reason) != 0) {
            log_to(log, LOG_LEVEL_ERROR, "%s: %s", assignments[i].origin, reason);
            error = -EINVAL;
        }
    }
    if (!error && !(out->gpu.depth_min_m < out->gpu.depth_max_m)) {
        log_to(log, LOG_LEVEL_ERROR, "gpu.depth_min_m must be less than gpu.depth_max_m");
        error = -EINVAL;
    }
    return error;
}
