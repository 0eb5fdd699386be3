// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/curve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <sodium.h>

#include "proto/file_suffix.h"

#define KEY           ZMTP_KEY_BYTES
#define MAC           CURVE_BOX_BYTES
#define SHORT_NONCE   8
#define LONG_NONCE    16
#define HELLO_BYTES   194 // without the name of the command
#define VOUCH_BYTES   (LONG_NONCE + MAC + 2 * KEY)
#define WELCOME_BYTES (LONG_NONCE + MAC + KEY + CURVE_COOKIE_BYTES)

_Static_assert(crypto_box_PUBLICKEYBYTES == KEY && crypto_box_MACBYTES == MAC &&
                   crypto_box_NONCEBYTES == 24 && crypto_box_BEFORENMBYTES == KEY,
               "the sizes of RFC 26");

// A file that is there and is one.
static int check_file(const char *setting, const char *path, const struct log_sink *log,
                      struct stat *out)
{
    const bool is_there = stat(path, out) == 0;
    if (is_there && S_ISREG(out->st_mode))
        return 0;
    log_to(log, LOG_LEVEL_ERROR, "%s: %s: %s", setting, path,
           is_there ? "is not a file" : strerror(errno));
    return -EINVAL;
}

// Reads keys, at most n_max, and their lines, unless out_lines is NULL. Returns their number, or
// -EINVAL with the reason in the log.
static long read_keys(const char *setting, const char *path, const struct log_sink *log,
                      uint8_t (*out)[KEY], unsigned *out_lines, size_t n_max)
{
    char line[256];
    unsigned n_line = 0;
    long n = 0;
    FILE *file = fopen(path, "re");
    if (!file) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s: %s%s", setting, path, strerror(errno),
               errno == EACCES ? ": who checks or runs posed must be able to read it" : "");
        return -EINVAL;
    }
    setvbuf(file, NULL, _IONBF, 0); // no second copy of a key
    while (n >= 0 && fgets(line, sizeof line, file)) {
        n_line++;
        char *key = line + strspn(line, " \t\r\n");
        key[strcspn(key, " \t\r\n")] = 0;
        // '#' is a character of Z85, so only a word of another length is a comment
        if (key[0] == 0 || (key[0] == '#' && strlen(key) != ZMTP_KEY_CHARS))
            continue;
        if ((size_t)n == n_max) {
            log_to(log, LOG_LEVEL_ERROR, "%s: %s:%u: more than %zu keys", setting, path, n_line,
                   n_max);
            n = -EINVAL;
        } else if (!zmtp_key_from_text(key, out[n])) {
            log_to(log, LOG_LEVEL_ERROR, "%s: %s:%u: not a CURVE key (40 characters Z85)", setting,
                   path, n_line);
            n = -EINVAL;
        } else {
            if (out_lines)
                out_lines[n] = n_line;
            n++;
        }
    }
    sodium_memzero(line, sizeof line);
    fclose(file);
    return n;
}

static bool is_listed(const struct curve_keys *keys, const uint8_t client[KEY])
{
    bool found = false;
    for (size_t i = 0; i < keys->n_clients; i++)
        found |= sodium_memcmp(keys->clients[i], client, KEY) == 0;
    return found;
}

// Whether a key of the list is certainly a secret one: a public key is a number below 2^255 - 19,
// so that its last bit is never set, as it is in every other secret key; and the public key of the
// pair may be here, too. Any other secret key looks like a public one.
static bool is_secret(const struct curve_keys *keys, const uint8_t key[KEY])
{
    uint8_t public[KEY];
    return key[KEY - 1] & 0x80 ||
           (crypto_scalarmult_base(public, key) == 0 &&
            (is_listed(keys, public) || sodium_memcmp(keys->public, public, KEY) == 0));
}

