// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/subscriptions.h"

#define PREVIEW_NS       INT64_C(200000000)
// The frame loop copies the map for it, between two frames.
#define SURFACE_NS       INT64_C(10000000000)
#define CHANNEL_CALIB    3
#define CHANNEL_STATUS   4
#define CHANNEL_DEPTH    10
#define CHANNEL_RESIDUAL 12

// Tells the publisher what is wanted.
static void update_topics(struct subscriptions *subscriptions)
{
    uint32_t topics = 0;
    for (uint32_t channel = 1; channel <= FOXGLOVE_N_TOPICS; channel++)
        if (subscriptions->n_wanting[channel] || subscriptions->preview_wants[channel])
            topics |= 1u << (channel - 1);
    publish_listen_to(subscriptions->camera.publish, topics);
}

// The preview takes one image of each kind at a time: five a second, however fast frames come.
static void want_preview(struct subscriptions *subscriptions, bool on)
{
    for (uint32_t channel = CHANNEL_DEPTH; channel <= CHANNEL_RESIDUAL; channel++)
        subscriptions->preview_wants[channel] = on;
    update_topics(subscriptions);
}

void subscriptions_add(struct subscriptions *subscriptions, uint32_t channel)
{
    subscriptions->n_wanting[channel]++;
    update_topics(subscriptions);
}

void subscriptions_drop(struct subscriptions *subscriptions, uint32_t channel)
{
    if (--subscriptions->n_wanting[channel] > 0)
        return;
    if (channel == FOXGLOVE_CHANNEL_PREVIEW)
        want_preview(subscriptions, false);
    else
        update_topics(subscriptions);
}

void subscriptions_look_at(struct subscriptions *subscriptions, uint32_t channel,
                           const struct payload *payload)
{
    if (!subscriptions->preview_wants[channel])
        return;
    subscriptions->preview_wants[channel] = false;
    update_topics(subscriptions);
    shrink_images_take(&subscriptions->preview, payload->bytes, payload->n_bytes);
}

void subscriptions_keep(struct subscriptions *subscriptions, uint32_t channel,
                        struct payload *payload)
{
    bool is_kept = channel == CHANNEL_CALIB || channel == CHANNEL_STATUS ||
                   channel == FOXGLOVE_CHANNEL_SURFACE;
    payload_release(is_kept ? subscriptions->kept[channel] : payload);
    if (is_kept)
        subscriptions->kept[channel] = payload;
}

struct payload *subscriptions_preview(struct subscriptions *subscriptions, int64_t now_ns)
{
    if (now_ns < subscriptions->preview_ns || !subscriptions->n_wanting[FOXGLOVE_CHANNEL_PREVIEW])
        return NULL;
    struct payload *payload = shrink_images_make(&subscriptions->preview);
    want_preview(subscriptions, true);
    subscriptions->preview_ns = now_ns + PREVIEW_NS;
    return payload;
}

size_t subscriptions_surface_request(struct subscriptions *subscriptions, int64_t now_ns,
                                     uint64_t id, uint8_t out[MAP_PREVIEW_REQUEST_BYTES])
{
    if (now_ns < subscriptions->surface_ns || !subscriptions->n_wanting[FOXGLOVE_CHANNEL_SURFACE])
        return 0;
    subscriptions->surface_ns = now_ns + SURFACE_NS;
    return map_preview_request(&subscriptions->map_preview, subscriptions->camera.name, id, out);
}

struct payload *subscriptions_surface(struct subscriptions *subscriptions, const uint8_t *reply,
                                      size_t n_bytes)
{
    bool again;
    struct payload *payload = map_preview_make(&subscriptions->map_preview, reply, n_bytes, &again);
    if (again)
        subscriptions->surface_ns = 0;
    return payload;
}

void subscriptions_free(struct subscriptions *subscriptions)
{
    for (size_t i = 0; i < FOXGLOVE_N_CHANNELS; i++)
        payload_release(subscriptions->kept[i]);
}
