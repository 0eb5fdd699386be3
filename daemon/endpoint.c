// SPDX-License-Identifier: Apache-2.0
#include "daemon/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/ipc_socket.h"
#include "daemon/run_dir.h"

#define BOUND_BYTES       (CONFIG_TEXT_MAX + 80) // of an address
#define N_SOCKETS         4
#define SOCKET_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)
#define MAX_ADDRESSES     (N_SOCKETS * CONFIG_TEXT_MAX / 4) // "ipc" and a space
#define OTHER_DESCRIPTORS 256                               // of the camera, files, HTTP

struct endpoint {
    struct log_sink log;
    uint32_t max_connections;
    struct ipc_socket ipc[N_SOCKETS]; // that were made
    size_t n_ipc;
    char run_dir[CONFIG_TEXT_MAX];
    gid_t group;
    bool has_group;
    int lock_fd;

    bool has_keys;
    struct curve_keys keys;
};

static bool is_loopback(const char *host, size_t n_host)
{
    static const char *const names[] = {"localhost", "[::1]", "lo"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == n_host && memcmp(names[i], host, n_host) == 0)
            return true;
    unsigned b, c, d;
    int end = 0;
    return sscanf(host, "127.%u.%u.%u%n", &b, &c, &d, &end) == 3 && b < 256 && c < 256 && d < 256 &&
           (size_t)end == n_host;
}

// One address of a list. Returns NULL when it is well formed and allowed, else what is wrong.
static const char *check_address(const char *address, size_t n, bool is_protected)
{
    if (n == 3 && memcmp(address, "ipc", 3) == 0)
        return NULL;
    if (n <= 6 || memcmp(address, "tcp://", 6) != 0)
        return "is neither ipc nor tcp://ADDRESS:PORT";
    const char *host = address + 6, *colon = host + (n - 6);
    while (colon > host && *colon != ':')
        colon--;
    size_t n_port = n - 6 - (size_t)(colon - host);
    if (colon == host || n_port < 2)
        return "has no port";
    n_port--;
    bool is_wild = n_port == 1 && colon[1] == '*';
    unsigned long port = strtoul(colon + 1, NULL, 10);
    if (!is_wild && (strspn(colon + 1, "0123456789") != n_port || port == 0 || port > 65535))
        return "has a port outside 1..65535";
    if (!is_loopback(host, (size_t)(colon - host)) && !is_protected)
        return "is reachable from other machines: set endpoints.curve_secret_key_file, or "
               "endpoints.insecure = true";
    return NULL;
}

static int find_group(const char *name, const struct log_sink *log, gid_t *out)
{
    const struct group *group = getgrnam(name);
    if (!group) {
        log_to(log, LOG_LEVEL_ERROR, "endpoints.group: no group \"%s\" here", name);
        return -EINVAL;
    }
    *out = group->gr_gid;
    return 0;
}

struct address {
    const char *socket, *text;
    size_t n;
};

// All addresses of all sockets, well formed or not. Returns their number, at most MAX_ADDRESSES.
static size_t list_addresses(const struct config *config, struct address out[MAX_ADDRESSES])
{
    const struct {
        const char *name, *addresses;
    } sockets[] = {{"pub", config->endpoints.pub},
                   {"latest", config->endpoints.latest},
                   {"img", config->endpoints.img},
                   {"req", config->endpoints.req}};
    size_t n_addresses = 0;
    for (size_t i = 0; i < sizeof sockets / sizeof sockets[0]; i++)
        for (const char *s = sockets[i].addresses; *(s += strspn(s, " ,"));) {
            const size_t n = strcspn(s, " ,");
            if (n_addresses < MAX_ADDRESSES)
                out[n_addresses++] = (struct address){sockets[i].name, s, n};
            s += n;
        }
    return n_addresses;
}

static bool is_same_port(const struct address *a, const struct address *b)
{
    return a->n == b->n && memcmp(a->text, b->text, a->n) == 0 && a->text[a->n - 1] != '*' &&
           (a->n > 3 || a->socket == b->socket); // ipc has a file for each socket
}

