// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/refusals.h"

#include <stdio.h>
#include <string.h>

#define QUIET_NS INT64_C(60000000000)

static bool is_same(const struct refusal *a, const struct refusal *b)
{
    return a->socket && strcmp(a->socket, b->socket) == 0 && strcmp(a->owner, b->owner) == 0 &&
           a->state == b->state && memcmp(a->key, b->key, sizeof a->key) == 0;
}

// Where it is to be remembered; NULL: it has been told, or too many others have.
static struct refusal *find_place(struct refusals *refusals, const struct refusal *refusal)
{
    struct refusal *place = NULL;
    for (size_t i = 0; i < REFUSALS_KEPT; i++) {
        struct refusal *told = &refusals->told[i];
        const bool is_old = !told->socket || refusal->told_ns - told->told_ns >= QUIET_NS;
        if (!is_old && is_same(told, refusal))
            return NULL;
        if (is_old)
            place = told;
    }
    return place;
}

// What is wrong, and where it is mended.
static void explain(const struct zmtp_session *session, char *out, size_t size_bytes)
{
    const struct curve_keys *keys = session->rules->keys;
    char ours[ZMTP_KEY_CHARS + 1] = "", theirs[ZMTP_KEY_CHARS + 1];
    if (keys)
        zmtp_key_to_text(keys->public, ours);
    if (!keys) {
        snprintf(out, size_bytes,
                 "it encrypts, and this posed has no key (endpoints.curve_secret_key_file); "
                 "without --server-key it is served");
    } else if (session->state == ZMTP_INITIATE) {
        zmtp_key_to_text(session->curve.client, theirs);
        snprintf(out, size_bytes,
                 "its public key %s is not in %s (endpoints.curve_clients_file). To let it in, add "
                 "the key there as a line of its own and have posed read it (SIGHUP, systemctl "
                 "reload posed)",
                 theirs, keys->clients_file);
    } else if (session->state == ZMTP_TRAFFIC) {
        zmtp_key_to_text(session->curve.client, theirs);
        snprintf(out, size_bytes,
                 "its public key %s is no longer in %s (endpoints.curve_clients_file)", theirs,
                 keys->clients_file);
    } else {
        snprintf(out, size_bytes, "%s: it needs --server-key '%s'",
                 session->state == ZMTP_HELLO ? "it takes this posed for one with another key"
                                              : "it does not encrypt",
                 ours);
    }
}

void refusals_tell(struct refusals *refusals, const struct zmtp_session *session,
                   const char *socket, const char *owner, int64_t now_ns,
                   const struct log_sink *log)
{
    struct refusal refusal = {.socket = socket, .state = session->state, .told_ns = now_ns};
    char why[512];
    snprintf(refusal.owner, sizeof refusal.owner, "%s", owner);
    if (session->state == ZMTP_INITIATE || session->state == ZMTP_TRAFFIC)
        memcpy(refusal.key, session->curve.client, sizeof refusal.key);
    struct refusal *place = find_place(refusals, &refusal);
    if (!place)
        return;
    *place = refusal;
    explain(session, why, sizeof why);
    log_to(log, LOG_LEVEL_WARNING, "%s: a client at %s was refused: %s", socket, owner, why);
}
