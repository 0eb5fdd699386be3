// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/watch_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/posectl/posectl.h"

#define MAX_TOLD    17 // topics: each camera's pose, and the rig's
#define MAP_MOVED_M 0.001
#define MAP_TURNED  0.9999998 // cosine of half of 0.07 degrees, a millimetre at a metre

// One message at a time; they are large.
static union {
    posed_Odometry odometry;
    posed_FrameTransform transform;
    posed_CameraCalibration calibration;
    posed_Status status;
    posed_Timing timing;
    posed_Event event;
    posed_Imu imu;
    posed_Log log;
    posed_ObjectPose object;
    posed_RawImage image;
    posed_PointCloud cloud;
} message;

static bool is_coloured(void)
{
    static int answer = -1;
    if (answer < 0)
        answer = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    return answer;
}

const char *show_state(const char *name, int width)
{
    static const struct {
        const char *name, *colour; // SGR of ECMA-48
    } colours[] = {{"TRACKING", "32"}, {"SEEN", "32"}, {"DEGRADED", "33"},
                   {"LOST", "31"},     {"INIT", "36"}, {"NO_INPUT", "31"}};
    static char text[64];
    const char *colour = NULL;
    for (size_t i = 0; i < sizeof colours / sizeof colours[0] && is_coloured(); i++)
        if (strcmp(colours[i].name, name) == 0)
            colour = colours[i].colour;
    if (colour)
        snprintf(text, sizeof text, "\033[%sm%-*s\033[0m", colour, width, name);
    else
        snprintf(text, sizeof text, "%-*s", width, name);
    return text;
}

void watch_lines_header(void)
{
    if (isatty(STDOUT_FILENO))
        printf("%7s %15s %-8s %8s %8s %8s  %8s %8s %8s %8s  %9s %s\n", "frame", "time s", "state",
               "x m", "y m", "z m", "qx", "qy", "qz", "qw", "tracking", "reason");
}

static json_t *json_odometry(void)
{
    const posed_Odometry *o = &message.odometry;
    return json_pack(
        "{s:s, s:I, s:f, s:s, s:s, s:o, s:f, s:f, s:i, s:i, s:I, s:I, s:I, s:f, s:f, "
        "s:o*}",
        "topic", "pose", "seq", (json_int_t)o->seq, "time_s", wire_seconds(&o->timestamp), "state",
        wire_state_name(o->state), "reason", o->reason_text, "pose", wire_json_pose(&o->pose),
        "residual_rms_m", o->residual_rms_m, "inlier_ratio", o->inlier_ratio, "iterations",
        (int)o->iterations, "degenerate_mask", (int)o->degenerate_mask, "map_epoch",
        (json_int_t)o->map_epoch, "dropped_frames", (json_int_t)o->dropped_frames, "frame_index",
        (json_int_t)o->frame_index, "track_us", (double)o->stages.track_us, "added_us",
        (double)o->stages.added_us, "map_from_odom",
        o->has_map_from_odom ? wire_json_pose(&o->map_from_odom) : NULL);
}

static void print_columns(uint64_t seq, const posed_Timestamp *time, const char *state,
                          const posed_Pose *pose)
{
    const posed_Vector3 *p = &pose->position;
    const posed_Quaternion *q = &pose->orientation;
    printf("%7" PRIu64 " %15.6f %s %8.4f %8.4f %8.4f  %8.5f %8.5f %8.5f %8.5f  ", seq,
           wire_seconds(time), show_state(state, 8), p->x, p->y, p->z, q->x, q->y, q->z, q->w);
}

static void print_odometry(void)
{
    const posed_Odometry *o = &message.odometry;
    print_columns(o->seq, &o->timestamp, wire_state_name(o->state), &o->pose);
    printf("%6.2f ms %s\n", (double)o->stages.track_us * 1e-3, o->reason_text);
}

static json_t *json_object_pose(void)
{
    const posed_ObjectPose *o = &message.object;
    return json_pack("{s:s, s:I, s:f, s:s, s:b, s:o, s:f, s:f, s:f}", "topic", "object", "seq",
                     (json_int_t)o->seq, "time_s", wire_seconds(&o->timestamp), "object", o->object,
                     "lost", (int)o->lost, "T_camera_object", wire_json_pose(&o->pose),
                     "confidence", (double)o->confidence, "visible", (double)o->visible,
                     "residual_rms_m", (double)o->residual_rms_m);
}

static void print_object_pose(void)
{
    const posed_ObjectPose *o = &message.object;
    print_columns(o->seq, &o->timestamp, o->lost ? "LOST" : "SEEN", &o->pose);
    printf("%s, confidence %.3f, %.0f %% seen\n", o->object, (double)o->confidence,
           (double)o->visible * 100);
}

// A FrameTransform has the same members as a pose.
static posed_Pose pose_of_transform(void)
{
    const posed_FrameTransform *t = &message.transform;
    return (posed_Pose){true, t->translation, true, t->rotation};
}

