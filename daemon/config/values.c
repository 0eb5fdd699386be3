// SPDX-License-Identifier: Apache-2.0
// Values of keys: from text and back, from one set of settings to another, all of them in a file.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config/cameras.h"
#include "daemon/config/settings_table.h"
#include "proto/closest.h"
#include "proto/wire.h"

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

// The shortest text that reads back as the same number; 500 rather than 5e+02.
static void print_number(double number, bool is_float, char *out, size_t size_bytes)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, size_bytes, "%.*g", digits, number);
        double back = strtod(out, NULL);
        bool is_odd = strchr(out, 'e') && fabs(number) >= 1e-4 && fabs(number) < 1e16;
        if (!is_odd && (is_float ? (float)back == (float)number : back == number))
            return;
    }
}

static bool is_in_range(const struct config_key *key, double number)
{
    const double size = key->type == CONFIG_SIGNED ? fabs(number) : number;
    return (number == 0 && key->names) || (size >= key->min && size <= key->max);
}

// "0 .. 100"; of each sign, "1 .. 100 or -100 .. -1".
static void print_range(const struct config_key *key, char *out, size_t size_bytes)
{
    char min[32], max[32];
    print_number(key->min, false, min, sizeof min);
    print_number(key->max, false, max, sizeof max);
    int n = snprintf(out, size_bytes, "%s .. %s", min, max);
    if (key->type == CONFIG_SIGNED)
        snprintf(out + n, size_bytes - (size_t)n, " or -%s .. -%s", max, min);
}

static int set_number(const struct config_key *key, const char *value, void *field, char *out_error,
                      size_t error_bytes)
{
    double number;
    bool whole = key->type == CONFIG_UINT || key->type == CONFIG_UINT64 || key->type == CONFIG_INT;
    if (!parse_number(value, &number) || (whole && number != floor(number))) {
        char *end;
        const bool is_begun = isfinite(strtod(value, &end)) && end != value && *end;
        snprintf(out_error, error_bytes, "\"%s\" is not a %s%s", value,
                 whole ? "whole number" : "number",
                 is_begun ? ": nothing follows it, no unit either; decimals have a point" : "");
        return -EINVAL;
    }
    if (!is_in_range(key, number)) {
        char range[128];
        print_range(key, range, sizeof range);
        if (key->names)
            snprintf(out_error, error_bytes, "%s is neither 0 (%s) nor in %s", value, key->names[0],
                     range);
        else
            snprintf(out_error, error_bytes, "%s is outside %s", value, range);
        return -ERANGE;
    }
    if (key->type == CONFIG_UINT)
        *(uint32_t *)field = (uint32_t)number;
    else if (key->type == CONFIG_UINT64)
        *(uint64_t *)field = (uint64_t)number;
    else if (key->type == CONFIG_INT)
        *(int *)field = (int)number;
    else if (key->type == CONFIG_FLOAT)
        *(float *)field = (float)number;
    else
        *(double *)field = number;
    return 0;
}

static int set_levels(const struct config_key *key, const char *value, uint32_t *field,
                      char *out_error, size_t error_bytes)
{
    uint32_t levels[GPU_LEVELS];
    const char *s = value;
    for (int i = 0; i < GPU_LEVELS; i++) {
        char *end;
        s += strspn(s, " \t");
        bool is_number = isdigit((unsigned char)*s);
        unsigned long n = is_number ? strtoul(s, &end, 10) : 0;
        if (!is_number || *(end += strspn(end, " \t")) != (i + 1 < GPU_LEVELS ? ',' : 0)) {
            snprintf(out_error, error_bytes,
                     "\"%s\" is not %d whole numbers with commas between, one a level from "
                     "fine to coarse, e.g. 10,5,4",
                     value, GPU_LEVELS);
            return -EINVAL;
        }
        if ((double)n > key->max) {
            snprintf(out_error, error_bytes, "%lu is outside 0 .. %g", n, key->max);
            return -ERANGE;
        }
        levels[i] = (uint32_t)n;
        s = end + 1;
    }
    memcpy(field, levels, sizeof levels);
    return 0;
}

