// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/channels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/mcap/format.h"
#include "capture/mcap/foxglove.h"

#define DEPTH_TOPIC "depth"
#define CALIB_TOPIC "calib"

#define MAX_CALIBS (sizeof(((struct mcap_channels *)0)->calibs) / sizeof(struct mcap_calib_channel))
#define MAX_IMAGES (sizeof(((struct mcap_channels *)0)->images) / sizeof(struct mcap_image_channel))

void mcap_channels_take_schema(struct mcap_channels *channels, const unsigned char *data, size_t n)
{
    const char *name, *encoding;
    size_t at = 2, n_name, n_encoding;
    mcap_channel_list_schema(&channels->list, data, n);
    if (n < 2 || !mcap_take_string(data, n, &at, &name, &n_name) ||
        !mcap_take_string(data, n, &at, &encoding, &n_encoding) ||
        !mcap_is_text(encoding, n_encoding, "protobuf"))
        return;
    const uint16_t id = (uint16_t)mcap_get(data, 2);
    if (mcap_is_text(name, n_name, "foxglove.RawImage"))
        mcap_ids_add(&channels->image_schemas, id);
    if (mcap_is_text(name, n_name, "foxglove.CameraCalibration"))
        mcap_ids_add(&channels->calib_schemas, id);
}

// units_per_m of the channel's metadata, 0 when it is not there.
static double take_units(const unsigned char *data, size_t n, size_t at)
{
    if (n - at < 4)
        return 0;
    at += 4; // the map's length; its strings are checked one by one
    const char *key, *value;
    size_t n_key, n_value;
    while (mcap_take_string(data, n, &at, &key, &n_key) &&
           mcap_take_string(data, n, &at, &value, &n_value)) {
        char number[40] = {0};
        if (!mcap_is_text(key, n_key, "units_per_m") || n_value >= sizeof number)
            continue;
        memcpy(number, value, n_value);
        const double units = strtod(number, NULL);
        return units >= 1 && units <= 1e6 ? units : 0;
    }
    return 0;
}

// Whether two channels are of one topic, as far as is known of them.
static bool is_topic(const char *a, const char *b)
{
    return strlen(a) < MCAP_TOPIC_BYTES - 1 && strcmp(a, b) == 0;
}

// `topic` is "BASE/NAME".
static bool is_named(const char *topic, size_t n_topic, const char *base, const char *name)
{
    const size_t n_base = strlen(base);
    return n_topic > n_base && memcmp(topic, base, n_base) == 0 && topic[n_base] == '/' &&
           mcap_is_text(topic + n_base + 1, n_topic - n_base - 1, name);
}

static enum mcap_depth_rank depth_rank(const struct mcap_choice *choice, const char *topic,
                                       size_t n_topic)
{
    if (choice->topic)
        return mcap_is_text(topic, n_topic, choice->topic) ||
                       is_named(topic, n_topic, DEPTH_TOPIC, choice->topic)
                   ? MCAP_DEPTH_NAMED
                   : MCAP_DEPTH_NONE;
    if (choice->camera && is_named(topic, n_topic, DEPTH_TOPIC, choice->camera))
        return MCAP_DEPTH_NAMED;
    return mcap_is_text(topic, n_topic, DEPTH_TOPIC) ? MCAP_DEPTH_PLAIN : MCAP_DEPTH_ANY;
}

// Of the camera of the depth channel before others, else the first. Returns whether it is another
// one now.
static bool choose_calib(struct mcap_channels *channels)
{
    const char *const name = strchr(channels->depth_topic, '/');
    const struct mcap_calib_channel *best = &channels->calibs[0];
    for (size_t i = 0; name && i < channels->n_calibs; i++) {
        const char *const topic = channels->calibs[i].topic;
        if (is_named(topic, strlen(topic), CALIB_TOPIC, name + 1)) {
            best = &channels->calibs[i];
            break;
        }
    }
    if (channels->n_calibs == 0)
        return false;
    const bool is_other = best != channels->calib;
    channels->calib = best;
    if (is_other)
        channels->of_calib = (struct mcap_ids){0};
    for (size_t i = 0; i < channels->n_calibs; i++)
        if (&channels->calibs[i] == best || is_topic(channels->calibs[i].topic, best->topic))
            mcap_ids_add(&channels->of_calib, channels->calibs[i].id);
    return is_other;
}

