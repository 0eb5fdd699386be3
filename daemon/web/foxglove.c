// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/foxglove.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config/config.h"
#include "daemon/web/schemas.h" // made by the build from proto/posed.proto
#include "proto/wire_json.h"

// Messages that Foxglove has a schema of carry its name: they have its fields, and some of ours.
static const struct {
    const char *topic, *schema;
} channels[FOXGLOVE_N_TOPICS] = {
    {"pose", "foxglove.Odometry"},
    {"tf", "foxglove.FrameTransform"},
    {"calib", "foxglove.CameraCalibration"},
    {"status", "posed.Status"},
    {"timing", "posed.Timing"},
    {"event", "posed.Event"},
    {"imu", "posed.Imu"},
    {"log", "foxglove.Log"},
    {"object", "posed.ObjectPose"},
    {"depth", "foxglove.RawImage"},
    {"normals", "foxglove.RawImage"},
    {"residual", "foxglove.RawImage"},
    {"cloud", "foxglove.PointCloud"},
};

static char *encode_base64(const uint8_t *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = malloc((n + 2) / 3 * 4 + 1), *to = out;
    for (size_t i = 0; out && i < n; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (i + 2 < n ? bytes[i + 2] : 0);
        *to++ = digits[bits >> 18 & 63];
        *to++ = digits[bits >> 12 & 63];
        *to++ = i + 1 < n ? digits[bits >> 6 & 63] : '=';
        *to++ = i + 2 < n ? digits[bits & 63] : '=';
    }
    if (out)
        *to = 0;
    return out;
}

static char *dump(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return text;
}

char *foxglove_server_info(uint64_t session, bool control, const char *const *cameras,
                           size_t n_cameras)
{
    char id[20], names[CONFIG_MAX_CAMERAS * CONFIG_CAMERA_NAME_BYTES] = "";
    for (size_t i = 0, n = 0; i < n_cameras && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? " " : "", cameras[i]);
    snprintf(id, sizeof id, "%016llx", (unsigned long long)session);
    return dump(json_pack("{s:s, s:s, s:[], s:[], s:{s:s, s:s}, s:s}", "op", "serverInfo", "name",
                          "posed", "capabilities", "supportedEncodings", "metadata", "control",
                          control ? "true" : "false", "cameras", names, "sessionId", id));
}

// Channel i + 1 of the camera that is the n-th.
static json_t *describe(size_t n, const char *camera, int i, const char *schema)
{
    char topic[CONFIG_CAMERA_NAME_BYTES + 16];
    snprintf(topic, sizeof topic, "%s%s%s", channels[i].topic, camera[0] ? "/" : "", camera);
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s}", "id", (int)n * FOXGLOVE_N_CHANNELS + i + 1,
                     "topic", topic, "encoding", "protobuf", "schemaName", channels[i].schema,
                     "schema", schema, "schemaEncoding", "protobuf");
}

char *foxglove_advertise(const char *const *cameras, size_t n_cameras)
{
    char *public_schema = encode_base64(schema_foxglove, sizeof schema_foxglove);
    char *own_schema = encode_base64(schema_posed, sizeof schema_posed);
    json_t *list = json_array();
    bool whole = list && public_schema && own_schema;
    for (size_t n = 0; whole && n < n_cameras; n++)
        for (int i = 0; whole && i < FOXGLOVE_N_TOPICS; i++)
            whole =
                json_array_append_new(
                    list, describe(n, cameras[n], i,
                                   channels[i].schema[0] == 'f' ? public_schema : own_schema)) == 0;
    free(public_schema);
    free(own_schema);
    if (whole)
        return dump(json_pack("{s:s, s:o}", "op", "advertise", "channels", list));
    json_decref(list);
    return NULL;
}

char *foxglove_status(const char *message)
{
    return dump(json_pack("{s:s, s:i, s:s}", "op", "status", "level", 1, "message", message));
}

static bool read_number(const json_t *value, uint32_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > UINT32_MAX)
        return false;
    *out = (uint32_t)json_integer_value(value);
    return true;
}

int foxglove_read(const char *text, size_t n_bytes, struct foxglove_op out[FOXGLOVE_MAX_OPS])
{
    json_t *root = json_loadb(text, n_bytes, 0, NULL), *item;
    const char *op = json_string_value(json_object_get(root, "op"));
    int n = op ? 0 : -EINVAL;
    size_t i;
    bool subscribe = op && strcmp(op, "subscribe") == 0;
    const json_t *list = subscribe ? json_object_get(root, "subscriptions")
                         : op && strcmp(op, "unsubscribe") == 0
                             ? json_object_get(root, "subscriptionIds")
                             : NULL;
    if (op && !subscribe && strcmp(op, "unsubscribe") != 0)
        n = -EOPNOTSUPP;
    json_array_foreach(list, i, item)
    {
        struct foxglove_op next = {.subscribe = subscribe};
        bool good = subscribe ? read_number(json_object_get(item, "id"), &next.id) &&
                                    read_number(json_object_get(item, "channelId"), &next.channel)
                              : read_number(item, &next.id);
        if (!good) {
            n = -EINVAL;
            break;
        }
        if (n < FOXGLOVE_MAX_OPS)
            out[n++] = next;
    }
    json_decref(root);
    return n;
}