// Reads the list, each client once. Returns 0, or -EINVAL with the reason in the log.
static int read_clients(struct curve_keys *out, const char *path, const struct log_sink *log)
{
    static const char clients[] = "endpoints.curve_clients_file";
    uint8_t keys[CURVE_MAX_CLIENTS][KEY];
    unsigned lines[CURVE_MAX_CLIENTS];
    struct stat info;
    if (check_file(clients, path, log, &info) != 0)
        return -EINVAL;
    const long n = read_keys(clients, path, log, keys, lines, CURVE_MAX_CLIENTS);
    int error = n < 0 ? (int)n : 0;
    for (long i = 0; i < n; i++)
        if (!is_listed(out, keys[i]))
            memcpy(out->clients[out->n_clients++], keys[i], KEY);
    for (long i = 0; i < n && !error; i++)
        if (is_secret(out, keys[i])) {
            log_to(log, LOG_LEVEL_ERROR,
                   "%s: %s:%u: a secret key, which nobody but its owner may have: the clients' "
                   "public keys belong there (.public). Make a new pair (posectl keygen) if others "
                   "could read this one",
                   clients, path, lines[i]);
            error = -EINVAL;
        }
    sodium_memzero(keys, sizeof keys);
    return error;
}

int curve_read_keys(struct curve_keys *out, const char *secret_file, const char *clients_file,
                    bool allow_readable, const struct log_sink *log)
{
    static const char secret[] = "endpoints.curve_secret_key_file";
    struct stat info;
    memset(out, 0, sizeof *out);
    pthread_mutex_init(&out->lock, NULL);
    if (sodium_init() < 0) {
        log_to(log, LOG_LEVEL_ERROR, "CURVE: no random numbers");
        return -EIO;
    }
    if (check_file(secret, secret_file, log, &info) != 0)
        return -EINVAL;
    if (file_suffix_is(secret_file, ".public")) {
        log_to(log, LOG_LEVEL_ERROR,
               "%s: %s holds the public key, which everybody knows: the secret one is in the "
               ".secret beside it",
               secret, secret_file);
        return -EINVAL;
    }
    if ((info.st_mode & (S_IRWXG | S_IRWXO)) && !allow_readable) {
        log_to(log, LOG_LEVEL_ERROR,
               "%s: others can read %s: chmod 600, or endpoints.insecure = true", secret,
               secret_file);
        return -EINVAL;
    }
    long n = read_keys(secret, secret_file, log, &out->secret, NULL, 1);
    if (n < 0)
        return (int)n;
    if (n != 1 || crypto_scalarmult_base(out->public, out->secret) != 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s: holds no CURVE secret key", secret, secret_file);
        return -EINVAL;
    }
    out->any_client = !clients_file[0];
    snprintf(out->clients_file, sizeof out->clients_file, "%s", clients_file);
    return out->any_client ? 0 : read_clients(out, clients_file, log);
}

bool curve_may_connect(struct curve_keys *keys, const uint8_t client[KEY])
{
    if (keys->any_client)
        return true;
    pthread_mutex_lock(&keys->lock);
    const bool found = is_listed(keys, client);
    pthread_mutex_unlock(&keys->lock);
    return found;
}

unsigned curve_n_lists(struct curve_keys *keys)
{
    pthread_mutex_lock(&keys->lock);
    const unsigned n = keys->n_lists;
    pthread_mutex_unlock(&keys->lock);
    return n;
}

// How many of the clients of `a` are not in the list of `b`.
static size_t count_others(const struct curve_keys *a, const struct curve_keys *b)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_clients; i++)
        n += !is_listed(b, a->clients[i]);
    return n;
}

