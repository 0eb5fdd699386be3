// SPDX-License-Identifier: Apache-2.0
#include <ros_types.h> // of ros_types.idl
#include <stdio.h>
#include <string.h>

#include "capture/rep118.h"
#include "daemon/ros/state.h"
#include "proto/clock.h"

#define MM_PER_M 1000 // 16UC1
#define N_TF     64   // of a message of tf, at most

typedef geometry_msgs_msg_dds__Vector3_ vector3;
typedef geometry_msgs_msg_dds__TransformStamped_ transform_stamped;

static std_msgs_msg_dds__Header_ header_of(int64_t time_ns, char *frame_id)
{
    const struct timespec stamp = clock_timespec(time_ns);
    return (std_msgs_msg_dds__Header_){{(int32_t)stamp.tv_sec, (uint32_t)stamp.tv_nsec}, frame_id};
}

static void write_to(struct ros *ros, dds_entity_t writer, const void *message, const char *name)
{
    dds_return_t result = dds_write(writer, message);
    if (result != DDS_RETCODE_OK)
        log_to(&ros->log, LOG_LEVEL_WARNING, "ROS 2: a message of %s was not sent: %s", name,
               dds_strretcode(result));
}

static transform_stamped transform_of(const struct ros_pose *pose, char *frame, char *child)
{
    const double *p = pose->position_m, *q = pose->orientation_xyzw;
    return (transform_stamped){
        header_of(pose->time_ns, frame), child, {{p[0], p[1], p[2]}, {q[0], q[1], q[2], q[3]}}};
}

static void write_transforms(struct ros *ros, dds_entity_t writer, transform_stamped *transforms,
                             uint32_t n, const char *name)
{
    const tf2_msgs_msg_dds__TFMessage_ message = {
        {._maximum = n, ._length = n, ._buffer = transforms, ._release = false}};
    write_to(ros, writer, &message, name);
}

static void set_map(struct source *source, const struct ros_tracked *tracked)
{
    source->has_map = tracked->has_map && source->map_frame[0];
    if (source->has_map)
        source->T_map_odom = ros_odom_in_map(&tracked->T_map_odom, &source->T_base_optical);
}

// Odom in the map, where there is one. Returns how many, 1 at most.
static uint32_t put_map(struct source *source, int64_t time_ns, transform_stamped *out)
{
    struct ros_pose map_pose;
    if (!source->has_map)
        return 0;
    ros_pose_of_static(&source->T_map_odom, time_ns, &map_pose);
    *out = transform_of(&map_pose, source->map_frame, source->odom_frame);
    return 1;
}

// The base in odom, and before it odom in the map: with each pose again, as what tf has at a time
// is between two that it was told. Returns how many, 2 at most.
static uint32_t put_transforms(struct source *source, const struct ros_pose *pose,
                               transform_stamped *out)
{
    uint32_t n = put_map(source, pose->time_ns, out);
    out[n++] = transform_of(pose, source->odom_frame, source->base_frame);
    return n;
}

// silent_ns: of the one before.
static void tell_change(struct ros *ros, const struct source *before, const struct source *now,
                        int64_t silent_ns)
{
    char unseen[80] = "";
    if (silent_ns > RIG_TF_SILENT_NS)
        silent_ns = RIG_TF_SILENT_NS;
    if (ros->rig_tf.unseen_ns > 0)
        snprintf(unseen, sizeof unseen, "; of its motion in the %.2f s between nothing is known",
                 (double)ros->rig_tf.unseen_ns * 1e-9);
    log_to(&ros->log, LOG_LEVEL_NOTICE,
           "ROS 2: no pose of %s for %.1f s: tf goes on by %s from there%s", before->odom_frame,
           (double)silent_ns * 1e-9, now->odom_frame, unseen);
}

// Where it is nobody knows while it is lost, or its pose is stale.
static bool is_unknown(const struct ros_tracked *tracked)
{
    return tracked->is_lost || tracked->is_stale;
}

// Of a camera that is on no rig. Where nobody knows where it is tf says nothing of it, rather than
// its last pose with the stamp of now.
static void write_tf_alone(struct ros *ros, struct source *source, const struct waiting *waiting,
                           const struct ros_pose *pose)
{
    transform_stamped transforms[2];
    set_map(source, &waiting->tracked);
    const uint32_t n = is_unknown(&waiting->tracked) ? put_map(source, pose->time_ns, transforms)
                                                     : put_transforms(source, pose, transforms);
    if (n > 0)
        write_transforms(ros, ros->tf, transforms, n, "tf");
}

