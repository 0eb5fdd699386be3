// SPDX-License-Identifier: Apache-2.0
#include "tools/client/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/client/lookup.h"

#define PROBE_MS 2000
#define FIND_MS  100 // a socket of this machine is taken at once, or its queue is full

static const struct {
    const char *name;
    int tcp_port;
} sockets[] = {
    [ADDRESS_PUB] = {"pub", 5570},
    [ADDRESS_LATEST] = {"latest", 5571},
    [ADDRESS_IMG] = {"img", 5572},
    [ADDRESS_REQ] = {"req", 5573},
};

const char *address_name(enum address_socket socket)
{
    return sockets[socket].name;
}

bool address_is_valid(const char *address)
{
    const char *colon = strrchr(address, ':');
    if (strncmp(address, "ipc://", 6) == 0)
        return address[6] != 0;
    if (strncmp(address, "tcp://", 6) != 0 || colon <= address + 6)
        return false;
    const size_t n = strspn(colon + 1, "0123456789");
    const unsigned long port = strtoul(colon + 1, NULL, 10);
    return n > 0 && colon[1 + n] == 0 && port > 0 && port < 65536;
}

// What a connect that lasts longer than SO_SNDTIMEO says of it, by the family.
static int name_timeout(int error)
{
    return error == EINPROGRESS || error == EAGAIN ? ETIMEDOUT : error;
}

static void limit_connect(int fd, unsigned timeout_ms)
{
    const struct timeval patience = {timeout_ms / 1000, timeout_ms % 1000 * 1000 + 1};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static int connect_ipc(const char *path, unsigned timeout_ms, int *out_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    *out_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    limit_connect(*out_fd, timeout_ms);
    return connect(*out_fd, (void *)&address, sizeof address) == 0 ? 0 : name_timeout(errno);
}

// As libzmq takes it: IPv6 only in brackets. Returns as lookup_host does.
static int look_up(const char *start, unsigned timeout_ms, struct sockaddr_storage *out,
                   socklen_t *out_n)
{
    char host[ADDRESS_MAX];
    const char *colon = strrchr(start, ':');
    const bool bracket = *start == '[' && colon > start + 1 && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)(colon - start) - (bracket ? 2 : 0),
             start + (bracket ? 1 : 0));
    return lookup_host(host, colon + 1, bracket ? AF_INET6 : AF_INET, timeout_ms, out, out_n);
}