// One that was not listed.
static void list_image(struct mcap_channels *channels, uint16_t id, const char *topic)
{
    bool is_new = true;
    for (size_t i = 0; i < channels->n_images && is_new; i++)
        is_new = !is_topic(channels->images[i].topic, topic);
    channels->n_topics += is_new;
    if (channels->n_images == MAX_IMAGES)
        return;
    struct mcap_image_channel *const image = &channels->images[channels->n_images++];
    image->id = id;
    snprintf(image->topic, sizeof image->topic, "%s", topic);
}

void mcap_channels_count(struct mcap_channels *channels, uint16_t id, uint64_t n_messages)
{
    for (size_t i = 0; i < channels->n_images; i++)
        if (channels->images[i].id == id) {
            channels->images[i].n_messages += n_messages;
            channels->images[i].n_of_chunk += n_messages;
        }
}

void mcap_channels_count_chunk(struct mcap_channels *channels, bool again)
{
    for (size_t i = 0; i < channels->n_images; i++) {
        channels->images[i].n_messages -= again ? channels->images[i].n_of_chunk : 0;
        channels->images[i].n_of_chunk = 0;
    }
}

void mcap_channels_look(struct mcap_channels *channels, uint16_t id, const unsigned char *message,
                        size_t n_bytes)
{
    struct foxglove_image image;
    for (size_t i = 0; i < channels->n_images; i++) {
        struct mcap_image_channel *const channel = &channels->images[i];
        if (channel->id == id && channel->kind == MCAP_IMAGE_UNKNOWN &&
            foxglove_get_image(message, n_bytes, &image))
            channel->kind = foxglove_is_depth(&image) ? MCAP_IMAGE_DEPTH : MCAP_IMAGE_OTHER;
    }
}

void mcap_channels_place(struct mcap_channels *channels, uint16_t id, uint64_t chunk,
                         uint64_t offset)
{
    for (size_t i = 0; i < channels->n_images; i++)
        if (channels->images[i].id == id && !channels->images[i].has_place) {
            channels->images[i].has_place = true;
            channels->images[i].chunk = chunk;
            channels->images[i].offset = offset;
        }
}

struct topic {
    uint64_t n_messages;
    enum mcap_image_kind kind;
    bool is_first; // no channel before is of it
};

// Of all channels of the topic of channel i.
static struct topic topic_of(const struct mcap_channels *channels, size_t i)
{
    struct topic topic = {.is_first = true};
    for (size_t k = 0; k < channels->n_images; k++) {
        const struct mcap_image_channel *const image = &channels->images[k];
        if (k != i && !is_topic(image->topic, channels->images[i].topic))
            continue;
        topic.is_first = topic.is_first && k >= i;
        topic.kind = image->kind > topic.kind ? image->kind : topic.kind;
        topic.n_messages += image->n_messages;
    }
    return topic;
}

size_t mcap_channels_n_depths(const struct mcap_channels *channels)
{
    size_t n = channels->n_topics;
    for (size_t i = 0; i < channels->n_images; i++) {
        const struct topic topic = topic_of(channels, i);
        n -= topic.is_first && topic.kind == MCAP_IMAGE_OTHER;
    }
    return n;
}

void mcap_channels_list(const struct mcap_channels *channels, bool with_counts,
                        char out[MCAP_LIST_BYTES])
{
    size_t n = 0, n_listed = 0;
    const size_t n_depths = mcap_channels_n_depths(channels);
    snprintf(out, MCAP_LIST_BYTES, "%s", n_depths ? "" : "none");
    for (size_t i = 0; i < channels->n_images && n < MCAP_LIST_BYTES; i++) {
        const struct topic topic = topic_of(channels, i);
        char count[40] = "";
        if (!topic.is_first || topic.kind == MCAP_IMAGE_OTHER)
            continue;
        if (with_counts)
            snprintf(count, sizeof count, " (%llu image%s)", (unsigned long long)topic.n_messages,
                     topic.n_messages == 1 ? "" : "s");
        n += (size_t)snprintf(out + n, MCAP_LIST_BYTES - n, "%s%s%s", n ? ", " : "",
                              channels->images[i].topic, count);
        n_listed++;
    }
    if (n >= MCAP_LIST_BYTES || n_listed < n_depths)
        memcpy(out + (n < MCAP_LIST_BYTES - 4 ? n : MCAP_LIST_BYTES - 4), "...", 4);
}