// A frame has one parent: of a rig's cameras one moves the first one's base. Where it changes, what
// the next one has said meanwhile goes out in few messages, which no reader's queue is too short
// for. The map is the first one's; while another one is followed, odom stays in it as it was.
static void write_tf(struct ros *ros, const struct waiting *waiting, const struct ros_pose *own)
{
    struct source *first = &ros->sources[0], *source = &ros->sources[waiting->of];
    const struct rig_tf_sight sight = {
        .of = waiting->of,
        .time_ns = own->time_ns - waiting->tracked.clock_set_ns,
        .clock_set_ns = waiting->tracked.clock_set_ns,
        .put_ns = waiting->put_ns,
        .T_odom_base = se3_from_quaternion(own->orientation_xyzw, own->position_m),
        .is_lost = waiting->tracked.is_lost,
        .is_predicted = waiting->tracked.is_predicted,
        .is_stale = waiting->tracked.is_stale,
    };
    const uint32_t followed = ros->rig_tf.followed;
    const int64_t silent_ns = waiting->put_ns - ros->rig_tf.good_put_ns;
    transform_stamped transforms[N_TF];
    struct rig_tf_pose rig_pose;
    struct ros_pose pose = *own;
    uint32_t n = 0;
    if (waiting->of > 0 ? !source->is_carried : !ros->moves_rig && is_unknown(&waiting->tracked)) {
        write_tf_alone(ros, source, waiting, own);
        return;
    }
    rig_tf_put(&ros->rig_tf, &sight);
    if (ros->rig_tf.followed != followed)
        tell_change(ros, &ros->sources[followed], source, silent_ns);
    if (waiting->of == 0 && ros->rig_tf.followed == 0) {
        set_map(first, &waiting->tracked);
        if (first->has_map)
            first->T_map_odom = rig_tf_odom_in_map(&ros->rig_tf, &first->T_map_odom);
    }
    while (rig_tf_next(&ros->rig_tf, &rig_pose)) {
        if (ros->rig_tf.has_changed)
            ros_pose_of_static(&rig_pose.T_odom_first, rig_pose.time_ns, &pose);
        n += put_transforms(first, &pose, transforms + n);
        if (n + 2 > N_TF) {
            write_transforms(ros, ros->tf, transforms, n, "tf");
            n = 0;
        }
    }
    if (n > 0)
        write_transforms(ros, ros->tf, transforms, n, "tf");
}

void ros_write_pose(struct ros *ros, const struct waiting *waiting)
{
    struct source *source = &ros->sources[waiting->of];
    struct ros_pose pose;
    ros_pose_of_base(&waiting->tracked, &source->T_base_optical, &pose);
    const double *p = pose.position_m, *q = pose.orientation_xyzw;
    const double *v = pose.linear_m_s, *w = pose.angular_rad_s;
    nav_msgs_msg_dds__Odometry_ odometry = {
        .header = header_of(pose.time_ns, source->odom_frame),
        .child_frame_id = source->base_frame,
        .pose.pose = {{p[0], p[1], p[2]}, {q[0], q[1], q[2], q[3]}},
        .twist.twist = {(vector3){v[0], v[1], v[2]}, (vector3){w[0], w[1], w[2]}}};
    memcpy(odometry.pose.covariance, pose.covariance, sizeof odometry.pose.covariance);
    memcpy(odometry.twist.covariance, pose.twist_covariance, sizeof odometry.twist.covariance);
    write_to(ros, source->odom, &odometry, "odom");
    if (waiting->of < ros->n_sources)
        write_tf(ros, waiting, &pose);
}