static json_t *json_transform(void)
{
    const posed_FrameTransform *t = &message.transform;
    const posed_Pose pose = pose_of_transform();
    return json_pack("{s:s, s:f, s:s, s:s, s:o}", "topic", "tf", "time_s",
                     wire_seconds(&t->timestamp), "parent", t->parent_frame_id, "child",
                     t->child_frame_id, "pose", wire_json_pose(&pose));
}

static void print_transform(void)
{
    const posed_FrameTransform *t = &message.transform;
    const posed_Vector3 *p = &t->translation;
    const posed_Quaternion *q = &t->rotation;
    printf("tf: %15.6f %s to %s %8.4f %8.4f %8.4f  %8.5f %8.5f %8.5f %8.5f\n",
           wire_seconds(&t->timestamp), t->parent_frame_id, t->child_frame_id, p->x, p->y, p->z,
           q->x, q->y, q->z, q->w);
}

static json_t *json_calibration(void)
{
    json_t *out = wire_json_calibration(&message.calibration);
    json_object_set_new(out, "topic", json_string("calib"));
    return out;
}

static void print_calibration(void)
{
    const posed_CameraCalibration *c = &message.calibration;
    printf("calib: %ux%u, fx %.9g fy %.9g cx %.9g cy %.9g, %g units per metre\n", c->width,
           c->height, c->K[0], c->K[4], c->K[2], c->K[5], c->units_per_m);
}

static json_t *json_status(void)
{
    json_t *out = wire_json_status(&message.status);
    json_object_set_new(out, "topic", json_string("status"));
    return out;
}

static void print_status(void)
{
    const posed_Status *s = &message.status;
    printf("status: %s%s, %" PRIu64 " frames, %.1f frames/s", s->paused ? "paused, " : "",
           show_state(wire_state_name(s->state), 0), s->captured_frames, s->rate_hz);
    if (s->recording[0])
        printf(", recording %s", s->recording);
    else if (s->has_last_recording && s->last_recording.failed)
        printf(", recording %s failed", s->last_recording.name);
    printf("\n");
}

static json_t *json_timing(void)
{
    const posed_Timing *t = &message.timing;
    json_t *stages = json_object();
    for (pb_size_t i = 0; i < t->stages_count; i++) {
        const posed_Timing_Stage *s = &t->stages[i];
        json_object_set_new(stages, s->name,
                            json_pack("{s:i, s:f, s:f, s:f}", "n", (int)s->n, "p50_us",
                                      (double)s->p50_us, "p99_us", (double)s->p99_us, "max_us",
                                      (double)s->max_us));
    }
    return json_pack("{s:s, s:o}", "topic", "timing", "stages", stages);
}

static void print_timing(void)
{
    const posed_Timing *t = &message.timing;
    printf("timing:");
    for (pb_size_t i = 0; i < t->stages_count; i++)
        printf("%s %s %.2f (99 %%: %.2f) ms", i ? "," : "", t->stages[i].name,
               (double)t->stages[i].p50_us * 1e-3, (double)t->stages[i].p99_us * 1e-3);
    printf("\n");
}

static json_t *json_event(void)
{
    return json_pack("{s:s, s:s}", "topic", "event", "message", message.event.message);
}

static void print_event(void)
{
    printf("event: %s\n", message.event.message);
}

static json_t *json_imu(void)
{
    const posed_Vector3 *g = &message.imu.gravity;
    return json_pack("{s:s, s:f, s:[fff]}", "topic", "imu", "time_s",
                     wire_seconds(&message.imu.timestamp), "gravity_m_s2", g->x, g->y, g->z);
}

static void print_imu(void)
{
    const posed_Vector3 *g = &message.imu.gravity;
    printf("imu: gravity %.3f %.3f %.3f m/s^2\n", g->x, g->y, g->z);
}

static json_t *json_log(void)
{
    return json_pack("{s:s, s:s}", "topic", "log", "message", message.log.message);
}

static void print_log(void)
{
    printf("log: %s\n", message.log.message);
}

static json_t *json_image(void)
{
    const posed_RawImage *i = &message.image;
    return json_pack("{s:I, s:f, s:i, s:i, s:s}", "seq", (json_int_t)i->seq, "time_s",
                     wire_seconds(&i->timestamp), "width", (int)i->width, "height", (int)i->height,
                     "encoding", i->encoding);
}

static void print_image(void)
{
    const posed_RawImage *i = &message.image;
    printf("frame %" PRIu64 ", %15.6f s, %ux%u %s\n", i->seq, wire_seconds(&i->timestamp), i->width,
           i->height, i->encoding);
}

static size_t n_cloud_bytes; // of the points, which nanopb leaves alone

static size_t points_of_cloud(void)
{
    return message.cloud.point_stride ? n_cloud_bytes / message.cloud.point_stride : 0;
}

static json_t *json_cloud(void)
{
    const posed_PointCloud *c = &message.cloud;
    return json_pack("{s:I, s:f, s:I}", "seq", (json_int_t)c->seq, "time_s",
                     wire_seconds(&c->timestamp), "points", (json_int_t)points_of_cloud());
}

