// SPDX-License-Identifier: Apache-2.0
#include "daemon/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#define KEY_TEXT_BYTES 41 // Z85 of 32 bytes, and the end
#define MAX_CLIENTS    256
#define ZAP_DOMAIN     "posed"
#define BOUND_BYTES    (CONFIG_TEXT_MAX + 80) // of an address

struct endpoint {
    void *context;
    struct log_sink log;
    char run_dir[CONFIG_TEXT_MAX];
    gid_t group;
    bool has_group;
    int lock_fd;

    char secret_key[KEY_TEXT_BYTES]; // empty = no CURVE
    char clients[MAX_CLIENTS][KEY_TEXT_BYTES];
    size_t n_clients;
    bool any_client;
    void *zap; // REP socket of the authenticator; its thread's once it runs
    pthread_t zap_thread;
    bool zap_running;
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

// Reads Z85 keys, the first word of each line; '#' starts a line of comment. Returns their number
// or a negative errno.
static long read_keys(struct endpoint *endpoint, const char *path, char (*out)[KEY_TEXT_BYTES],
                      size_t n_max)
{
    char line[256];
    unsigned n_line = 0;
    long n = 0;
    FILE *file = fopen(path, "re");
    if (!file) {
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
        return -EINVAL;
    }
    while (n >= 0 && fgets(line, sizeof line, file)) {
        n_line++;
        char *key = line + strspn(line, " \t\r\n");
        key[strcspn(key, " \t\r\n")] = 0;
        uint8_t binary[32];
        // '#' is a character of Z85, so only a word of another length is a comment
        if (key[0] == 0 || (key[0] == '#' && strlen(key) != KEY_TEXT_BYTES - 1))
            continue;
        if (strlen(key) != KEY_TEXT_BYTES - 1 || !zmq_z85_decode(binary, key)) {
            log_to(&endpoint->log, LOG_LEVEL_ERROR, "%s:%u: not a CURVE key (40 characters Z85)",
                   path, n_line);
            n = -EINVAL;
        } else if ((size_t)n == n_max) {
            log_to(&endpoint->log, LOG_LEVEL_ERROR, "%s:%u: more than %zu keys", path, n_line,
                   n_max);
            n = -EINVAL;
        } else {
            memcpy(out[n++], key, KEY_TEXT_BYTES);
        }
    }
    fclose(file);
    return n;
}

static bool may_connect(const struct endpoint *endpoint, const uint8_t public_key[32])
{
    char text[KEY_TEXT_BYTES];
    if (endpoint->any_client || !zmq_z85_encode(text, public_key, 32))
        return endpoint->any_client;
    for (size_t i = 0; i < endpoint->n_clients; i++)
        if (memcmp(endpoint->clients[i], text, KEY_TEXT_BYTES) == 0)
            return true;
    return false;
}

// The authenticator, RFC 27/ZAP: every CURVE handshake asks here by client key.
static void *run_zap(void *user)
{
    struct endpoint *endpoint = user;
    for (;;) {
        // version, request id, domain, address, identity, mechanism, credentials
        char parts[7][256];
        int sizes[7] = {0}, n_parts = 0, more = 1;
        size_t more_bytes = sizeof more;
        while (more) {
            char rest[256];
            int n = zmq_recv(endpoint->zap, n_parts < 7 ? parts[n_parts] : rest, 256, 0);
            if (n < 0) {
                if (zmq_errno() == EINTR)
                    continue;
                zmq_close(endpoint->zap); // ETERM: the context ends
                return NULL;
            }
            if (n_parts < 7)
                sizes[n_parts++] = n < 256 ? n : 0;
            zmq_getsockopt(endpoint->zap, ZMQ_RCVMORE, &more, &more_bytes);
        }
        bool ok = n_parts == 7 && sizes[5] == 5 && memcmp(parts[5], "CURVE", 5) == 0 &&
                  sizes[6] == 32 && may_connect(endpoint, (const uint8_t *)parts[6]);
        if (!ok)
            log_to(&endpoint->log, LOG_LEVEL_WARNING, "a client at %.*s was refused: unknown key",
                   sizes[3], parts[3]);
        zmq_send(endpoint->zap, "1.0", 3, ZMQ_SNDMORE);
        zmq_send(endpoint->zap, parts[1], (size_t)sizes[1], ZMQ_SNDMORE);
        zmq_send(endpoint->zap, ok ? "200" : "400", 3, ZMQ_SNDMORE);
        zmq_send(endpoint->zap, ok ? "OK" : "unknown key", ok ? 2 : 11, ZMQ_SNDMORE);
        zmq_send(endpoint->zap, "", 0, ZMQ_SNDMORE);
        zmq_send(endpoint->zap, "", 0, 0);
    }
}

static int start_curve(struct endpoint *endpoint, const struct config *config)
{
    const char *secret_file = config->endpoints.curve_secret_key_file;
    const char *clients_file = config->endpoints.curve_clients_file;
    char public_key[KEY_TEXT_BYTES];
    struct stat info;
    if (!secret_file[0])
        return 0;
    if (!zmq_has("curve")) {
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "this libzmq was built without CURVE");
        return -ENOTSUP;
    }
    if (stat(secret_file, &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)))
        log_to(&endpoint->log, LOG_LEVEL_WARNING, "%s: others can read the secret key (chmod 600)",
               secret_file);
    char secret_keys[1][KEY_TEXT_BYTES];
    long n = read_keys(endpoint, secret_file, secret_keys, 1);
    if (n != 1 || zmq_curve_public(public_key, secret_keys[0]) != 0) {
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "%s: holds no CURVE secret key", secret_file);
        return -EINVAL;
    }
    memcpy(endpoint->secret_key, secret_keys[0], KEY_TEXT_BYTES);
    endpoint->any_client = !clients_file[0];
    n = clients_file[0] ? read_keys(endpoint, clients_file, endpoint->clients, MAX_CLIENTS) : 0;
    if (n < 0)
        return (int)n;
    endpoint->n_clients = (size_t)n;
    endpoint->zap = zmq_socket(endpoint->context, ZMQ_REP);
    if (!endpoint->zap || zmq_bind(endpoint->zap, "inproc://zeromq.zap.01") != 0 ||
        pthread_create(&endpoint->zap_thread, NULL, run_zap, endpoint) != 0) {
        log_to(&endpoint->log, LOG_LEVEL_ERROR, "cannot start the authenticator");
        return -EIO;
    }
    endpoint->zap_running = true;
    log_to(&endpoint->log, LOG_LEVEL_INFO, "CURVE: public key %s, %s", public_key,
           endpoint->any_client ? "any client that knows it" : "listed clients only");
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
    error = endpoint->context ? start_curve(endpoint, config) : -ENOMEM;
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
    if (e->zap && !e->zap_running)
        zmq_close(e->zap);
    if (e->zap_running)
        zmq_ctx_shutdown(e->context);
    if (e->zap_running)
        pthread_join(e->zap_thread, NULL);
    if (e->context)
        zmq_ctx_term(e->context);
    if (e->lock_fd >= 0)
        close(e->lock_fd); // the file stays: removing it would race with the next daemon
    explicit_bzero(e->secret_key, sizeof e->secret_key);
    free(e);
    *endpoint = NULL;
}

void *endpoint_socket(struct endpoint *endpoint, int type)
{
    void *socket = zmq_socket(endpoint->context, type);
    const int linger_ms = 200, handshake_ms = 5000, heartbeat_ms = 5000, timeout_ms = 15000, on = 1;
    if (!socket)
        return NULL;
    int failed = zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms) ||
                 zmq_setsockopt(socket, ZMQ_HANDSHAKE_IVL, &handshake_ms, sizeof handshake_ms) ||
                 zmq_setsockopt(socket, ZMQ_HEARTBEAT_IVL, &heartbeat_ms, sizeof heartbeat_ms) ||
                 zmq_setsockopt(socket, ZMQ_HEARTBEAT_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    if (!failed && endpoint->secret_key[0])
        failed =
            zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &on, sizeof on) ||
            zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, endpoint->secret_key, KEY_TEXT_BYTES) ||
            zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, ZAP_DOMAIN, sizeof ZAP_DOMAIN - 1);
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
