// SPDX-License-Identifier: Apache-2.0
// posectl replay [pause | resume | step [N] | rate X | seek T]
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/posectl/posectl.h"

static posed_Reply reply;
static posed_Replay wanted;
static bool gives_map_up; // --yes

static const struct action {
    const char *name;
    posed_Replay_Action action;
    bool needs_value;
} actions[] = {
    {"pause", posed_Replay_Action_PAUSE, false}, {"resume", posed_Replay_Action_RESUME, false},
    {"step", posed_Replay_Action_STEP, false},   {"rate", posed_Replay_Action_RATE, true},
    {"seek", posed_Replay_Action_SEEK, true},
};
#define N_ACTIONS (sizeof actions / sizeof actions[0])

static const struct action *chosen;
static const char *value;

static void take_value(struct argp_state *state)
{
    char *end;
    if (chosen->action == posed_Replay_Action_RATE && strcmp(value, "max") == 0)
        return; // 0
    if (chosen->action == posed_Replay_Action_RATE && strcmp(value, "real") == 0) {
        wanted.rate = 1;
        return;
    }
    double number = strtod(value, &end);
    bool is_number = end != value && *end == 0 && isfinite(number);
    switch (chosen->action) {
    case posed_Replay_Action_STEP:
        if (!is_number || !(number >= 1 && number <= 1e6) || number != floor(number))
            argp_error(state, "step %s: a number of frames is wanted, 1 to 1000000", value);
        wanted.frames = (uint32_t)number;
        return;
    case posed_Replay_Action_RATE:
        if (!is_number || !(number > 0))
            argp_error(state, "rate %s: real, max or a number above 0 is wanted", value);
        wanted.rate = number;
        return;
    case posed_Replay_Action_SEEK:
        if (!is_number || number < 0)
            argp_error(state, "seek %s: seconds from the beginning are wanted", value);
        wanted.position_s = number;
        return;
    default:
        argp_error(state, "%s takes no value", chosen->name);
    }
}

// argp would take the sign for an option.
static void refuse_negative(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < N_ACTIONS; k++)
            if (strcmp(argv[i - 1], actions[k].name) == 0 && argv[i][0] == '-' &&
                (isdigit((unsigned char)argv[i][1]) || argv[i][1] == '.')) {
                posectl_complain("replay %s %s: no value below 0 is taken; seek SECONDS goes back",
                                 actions[k].name, argv[i]);
                exit(POSECTL_USAGE);
            }
}

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'y':
        gives_map_up = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) {
            for (size_t i = 0; i < N_ACTIONS && !chosen; i++)
                if (strcmp(actions[i].name, arg) == 0)
                    chosen = &actions[i];
            if (!chosen)
                argp_error(state, "pause, resume, step, rate or seek is wanted, not \"%s\"", arg);
        } else if (state->arg_num == 1) {
            value = arg;
        } else {
            argp_error(state, "too many arguments");
        }
        return 0;
    case ARGP_KEY_END:
        if (chosen && chosen->needs_value && !value)
            argp_error(state, "%s needs a value", chosen->name);
        if (gives_map_up && (!chosen || chosen->action != posed_Replay_Action_SEEK))
            argp_error(state, "--yes is for seek");
        if (value)
            take_value(state);
        return 0;
    }
    return posectl_option(key, arg, state);
}

static void print(const struct posectl *ctl, const posed_ReplayState *state)
{
    if (ctl->json) {
        posectl_print_json(stdout,
                           json_pack("{s:b, s:f, s:f, s:f, s:I, s:f}", "paused", state->paused,
                                     "rate", state->rate, "position_s", state->position_s,
                                     "duration_s", state->duration_s, "next_seq",
                                     (json_int_t)state->next_seq, "stamps_ahead_s",
                                     state->stamps_ahead_s),
                           false);
        return;
    }
    if (wanted.action == posed_Replay_Action_STEP) // the answer comes before the steps
        printf("%" PRIu32 " frame%s from %.3f of %.3f s on, then paused, ",
               wanted.frames ? wanted.frames : 1, wanted.frames > 1 ? "s" : "", state->position_s,
               state->duration_s);
    else
        printf("%s at %.3f of %.3f s, ", state->paused ? "paused" : "running", state->position_s,
               state->duration_s);
    if (state->rate > 0)
        printf("%.6g times real time\n", state->rate);
    else
        printf("as fast as possible\n");
    if (state->stamps_ahead_s > 0)
        printf(
            "stamps are the recording's plus %.3f s: they never go back, and it was wound back or "
            "began anew\n",
            state->stamps_ahead_s);
}

// What winding costs, before it does. Returns POSECTL_OK where nothing is lost that was asked for.
static enum posectl_exit look_at_map(const struct posectl *ctl)
{
    posed_Request request = posed_Request_init_zero;
    request.deadline_ms = ctl->timeout_ms;
    request.which_what = posed_Request_get_status_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    const posed_Status *s = &reply.what.get_status;
    if (result || !s->keeps_map || s->captured_frames == 0)
        return result;
    posectl_complain("seek %s gives the map of epoch %" PRIu32
                     " up, with its keyframes, and tracking starts afresh at the newest pose. To "
                     "go on in it: posectl map save NAME, seek %s --yes, posectl map load NAME. "
                     "Nothing was wound; --yes winds without it",
                     value, s->map_epoch, value);
    return POSECTL_USAGE;
}

int posectl_replay(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"yes", 'y', NULL, 0, "seek: although that gives up a map that is kept", 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = on_option,
        .args_doc = "\npause\nresume\nstep [FRAMES]\nrate real|max|X\nseek SECONDS",
        .children = posectl_common,
        .doc =
            "Handles the recording of the running posed like a tape; without a word it says "
            "where the recording is. After a seek the tracking starts afresh at the newest "
            "pose, in a new map epoch. Stamps never go back: each time it is wound back they are "
            "those of the recording plus once more its length. A map that is kept "
            "(map.folder, --map) would be given up: that needs --yes (exit code 2 without it), "
            "and posectl map save before it and map load behind it to go on in that map."};
    posed_Request request = posed_Request_init_zero;
    refuse_negative(argc, argv);
    posectl_parse(ctl, &argp, argc, argv);
    if (chosen && chosen->action == posed_Replay_Action_SEEK && !gives_map_up) {
        enum posectl_exit result = look_at_map(ctl);
        if (result)
            return (int)result;
    }
    wanted.action = chosen ? chosen->action : posed_Replay_Action_QUERY;
    request.deadline_ms = ctl->timeout_ms;
    request.which_what = posed_Request_replay_tag;
    request.what.replay = wanted;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    print(ctl, &reply.what.replay);
    return (int)posectl_close(ctl, stdout);
}