bool curve_take_clients(struct curve_keys *keys, const struct curve_keys *fresh,
                        const struct log_sink *log)
{
    pthread_mutex_lock(&keys->lock);
    const size_t n_new = count_others(fresh, keys), n_gone = count_others(keys, fresh);
    if (n_new || n_gone) {
        memcpy(keys->clients, fresh->clients, sizeof keys->clients);
        keys->n_clients = fresh->n_clients;
        keys->n_lists++;
    }
    pthread_mutex_unlock(&keys->lock);
    if (!n_new && !n_gone)
        return false;
    log_to(log, LOG_LEVEL_NOTICE,
           "endpoints.curve_clients_file: %s read again: %zu client%s may connect, %zu new; %zu no "
           "longer",
           keys->clients_file, fresh->n_clients, fresh->n_clients == 1 ? "" : "s", n_new, n_gone);
    return true;
}

static void make_nonce(const char *prefix, const uint8_t *rest, uint8_t out[24])
{
    size_t n = strlen(prefix);
    memcpy(out, prefix, n);
    memcpy(out + n, rest, 24 - n);
}

static void put_number(uint64_t value, uint8_t out[SHORT_NONCE])
{
    for (int i = 0; i < SHORT_NONCE; i++)
        out[i] = (uint8_t)(value >> (56 - 8 * i));
}

// A client counts its nonces up.
static bool take_number(struct curve *curve, const uint8_t bytes[SHORT_NONCE])
{
    uint64_t value = 0;
    for (int i = 0; i < SHORT_NONCE; i++)
        value = value << 8 | bytes[i];
    if (value <= curve->nonce_in)
        return false;
    curve->nonce_in = value;
    return true;
}

int curve_hello(struct curve *curve, struct curve_keys *keys, const uint8_t *hello, size_t n_hello,
                uint8_t out[ZMTP_COMMAND_MAX])
{
    uint8_t nonce[24], zeros[64], cookie_key[KEY], cookie_plain[2 * KEY];
    if (n_hello != HELLO_BYTES || hello[0] != 1 || hello[1] != 0)
        return -EPROTO;
    const uint8_t *box = hello + 2 + 72 + KEY + SHORT_NONCE;
    memset(curve, 0, sizeof *curve);
    curve->keys = keys;
    memcpy(curve->client_short, hello + 2 + 72, KEY);
    make_nonce("CurveZMQHELLO---", hello + 2 + 72 + KEY, nonce);
    if (!take_number(curve, hello + 2 + 72 + KEY))
        return -EPROTO;
    if (crypto_box_open_easy(zeros, box, MAC + 64, nonce, curve->client_short, keys->secret) != 0)
        return -EACCES;
    crypto_box_keypair(curve->short_public, curve->short_secret);

    // The cookie binds INITIATE to this connection; its key is forgotten, the cookie kept.
    memcpy(cookie_plain, curve->client_short, KEY);
    memcpy(cookie_plain + KEY, curve->short_secret, KEY);
    randombytes_buf(cookie_key, sizeof cookie_key);
    randombytes_buf(curve->cookie, LONG_NONCE);
    make_nonce("COOKIE--", curve->cookie, nonce);
    crypto_secretbox_easy(curve->cookie + LONG_NONCE, cookie_plain, sizeof cookie_plain, nonce,
                          cookie_key);
    sodium_memzero(cookie_plain, sizeof cookie_plain);
    sodium_memzero(cookie_key, sizeof cookie_key);

    uint8_t plain[KEY + CURVE_COOKIE_BYTES];
    memcpy(plain, curve->short_public, KEY);
    memcpy(plain + KEY, curve->cookie, CURVE_COOKIE_BYTES);
    randombytes_buf(out, LONG_NONCE);
    make_nonce("WELCOME-", out, nonce);
    if (crypto_box_easy(out + LONG_NONCE, plain, sizeof plain, nonce, curve->client_short,
                        keys->secret) != 0)
        return -EPROTO;
    return WELCOME_BYTES;
}