void ros_write_camera(struct ros *ros, struct source *source, const struct intrinsics *c,
                      int64_t time_ns)
{
    double d[5] = {0};
    const sensor_msgs_msg_dds__CameraInfo_ info = {
        .header = header_of(time_ns, source->optical_frame),
        .height = c->height_px,
        .width = c->width_px,
        .distortion_model = (char[]){"plumb_bob"},
        .d = {._maximum = 5, ._length = 5, ._buffer = d},
        .k = {c->fx_px, 0, c->cx_px, 0, c->fy_px, c->cy_px, 0, 0, 1},
        .r = {1, 0, 0, 0, 1, 0, 0, 0, 1},
        .p = {c->fx_px, 0, c->cx_px, 0, 0, c->fy_px, c->cy_px, 0, 0, 0, 1, 0}};
    write_to(ros, source->info, &info, "camera_info");
}

// Where each camera sits on its base, and the bases of a rig, for whoever comes, whenever: all in
// one message, of which the last one is kept.
void ros_write_static(struct ros *ros)
{
    transform_stamped transforms[2 * ROS_MAX_SOURCES];
    struct ros_pose pose;
    const int64_t now_ns = clock_wall_ns();
    uint32_t n = 0;
    for (uint32_t i = 0; i < ros->n_sources; i++) {
        struct source *source = &ros->sources[i];
        ros_pose_of_static(&source->T_base_optical, now_ns, &pose);
        transforms[n++] = transform_of(&pose, source->base_frame, source->optical_frame);
        if (!source->is_carried)
            continue;
        ros_pose_of_static(&source->T_first_base, now_ns, &pose);
        transforms[n++] = transform_of(&pose, ros->sources[0].base_frame, source->base_frame);
    }
    write_transforms(ros, ros->tf_static, transforms, n, "tf_static");
}

// 16UC1 of millimetres, or 32FC1 of other units.
void ros_write_image(struct ros *ros, struct source *source)
{
    struct depth_frame *frame = &source->frame;
    size_t n = (size_t)frame->width_px * frame->height_px;
    bool is_float = frame->units_per_m != MM_PER_M;
    uint32_t pixel_bytes = is_float ? sizeof(float) : sizeof(uint16_t);
    frame->depth = source->pixels; // the loop's own may be another image by now
    if (is_float)
        rep118_put_metres(frame, frame->units_per_m, ros->sent);
    else
        rep118_put_millimetres(frame, ros->sent);
    char millimetres[] = "16UC1", floats[] = "32FC1";
    sensor_msgs_msg_dds__Image_ image = {.header = header_of(frame->time_ns, source->optical_frame),
                                         .height = frame->height_px,
                                         .width = frame->width_px,
                                         .encoding = is_float ? floats : millimetres,
                                         .step = pixel_bytes * frame->width_px,
                                         .data = {._maximum = (uint32_t)(pixel_bytes * n),
                                                  ._length = (uint32_t)(pixel_bytes * n),
                                                  ._buffer = ros->sent}};
    write_to(ros, source->image, &image, "image_raw");
}

void ros_write_health(struct ros *ros, const struct source *source, const struct ros_health *health)
{
    enum { N = 6 };
    static char *const keys[N] = {"captured", "lost", "dropped", "damaged", "map_epoch", "rate_hz"};
    char values[N][32], name[96], id[] = "posed", message[sizeof health->message];
    diagnostic_msgs_msg_dds__KeyValue_ pairs[N];
    const uint64_t counts[] = {health->n_captured, health->n_lost, health->n_dropped,
                               health->n_damaged, health->map_epoch};
    for (int i = 0; i < N; i++) {
        if (i < N - 1)
            snprintf(values[i], sizeof values[i], "%llu", (unsigned long long)counts[i]);
        else
            snprintf(values[i], sizeof values[i], "%.1f", health->rate_hz);
        pairs[i] = (diagnostic_msgs_msg_dds__KeyValue_){keys[i], values[i]};
    }
    memcpy(message, health->message, sizeof message);
    snprintf(name, sizeof name, "posed: %s%stracker", source->name, source->name[0] ? " " : "");
    diagnostic_msgs_msg_dds__DiagnosticStatus_ status = {
        .level = health->is_error     ? 2
                 : health->is_warning ? 1
                                      : 0,
        .name = name,
        .message = message,
        .hardware_id = id,
        .values = {._maximum = N, ._length = N, ._buffer = pairs}};
    const diagnostic_msgs_msg_dds__DiagnosticArray_ array = {
        header_of(clock_wall_ns(), (char[]){""}),
        {._maximum = 1, ._length = 1, ._buffer = &status}};
    write_to(ros, ros->diagnostics, &array, "diagnostics");
}
