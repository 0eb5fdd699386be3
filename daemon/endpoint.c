// SPDX-License-Identifier: Apache-2.0
#include "daemon/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#include "daemon/curve.h"

#define BOUND_BYTES (CONFIG_TEXT_MAX + 80) // of an address

struct endpoint {
    void *context;
    struct log_sink log;
    char run_dir[CONFIG_TEXT_MAX];
    gid_t group;
    bool has_group;
    int lock_fd;

    struct curve *curve; // NULL: not encrypted
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

int endpoint_check(const struct config *config, const struct log_sink *log)
{
    const struct {
        const char *name, *addresses;
    } sockets[] = {{"pub", config->endpoints.pub},
                   {"latest", config->endpoints.latest},
                   {"img", config->endpoints.img},
                   {"req", config->endpoints.req}};
    bool is_protected =
        config->endpoints.insecure || config->endpoints.curve_secret_key_file[0] != 0;
    int error = 0;
    for (size_t i = 0; i < sizeof sockets / sizeof sockets[0]; i++) {
        const char *s = sockets[i].addresses;
        while (*(s += strspn(s, " ,"))) {
            size_t n = strcspn(s, " ,");
            const char *wrong = check_address(s, n, is_protected);
            if (wrong) {
                log_to(log, LOG_LEVEL_ERROR, "endpoints.%s: %.*s %s", sockets[i].name, (int)n, s,
                       wrong);
                error = -EINVAL;
            }
            s += n;
        }
    }
    return error;
}

void endpoint_run_dir(const char *configured, char *out, size_t size_bytes)
{
    const char *systemd = getenv("RUNTIME_DIRECTORY"), *xdg = getenv("XDG_RUNTIME_DIR");
    if (configured[0])
        snprintf(out, size_bytes, "%s", configured);
    else if (systemd && systemd[0] == '/')
        snprintf(out, size_bytes, "%.*s", (int)strcspn(systemd, ":"), systemd);
    else if (access("/run/posed", W_OK) == 0 || access("/run", W_OK) == 0)
        snprintf(out, size_bytes, "/run/posed");
    else if (xdg && xdg[0] == '/')
        snprintf(out, size_bytes, "%s/posed", xdg);
    else
        snprintf(out, size_bytes, "/tmp/posed-%u", (unsigned)getuid());
}

// The run directory is ours alone: a folder somebody else prepared in /tmp is refused.
static int open_run_dir(struct endpoint *endpoint)
{
    char path[CONFIG_TEXT_MAX + 8], text[32] = "";
    struct stat info;
    if (mkdir(endpoint->run_dir, 0750) != 0 && errno != EEXIST) {
        int error = -errno;
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "%s: %s (endpoints.run_dir)", endpoint->run_dir,
               strerror(errno));
        return error;
    }
    const char *wrong = NULL;
    if (lstat(endpoint->run_dir, &info) != 0 || !S_ISDIR(info.st_mode))
        wrong = "not a folder";
    else if (info.st_uid != geteuid() && info.st_uid != 0)
        wrong = "belongs to another user";
    else if (info.st_mode & S_IWOTH)
        wrong = "everybody can write there";
    if (wrong) {
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "%s: %s (endpoints.run_dir)", endpoint->run_dir,
               wrong);
        return -EPERM;
    }
    snprintf(path, sizeof path, "%s/lock", endpoint->run_dir);
    endpoint->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (endpoint->lock_fd < 0) {
        int error = -errno;
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "%s: %s (endpoints.run_dir)", path,
               strerror(errno));
        return error;
    }
    if (flock(endpoint->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(endpoint->lock_fd, text, sizeof text - 1, 0);
        long pid = n > 0 ? strtol(text, NULL, 10) : 0;
        log_to(&endpoint->log, LOG_LEVEL_ERROR,
               "another posed (process %ld) is running with %s: stop it, or give this one its own "
               "--run-dir and ports",
               pid, endpoint->run_dir);
        return -EBUSY;
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(endpoint->lock_fd, 0) != 0 || pwrite(endpoint->lock_fd, text, (size_t)n, 0) != n)
        log_to(&endpoint->log, LOG_LEVEL_WARNING, "%s: %s", path, strerror(errno));
    return 0;
}

static int find_group(struct endpoint *endpoint, const char *name)
{
    if (!name[0])
        return 0;
    const struct group *group = getgrnam(name);
    if (!group) {
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "endpoints.group: no group \"%s\" here", name);
        return -EINVAL;
    }
    endpoint->group = group->gr_gid;
    endpoint->has_group = true;
    return 0;
}

