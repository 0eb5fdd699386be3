// SPDX-License-Identifier: Apache-2.0
// The daemon's poses for ROS 2, over DDS: odom, tf, tf_static, diagnostics, and the depth images
// with their camera info on posed/depth while somebody subscribes; of several cameras on NAME/odom
// and posed/NAME/depth, in frames NAME/..., and a rig's one pose on rig/odom. A thread of its own
// writes them; the frame loops only leave a copy of each pose, and wait for nobody.
#ifndef POSED_DAEMON_ROS_ROS_H
#define POSED_DAEMON_ROS_ROS_H

#include <errno.h>

#include "capture/capture.h"
#include "capture/ros/frames.h"

#define ROS_MAX_SOURCES 16

// A camera.
struct ros_source {
    const char *name; // "" where it is the only one; no two are one by ros_names_fault
    const struct capture_info *info;
    struct se3 T_base_optical;      // of its own base_link
    const struct se3 *T_rig_camera; // where it sits on the rig; NULL = it is part of none
    int64_t ahead_ns;               // on a rig: its clock, of the first one's
};

struct ros_settings {
    uint32_t domain;             // 0..232
    const char *domain_origin;   // who set it
    const char *interface;       // "" = the library's choice
    const char *topic_namespace; // of topics, "" = none; with or without the slash in front
    const char *map_frame;       // "" = none is told
    const char *odom_frame, *base_frame, *optical_frame; // copied; at most 31 characters
    const struct ros_source *sources;                    // copied
    uint32_t n_sources;                                  // 1..ROS_MAX_SOURCES
    bool has_rig;                                        // rig/odom, by ros_put_rig
    struct log_sink log;
};

// For /diagnostics, once a second.
struct ros_health {
    bool is_error, is_warning;
    char message[160];
    uint64_t n_captured, n_lost, n_dropped, n_damaged;
    uint32_t map_epoch;
    double rate_hz;
};

struct ros; // opaque

#ifdef POSED_HAVE_ROS2
// Returns 0, or a negative errno after logging the reason; *out is then NULL.
__attribute__((warn_unused_result)) int ros_create(struct ros **out,
                                                   const struct ros_settings *settings);
// Writes what waits, tells readers goodbye. Accepts NULL.
void ros_destroy(struct ros **ros);

// The frame loop of source number `of`: a pose, its camera, and the image that it is of (depth
// NULL: none). Where somebody subscribes to it, the camera info of each frame goes out; the image
// is copied when the one before has gone out.
void ros_put(struct ros *ros, uint32_t of, const struct ros_tracked *tracked,
             const struct depth_frame *image, const struct intrinsics *camera);
void ros_put_health(struct ros *ros, uint32_t of, const struct ros_health *health);
// The rig's pose, which is of the first camera. One thread at a time.
void ros_put_rig(struct ros *ros, const struct ros_tracked *tracked);
#else
static inline int ros_create(struct ros **out, const struct ros_settings *settings)
{
    *out = NULL;
    log_to(&settings->log, LOG_LEVEL_ERROR,
           "ros.publish: this program was built without Cyclone DDS");
    return -ENOTSUP;
}
static inline void ros_destroy(struct ros **ros)
{
    (void)ros;
}
static inline void ros_put(struct ros *ros, uint32_t of, const struct ros_tracked *tracked,
                           const struct depth_frame *image, const struct intrinsics *camera)
{
    (void)ros, (void)of, (void)tracked, (void)image, (void)camera;
}
static inline void ros_put_health(struct ros *ros, uint32_t of, const struct ros_health *health)
{
    (void)ros, (void)of, (void)health;
}
static inline void ros_put_rig(struct ros *ros, const struct ros_tracked *tracked)
{
    (void)ros, (void)tracked;
}
#endif

#endif
