// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/units.h"

#include <stdio.h>
#include <string.h>

#include "capture/ros/topic_name.h"

#define DEFAULT_UNITS_PER_M 1000
#define REALSENSE_UNITS     "/option/Depth_Units/value"
#define MAX_JUDGED          100u // images of floats, which do not show it: they are metres then
#define MM_PER_M            1000
#define MIN_AGAINST         3u // live: so many in a row are of another unit; a tenth of a second

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

static const char *name_of(enum ros_float_unit unit)
{
    return unit == ROS_FLOAT_MILLIMETRES ? "millimetres" : "metres";
}

struct ros_depth_units bag_find_units(const struct bag *bag,
                                      const struct capture_settings *settings)
{
    const struct bag_topic *depth = bag->depth;
    struct ros_depth_units units = {
        .int_per_m = find_int_units(bag),
        .float_per_m = settings->float_scale != 0 ? settings->float_scale : float_units(depth),
    };
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
    else if (bag->is_float_told)
        snprintf(of, sizeof of, "%.9g units per metre", bag->units.float_per_m);
    else
        snprintf(of, sizeof of, "%s", name_of(depth->float_unit));
    log_to(&bag->log, LOG_LEVEL_NOTICE,
           "%s: images of %s change from %s to %s on the way: these are taken for %s, and all are "
           "given in %.9g units per metre",
           bag->path, depth->name, depth->image_encoding, depth->other_encoding, of,
           bag->units.per_m);
}

static void tell_of_millimetres(const struct bag *bag)
{
    if (bag->depth->float_unit == ROS_FLOAT_MILLIMETRES && !bag->is_float_told)
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

// Of a live topic whose unit is known, or taken for metres.
static void recheck(struct bag *bag, const struct ros_image *image)
{
    struct bag_topic *depth = bag->depth;
    const enum ros_float_unit shown = ros_depth_float_glance(image);
    const enum ros_float_unit taken =
        depth->float_unit == ROS_FLOAT_MILLIMETRES ? ROS_FLOAT_MILLIMETRES : ROS_FLOAT_METRES;
    if (shown == ROS_FLOAT_UNKNOWN)
        return;
    depth->n_against = shown == taken ? 0 : depth->n_against + 1;
    if (depth->n_against < MIN_AGAINST)
        return;
    depth->n_against = 0;
    depth->float_unit = shown;
    if (!depth->told_unit)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: images of %s were taken for 32FC1 of %s, and are of %s, as %u in a row show: "
               "they are read so from here on, and as what they show where they change again; "
               "camera.float_scale says it once and for all (metres 1, millimetres 1000)",
               bag->path, depth->name, name_of(taken), name_of(shown), MIN_AGAINST);
    depth->told_unit = true;
}

void bag_look_at_units(struct bag *bag, const struct ros_image *image)
{
    struct bag_topic *depth = bag->depth;
    const bool was_mixed = depth->n_other_encoding > 0, was_open = is_undecided(depth);
    const enum ros_float_unit before = depth->float_unit;
    bag_note_units(depth, image);
    if (!was_mixed)
        tell_of_encodings(bag);
    if (bag->is_float_told)
        return;
    if (before != depth->float_unit)
        tell_of_millimetres(bag);
    if (!was_open)
        recheck(bag, image);
    bag->units.float_per_m = float_units(depth);
}
