// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/foxglove.h"

#include <string.h>

#include "capture/mcap/protobuf.h"

// What posed.proto's Pose has beyond foxglove.Odometry.
#define POSE_PUBLISHED     1004
#define POSE_STATE         1005
#define STATE_LOST         4
#define POSE_REASON        1006
#define REASON_DROPPED     2
#define POSE_MAP_FROM_ODOM 1027
#define POSE_IS_CUT        1029
#define POSE_IS_STALE      1030

#define MAX_STAMP_S UINT64_C(4000000000) // nanoseconds since 1970 have room for twice that

static void put_timestamp(struct protobuf_out *out, uint32_t number, int64_t time_ns)
{
    unsigned char bytes[32];
    struct protobuf_out inner = {bytes, 0, sizeof bytes};
    protobuf_put_uint(&inner, 1, (uint64_t)(time_ns / 1000000000));
    protobuf_put_uint(&inner, 2, (uint64_t)(time_ns % 1000000000));
    protobuf_put_bytes(out, number, bytes, inner.n);
}

size_t foxglove_put_image_header(const struct depth_frame *image, const char *frame_id,
                                 unsigned char bytes[FOXGLOVE_MAX_HEADER_BYTES])
{
    struct protobuf_out out = {bytes, 0, FOXGLOVE_MAX_HEADER_BYTES};
    uint32_t step_bytes = image->width_px * (uint32_t)sizeof(uint16_t);
    put_timestamp(&out, 1, image->time_ns);
    protobuf_put_fixed32(&out, 2, image->width_px);
    protobuf_put_fixed32(&out, 3, image->height_px);
    protobuf_put_text(&out, 4, "16UC1");
    protobuf_put_fixed32(&out, 5, step_bytes);
    protobuf_put_text(&out, 7, frame_id);
    protobuf_put_key(&out, 6, PROTOBUF_BYTES);
    protobuf_put_varint(&out, (uint64_t)step_bytes * image->height_px);
    return out.n;
}

size_t foxglove_put_remainder_header(const struct depth_frame *image,
                                     unsigned char bytes[FOXGLOVE_MAX_HEADER_BYTES])
{
    struct protobuf_out out = {bytes, 0, FOXGLOVE_MAX_HEADER_BYTES};
    protobuf_put_key(&out, FOXGLOVE_FIELD_UNITS_PER_M, PROTOBUF_64);
    protobuf_put_double(&out, image->units_per_m);
    protobuf_put_key(&out, FOXGLOVE_FIELD_REMAINDERS, PROTOBUF_BYTES);
    protobuf_put_varint(&out, (uint64_t)image->width_px * image->height_px);
    return out.n;
}

int64_t foxglove_units_of_mm(uint16_t mm, double units_per_m)
{
    return (int64_t)(mm * units_per_m / 1000 + 0.5);
}

