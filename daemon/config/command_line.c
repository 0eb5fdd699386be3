// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/command_line.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "capture/capture.h"
#include "proto/closest.h"

enum option_key {
    OPTION_FIRST_SETTING = 256, // from here on: index into `settings`
    OPTION_SET = 512,
    OPTION_CHECK,
    OPTION_DUMP,
    OPTION_NO_TCP,
};

// Options that set one key. A flag (no argument) sets it to true.
static const struct {
    const char *option, *argument, *key, *help;
} settings[] = {
    {"source", "DRIVER:PLACE", "capture.source", "Where frames come from; see below"},
    {"speed", "real|max|N", "capture.speed",
     "Replay in real time (default), as fast as possible (drops nothing), or N times real time"},
    {"loop", NULL, "capture.loop", "Replay: start again at the end"},
    {"start", "SECONDS", "capture.start_s", "Replay: skip this much"},
    {"duration", "SECONDS", "capture.duration_s", "Replay: stop after this much"},
    {"step", "N", "capture.step", "Replay: every N-th frame"},
    {"frames", "N", "capture.frames", "End after so many frames"},
    {"seed", "N", "capture.seed", "Synthetic scenes: seed of the noise"},
    {"backend", "auto|cpu|cuda", "gpu.backend",
     "What computes: auto (default) is CUDA where it works, else the CPU"},
    {"reference", "keyframe|previous|model", "tracker.reference", "What a frame is aligned to"},
    {"trajectory", "FILE", "output.trajectory",
     "Write the trajectory (TUM, or output.trajectory_format)"},
    {"map", "OUT.ply", "output.map", "Write the map at the end: its surface with normals"},
    {"run-dir", "DIR", "endpoints.run_dir", "Folder of the ipc sockets"},
    {"pub", "ADDRESSES", "endpoints.pub",
     "Addresses of the socket of poses and events: ipc, tcp://ADDRESS:PORT"},
    {"latest", "ADDRESSES", "endpoints.latest", "Addresses of the socket of the newest pose alone"},
    {"img", "ADDRESSES", "endpoints.img", "Addresses of the socket of images"},
    {"req", "ADDRESSES", "endpoints.req", "Addresses of the socket of requests"},
    {"log-level", "error|warning|notice|info|debug", "log.level", "The least that is logged"},
};

#define N_SETTINGS (sizeof settings / sizeof settings[0])
#define N_OTHERS   5

const char *argp_program_version = "posed " POSED_VERSION;

// argp_error ends the program unless options_parse was told not to; hence what follows it.
static error_t add(struct options *options, struct argp_state *state, const char *name,
                   const char *value, const char *origin)
{
    if (options->n_assignments == OPTIONS_MAX_ASSIGNMENTS) {
        argp_error(state, "more than %d settings", OPTIONS_MAX_ASSIGNMENTS);
        return EINVAL;
    }
    options->assignments[options->n_assignments++] =
        (struct config_assignment){name, value, origin};
    return 0;
}

// An option's value is checked here, where a mistake is one of usage.
static error_t add_setting(struct options *options, struct argp_state *state, size_t i,
                           const char *value)
{
    static struct config scratch; // its content does not matter
    static char origins[N_SETTINGS][24];
    char reason[300];
    snprintf(origins[i], sizeof origins[i], "--%s", settings[i].option);
    if (config_set(&scratch, settings[i].key, value, origins[i], reason, sizeof reason) != 0) {
        argp_error(state, "%s: %s", origins[i], reason);
        return EINVAL;
    }
    return add(options, state, settings[i].key, value, origins[i]);
}

static error_t add_set(struct options *options, struct argp_state *state, const char *text)
{
    const char *equal = strchr(text, '=');
    char *name = options->names[options->n_assignments % OPTIONS_MAX_ASSIGNMENTS];
    if (!equal || equal == text || (size_t)(equal - text) >= sizeof options->names[0]) {
        argp_error(state, "--set %s: section.key=value is wanted", text);
        return EINVAL;
    }
    if (options->n_assignments < OPTIONS_MAX_ASSIGNMENTS)
        snprintf(name, sizeof options->names[0], "%.*s", (int)(equal - text), text);
    return add(options, state, name, equal + 1, "--set");
}

