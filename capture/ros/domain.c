// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/domain.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int ros_domain_of_environment(uint32_t *domain, const char **origin, const struct log_sink *log)
{
    const char *value = getenv(ROS_DOMAIN_VARIABLE);
    if (!value || !*value)
        return 0;
    const bool is_number = strspn(value, "0123456789") == strlen(value);
    const unsigned long number = is_number ? strtoul(value, NULL, 10) : ULONG_MAX;
    if (number > ROS_MAX_DOMAIN) { // too many digits are ULONG_MAX
        log_to(log, LOG_LEVEL_ERROR, "environment %s: \"%.40s\" is no domain of ROS 2: 0..%d",
               ROS_DOMAIN_VARIABLE, value, ROS_MAX_DOMAIN);
        return -EINVAL;
    }
    *domain = (uint32_t)number;
    *origin = ROS_DOMAIN_VARIABLE;
    return 0;
}
