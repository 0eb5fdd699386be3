// SPDX-License-Identifier: Apache-2.0
// What the tests of the sockets' front end share: the other side of a connection without keys, byte
// by byte, and what the server's user sees of it.
#ifndef POSED_TESTS_UNIT_DAEMON_ZMTP_CLIENT_H
#define POSED_TESTS_UNIT_DAEMON_ZMTP_CLIENT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "daemon/zmtp/server.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;

static struct {
    int n_on, n_off, n_requests, n_bad, n_left;
    size_t n_bytes; // of the last request or prefix
    bool has_delimiter, keeps, refuses;
    struct zmtp_body *kept;
    struct zmtp_message *greeting; // sent to whoever subscribes
    char first;                    // of the last prefix, after that
} seen;

static inline int on_subscribe(void *user, struct zmtp_peer *peer, bool on, const uint8_t *prefix,
                               size_t n_prefix)
{
    (void)user;
    seen.n_on += on;
    seen.n_off += !on;
    seen.n_bytes = n_prefix;
    if (seen.greeting)
        zmtp_peer_send(peer, seen.greeting);
    seen.first = n_prefix > 0 ? (char)prefix[0] : 0;
    return seen.refuses ? -EPROTO : 0;
}

static inline void on_request(void *user, struct zmtp_peer *peer, struct zmtp_body *body,
                              bool delimiter)
{
    (void)user, (void)peer;
    seen.n_requests += !!body;
    seen.n_bad += !body;
    seen.n_bytes = body ? body->n_bytes : 0;
    seen.has_delimiter = delimiter;
    if (seen.keeps)
        seen.kept = body;
    else
        zmtp_body_free(body);
}

static inline void on_leave(void *user, struct zmtp_peer *peer)
{
    (void)user, (void)peer;
    seen.n_left++;
}

static inline struct zmtp_server_settings settings(uint32_t max_connections)
{
    return (struct zmtp_server_settings){.max_connections = max_connections,
                                         .max_upload_bytes = 150000,
                                         .log = scratch_log(&scratch),
                                         .subscribe = on_subscribe,
                                         .request = on_request,
                                         .leave = on_leave};
}

static inline void assert_said(const char *wanted)
{
    if (!strstr(scratch.line, wanted))
        print_error("%s\nwanted: %s\n", scratch.line, wanted);
    assert_non_null(strstr(scratch.line, wanted));
}

static inline int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    memset(&seen, 0, sizeof seen);
    return 0;
}

// The greeting and READY of a socket of the type. Returns the number of bytes.
static inline size_t client_hello(const char *socket_type, uint8_t out[512])
{
    uint8_t metadata[ZMTP_COMMAND_MAX];
    zmtp_put_greeting(ZMTP_NULL, out);
    const size_t n = zmtp_put_metadata(socket_type, metadata);
    return ZMTP_GREETING_BYTES + zmtp_put_command("READY", metadata, n, out + ZMTP_GREETING_BYTES);
}

// A frame of n_body bytes at out. Returns its length.
static inline size_t client_frame(bool more, bool command, const void *body, size_t n_body,
                                  uint8_t *out)
{
    const struct zmtp_frame frame = {more, command, n_body};
    const size_t n = zmtp_put_header(&frame, out);
    memcpy(out + n, body, n_body);
    return n + n_body;
}

#endif