int curve_initiate(struct curve *curve, const uint8_t *initiate, size_t n_initiate,
                   uint8_t *metadata)
{
    const size_t n_least = CURVE_COOKIE_BYTES + SHORT_NONCE + MAC + KEY + VOUCH_BYTES;
    uint8_t nonce[24], vouch[2 * KEY];
    if (n_initiate < n_least || sodium_memcmp(initiate, curve->cookie, CURVE_COOKIE_BYTES) != 0)
        return -EPROTO;
    const uint8_t *number = initiate + CURVE_COOKIE_BYTES;
    size_t n_box = n_initiate - CURVE_COOKIE_BYTES - SHORT_NONCE, n_plain = n_box - MAC;
    make_nonce("CurveZMQINITIATE", number, nonce);
    if (!take_number(curve, number) ||
        crypto_box_open_easy(metadata, number + SHORT_NONCE, n_box, nonce, curve->client_short,
                             curve->short_secret) != 0)
        return -EPROTO;
    memcpy(curve->client, metadata, KEY);
    make_nonce("VOUCH---", metadata + KEY, nonce);
    if (crypto_box_open_easy(vouch, metadata + KEY + LONG_NONCE, MAC + 2 * KEY, nonce,
                             curve->client, curve->short_secret) != 0 ||
        sodium_memcmp(vouch, curve->client_short, KEY) != 0 ||
        sodium_memcmp(vouch + KEY, curve->keys->public, KEY) != 0)
        return -EPROTO;
    if (!curve_may_connect(curve->keys, curve->client))
        return -EACCES;
    if (crypto_box_beforenm(curve->shared, curve->client_short, curve->short_secret) != 0)
        return -EPROTO;
    memmove(metadata, metadata + KEY + VOUCH_BYTES, n_plain - KEY - VOUCH_BYTES);
    return (int)(n_plain - KEY - VOUCH_BYTES);
}

size_t curve_put_ready(struct curve *curve, const uint8_t *metadata, size_t n_metadata,
                       uint8_t out[ZMTP_COMMAND_MAX])
{
    uint8_t nonce[24];
    put_number(++curve->nonce_out, out);
    make_nonce("CurveZMQREADY---", out, nonce);
    crypto_box_easy_afternm(out + SHORT_NONCE, metadata, n_metadata, nonce, curve->shared);
    return SHORT_NONCE + MAC + n_metadata;
}

int curve_open(struct curve *curve, uint8_t *bytes, size_t n_bytes, struct zmtp_frame *out,
               uint8_t **out_body)
{
    uint8_t nonce[24];
    if (n_bytes < SHORT_NONCE + MAC + 1 || !take_number(curve, bytes))
        return -EPROTO;
    make_nonce("CurveZMQMESSAGEC", bytes, nonce);
    uint8_t *box = bytes + SHORT_NONCE;
    size_t n_plain = n_bytes - SHORT_NONCE - MAC;
    if (crypto_box_open_easy_afternm(box, box, n_plain + MAC, nonce, curve->shared) != 0)
        return -EPROTO;
    *out = (struct zmtp_frame){box[0] & 1, box[0] & 2, n_plain - 1};
    *out_body = box + 1;
    return 0;
}

size_t curve_seal(struct curve *curve, const struct zmtp_frame *frame, const uint8_t *body,
                  uint8_t *out)
{
    static const char name[] = "\7MESSAGE";
    uint8_t nonce[24];
    size_t n_body = (size_t)frame->n_body;
    const struct zmtp_frame outer = {.n_body = n_body + CURVE_OVERHEAD_BYTES};
    uint8_t *at = out + zmtp_put_header(&outer, out);
    memcpy(at, name, sizeof name - 1);
    at += sizeof name - 1;
    put_number(++curve->nonce_out, at);
    make_nonce("CurveZMQMESSAGES", at, nonce);
    at += SHORT_NONCE;
    at[MAC] = (uint8_t)((frame->more ? 1 : 0) | (frame->command ? 2 : 0));
    memcpy(at + MAC + 1, body, n_body);
    crypto_box_detached_afternm(at + MAC, at, at + MAC, n_body + 1, nonce, curve->shared);
    return (size_t)(at + MAC + 1 + n_body - out);
}