int address_resolve(const char *address, unsigned timeout_ms, char out[ADDRESS_MAX])
{
    struct sockaddr_storage found;
    socklen_t n;
    char host[INET6_ADDRSTRLEN];
    if (!address_is_valid(address))
        return -1;
    snprintf(out, ADDRESS_MAX, "%s", address);
    if (address[0] == 'i')
        return 0;
    const int error = look_up(address + 6, timeout_ms, &found, &n);
    if (error)
        return error == ENOENT ? -1 : error;
    const struct sockaddr_in *v4 = (void *)&found;
    const struct sockaddr_in6 *v6 = (void *)&found;
    const bool is_v6 = found.ss_family == AF_INET6;
    inet_ntop(found.ss_family, is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr,
              host, sizeof host);
    snprintf(out, ADDRESS_MAX, is_v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host,
             ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
    return 0;
}

static int connect_tcp(const char *start, unsigned timeout_ms, int *out_fd)
{
    struct sockaddr_storage found;
    socklen_t n;
    int error = look_up(start, timeout_ms, &found, &n);
    if (error)
        return error == ENOENT ? -1 : error;
    *out_fd = socket(found.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    limit_connect(*out_fd, timeout_ms);
    return connect(*out_fd, (void *)&found, n) == 0 ? 0 : name_timeout(errno);
}

int address_connect(const char *address, unsigned timeout_ms, int *out_fd)
{
    int error = -1;
    *out_fd = -1;
    if (!address_is_valid(address))
        return -1;
    if (address[0] == 'i')
        error = connect_ipc(address + 6, timeout_ms, out_fd);
    else
        error = connect_tcp(address + 6, timeout_ms, out_fd);
    if (error && *out_fd >= 0) {
        close(*out_fd);
        *out_fd = -1;
    }
    return error;
}

int address_probe(const char *address, unsigned timeout_ms)
{
    int fd, error = address_connect(address, timeout_ms < PROBE_MS ? timeout_ms : PROBE_MS, &fd);
    if (!error)
        close(fd);
    return error;
}

// The run directory of this machine in which somebody listens, be it a daemon that hangs; empty
// when there is none.
static void find_run_dir(char out[ADDRESS_MAX])
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    char folders[3][ADDRESS_MAX] = {"/run/posed"}, address[ADDRESS_MAX];
    if (xdg)
        snprintf(folders[1], sizeof folders[1], "%s/posed", xdg);
    snprintf(folders[2], sizeof folders[2], "/tmp/posed-%u", (unsigned)getuid());
    out[0] = 0;
    for (size_t i = 0; i < 3 && !out[0]; i++) {
        int n = snprintf(address, sizeof address, "ipc://%s/req", folders[i]);
        if (!folders[i][0] || n >= ADDRESS_MAX)
            continue;
        const int error = address_probe(address, FIND_MS);
        if (!error || error == ETIMEDOUT)
            strcpy(out, folders[i]);
    }
}

// Cuts the part off by which `where` names one of the four sockets at its usual place; what is left
// names the daemon. Returns false, with nothing done, when it names none.
static bool cut_socket(char *where)
{
    const bool is_ipc = strncmp(where, "ipc://", 6) == 0, is_tcp = strncmp(where, "tcp://", 6) == 0;
    char *last = strrchr(where, is_ipc ? '/' : ':'), port[16];
    if (!last || last <= where + 6 || (!is_ipc && !is_tcp))
        return false;
    for (size_t i = 0; i < sizeof sockets / sizeof sockets[0]; i++) {
        snprintf(port, sizeof port, "%d", sockets[i].tcp_port);
        if (strcmp(last + 1, is_ipc ? sockets[i].name : port) != 0)
            continue;
        *last = 0;
        if (is_ipc)
            memmove(where, where + 6, strlen(where + 6) + 1);
        return true;
    }
    return false;
}

// HOST:PORT without "tcp://"; an IPv6 address stands in brackets.
static bool is_host_and_port(const char *where)
{
    const char *bracket = where[0] == '[' ? strchr(where, ']') : NULL;
    const char *colon = strchr(bracket ? bracket : where, ':');
    return colon && colon > where && colon[1] && !strchr(where, '/') &&
           colon[1 + strspn(colon + 1, "0123456789")] == 0;
}

void address_find(const char *where, enum address_socket socket, char out[ADDRESS_MAX])
{
    char run_dir[ADDRESS_MAX], daemon[ADDRESS_MAX];
    struct stat info;
    const char *name = sockets[socket].name;
    if (!where)
        where = getenv("POSED_HOST");
    if (!where || !where[0]) {
        find_run_dir(run_dir);
        where = run_dir[0] ? run_dir : "127.0.0.1";
    }
    const bool has_port = is_host_and_port(where);
    snprintf(daemon, sizeof daemon, "%s%.280s", has_port ? "tcp://" : "", where);
    if (cut_socket(daemon) || has_port)
        where = daemon;
    bool is_tcp = strncmp(where, "tcp://", 6) == 0;
    const char *host = where + (is_tcp ? 6 : 0), *bracket = strrchr(host, ']');
    if (strstr(where, "://") && !(is_tcp && !strchr(bracket ? bracket : host, ':')))
        snprintf(out, ADDRESS_MAX, "%s", where);
    else if (!is_tcp && (strchr(where, '/') || (stat(where, &info) == 0 && S_ISDIR(info.st_mode))))
        // a run directory, also one that the daemon has not made yet
        snprintf(out, ADDRESS_MAX, "ipc://%.280s/%s", where, name); // sockets take 107 bytes
    else
        snprintf(out, ADDRESS_MAX, "tcp://%.280s:%d", host, sockets[socket].tcp_port);
}
