// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/units.h"

#include <stdio.h>
#include <string.h>

#include "capture/ros/topic_name.h"

#define DEFAULT_UNITS_PER_M 1000
#define REALSENSE_UNITS     "/option/Depth_Units/value"
#define MAX_JUDGED          100u // images of floats, which do not show it: they are metres then
#define MM_PER_M            1000

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

static double float_units(const struct bag_topic *topic)
{
    return topic->float_unit == ROS_FLOAT_MILLIMETRES ? MM_PER_M : 1;
}

struct ros_depth_units bag_find_units(const struct bag *bag,
                                      const struct capture_settings *settings)
{
    const struct bag_topic *depth = bag->depth;
    struct ros_depth_units units = {.int_per_m = find_int_units(bag),
                                    .float_per_m = float_units(depth)};
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

static void note_encoding(struct bag_topic *topic, const struct ros_image *image, bool is_float)
{
    if (is_float == topic->format.is_float || topic->n_other_encoding++ > 0)
        return;
    memcpy(topic->other_encoding, image->encoding, sizeof topic->other_encoding);
}

static bool is_undecided(const struct bag_topic *topic)
{
    return topic->float_unit == ROS_FLOAT_UNKNOWN && topic->n_judged < MAX_JUDGED;
}

void bag_note_units(struct bag_topic *topic, const struct ros_image *image)
{
    struct ros_depth_format format;
    uint32_t w, h;
    if (!topic->is_depth || !ros_depth_look(image, &format, &w, &h))
        return;
    note_encoding(topic, image, format.is_float);
    topic->has_floats = topic->has_floats || format.is_float;
    if (!format.is_float || !image->data || !is_undecided(topic))
        return;
    topic->n_judged++;
    topic->float_unit = ros_depth_float_unit(image);
}

bool bag_wants_values(const struct bag_topic *topic)
{
    return topic->kind == ROS_IMAGE &&
           (topic->n_frames == 0 || (topic->has_floats && is_undecided(topic)));
}

static void tell_of_encodings(const struct bag *bag)
{
    const struct bag_topic *depth = bag->depth;
    char of[64];
    if (depth->n_other_encoding == 0)
        return;
    if (depth->format.is_float)
        snprintf(of, sizeof of, "%.9g units per metre", bag->units.int_per_m);
    else
        snprintf(of, sizeof of, "%s",
                 depth->float_unit == ROS_FLOAT_MILLIMETRES ? "millimetres" : "metres");
    log_to(&bag->log, LOG_LEVEL_NOTICE,
           "%s: images of %s change from %s to %s on the way: these are taken for %s, and all are "
           "given in %.9g units per metre",
           bag->path, depth->name, depth->image_encoding, depth->other_encoding, of,
           bag->units.per_m);
}

static void tell_of_millimetres(const struct bag *bag)
{
    if (bag->depth->float_unit == ROS_FLOAT_MILLIMETRES)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: images of %s are 32FC1 of millimetres (more than nine of ten values are above "
               "100), where REP 118 wants metres: they are read as millimetres",
               bag->path, bag->depth->name);
}

void bag_tell_of_units(const struct bag *bag)
{
    tell_of_encodings(bag);
    tell_of_millimetres(bag);
}

void bag_look_at_units(struct bag *bag, const struct ros_image *image)
{
    struct bag_topic *depth = bag->depth;
    const bool was_mixed = depth->n_other_encoding > 0;
    const enum ros_float_unit before = depth->float_unit;
    bag_note_units(depth, image);
    bag->units.float_per_m = float_units(depth);
    if (!was_mixed)
        tell_of_encodings(bag);
    if (before != depth->float_unit)
        tell_of_millimetres(bag);
}
