// SPDX-License-Identifier: Apache-2.0
#include "daemon/ros/ros.h"

#include <dds/dds.h>
#include <math.h>
#include <pthread.h>
#include <ros_types.h> // of ros_types.idl
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/dds.h"
#include "proto/clock.h"

#define N_WAITING    256  // frames, eight seconds at camera rate
#define POSE_HISTORY 100  // of the writers: what a slow but reliable reader may be behind
#define MM_PER_M     1000 // 16UC1

typedef geometry_msgs_msg_dds__Vector3_ vector3;
typedef geometry_msgs_msg_dds__TransformStamped_ transform_stamped;

// A frame's pose, and its camera where somebody subscribes to that.
struct waiting {
    struct ros_tracked tracked;
    bool has_camera;
    struct intrinsics camera;
};

struct ros {
    struct log_sink log;
    char odom_frame[32], base_frame[32], optical_frame[32];
    struct se3 T_base_optical;
    dds_entity_t participant, odom, tf, tf_static, image, info, diagnostics;

    pthread_t thread;
    sem_t wake;
    atomic_bool quit;
    pthread_mutex_t lock; // of all below
    struct waiting waiting[N_WAITING];
    uint64_t n_in, n_out, n_left_out;
    struct ros_health health;
    bool has_health;
    bool has_image; // `pixels` are the thread's, else the loop's
    struct depth_frame frame;
    uint16_t *pixels;
    size_t n_pixels; // its room

    void *sent; // the thread's: the image as it goes out
};

static dds_entity_t create_writer(struct ros *ros, const dds_topic_descriptor_t *type,
                                  const char *name, int32_t depth, bool is_kept)
{
    dds_entity_t topic = dds_create_topic(ros->participant, type, name, NULL, NULL);
    if (topic < 0)
        return topic;
    dds_qos_t *qos = ros_dds_qos(true, depth, is_kept);
    dds_entity_t writer = dds_create_writer(ros->participant, topic, qos, NULL);
    dds_delete_qos(qos);
    return writer;
}

