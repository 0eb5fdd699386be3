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
#include "capture/ros/topic_name.h"
#include "daemon/ros/other_publishers.h"
#include "daemon/ros/rig_tf.h"
#include "proto/clock.h"

#define N_WAITING    256  // frames of a camera, eight seconds at its rate
#define POSE_HISTORY 100  // of the writers: what a slow but reliable reader may be behind
#define MM_PER_M     1000 // 16UC1
#define N_TF         64   // of a message of tf, at most
#define GOODBYE_NS   INT64_C(300000000) // readers may take what they have not yet, all together

typedef geometry_msgs_msg_dds__Vector3_ vector3;
typedef geometry_msgs_msg_dds__TransformStamped_ transform_stamped;

// A frame's pose, and its camera where somebody subscribes to that.
struct waiting {
    uint32_t of;    // the camera's number, n_sources: the rig's
    int64_t put_ns; // CLOCK_MONOTONIC
    struct ros_tracked tracked;
    bool has_camera;
    struct intrinsics camera;
};

// What is of one camera: its topics, its frames and the newest that is to go out.
struct source {
    char name[ROS_TOPIC_PART_BYTES]; // as in topics, "" = the only one
    char map_frame[64], odom_frame[64], base_frame[64], optical_frame[64];
    struct se3 T_base_optical;
    bool is_carried; // its base hangs on the first one's, as both sit on one rig
    struct se3 T_first_base;
    bool has_map; // the thread's: where odom lies in its map, as tf tells it
    struct se3 T_map_odom;
    dds_entity_t odom, image, info;

    // Under the lock.
    uint32_t n_waiting; // of its poses; each camera has its share of the queue
    struct ros_health health;
    bool has_health;
    bool has_image; // `pixels` are the thread's, else the loop's
    struct depth_frame frame;
    uint16_t *pixels;
    size_t n_pixels; // its room
};

struct ros {
    struct log_sink log;
    struct source *sources;
    uint32_t n_sources;
    bool has_rig;    // behind the sources there is one more, of the odom alone
    char prefix[40]; // of topics: "robot1/", or ""
    dds_entity_t participant, publishers, tf, tf_static, diagnostics;
    bool has_warned;      // of another publisher; the thread's
    struct rig_tf rig_tf; // the thread's; of the first camera and those that are carried
    struct rig_tf_camera *rig_cameras;

    pthread_t thread;
    sem_t wake;
    atomic_bool quit;
    pthread_mutex_t lock;    // of all below
    struct waiting *waiting; // N_WAITING of each camera
    uint64_t n_in, n_out, n_left_out;

    void *sent; // the thread's: the image as it goes out
};

static uint32_t n_odoms(const struct ros *ros)
{
    return ros->n_sources + ros->has_rig;
}

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

