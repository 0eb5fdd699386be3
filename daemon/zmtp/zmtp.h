// SPDX-License-Identifier: Apache-2.0
// ZMTP 3.1 (RFC 37), the protocol below ZeroMQ's sockets: greeting, frames, commands, metadata, and
// the text form of keys (RFC 32, Z85). Pure functions on hostile bytes: they never read beyond what
// they are given and never allocate.
//
// Peers that greet with ZMTP 3.0 or newer are understood (libzmq 4, JeroMQ, NetMQ, Go's zmq4);
// those of 2.0 and 1.0 (libzmq 2 and 3) are not.
#ifndef POSED_DAEMON_ZMTP_ZMTP_H
#define POSED_DAEMON_ZMTP_ZMTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZMTP_GREETING_BYTES   64
#define ZMTP_HALF_BYTES       12 // signature and version: what a peer waits for before the rest
#define ZMTP_HEADER_MAX_BYTES 9
#define ZMTP_COMMAND_MAX      256 // bytes of the commands that zmtp_put_* make
#define ZMTP_KEY_BYTES        32
#define ZMTP_KEY_CHARS        40

enum zmtp_mechanism { ZMTP_NULL, ZMTP_CURVE };

void zmtp_put_greeting(enum zmtp_mechanism mechanism, uint8_t out[ZMTP_GREETING_BYTES]);

// Whether the first n bytes of a greeting may become one.
bool zmtp_may_be_greeting(const uint8_t *bytes, size_t n_bytes);

// Returns 0, or -EPROTO (no ZMTP of version 3, or neither NULL nor CURVE).
__attribute__((warn_unused_result)) int zmtp_read_greeting(const uint8_t bytes[ZMTP_GREETING_BYTES],
                                                           enum zmtp_mechanism *out);

struct zmtp_frame {
    bool more, command;
    uint64_t n_body;
};

// The header of a frame. Returns its bytes, 0 when there are too few yet, or -EPROTO.
__attribute__((warn_unused_result)) int zmtp_read_header(const uint8_t *bytes, size_t n_bytes,
                                                         struct zmtp_frame *out);

// Returns the bytes written.
size_t zmtp_put_header(const struct zmtp_frame *frame, uint8_t out[ZMTP_HEADER_MAX_BYTES]);

// Splits the body of a command into its name and the rest. Returns whether it is of this name.
bool zmtp_is_command(const uint8_t *bytes, size_t n_bytes, const char *name, const uint8_t **rest,
                     size_t *n_rest);

// A command as a whole frame. Returns its bytes; at most ZMTP_COMMAND_MAX, or 0 when it is longer.
size_t zmtp_put_command(const char *name, const uint8_t *rest, size_t n_rest,
                        uint8_t out[ZMTP_COMMAND_MAX]);

// The property Socket-Type alone. Returns the bytes written.
size_t zmtp_put_metadata(const char *socket_type, uint8_t out[ZMTP_COMMAND_MAX]);

// The value of a property (names are compared without case). Returns 0; -ENOENT, -EPROTO (no list
// of properties).
__attribute__((warn_unused_result)) int zmtp_find_property(const uint8_t *bytes, size_t n_bytes,
                                                           const char *name, const uint8_t **out,
                                                           size_t *out_n);

// Returns whether `text` is a key.
bool zmtp_key_from_text(const char *text, uint8_t out[ZMTP_KEY_BYTES]);
void zmtp_key_to_text(const uint8_t key[ZMTP_KEY_BYTES], char out[ZMTP_KEY_CHARS + 1]);

#endif