static void print_cloud(void)
{
    const posed_PointCloud *c = &message.cloud;
    printf("frame %" PRIu64 ", %15.6f s, %zu points\n", c->seq, wire_seconds(&c->timestamp),
           points_of_cloud());
}

static const struct topic {
    const char *name;
    const pb_msgdesc_t *fields;
    json_t *(*json)(void);
    void (*print)(void);
    bool is_image;
} topics[] = {
    {"pose", posed_Odometry_fields, json_odometry, print_odometry, false},
    {"tf", posed_FrameTransform_fields, json_transform, print_transform, false},
    {"calib", posed_CameraCalibration_fields, json_calibration, print_calibration, false},
    {"status", posed_Status_fields, json_status, print_status, false},
    {"timing", posed_Timing_fields, json_timing, print_timing, false},
    {"event", posed_Event_fields, json_event, print_event, false},
    {"imu", posed_Imu_fields, json_imu, print_imu, false},
    {"log", posed_Log_fields, json_log, print_log, false},
    {"object", posed_ObjectPose_fields, json_object_pose, print_object_pose, false},
    {"depth", posed_RawImage_fields, json_image, print_image, true},
    {"normals", posed_RawImage_fields, json_image, print_image, true},
    {"residual", posed_RawImage_fields, json_image, print_image, true},
    {"cloud", posed_PointCloud_fields, json_cloud, print_cloud, true},
    {"rig", posed_Odometry_fields, json_odometry, print_odometry, false},
};

// Where odom lay in the map in the newest line that says so, of each topic of poses.
static posed_Pose *told_of(const char *name)
{
    static struct {
        char name[POSECTL_TOPIC_BYTES];
        posed_Pose pose;
    } told[MAX_TOLD];
    static size_t n;
    for (size_t i = 0; i < n; i++)
        if (strcmp(told[i].name, name) == 0)
            return &told[i].pose;
    if (n == MAX_TOLD)
        return NULL;
    snprintf(told[n].name, sizeof told[n].name, "%s", name);
    told[n].pose = (posed_Pose){.orientation = {.w = 1}};
    return &told[n++].pose;
}

// Whether odom comes to lie elsewhere in the map, by more than a pose is good to.
static bool is_map_moved(const char *name)
{
    const posed_Odometry *o = &message.odometry;
    posed_Pose *last = o->has_map_from_odom ? told_of(name) : NULL;
    if (!last)
        return false;
    const posed_Vector3 *p = &o->map_from_odom.position, *at = &last->position;
    const posed_Quaternion *q = &o->map_from_odom.orientation, *was = &last->orientation;
    const double moved_m = fabs(p->x - at->x) + fabs(p->y - at->y) + fabs(p->z - at->z);
    const double same = fabs(q->x * was->x + q->y * was->y + q->z * was->z + q->w * was->w);
    if (moved_m < MAP_MOVED_M && same > MAP_TURNED)
        return false;
    *last = o->map_from_odom;
    return true;
}

static void print_map_from_odom(void)
{
    const posed_Vector3 *p = &message.odometry.map_from_odom.position;
    const posed_Quaternion *q = &message.odometry.map_from_odom.orientation;
    printf("map from odom: %.4f %.4f %.4f  %.5f %.5f %.5f %.5f\n", p->x, p->y, p->z, q->x, q->y,
           q->z, q->w);
}

static void begin_line(const struct topic *topic, const char *name)
{
    if (topic->is_image)
        printf("%s: ", name);
    else if (strchr(name, '/'))
        printf("%-8s ", strchr(name, '/') + 1);
}

static const struct topic *find(const char *name)
{
    size_t n = strcspn(name, "/");
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++)
        if (strlen(topics[i].name) == n && memcmp(topics[i].name, name, n) == 0)
            return &topics[i];
    return NULL;
}

bool watch_lines_is_topic(const char *name)
{
    return find(name) != NULL;
}

bool watch_lines_is_of_camera(const char *name)
{
    return strcmp(name, "log") != 0 && strcmp(name, "rig") != 0;
}

bool watch_lines_is_image(const char *name)
{
    const struct topic *topic = find(name);
    return topic && topic->is_image;
}

bool watch_lines_print(const char *name, const uint8_t *bytes, size_t n_bytes, bool json)
{
    static const uint32_t cloud_data = 6; // PointCloud.data
    const uint8_t *data;
    const struct topic *topic = find(name);
    if (!topic || wire_decode(topic->fields, bytes, n_bytes, &message) != 0)
        return false;
    if (topic->fields == posed_PointCloud_fields)
        wire_find_bytes(bytes, n_bytes, &cloud_data, 1, &data, &n_cloud_bytes);
    if (!json) {
        if (topic->print == print_odometry && is_map_moved(name)) {
            begin_line(topic, name);
            print_map_from_odom();
        }
        begin_line(topic, name);
        topic->print();
        return true;
    }
    json_t *value = topic->json();
    json_object_set_new(value, "topic", json_string(name));
    posectl_print_json(stdout, value, true);
    return true;
}
