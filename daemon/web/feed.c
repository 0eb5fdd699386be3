// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/feed.h"

#define PREVIEW_NS       INT64_C(200000000)
// The frame loop copies the map for it, between two frames.
#define SURFACE_NS       INT64_C(10000000000)
#define CHANNEL_CALIB    3
#define CHANNEL_STATUS   4
#define CHANNEL_DEPTH    10
#define CHANNEL_RESIDUAL 12

// Tells the publisher what is wanted.
static void update_topics(struct feed *feed)
{
    uint32_t topics = 0;
    for (uint32_t channel = 1; channel <= FOXGLOVE_N_TOPICS; channel++)
        if (feed->n_wanting[channel] || feed->preview_wants[channel])
            topics |= 1u << (channel - 1);
    publish_listen_to(feed->camera.publish, topics);
}

// The preview takes one image of each kind at a time: five a second, however fast frames come.
static void want_preview(struct feed *feed, bool on)
{
    for (uint32_t channel = CHANNEL_DEPTH; channel <= CHANNEL_RESIDUAL; channel++)
        feed->preview_wants[channel] = on;
    update_topics(feed);
}

void feed_add_interest(struct feed *feed, uint32_t channel)
{
    feed->n_wanting[channel]++;
    update_topics(feed);
}

void feed_drop_interest(struct feed *feed, uint32_t channel)
{
    if (--feed->n_wanting[channel] > 0)
        return;
    if (channel == FOXGLOVE_CHANNEL_PREVIEW)
        want_preview(feed, false);
    else
        update_topics(feed);
}

void feed_look_at(struct feed *feed, uint32_t channel, const struct payload *payload)
{
    if (!feed->preview_wants[channel])
        return;
    feed->preview_wants[channel] = false;
    update_topics(feed);
    preview_take(&feed->preview, payload->bytes, payload->n_bytes);
}

void feed_keep(struct feed *feed, uint32_t channel, struct payload *payload)
{
    bool is_kept = channel == CHANNEL_CALIB || channel == CHANNEL_STATUS ||
                   channel == FOXGLOVE_CHANNEL_SURFACE;
    payload_release(is_kept ? feed->kept[channel] : payload);
    if (is_kept)
        feed->kept[channel] = payload;
}

struct payload *feed_preview(struct feed *feed, int64_t now_ns)
{
    if (now_ns < feed->preview_ns || !feed->n_wanting[FOXGLOVE_CHANNEL_PREVIEW])
        return NULL;
    struct payload *payload = preview_make(&feed->preview);
    want_preview(feed, true);
    feed->preview_ns = now_ns + PREVIEW_NS;
    return payload;
}

size_t feed_surface_request(struct feed *feed, int64_t now_ns, uint64_t id,
                            uint8_t out[SURFACE_REQUEST_BYTES])
{
    if (now_ns < feed->surface_ns || !feed->n_wanting[FOXGLOVE_CHANNEL_SURFACE])
        return 0;
    feed->surface_ns = now_ns + SURFACE_NS;
    return surface_request(&feed->surface, feed->camera.name, id, out);
}

struct payload *feed_surface(struct feed *feed, const uint8_t *reply, size_t n_bytes)
{
    bool again;
    struct payload *payload = surface_make(&feed->surface, reply, n_bytes, &again);
    if (again)
        feed->surface_ns = 0;
    return payload;
}

void feed_free(struct feed *feed)
{
    for (size_t i = 0; i < FOXGLOVE_N_CHANNELS; i++)
        payload_release(feed->kept[i]);
}
