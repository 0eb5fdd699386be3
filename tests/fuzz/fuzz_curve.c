// SPDX-License-Identifier: Apache-2.0
// A CURVE client that knows the keys and says anything: the handshake and the messages are sealed
// properly, so that what is fuzzed stands behind the boxes: metadata, vouch, commands,
// subscriptions and requests. The first byte chooses what is damaged, the second how
// many bytes of metadata follow.
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "daemon/zmtp/session.h"

#define KEY ZMTP_KEY_BYTES
#define MAC CURVE_BOX_BYTES

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What a byte of the input may ask for.
enum damage { NOT_LISTED = 1, HELLO = 2, COOKIE = 4, VOUCH = 8, OLD_NONCE = 16, ROUTER = 32 };

struct client {
    uint8_t secret[KEY], public[KEY], short_secret[KEY], short_public[KEY];
    uint8_t server_short[KEY], shared[KEY];
    uint64_t nonce;
};

static int subscribe(void *user, bool on, const uint8_t *prefix, size_t n_prefix)
{
    size_t *n = user;
    *n += on ? 1 : n_prefix && prefix[n_prefix - 1];
    return 0;
}

static void request(void *user, struct zmtp_body *body, bool has_delimiter)
{
    size_t *n = user;
    *n += has_delimiter ? 1 : body && body->n_bytes && body->bytes[0];
    zmtp_body_free(body);
}

static void put_nonce(struct client *client, const char *prefix, uint8_t nonce[24])
{
    memcpy(nonce, prefix, 16);
    client->nonce++;
    for (int i = 0; i < 8; i++)
        nonce[16 + i] = (uint8_t)(client->nonce >> (56 - 8 * i));
}

// A frame of the client's; returns false when the daemon hangs up.
static bool give(struct zmtp_session *session, const struct zmtp_frame *frame, const uint8_t *body)
{
    static uint8_t bytes[70000];
    size_t n = (size_t)zmtp_put_header(frame, bytes);
    memcpy(bytes + n, body, (size_t)frame->n_body);
    n += (size_t)frame->n_body;
    long taken = zmtp_session_read(session, bytes, n);
    if (taken > (long)n || session->n_commands > sizeof session->commands)
        abort();
    return taken == (long)n;
}

static bool greet(struct zmtp_session *session)
{
    uint8_t greeting[ZMTP_GREETING_BYTES] = {0xff, [9] = 0x7f, [10] = 3};
    memcpy(greeting + 12, "CURVE", 5);
    return zmtp_session_read(session, greeting, sizeof greeting) == sizeof greeting;
}

static bool hello(struct client *client, struct curve_keys *keys, unsigned damage,
                  struct zmtp_session *session)
{
    uint8_t body[6 + 194] = "\5HELLO", nonce[24];
    static const uint8_t zeros[64];
    body[6] = 1;
    memcpy(body + 6 + 74, client->short_public, KEY);
    put_nonce(client, "CurveZMQHELLO---", nonce);
    memcpy(body + 6 + 74 + KEY, nonce + 16, 8);
    if (crypto_box_easy(body + 6 + 82 + KEY, zeros, 64, nonce, keys->public,
                        client->short_secret) != 0)
        abort();
    if (damage & HELLO)
        body[150] ^= 1;
    session->n_commands = 0;
    return give(session, &(struct zmtp_frame){.command = true, .n_body = sizeof body}, body);
}

