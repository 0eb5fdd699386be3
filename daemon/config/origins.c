// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/origins.h"

#include <ctype.h>
#include <string.h>

#include "daemon/config/settings_table.h"

#define MAX_NAMED 4 // of a line

static bool is_of_name(char c)
{
    return islower((unsigned char)c) || isdigit((unsigned char)c) || c == '_' || c == '.';
}

// The settings that a line names and somebody set, each once, in its order. Returns their number.
static size_t find_named(const struct config *config, const char *line, size_t out[MAX_NAMED])
{
    size_t n_named = 0;
    for (const char *word = line; *word && n_named < MAX_NAMED; word++) {
        char name[96];
        size_t n = 0;
        while (is_of_name(word[n]))
            n++;
        if (n == 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)n, word);
        const size_t key = config_find_key(name);
        bool is_new = key < config_n_keys() && strcmp(config->origin[key], CONFIG_BUILT_IN) != 0;
        for (size_t i = 0; i < n_named; i++)
            is_new = is_new && out[i] != key;
        if (is_new)
            out[n_named++] = key;
        word += n - 1;
    }
    return n_named;
}

static void say(void *user, enum log_level level, const char *line)
{
    const struct origins *origins = user;
    size_t named[MAX_NAMED];
    const size_t n_named = find_named(origins->config, line, named);
    char front[CONFIG_ORIGIN_MAX + 32] = "", behind[MAX_NAMED * (CONFIG_ORIGIN_MAX + 96)] = "";
    if (n_named)
        snprintf(front, sizeof front, "%s: ", origins->config->origin[named[0]]);
    for (size_t i = 1, n = 0; i < n_named; i++) {
        char name[96];
        config_key_name(named[i], name, sizeof name);
        n += (size_t)snprintf(behind + n, sizeof behind - n, "%s%s: %s%s", i == 1 ? " (" : ", ",
                              name, origins->config->origin[named[i]], i + 1 == n_named ? ")" : "");
    }
    if (origins->camera)
        log_to(&origins->log, level, "%s[camera %s]: %s%s", front, origins->camera, line, behind);
    else
        log_to(&origins->log, level, "%s%s%s", front, line, behind);
}

struct log_sink origins_log(struct origins *origins)
{
    return (struct log_sink){say, origins};
}
