// SPDX-License-Identifier: Apache-2.0
// Any bytes as a peer's, in pieces of any size: a connection takes them or hangs up, holds no more
// than its rules allow, and answers within its buffer. The first byte chooses publisher or router,
// with or without keys, and the size of the pieces.
#include <stdlib.h>
#include <string.h>

#include "daemon/zmtp/session.h"

#define MAX_FRAME 100000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int subscribe(void *user, bool on, const uint8_t *prefix, size_t n_prefix)
{
    size_t *n_calls = user;
    unsigned sum = on;
    for (size_t i = 0; i < n_prefix; i++)
        sum += prefix[i];
    *n_calls += sum > 0;
    return n_prefix > 1000 ? -1 : 0;
}

static void request(void *user, struct zmtp_body *body, bool has_delimiter)
{
    size_t *n_calls = user;
    (void)has_delimiter;
    if (body && body->n_bytes > MAX_FRAME)
        abort();
    *n_calls += body && body->n_bytes ? body->bytes[body->n_bytes - 1] : 1;
    zmtp_body_free(body);
}

// Now and then it has to wait.
static bool admit(void *user, size_t n_bytes)
{
    size_t *n_calls = user;
    return n_bytes <= MAX_FRAME && ++*n_calls % 3;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct curve_keys keys = {.any_client = true, .secret = {1}, .public = {2}};
    static struct zmtp_session session;
    struct zmtp_rules rules = {.socket_type = "XPUB",
                               .peer_types = "SUB XSUB ",
                               .max_frame_bytes = 4096,
                               .subscribe = subscribe,
                               .request = request};
    size_t n_calls = 0;
    if (size == 0)
        return 0;
    if (data[0] & 1) {
        rules.kind = ZMTP_ROUTER;
        rules.socket_type = "ROUTER";
        rules.peer_types = "REQ DEALER ROUTER ";
        rules.max_frame_bytes = MAX_FRAME;
        rules.admit = admit;
    }
    rules.keys = data[0] & 2 ? &keys : NULL;
    size_t n_piece = data[0] & 4 ? 1 : data[0] & 8 ? 7 : 4096;
    zmtp_session_begin(&session, &rules, data[0] & 16, &n_calls);
    uint8_t held[8192];
    size_t n_held = 0;
    data++, size--;
    while (size + n_held > 0) {
        uint8_t *direct;
        size_t n = size < n_piece ? size : n_piece;
        size_t n_wanted = n_held ? 0 : zmtp_session_wants(&session, &direct);
        const uint8_t *bytes = held;
        if (n_wanted) {
            n = n < n_wanted ? n : n_wanted;
            memcpy(direct, data, n);
            bytes = direct;
        } else {
            n = n < sizeof held - n_held ? n : sizeof held - n_held;
            memcpy(held + n_held, data, n);
        }
        data += n, size -= n;
        size_t n_given = n + n_held;
        long taken = zmtp_session_read(&session, bytes, n_given);
        if (taken < 0 || (taken == 0 && (size == 0 || n == 0)))
            break;
        if ((size_t)taken > n_given || session.n_commands > sizeof session.commands)
            abort();
        if (session.body && session.body->n_bytes > MAX_FRAME + CURVE_OVERHEAD_BYTES)
            abort();
        n_held = n_given - (size_t)taken;
        if (n_held)
            memmove(held, bytes + taken, n_held);
        if (data[-1] & 1)
            session.n_commands = 0; // the peer has read them
        zmtp_session_ping(&session);
    }
    zmtp_session_end(&session);
    return 0;
}
