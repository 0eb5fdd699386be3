// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/channels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/mcap/format.h"

#define DEPTH_TOPIC "depth"
#define CALIB_TOPIC "calib"

#define MAX_CALIBS (sizeof(((struct mcap_channels *)0)->calibs) / sizeof(struct mcap_calib_channel))

void mcap_channels_take_schema(struct mcap_channels *channels, const unsigned char *data, size_t n)
{
    const char *name, *encoding;
    size_t at = 2, n_name, n_encoding;
    if (n < 2 || !mcap_take_string(data, n, &at, &name, &n_name) ||
        !mcap_take_string(data, n, &at, &encoding, &n_encoding) ||
        !mcap_is_text(encoding, n_encoding, "protobuf"))
        return;
    const uint16_t id = (uint16_t)mcap_get(data, 2);
    if (mcap_is_text(name, n_name, "foxglove.RawImage"))
        channels->is_image_schema[id] = true;
    if (mcap_is_text(name, n_name, "foxglove.CameraCalibration"))
        channels->is_calib_schema[id] = true;
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
    const bool is_same = channels->has_calib && best->id == channels->calib_channel;
    if (channels->n_calibs == 0 || is_same)
        return false;
    channels->has_calib = true;
    channels->calib_channel = best->id;
    return true;
}

static void list_topic(struct mcap_channels *channels, const char *topic, size_t n_topic)
{
    const size_t room = sizeof channels->topics - channels->n_topics_bytes;
    const char *comma = channels->n_topics ? ", " : "";
    channels->n_topics++;
    if (n_topic + 8 > room)
        return;
    channels->n_topics_bytes += (size_t)snprintf(channels->topics + channels->n_topics_bytes, room,
                                                 "%s%.*s", comma, (int)n_topic, topic);
}

static bool take_image(struct mcap_channels *channels, uint16_t id, const char *topic,
                       size_t n_topic, double units_per_m)
{
    const enum mcap_depth_rank rank = depth_rank(&channels->choice, topic, n_topic);
    if (!channels->is_listed[id])
        list_topic(channels, topic, n_topic);
    channels->is_listed[id] = true;
    if (rank <= channels->depth_rank)
        return false;
    channels->depth_rank = rank;
    channels->depth_channel = id;
    channels->units_per_m = units_per_m;
    snprintf(channels->depth_topic, sizeof channels->depth_topic, "%.*s", (int)n_topic, topic);
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
    channels->has_ros = channels->has_ros || mcap_is_text(encoding, n_encoding, "cdr") ||
                        mcap_is_text(encoding, n_encoding, "ros1");
    if (!mcap_is_text(encoding, n_encoding, "protobuf"))
        return 0;
    const uint16_t id = (uint16_t)mcap_get(data, 2), schema = (uint16_t)mcap_get(data + 2, 2);
    unsigned news = 0;
    if (channels->is_calib_schema[schema])
        take_calib(channels, id, topic, n_topic);
    if (channels->is_image_schema[schema] &&
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
    return is_chosen && channels->n_topics > 1 && channels->depth_rank < MCAP_DEPTH_NAMED
               ? "no depth topic of that camera's name; it has"
               : NULL;
}
