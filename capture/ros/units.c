// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/units.h"

#include <stdio.h>

#include "capture/ros/topic_name.h"

#define DEFAULT_UNITS_PER_M 1000
#define REALSENSE_UNITS     "/option/Depth_Units/value"

// Of images of 16 bits. RealSense says beside them how many metres one unit is.
static double find_int_units(const struct bag *bag)
{
    double units_per_m = DEFAULT_UNITS_PER_M;
    size_t best = 0;
    for (size_t i = 0; i < bag->n_topics; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        size_t score = ros_common_folders(topic->name, bag->depth->name) + 1;
        if (bag_topic_ends_with(topic, REALSENSE_UNITS) && score > best && topic->number >= 1e-6 &&
            topic->number <= 1) {
            units_per_m = 1 / topic->number;
            best = score;
        }
    }
    return units_per_m;
}

struct ros_depth_units bag_find_units(const struct bag *bag,
                                      const struct capture_settings *settings)
{
    const struct bag_topic *depth = bag->depth;
    struct ros_depth_units units = {.int_per_m = find_int_units(bag)};
    if (settings->depth_scale != 0)
        units.per_m = settings->depth_scale;
    else if (!depth->format.is_float)
        units.per_m = units.int_per_m;
    else
        units.per_m = depth->units_per_m != 0 ? depth->units_per_m : ROS_FLOAT_UNITS_PER_M;
    if (!depth->format.is_float)
        units.int_per_m = units.per_m;
    return units;
}

void bag_tell_of_encodings(const struct bag *bag)
{
    const struct bag_topic *depth = bag->depth;
    char of[64];
    if (depth->n_other_encoding == 0)
        return;
    if (depth->format.is_float)
        snprintf(of, sizeof of, "%.9g units per metre", bag->units.int_per_m);
    else
        snprintf(of, sizeof of, "metres");
    log_to(&bag->log, LOG_LEVEL_NOTICE,
           "%s: images of %s change from %s to %s on the way: these are taken for %s, and all are "
           "given in %.9g units per metre",
           bag->path, depth->name, depth->image_encoding, depth->other_encoding, of,
           bag->units.per_m);
}

void bag_look_at_encoding(struct bag *bag, const struct ros_image *image)
{
    if (bag_note_encoding(bag->depth, image))
        bag_tell_of_encodings(bag);
}
