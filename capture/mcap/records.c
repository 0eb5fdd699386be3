// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/records.h"

#include <stdio.h>
#include <zlib.h>

#include "capture/mcap/foxglove.h"
#include "capture/ros/schemas.h"
#include "capture/ros/topic_name.h"

// `topic` of the only camera; `named` where there are several, with the name in place of %s.
struct channel {
    const char *topic, *named, *schema;
};

#define MAX_TOPIC_BYTES 128

// A dialect's channels, beginning with MCAP_CHANNEL_DEPTH.
static const struct {
    const char *profile, *message_encoding, *schema_encoding, *rig_topic;
    uint16_t n_channels;
    struct channel channels[MCAP_END_CHANNELS];
} dialects[] = {
    [MCAP_FOXGLOVE] = {"",
                       "protobuf",
                       "protobuf",
                       "rig",
                       MCAP_CHANNEL_TF,
                       {[MCAP_CHANNEL_DEPTH] = {"depth", "depth/%s", "foxglove.RawImage"},
                        [MCAP_CHANNEL_CALIB] = {"calib", "calib/%s", "foxglove.CameraCalibration"},
                        [MCAP_CHANNEL_POSE] = {"pose", "pose/%s", "foxglove.Odometry"},
                        [MCAP_CHANNEL_TF] = {"tf", "tf/%s", "foxglove.FrameTransform"}}},
    [MCAP_ROS2] = {"ros2",
                   "cdr",
                   "ros2msg",
                   "/rig/odom",
                   MCAP_CHANNEL_TF_STATIC,
                   {[MCAP_CHANNEL_DEPTH] = {"/camera/depth/image_raw", "/%s/depth/image_raw",
                                            "sensor_msgs/msg/Image"},
                    [MCAP_CHANNEL_CALIB] = {"/camera/depth/camera_info", "/%s/depth/camera_info",
                                            "sensor_msgs/msg/CameraInfo"},
                    [MCAP_CHANNEL_POSE] = {"/odom", "/%s/odom", "nav_msgs/msg/Odometry"},
                    [MCAP_CHANNEL_TF] = {"/tf", "/tf", "tf2_msgs/msg/TFMessage"},
                    [MCAP_CHANNEL_TF_STATIC] = {"/tf_static", "/tf_static",
                                                "tf2_msgs/msg/TFMessage"}}},
};

void mcap_put_bytes(struct mcap_bytes *out, const void *data, size_t n)
{
    if (n && n <= out->capacity - out->n) {
        memcpy(out->data + out->n, data, n);
        out->n += n;
    }
}

void mcap_put_number(struct mcap_bytes *out, uint64_t value, int n_bytes)
{
    unsigned char bytes[8];
    mcap_put(bytes, value, n_bytes);
    mcap_put_bytes(out, bytes, (size_t)n_bytes);
}

void mcap_put_string(struct mcap_bytes *out, const char *text)
{
    mcap_put_number(out, strlen(text), 4);
    mcap_put_bytes(out, text, strlen(text));
}

// Begins a record; end_record fills in its length.
size_t mcap_begin_record(struct mcap_bytes *out, enum mcap_opcode opcode)
{
    mcap_put_number(out, opcode, 1);
    mcap_put_number(out, 0, 8);
    return out->n;
}

void mcap_end_record(struct mcap_bytes *out, size_t begin)
{
    mcap_put(out->data + begin - 8, out->n - begin, 8);
}

static void put_schemas(struct mcap_bytes *out, enum mcap_dialect dialect)
{
    size_t n;
    for (uint16_t id = 1; id <= dialects[dialect].n_channels; id++) {
        const char *schema = dialects[dialect].channels[id].schema;
        const void *data = dialect == MCAP_ROS2 ? ros_schema(schema, &n) : foxglove_descriptors(&n);
        size_t begin = mcap_begin_record(out, MCAP_SCHEMA);
        mcap_put_number(out, id, 2);
        mcap_put_string(out, schema);
        mcap_put_string(out, dialects[dialect].schema_encoding);
        mcap_put_number(out, n, 4);
        mcap_put_bytes(out, data, n);
        mcap_end_record(out, begin);
    }
}

static void put_pair(struct mcap_bytes *out, const char *key, const char *value)
{
    mcap_put_string(out, key);
    mcap_put_string(out, value);
}