static int check_addresses(const struct config *config, const struct log_sink *log)
{
    const bool is_protected =
        config->endpoints.insecure || config->endpoints.curve_secret_key_file[0] != 0;
    struct address addresses[MAX_ADDRESSES];
    char run_dir[CONFIG_TEXT_MAX];
    run_dir_find(config->endpoints.run_dir, run_dir, sizeof run_dir);
    const size_t n = list_addresses(config, addresses);
    int error = run_dir_check(run_dir, log) ? 0 : -EINVAL;
    for (size_t i = 0; i < n; i++) {
        const struct address *a = &addresses[i];
        const char *wrong = check_address(a->text, a->n, is_protected);
        if (!wrong && a->n == 3 && strlen(run_dir) + 1 + strlen(a->socket) >= SOCKET_PATH_BYTES)
            wrong = "would have a path that is too long for a socket: shorten endpoints.run_dir";
        if (wrong)
            log_to(log, LOG_LEVEL_ERROR, "endpoints.%s: %.*s %s", a->socket, (int)a->n, a->text,
                   wrong);
        for (size_t k = 0; k < i && !wrong; k++)
            if (is_same_port(a, &addresses[k])) {
                wrong = addresses[k].socket;
                log_to(log, LOG_LEVEL_ERROR, "endpoints.%s: %.*s is there already, in endpoints.%s",
                       a->socket, (int)a->n, a->text, wrong);
            }
        error = wrong ? -EINVAL : error;
    }
    return error;
}

// Reads the keys as endpoint_open does, and forgets them.
static int check_keys(const struct config *config, const struct log_sink *log)
{
    const char *clients_file = config->endpoints.curve_clients_file;
    struct curve_keys keys;
    if (!config->endpoints.curve_secret_key_file[0]) {
        if (!clients_file[0])
            return 0;
        log_to(log, LOG_LEVEL_ERROR,
               "endpoints.curve_clients_file: %s keeps nobody out without "
               "endpoints.curve_secret_key_file: set both, or neither",
               clients_file);
        return -EINVAL;
    }
    const int error = curve_read_keys(&keys, config->endpoints.curve_secret_key_file, clients_file,
                                      config->endpoints.insecure, log);
    if (!error && !keys.any_client && keys.n_clients == 0)
        log_to(log, LOG_LEVEL_WARNING,
               "endpoints.curve_clients_file: %s lists no key: it lets nobody in over tcp. Add one "
               "a line (posectl keygen), or leave the setting empty for "
               "any client that knows the daemon's public key",
               clients_file);
    explicit_bzero(&keys, sizeof keys);
    return error;
}

int endpoint_check(const struct config *config, const struct log_sink *log)
{
    gid_t ignored;
    int error = check_addresses(config, log);
    if (config->endpoints.group[0] && find_group(config->endpoints.group, log, &ignored) != 0)
        error = -EINVAL;
    return check_keys(config, log) == 0 ? error : -EINVAL;
}

// A connection is a descriptor: as many as are configured must be far from what the process may
// have.
static void make_room(struct endpoint *endpoint)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)N_SOCKETS * endpoint->max_connections + OTHER_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_cur >= wanted)
        return;
    rlim_t left = limit.rlim_cur > 2 * OTHER_DESCRIPTORS ? limit.rlim_cur - OTHER_DESCRIPTORS
                                                         : limit.rlim_cur / 2;
    endpoint->max_connections = (uint32_t)(left / N_SOCKETS > 4 ? left / N_SOCKETS : 4);
    log_to(&endpoint->log, LOG_LEVEL_WARNING,
           "endpoints.max_connections: %u, as the process may have %llu descriptors",
           endpoint->max_connections, (unsigned long long)limit.rlim_cur);
}

static void tell_key(const struct curve_keys *keys, const struct log_sink *log)
{
    char text[ZMTP_KEY_CHARS + 1];
    zmtp_key_to_text(keys->public, text);
    log_to(log, LOG_LEVEL_INFO, "CURVE: public key %s, %s", text,
           keys->any_client ? "any client that knows it" : "listed clients only");
}

