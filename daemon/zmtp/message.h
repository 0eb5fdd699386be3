// SPDX-License-Identifier: Apache-2.0
// A message on its way out: framed once, shared by all peers that wait for it, however many, and
// freed with the last of them. Any thread may hold one.
#ifndef POSED_DAEMON_ZMTP_MESSAGE_H
#define POSED_DAEMON_ZMTP_MESSAGE_H

#include "daemon/zmtp/zmtp.h"

#define ZMTP_HEAD_MAX_BYTES 48

struct zmtp_message {
    _Atomic unsigned n_users;
    size_t n_head, n_body;
    uint8_t head[ZMTP_HEAD_MAX_BYTES]; // whole frames, and the header of the last one
    const uint8_t *body;               // of the last frame
    void (*release)(void *user);       // may be NULL
    void *user;
};

// A message of one part, or of two with `first` (of n_first <= 32 bytes) in front; has_first false:
// of one. The body is uninitialised: *out_body is to be filled before anybody else sees it. NULL:
// no memory.
struct zmtp_message *zmtp_message_create(bool has_first, const void *first, size_t n_first,
                                         size_t n_body, uint8_t **out_body);

// The same around memory of the caller's: release(user) is called, by whatever thread, when it is
// no longer needed. NULL: no memory, and nothing was called.
struct zmtp_message *zmtp_message_wrap(bool has_first, const void *first, size_t n_first,
                                       const uint8_t *body, size_t n_body,
                                       void (*release)(void *user), void *user);

struct zmtp_message *zmtp_message_hold(struct zmtp_message *message); // returns it
void zmtp_message_drop(struct zmtp_message *message);                 // accepts NULL

#endif