uint16_t mcap_channel_id(const struct mcap_content *content, uint32_t camera,
                         enum mcap_channel channel)
{
    if (channel == MCAP_CHANNEL_RIG)
        return (uint16_t)(content->n_cameras * dialects[content->dialect].n_channels + 1);
    bool is_shared = content->dialect == MCAP_ROS2 &&
                     (channel == MCAP_CHANNEL_TF || channel == MCAP_CHANNEL_TF_STATIC);
    uint32_t first = is_shared ? 0 : camera * dialects[content->dialect].n_channels;
    return (uint16_t)(first + (uint32_t)channel);
}

// The ids of all channels, in out[1] and on. Returns their number.
static uint16_t list_channels(const struct mcap_content *content, uint16_t out[MCAP_MAX_CHANNELS])
{
    uint16_t n = 0, n_each = dialects[content->dialect].n_channels;
    for (uint32_t camera = 0; camera < content->n_cameras; camera++)
        for (uint16_t k = 1; k <= n_each; k++) {
            uint16_t id = mcap_channel_id(content, camera, (enum mcap_channel)k);
            if (id == camera * n_each + k)
                out[++n] = id;
        }
    if (content->has_rig)
        out[++n] = mcap_channel_id(content, 0, MCAP_CHANNEL_RIG);
    return n;
}

// ROS players look for the QoS of a topic; an empty one is the default.
static void put_channel(struct mcap_bytes *out, const struct mcap_content *content, uint16_t id)
{
    const enum mcap_dialect dialect = content->dialect;
    const bool is_rig = id == mcap_channel_id(content, 0, MCAP_CHANNEL_RIG);
    const uint16_t n_each = dialects[dialect].n_channels;
    const uint16_t kind = (uint16_t)(is_rig ? MCAP_CHANNEL_POSE : (id - 1) % n_each + 1);
    const struct mcap_camera *camera = &content->cameras[is_rig ? 0 : (id - 1) / n_each];
    const struct channel *channel = &dialects[dialect].channels[kind];
    char topic[MAX_TOPIC_BYTES], units[32], part[ROS_TOPIC_PART_BYTES];
    const char *name = strstr(channel->named, "%s");
    ros_topic_part(camera->name, part);
    if (is_rig)
        snprintf(topic, sizeof topic, "%s", dialects[dialect].rig_topic);
    else if (camera->name[0] && name)
        snprintf(topic, sizeof topic, "%.*s%s%s", (int)(name - channel->named), channel->named,
                 dialect == MCAP_ROS2 ? part : camera->name, name + 2);
    else
        snprintf(topic, sizeof topic, "%s", channel->topic);
    snprintf(units, sizeof units, "%.17g", camera->units_per_m);
    size_t begin = mcap_begin_record(out, MCAP_CHANNEL);
    mcap_put_number(out, id, 2);
    mcap_put_number(out, kind, 2); // its schema
    mcap_put_string(out, topic);
    mcap_put_string(out, dialects[dialect].message_encoding);
    size_t map = out->n;
    mcap_put_number(out, 0, 4);
    if (kind == MCAP_CHANNEL_DEPTH)
        put_pair(out, "units_per_m", units);
    if (dialect == MCAP_ROS2)
        put_pair(out, "offered_qos_profiles", "");
    mcap_put(out->data + map, out->n - map - 4, 4);
    mcap_end_record(out, begin);
}

static void put_channels(struct mcap_bytes *out, const struct mcap_content *content)
{
    uint16_t ids[MCAP_MAX_CHANNELS], n = list_channels(content, ids);
    for (uint16_t i = 1; i <= n; i++)
        put_channel(out, content, ids[i]);
}