// Reads WELCOME, answers with INITIATE, whose metadata are the input's.
static bool initiate(struct client *client, struct curve_keys *keys, unsigned damage,
                     const uint8_t *metadata, size_t n_metadata, struct zmtp_session *session)
{
    uint8_t welcome[KEY + CURVE_COOKIE_BYTES], nonce[24];
    static uint8_t body[4096], plain[4096];
    const uint8_t *in = session->commands + 2; // a short command
    if (session->n_commands < 2 + 8 + 16 + MAC + sizeof welcome || memcmp(in, "\7WELCOME", 8) != 0)
        abort();
    memcpy(nonce, "WELCOME-", 8);
    memcpy(nonce + 8, in + 8, 16);
    if (crypto_box_open_easy(welcome, in + 24, MAC + sizeof welcome, nonce, keys->public,
                             client->short_secret) != 0)
        abort();
    memcpy(client->server_short, welcome, KEY);
    if (crypto_box_beforenm(client->shared, client->server_short, client->short_secret) != 0)
        abort();

    uint8_t vouch[2 * KEY];
    memcpy(vouch, client->short_public, KEY);
    memcpy(vouch + KEY, keys->public, KEY);
    vouch[3] ^= damage & VOUCH ? 1 : 0;
    memcpy(plain, client->public, KEY);
    memset(plain + KEY, 7, 16);
    memcpy(nonce, "VOUCH---", 8);
    memset(nonce + 8, 7, 16);
    if (crypto_box_easy(plain + KEY + 16, vouch, sizeof vouch, nonce, client->server_short,
                        client->secret) != 0)
        abort();
    size_t n_plain = KEY + 16 + MAC + sizeof vouch;
    memcpy(plain + n_plain, metadata, n_metadata);
    n_plain += n_metadata;

    memcpy(body, "\10INITIATE", 9);
    memcpy(body + 9, welcome + KEY, CURVE_COOKIE_BYTES);
    body[20] ^= damage & COOKIE ? 1 : 0;
    put_nonce(client, "CurveZMQINITIATE", nonce);
    memcpy(body + 9 + CURVE_COOKIE_BYTES, nonce + 16, 8);
    if (crypto_box_easy_afternm(body + 17 + CURVE_COOKIE_BYTES, plain, n_plain, nonce,
                                client->shared) != 0)
        abort();
    session->n_commands = 0;
    const struct zmtp_frame frame = {.command = true,
                                     .n_body = 17 + CURVE_COOKIE_BYTES + MAC + n_plain};
    return give(session, &frame, body);
}

// The rest of the input as messages: a byte of flags, two of length, the content.
static void talk(struct client *client, unsigned damage, const uint8_t *data, size_t size,
                 struct zmtp_session *session)
{
    static uint8_t body[70000], plain[66000];
    while (size >= 3) {
        uint8_t nonce[24];
        size_t n = (size_t)data[1] << 8 | data[2];
        plain[0] = data[0];
        data += 3, size -= 3;
        n = n < size ? n : size;
        memcpy(plain + 1, data, n);
        data += n, size -= n;
        if (damage & OLD_NONCE && size < 8)
            client->nonce--;
        put_nonce(client, "CurveZMQMESSAGEC", nonce);
        memcpy(body, "\7MESSAGE", 8);
        memcpy(body + 8, nonce + 16, 8);
        if (crypto_box_easy_afternm(body + 16, plain, n + 1, nonce, client->shared) != 0)
            abort();
        session->n_commands = 0;
        if (!give(session, &(struct zmtp_frame){.n_body = 16 + MAC + n + 1}, body))
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct curve_keys keys;
    static struct zmtp_session session;
    static struct client client;
    if (size < 3)
        return 0;
    if (!keys.n_clients) {
        if (sodium_init() < 0)
            abort();
        memset(keys.secret, 3, KEY);
        memset(client.secret, 5, KEY);
        memset(client.short_secret, 9, KEY);
        crypto_scalarmult_base(keys.public, keys.secret);
        crypto_scalarmult_base(client.public, client.secret);
        crypto_scalarmult_base(client.short_public, client.short_secret);
        keys.n_clients = 1;
    }
    unsigned damage = data[0];
    size_t n_metadata = data[1] < size - 2 ? data[1] : size - 2, n_calls = 0;
    const struct zmtp_rules rules = {.kind = damage & ROUTER ? ZMTP_ROUTER : ZMTP_PUBLISHER,
                                     .socket_type = damage & ROUTER ? "ROUTER" : "XPUB",
                                     .peer_types =
                                         damage & ROUTER ? "REQ DEALER ROUTER " : "SUB XSUB ",
                                     .max_frame_bytes = damage & ROUTER ? 65000 : 4096,
                                     .keys = &keys,
                                     .subscribe = subscribe,
                                     .request = request};
    memcpy(keys.clients[0], client.public, KEY);
    keys.clients[0][0] ^= damage & NOT_LISTED ? 1 : 0;
    client.nonce = 0;
    data += 2, size -= 2;
    zmtp_session_begin(&session, &rules, false, &n_calls);
    if (!greet(&session))
        abort();
    if (hello(&client, &keys, damage, &session) == !!(damage & HELLO))
        abort(); // a good one is taken, a damaged one never
    if (!(damage & HELLO) && initiate(&client, &keys, damage, data, n_metadata, &session)) {
        if (damage & (COOKIE | VOUCH | NOT_LISTED))
            abort();
        talk(&client, damage, data + n_metadata, size - n_metadata, &session);
    }
    zmtp_session_end(&session);
    return 0;
}
