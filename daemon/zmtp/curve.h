// SPDX-License-Identifier: Apache-2.0
// CURVE (RFC 26, CurveZMQ), the server's side: whose key it is, the four messages of the handshake,
// and boxes for what is sent afterwards. The boxes themselves are libsodium's.
#ifndef POSED_DAEMON_ZMTP_CURVE_H
#define POSED_DAEMON_ZMTP_CURVE_H

#include <pthread.h>

#include "daemon/zmtp/zmtp.h"
#include "proto/log.h"

#define CURVE_MAX_CLIENTS    256
#define CURVE_COOKIE_BYTES   96
#define CURVE_OVERHEAD_BYTES 33 // "MESSAGE" with its length, nonce, authenticator, flags
#define CURVE_BOX_BYTES      16
#define CURVE_PATH_BYTES     256

// The daemon's keys, and whom it lets in. The list changes while the servers' threads look at it.
struct curve_keys {
    uint8_t secret[ZMTP_KEY_BYTES], public[ZMTP_KEY_BYTES];
    pthread_mutex_t lock; // of the three below; zero is unlocked
    uint8_t clients[CURVE_MAX_CLIENTS][ZMTP_KEY_BYTES];
    size_t n_clients;
    unsigned n_lists;                    // how often the list was another one
    bool any_client;                     // no list: whoever knows the public key
    char clients_file[CURVE_PATH_BYTES]; // of the list, for the log
};

// Reads the files: one key a line (40 characters Z85; what follows it on the line is ignored), '#'
// starts a comment. clients_file empty: any client; one that is listed twice counts once. A secret
// key that others can read is refused unless allow_readable, and one in the list as far as it can
// be told from a public one: always with its public key beside it, else every other one. Returns 0;
// with the reason and the setting (endpoints.curve_*) in the log -EINVAL (a key file), -EIO (no
// random numbers).
__attribute__((warn_unused_result)) int
curve_read_keys(struct curve_keys *out, const char *secret_file, const char *clients_file,
                bool allow_readable, const struct log_sink *log);

// Takes the list of clients of `fresh`, which curve_read_keys has read of the same files, in place
// of the one in force. Returns whether it is another one, which the log is told. Any thread.
bool curve_take_clients(struct curve_keys *keys, const struct curve_keys *fresh,
                        const struct log_sink *log);

// Whether the client is in the list in force (or there is none); how often that was another one:
// then who is connected is to be looked up again. Any thread.
bool curve_may_connect(struct curve_keys *keys, const uint8_t client[ZMTP_KEY_BYTES]);
unsigned curve_n_lists(struct curve_keys *keys);

// One connection.
struct curve {
    struct curve_keys *keys;
    uint8_t client[ZMTP_KEY_BYTES]; // who it is, after curve_read_initiate
    uint8_t short_public[ZMTP_KEY_BYTES], short_secret[ZMTP_KEY_BYTES]; // ours, S' and s'
    uint8_t client_short[ZMTP_KEY_BYTES];                               // C'
    uint8_t cookie[CURVE_COOKIE_BYTES];
    uint8_t shared[ZMTP_KEY_BYTES]; // of S' and C'
    uint64_t nonce_in, nonce_out;
};

// HELLO (the body of the command) comes in, the body of WELCOME goes out. Returns its bytes, or
// -EPROTO, -EACCES (encrypted for another key).
__attribute__((warn_unused_result)) int curve_hello(struct curve *curve, struct curve_keys *keys,
                                                    const uint8_t *hello, size_t n_hello,
                                                    uint8_t out[ZMTP_COMMAND_MAX]);

// INITIATE comes in: the client's metadata, decrypted into `metadata` (of n_initiate bytes at
// least). Returns its bytes, or -EPROTO, -EACCES (a stranger).
__attribute__((warn_unused_result)) int curve_initiate(struct curve *curve, const uint8_t *initiate,
                                                       size_t n_initiate, uint8_t *metadata);

// The body of READY with our metadata. Returns its bytes.
size_t curve_put_ready(struct curve *curve, const uint8_t *metadata, size_t n_metadata,
                       uint8_t out[ZMTP_COMMAND_MAX]);

// Decrypts the body of MESSAGE into `out` (n_bytes at least, may be where `bytes` is). Returns 0
// and a frame with its bytes at *out_body, or -EPROTO.
__attribute__((warn_unused_result)) int curve_open(struct curve *curve, uint8_t *bytes,
                                                   size_t n_bytes, struct zmtp_frame *out,
                                                   uint8_t **out_body);

// A frame with its content, encrypted, header included: into `out` of
// n_body + CURVE_OVERHEAD_BYTES + ZMTP_HEADER_MAX_BYTES. Returns the bytes written.
size_t curve_seal(struct curve *curve, const struct zmtp_frame *frame, const uint8_t *body,
                  uint8_t *out);

#endif
