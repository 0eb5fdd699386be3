// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/topic_name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

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

void ros_topic_part(const char *name, char out[ROS_TOPIC_PART_BYTES])
{
    const bool is_digit = *name >= '0' && *name <= '9';
    snprintf(out, ROS_TOPIC_PART_BYTES, "%s%.*s", is_digit ? "camera_" : "", ROS_MAX_CAMERA_NAME,
             name);
    for (char *dash = out; (dash = strchr(dash, '-'));)
        *dash = '_';
}

const char *ros_names_fault(const char *const *names, size_t n, char out[ROS_NAMES_FAULT_BYTES])
{
    char a[ROS_TOPIC_PART_BYTES], b[ROS_TOPIC_PART_BYTES];
    for (size_t i = 0; i < n; i++) {
        ros_topic_part(names[i], a);
        for (size_t k = 0; k < i; k++) {
            ros_topic_part(names[k], b);
            if (strcmp(a, b) != 0)
                continue;
            snprintf(out, ROS_NAMES_FAULT_BYTES,
                     "cameras %.31s and %.31s are both %s in topics of ROS 2", names[k], names[i],
                     a);
            return out;
        }
    }
    return NULL;
}

void ros_type_name(const char *dds_type, char *out, size_t room)
{
    static const char infix[] = "::dds_::";
    const char *name = strstr(dds_type, infix), *folder = strstr(dds_type, "::");
    const size_t n = strlen(dds_type);
    if (!name || folder == name || dds_type[n - 1] != '_') {
        snprintf(out, room, "%s", dds_type);
        return;
    }
    const char *kind = folder + 2, *type = name + sizeof infix - 1;
    snprintf(out, room, "%.*s/%.*s/%.*s", (int)(folder - dds_type), dds_type, (int)(name - kind),
             kind, (int)(dds_type + n - 1 - type), type);
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

static bool ends_in(const char *name, size_t n, const char *end)
{
    const size_t n_end = strlen(end);
    return n >= n_end && !strncasecmp(name + n - n_end, end, n_end);
}

size_t ros_plain_length(const char *name)
{
    static const char *const ends[] = {"/compressedDepth", "/compressed"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < 2; i++)
        if (ends_in(name, n, ends[i]))
            return n - strlen(ends[i]);
    return n;
}

bool ros_name_is_rectified(const char *name)
{
    static const char begin[] = "image_rect";
    const size_t n = ros_plain_length(name);
    size_t last = n;
    while (last > 0 && name[last - 1] != '/')
        last--;
    name += last;
    return !strncasecmp(name, begin, sizeof begin - 1) || ends_in(name, n - last, "_rect") ||
           ends_in(name, n - last, "_rect_raw");
}

size_t ros_common_folders(const char *a, const char *b)
{
    size_t n = 0;
    for (; *a && *a == *b; a++, b++)
        n += *a == '/';
    return n;
}