const char *mcap_channels_most(const struct mcap_channels *channels)
{
    const char *most = NULL;
    uint64_t n_most = 0, n_taken = 0;
    bool is_colour = false; // what is taken
    for (size_t i = 0; i < channels->n_images; i++) {
        const struct topic topic = topic_of(channels, i);
        if (is_topic(channels->images[i].topic, channels->depth_topic)) {
            is_colour = topic.kind == MCAP_IMAGE_OTHER;
            n_taken = is_colour ? 0 : topic.n_messages;
        }
        if (topic.kind == MCAP_IMAGE_DEPTH && topic.n_messages > n_most) {
            most = channels->images[i].topic;
            n_most = topic.n_messages;
        }
    }
    // A camera's only depth topic is taken whatever it is called.
    const bool is_only = is_colour && channels->depth_rank < MCAP_DEPTH_NAMED &&
                         mcap_channels_n_depths(channels) == 1;
    const bool is_asked = channels->choice.topic || (channels->choice.camera && !is_only);
    return !is_asked && most && strlen(most) < MCAP_TOPIC_BYTES - 1 && n_taken < (n_most + 9) / 10
               ? most
               : NULL;
}

static double units_or_default(double units_per_m)
{
    return units_per_m > 0 ? units_per_m : MCAP_DEFAULT_UNITS_PER_M;
}

static bool take_image(struct mcap_channels *channels, uint16_t id, const char *topic,
                       size_t n_topic, double units_per_m)
{
    const enum mcap_depth_rank rank = depth_rank(&channels->choice, topic, n_topic);
    const bool is_new = !mcap_ids_have(&channels->listed, id);
    char name[MCAP_TOPIC_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)n_topic, topic);
    if (is_new)
        list_image(channels, id, name);
    mcap_ids_add(&channels->listed, id);
    if (is_new && rank != MCAP_DEPTH_NONE && is_topic(name, channels->depth_topic)) {
        const bool is_alike =
            units_or_default(units_per_m) == units_or_default(channels->units_per_m);
        if (is_alike)
            mcap_ids_add(&channels->depths, id);
        channels->n_other_units += !is_alike;
    }
    if (rank <= channels->depth_rank)
        return false;
    channels->depth_rank = rank;
    channels->depths = (struct mcap_ids){0};
    mcap_ids_add(&channels->depths, id);
    channels->n_other_units = 0;
    channels->units_per_m = units_per_m;
    memcpy(channels->depth_topic, name, sizeof name);
    return true;
}

static void take_calib(struct mcap_channels *channels, uint16_t id, const char *topic,
                       size_t n_topic)
{
    for (size_t i = 0; i < channels->n_calibs; i++)
        if (channels->calibs[i].id == id)
            return;
    if (channels->n_calibs == MAX_CALIBS)
        return;
    struct mcap_calib_channel *const calib = &channels->calibs[channels->n_calibs++];
    calib->id = id;
    snprintf(calib->topic, sizeof calib->topic, "%.*s", (int)n_topic, topic);
}

unsigned mcap_channels_take(struct mcap_channels *channels, const unsigned char *data, size_t n)
{
    const char *topic, *encoding;
    size_t at = 4, n_topic, n_encoding;
    if (n < 4 || !mcap_take_string(data, n, &at, &topic, &n_topic) ||
        !mcap_take_string(data, n, &at, &encoding, &n_encoding))
        return 0;
    if (!mcap_ids_have(&channels->seen, (uint16_t)mcap_get(data, 2)))
        mcap_channel_list_add(&channels->list, data, n);
    mcap_ids_add(&channels->seen, (uint16_t)mcap_get(data, 2));
    channels->has_ros = channels->has_ros || mcap_is_text(encoding, n_encoding, "cdr") ||
                        mcap_is_text(encoding, n_encoding, "ros1");
    if (!mcap_is_text(encoding, n_encoding, "protobuf"))
        return 0;
    const uint16_t id = (uint16_t)mcap_get(data, 2), schema = (uint16_t)mcap_get(data + 2, 2);
    unsigned news = 0;
    if (mcap_ids_have(&channels->calib_schemas, schema))
        take_calib(channels, id, topic, n_topic);
    if (mcap_ids_have(&channels->image_schemas, schema) &&
        take_image(channels, id, topic, n_topic, take_units(data, n, at)))
        news |= MCAP_OTHER_DEPTH;
    if (choose_calib(channels))
        news |= MCAP_OTHER_CALIB;
    return news;
}

const char *mcap_channels_wrong(const struct mcap_channels *channels)
{
    const bool is_chosen = channels->choice.topic || channels->choice.camera;
    if (channels->choice.topic && channels->n_topics && channels->depth_rank == MCAP_DEPTH_NONE)
        return "no depth topic of that name; it has";
    return is_chosen && mcap_channels_n_depths(channels) > 1 &&
                   channels->depth_rank < MCAP_DEPTH_NAMED
               ? "no depth topic of that camera's name; it has"
               : NULL;
}
