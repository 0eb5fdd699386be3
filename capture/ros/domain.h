// SPDX-License-Identifier: Apache-2.0
// The domain of ROS 2 where no setting says it: every program has that of ROS's own programs.
#ifndef POSED_CAPTURE_ROS_DOMAIN_H
#define POSED_CAPTURE_ROS_DOMAIN_H

#include <stdint.h>

#include "proto/log.h"

#define ROS_DOMAIN_VARIABLE "ROS_DOMAIN_ID" // of the environment
#define ROS_MAX_DOMAIN      232

#define ROS_DOMAIN_OF_ENVIRONMENT (-1) // as a setting

// The variable's domain into *domain, and its name into *origin; where it is not set, or empty,
// both stay. Returns 0, or -EINVAL with the reason in the log.
__attribute__((warn_unused_result)) int
ros_domain_of_environment(uint32_t *domain, const char **origin, const struct log_sink *log);

#endif
