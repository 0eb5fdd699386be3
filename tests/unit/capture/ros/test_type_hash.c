// SPDX-License-Identifier: Apache-2.0
// The hashes are those of the definitions: REP 2016's description of the type and of all in it, as
// the JSON that rosidl hashes, made here of the text that recordings carry (schemas.h).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/schemas.h"
#include "capture/ros/type_hash.h"

#define HEADER                                                               \
    "MSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n" \
    "MSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
#define MAX_TYPES 12

// The definition of the first line's type, then of others, each behind "MSG: NAME".
static const struct {
    const char *type, *dds, *text; // NULL: that of ros_schema
} types[] = {
    {"sensor_msgs/msg/Image", "sensor_msgs::msg::dds_::Image_", NULL},
    {"sensor_msgs/msg/CameraInfo", "sensor_msgs::msg::dds_::CameraInfo_", NULL},
    {"nav_msgs/msg/Odometry", "nav_msgs::msg::dds_::Odometry_", NULL},
    {"tf2_msgs/msg/TFMessage", "tf2_msgs::msg::dds_::TFMessage_", NULL},
    {"sensor_msgs/msg/CompressedImage", "sensor_msgs::msg::dds_::CompressedImage_",
     "std_msgs/Header header\nstring format\nuint8[] data\n" HEADER},
    {"diagnostic_msgs/msg/DiagnosticArray", "diagnostic_msgs::msg::dds_::DiagnosticArray_",
     "std_msgs/Header header\ndiagnostic_msgs/DiagnosticStatus[] status\n" HEADER
     "MSG: diagnostic_msgs/DiagnosticStatus\nbyte level\nstring name\nstring message\n"
     "string hardware_id\ndiagnostic_msgs/KeyValue[] values\n"
     "MSG: diagnostic_msgs/KeyValue\nstring key\nstring value\n"},
    {"rmw_dds_common/msg/ParticipantEntitiesInfo",
     "rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_",
     "rmw_dds_common/Gid gid\nrmw_dds_common/NodeEntitiesInfo[] node_entities_info_seq\n"
     "MSG: rmw_dds_common/Gid\nchar[16] data\n"
     "MSG: rmw_dds_common/NodeEntitiesInfo\nstring<=256 node_namespace\nstring<=256 node_name\n"
     "rmw_dds_common/Gid[] reader_gid_seq\nrmw_dds_common/Gid[] writer_gid_seq\n"},
};

// "std_msgs/Header" -> std_msgs/msg/Header
static void write_name(FILE *out, const char *name, size_t n)
{
    const size_t package = strcspn(name, "/");
    fprintf(out, "%.*s/msg/%.*s", (int)package, name, (int)(n - package - 1), name + package + 1);
}

static int id_of(const char *type, size_t n)
{
    static const struct {
        const char *name;
        int id;
    } ids[] = {{"uint8", 3},    {"char", 3},  {"int32", 6}, {"uint32", 7},
               {"float64", 11}, {"bool", 15}, {"byte", 16}, {"string", 17}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (strlen(ids[i].name) == n && strncmp(ids[i].name, type, n) == 0)
            return ids[i].id;
    return 1; // another message
}

// "float64[36] covariance": an array's id is 48 more, a sequence's 144; "string<=256 name": a
// bounded string's is 4 more.
static void write_field(FILE *out, const char *line)
{
    size_t n_type = strcspn(line, "[< ");
    const bool is_bounded = line[n_type] == '<';
    const int id = id_of(line, n_type) + 4 * is_bounded;
    const int string_capacity = is_bounded ? atoi(line + n_type + 2) : 0;
    n_type += strcspn(line + n_type, "[ ");
    const bool is_many = line[n_type] == '[';
    const int capacity = is_many ? atoi(line + n_type + 1) : 0;
    const char *name = strchr(line, ' ') + 1;
    fprintf(out, "{\"name\": \"%.*s\", \"type\": {\"type_id\": %d, \"capacity\": %d, ",
            (int)strcspn(name, "\n"), name, id + (is_many ? capacity ? 48 : 144 : 0), capacity);
    fprintf(out, "\"string_capacity\": %d, \"nested_type_name\": \"", string_capacity);
    if (id == 1)
        write_name(out, line, n_type);
    fputs("\"}}", out);
}

// The lines of one definition, up to the next one's head or a rule before it.
static void write_fields(FILE *out, const char *line)
{
    fputs("\"fields\": [", out);
    for (bool is_first = true; *line && *line != '=' && strncmp(line, "MSG:", 4) != 0;
         line += strcspn(line, "\n") + 1, is_first = false) {
        fputs(is_first ? "" : ", ", out);
        write_field(out, line);
    }
    fputs("]}", out);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void hash_of(const char *type, const char *text, char out[100])
{
    const char *parts[MAX_TYPES];
    size_t n_parts = 0, n_json;
    char *json;
    unsigned char digest[crypto_hash_sha256_BYTES];
    for (const char *at = text; (at = strstr(at, "MSG: ")); at++)
        parts[n_parts++] = at + strlen("MSG: ");
    qsort(parts, n_parts, sizeof *parts, by_name);
    FILE *file = open_memstream(&json, &n_json);
    assert_non_null(file);
    fprintf(file, "{\"type_description\": {\"type_name\": \"%s\", ", type);
    write_fields(file, text);
    fputs(", \"referenced_type_descriptions\": [", file);
    for (size_t i = 0; i < n_parts; i++) {
        fprintf(file, "%s{\"type_name\": \"", i ? ", " : "");
        write_name(file, parts[i], strcspn(parts[i], "\n"));
        fputs("\", ", file);
        write_fields(file, strchr(parts[i], '\n') + 1);
    }
    fputs("]}", file);
    assert_int_equal(fclose(file), 0);
    crypto_hash_sha256(digest, (const unsigned char *)json, n_json);
    free(json);
    int n = snprintf(out, 100, "typehash=RIHS01_");
    for (size_t i = 0; i < sizeof digest; i++)
        n += snprintf(out + n, 100 - (size_t)n, "%02x", digest[i]);
    snprintf(out + n, 100 - (size_t)n, ";");
}

static void hashes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char expected[100];
        size_t n;
        hash_of(types[i].type, types[i].text ? types[i].text : ros_schema(types[i].type, &n),
                expected);
        const char *hash = ros_type_hash(types[i].dds);
        assert_non_null(hash);
        assert_string_equal(hash, expected);
    }
}

static void another_type_has_none(void **state)
{
    (void)state;
    assert_null(ros_type_hash("std_msgs::msg::dds_::Header_"));
    assert_null(ros_type_hash(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes),
        cmocka_unit_test(another_type_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
