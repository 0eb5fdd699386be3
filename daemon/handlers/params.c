// SPDX-License-Identifier: Apache-2.0
// GetParams, SetParams.
#include <errno.h>
#include <string.h>

#include "daemon/handlers/handlers.h"

static void fill_param(const struct config *now, const struct config *defaults, size_t key,
                       posed_Params_Param *out)
{
    char text[CONFIG_TEXT_MAX];
    config_key_name(key, text, sizeof text);
    wire_copy_text(out->name, sizeof out->name, text);
    config_key_value(now, key, text, sizeof text);
    wire_copy_text(out->value, sizeof out->value, text);
    config_key_value(defaults, key, text, sizeof text);
    wire_copy_text(out->default_value, sizeof out->default_value, text);
    wire_copy_text(out->origin, sizeof out->origin, now->origin[key]);
}

// Large, and one thread alone comes here.
static struct config now, defaults;

void handlers_get_params(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_GetParams *request = &call->request->what.get_params;
    posed_Reply *reply = call->reply;
    posed_Params *params = &reply->what.get_params;
    config_default(&defaults);
    settings_get(handlers->common->settings, &now);
    for (size_t i = 0; i < config_n_keys(); i++) {
        char name[96];
        config_key_name(i, name, sizeof name);
        if (strncmp(name, request->prefix, strlen(request->prefix)) == 0)
            fill_param(&now, &defaults, i, &params->params[params->params_count++]);
    }
    if (params->params_count == 0)
        handlers_fail(reply, posed_Code_NOT_FOUND, "get_params.prefix", "no key begins with \"%s\"",
                      request->prefix);
}

static void fail_change(posed_Reply *reply, int error, size_t wrong, const char *reason)
{
    char field[64];
    bool is_name = error == -ENOENT || error == -EPERM;
    snprintf(field, sizeof field, "set_params.params[%zu].%s", wrong, is_name ? "name" : "value");
    handlers_fail(reply,
                  error == -ENOENT  ? posed_Code_NOT_FOUND
                  : error == -EPERM ? posed_Code_FAILED_PRECONDITION
                                    : posed_Code_INVALID_ARGUMENT,
                  field, "%s", reason);
}

void handlers_set_params(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_SetParams *request = &call->request->what.set_params;
    posed_Reply *reply = call->reply;
    struct config_assignment assignments[sizeof request->params / sizeof request->params[0]];
    char reason[300], text[400];
    size_t n = request->params_count, wrong = 0;
    if (n == 0) {
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "set_params.params",
                      "at least one is wanted");
        return;
    }
    for (size_t i = 0; i < n; i++)
        assignments[i] = (struct config_assignment){request->params[i].name,
                                                    request->params[i].value, "SetParams"};
    int error =
        settings_change(handlers->common->settings, assignments, n, &wrong, reason, sizeof reason);
    if (error) {
        fail_change(reply, error, wrong, reason);
        return;
    }
    config_default(&defaults);
    settings_get(handlers->common->settings, &now);
    for (size_t i = 0; i < config_n_keys(); i++) {
        posed_Params *params = &reply->what.set_params;
        char name[96];
        bool changed = false;
        config_key_name(i, name, sizeof name);
        for (size_t k = 0; k < n; k++)
            changed |= strcmp(name, assignments[k].name) == 0;
        if (!changed)
            continue;
        posed_Params_Param *param = &params->params[params->params_count++];
        fill_param(&now, &defaults, i, param);
        snprintf(text, sizeof text, "%s = %s on request", param->name, param->value);
        log_to(&handlers->log, LOG_LEVEL_NOTICE, "%s", text);
        handlers_event(handlers, posed_Event_Kind_CONFIG_RELOADED, text);
    }
}