static int set_enum(const struct config_key *key, const char *value, void *field, char *out_error,
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

// A path may be anything. A name stands in messages, whose strings are UTF-8: of another one a
// client's library takes none of the message.
static int set_text(const struct config_key *key, const char *value, void *field, char *out_error,
                    size_t error_bytes)
{
    const bool is_name = key->type == CONFIG_NAME;
    const size_t n_text =
        is_name ? sizeof((struct config *)0)->publish.odom_frame : CONFIG_TEXT_MAX;
    const char *wrong = is_name ? wire_not_text(value) : NULL;
    if (strlen(value) >= n_text) {
        snprintf(out_error, error_bytes, "longer than %zu bytes", n_text - 1);
        return -ERANGE;
    }
    if (wrong) {
        const unsigned char byte = (unsigned char)*wrong;
        snprintf(out_error, error_bytes,
                 "its byte %zu (0x%02x) is %s: names stand in messages, which take no other",
                 (size_t)(wrong - value) + 1, byte,
                 byte < 0x80 ? "a control character, no part of a name"
                             : "no part of a text in UTF-8");
        return -EINVAL;
    }
    snprintf(field, n_text, "%s", value);
    return 0;
}

int config_set_field(const struct config_key *key, const char *value, void *field, char *out_error,
                     size_t error_bytes)
{
    double speed;
    char range[128];
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_NAME:
        return set_text(key, value, field, out_error, error_bytes);
    case CONFIG_BOOL:
        if (parse_bool(value, field))
            return 0;
        snprintf(out_error, error_bytes, "\"%s\" is neither true nor false", value);
        return -EINVAL;
    case CONFIG_ENUM:
        return set_enum(key, value, field, out_error, error_bytes);
    case CONFIG_LEVELS:
        return set_levels(key, value, field, out_error, error_bytes);
    case CONFIG_SPEED:
        if (strcmp(value, "real") == 0 || strcmp(value, "max") == 0) {
            *(double *)field = value[0] == 'r' ? CAPTURE_RATE_REAL : CAPTURE_RATE_MAX;
            return 0;
        }
        if (set_number(key, value, &speed, out_error, error_bytes) == 0) {
            *(double *)field = speed;
            return 0;
        }
        print_range(key, range, sizeof range);
        snprintf(out_error, error_bytes, "\"%s\" is neither real, max nor a number in %s", value,
                 range);
        return -EINVAL;
    default:
        return set_number(key, value, field, out_error, error_bytes);
    }
}

static void explain_unknown(const char *name, char *out_error, size_t error_bytes)
{
    char candidate[64], meant[64] = "";
    size_t best = SIZE_MAX;
    for (size_t k = 0; k < config_n_keys(); k++) {
        config_key_name(k, candidate, sizeof candidate);
        if (closest_is_better(name, strlen(name), candidate, &best))
            memcpy(meant, candidate, sizeof meant);
    }
    if (strncmp(name, "camera.", 7) == 0 && strchr(name + 7, '.'))
        snprintf(out_error, error_bytes,
                 "unknown key \"%s\"; one of a camera's own is written \"camera NAME.KEY\"", name);
    else
        snprintf(out_error, error_bytes, "unknown key \"%s\"%s%s (posed --dump-config lists them)",
                 name, *meant ? ", did you mean " : "", *meant ? meant : "");
}

int config_set(struct config *config, const char *name, const char *value, const char *origin,
               char *out_error, size_t error_bytes)
{
    if (cameras_owns(name))
        return cameras_set(config, name, value, origin, out_error, error_bytes);
    size_t i = config_find_key(name);
    if (i == config_n_keys()) {
        explain_unknown(name, out_error, error_bytes);
        return -ENOENT;
    }
    char reason[200];
    int error = config_set_field(&config_keys[i], value, (char *)config + config_keys[i].offset,
                                 reason, sizeof reason);
    if (error) {
        snprintf(out_error, error_bytes, "%s: %s", name, reason);
        return error;
    }
    snprintf(config->origin[i], sizeof config->origin[i], "%s", origin);
    return 0;
}

const char *config_origin(const struct config *config, const char *name)
{
    if (cameras_owns(name))
        return cameras_origin(config, name);
    const size_t i = config_find_key(name);
    const bool is_set = i < config_n_keys() && strcmp(config->origin[i], CONFIG_BUILT_IN) != 0;
    return is_set ? config->origin[i] : NULL;
}

static size_t key_size(const struct config_key *key)
{
    switch (key->type) {
    case CONFIG_TEXT:
        return CONFIG_TEXT_MAX;
    case CONFIG_NAME:
        return sizeof((struct config *)0)->publish.odom_frame;
    case CONFIG_BOOL:
        return sizeof(bool);
    case CONFIG_UINT64:
    case CONFIG_DOUBLE:
    case CONFIG_SIGNED:
    case CONFIG_SPEED:
        return sizeof(double);
    case CONFIG_LEVELS:
        return GPU_LEVELS * sizeof(uint32_t);
    default:
        return sizeof(uint32_t);
    }
}

