// SPDX-License-Identifier: Apache-2.0
// posectl: asks a running posed, and watches it. Options, output, the table of commands, and those
// commands that are a request and a line of text.
#include "tools/posectl/posectl.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/closest.h"
#include "proto/output_file.h"
#include "proto/trajectory.h"
#include "tools/posectl/calibrate.h"
#include "tools/posectl/doctor.h"
#include "tools/posectl/keygen.h"
#include "tools/posectl/register.h"
#include "tools/posectl/rig.h"
#include "tools/posectl/search.h"

const char *argp_program_version = "posectl " POSED_VERSION;

void posectl_complain(const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("posectl: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static void pass_on(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (level <= LOG_LEVEL_NOTICE)
        posectl_complain("%s", line);
}

const struct log_sink posectl_log = {pass_on, NULL};

const char *const posectl_backends[] = {"auto", "cpu", "cuda", NULL};

enum { OPTION_SERVER_KEY = 1000, OPTION_KEY_FILE, OPTION_TIMEOUT, OPTION_WAIT, OPTION_CAMERA };

#define OUTPUT_OPTION                                                                         \
    {                                                                                         \
        "output", 'o', "json|text|FILE", 0,                                                   \
            "Output format, or the file to write: get, calibration, trajectory and register " \
            "replace it; "                                                                    \
            "calibrate, rig and record repair want a new one",                                \
            0                                                                                 \
    }

static const struct argp_option output_options[] = {OUTPUT_OPTION, {0}};

static const struct argp_option common_options[] = {
    {"host", 'e', "WHERE", 0,
     "The daemon: a host, its run directory, or the address of one of its sockets; left out: the "
     "variable POSED_HOST, else this machine",
     0},
    {"endpoint", 0, NULL, OPTION_ALIAS, NULL, 0},
    OUTPUT_OPTION,
    {"timeout", OPTION_TIMEOUT, "SECONDS", 0,
     "How long to wait for an answer (default 3; object add 180, map 120, register and record stop "
     "60, search 30 for each object); watch: for a message of its topics. Where nobody listens, 3 "
     "at most",
     0},
    {"wait", OPTION_WAIT, "SECONDS", 0,
     "Where no daemon listens yet, wait so long for one that is being started (default 0; watch 3)",
     0},
    {"camera", OPTION_CAMERA, "NAME", 0,
     "Of a daemon with several cameras: this one; left out: the first (watch: all)", 0},
    {"server-key", OPTION_SERVER_KEY, "KEY", 0, "CURVE: public key of the daemon", 0},
    {"key-file", OPTION_KEY_FILE, "FILE", 0, "CURVE: secret key of this client", 0},
    {0},
};

static unsigned milliseconds(struct argp_state *state, const char *option, const char *arg)
{
    char *end;
    const double seconds = strtod(arg, &end);
    if (end == arg || *end || !(seconds > 0 && seconds <= 3600))
        argp_error(state, "--%s %s: seconds are wanted, above 0 and at most 3600", option, arg);
    return (unsigned)ceil(seconds * 1000);
}

static error_t on_common_option(int key, char *arg, struct argp_state *state)
{
    struct posectl *ctl = state->input;
    struct stat info;
    // An empty value is what a script makes of a variable that is not set.
    for (const struct argp_option *o = common_options; arg && !arg[0] && key > 0 && o->name; o++)
        if (o->key == key)
            argp_error(state, "--%s: its value is empty; leave the option out where there is none",
                       o->name);
    switch (key) {
    case 'e':
        ctl->endpoint = arg;
        return 0;
    case 'o':
        if (strcmp(arg, "json") == 0 || strcmp(arg, "text") == 0)
            ctl->json = arg[0] == 'j';
        else if (!ctl->takes_file)
            argp_error(state, "-o %s: json or text is wanted (this command writes no file)", arg);
        else {
            ctl->file = arg;
            ctl->replaces =
                output_file_descriptor(arg) < 0 && stat(arg, &info) == 0 && S_ISREG(info.st_mode);
        }
        return 0;
    case OPTION_TIMEOUT:
        ctl->timeout_ms = milliseconds(state, "timeout", arg);
        ctl->has_timeout = true;
        return 0;
    case OPTION_WAIT:
        ctl->wait_ms = milliseconds(state, "wait", arg);
        return 0;
    case OPTION_CAMERA:
        if (strlen(arg) >= sizeof((posed_Request *)NULL)->camera)
            argp_error(state, "--camera %s: a name has at most %zu letters", arg,
                       sizeof((posed_Request *)NULL)->camera - 1);
        ctl->camera = arg;
        return 0;
    case OPTION_SERVER_KEY:
        if (strlen(arg) != POSECTL_KEY_CHARS)
            argp_error(state, "--server-key %s: the key itself is wanted, 40 characters in quotes",
                       arg);
        ctl->server_key = arg;
        return 0;
    case OPTION_KEY_FILE:
        ctl->key_file = arg;
        return 0;
    case ARGP_KEY_ARG: // the command has not taken it
        argp_error(state, "\"%s\" is one word too many", arg);
        return 0;
    case ARGP_KEY_END:
        if (ctl->key_file && !ctl->server_key)
            argp_error(state, "--key-file needs --server-key, without which nothing is encrypted");
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static const struct argp common_argp = {.options = common_options, .parser = on_common_option};
const struct argp_child posectl_common[] = {{&common_argp, 0, "Common options:", 100}, {0}};

static const struct argp output_argp = {.options = output_options, .parser = on_common_option};
const struct argp_child posectl_no_daemon[] = {{&output_argp, 0, "Common options:", 100}, {0}};

void posectl_parse(struct posectl *ctl, const struct argp *argp, int argc, char **argv)
{
    static char name[64];
    snprintf(name, sizeof name, "posectl %s", argv[0]);
    argv[0] = name;
    argp_err_exit_status = POSECTL_USAGE;
    argp_parse(argp, argc, argv, 0, NULL, ctl);
}

void posectl_wait_at_least(struct posectl *ctl, unsigned timeout_ms)
{
    if (!ctl->has_timeout && ctl->timeout_ms < timeout_ms)
        ctl->timeout_ms = timeout_ms;
}

error_t posectl_option(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = state->input;
    return 0;
}

FILE *posectl_open(const struct posectl *ctl)
{
    if (!ctl->file)
        return stdout;
    const int fd = output_file_open(ctl->file);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file)
        posectl_complain("%s: %s", ctl->file, strerror(fd < 0 ? -fd : errno));
    if (!file && fd >= 0)
        close(fd);
    return file;
}

enum posectl_exit posectl_close(const struct posectl *ctl, FILE *file)
{
    bool failed = fflush(file) != 0 || ferror(file);
    int error = errno;
    if (ctl->file && fclose(file) != 0) {
        failed = true;
        error = errno;
    }
    if (failed)
        posectl_complain("%s: %s", ctl->file ? ctl->file : "standard output", strerror(error));
    else if (ctl->file && ctl->replaces)
        posectl_complain("%s was there: it is replaced", ctl->file);
    return failed ? POSECTL_FAILED : POSECTL_OK;
}

void posectl_print_json(FILE *file, json_t *value, bool one_line)
{
    json_dumpf(value, file, (one_line ? JSON_COMPACT : JSON_INDENT(2)) | WIRE_JSON_DIGITS);
    fputc('\n', file);
    json_decref(value);
}

// The messages are large; posectl makes one request at a time.
static posed_Reply reply;

static bool keep_pose;

static error_t on_reset_option(int key, char *arg, struct argp_state *state)
{
    if (key != 'k')
        return posectl_option(key, arg, state);
    keep_pose = true;
    return 0;
}

static int run_reset(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"keep-pose", 'k', NULL, 0, "Start again at the newest pose, not at the origin", 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = on_reset_option,
        .children = posectl_common,
        .doc = "Starts the tracking afresh. The map and its keyframes are given up, and a new map "
               "begins: keep the old one with `posectl map save NAME` before."};
    posed_Request request = posed_Request_init_zero;
    posectl_parse(ctl, &argp, argc, argv);
    request.deadline_ms = ctl->timeout_ms;
    request.which_what = posed_Request_reset_tag;
    request.what.reset.keep_pose = keep_pose;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    if (ctl->json)
        posectl_print_json(
            stdout, json_pack("{s:I}", "next_seq", (json_int_t)reply.what.reset.next_seq), false);
    else
        printf("reset before frame %" PRIu64 ": the map and its keyframes so far are given up\n",
               reply.what.reset.next_seq);
    return (int)posectl_close(ctl, stdout);
}

static bool is_predicted(const posed_TrajectoryPose *pose)
{
    return pose->reason == posed_Reason_REASON_DROPPED && pose->state != posed_State_STATE_LOST;
}

static json_t *json_trajectory_pose(const posed_TrajectoryPose *pose)
{
    return json_pack("{s:I, s:f, s:s, s:b, s:I, s:o}", "seq", (json_int_t)pose->seq, "time_s",
                     wire_seconds(&pose->timestamp), "state", wire_state_name(pose->state),
                     "predicted", is_predicted(pose), "map_epoch", (json_int_t)pose->map_epoch,
                     "pose", wire_json_pose(&pose->pose));
}

// One page, as TUM lines to `file` or as values to `poses`. Counts the poses, in `file` those that
// were measured.
static bool take_page(const posed_Trajectory *page, FILE *file, struct trajectory_marks *marks,
                      json_t *poses, uint64_t *n)
{
    for (pb_size_t i = 0; i < page->poses_count; i++) {
        const posed_TrajectoryPose *from = &page->poses[i];
        const enum trajectory_origin origin = from->state == posed_State_STATE_LOST
                                                  ? TRAJECTORY_ORIGIN_LOST
                                              : is_predicted(from) ? TRAJECTORY_ORIGIN_PREDICTED
                                                                   : TRAJECTORY_ORIGIN_MEASURED;
        const struct trajectory_part part = {.epoch = from->map_epoch};
        struct stamped_pose pose;
        const char *field;
        *n += poses || origin == TRAJECTORY_ORIGIN_MEASURED;
        if (poses) {
            json_array_append_new(poses, json_trajectory_pose(from));
            continue;
        }
        if (wire_read_timestamp(&from->timestamp, &pose.time_ns) != 0 ||
            wire_read_pose(&from->pose, &pose.T_world_camera, &field) != 0) {
            posectl_complain("frame %" PRIu64 ": the daemon sent no valid pose", from->seq);
            return false;
        }
        if (trajectory_write_marked(file, TRAJECTORY_FORMAT_TUM, marks, &part, origin, &pose,
                                    NULL) != 0)
            return true; // posectl_close says why
    }
    return true;
}

static int run_trajectory(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        .parser = posectl_option,
        .children = posectl_common,
        .doc = "Writes the trajectory that the daemon remembers, in TUM format, to standard output "
               "or to the file of -o. A frame that was not measured, lost or predicted, is a "
               "comment."};
    ctl->takes_file = true;
    posectl_parse(ctl, &argp, argc, argv);
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_get_trajectory_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    FILE *file = posectl_open(ctl);
    if (!file)
        return POSECTL_FAILED;
    const posed_Trajectory *page = &reply.what.get_trajectory;
    json_t *poses = ctl->json ? json_array() : NULL;
    if (page->oldest_seq > 0)
        posectl_complain("the daemon no longer keeps the frames before %" PRIu64
                         " (requests.history)",
                         page->oldest_seq);
    struct trajectory_marks marks = {0};
    uint64_t asked = 0, n = 0;
    while (take_page(page, file, &marks, poses, &n) && !page->end && page->next_seq > asked) {
        asked = request.what.get_trajectory.from_seq = page->next_seq;
        result = posectl_request(ctl, &request, &reply);
        if (result)
            break;
    }
    if (poses)
        posectl_print_json(file, json_pack("{s:o}", "poses", poses), false);
    enum posectl_exit closed = posectl_close(ctl, file);
    // Never to standard output: -o may name it, by whatever name.
    if (!result && !closed && ctl->file && !ctl->json)
        posectl_complain("%s: %" PRIu64 " pose%s", ctl->file, n, n == 1 ? "" : "s");
    return (int)(result ? result : closed);
}

