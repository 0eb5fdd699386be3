// SPDX-License-Identifier: Apache-2.0
// Protobuf: each field is a varint key (number << 3 | wire type) and a value: 0 a varint, 1 eight
// bytes, 2 a length and that many bytes, 5 four bytes.
#include "capture/mcap/foxglove.h"

#include <pthread.h>
#include <string.h>

// Of RawImage, beside those of the public schema.
enum { FIELD_UNITS_PER_M = 1002, FIELD_REMAINDERS = 1003 };

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct out {
    unsigned char *data;
    size_t n, capacity; // n > capacity: it did not fit
};

static void put(struct out *out, const void *data, size_t n)
{
    if (out->n + n <= out->capacity)
        memcpy(out->data + out->n, data, n);
    out->n += n;
}

static void put_varint(struct out *out, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)(value & 0x7F);
        value >>= 7;
        byte |= value ? 0x80 : 0;
        put(out, &byte, 1);
    } while (value);
}

static void put_key(struct out *out, uint32_t number, enum wire_type type)
{
    put_varint(out, number << 3 | type);
}

static void put_uint(struct out *out, uint32_t number, uint64_t value)
{
    put_key(out, number, WIRE_VARINT);
    put_varint(out, value);
}

static void put_bytes(struct out *out, uint32_t number, const void *data, size_t n)
{
    put_key(out, number, WIRE_BYTES);
    put_varint(out, n);
    put(out, data, n);
}

static void put_text(struct out *out, uint32_t number, const char *text)
{
    put_bytes(out, number, text, strlen(text));
}

static void put_fixed32(struct out *out, uint32_t number, uint32_t value)
{
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    put_key(out, number, WIRE_32);
    put(out, bytes, 4);
}

static void put_double(struct out *out, double value)
{
    uint64_t bits;
    unsigned char bytes[8];
    memcpy(&bits, &value, 8);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    put(out, bytes, 8);
}

// repeated double, packed as proto3 does.
static void put_doubles(struct out *out, uint32_t number, const double *values, size_t n)
{
    put_key(out, number, WIRE_BYTES);
    put_varint(out, 8 * n);
    for (size_t k = 0; k < n; k++)
        put_double(out, values[k]);
}

static void put_timestamp(struct out *out, uint32_t number, int64_t time_ns)
{
    unsigned char bytes[32];
    struct out inner = {bytes, 0, sizeof bytes};
    put_uint(&inner, 1, (uint64_t)(time_ns / 1000000000));
    put_uint(&inner, 2, (uint64_t)(time_ns % 1000000000));
    put_bytes(out, number, bytes, inner.n);
}

size_t foxglove_put_image_header(const struct depth_frame *image,
                                 unsigned char bytes[FOXGLOVE_MAX_HEADER_BYTES])
{
    struct out out = {bytes, 0, FOXGLOVE_MAX_HEADER_BYTES};
    uint32_t step_bytes = image->width_px * (uint32_t)sizeof(uint16_t);
    put_timestamp(&out, 1, image->time_ns);
    put_fixed32(&out, 2, image->width_px);
    put_fixed32(&out, 3, image->height_px);
    put_text(&out, 4, "16UC1");
    put_fixed32(&out, 5, step_bytes);
    put_text(&out, 7, "camera");
    put_key(&out, 6, WIRE_BYTES);
    put_varint(&out, (uint64_t)step_bytes * image->height_px);
    return out.n;
}

size_t foxglove_put_remainder_header(const struct depth_frame *image,
                                     unsigned char bytes[FOXGLOVE_MAX_HEADER_BYTES])
{
    struct out out = {bytes, 0, FOXGLOVE_MAX_HEADER_BYTES};
    put_key(&out, FIELD_UNITS_PER_M, WIRE_64);
    put_double(&out, image->units_per_m);
    put_key(&out, FIELD_REMAINDERS, WIRE_BYTES);
    put_varint(&out, (uint64_t)image->width_px * image->height_px);
    return out.n;
}

int64_t foxglove_units_of_mm(uint16_t mm, double units_per_m)
{
    return (int64_t)(mm * units_per_m / 1000 + 0.5);
}