int endpoint_open(struct endpoint **out, const struct config *config, const struct log_sink *log)
{
    *out = NULL;
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        return -ENOMEM;
    endpoint->log = *log;
    endpoint->max_connections = config->endpoints.max_connections;
    run_dir_find(config->endpoints.run_dir, endpoint->run_dir, sizeof endpoint->run_dir);
    if (config->endpoints.insecure)
        log_to(log, LOG_LEVEL_WARNING,
               "endpoints.insecure = true: addresses beyond loopback need no key, and a secret key "
               "may be readable; who reaches a socket may read and command");
    endpoint->lock_fd = run_dir_lock(endpoint->run_dir, log);
    int error = endpoint->lock_fd < 0 ? endpoint->lock_fd : 0;
    endpoint->has_group = config->endpoints.group[0] != 0;
    if (!error && endpoint->has_group)
        error = find_group(config->endpoints.group, log, &endpoint->group);
    if (!error && config->endpoints.curve_secret_key_file[0]) {
        error =
            curve_read_keys(&endpoint->keys, config->endpoints.curve_secret_key_file,
                            config->endpoints.curve_clients_file, config->endpoints.insecure, log);
        endpoint->has_keys = true;
        if (!error)
            tell_key(&endpoint->keys, log);
    }
    if (error) {
        endpoint_close(&endpoint);
        return error;
    }
    make_room(endpoint);
    *out = endpoint;
    return 0;
}

int endpoint_reload(struct endpoint *endpoint, const struct config *config)
{
    const char *secret_file = config->endpoints.curve_secret_key_file;
    struct curve_keys fresh;
    if (!endpoint->has_keys)
        return 0;
    const int error = curve_read_keys(&fresh, secret_file, config->endpoints.curve_clients_file,
                                      config->endpoints.insecure, &endpoint->log);
    if (error)
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "the clients that may connect stay the old ones");
    else {
        curve_take_clients(&endpoint->keys, &fresh, &endpoint->log);
        if (memcmp(fresh.secret, endpoint->keys.secret, sizeof fresh.secret) != 0)
            log_to(&endpoint->log, LOG_LEVEL_WARNING,
                   "endpoints.curve_secret_key_file: %s holds another key: it needs a restart; "
                   "the old one stays in force",
                   secret_file);
    }
    explicit_bzero(&fresh, sizeof fresh);
    return error;
}

void endpoint_close(struct endpoint **endpoint)
{
    struct endpoint *e = *endpoint;
    if (!e)
        return;
    for (size_t i = 0; i < e->n_ipc; i++)
        ipc_socket_remove(&e->ipc[i]);
    if (e->lock_fd >= 0)
        close(e->lock_fd); // the file stays: removing it would race with the next daemon
    explicit_bzero(&e->keys, sizeof e->keys);
    free(e);
    *endpoint = NULL;
}

struct zmtp_server_settings endpoint_server_settings(struct endpoint *endpoint)
{
    return (struct zmtp_server_settings){
        .max_connections = endpoint->max_connections,
        .keys = endpoint->has_keys ? &endpoint->keys : NULL,
        .log = endpoint->log,
    };
}

// Our lock says that no daemon is behind a socket file that is there. Returns a descriptor, or a
// negative errno.
static int bind_ipc(struct endpoint *endpoint, const char *path)
{
    struct ipc_socket made;
    int fd = ipc_socket_bind(&made, path, endpoint->has_group ? &endpoint->group : NULL);
    if (fd >= 0 && endpoint->n_ipc < N_SOCKETS)
        endpoint->ipc[endpoint->n_ipc++] = made;
    return fd;
}

// The address of a network interface. Returns 0 or -ENODEV.
static int find_interface(const char *name, struct sockaddr_in *out)
{
    struct ifaddrs *all, *one;
    int error = -ENODEV;
    if (getifaddrs(&all) != 0)
        return -errno;
    for (one = all; one && error; one = one->ifa_next)
        if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && !strcmp(one->ifa_name, name)) {
            memcpy(out, one->ifa_addr, sizeof *out);
            error = 0;
        }
    freeifaddrs(all);
    return error;
}

