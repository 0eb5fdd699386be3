// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/tell_of_topics.h"

#include <stdio.h>
#include <string.h>

#define LIST_BYTES 700

bool ros_find_packed(int32_t publications, const struct log_sink *log,
                     char topic[ROS_DDS_NAME_BYTES], struct ros_offer *out)
{
    char packed[ROS_DDS_NAME_BYTES];
    const int n = snprintf(packed, sizeof packed, "%s/compressedDepth", topic);
    if (n >= (int)sizeof packed || !ros_find_publisher(publications, packed, out))
        return false;
    log_to(log, LOG_LEVEL_NOTICE, "ros2: nobody publishes %s itself, but %s: that is taken",
           topic + 2, packed + 2);
    memcpy(topic, packed, sizeof packed);
    return true;
}

void ros_tell_of_nobody(int32_t publications, const struct log_sink *log, const char *topic,
                        const char *place, int wait_s)
{
    char nearest[ROS_DDS_NAME_BYTES], list[LIST_BYTES], meant[ROS_DDS_NAME_BYTES + 30] = "";
    if (ros_nearest_image_topic(publications, topic + 2, nearest, sizeof nearest))
        snprintf(meant, sizeof meant, ", did you mean ros2:%s?", nearest);
    ros_list_image_topics(publications, list, sizeof list);
    if (wait_s > 0)
        log_to(log, LOG_LEVEL_WARNING,
               "ros2: nobody publishes %s yet on %s%s; waiting for it, %d s", topic + 2, place,
               meant, wait_s);
    else
        log_to(log, LOG_LEVEL_ERROR, "ros2: nobody publishes %s on %s%s; topics with images: %s",
               topic + 2, place, meant, list[0] ? list : "none");
}

void ros_tell_of_no_info(int32_t publications, const struct log_sink *log, const char *topic,
                         bool has_publisher, int waited_s)
{
    char list[LIST_BYTES];
    ros_list_info_topics(publications, list, sizeof list);
    log_to(log, LOG_LEVEL_WARNING,
           "ros2: the intrinsics would be of %s: %s within %d s; topics with camera infos: %s",
           topic + 2, has_publisher ? "none of the images' camera came" : "nobody published it",
           waited_s, list[0] ? list : "none");
}