static std_msgs_msg_dds__Header_ header_of(int64_t time_ns, char *frame_id)
{
    return (std_msgs_msg_dds__Header_){
        {(int32_t)(time_ns / 1000000000), (uint32_t)(time_ns % 1000000000)}, frame_id};
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

static void write_transform(struct ros *ros, dds_entity_t writer, transform_stamped *transform,
                            const char *name)
{
    const tf2_msgs_msg_dds__TFMessage_ message = {
        {._maximum = 1, ._length = 1, ._buffer = transform, ._release = false}};
    write_to(ros, writer, &message, name);
}

static void write_pose(struct ros *ros, const struct ros_tracked *tracked)
{
    struct ros_pose pose;
    ros_pose_of_base(tracked, &ros->T_base_optical, &pose);
    const double *p = pose.position_m, *q = pose.orientation_xyzw;
    const double *v = pose.linear_m_s, *w = pose.angular_rad_s;
    nav_msgs_msg_dds__Odometry_ odometry = {
        .header = header_of(pose.time_ns, ros->odom_frame),
        .child_frame_id = ros->base_frame,
        .pose.pose = {{p[0], p[1], p[2]}, {q[0], q[1], q[2], q[3]}},
        .twist.twist = {(vector3){v[0], v[1], v[2]}, (vector3){w[0], w[1], w[2]}}};
    memcpy(odometry.pose.covariance, pose.covariance, sizeof odometry.pose.covariance);
    memcpy(odometry.twist.covariance, pose.twist_covariance, sizeof odometry.twist.covariance);
    write_to(ros, ros->odom, &odometry, "odom");
    transform_stamped transform = transform_of(&pose, ros->odom_frame, ros->base_frame);
    write_transform(ros, ros->tf, &transform, "tf");
}

static void write_camera(struct ros *ros, const struct intrinsics *c, int64_t time_ns)
{
    double d[5] = {0};
    const sensor_msgs_msg_dds__CameraInfo_ info = {
        .header = header_of(time_ns, ros->optical_frame),
        .height = c->height_px,
        .width = c->width_px,
        .distortion_model = (char[]){"plumb_bob"},
        .d = {._maximum = 5, ._length = 5, ._buffer = d},
        .k = {c->fx_px, 0, c->cx_px, 0, c->fy_px, c->cy_px, 0, 0, 1},
        .r = {1, 0, 0, 0, 1, 0, 0, 0, 1},
        .p = {c->fx_px, 0, c->cx_px, 0, 0, c->fy_px, c->cy_px, 0, 0, 0, 1, 0}};
    write_to(ros, ros->info, &info, "posed/depth/camera_info");
}

// Where the camera sits on the base, for whoever comes, whenever.
static void write_static(struct ros *ros)
{
    struct ros_pose pose;
    ros_pose_of_static(&ros->T_base_optical, clock_wall_ns(), &pose);
    transform_stamped transform = transform_of(&pose, ros->base_frame, ros->optical_frame);
    write_transform(ros, ros->tf_static, &transform, "tf_static");
}

// 16UC1 of millimetres as they are; other units as metres.
static void write_image(struct ros *ros)
{
    const struct depth_frame *frame = &ros->frame;
    size_t n = (size_t)frame->width_px * frame->height_px;
    bool is_float = frame->units_per_m != MM_PER_M;
    uint32_t pixel_bytes = is_float ? sizeof(float) : sizeof(uint16_t);
    float *metres = ros->sent;
    for (size_t i = 0; is_float && i < n; i++)
        metres[i] = ros->pixels[i] ? (float)((double)ros->pixels[i] / frame->units_per_m) : NAN;
    char millimetres[] = "16UC1", floats[] = "32FC1";
    sensor_msgs_msg_dds__Image_ image = {
        .header = header_of(frame->time_ns, ros->optical_frame),
        .height = frame->height_px,
        .width = frame->width_px,
        .encoding = is_float ? floats : millimetres,
        .step = pixel_bytes * frame->width_px,
        .data = {._maximum = (uint32_t)(pixel_bytes * n),
                 ._length = (uint32_t)(pixel_bytes * n),
                 ._buffer = is_float ? ros->sent : (void *)ros->pixels}};
    write_to(ros, ros->image, &image, "posed/depth/image_raw");
}

static void write_health(struct ros *ros, const struct ros_health *health)
{
    enum { N = 5 };
    static char *const keys[N] = {"captured", "lost", "dropped", "damaged", "rate_hz"};
    char values[N][32], name[] = "posed: tracker", id[] = "posed", message[64];
    diagnostic_msgs_msg_dds__KeyValue_ pairs[N];
    const uint64_t counts[] = {health->n_captured, health->n_lost, health->n_dropped,
                               health->n_damaged};
    for (int i = 0; i < N; i++) {
        if (i < N - 1)
            snprintf(values[i], sizeof values[i], "%llu", (unsigned long long)counts[i]);
        else
            snprintf(values[i], sizeof values[i], "%.1f", health->rate_hz);
        pairs[i] = (diagnostic_msgs_msg_dds__KeyValue_){keys[i], values[i]};
    }
    memcpy(message, health->message, sizeof message);
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

// All that waits: poses and cameras first, of which none is left out.
static void write_waiting(struct ros *ros)
{
    struct waiting one;
    pthread_mutex_lock(&ros->lock);
    while (ros->n_out < ros->n_in) {
        one = ros->waiting[ros->n_out++ % N_WAITING];
        pthread_mutex_unlock(&ros->lock);
        write_pose(ros, &one.tracked);
        if (one.has_camera)
            write_camera(ros, &one.camera, one.tracked.time_ns);
        pthread_mutex_lock(&ros->lock);
    }
    bool has_image = ros->has_image, has_health = ros->has_health;
    struct ros_health health = ros->health;
    ros->has_health = false;
    pthread_mutex_unlock(&ros->lock);
    if (has_image) {
        write_image(ros);
        pthread_mutex_lock(&ros->lock);
        ros->has_image = false;
        pthread_mutex_unlock(&ros->lock);
    }
    if (has_health)
        write_health(ros, &health);
}

static void *run(void *argument)
{
    struct ros *ros = argument;
    while (!atomic_load(&ros->quit)) {
        while (sem_wait(&ros->wake) != 0)
            ; // a debugger
        write_waiting(ros);
    }
    write_waiting(ros);
    return NULL;
}

static bool has_readers(dds_entity_t writer)
{
    dds_publication_matched_status_t matched;
    return dds_get_publication_matched_status(writer, &matched) == DDS_RETCODE_OK &&
           matched.current_count > 0;
}

void ros_put(struct ros *ros, const struct ros_tracked *tracked, const struct depth_frame *image,
             const struct intrinsics *camera)
{
    size_t n = (size_t)image->width_px * image->height_px;
    bool wants_image = image->depth && n <= ros->n_pixels && has_readers(ros->image);
    const struct waiting one = {*tracked, has_readers(ros->info), *camera};
    pthread_mutex_lock(&ros->lock);
    if (ros->n_in - ros->n_out < N_WAITING)
        ros->waiting[ros->n_in++ % N_WAITING] = one;
    else
        ros->n_left_out++;
    wants_image = wants_image && !ros->has_image;
    pthread_mutex_unlock(&ros->lock);
    sem_post(&ros->wake);
    if (!wants_image)
        return;
    memcpy(ros->pixels, image->depth, n * sizeof *ros->pixels);
    pthread_mutex_lock(&ros->lock);
    ros->frame = *image;
    ros->has_image = true;
    pthread_mutex_unlock(&ros->lock);
    sem_post(&ros->wake);
}

void ros_put_health(struct ros *ros, const struct ros_health *health)
{
    pthread_mutex_lock(&ros->lock);
    ros->health = *health;
    ros->has_health = true;
    pthread_mutex_unlock(&ros->lock);
    sem_post(&ros->wake);
}

static int open_writers(struct ros *ros)
{
    const struct {
        dds_entity_t *writer;
        const dds_topic_descriptor_t *type;
        const char *name;
        int32_t depth;
        bool is_kept;
    } topics[] = {
        {&ros->odom, &nav_msgs_msg_dds__Odometry__desc, "rt/odom", POSE_HISTORY, false},
        {&ros->tf, &tf2_msgs_msg_dds__TFMessage__desc, "rt/tf", POSE_HISTORY, false},
        {&ros->tf_static, &tf2_msgs_msg_dds__TFMessage__desc, "rt/tf_static", 1, true},
        {&ros->image, &sensor_msgs_msg_dds__Image__desc, "rt/posed/depth/image_raw", 5, false},
        {&ros->info, &sensor_msgs_msg_dds__CameraInfo__desc, "rt/posed/depth/camera_info",
         POSE_HISTORY, false},
        {&ros->diagnostics, &diagnostic_msgs_msg_dds__DiagnosticArray__desc, "rt/diagnostics", 10,
         false},
    };
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        *topics[i].writer =
            create_writer(ros, topics[i].type, topics[i].name, topics[i].depth, topics[i].is_kept);
        if (*topics[i].writer < 0) {
            log_to(&ros->log, LOG_LEVEL_ERROR, "ROS 2: %s: %s", topics[i].name + 2,
                   dds_strretcode(*topics[i].writer));
            return -EIO;
        }
    }
    return 0;
}

static int start_thread(struct ros *ros)
{
    sigset_t all, old; // signals are the process's business
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&ros->thread, NULL, run, ros);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -err;
}