static error_t add_no_tcp(struct options *options, struct argp_state *state)
{
    static const char *const sockets[] = {"endpoints.pub", "endpoints.latest", "endpoints.img",
                                          "endpoints.req"};
    error_t error = 0;
    for (size_t i = 0; i < sizeof sockets / sizeof sockets[0] && !error; i++)
        error = add(options, state, sockets[i], "ipc", "--no-tcp");
    return error;
}

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    if (key >= OPTION_FIRST_SETTING && key < OPTION_FIRST_SETTING + (int)N_SETTINGS)
        return add_setting(options, state, (size_t)(key - OPTION_FIRST_SETTING),
                           arg ? arg : "true");
    switch (key) {
    case 'c':
        options->config_file = arg;
        return 0;
    case OPTION_SET:
        return add_set(options, state, arg);
    case OPTION_CHECK:
        options->check = true;
        return 0;
    case OPTION_DUMP:
        options->dump = true;
        return 0;
    case OPTION_NO_TCP:
        return add_no_tcp(options, state);
    case ARGP_KEY_ARG:
        if (options->has_source) {
            argp_error(state, "\"%s\": there is a source already", arg);
            return EINVAL;
        }
        options->has_source = true;
        return add(options, state, "capture.source", arg, "the command line");
    }
    return ARGP_ERR_UNKNOWN;
}

// The drivers that are built in, after the options.
static char *add_drivers(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    char *out = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&out, &n);
    if (!stream)
        return (char *)text;
    fprintf(stream, "Sources:\n");
    for (const struct capture_driver_name *d = capture_drivers(); d->name; d++)
        fprintf(stream, "  %s: %s\n", d->name, d->summary);
    fprintf(stream, "\nExit codes: 0 end of the recording or a signal, 1 other failure, 2 usage, 3 "
                    "configuration, 4 device or recording, 5 GPU.");
    fclose(stream);
    return out;
}

// argp says that an option is unknown; this, which one may have been meant.
static void look_for_mistypes(const struct argp_option *table, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *word = argv[i] + 2, *meant = NULL;
        size_t n = strncmp(argv[i], "--", 2) ? 0 : strcspn(word, "="), best = SIZE_MAX;
        bool known = n == 0 || !strncmp("help", word, n) || !strncmp("usage", word, n) ||
                     !strncmp("version", word, n);
        for (const struct argp_option *o = table; o->name && !known; o++) {
            known = !strncmp(o->name, word, n);
            if (closest_is_better(word, n, o->name, &best))
                meant = o->name;
        }
        if (!known && meant)
            fprintf(stderr, "%s: --%.*s: did you mean --%s?\n", argv[0], (int)n, word, meant);
    }
}

int options_parse(struct options *out, int argc, char **argv, unsigned argp_flags)
{
    struct argp_option table[N_SETTINGS + N_OTHERS + 1] = {
        {"config", 'c', "FILE", 0, "Read this file instead of " CONFIG_FILE, 0},
        {"set", OPTION_SET, "SECTION.KEY=VALUE", 0, "Any setting of config/posed.conf", 0},
        {"no-tcp", OPTION_NO_TCP, NULL, 0, "Only the ipc sockets", 0},
        {"check-config", OPTION_CHECK, NULL, 0, "Check the settings and exit", 0},
        {"dump-config", OPTION_DUMP, NULL, 0, "Print the settings in force and exit", 0},
    };
    for (size_t i = 0; i < N_SETTINGS; i++)
        table[N_OTHERS + i] =
            (struct argp_option){settings[i].option,   OPTION_FIRST_SETTING + (int)i,
                                 settings[i].argument, 0,
                                 settings[i].help,     0};
    const struct argp argp = {
        .options = table,
        .parser = on_option,
        .args_doc = "[SOURCE]",
        .doc = "Turns a depth camera or a recording into a stream of camera poses on ZeroMQ."
               "\v" // what follows the options comes from add_drivers
               "Sources are written DRIVER:PLACE; of a recording its path is enough.",
        .help_filter = add_drivers,
    };
    *out = (struct options){.n_assignments = 0};
    argp_err_exit_status = 2;
    if (!(argp_flags & ARGP_NO_ERRS))
        look_for_mistypes(table, argc, argv);
    return argp_parse(&argp, argc, argv, argp_flags, NULL, out) == 0 ? 0 : -EINVAL;
}