// The base in odom, and before it odom in the map, where there is one: with each pose again, as
// what tf has at a time is between two that it was told. Returns how many, 2 at most.
static uint32_t put_transforms(struct source *source, const struct ros_pose *pose,
                               transform_stamped *out)
{
    struct ros_pose map_pose;
    uint32_t n = 0;
    if (source->has_map) {
        ros_pose_of_static(&source->T_map_odom, pose->time_ns, &map_pose);
        out[n++] = transform_of(&map_pose, source->map_frame, source->odom_frame);
    }
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

// A frame has one parent: of a rig's cameras one moves the first one's base. Where it changes, what
// the next one has said meanwhile goes out in few messages, which no reader's queue is too short
// for. The map is the first one's; while another one is followed, odom stays in it as it was.
static void write_tf(struct ros *ros, const struct waiting *waiting, const struct ros_pose *own)
{
    struct source *first = &ros->sources[0], *source = &ros->sources[waiting->of];
    const struct rig_tf_sight sight = {
        .of = waiting->of,
        .time_ns = own->time_ns,
        .put_ns = waiting->put_ns,
        .T_odom_base = se3_from_quaternion(own->orientation_xyzw, own->position_m),
        .is_lost = waiting->tracked.is_lost,
    };
    const uint32_t followed = ros->rig_tf.followed;
    const int64_t silent_ns = waiting->put_ns - ros->rig_tf.good_put_ns;
    transform_stamped transforms[N_TF];
    struct rig_tf_pose rig_pose;
    struct ros_pose pose = *own;
    uint32_t n = 0;
    if (waiting->of > 0 && !source->is_carried) {
        set_map(source, &waiting->tracked);
        n = put_transforms(source, own, transforms);
        write_transforms(ros, ros->tf, transforms, n, "tf");
        return;
    }
    rig_tf_put(&ros->rig_tf, &sight);
    if (ros->rig_tf.followed != followed)
        tell_change(ros, &ros->sources[followed], source, silent_ns);
    if (waiting->of == 0 && ros->rig_tf.followed == 0)
        set_map(first, &waiting->tracked);
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

static void write_pose(struct ros *ros, const struct waiting *waiting)
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

static void write_camera(struct ros *ros, struct source *source, const struct intrinsics *c,
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
static void write_static(struct ros *ros)
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

// 16UC1 of millimetres as they are; other units as metres.
static void write_image(struct ros *ros, struct source *source)
{
    const struct depth_frame *frame = &source->frame;
    size_t n = (size_t)frame->width_px * frame->height_px;
    bool is_float = frame->units_per_m != MM_PER_M;
    uint32_t pixel_bytes = is_float ? sizeof(float) : sizeof(uint16_t);
    float *metres = ros->sent;
    for (size_t i = 0; is_float && i < n; i++)
        metres[i] =
            source->pixels[i] ? (float)((double)source->pixels[i] / frame->units_per_m) : NAN;
    char millimetres[] = "16UC1", floats[] = "32FC1";
    sensor_msgs_msg_dds__Image_ image = {
        .header = header_of(frame->time_ns, source->optical_frame),
        .height = frame->height_px,
        .width = frame->width_px,
        .encoding = is_float ? floats : millimetres,
        .step = pixel_bytes * frame->width_px,
        .data = {._maximum = (uint32_t)(pixel_bytes * n),
                 ._length = (uint32_t)(pixel_bytes * n),
                 ._buffer = is_float ? ros->sent : (void *)source->pixels}};
    write_to(ros, source->image, &image, "image_raw");
}

// "robot1/front/odom"
static void name_odom(const struct ros *ros, uint32_t of, char out[ROS_DDS_NAME_BYTES])
{
    const char *name = ros->sources[of].name;
    snprintf(out, ROS_DDS_NAME_BYTES, "%s%s%sodom", ros->prefix, name, name[0] ? "/" : "");
}

static bool is_our_odom(void *user, const char *topic)
{
    const struct ros *ros = user;
    char name[ROS_DDS_NAME_BYTES];
    bool is_ours = false;
    for (uint32_t i = 0; i < n_odoms(ros) && !is_ours; i++) {
        name_odom(ros, i, name);
        is_ours = strncmp(topic, "rt/", 3) == 0 && strcmp(topic + 3, name) == 0;
    }
    return is_ours;
}

// Once: whoever subscribes gets both, and tf has two ways of one base.
static void look_for_others(struct ros *ros)
{
    if (ros->has_warned ||
        !ros_has_other_publisher(ros->publishers, ros->participant, is_our_odom, ros))
        return;
    ros->has_warned = true;
    log_to(&ros->log, LOG_LEVEL_WARNING,
           "ROS 2: another program publishes %sodom on this domain, too: who subscribes gets the "
           "poses of both; give one a ros.namespace or a ros.domain of its own",
           ros->prefix);
}

static void write_health(struct ros *ros, const struct source *source,
                         const struct ros_health *health)
{
    enum { N = 5 };
    static char *const keys[N] = {"captured", "lost", "dropped", "damaged", "rate_hz"};
    char values[N][32], name[96], id[] = "posed", message[64];
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

static void write_poses(struct ros *ros)
{
    struct waiting one;
    pthread_mutex_lock(&ros->lock);
    while (ros->n_out < ros->n_in) {
        one = ros->waiting[ros->n_out++ % ((uint64_t)N_WAITING * n_odoms(ros))];
        ros->sources[one.of].n_waiting--;
        pthread_mutex_unlock(&ros->lock);
        write_pose(ros, &one);
        if (one.has_camera)
            write_camera(ros, &ros->sources[one.of], &one.camera, one.tracked.time_ns);
        pthread_mutex_lock(&ros->lock);
    }
    pthread_mutex_unlock(&ros->lock);
}

// All that waits: poses and cameras first, of which none is left out.
static void write_waiting(struct ros *ros)
{
    for (uint32_t i = 0; i < ros->n_sources; i++) {
        struct source *source = &ros->sources[i];
        write_poses(ros);
        pthread_mutex_lock(&ros->lock);
        bool has_image = source->has_image, has_health = source->has_health;
        struct ros_health health = source->health;
        source->has_health = false;
        pthread_mutex_unlock(&ros->lock);
        if (has_image) {
            write_image(ros, source);
            pthread_mutex_lock(&ros->lock);
            source->has_image = false;
            pthread_mutex_unlock(&ros->lock);
        }
        if (has_health) {
            write_health(ros, source, &health);
            look_for_others(ros);
        }
    }
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

// With the lock held.
static void put_waiting(struct ros *ros, const struct waiting *one)
{
    struct source *source = &ros->sources[one->of];
    if (source->n_waiting < N_WAITING) {
        ros->waiting[ros->n_in++ % ((uint64_t)N_WAITING * n_odoms(ros))] = *one;
        source->n_waiting++;
    } else {
        ros->n_left_out++;
    }
}

void ros_put(struct ros *ros, uint32_t of, const struct ros_tracked *tracked,
             const struct depth_frame *image, const struct intrinsics *camera)
{
    struct source *source = &ros->sources[of];
    size_t n = (size_t)image->width_px * image->height_px;
    bool wants_image = image->depth && n <= source->n_pixels && has_readers(source->image);
    const struct waiting one = {of, clock_monotonic_ns(), *tracked, has_readers(source->info),
                                *camera};
    pthread_mutex_lock(&ros->lock);
    put_waiting(ros, &one);
    wants_image = wants_image && !source->has_image;
    pthread_mutex_unlock(&ros->lock);
    sem_post(&ros->wake);
    if (!wants_image)
        return;
    memcpy(source->pixels, image->depth, n * sizeof *source->pixels);
    pthread_mutex_lock(&ros->lock);
    source->frame = *image;
    source->has_image = true;
    pthread_mutex_unlock(&ros->lock);
    sem_post(&ros->wake);
}

void ros_put_rig(struct ros *ros, const struct ros_tracked *tracked)
{
    const struct waiting one = {
        .of = ros->n_sources, .put_ns = clock_monotonic_ns(), .tracked = *tracked};
    pthread_mutex_lock(&ros->lock);
    put_waiting(ros, &one);
    pthread_mutex_unlock(&ros->lock);
    sem_post(&ros->wake);
}

void ros_put_health(struct ros *ros, uint32_t of, const struct ros_health *health)
{
    pthread_mutex_lock(&ros->lock);
    ros->sources[of].health = *health;
    ros->sources[of].has_health = true;
    pthread_mutex_unlock(&ros->lock);
    sem_post(&ros->wake);
}

// rt/[NAMESPACE/]BEFORE[CAMERA/]NAME
static int open_writer(struct ros *ros, dds_entity_t *out, const dds_topic_descriptor_t *type,
                       const char *before, const char *camera, const char *name, int32_t depth,
                       bool is_kept)
{
    char topic[ROS_DDS_NAME_BYTES];
    snprintf(topic, sizeof topic, "rt/%s%s%s%s%s", ros->prefix, before, camera,
             camera[0] ? "/" : "", name);
    *out = create_writer(ros, type, topic, depth, is_kept);
    if (*out >= 0)
        return 0;
    log_to(&ros->log, LOG_LEVEL_ERROR, "ROS 2: %s: %s", topic + 3, dds_strretcode(*out));
    return -EIO;
}

static int open_writers(struct ros *ros)
{
    const dds_topic_descriptor_t *const tf = &tf2_msgs_msg_dds__TFMessage__desc;
    int err = open_writer(ros, &ros->tf, tf, "", "", "tf", POSE_HISTORY, false);
    if (!err)
        err = open_writer(ros, &ros->tf_static, tf, "", "", "tf_static", 1, true);
    if (!err)
        err = open_writer(ros, &ros->diagnostics, &diagnostic_msgs_msg_dds__DiagnosticArray__desc,
                          "", "", "diagnostics", 10, false);
    for (uint32_t i = 0; i < n_odoms(ros) && !err; i++)
        err = open_writer(ros, &ros->sources[i].odom, &nav_msgs_msg_dds__Odometry__desc, "",
                          ros->sources[i].name, "odom", POSE_HISTORY, false);
    for (uint32_t i = 0; i < ros->n_sources && !err; i++) {
        struct source *source = &ros->sources[i];
        err = open_writer(ros, &source->image, &sensor_msgs_msg_dds__Image__desc, "posed/",
                          source->name, "depth/image_raw", 5, false);
        if (!err)
            err = open_writer(ros, &source->info, &sensor_msgs_msg_dds__CameraInfo__desc, "posed/",
                              source->name, "depth/camera_info", POSE_HISTORY, false);
    }
    return err;
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
    for (uint32_t i = 0; i < ros->n_sources; i++)
        free(ros->sources[i].pixels);
    free(ros->sources);
    free(ros->rig_cameras);
    free(ros->waiting);
    free(ros->sent);
    free(ros);
}

// In topics a name is topic_name.h's; frames have it as it is.
static void name_source(struct source *source, const char *name,
                        const struct ros_settings *settings)
{
    const char *slash = name[0] ? "/" : "";
    ros_topic_part(name, source->name);
    if (settings->map_frame[0])
        snprintf(source->map_frame, sizeof source->map_frame, "%.31s%s%.31s", name, slash,
                 settings->map_frame);
    snprintf(source->odom_frame, sizeof source->odom_frame, "%.31s%s%.31s", name, slash,
             settings->odom_frame);
    snprintf(source->base_frame, sizeof source->base_frame, "%.31s%s%.31s", name, slash,
             settings->base_frame);
    snprintf(source->optical_frame, sizeof source->optical_frame, "%.31s%s%.31s", name, slash,
             settings->optical_frame);
}

static int open_sources(struct ros *ros, const struct ros_settings *settings)
{
    const struct ros_source *first = &settings->sources[0];
    size_t n_most = 0;
    ros->sources = calloc(settings->n_sources + 1, sizeof *ros->sources);
    ros->rig_cameras = calloc(settings->n_sources, sizeof *ros->rig_cameras);
    ros->waiting = calloc((size_t)N_WAITING * (settings->n_sources + 1), sizeof *ros->waiting);
    if (!ros->sources || !ros->rig_cameras || !ros->waiting)
        return -ENOMEM;
    for (; ros->n_sources < settings->n_sources; ros->n_sources++) {
        const struct ros_source *from = &settings->sources[ros->n_sources];
        struct source *source = &ros->sources[ros->n_sources];
        name_source(source, from->name, settings);
        source->T_base_optical = from->T_base_optical;
        source->is_carried = ros->n_sources > 0 && first->T_rig_camera && from->T_rig_camera;
        source->T_first_base = se3_identity();
        if (source->is_carried) {
            const struct se3 T_first_rig = se3_inverse(first->T_rig_camera);
            const struct se3 T_first_other = se3_compose(&T_first_rig, from->T_rig_camera);
            source->T_first_base =
                ros_base_in_base(&first->T_base_optical, &T_first_other, &from->T_base_optical);
        }
        ros->rig_cameras[ros->n_sources] = (struct rig_tf_camera){
            .T_base_first = se3_inverse(&source->T_first_base), .ahead_ns = from->ahead_ns};
        source->n_pixels = (size_t)from->info->camera.width_px * from->info->camera.height_px;
        source->pixels = malloc(source->n_pixels * sizeof *source->pixels);
        if (!source->pixels)
            return -ENOMEM;
        n_most = source->n_pixels > n_most ? source->n_pixels : n_most;
    }
    // Of the body of the first camera, whose base it has.
    struct source *rig = &ros->sources[ros->n_sources];
    name_source(rig, "rig", settings);
    memcpy(rig->base_frame, ros->sources[0].base_frame, sizeof rig->base_frame);
    rig->T_base_optical = first->T_base_optical;
    ros->has_rig = settings->has_rig;
    rig_tf_begin(&ros->rig_tf, ros->rig_cameras);
    ros->sent = malloc(n_most * sizeof(float));
    return ros->sent ? 0 : -ENOMEM;
}

// The topics of all poses: "front/odom, left_1/odom".
static void list_topics(const struct ros *ros, char *out, size_t n_out_bytes)
{
    size_t n = 0;
    for (uint32_t i = 0; i < n_odoms(ros) && n < n_out_bytes; i++) {
        char name[ROS_DDS_NAME_BYTES];
        name_odom(ros, i, name);
        n += (size_t)snprintf(out + n, n_out_bytes - n, "%s%s", i ? ", " : "", name);
    }
}

int ros_create(struct ros **out, const struct ros_settings *settings)
{
    *out = NULL;
    struct ros *ros = calloc(1, sizeof *ros);
    if (!ros)
        return -ENOMEM;
    ros->log = settings->log;
    const char *in = settings->topic_namespace;
    if (in[0])
        snprintf(ros->prefix, sizeof ros->prefix, "%.31s/", in + (in[0] == '/'));
    pthread_mutex_init(&ros->lock, NULL);
    sem_init(&ros->wake, 0, 0);
    struct ros_dds_place place = {settings->domain, settings->domain_origin, settings->interface};
    int err = open_sources(ros, settings);
    if (!err)
        ros->participant = ros_dds_participant(&place, &settings->log);
    if (!err && ros->participant < 0)
        err = ros->participant;
    if (!err)
        ros->publishers = ros_watch_publishers(ros->participant);
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
    char text[ROS_DDS_PLACE_BYTES],
        topics[(ROS_MAX_SOURCES + 1) * (ROS_TOPIC_PART_BYTES + sizeof ros->prefix + 8)];
    ros_dds_describe(&place, text);
    list_topics(ros, topics, sizeof topics);
    log_to(&ros->log, LOG_LEVEL_INFO, "ROS 2: %s, %stf and diagnostics on %s", topics, ros->prefix,
           text);
    *out = ros;
    return 0;
}

static void wait_for_readers(dds_entity_t writer, int64_t until_ns)
{
    const int64_t left_ns = until_ns - clock_monotonic_ns();
    dds_wait_for_acks(writer, left_ns > 0 ? left_ns : 0);
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
    const int64_t until_ns = clock_monotonic_ns() + GOODBYE_NS;
    wait_for_readers((*ros)->tf, until_ns);
    for (uint32_t i = 0; i < n_odoms(*ros); i++)
        wait_for_readers((*ros)->sources[i].odom, until_ns);
    free_ros(*ros);
    *ros = NULL;
}
