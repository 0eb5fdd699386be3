// SPDX-License-Identifier: Apache-2.0
#include "daemon/curve.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zmq.h>

#define KEY_TEXT_BYTES 41 // Z85 of 32 bytes, and the end
#define MAX_CLIENTS    256
#define ZAP_DOMAIN     "posed"

struct curve {
    struct log_sink log;
    char secret_key[KEY_TEXT_BYTES];
    char clients[MAX_CLIENTS][KEY_TEXT_BYTES];
    size_t n_clients;
    bool any_client;
    void *context;
    void *socket; // REP; the thread's once it runs
    pthread_t thread;
    bool runs;
};

// Reads keys, at most n_max. Returns their number, or -EINVAL with the reason in the log.
static long read_keys(const char *path, const struct log_sink *log, char (*out)[KEY_TEXT_BYTES],
                      size_t n_max)
{
    char line[256];
    unsigned n_line = 0;
    long n = 0;
    FILE *file = fopen(path, "re");
    if (!file) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
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
            log_to(log, LOG_LEVEL_ERROR, "%s:%u: not a CURVE key (40 characters Z85)", path,
                   n_line);
            n = -EINVAL;
        } else if ((size_t)n == n_max) {
            log_to(log, LOG_LEVEL_ERROR, "%s:%u: more than %zu keys", path, n_line, n_max);
            n = -EINVAL;
        } else {
            memcpy(out[n++], key, KEY_TEXT_BYTES);
        }
    }
    explicit_bzero(line, sizeof line);
    fclose(file);
    return n;
}

static bool may_connect(const struct curve *curve, const uint8_t public_key[32])
{
    char text[KEY_TEXT_BYTES];
    if (curve->any_client || !zmq_z85_encode(text, public_key, 32))
        return curve->any_client;
    for (size_t i = 0; i < curve->n_clients; i++)
        if (memcmp(curve->clients[i], text, KEY_TEXT_BYTES) == 0)
            return true;
    return false;
}

static void *run_zap(void *user)
{
    struct curve *curve = user;
    for (;;) {
        // version, request id, domain, address, identity, mechanism, credentials
        char parts[7][256];
        int sizes[7] = {0}, n_parts = 0, more = 1;
        size_t more_bytes = sizeof more;
        while (more) {
            char rest[256];
            int n = zmq_recv(curve->socket, n_parts < 7 ? parts[n_parts] : rest, 256, 0);
            if (n < 0) {
                if (zmq_errno() == EINTR)
                    continue;
                zmq_close(curve->socket); // ETERM: the context ends
                return NULL;
            }
            if (n_parts < 7)
                sizes[n_parts++] = n < 256 ? n : 0;
            zmq_getsockopt(curve->socket, ZMQ_RCVMORE, &more, &more_bytes);
        }
        bool ok = n_parts == 7 && sizes[5] == 5 && memcmp(parts[5], "CURVE", 5) == 0 &&
                  sizes[6] == 32 && may_connect(curve, (const uint8_t *)parts[6]);
        if (!ok)
            log_to(&curve->log, LOG_LEVEL_WARNING, "a client at %.*s was refused: unknown key",
                   sizes[3], parts[3]);
        zmq_send(curve->socket, "1.0", 3, ZMQ_SNDMORE);
        zmq_send(curve->socket, parts[1], (size_t)sizes[1], ZMQ_SNDMORE);
        zmq_send(curve->socket, ok ? "200" : "400", 3, ZMQ_SNDMORE);
        zmq_send(curve->socket, ok ? "OK" : "unknown key", ok ? 2 : 11, ZMQ_SNDMORE);
        zmq_send(curve->socket, "", 0, ZMQ_SNDMORE);
        zmq_send(curve->socket, "", 0, 0);
    }
}

// Takes the keys in and says who may connect.
static int take_keys(struct curve *curve, const char *secret_file, const char *clients_file)
{
    char secret_keys[1][KEY_TEXT_BYTES], public_key[KEY_TEXT_BYTES];
    struct stat info;
    if (stat(secret_file, &info) == 0 && (info.st_mode & (S_IRWXG | S_IRWXO)))
        log_to(&curve->log, LOG_LEVEL_WARNING, "%s: others can read the secret key (chmod 600)",
               secret_file);
    long n = read_keys(secret_file, &curve->log, secret_keys, 1);
    if (n < 0)
        return (int)n;
    if (n != 1 || zmq_curve_public(public_key, secret_keys[0]) != 0) {
        log_to(&curve->log, LOG_LEVEL_ERROR, "%s: holds no CURVE secret key", secret_file);
        return -EINVAL;
    }
    memcpy(curve->secret_key, secret_keys[0], KEY_TEXT_BYTES);
    explicit_bzero(secret_keys, sizeof secret_keys);
    curve->any_client = !clients_file[0];
    n = clients_file[0] ? read_keys(clients_file, &curve->log, curve->clients, MAX_CLIENTS) : 0;
    if (n < 0)
        return (int)n;
    curve->n_clients = (size_t)n;
    log_to(&curve->log, LOG_LEVEL_INFO, "CURVE: public key %s, %s", public_key,
           curve->any_client ? "any client that knows it" : "listed clients only");
    return 0;
}

int curve_start(struct curve **out, void *context, const char *secret_file,
                const char *clients_file, const struct log_sink *log)
{
    *out = NULL;
    if (!zmq_has("curve")) {
        log_to(log, LOG_LEVEL_ERROR, "this libzmq was built without CURVE");
        return -ENOTSUP;
    }
    struct curve *curve = calloc(1, sizeof *curve);
    if (!curve)
        return -ENOMEM;
    curve->log = *log;
    curve->context = context;
    int error = take_keys(curve, secret_file, clients_file);
    if (error)
        goto stop;
    curve->socket = zmq_socket(context, ZMQ_REP);
    if (!curve->socket || zmq_bind(curve->socket, "inproc://zeromq.zap.01") != 0 ||
        pthread_create(&curve->thread, NULL, run_zap, curve) != 0) {
        log_to(log, LOG_LEVEL_ERROR, "cannot start the authenticator");
        error = -EIO;
        goto stop;
    }
    curve->runs = true;
    *out = curve;
    return 0;
stop:
    curve_stop(&curve);
    return error;
}

void curve_stop(struct curve **curve)
{
    struct curve *c = *curve;
    if (!c)
        return;
    if (c->runs) {
        zmq_ctx_shutdown(c->context);
        pthread_join(c->thread, NULL);
    } else if (c->socket) {
        zmq_close(c->socket);
    }
    explicit_bzero(c->secret_key, sizeof c->secret_key);
    free(c);
    *curve = NULL;
}

bool curve_protect(const struct curve *curve, void *socket)
{
    const int on = 1;
    return zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &on, sizeof on) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, curve->secret_key, KEY_TEXT_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, ZAP_DOMAIN, sizeof ZAP_DOMAIN - 1) == 0;
}
