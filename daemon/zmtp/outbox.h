// SPDX-License-Identifier: Apache-2.0
// What waits to be sent to one peer: messages in a ring, the first of them encrypted where the
// connection is. Knows no socket: the caller asks for pieces, sends them and says how far it came.
// How many messages may wait is the socket's hwm. One thread.
#ifndef POSED_DAEMON_ZMTP_OUTBOX_H
#define POSED_DAEMON_ZMTP_OUTBOX_H

#include <sys/uio.h>

#include "daemon/zmtp/curve.h"
#include "daemon/zmtp/message.h"

#define OUTBOX_PIECES 32

struct outbox { // begins as zeros
    struct zmtp_message **queue;
    uint32_t n_queue, first, capacity;
    size_t n_sent;   // of the first message, or of its cipher
    uint8_t *cipher; // the first message, encrypted
    size_t n_cipher, cipher_capacity;
};

// Whether another message may wait where `hwm` may.
bool outbox_has_room(const struct outbox *outbox, uint32_t hwm);

// Holds the message until it is sent; the caller has asked for room. False: no memory.
bool outbox_put(struct outbox *outbox, struct zmtp_message *message);

// Whether a message has begun: nothing else may come between its bytes.
bool outbox_is_inside(const struct outbox *outbox);

// The bytes that go next, owned by the outbox until the next call. `curve` NULL: in the clear.
// Returns the number of pieces; 0: nothing waits, or no memory to encrypt it.
size_t outbox_gather(struct outbox *outbox, struct curve *curve,
                     struct iovec out_pieces[OUTBOX_PIECES]);
void outbox_sent(struct outbox *outbox, size_t n_bytes); // of what was gathered

void outbox_end(struct outbox *outbox); // drops what waits

#endif
