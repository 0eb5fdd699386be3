// SPDX-License-Identifier: Apache-2.0
// What the files of libposed share: the client behind posed.h, its sockets and its requests.
#ifndef POSED_TOOLS_CLIENT_CLIENT_H
#define POSED_TOOLS_CLIENT_CLIENT_H

#include <zmq.h>

#include "tools/client/address.h"
#include "tools/client/posed.h"

#define CLIENT_KEY_BYTES   (ADDRESS_KEY_CHARS + 1)
#define CLIENT_TOPIC_BYTES 32
#define CLIENT_NAME_BYTES  40 // of a camera, far more than a daemon allows
#define CLIENT_MAX_CAMERAS 16 // more than a daemon has

struct posed {
    char where[ADDRESS_MAX], server_key[CLIENT_KEY_BYTES], public_key[CLIENT_KEY_BYTES],
        secret_key[CLIENT_KEY_BYTES];
    char camera[CLIENT_NAME_BYTES]; // "" = none was named
    unsigned timeout_ms;
    void *context;
    void *sockets[ADDRESS_REQ + 1]; // NULL until needed; PUB and IMG those of posed_subscribe
    void *poses;                    // pub, of posed_next
    void *watch; // pub, topic status: which cameras there are; NULL while none is named
    char watched[CLIENT_MAX_CAMERAS][CLIENT_NAME_BYTES];
    size_t n_watched;
    bool images_next;         // of two that are ready
    zmq_msg_t message, reply; // what the program holds: posed_receive's, posed_request's
    char topic[CLIENT_TOPIC_BYTES];
    struct posed_pose newest;
    bool has_newest;
    uint64_t next_id;
    char error[400];
};

// Notes the sentence of posed_error; returns `error`.
__attribute__((format(printf, 3, 4))) int client_fail(struct posed *client, int error,
                                                      const char *format, ...);

// Notes that nobody answers at a socket, and what to do; returns `error`. May block for 2 s.
int client_fail_silence(struct posed *client, int error, enum address_socket which);

// Opens and connects *socket unless it is open already. Returns 0, -ENOMEM, or -EINVAL (an address
// or a key).
__attribute__((warn_unused_result)) int client_open(struct posed *client, void **socket, int type,
                                                    enum address_socket which);

// CLOCK_MONOTONIC.
int64_t client_now_ms(void);

// The pose at a time, or with NULL the newest. Returns as posed_pose_at does.
__attribute__((warn_unused_result)) int
client_get_pose(struct posed *client, const int64_t *time_ns, struct posed_pose *out);

#endif
