// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/needed_channels.h"

// Whether the schema with that id is one of a calibration, of whichever dialect.
static bool is_calibration(const struct mcap_bytes *schemas, uint64_t id)
{
    for (size_t at = 0; at < schemas->n;) {
        const size_t n = (size_t)mcap_get(schemas->data + at + 1, 8);
        const unsigned char *const data = schemas->data + at + MCAP_RECORD_BYTES;
        const char *name;
        size_t n_name, from = 2;
        if (mcap_get(data, 2) == id && mcap_take_string(data, n, &from, &name, &n_name))
            return mcap_is_text(name, n_name, "foxglove.CameraCalibration") ||
                   mcap_is_text(name, n_name, "sensor_msgs/msg/CameraInfo") ||
                   mcap_is_text(name, n_name, "sensor_msgs/CameraInfo");
        at += MCAP_RECORD_BYTES + n;
    }
    return false;
}

static bool is_tf_static(const char *topic, size_t n_topic)
{
    static const char name[] = "tf_static";
    const size_t n = sizeof name - 1;
    return n_topic >= n && memcmp(topic + n_topic - n, name, n) == 0;
}

void mcap_tell_of_needed(const struct mcap_bytes *schemas, const struct mcap_bytes *channels,
                         const uint64_t *n_messages, const uint64_t *n_said, const char *name,
                         const struct log_sink *log)
{
    for (size_t at = 0; at < channels->n;) {
        const size_t n = (size_t)mcap_get(channels->data + at + 1, 8);
        const unsigned char *const data = channels->data + at + MCAP_RECORD_BYTES;
        const char *topic;
        size_t n_topic, from = 4;
        at += MCAP_RECORD_BYTES + n;
        const uint64_t id = mcap_get(data, 2);
        if (n_messages[id] || (n_said && n_said[id] == 0) ||
            !mcap_take_string(data, n, &from, &topic, &n_topic))
            continue;
        if (is_calibration(schemas, mcap_get(data + 2, 2)))
            log_to(log, LOG_LEVEL_WARNING,
                   "%s: the copy has no message of %.*s, a calibration: to replay the images that "
                   "it is for, set camera.fx, camera.fy, camera.cx and camera.cy",
                   name, (int)n_topic, topic);
        else if (is_tf_static(topic, n_topic))
            log_to(log, LOG_LEVEL_WARNING,
                   "%s: the copy has no message of %.*s: where the camera is on its robot is not "
                   "in it",
                   name, (int)n_topic, topic);
    }
}