// HOST:PORT, as endpoint_check has let it through: a numeric address, [v6], *, localhost, or an
// interface. Returns the size of the address, or a negative errno.
static int parse_tcp(const char *text, struct sockaddr_storage *out)
{
    char host[CONFIG_TEXT_MAX];
    const char *colon = strrchr(text, ':');
    uint16_t port = strcmp(colon + 1, "*") == 0 ? 0 : htons((uint16_t)strtoul(colon + 1, NULL, 10));
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    size_t n = strlen(host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = 0;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = port;
        return inet_pton(AF_INET6, host + 1, &v6->sin6_addr) == 1 ? (int)sizeof *v6 : -EINVAL;
    }
    int error = 0;
    if (strcmp(host, "*") == 0)
        v4->sin_addr.s_addr = htonl(INADDR_ANY);
    else if (strcmp(host, "localhost") == 0)
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (inet_pton(AF_INET, host, &v4->sin_addr) != 1)
        error = find_interface(host, v4);
    v4->sin_family = AF_INET;
    v4->sin_port = port;
    return error ? error : (int)sizeof *v4;
}

// out_bound: the address with the port that was chosen for a `*`. Returns a descriptor, or a
// negative errno.
static int bind_tcp(const char *text, char out_bound[BOUND_BYTES])
{
    struct sockaddr_storage address;
    const int on = 1;
    int n = parse_tcp(text, &address);
    if (n < 0)
        return n;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    socklen_t size = sizeof address;
    if (bind(fd, (void *)&address, (socklen_t)n) != 0 ||
        getsockname(fd, (void *)&address, &size) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    char host[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *v4 = (void *)&address;
    const struct sockaddr_in6 *v6 = (void *)&address;
    bool is_v6 = address.ss_family == AF_INET6;
    inet_ntop(address.ss_family, is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr,
              host, sizeof host);
    snprintf(out_bound, BOUND_BYTES, is_v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host,
             ntohs(is_v6 ? v6->sin6_port : v4->sin_port));
    return fd;
}

static int bind_address(struct endpoint *endpoint, struct zmtp_server *server, int socket,
                        const char *name, const char *address, char out_bound[BOUND_BYTES])
{
    bool is_ipc = strcmp(address, "ipc") == 0;
    int fd;
    snprintf(out_bound, BOUND_BYTES, "%s", address);
    if (is_ipc) {
        char path[CONFIG_TEXT_MAX + 64];
        snprintf(path, sizeof path, "%s/%s", endpoint->run_dir, name);
        snprintf(out_bound, BOUND_BYTES, "ipc://%s", path);
        fd = bind_ipc(endpoint, path);
    } else {
        fd = bind_tcp(address + strlen("tcp://"), out_bound);
    }
    int error = fd < 0 ? fd : zmtp_server_listen(server, socket, fd, is_ipc);
    if (!error)
        return 0;
    if (fd >= 0)
        close(fd);
    log_to(&endpoint->log, LOG_LEVEL_ERROR, "endpoints.%s: cannot bind %s: %s%s", name, out_bound,
           strerror(-error),
           error == -EADDRINUSE ? " (is another posed running? endpoints.* sets other ports)"
           : error == -ENODEV   ? " (tcp://ADDRESS:PORT wants an address of this machine in "
                                  "numbers, or the name of a network interface)"
                                : "");
    return error;
}

int endpoint_bind(struct endpoint *endpoint, struct zmtp_server *server, int socket,
                  const char *name, const char *addresses)
{
    const char *s = addresses;
    char all[4 * BOUND_BYTES] = "";
    size_t n_all = 0;
    while (*(s += strspn(s, " ,"))) {
        char address[CONFIG_TEXT_MAX], bound[BOUND_BYTES];
        size_t n = strcspn(s, " ,");
        snprintf(address, sizeof address, "%.*s", (int)n, s);
        int error = bind_address(endpoint, server, socket, name, address, bound);
        if (error)
            return error;
        if (n_all < sizeof all)
            n_all += (size_t)snprintf(all + n_all, sizeof all - n_all, " %s", bound);
        s += n;
    }
    if (all[0])
        log_to(&endpoint->log, LOG_LEVEL_INFO, "%s:%s", name, all);
    return 0;
}
