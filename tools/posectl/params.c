// SPDX-License-Identifier: Apache-2.0
// posectl params, posectl set: the settings of the running daemon.
#include <string.h>

#include "tools/posectl/posectl.h"

static posed_Reply reply; // large

static void print_params(const struct posectl *ctl, const posed_Params *params)
{
    json_t *all = ctl->json ? json_object() : NULL;
    for (pb_size_t i = 0; i < params->params_count; i++) {
        const posed_Params_Param *p = &params->params[i];
        if (all)
            json_object_set_new(all, p->name,
                                json_pack("{s:s, s:s, s:s}", "value", p->value, "default",
                                          p->default_value, "origin", p->origin));
        else
            printf("%-32s %-28s %s\n", p->name, p->value[0] ? p->value : "(empty)", p->origin);
    }
    if (all)
        posectl_print_json(stdout, all, false);
}

static const char *prefix = "";

static error_t on_params_option(int key, char *arg, struct argp_state *state)
{
    if (key != ARGP_KEY_ARG || state->arg_num > 0)
        return posectl_option(key, arg, state);
    prefix = arg;
    return 0;
}

int posectl_params(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        .parser = on_params_option,
        .args_doc = "[PREFIX]",
        .children = posectl_common,
        .doc = "Shows the settings in force and where they come from; with a PREFIX such as "
               "tracker those that begin with it."};
    posed_Request request = posed_Request_init_zero;
    posectl_parse(ctl, &argp, argc, argv);
    request.which_what = posed_Request_get_params_tag;
    wire_copy_text(request.what.get_params.prefix, sizeof request.what.get_params.prefix, prefix);
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    print_params(ctl, &reply.what.get_params);
    return (int)posectl_close(ctl, stdout);
}

static posed_SetParams assignments;

static error_t on_set_option(int key, char *arg, struct argp_state *state)
{
    const size_t max = sizeof assignments.params / sizeof assignments.params[0];
    posed_SetParams_Assignment *a = &assignments.params[assignments.params_count % max];
    const char *equal = arg ? strchr(arg, '=') : NULL;
    switch (key) {
    case ARGP_KEY_ARG:
        if (!equal || equal == arg)
            argp_error(state, "%s: SECTION.KEY=VALUE is wanted", arg);
        if ((size_t)(equal - arg) >= sizeof a->name || strlen(equal + 1) >= sizeof a->value)
            argp_error(state,
                       "%.20s...: a setting's name has less than %zu letters, its value less "
                       "than %zu",
                       arg, sizeof a->name, sizeof a->value);
        if (assignments.params_count == max)
            argp_error(state, "more than %zu settings", max);
        snprintf(a->name, sizeof a->name, "%.*s", (int)(equal - arg), arg);
        snprintf(a->value, sizeof a->value, "%s", equal + 1);
        assignments.params_count++;
        return 0;
    case ARGP_KEY_END:
        if (assignments.params_count == 0)
            argp_error(state, "SECTION.KEY=VALUE is wanted");
        return 0;
    }
    return posectl_option(key, arg, state);
}

int posectl_set(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        .parser = on_set_option,
        .args_doc = "SECTION.KEY=VALUE...",
        .children = posectl_common,
        .doc = "Changes settings of the running posed, all of these or none. Few may change while "
               "it runs (log.*, requests.deadline_ms), and a restart goes back to the files."};
    posed_Request request = posed_Request_init_zero;
    posectl_parse(ctl, &argp, argc, argv);
    request.which_what = posed_Request_set_params_tag;
    request.what.set_params = assignments;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    print_params(ctl, &reply.what.set_params);
    return (int)posectl_close(ctl, stdout);
}
