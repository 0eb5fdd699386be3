// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/settings.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct settings {
    pthread_mutex_t mutex;
    struct config config;
    struct config changed; // settings_change tries on it
    struct log *log;
};

// With the mutex held, so that the newest settings are also the last that the log hears of.
static void apply(struct settings *settings)
{
    const struct config *config = &settings->config;
    const struct log_settings log = {config->log.level, config->log.format, config->log.rate_hz};
    if (settings->log)
        log_configure(settings->log, &log);
}

int settings_create(struct settings **out, const struct config *config, struct log *log)
{
    struct settings *settings = malloc(sizeof *settings);
    *out = settings;
    if (!settings)
        return -ENOMEM;
    pthread_mutex_init(&settings->mutex, NULL);
    settings->config = *config;
    settings->log = log;
    apply(settings);
    return 0;
}

void settings_destroy(struct settings **settings)
{
    if (!*settings)
        return;
    pthread_mutex_destroy(&(*settings)->mutex);
    free(*settings);
    *settings = NULL;
}

void settings_get(struct settings *settings, struct config *out)
{
    pthread_mutex_lock(&settings->mutex);
    *out = settings->config;
    pthread_mutex_unlock(&settings->mutex);
}

uint32_t settings_deadline_ms(struct settings *settings)
{
    pthread_mutex_lock(&settings->mutex);
    uint32_t deadline_ms = settings->config.requests.deadline_ms;
    pthread_mutex_unlock(&settings->mutex);
    return deadline_ms;
}

unsigned settings_reload(struct settings *settings, const struct config *fresh,
                         const struct log_sink *log)
{
    pthread_mutex_lock(&settings->mutex);
    unsigned n_taken = config_reload(&settings->config, fresh, log);
    apply(settings);
    pthread_mutex_unlock(&settings->mutex);
    return n_taken;
}

// Of a key that needs a restart: where it is to be changed for that.
static void refuse_change(const struct config *config, const char *name, char *out_error,
                          size_t error_bytes)
{
    const char *origin = config_origin(config, name);
    size_t n =
        (size_t)snprintf(out_error, error_bytes, "%s cannot change while the daemon runs: ", name);
    if (n >= error_bytes)
        return;
    if (origin)
        snprintf(out_error + n, error_bytes - n,
                 "change it where it was set (%s) and restart posed", origin);
    else if (config->file[0])
        snprintf(out_error + n, error_bytes - n, "set it in %.100s and restart posed",
                 config->file);
    else
        snprintf(out_error + n, error_bytes - n, "start posed with --set %s=VALUE", name);
}

int settings_change(struct settings *settings, const struct config_assignment *assignments,
                    size_t n, size_t *out_wrong, char *out_error, size_t error_bytes)
{
    int error = 0;
    pthread_mutex_lock(&settings->mutex);
    settings->changed = settings->config;
    for (size_t i = 0; i < n && !error; i++) {
        const struct config_assignment *a = &assignments[i];
        *out_wrong = i;
        error =
            config_set(&settings->changed, a->name, a->value, a->origin, out_error, error_bytes);
        if (!error && !config_is_live(a->name)) {
            refuse_change(&settings->config, a->name, out_error, error_bytes);
            error = -EPERM;
        }
    }
    if (!error) {
        settings->config = settings->changed;
        apply(settings);
    }
    pthread_mutex_unlock(&settings->mutex);
    return error;
}