size_t foxglove_put_calibration(const struct intrinsics *camera, int64_t time_ns,
                                unsigned char bytes[FOXGLOVE_MAX_CALIBRATION_BYTES])
{
    struct out out = {bytes, 0, FOXGLOVE_MAX_CALIBRATION_BYTES};
    double fx = camera->fx_px, fy = camera->fy_px, cx = camera->cx_px, cy = camera->cy_px;
    const double d[5] = {0}, k[9] = {fx, 0, cx, 0, fy, cy, 0, 0, 1};
    const double r[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, p[12] = {fx, 0, cx, 0, 0, fy, cy, 0, 0, 0, 1};
    put_timestamp(&out, 1, time_ns);
    put_fixed32(&out, 2, camera->width_px);
    put_fixed32(&out, 3, camera->height_px);
    put_text(&out, 4, "plumb_bob");
    put_doubles(&out, 5, d, 5);
    put_doubles(&out, 6, k, 9);
    put_doubles(&out, 7, r, 9);
    put_doubles(&out, 8, p, 12);
    put_text(&out, 9, "camera");
    return out.n;
}

// ---- descriptors: a FileDescriptorSet written from this table ----

enum field_type {
    DOUBLE = 1,
    FLOAT = 2,
    INT64 = 3,
    UINT64 = 4,
    INT32 = 5,
    FIXED64 = 6,
    FIXED32 = 7,
    BOOL = 8,
    STRING = 9,
    MESSAGE = 11,
    BYTES = 12,
    UINT32 = 13,
    ENUM = 14
};

struct field {
    const char *name;
    uint32_t number;
    enum field_type type;
    bool repeated;
    const char *type_name;
};

#define MAX_FIELDS 36

struct message {
    const char *name;
    struct field fields[MAX_FIELDS];
};

// Values by number.
struct enumeration {
    const char *name;
    const char *values[16];
};

// As in proto/posed.proto; tests/scenario/274_mcap_schema.py compares.
static const struct enumeration enumerations[] = {
    {"State",
     {"STATE_UNSPECIFIED", "STATE_INIT", "STATE_TRACKING", "STATE_DEGRADED", "STATE_LOST",
      "STATE_SEARCHING", "STATE_NO_INPUT"}},
    {"Reference", {"REFERENCE_PREVIOUS", "REFERENCE_KEYFRAME", "REFERENCE_MODEL"}},
};

#define TIMESTAMP "timestamp", 1, MESSAGE, false, ".google.protobuf.Timestamp"

static const struct message timestamp_message = {
    "Timestamp", {{"seconds", 1, INT64, false, NULL}, {"nanos", 2, INT32, false, NULL}}};

static const struct message messages[] = {
    {"Vector3",
     {{"x", 1, DOUBLE, false, NULL}, {"y", 2, DOUBLE, false, NULL}, {"z", 3, DOUBLE, false, NULL}}},
    {"Quaternion",
     {{"x", 1, DOUBLE, false, NULL},
      {"y", 2, DOUBLE, false, NULL},
      {"z", 3, DOUBLE, false, NULL},
      {"w", 4, DOUBLE, false, NULL}}},
    {"Pose",
     {{"position", 1, MESSAGE, false, ".foxglove.Vector3"},
      {"orientation", 2, MESSAGE, false, ".foxglove.Quaternion"}}},
    {"RawImage",
     {{TIMESTAMP},
      {"width", 2, FIXED32, false, NULL},
      {"height", 3, FIXED32, false, NULL},
      {"encoding", 4, STRING, false, NULL},
      {"step", 5, FIXED32, false, NULL},
      {"data", 6, BYTES, false, NULL},
      {"frame_id", 7, STRING, false, NULL},
      {"units_per_m", FIELD_UNITS_PER_M, DOUBLE, false, NULL},
      {"remainders", FIELD_REMAINDERS, BYTES, false, NULL}}},
    {"CameraCalibration",
     {{TIMESTAMP},
      {"width", 2, FIXED32, false, NULL},
      {"height", 3, FIXED32, false, NULL},
      {"distortion_model", 4, STRING, false, NULL},
      {"D", 5, DOUBLE, true, NULL},
      {"K", 6, DOUBLE, true, NULL},
      {"R", 7, DOUBLE, true, NULL},
      {"P", 8, DOUBLE, true, NULL},
      {"frame_id", 9, STRING, false, NULL}}},
    {"FrameTransform",
     {{TIMESTAMP},
      {"parent_frame_id", 2, STRING, false, NULL},
      {"child_frame_id", 3, STRING, false, NULL},
      {"translation", 4, MESSAGE, false, ".foxglove.Vector3"},
      {"rotation", 5, MESSAGE, false, ".foxglove.Quaternion"}}},
    {"Odometry",
     {{TIMESTAMP},
      {"frame_id", 2, STRING, false, NULL},
      {"body_frame_id", 3, STRING, false, NULL},
      {"pose", 4, MESSAGE, false, ".foxglove.Pose"},
      {"linear_velocity", 5, MESSAGE, false, ".foxglove.Vector3"},
      {"angular_velocity", 6, MESSAGE, false, ".foxglove.Vector3"},
      {"pose_covariance", 7, DOUBLE, true, NULL},
      {"velocity_covariance", 8, DOUBLE, true, NULL},
      {"session", 1000, FIXED64, false, NULL},
      {"seq", 1001, UINT64, false, NULL},
      {"device_ticks", 1002, UINT64, false, NULL},
      {"capture_monotonic_ns", 1003, INT64, false, NULL},
      {"publish_monotonic_ns", 1004, INT64, false, NULL},
      {"state", 1005, ENUM, false, ".foxglove.State"},
      {"reason", 1006, INT32, false, NULL}, // Reason; reason_text says it in words
      {"reason_text", 1007, STRING, false, NULL},
      {"replay", 1008, BOOL, false, NULL},
      {"reference", 1009, ENUM, false, ".foxglove.Reference"},
      {"reference_seq", 1010, UINT64, false, NULL},
      {"new_keyframe", 1011, BOOL, false, NULL},
      {"residual_rms_m", 1012, DOUBLE, false, NULL},
      {"inlier_ratio", 1013, DOUBLE, false, NULL},
      {"iterations", 1014, UINT32, false, NULL},
      {"converged", 1015, BOOL, false, NULL},
      {"eigenvalues", 1016, DOUBLE, true, NULL},
      {"degenerate_mask", 1017, UINT32, false, NULL},
      {"valid_px", 1018, UINT32, false, NULL},
      {"damaged_frames", 1019, UINT64, false, NULL},
      {"dropped_frames", 1020, UINT64, false, NULL},
      {"map_epoch", 1021, UINT32, false, NULL},
      {"stages", 1022, MESSAGE, false, ".foxglove.StageTimes"},
      {"frame_index", 1023, UINT64, false, NULL},
      {"lost_packets", 1024, UINT32, false, NULL},
      {"duplicate", 1025, BOOL, false, NULL},
      {"damaged", 1026, BOOL, false, NULL}}},
    {"StageTimes",
     {{"upload_us", 1, FLOAT, false, NULL},
      {"filter_us", 2, FLOAT, false, NULL},
      {"maps_us", 3, FLOAT, false, NULL},
      {"align_us", 4, FLOAT, false, NULL},
      {"track_us", 5, FLOAT, false, NULL},
      {"added_us", 6, FLOAT, false, NULL},
      {"wait_us", 7, FLOAT, false, NULL}}},
};

// DescriptorProto: 1 name, 2 fields. FieldDescriptorProto: 1 name, 3 number, 4 label (1 optional,
// 3 repeated), 5 type, 6 type name.
static void put_message_type(struct out *file, const struct message *message)
{
    unsigned char type_bytes[2048], field_bytes[256];
    struct out type = {type_bytes, 0, sizeof type_bytes};
    put_text(&type, 1, message->name);
    for (const struct field *f = message->fields; f < message->fields + MAX_FIELDS && f->name;
         f++) {
        struct out field = {field_bytes, 0, sizeof field_bytes};
        put_text(&field, 1, f->name);
        put_uint(&field, 3, f->number);
        put_uint(&field, 4, f->repeated ? 3 : 1);
        put_uint(&field, 5, f->type);
        if (f->type_name)
            put_text(&field, 6, f->type_name);
        put_bytes(&type, 2, field_bytes, field.n);
    }
    put_bytes(file, 4, type_bytes, type.n);
}

// EnumDescriptorProto: 1 name, 2 values. EnumValueDescriptorProto: 1 name, 2 number.
static void put_enumeration(struct out *file, const struct enumeration *enumeration)
{
    unsigned char type_bytes[512], value_bytes[64];
    struct out type = {type_bytes, 0, sizeof type_bytes};
    put_text(&type, 1, enumeration->name);
    for (uint32_t i = 0; i < 16 && enumeration->values[i]; i++) {
        struct out value = {value_bytes, 0, sizeof value_bytes};
        put_text(&value, 1, enumeration->values[i]);
        put_uint(&value, 2, i);
        put_bytes(&type, 2, value_bytes, value.n);
    }
    put_bytes(file, 5, type_bytes, type.n);
}

static unsigned char descriptors[8192];
static size_t n_descriptor_bytes;

// FileDescriptorProto: 1 name, 2 package, 3 dependency, 4 messages, 5 enumerations, 12 syntax.
static void make_descriptors(void)
{
    unsigned char file_bytes[6144];
    struct out set = {descriptors, 0, sizeof descriptors};
    struct out file = {file_bytes, 0, sizeof file_bytes};
    put_text(&file, 1, "google/protobuf/timestamp.proto");
    put_text(&file, 2, "google.protobuf");
    put_message_type(&file, &timestamp_message);
    put_text(&file, 12, "proto3");
    put_bytes(&set, 1, file_bytes, file.n);

    file.n = 0;
    put_text(&file, 1, "foxglove/posed.proto");
    put_text(&file, 2, "foxglove");
    put_text(&file, 3, "google/protobuf/timestamp.proto");
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        put_message_type(&file, &messages[i]);
    for (size_t i = 0; i < sizeof enumerations / sizeof *enumerations; i++)
        put_enumeration(&file, &enumerations[i]);
    put_text(&file, 12, "proto3");
    put_bytes(&set, 1, file_bytes, file.n);
    n_descriptor_bytes = set.n;
}

const void *foxglove_descriptors(size_t *out_n_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_descriptors);
    *out_n_bytes = n_descriptor_bytes;
    return descriptors;
}