size_t foxglove_put_calibration(const struct intrinsics *camera, int64_t time_ns,
                                const char *frame_id,
                                unsigned char bytes[FOXGLOVE_MAX_CALIBRATION_BYTES])
{
    struct protobuf_out out = {bytes, 0, FOXGLOVE_MAX_CALIBRATION_BYTES};
    double fx = camera->fx_px, fy = camera->fy_px, cx = camera->cx_px, cy = camera->cy_px;
    const double d[5] = {0}, k[9] = {fx, 0, cx, 0, fy, cy, 0, 0, 1};
    const double r[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, p[12] = {fx, 0, cx, 0, 0, fy, cy, 0, 0, 0, 1};
    put_timestamp(&out, 1, time_ns);
    protobuf_put_fixed32(&out, 2, camera->width_px);
    protobuf_put_fixed32(&out, 3, camera->height_px);
    protobuf_put_text(&out, 4, "plumb_bob");
    protobuf_put_doubles(&out, 5, d, 5);
    protobuf_put_doubles(&out, 6, k, 9);
    protobuf_put_doubles(&out, 7, r, 9);
    protobuf_put_doubles(&out, 8, p, 12);
    protobuf_put_text(&out, 9, frame_id);
    return out.n;
}

// A message of doubles alone: fields 1 .. n.
static void put_vector(struct protobuf_out *out, uint32_t number, const double *values, uint32_t n)
{
    unsigned char bytes[64];
    struct protobuf_out inner = {bytes, 0, sizeof bytes};
    for (uint32_t i = 0; i < n; i++) {
        protobuf_put_key(&inner, i + 1, PROTOBUF_64);
        protobuf_put_double(&inner, values[i]);
    }
    protobuf_put_bytes(out, number, bytes, inner.n);
}

size_t foxglove_put_transform(const double position_m[3], const double orientation_xyzw[4],
                              int64_t time_ns, const char *parent, const char *child,
                              unsigned char bytes[FOXGLOVE_MAX_TRANSFORM_BYTES])
{
    struct protobuf_out out = {bytes, 0, FOXGLOVE_MAX_TRANSFORM_BYTES};
    put_timestamp(&out, 1, time_ns);
    protobuf_put_text(&out, 2, parent);
    protobuf_put_text(&out, 3, child);
    put_vector(&out, 4, position_m, 3);
    put_vector(&out, 5, orientation_xyzw, 4);
    return out.n;
}

// *out_ns is 0 where it is out of range.
static bool get_timestamp(const struct protobuf_value *message, int64_t *out_ns)
{
    struct protobuf_in in = {message->data, message->n_bytes, 0};
    struct protobuf_value value;
    uint64_t seconds = 0, nanos = 0;
    while (in.at < in.n) {
        if (!protobuf_get_field(&in, &value))
            return false;
        if (value.type == PROTOBUF_VARINT && value.number == 1)
            seconds = value.number_value;
        if (value.type == PROTOBUF_VARINT && value.number == 2)
            nanos = value.number_value;
    }
    const bool is_in_range = seconds < MAX_STAMP_S && nanos < 1000000000;
    *out_ns = is_in_range ? (int64_t)(seconds * 1000000000 + nanos) : 0;
    return true;
}

bool foxglove_get_image(const void *message, size_t n_bytes, struct foxglove_image *out)
{
    struct protobuf_in in = {message, n_bytes, 0};
    struct protobuf_value value;
    size_t n_remainder_bytes = 0;
    *out = (struct foxglove_image){0};
    while (in.at < in.n) {
        if (!protobuf_get_field(&in, &value))
            return false;
        if (value.number == 1 && value.type == PROTOBUF_BYTES &&
            !get_timestamp(&value, &out->time_ns))
            return false;
        if (value.number == 2 && value.type == PROTOBUF_32)
            out->width_px = (uint32_t)value.number_value;
        if (value.number == 3 && value.type == PROTOBUF_32)
            out->height_px = (uint32_t)value.number_value;
        if (value.number == 5 && value.type == PROTOBUF_32)
            out->step_bytes = (uint32_t)value.number_value;
        if (value.number == 4 && value.type == PROTOBUF_BYTES &&
            value.n_bytes < sizeof out->encoding) {
            memset(out->encoding, 0, sizeof out->encoding);
            memcpy(out->encoding, value.data, value.n_bytes);
        }
        if (value.number == 6 && value.type == PROTOBUF_BYTES) {
            out->data = value.data;
            out->n_data_bytes = value.n_bytes;
        }
        if (value.number == FOXGLOVE_FIELD_UNITS_PER_M && value.type == PROTOBUF_64)
            memcpy(&out->units_per_m, &value.number_value, sizeof out->units_per_m);
        if (value.number == FOXGLOVE_FIELD_REMAINDERS && value.type == PROTOBUF_BYTES) {
            out->remainders = value.data;
            n_remainder_bytes = value.n_bytes;
        }
    }
    // The size may stand behind them, or come again: the last one holds. Either without the other
    // says nothing.
    if (n_remainder_bytes != (uint64_t)out->width_px * out->height_px ||
        !(out->units_per_m > 0 && out->units_per_m <= FOXGLOVE_MAX_UNITS_PER_M))
        out->remainders = NULL;
    if (!out->remainders)
        out->units_per_m = 0;
    return out->n_data_bytes / (out->step_bytes ? out->step_bytes : 1) >= out->height_px;
}

bool foxglove_is_depth(const struct foxglove_image *image)
{
    return strcmp(image->encoding, "16UC1") == 0 || strcmp(image->encoding, "mono16") == 0;
}

bool foxglove_get_calibration(const void *message, size_t n_bytes, struct intrinsics *out)
{
    struct protobuf_in in = {message, n_bytes, 0};
    struct protobuf_value value;
    bool found = false;
    *out = (struct intrinsics){0};
    while (in.at < in.n) {
        if (!protobuf_get_field(&in, &value))
            return false;
        if (value.number == 2 && value.type == PROTOBUF_32)
            out->width_px = (uint32_t)value.number_value;
        if (value.number == 3 && value.type == PROTOBUF_32)
            out->height_px = (uint32_t)value.number_value;
        if (value.number == 6 && value.type == PROTOBUF_BYTES && value.n_bytes == 9 * 8) {
            out->fx_px = protobuf_double_at(value.data);
            out->cx_px = protobuf_double_at(value.data + 2 * 8);
            out->fy_px = protobuf_double_at(value.data + 4 * 8);
            out->cy_px = protobuf_double_at(value.data + 5 * 8);
            found = true;
        }
    }
    return found;
}

// A message of doubles alone: fields 1 .. n.
static bool get_doubles(const struct protobuf_value *message, size_t n, double *out)
{
    struct protobuf_in in = {message->data, message->n_bytes, 0};
    struct protobuf_value value;
    while (in.at < in.n) {
        if (!protobuf_get_field(&in, &value))
            return false;
        if (value.type == PROTOBUF_64 && value.number >= 1 && value.number <= n)
            memcpy(&out[value.number - 1], &value.number_value, sizeof *out);
    }
    return true;
}

static bool get_pose(const struct protobuf_value *message, double position_m[3],
                     double orientation_xyzw[4])
{
    struct protobuf_in in = {message->data, message->n_bytes, 0};
    struct protobuf_value value;
    bool good = true;
    while (in.at < in.n && good) {
        good = protobuf_get_field(&in, &value);
        if (good && value.type == PROTOBUF_BYTES && value.number == 1)
            good = get_doubles(&value, 3, position_m);
        else if (good && value.type == PROTOBUF_BYTES && value.number == 2)
            good = get_doubles(&value, 4, orientation_xyzw);
    }
    return good;
}

// Returns whether it is there: 36 numbers.
static bool get_covariance(const struct protobuf_value *value, double out[36])
{
    const bool is_there = value->n_bytes == 36 * sizeof(double);
    for (size_t i = 0; i < 36 && is_there; i++)
        out[i] = protobuf_double_at(value->data + 8 * i);
    return is_there;
}

bool foxglove_get_odometry(const void *message, size_t n_bytes, struct foxglove_odometry *out)
{
    struct protobuf_in in = {message, n_bytes, 0};
    struct protobuf_value value;
    bool good = true;
    *out = (struct foxglove_odometry){0};
    while (in.at < in.n && good) {
        good = protobuf_get_field(&in, &value);
        if (good && value.number == POSE_STATE && value.type == PROTOBUF_VARINT)
            out->is_lost = value.number_value == STATE_LOST;
        if (good && value.number == POSE_REASON && value.type == PROTOBUF_VARINT)
            out->is_predicted = value.number_value == REASON_DROPPED;
        if (good && value.number == POSE_PUBLISHED && value.type == PROTOBUF_VARINT)
            out->published_ns = (int64_t)value.number_value;
        if (good && value.number == POSE_IS_CUT && value.type == PROTOBUF_VARINT)
            out->is_cut = value.number_value != 0;
        if (good && value.number == POSE_IS_STALE && value.type == PROTOBUF_VARINT)
            out->is_stale = value.number_value != 0;
        if (!good || value.type != PROTOBUF_BYTES)
            continue;
        if (value.number == 1)
            good = get_timestamp(&value, &out->time_ns);
        else if (value.number == 4)
            good = get_pose(&value, out->position_m, out->orientation_xyzw);
        else if (value.number == 5)
            good = get_doubles(&value, 3, out->linear_m_s);
        else if (value.number == 6)
            good = get_doubles(&value, 3, out->angular_rad_s);
        else if (value.number == POSE_MAP_FROM_ODOM)
            out->has_map = good = get_pose(&value, out->map_position_m, out->map_orientation_xyzw);
        else if (value.number == 7)
            get_covariance(&value, out->covariance);
        else if (value.number == 8)
            out->has_velocity_covariance = get_covariance(&value, out->velocity_covariance);
    }
    return good;
}