void mcap_put_head(struct mcap_bytes *out, const struct mcap_content *content)
{
    const enum mcap_dialect dialect = content->dialect;
    mcap_put_bytes(out, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    size_t begin = mcap_begin_record(out, MCAP_HEADER);
    mcap_put_string(out, dialects[dialect].profile);
    mcap_put_string(out, "posed");
    mcap_end_record(out, begin);
    put_schemas(out, dialect);
    put_channels(out, content);
}

static void put_statistics(struct mcap_bytes *out, const struct mcap_content *content,
                           const struct mcap_totals *totals)
{
    uint16_t ids[MCAP_MAX_CHANNELS], n_channels = list_channels(content, ids);
    uint64_t n_all = 0;
    for (int i = 1; i <= n_channels; i++)
        n_all += totals->n_messages[ids[i]];
    size_t begin = mcap_begin_record(out, MCAP_STATISTICS);
    mcap_put_number(out, n_all, 8);
    mcap_put_number(out, dialects[content->dialect].n_channels, 2); // schemas
    mcap_put_number(out, n_channels, 4);
    mcap_put_number(out, 0, 4); // attachments
    mcap_put_number(out, 0, 4); // metadata records
    mcap_put_number(out, totals->n_chunks, 4);
    mcap_put_number(out, (uint64_t)totals->begin_ns, 8);
    mcap_put_number(out, (uint64_t)totals->end_ns, 8);
    mcap_put_number(out, (uint64_t)(10 * n_channels), 4);
    for (uint16_t i = 1; i <= n_channels; i++) {
        mcap_put_number(out, ids[i], 2);
        mcap_put_number(out, totals->n_messages[ids[i]], 8);
    }
    mcap_end_record(out, begin);
}

static void put_chunk_index(struct mcap_bytes *out, const struct mcap_chunk_place *place)
{
    size_t begin = mcap_begin_record(out, MCAP_CHUNK_INDEX), n = 0;
    mcap_put_number(out, (uint64_t)place->first_ns, 8);
    mcap_put_number(out, (uint64_t)place->last_ns, 8);
    mcap_put_number(out, place->offset, 8);
    mcap_put_number(out, place->n_bytes, 8);
    for (int i = 1; i < MCAP_MAX_CHANNELS; i++)
        n += place->index_offsets[i] != 0;
    mcap_put_number(out, 10 * n, 4);
    for (unsigned i = 1; i < MCAP_MAX_CHANNELS; i++)
        if (place->index_offsets[i]) {
            mcap_put_number(out, i, 2);
            mcap_put_number(out, place->index_offsets[i], 8);
        }
    mcap_put_number(out, place->n_index_bytes, 8);
    mcap_put_string(out, place->compression);
    mcap_put_number(out, place->n_packed, 8);
    mcap_put_number(out, place->n_raw, 8);
    mcap_end_record(out, begin);
}

static void put_offset(struct mcap_bytes *out, enum mcap_opcode group, uint64_t start,
                       uint64_t n_bytes)
{
    if (!n_bytes)
        return;
    size_t begin = mcap_begin_record(out, MCAP_SUMMARY_OFFSET);
    mcap_put_number(out, group, 1);
    mcap_put_number(out, start, 8);
    mcap_put_number(out, n_bytes, 8);
    mcap_end_record(out, begin);
}

size_t mcap_chunk_index_bytes(const struct mcap_content *content)
{
    return 206 + 10 * ((size_t)content->n_cameras * (MCAP_END_CHANNELS - 1) + content->has_rig);
}

void mcap_put_summary(struct mcap_bytes *out, const struct mcap_content *content, uint64_t start,
                      const struct mcap_totals *totals)
{
    static const enum mcap_opcode groups[] = {MCAP_SCHEMA, MCAP_CHANNEL, MCAP_STATISTICS,
                                              MCAP_CHUNK_INDEX};
    uint64_t at[5] = {start};
    put_schemas(out, content->dialect);
    at[1] = start + out->n;
    put_channels(out, content);
    at[2] = start + out->n;
    put_statistics(out, content, totals);
    at[3] = start + out->n;
    for (size_t i = 0; i < totals->n_chunks; i++)
        put_chunk_index(out, &totals->chunks[i]);
    at[4] = start + out->n;
    for (int i = 0; i < 4; i++)
        put_offset(out, groups[i], at[i], at[i + 1] - at[i]);
    size_t begin = mcap_begin_record(out, MCAP_FOOTER);
    mcap_put_number(out, start, 8);
    mcap_put_number(out, at[4], 8);
    mcap_put(out->data + begin - 8, 20, 8); // the checksum covers the footer's length, too
    mcap_put_number(out, crc32(0, out->data, (uInt)out->n), 4);
    mcap_put_bytes(out, MCAP_MAGIC, MCAP_MAGIC_BYTES);
}
