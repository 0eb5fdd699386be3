// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/topic_name.h"

#include <stdio.h>
#include <string.h>

const char *ros_topic_fault(const char *topic, char out[ROS_TOPIC_FAULT_BYTES])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    static const char digits[] = "0123456789";
    const char *fault = NULL;
    char before = *topic == '/' ? 0 : '/';
    if (!topic[*topic == '/'])
        return "it is empty";
    for (const char *c = topic; *c && !fault; before = *c++) {
        fault = out;
        if (before == '/' && *c == '/')
            fault = "two slashes follow each other";
        else if (*c == '/' && !c[1])
            fault = "it ends in a slash";
        else if (before == '/' && strchr(digits, *c))
            snprintf(out, ROS_TOPIC_FAULT_BYTES, "the part \"%.32s\" begins with a digit", c);
        else if (*c == ' ')
            fault = "a space is in it";
        else if (*c < ' ' || *c > '~')
            fault = "a character is in it that is none of ASCII's visible ones";
        else if (*c != '/' && !strchr(letters, *c) && !strchr(digits, *c))
            snprintf(out, ROS_TOPIC_FAULT_BYTES,
                     "'%c' is in it, where only letters, digits, _ and / "
                     "may be",
                     *c);
        else
            fault = NULL;
    }
    return fault;
}

bool ros_name_contains(const char *name, const char *part)
{
    for (; *name; name++) {
        size_t n = 0;
        while (part[n] && name[n] && (name[n] | 0x20) == part[n])
            n++;
        if (!part[n])
            return true;
    }
    return false;
}
