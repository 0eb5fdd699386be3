// SPDX-License-Identifier: Apache-2.0
// From our frames to those of ROS (REP 103, REP 105). We track the optical frame (x right, y down,
// z forward) in an odometry frame of the same axes. ROS wants `base_link` (x forward, y left, z up)
// in an `odom` whose z is up: `odom` is where base_link was at the first frame. So is `map` of the
// map's.
#ifndef POSED_CAPTURE_ROS_FRAMES_H
#define POSED_CAPTURE_ROS_FRAMES_H

#include <stdbool.h>

#include "capture/ros/messages.h"
#include "proto/se3.h"

// The camera looks forward from the middle of the base: x forward is the optical z.
struct se3 ros_optical_in_base(void);

// What the tracker says of one frame.
struct ros_tracked {
    int64_t time_ns;
    int64_t clock_set_ns;       // which time_ns has: without it times grow evenly (capture.h)
    bool is_lost, is_predicted; // the pose is the last known one; where a dropped frame is expected
    bool is_stale; // predicted: so long after the newest pose that nobody knows where it is
    bool is_cut;   // since an epoch that nobody asked for it may be anywhere, as far as odom goes
    struct se3 T_odom_camera;
    double covariance[36]; // errors of position and rotation, along and about the axes of odom
    double velocity[6];    // linear, angular; in the camera frame
    bool knows_velocity;   // velocity_covariance is said
    double velocity_covariance[36]; // as velocity
    bool has_map;
    struct se3 T_map_odom; // of the map that the camera keeps, or was found in
};

// Filters take a variance of 0 for certain, or divide by it: the first pose of an epoch, which is
// where odom begins, has none else. Added on the diagonal: 0.1 mm and 0.1 mrad, less than one
// frame of a depth camera leaves open, and 1 mm/s and 1 mrad/s.
#define ROS_POSE_FLOOR  1e-8 // m^2, rad^2
#define ROS_TWIST_FLOOR 1e-6 // (m/s)^2, (rad/s)^2

// Pose (its covariance along odom's axes), and twist with its covariance (along the base's), as
// nav_msgs/Odometry wants them. POSE_ERROR_LOST is the variance of a velocity that is not known,
// and of a pose that is cut, as odom is one unbroken frame.
// frame_id and child_frame_id of *out are the caller's.
void ros_pose_of_base(const struct ros_tracked *tracked, const struct se3 *T_base_optical,
                      struct ros_pose *out);

// Where ROS's odom lies in ROS's map. T_map_odom: of the camera's.
struct se3 ros_odom_in_map(const struct se3 *T_map_odom, const struct se3 *T_base_optical);

// A static transform, as a pose without covariance.
void ros_pose_of_static(const struct se3 *T, int64_t time_ns, struct ros_pose *out);

// Two cameras of a rig, each on a base of its own: where B's base is in A's. T_a_b is of their
// optical frames, T_base_a and T_base_b say where these sit.
struct se3 ros_base_in_base(const struct se3 *T_base_a, const struct se3 *T_a_b,
                            const struct se3 *T_base_b);

#endif