int endpoint_open(struct endpoint **out, const struct config *config, const struct log_sink *log)
{
    *out = NULL;
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        return -ENOMEM;
    endpoint->log = *log;
    endpoint->lock_fd = -1;
    endpoint_run_dir(config->endpoints.run_dir, endpoint->run_dir, sizeof endpoint->run_dir);
    int error = open_run_dir(endpoint);
    if (!error)
        error = find_group(endpoint, config->endpoints.group);
    if (error)
        goto close;
    endpoint->context = zmq_ctx_new();
    error = endpoint->context ? 0 : -ENOMEM;
    if (!error && config->endpoints.curve_secret_key_file[0])
        error = curve_start(&endpoint->curve, endpoint->context,
                            config->endpoints.curve_secret_key_file,
                            config->endpoints.curve_clients_file, &endpoint->log);
    if (error)
        goto close;
    *out = endpoint;
    return 0;
close:
    endpoint_close(&endpoint);
    return error;
}

void endpoint_close(struct endpoint **endpoint)
{
    struct endpoint *e = *endpoint;
    if (!e)
        return;
    curve_stop(&e->curve);
    if (e->context)
        zmq_ctx_term(e->context);
    if (e->lock_fd >= 0)
        close(e->lock_fd); // the file stays: removing it would race with the next daemon
    free(e);
    *endpoint = NULL;
}

void *endpoint_socket(struct endpoint *endpoint, int type)
{
    void *socket = zmq_socket(endpoint->context, type);
    const int linger_ms = 200, handshake_ms = 5000, heartbeat_ms = 5000, timeout_ms = 15000;
    if (!socket)
        return NULL;
    int failed = zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms) ||
                 zmq_setsockopt(socket, ZMQ_HANDSHAKE_IVL, &handshake_ms, sizeof handshake_ms) ||
                 zmq_setsockopt(socket, ZMQ_HEARTBEAT_IVL, &heartbeat_ms, sizeof heartbeat_ms) ||
                 zmq_setsockopt(socket, ZMQ_HEARTBEAT_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    if (!failed && endpoint->curve)
        failed = !curve_protect(endpoint->curve, socket);
    if (failed) {
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "libzmq refuses a socket option: %s",
               zmq_strerror(zmq_errno()));
        zmq_close(socket);
        return NULL;
    }
    return socket;
}

// out_bound: the address as libzmq has it, with the port that it chose for a `*`.
static int bind_address(struct endpoint *endpoint, void *socket, const char *name,
                        const char *address, char out_bound[BOUND_BYTES])
{
    char path[CONFIG_TEXT_MAX + 64] = "", full[BOUND_BYTES];
    bool is_ipc = strcmp(address, "ipc") == 0;
    if (is_ipc)
        snprintf(path, sizeof path, "%s/%s", endpoint->run_dir, name);
    snprintf(full, sizeof full, "%s%s", is_ipc ? "ipc://" : "", is_ipc ? path : address);
    if (zmq_bind(socket, full) != 0) {
        int error = zmq_errno();
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "endpoints.%s: cannot bind %s: %s%s", name, full,
               zmq_strerror(error),
               error == EADDRINUSE ? " (is another posed running? endpoints.* sets other ports)"
                                   : "");
        return error > 0 && error < 4096 ? -error : -EIO;
    }
    // libzmq creates the socket file 0755, with which only the owner can connect.
    if (is_ipc && (chmod(path, 0660) != 0 ||
                   (endpoint->has_group && chown(path, (uid_t)-1, endpoint->group) != 0))) {
        int error = -errno;
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
        return error;
    }
    size_t n_bytes = BOUND_BYTES;
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, out_bound, &n_bytes) != 0)
        out_bound[0] = 0;
    return 0;
}

int endpoint_bind(struct endpoint *endpoint, void *socket, const char *name, const char *addresses)
{
    const char *s = addresses;
    char all[4 * BOUND_BYTES] = "";
    size_t n_all = 0;
    while (*(s += strspn(s, " ,"))) {
        char address[CONFIG_TEXT_MAX], bound[BOUND_BYTES];
        size_t n = strcspn(s, " ,");
        snprintf(address, sizeof address, "%.*s", (int)n, s);
        int error = bind_address(endpoint, socket, name, address, bound);
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
