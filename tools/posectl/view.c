// SPDX-License-Identifier: Apache-2.0
// posectl view: the daemon's page in the browser. Which port it has, the daemon says.
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/client/address.h"
#include "tools/posectl/posectl.h"

#define USUAL_PORT 8765

static unsigned port; // 0 = not said

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    if (key != 'p')
        return posectl_option(key, arg, state);
    port = (unsigned)argument_count(state, "port", arg, 1, 65535);
    return 0;
}

static enum posectl_exit ask_port(const struct posectl *ctl)
{
    static posed_Reply reply;
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_get_params_tag;
    strcpy(request.what.get_params.prefix, "http.port");
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return result;
    const posed_Params *params = &reply.what.get_params;
    port = params->params_count ? (unsigned)strtoul(params->params[0].value, NULL, 10) : 0;
    if (port)
        return POSECTL_OK;
    posectl_complain("this posed has no page: start it with --set http.port=%u", USUAL_PORT);
    return POSECTL_FAILED;
}

// xdg-open's own words are of programs that nobody has chosen.
static bool open_browser(const char *url)
{
    char *const arguments[] = {(char *)"xdg-open", (char *)(uintptr_t)url, NULL};
    posix_spawn_file_actions_t quiet;
    pid_t pid;
    int status = -1;
    if (posix_spawn_file_actions_init(&quiet) != 0)
        return false;
    bool started =
        posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
        posix_spawn_file_actions_adddup2(&quiet, STDERR_FILENO, STDOUT_FILENO) == 0 &&
        posix_spawnp(&pid, "xdg-open", &quiet, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&quiet);
    return started && waitpid(pid, &status, 0) == pid && status == 0;
}

// The page is on loopback: from another machine it takes `ssh -L`.
int posectl_view(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"port", 'p', "PORT", 0,
         "The daemon's http.port; left out: the daemon is asked (8765 where it is on another "
         "machine)",
         0},
        {0}};
    static const struct argp argp = {.options = options,
                                     .parser = on_option,
                                     .children = posectl_common,
                                     .doc = "Opens the daemon's page in the browser."};
    char address[ADDRESS_MAX], host[256];
    posectl_parse(ctl, &argp, argc, argv);
    address_find(ctl->endpoint, ADDRESS_REQ, address);
    if (sscanf(address, "tcp://%255[^:]", host) == 1 && strcmp(host, "127.0.0.1") != 0 &&
        strcmp(host, "localhost") != 0) {
        port = port ? port : USUAL_PORT;
        printf("ssh -L %u:127.0.0.1:%u %s\n", port, port, host);
        posectl_complain("the page is on %s's loopback alone: run this line, then posectl view "
                         "--host 127.0.0.1 --port %u",
                         host, port);
        return POSECTL_FAILED;
    }
    enum posectl_exit result = port ? POSECTL_OK : ask_port(ctl);
    if (result)
        return (int)result;
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u/", port);
    printf("%s\n", url);
    if (fflush(stdout) != 0)
        return POSECTL_FAILED;
    if (open_browser(url))
        return POSECTL_OK;
    posectl_complain("no browser opens here: open this address by hand");
    return POSECTL_OK; // the address is what was asked for
}