// ---- reading ----

struct in {
    const unsigned char *data;
    size_t n, at;
};

struct value {
    uint32_t number;
    enum wire_type type;
    uint64_t number_value; // varint and fixed
    const unsigned char *data;
    size_t n_bytes;
};

static bool get_varint(struct in *in, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && in->at < in->n; shift += 7) {
        unsigned char byte = in->data[in->at++];
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool get_fixed(struct in *in, size_t n_bytes, uint64_t *out)
{
    if (in->n - in->at < n_bytes)
        return false;
    *out = 0;
    for (size_t i = 0; i < n_bytes; i++)
        *out |= (uint64_t)in->data[in->at++] << 8 * i;
    return true;
}

// The next field. Returns false at a malformed one; call only while at < n.
static bool get_field(struct in *in, struct value *out)
{
    uint64_t key;
    if (!get_varint(in, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return false;
    *out = (struct value){.number = (uint32_t)(key >> 3), .type = (enum wire_type)(key & 7)};
    switch (out->type) {
    case WIRE_VARINT:
        return get_varint(in, &out->number_value);
    case WIRE_64:
        return get_fixed(in, 8, &out->number_value);
    case WIRE_32:
        return get_fixed(in, 4, &out->number_value);
    case WIRE_BYTES:
        if (!get_varint(in, &out->number_value) || out->number_value > in->n - in->at)
            return false;
        out->data = in->data + in->at;
        out->n_bytes = (size_t)out->number_value;
        in->at += out->n_bytes;
        return true;
    }
    return false;
}

bool foxglove_get_image(const void *message, size_t n_bytes, struct foxglove_image *out)
{
    struct in in = {message, n_bytes, 0};
    struct value value;
    *out = (struct foxglove_image){0};
    while (in.at < in.n) {
        if (!get_field(&in, &value))
            return false;
        if (value.number == 2 && value.type == WIRE_32)
            out->width_px = (uint32_t)value.number_value;
        if (value.number == 3 && value.type == WIRE_32)
            out->height_px = (uint32_t)value.number_value;
        if (value.number == 5 && value.type == WIRE_32)
            out->step_bytes = (uint32_t)value.number_value;
        if (value.number == 4 && value.type == WIRE_BYTES && value.n_bytes < sizeof out->encoding)
            memcpy(out->encoding, value.data, value.n_bytes);
        if (value.number == 6 && value.type == WIRE_BYTES) {
            out->data = value.data;
            out->n_data_bytes = value.n_bytes;
        }
        if (value.number == FIELD_UNITS_PER_M && value.type == WIRE_64)
            memcpy(&out->units_per_m, &value.number_value, sizeof out->units_per_m);
        if (value.number == FIELD_REMAINDERS && value.type == WIRE_BYTES &&
            value.n_bytes == (uint64_t)out->width_px * out->height_px)
            out->remainders = value.data;
    }
    // Either without the other says nothing.
    if (!(out->units_per_m > 0 && out->units_per_m <= FOXGLOVE_MAX_UNITS_PER_M))
        out->remainders = NULL;
    if (!out->remainders)
        out->units_per_m = 0;
    return out->n_data_bytes / (out->step_bytes ? out->step_bytes : 1) >= out->height_px;
}

static double double_at(const unsigned char *bytes)
{
    uint64_t bits = 0;
    double value;
    for (int i = 0; i < 8; i++)
        bits |= (uint64_t)bytes[i] << 8 * i;
    memcpy(&value, &bits, 8);
    return value;
}

bool foxglove_get_calibration(const void *message, size_t n_bytes, struct intrinsics *out)
{
    struct in in = {message, n_bytes, 0};
    struct value value;
    bool found = false;
    *out = (struct intrinsics){0};
    while (in.at < in.n) {
        if (!get_field(&in, &value))
            return false;
        if (value.number == 2 && value.type == WIRE_32)
            out->width_px = (uint32_t)value.number_value;
        if (value.number == 3 && value.type == WIRE_32)
            out->height_px = (uint32_t)value.number_value;
        if (value.number == 6 && value.type == WIRE_BYTES && value.n_bytes == 9 * 8) {
            out->fx_px = double_at(value.data);
            out->cx_px = double_at(value.data + 2 * 8);
            out->fy_px = double_at(value.data + 4 * 8);
            out->cy_px = double_at(value.data + 5 * 8);
            found = true;
        }
    }
    return found;
}

// A message of doubles alone: fields 1 .. n.
static bool get_doubles(const struct value *message, size_t n, double *out)
{
    struct in in = {message->data, message->n_bytes, 0};
    struct value value;
    while (in.at < in.n) {
        if (!get_field(&in, &value))
            return false;
        if (value.type == WIRE_64 && value.number >= 1 && value.number <= n)
            memcpy(&out[value.number - 1], &value.number_value, sizeof *out);
    }
    return true;
}

static bool get_timestamp(const struct value *message, int64_t *out_ns)
{
    struct in in = {message->data, message->n_bytes, 0};
    struct value value;
    uint64_t seconds = 0, nanos = 0;
    while (in.at < in.n) {
        if (!get_field(&in, &value))
            return false;
        if (value.type == WIRE_VARINT && value.number == 1)
            seconds = value.number_value;
        if (value.type == WIRE_VARINT && value.number == 2)
            nanos = value.number_value;
    }
    *out_ns = (int64_t)(seconds * 1000000000 + nanos);
    return true;
}

static bool get_pose(const struct value *message, struct foxglove_odometry *out)
{
    struct in in = {message->data, message->n_bytes, 0};
    struct value value;
    bool good = true;
    while (in.at < in.n && good) {
        good = get_field(&in, &value);
        if (good && value.type == WIRE_BYTES && value.number == 1)
            good = get_doubles(&value, 3, out->position_m);
        else if (good && value.type == WIRE_BYTES && value.number == 2)
            good = get_doubles(&value, 4, out->orientation_xyzw);
    }
    return good;
}

bool foxglove_get_odometry(const void *message, size_t n_bytes, struct foxglove_odometry *out)
{
    struct in in = {message, n_bytes, 0};
    struct value value;
    bool good = true;
    *out = (struct foxglove_odometry){0};
    while (in.at < in.n && good) {
        good = get_field(&in, &value);
        if (!good || value.type != WIRE_BYTES)
            continue;
        if (value.number == 1)
            good = get_timestamp(&value, &out->time_ns);
        else if (value.number == 4)
            good = get_pose(&value, out);
        else if (value.number == 5)
            good = get_doubles(&value, 3, out->linear_m_s);
        else if (value.number == 6)
            good = get_doubles(&value, 3, out->angular_rad_s);
        else if (value.number == 7 && value.n_bytes == sizeof out->covariance)
            for (int i = 0; i < 36; i++)
                out->covariance[i] = double_at(value.data + 8 * i);
    }
    return good;
}
