// SPDX-License-Identifier: Apache-2.0
// The text messages of Foxglove's WebSocket protocol: what the daemon says of itself and of its
// channels, and what a client subscribes to. Our own page speaks it, too, with two channels more.
#ifndef POSED_DAEMON_WEB_FOXGLOVE_H
#define POSED_DAEMON_WEB_FOXGLOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Channel numbers of a camera: that of the topic + 1 (enum publish_topic), and the page's own. On
// the wire those of the n-th camera begin after n * FOXGLOVE_N_CHANNELS.
#define FOXGLOVE_N_TOPICS        13
#define FOXGLOVE_CHANNEL_PREVIEW 14
#define FOXGLOVE_CHANNEL_SURFACE 15
#define FOXGLOVE_N_CHANNELS      16
#define FOXGLOVE_MAX_OPS         64 // of one message

// The texts, to free; NULL: no memory. `control`: whether requests are taken; `cameras`: the names,
// of which those of a camera without one are "".
char *foxglove_server_info(uint64_t session, bool control, const char *const *cameras,
                           size_t n_cameras);
char *foxglove_advertise(const char *const *cameras, size_t n_cameras);
char *foxglove_status(const char *message);

struct foxglove_op {
    bool subscribe;
    uint32_t id, channel; // of unsubscribe the id alone
};

// Reads a client's text. Returns how many operations it has (those beyond FOXGLOVE_MAX_OPS are left
// out), -EOPNOTSUPP for an op that is not offered here, -EINVAL when it is no message of the
// protocol.
int foxglove_read(const char *text, size_t n_bytes, struct foxglove_op out[FOXGLOVE_MAX_OPS]);

#endif
