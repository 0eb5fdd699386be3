// SPDX-License-Identifier: Apache-2.0
// One WebSocket: what it is subscribed to, and what waits to be sent to it. The web thread owns it.
//
// A client that reads too slowly loses its oldest messages, so that what it sees is as new as can
// be; its queue is bounded in messages and bytes. Frames, masks, pings and closing are libwslay's.
#ifndef POSED_DAEMON_WEB_VIEWER_CONNECTION_H
#define POSED_DAEMON_WEB_VIEWER_CONNECTION_H

#include <stdint.h>

#include "daemon/web/handshake.h"

#define VIEWER_MAX_SUBSCRIPTIONS 64
#define VIEWER_HEAD_BYTES        13

// Bytes that several viewers may have in their queues, freed with the last.
struct payload {
    size_t n_bytes;
    uint32_t n_references;
    uint8_t room[VIEWER_HEAD_BYTES]; // in front of the bytes, of the same piece
    uint8_t bytes[];
};

// Room for n_bytes with one reference, or NULL.
struct payload *payload_create(size_t n_bytes);
void payload_release(struct payload *payload);

struct viewer_subscription {
    uint32_t id;      // the client's
    uint32_t channel; // foxglove.h
};

struct viewer;

struct viewer_settings {
    int fd; // non-blocking
    enum handshake_protocol protocol;
    size_t queue_max_bytes;
    double max_bytes_s; // what exceeds it is dropped; 0 = no limit
    // Bytes that came with the handshake.
    const void *early;
    size_t n_early;
    // A whole message of the client.
    void (*received)(void *user, struct viewer *viewer, bool is_text, const uint8_t *bytes,
                     size_t n_bytes);
    void *user;
};

// NULL: no memory. The fd stays the caller's.
struct viewer *viewer_create(const struct viewer_settings *settings);
void viewer_destroy(struct viewer **viewer);

int viewer_fd(const struct viewer *viewer);
enum handshake_protocol viewer_protocol(const struct viewer *viewer);
uint64_t viewer_dropped(const struct viewer *viewer);

// Sends text. Ends the connection where a megabyte of earlier text waits: without a word, which
// would wait behind it.
void viewer_send_text(struct viewer *viewer, const char *text);

// Sends a payload behind 13 bytes of Foxglove's (01, subscription, time), or drops an older one.
void viewer_send_data(struct viewer *viewer, uint32_t subscription, uint64_t time_ns,
                      struct payload *payload);

// The same as it stands, in one binary message.
void viewer_send_bytes(struct viewer *viewer, struct payload *payload);

// poll() events that it waits for, and what to do when they are there. False: it is over.
short viewer_wants(const struct viewer *viewer);
bool viewer_run(struct viewer *viewer, short events);

// Every second: pings, and gives up whoever has said nothing for 30 s. False: it is over.
bool viewer_tick(struct viewer *viewer, int64_t now_ns);

// Whether it may have another subscription, and its list.
bool viewer_subscribe(struct viewer *viewer, uint32_t id, uint32_t channel);
bool viewer_unsubscribe(struct viewer *viewer, uint32_t id, uint32_t *out_channel);
const struct viewer_subscription *viewer_subscriptions(const struct viewer *viewer, size_t *out_n);

#endif
