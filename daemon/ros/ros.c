// SPDX-License-Identifier: Apache-2.0
#include "daemon/ros/ros.h"

#include <ros_types.h> // of ros_types.idl
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/dds.h"
#include "capture/ros/node_info.h"
#include "daemon/ros/other_publishers.h"
#include "daemon/ros/state.h"
#include "proto/clock.h"

#define N_WAITING    256 // frames of a camera, eight seconds at its rate
#define POSE_HISTORY 100 // of the writers: what a slow but reliable reader may be behind
#define GOODBYE_NS   INT64_C(300000000) // readers may take what they have not yet, all together

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
    dds_qos_t *qos = ros_dds_qos(type->m_typename, true, depth, is_kept);
    dds_entity_t writer = dds_create_writer(ros->participant, topic, qos, NULL);
    dds_delete_qos(qos);
    return writer;
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

static void write_poses(struct ros *ros)
{
    struct waiting one;
    pthread_mutex_lock(&ros->lock);
    while (ros->n_out < ros->n_in) {
        one = ros->waiting[ros->n_out++ % ((uint64_t)N_WAITING * n_odoms(ros))];
        ros->sources[one.of].n_waiting--;
        pthread_mutex_unlock(&ros->lock);
        ros_write_pose(ros, &one);
        if (one.has_camera)
            ros_write_camera(ros, &ros->sources[one.of], &one.camera, one.tracked.time_ns);
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
            ros_write_image(ros, source);
            pthread_mutex_lock(&ros->lock);
            source->has_image = false;
            pthread_mutex_unlock(&ros->lock);
        }
        if (has_health) {
            ros_write_health(ros, source, &health);
            look_for_others(ros);
            ros_node_info_update(ros->node);
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

// All writers are of one node, /posed or NAMESPACE/posed.
static int open_node(struct ros *ros)
{
    dds_entity_t writers[3 + 3 * (ROS_MAX_SOURCES + 1)];
    char node_namespace[sizeof ros->prefix + 1];
    size_t n = 0;
    writers[n++] = ros->tf;
    writers[n++] = ros->tf_static;
    writers[n++] = ros->diagnostics;
    for (uint32_t i = 0; i < n_odoms(ros); i++)
        writers[n++] = ros->sources[i].odom;
    for (uint32_t i = 0; i < ros->n_sources; i++) {
        writers[n++] = ros->sources[i].image;
        writers[n++] = ros->sources[i].info;
    }
    const int n_prefix = (int)strlen(ros->prefix);
    snprintf(node_namespace, sizeof node_namespace, "/%.*s", n_prefix > 0 ? n_prefix - 1 : 0,
             ros->prefix);
    const int err =
        ros_node_info_create(&ros->node, ros->participant, node_namespace, "posed", writers, n);
    if (err)
        log_to(&ros->log, LOG_LEVEL_ERROR, "ROS 2: ros_discovery_info: %s", strerror(-err));
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
    ros_node_info_destroy(&ros->node);
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
        ros->moves_rig = ros->moves_rig || source->is_carried;
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
    if (!err)
        err = open_node(ros);
    if (!err) {
        ros_write_static(ros);
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
    log_to(&ros->log, LOG_LEVEL_INFO, "ROS 2: %s, %stf and %sdiagnostics on %s", topics,
           ros->prefix, ros->prefix, text);
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
