// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/daemon_settings.h"

#include <fcntl.h>
#include <spawn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name;
    size_t offset;
} wanted[] = {
    {"endpoints.pub", offsetof(struct daemon_settings, pub)},
    {"endpoints.latest", offsetof(struct daemon_settings, latest)},
    {"endpoints.img", offsetof(struct daemon_settings, img)},
    {"endpoints.req", offsetof(struct daemon_settings, req)},
    {"http.port", offsetof(struct daemon_settings, http_port)},
    {"recorder.folder", offsetof(struct daemon_settings, recorder_folder)},
};

static void take(struct daemon_settings *settings, const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (strcmp(wanted[i].name, name) == 0)
            snprintf((char *)settings + wanted[i].offset, DAEMON_SETTINGS_TEXT, "%s", value);
}

enum posectl_exit daemon_settings_ask(const struct posectl *ctl, struct daemon_settings *out)
{
    static posed_Reply reply; // large
    posed_Request request = posed_Request_init_zero;
    *out = (struct daemon_settings){0};
    request.which_what = posed_Request_get_params_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    const posed_Params *params = &reply.what.get_params;
    for (pb_size_t i = 0; !result && i < params->params_count; i++)
        take(out, params->params[i].name, params->params[i].value);
    return result;
}

// The daemon's program: beside this one, where a build or an installation has both.
static void find_posed(char out[DAEMON_SETTINGS_TEXT])
{
    ssize_t n = readlink("/proc/self/exe", out, DAEMON_SETTINGS_TEXT - sizeof "posed");
    if (n > 0) {
        out[n] = 0;
        strcpy(strrchr(out, '/') + 1, "posed");
        if (access(out, X_OK) == 0)
            return;
    }
    strcpy(out, "posed");
}

// Its output and errors, in one stream, and as text whatever the file's log.format; NULL: it cannot
// be run.
static FILE *run_posed(const char *option, const char *config, pid_t *out_pid)
{
    char program[DAEMON_SETTINGS_TEXT];
    char *const arguments[] = {program,
                               (char *)(uintptr_t)option,
                               (char *)"--set=log.format=text",
                               config ? (char *)"-c" : NULL,
                               (char *)(uintptr_t)config,
                               NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    find_posed(program);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    bool started = posix_spawn_file_actions_init(&actions) == 0;
    if (started) {
        started = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0 &&
                  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO) == 0 &&
                  posix_spawnp(out_pid, program, &actions, NULL, arguments, environ) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    FILE *file = started ? fdopen(ends[0], "r") : NULL;
    if (!file)
        close(ends[0]);
    return file;
}

// Takes "key = value" below "[section]"; of anything else the first line is kept.
static void take_line(struct daemon_settings *settings, char *line, char section[64],
                      char out_other[DAEMON_SETTINGS_TEXT])
{
    char name[128], *equal = strstr(line, " =");
    line[strcspn(line, "\n")] = 0;
    if (line[0] == '[') {
        snprintf(section, 64, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
    } else if (equal && section[0]) {
        *equal = 0;
        snprintf(name, sizeof name, "%.60s.%.60s", section, line);
        take(settings, name, equal + 2 + (equal[2] == ' '));
    } else if (line[0] && line[0] != '#' && !out_other[0]) {
        wire_copy_text(out_other, DAEMON_SETTINGS_TEXT, line);
    }
}

bool daemon_settings_check(const char *config, char out_why[DAEMON_SETTINGS_TEXT])
{
    static const char warning[] = "posed: warning: ";
    char line[1024];
    int status = -1;
    pid_t pid = -1;
    out_why[0] = 0;
    FILE *file = run_posed("--check-config", config, &pid);
    if (!file)
        return true;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!out_why[0] && strncmp(line, warning, sizeof warning - 1) != 0)
            wire_copy_text(out_why, DAEMON_SETTINGS_TEXT, line);
    }
    fclose(file);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

bool daemon_settings_read(const char *config, struct daemon_settings *out,
                          char out_why[DAEMON_SETTINGS_TEXT])
{
    char line[1024], section[64] = "";
    int status = -1;
    pid_t pid = -1;
    *out = (struct daemon_settings){0};
    out_why[0] = 0;
    FILE *file = run_posed("--dump-config", config, &pid);
    if (!file)
        return false;
    while (fgets(line, sizeof line, file))
        take_line(out, line, section, out_why);
    fclose(file);
    return waitpid(pid, &status, 0) == pid && status == 0 && section[0];
}
