// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/records.h"

#include <stdio.h>
#include <zlib.h>

#include "capture/mcap/foxglove.h"
#include "capture/ros/schemas.h"

struct channel {
    const char *topic, *schema;
};

// A dialect's channels, beginning with MCAP_CHANNEL_DEPTH.
static const struct {
    const char *profile, *message_encoding, *schema_encoding;
    uint16_t n_channels;
    struct channel channels[MCAP_END_CHANNELS];
} dialects[] = {
    [MCAP_FOXGLOVE] = {"",
                       "protobuf",
                       "protobuf",
                       MCAP_CHANNEL_TF,
                       {[MCAP_CHANNEL_DEPTH] = {"depth", "foxglove.RawImage"},
                        [MCAP_CHANNEL_CALIB] = {"calib", "foxglove.CameraCalibration"},
                        [MCAP_CHANNEL_POSE] = {"pose", "foxglove.Odometry"},
                        [MCAP_CHANNEL_TF] = {"tf", "foxglove.FrameTransform"}}},
    [MCAP_ROS2] = {"ros2",
                   "cdr",
                   "ros2msg",
                   MCAP_CHANNEL_TF_STATIC,
                   {[MCAP_CHANNEL_DEPTH] = {"/camera/depth/image_raw", "sensor_msgs/msg/Image"},
                    [MCAP_CHANNEL_CALIB] = {"/camera/depth/camera_info",
                                            "sensor_msgs/msg/CameraInfo"},
                    [MCAP_CHANNEL_POSE] = {"/odom", "nav_msgs/msg/Odometry"},
                    [MCAP_CHANNEL_TF] = {"/tf", "tf2_msgs/msg/TFMessage"},
                    [MCAP_CHANNEL_TF_STATIC] = {"/tf_static", "tf2_msgs/msg/TFMessage"}}},
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

// ROS players look for the QoS of a topic; an empty one is the default.
static void put_channels(struct mcap_bytes *out, enum mcap_dialect dialect, double units_per_m)
{
    char units[32];
    snprintf(units, sizeof units, "%.17g", units_per_m);
    for (uint16_t id = 1; id <= dialects[dialect].n_channels; id++) {
        size_t begin = mcap_begin_record(out, MCAP_CHANNEL);
        mcap_put_number(out, id, 2);
        mcap_put_number(out, id, 2); // its schema
        mcap_put_string(out, dialects[dialect].channels[id].topic);
        mcap_put_string(out, dialects[dialect].message_encoding);
        size_t map = out->n;
        mcap_put_number(out, 0, 4);
        if (id == MCAP_CHANNEL_DEPTH)
            put_pair(out, "units_per_m", units);
        if (dialect == MCAP_ROS2)
            put_pair(out, "offered_qos_profiles", "");
        mcap_put(out->data + map, out->n - map - 4, 4);
        mcap_end_record(out, begin);
    }
}

void mcap_put_head(struct mcap_bytes *out, enum mcap_dialect dialect, double units_per_m)
{
    mcap_put_bytes(out, MCAP_MAGIC, MCAP_MAGIC_BYTES);
    size_t begin = mcap_begin_record(out, MCAP_HEADER);
    mcap_put_string(out, dialects[dialect].profile);
    mcap_put_string(out, "posed");
    mcap_end_record(out, begin);
    put_schemas(out, dialect);
    put_channels(out, dialect, units_per_m);
}

static void put_statistics(struct mcap_bytes *out, uint16_t n_channels,
                           const struct mcap_totals *totals)
{
    uint64_t n_all = 0;
    for (int i = 1; i <= n_channels; i++)
        n_all += totals->n_messages[i];
    size_t begin = mcap_begin_record(out, MCAP_STATISTICS);
    mcap_put_number(out, n_all, 8);
    mcap_put_number(out, n_channels, 2); // schemas
    mcap_put_number(out, n_channels, 4);
    mcap_put_number(out, 0, 4); // attachments
    mcap_put_number(out, 0, 4); // metadata records
    mcap_put_number(out, totals->n_chunks, 4);
    mcap_put_number(out, (uint64_t)totals->begin_ns, 8);
    mcap_put_number(out, (uint64_t)totals->end_ns, 8);
    mcap_put_number(out, 10 * n_channels, 4);
    for (uint16_t i = 1; i <= n_channels; i++) {
        mcap_put_number(out, i, 2);
        mcap_put_number(out, totals->n_messages[i], 8);
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
    for (int i = 1; i < MCAP_END_CHANNELS; i++)
        n += place->index_offsets[i] != 0;
    mcap_put_number(out, 10 * n, 4);
    for (unsigned i = 1; i < MCAP_END_CHANNELS; i++)
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

void mcap_put_summary(struct mcap_bytes *out, enum mcap_dialect dialect, uint64_t start,
                      const struct mcap_totals *totals, double units_per_m)
{
    static const enum mcap_opcode groups[] = {MCAP_SCHEMA, MCAP_CHANNEL, MCAP_STATISTICS,
                                              MCAP_CHUNK_INDEX};
    uint64_t at[5] = {start};
    put_schemas(out, dialect);
    at[1] = start + out->n;
    put_channels(out, dialect, units_per_m);
    at[2] = start + out->n;
    put_statistics(out, dialects[dialect].n_channels, totals);
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
