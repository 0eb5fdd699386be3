// SPDX-License-Identifier: Apache-2.0
// A FileDescriptorSet written from the table of messages and fields.
#include <pthread.h>

#include "capture/mcap/foxglove.h"
#include "capture/mcap/protobuf.h"

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

#define MAX_FIELDS 39

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
      {"units_per_m", FOXGLOVE_FIELD_UNITS_PER_M, DOUBLE, false, NULL},
      {"remainders", FOXGLOVE_FIELD_REMAINDERS, BYTES, false, NULL}}},
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
      {"damaged", 1026, BOOL, false, NULL},
      {"map_from_odom", 1027, MESSAGE, false, ".foxglove.Pose"},
      {"effort", 1028, INT32, false, NULL}, // Effort
      {"is_cut", 1029, BOOL, false, NULL},
      {"is_stale", 1030, BOOL, false, NULL}}},
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
static void put_message_type(struct protobuf_out *file, const struct message *message)
{
    unsigned char type_bytes[2048], field_bytes[256];
    struct protobuf_out type = {type_bytes, 0, sizeof type_bytes};
    protobuf_put_text(&type, 1, message->name);
    for (const struct field *f = message->fields; f < message->fields + MAX_FIELDS && f->name;
         f++) {
        struct protobuf_out field = {field_bytes, 0, sizeof field_bytes};
        protobuf_put_text(&field, 1, f->name);
        protobuf_put_uint(&field, 3, f->number);
        protobuf_put_uint(&field, 4, f->repeated ? 3 : 1);
        protobuf_put_uint(&field, 5, f->type);
        if (f->type_name)
            protobuf_put_text(&field, 6, f->type_name);
        protobuf_put_bytes(&type, 2, field_bytes, field.n);
    }
    protobuf_put_bytes(file, 4, type_bytes, type.n);
}

// EnumDescriptorProto: 1 name, 2 values. EnumValueDescriptorProto: 1 name, 2 number.
static void put_enumeration(struct protobuf_out *file, const struct enumeration *enumeration)
{
    unsigned char type_bytes[512], value_bytes[64];
    struct protobuf_out type = {type_bytes, 0, sizeof type_bytes};
    protobuf_put_text(&type, 1, enumeration->name);
    for (uint32_t i = 0; i < 16 && enumeration->values[i]; i++) {
        struct protobuf_out value = {value_bytes, 0, sizeof value_bytes};
        protobuf_put_text(&value, 1, enumeration->values[i]);
        protobuf_put_uint(&value, 2, i);
        protobuf_put_bytes(&type, 2, value_bytes, value.n);
    }
    protobuf_put_bytes(file, 5, type_bytes, type.n);
}

static unsigned char descriptors[8192];
static size_t n_descriptor_bytes;

// FileDescriptorProto: 1 name, 2 package, 3 dependency, 4 messages, 5 enumerations, 12 syntax.
static void make_descriptors(void)
{
    unsigned char file_bytes[6144];
    struct protobuf_out set = {descriptors, 0, sizeof descriptors};
    struct protobuf_out file = {file_bytes, 0, sizeof file_bytes};
    protobuf_put_text(&file, 1, "google/protobuf/timestamp.proto");
    protobuf_put_text(&file, 2, "google.protobuf");
    put_message_type(&file, &timestamp_message);
    protobuf_put_text(&file, 12, "proto3");
    protobuf_put_bytes(&set, 1, file_bytes, file.n);

    file.n = 0;
    protobuf_put_text(&file, 1, "foxglove/posed.proto");
    protobuf_put_text(&file, 2, "foxglove");
    protobuf_put_text(&file, 3, "google/protobuf/timestamp.proto");
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
        put_message_type(&file, &messages[i]);
    for (size_t i = 0; i < sizeof enumerations / sizeof *enumerations; i++)
        put_enumeration(&file, &enumerations[i]);
    protobuf_put_text(&file, 12, "proto3");
    protobuf_put_bytes(&set, 1, file_bytes, file.n);
    n_descriptor_bytes = set.n;
}

const void *foxglove_descriptors(size_t *out_n_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_descriptors);
    *out_n_bytes = n_descriptor_bytes;
    return descriptors;
}
