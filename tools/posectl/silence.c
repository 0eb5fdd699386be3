// SPDX-License-Identifier: Apache-2.0
// libzmq tells that a handshake failed, a plain connection what the other side is (greeting.h):
// together they tell a wrong key from a missing one. A daemon hangs up without a word on whoever
// encrypts for another key, since it cannot read who it is.
#include "tools/posectl/silence.h"

#include <errno.h>
#include <string.h>

#include "tools/client/greeting.h"

#define LOOK_MS 500

void silence_explain_nobody(const char *address, int error)
{
    if (error == ECONNREFUSED || error == ENOENT)
        posectl_complain(
            "no posed at %s: %s. Start one (posed --source synth:room --loop), wait for "
            "one that is starting (--wait 20), or say with --host or POSED_HOST where "
            "it is",
            address, strerror(error));
    else if (error == EACCES)
        posectl_complain("%s: %s. Its group may connect: see endpoints.group in posed.conf",
                         address, strerror(error));
    else if (error == ETIMEDOUT && strncmp(address, "ipc:", 4) == 0)
        posectl_complain("%s takes no more connections: a posed that hangs, or another program",
                         address);
    else if (error > 0)
        posectl_complain("%s: %s", address, strerror(error));
    else
        posectl_complain("%s: no such host, or no address: tcp://HOST:PORT, ipc://PATH, a run "
                         "directory or a host is wanted",
                         address);
}

static void explain_stranger(const struct greeting *greeting, const char *address)
{
    if (greeting->said[0])
        posectl_complain("another program listens at %s: it is no ZeroMQ socket, and begins with "
                         "\"%s\". A posed has its `req` socket at tcp://HOST:5573",
                         address, greeting->said);
    else if (greeting->has_closed)
        posectl_complain("%s takes connections and closes them at once: a posed with as many "
                         "clients as it may have (its log says so), or another program",
                         address);
    else
        posectl_complain("another program listens at %s: it does not greet as ZeroMQ sockets do. A "
                         "posed has its `req` socket at tcp://HOST:5573, and its page elsewhere "
                         "(http.port)",
                         address);
}

// Both sides have CURVE, or none of them.
static void explain_handshake(const struct posectl *ctl, const struct connection *connection,
                              const char *address, const char *name, const char *public_key)
{
    switch (connection->state) {
    case CONNECTION_REFUSED:
        posectl_complain("the posed at %s does not know this client's key: add %s to its "
                         "endpoints.curve_clients_file and reload it (SIGHUP)%s",
                         address, public_key,
                         ctl->key_file ? ""
                                       : "; without --key-file FILE the key is another one each "
                                         "time (posectl keygen NAME makes one)");
        break;
    case CONNECTION_CUT:
        posectl_complain(ctl->server_key
                             ? "the posed at %s has another key than --server-key: what counts is "
                               "the public key in its log at the start (\"CURVE: public key\"), "
                               "also in the .public that posectl keygen made"
                             : "%s hangs up before it says who it is: see its log",
                         address);
        break;
    case CONNECTION_FOREIGN:
        posectl_complain("the ZeroMQ socket at %s is not the `%s` socket of a posed (defaults: pub "
                         "tcp://127.0.0.1:5570, img 5572, req 5573)",
                         address, name);
        break;
    case CONNECTION_LOST:
        posectl_complain("%s hung up before it answered: the posed there has ended, or what was "
                         "asked is longer than its requests.upload_max_bytes (its log says which)",
                         address);
        break;
    default:
        posectl_complain("something listens at %s but does not answer: a posed busy with an "
                         "object, a map, a search or a registration (--timeout waits longer; what "
                         "was asked may be done all the same), or not the `%s` socket of a posed",
                         address, name);
    }
}

void silence_explain(const struct posectl *ctl, const struct connection *connection,
                     const char *address, const char *name, const char *public_key)
{
    struct greeting greeting;
    const bool has_key = ctl->server_key;
    greeting_look(address, has_key, LOOK_MS, &greeting);
    const bool has_curve = strcmp(greeting.mechanism, "CURVE") == 0;
    if (connection->state == CONNECTION_LOST || connection->state == CONNECTION_REFUSED)
        explain_handshake(ctl, connection, address, name, public_key);
    else if (greeting.error)
        silence_explain_nobody(address, greeting.error);
    else if (!greeting.is_zeromq)
        explain_stranger(&greeting, address);
    else if (has_curve && !has_key)
        posectl_complain("the posed at %s demands CURVE keys: --server-key KEY, its public key (in "
                         "its log at the start), and --key-file NAME.secret if it lists its "
                         "clients (posectl keygen NAME, OPERATIONS.md)",
                         address);
    else if (has_key && greeting.mechanism[0] && !has_curve)
        posectl_complain("the posed at %s does not encrypt: it has no key "
                         "(endpoints.curve_secret_key_file), or it is not the one that "
                         "--server-key names. Without --server-key it is asked in the clear",
                         address);
    else
        explain_handshake(ctl, connection, address, name, public_key);
}