static int run_keyframe(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {.parser = posectl_option,
                                     .children = posectl_common,
                                     .doc = "Makes the newest frame the keyframe that the next "
                                            "ones are aligned to."};
    posed_Request request = posed_Request_init_zero;
    posectl_parse(ctl, &argp, argc, argv);
    request.deadline_ms = ctl->timeout_ms;
    request.which_what = posed_Request_set_keyframe_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    uint64_t seq = reply.what.set_keyframe.seq;
    if (ctl->json)
        posectl_print_json(stdout, json_pack("{s:I}", "seq", (json_int_t)seq), false);
    else
        printf("frame %" PRIu64 " is the keyframe\n", seq);
    return (int)posectl_close(ctl, stdout);
}

static const struct {
    const char *name;
    int (*run)(struct posectl *ctl, int argc, char **argv);
    const char *summary;
} commands[] = {
    {"status", posectl_status, "what the daemon is doing"},
    {"watch", posectl_watch, "poses as they come"},
    {"view", posectl_view, "the page in the browser"},
    {"trajectory", run_trajectory, "the trajectory so far, TUM format; -o FILE"},
    {"get", posectl_get, "depth -o FILE.png, cloud -o FILE.ply or .pcd: a frame that is kept"},
    {"replay", posectl_replay, "pause, resume, step, rate X, seek T: a recording like a tape"},
    {"reset", run_reset, "start the tracking and the map afresh"},
    {"keyframe", run_keyframe, "make the newest frame the keyframe"},
    {"params", posectl_params, "[PREFIX]: the settings in force"},
    {"set", posectl_set, "SECTION.KEY=VALUE: change a setting while it runs"},
    {"map", posectl_map,
     "save NAME, load NAME, list, export OUT.ply, keyframes, optimise: the map of what was "
     "seen"},
    {"record", posectl_record,
     "start NAME, stop, list, repair FILE: recordings of what the camera sees"},
    {"calibration", posectl_calibration, "the camera as the daemon takes it to be; -o FILE"},
    {"calibrate", posectl_calibrate, "RECORDING... -o FILE: learn a camera's own depth error"},
    {"rig", posectl_rig, "calibrate A B: where one camera of a rig sits beside the other"},
    {"doctor", posectl_doctor, "what this machine lacks, and what to do about it"},
    {"keygen", posectl_keygen, "NAME: a pair of CURVE keys, for a daemon or a client"},
    {"register", posectl_register, "the transform between two point clouds; --local"},
    {"object", posectl_object, "known objects: add NAME MODEL.ply, list, remove NAME"},
    {"search", posectl_search, "where known objects are in a depth image; --plot FILE"},
};