static const char *or_empty(const char *value)
{
    return value[0] ? value : "nothing";
}

unsigned config_reload(struct config *config, const struct config *fresh,
                       const struct log_sink *log)
{
    unsigned n_taken = 0;
    for (size_t i = 0; i < config_n_keys(); i++) {
        char *to = (char *)config + config_keys[i].offset, name[96], before[CONFIG_TEXT_MAX],
             after[CONFIG_TEXT_MAX];
        config_key_name(i, name, sizeof name);
        config_key_value(config, i, before, sizeof before);
        config_key_value(fresh, i, after, sizeof after);
        if (strcmp(before, after) == 0)
            continue;
        if (!config_keys[i].live) {
            log_to(log, LOG_LEVEL_WARNING, "%s = %s (%s) needs a restart; %s (%s) stays in force",
                   name, or_empty(after), fresh->origin[i], or_empty(before), config->origin[i]);
            continue;
        }
        memcpy(to, (const char *)fresh + config_keys[i].offset, key_size(&config_keys[i]));
        memcpy(config->origin[i], fresh->origin[i], sizeof config->origin[i]);
        log_to(log, LOG_LEVEL_NOTICE, "%s = %s (was %s)", name, after, before);
        n_taken++;
    }
    if (!cameras_are_same(config, fresh))
        log_to(log, LOG_LEVEL_WARNING,
               "the [camera NAME] sections need a restart; the old ones stay in force");
    return n_taken;
}

void config_key_value(const struct config *config, size_t index, char *out, size_t size_bytes)
{
    const struct config_key *key = &config_keys[index];
    const void *field = (const char *)config + key->offset;
    const uint32_t *levels = field;
    switch (key->type) {
    case CONFIG_TEXT:
    case CONFIG_NAME:
        snprintf(out, size_bytes, "%s", (const char *)field);
        return;
    case CONFIG_BOOL:
        snprintf(out, size_bytes, "%s", *(const bool *)field ? "true" : "false");
        return;
    case CONFIG_UINT:
        snprintf(out, size_bytes, "%u", *(const uint32_t *)field);
        return;
    case CONFIG_UINT64:
        snprintf(out, size_bytes, "%llu", (unsigned long long)*(const uint64_t *)field);
        return;
    case CONFIG_INT:
        snprintf(out, size_bytes, "%d", *(const int *)field);
        return;
    case CONFIG_FLOAT:
        print_number((double)*(const float *)field, true, out, size_bytes);
        return;
    case CONFIG_ENUM:
        snprintf(out, size_bytes, "%s", key->names[*(const unsigned *)field]);
        return;
    case CONFIG_LEVELS:
        snprintf(out, size_bytes, "%u,%u,%u", levels[0], levels[1], levels[2]);
        return;
    case CONFIG_SPEED:
        if (*(const double *)field == CAPTURE_RATE_MAX ||
            *(const double *)field == CAPTURE_RATE_REAL)
            snprintf(out, size_bytes, "%s",
                     *(const double *)field == CAPTURE_RATE_MAX ? "max" : "real");
        else
            print_number(*(const double *)field, false, out, size_bytes);
        return;
    case CONFIG_DOUBLE:
    case CONFIG_SIGNED:
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
        "# `posed --dump-config` prints what is in force. Lines have at most 198 bytes; a comment\n"
        "# behind a value begins with a blank and ;.\n");
    for (size_t i = 0; i < config_n_keys(); i++) {
        char value[CONFIG_TEXT_MAX];
        if (i == 0 || strcmp(config_keys[i].section, config_keys[i - 1].section) != 0)
            fprintf(file, "\n[%s]\n", config_keys[i].section);
        else if (config_keys[i].help)
            fprintf(file, "\n");
        dump_help(config_keys[i].help, file);
        if (config_keys[i].min < config_keys[i].max) {
            char range[128];
            print_range(&config_keys[i], range, sizeof range);
            fprintf(file, "# Range of %s: %s%s%s\n", config_keys[i].name, range,
                    config_keys[i].names ? ", or 0" : "",
                    config_keys[i].type == CONFIG_SPEED ? ", real or max" : "");
        }
        config_key_value(config, i, value, sizeof value);
        fprintf(file, "%s =%s%s\n", config_keys[i].name, value[0] ? " " : "", value);
    }
    cameras_dump(config, file);
}
