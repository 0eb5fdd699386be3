// SPDX-License-Identifier: Apache-2.0
// The publisher: `pub` ([topic][message]), `latest` (the pose alone, for subscribers with
// ZMQ_CONFLATE, which would tear a message of two parts) and `img` (made only while subscribed).
//
// A thread of its own has the sockets: between it and the frame loop there is a bounded ring, so
// that nothing that a subscriber sends or leaves unread takes the frame loop's time. What exceeds a
// subscriber's queue is dropped for it, what exceeds the ring is dropped and counted. With no_drop
// (replay as fast as possible) messages wait in the ring for the slowest subscriber of `pub`, and
// the frame loop waits for the ring between two frames. A subscriber that takes nothing for 60 s is
// left behind until it reads again: libzmq's take half of their queue at a time, so that one with
// 500 messages to work on stands still meanwhile.
//
// Each camera has a channel of its own: its topics, of which those of a camera with a name end in
// "/NAME", and its ring. One thread alone sends on a channel, its frame loop's; publish_post and
// publish_wants may be called from any thread. The log is the daemon's and has no name behind it;
// `latest` is the first channel's.
#ifndef POSED_DAEMON_PUBLISH_H
#define POSED_DAEMON_PUBLISH_H

#include "daemon/endpoint.h"
#include "proto/log.h"
#include "proto/posed.pb.h"

enum publish_topic {
    PUBLISH_POSE,
    PUBLISH_TF,
    PUBLISH_CALIB,
    PUBLISH_STATUS,
    PUBLISH_TIMING,
    PUBLISH_EVENT,
    PUBLISH_IMU,
    PUBLISH_LOG,
    PUBLISH_OBJECT,
    PUBLISH_DEPTH, // from here on: on img
    PUBLISH_NORMALS,
    PUBLISH_RESIDUAL,
    PUBLISH_CLOUD,
    PUBLISH_N_TOPICS,
};

#define PUBLISH_POST_MAX_BYTES 640 // of a message given to publish_post
#define PUBLISH_POST_SLOTS     64

#define PUBLISH_MAX_CHANNELS (CONFIG_MAX_CAMERAS + 1)

struct publish;         // opaque
struct publish_channel; // opaque

// A channel's place is its index.
struct publish_settings {
    const char *cameras[CONFIG_MAX_CAMERAS]; // their names; "" = one alone, without a name
    uint32_t n_cameras;
    bool has_rig; // a last channel, whose pose has the topic `rig`; it has no other
    bool no_drop;
};

// Binds the sockets and starts the thread. Returns 0, or negative errno with the reason in the log.
__attribute__((warn_unused_result)) int
publish_create(struct publish **out, struct endpoint *endpoint, const struct config *config,
               const struct publish_settings *settings, const struct log_sink *log);

// Sends what waits, for at most linger_ms, ends the thread and closes the sockets.
void publish_destroy(struct publish **publish, int linger_ms);

// As long as the publisher.
struct publish_channel *publish_channel(struct publish *publish, uint32_t index);

// Sends a message; PUBLISH_POSE of the first channel goes to `latest` as well. The last messages of
// calib and status are kept for new subscribers. Returns false when it was dropped for all.
bool publish_send(struct publish_channel *channel, enum publish_topic topic, const void *bytes,
                  size_t n_bytes);

// The same with the message in two pieces (an image's header and its pixels), which saves a copy.
bool publish_send_pieces(struct publish_channel *channel, enum publish_topic topic,
                         const void *head, size_t n_head, const void *tail, size_t n_tail);

// Whether a frame's messages have room: false only with no_drop, while a subscriber is slow. What
// is sent nevertheless is dropped once the ring is full.
bool publish_is_ready(const struct publish_channel *channel);

// Any thread: messages that wait, each counted once in the ring and then once a subscriber.
uint64_t publish_n_waiting(const struct publish *publish);

// Whether anybody is subscribed to it now.
bool publish_wants(const struct publish_channel *channel, enum publish_topic topic);

// Any thread: whether somebody subscribes to poses of any camera, or of the rig.
bool publish_wants_any_pose(const struct publish_channel *channel);

// Any thread: a message (`fields` = posed_X_fields) sent as soon as may be. Dropped when
// PUBLISH_POST_SLOTS wait.
void publish_post(struct publish_channel *channel, enum publish_topic topic,
                  const pb_msgdesc_t *fields, const void *message);

// A listener inside the daemon (the viewers of the page): the publisher's thread calls `take` with
// each message of the topics that publish_listen_to names (bit: topic), and with every calib and
// status. One at a time; NULL ends it, and nothing is called from then on. Any thread.
void publish_listen(struct publish_channel *channel,
                    void (*take)(void *user, enum publish_topic topic, const uint8_t *bytes,
                                 size_t n_bytes),
                    void *user);
void publish_listen_to(struct publish_channel *channel, uint32_t topics);

#endif
