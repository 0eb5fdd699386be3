// SPDX-License-Identifier: Apache-2.0
// Where the camera sits on the robot, as the configuration says it (ros.camera_in_base).
#ifndef POSED_DAEMON_ROS_BASE_TO_CAMERA_H
#define POSED_DAEMON_ROS_BASE_TO_CAMERA_H

#include "daemon/config/config.h"

// From "x y z roll pitch yaw" of the camera's body on the base: its optical frame there. Returns 0,
// or -EINVAL with the reason in the log.
__attribute__((warn_unused_result)) int ros_place_of_camera(const struct config *config,
                                                            struct se3 *out_T_base_optical,
                                                            const struct log_sink *log);

#endif