static void print_help(FILE *file)
{
    fprintf(file, "Usage: posectl COMMAND [--host WHERE] [-o json] [OPTION...]\n"
                  "Asks a running posed, and watches it.\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(file, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(file,
            "\n`posectl COMMAND --help` explains a command. Exit codes: 0 done, 1 refused or\n"
            "failed, 2 wrong usage, 3 no daemon answers, 6 the answer is doubtful.\n");
}

// Common options may stand in front of the command, too: each of them has a value.
static void put_command_first(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-') {
        bool has_value = strchr(argv[i], '=') || (argv[i][1] && argv[i][1] != '-' && argv[i][2]);
        i += has_value ? 1 : 2;
    }
    if (i >= argc)
        return;
    char *command = argv[i];
    memmove(argv + 2, argv + 1, (size_t)(i - 1) * sizeof *argv);
    argv[1] = command;
}

// The command that name was meant to be, NULL: none is close.
static const char *closest_command(const char *name)
{
    const char *closest = NULL;
    char small[32];
    size_t best = SIZE_MAX, n = 0;
    for (; name[n] && n < sizeof small; n++)
        small[n] = (char)tolower((unsigned char)name[n]);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (closest_is_better(small, n, commands[i].name, &best))
            closest = commands[i].name;
    return closest;
}

// Words that a script makes of variables that are not set would be taken for something.
static bool has_empty_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!argv[i][0])
            return true;
    return false;
}

int main(int argc, char **argv)
{
    struct posectl ctl = {.timeout_ms = 3000, .camera = ""};
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "help") == 0 && argc > 2) { // help COMMAND
        argv[1] = argv[2];
        argv[2] = (char *)(uintptr_t) "--help";
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
               strcmp(name, "help") == 0) {
        print_help(stdout);
        return POSECTL_OK;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts(argp_program_version);
        return POSECTL_OK;
    }
    if (has_empty_word(argc, argv)) {
        posectl_complain("a word of the command is empty (\"\"): a variable that is not set?");
        return POSECTL_USAGE;
    }
    put_command_first(argc, argv);
    name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(&ctl, argc - 1, argv + 1);
    const char *meant = closest_command(name);
    if (meant)
        posectl_complain("no command \"%s\", did you mean %s?", name, meant);
    else if (name[0] == '-')
        posectl_complain("no command but options: posectl COMMAND %s ...", name);
    else if (name[0])
        posectl_complain("no command \"%s\"", name);
    if (!meant)
        print_help(stderr);
    return POSECTL_USAGE;
}