static void free_ros(struct ros *ros)
{
    if (ros->participant > 0)
        dds_delete(ros->participant);
    pthread_mutex_destroy(&ros->lock);
    sem_destroy(&ros->wake);
    free(ros->pixels);
    free(ros->sent);
    free(ros);
}

int ros_create(struct ros **out, const struct ros_settings *settings,
               const struct capture_info *info)
{
    *out = NULL;
    struct ros *ros = calloc(1, sizeof *ros);
    if (!ros)
        return -ENOMEM;
    ros->log = settings->log;
    ros->T_base_optical = settings->T_base_optical;
    snprintf(ros->odom_frame, sizeof ros->odom_frame, "%s", settings->odom_frame);
    snprintf(ros->base_frame, sizeof ros->base_frame, "%s", settings->base_frame);
    snprintf(ros->optical_frame, sizeof ros->optical_frame, "%s", settings->optical_frame);
    pthread_mutex_init(&ros->lock, NULL);
    sem_init(&ros->wake, 0, 0);
    ros->n_pixels = (size_t)info->camera.width_px * info->camera.height_px;
    ros->pixels = malloc(ros->n_pixels * sizeof *ros->pixels);
    ros->sent = malloc(ros->n_pixels * sizeof(float));
    struct ros_dds_place place = {settings->domain, settings->domain_origin, settings->interface};
    int err = ros->pixels && ros->sent ? 0 : -ENOMEM;
    if (!err)
        ros->participant = ros_dds_participant(&place, &settings->log);
    if (!err && ros->participant < 0)
        err = ros->participant;
    if (!err)
        err = open_writers(ros);
    if (!err) {
        write_static(ros);
        err = start_thread(ros);
    }
    if (err) {
        free_ros(ros);
        return err;
    }
    char text[ROS_DDS_PLACE_BYTES];
    ros_dds_describe(&place, text);
    log_to(&ros->log, LOG_LEVEL_INFO, "ROS 2: odom, tf and diagnostics on %s", text);
    *out = ros;
    return 0;
}

void ros_destroy(struct ros **ros)
{
    if (!*ros)
        return;
    atomic_store(&(*ros)->quit, true);
    sem_post(&(*ros)->wake);
    pthread_join((*ros)->thread, NULL);
    if ((*ros)->n_left_out)
        log_to(&(*ros)->log, LOG_LEVEL_WARNING,
               "ROS 2: %llu poses were left out, the writer was busy",
               (unsigned long long)(*ros)->n_left_out);
    dds_wait_for_acks((*ros)->odom, DDS_MSECS(200));
    dds_wait_for_acks((*ros)->tf, DDS_MSECS(200));
    free_ros(*ros);
    *ros = NULL;
}
