// SPDX-License-Identifier: Apache-2.0
// What the driver `ros2` keeps of a topic, for itself (ros2.c) and for the thread that its messages
// are taken by (ros2_receive.c): once that runs, all is the thread's but what `live` hands over.
#ifndef POSED_CAPTURE_ROS_ROS2_STATE_H
#define POSED_CAPTURE_ROS_ROS2_STATE_H

#include <dds/dds.h>
#include <pthread.h>

#include "capture/live_clock.h"
#include "capture/live_queue.h"
#include "capture/live_stamps.h"
#include "capture/ros/dds.h"
#include "capture/ros/discover.h"
#include "capture/ros/known_infos.h"
#include "capture/ros/lost_images.h"
#include "capture/ros/one_publisher.h"
#include "capture/ros/received.h"
#include "capture/ros/select_topic.h"
#include "capture/ros/tell_of_images.h"
#include "capture/ros/tell_of_info.h"

struct ros2 {
    struct log_sink log;
    bool (*is_stopped)(void); // of capture_settings
    struct live live;
    struct bag bag; // of the first image and camera info: what is to be known of the camera
    dds_entity_t participant, publications, images, infos, waitset, guard, arrived;
    char image_topic[ROS_DDS_NAME_BYTES], info_topic[ROS_DDS_NAME_BYTES];
    char place[ROS_DDS_PLACE_BYTES]; // domain and interface, for messages
    enum ros_kind kind;
    struct ros_live_info info;
    struct intrinsics camera; // of the frames to come
    double units_per_m; // of the frames: what the settings say, else what the topic's format says
    pthread_t thread;
    atomic_bool quit;
    bool runs, has_live;

    struct ros_one_publisher one;                 // whose images are taken
    struct ros_participant participant_of_images; // that publisher's
    dds_instance_handle_t info_publisher; // whose camera infos are, where that has none itself
    struct ros_known_infos known;
    struct { // the newest camera info of another camera, which may follow ours
        struct ros_participant participant;
        struct ros_camera_info info;
        bool is_there;
    } second;
    bool told_second, told_info, told_gone, told_unstamped, told_unread;
    struct live_stamps stamps; // of the images that are taken
    struct live_clock clock;   // the machine's, by which they may be stamped; it says nothing
    uint64_t n_frames;
    struct ros_bad_images bad; // which have no pixels
    struct ros_held held;
    struct ros_lost_images lost;
};

#endif
