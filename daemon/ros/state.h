// SPDX-License-Identifier: Apache-2.0
// Inside daemon/ros/ only: what the publisher is made of, for its thread and its queue (ros.c) and
// for the messages that the thread writes (messages.c).
#ifndef POSED_DAEMON_ROS_STATE_H
#define POSED_DAEMON_ROS_STATE_H

#include <dds/dds.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "capture/ros/rig_tf.h"
#include "capture/ros/topic_name.h"
#include "daemon/ros/ros.h"

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
    bool moves_rig;  // tf has the bases of a rig, which hang on the first one's
    bool has_rig;    // behind the sources there is one more, of the odom alone
    char prefix[40]; // of topics: "robot1/", or ""
    dds_entity_t participant, publishers, tf, tf_static, diagnostics;
    struct ros_node_info *node; // the thread's
    bool has_warned;            // of another publisher; the thread's
    struct rig_tf rig_tf;       // the thread's; of the first camera and those that are carried
    struct rig_tf_camera *rig_cameras;

    pthread_t thread;
    sem_t wake;
    atomic_bool quit;
    pthread_mutex_t lock;    // of all below
    struct waiting *waiting; // N_WAITING of each camera
    uint64_t n_in, n_out, n_left_out;

    void *sent; // the thread's: the image as it goes out
};

// Each writes what its name says. The thread's, but ros_write_static, which is before there is one.
void ros_write_pose(struct ros *ros, const struct waiting *waiting);
void ros_write_camera(struct ros *ros, struct source *source, const struct intrinsics *c,
                      int64_t time_ns);
void ros_write_static(struct ros *ros);
void ros_write_image(struct ros *ros, struct source *source);
void ros_write_health(struct ros *ros, const struct source *source,
                      const struct ros_health *health);

#endif
