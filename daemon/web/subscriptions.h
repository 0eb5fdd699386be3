// SPDX-License-Identifier: Apache-2.0
// What viewers want of one camera, and what is kept of it for whoever comes later. The publisher is
// told which topics to hand over, and the map's surface is asked for only while somebody looks, so
// that nothing is made for nobody. The web thread's alone. Channels are those of the camera
// (foxglove.h).
#ifndef POSED_DAEMON_WEB_SUBSCRIPTIONS_H
#define POSED_DAEMON_WEB_SUBSCRIPTIONS_H

#include "daemon/web/foxglove.h"
#include "daemon/web/map_preview.h"
#include "daemon/web/shrink_images.h"
#include "daemon/web/web.h"

struct subscriptions {
    struct web_camera camera;
    uint32_t index;
    struct web *web;                         // whose it is
    uint32_t n_wanting[FOXGLOVE_N_CHANNELS]; // viewers
    bool preview_wants[FOXGLOVE_N_CHANNELS];
    struct payload *kept[FOXGLOVE_N_CHANNELS]; // the last calib, status and surface
    struct shrink_images preview;
    int64_t preview_ns;
    struct map_preview map_preview;
    int64_t surface_ns; // of the next request
};

// A viewer more, or less, wants a channel.
void subscriptions_add(struct subscriptions *subscriptions, uint32_t channel);
void subscriptions_drop(struct subscriptions *subscriptions, uint32_t channel);

// A message came: the preview takes its part; then, taking the payload over, what is kept.
void subscriptions_look_at(struct subscriptions *subscriptions, uint32_t channel,
                           const struct payload *payload);
void subscriptions_keep(struct subscriptions *subscriptions, uint32_t channel,
                        struct payload *payload);

// Five previews a second: NULL when it is not time, or nothing came; to release.
struct payload *subscriptions_preview(struct subscriptions *subscriptions, int64_t now_ns);

// A request of the map's surface where it is time for one, framed: its size in bytes, or 0.
size_t subscriptions_surface_request(struct subscriptions *subscriptions, int64_t now_ns,
                                     uint64_t id, uint8_t out[MAP_PREVIEW_REQUEST_BYTES]);

// Its answer: what to deliver and keep, or NULL.
struct payload *subscriptions_surface(struct subscriptions *subscriptions, const uint8_t *reply,
                                      size_t n_bytes);

void subscriptions_free(struct subscriptions *subscriptions);

#endif
