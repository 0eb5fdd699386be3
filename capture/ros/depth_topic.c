// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/depth_topic.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/tell_of_images.h"
#include "capture/ros/topic_name.h"
#include "proto/closest.h"

#define LIST_BYTES  800
#define MEANT_BYTES 300

// Depth that was warped into another camera's image: RealSense's /aligned_depth_to_color, OpenNI's
// /depth_registered, Azure Kinect's /depth_to_rgb. It has holes and seams that the camera's own has
// not.
static bool is_warped(const char *name)
{
    return ros_name_contains(name, "aligned") || ros_name_contains(name, "registered") ||
           ros_name_contains(name, "depth_to_");
}

// How sure it is that a topic is depth: a name with `depth` in it counts most, then a format that
// is made for depth (mono16 may be infrared).
static int certainty(const struct bag_topic *topic)
{
    return 2 * ros_name_contains(topic->name, "depth") +
           (strncmp(topic->image_encoding, "mono16", 6) != 0);
}

// A calibration of its own stands beside it.
static bool has_own_info(const struct bag *bag, const struct bag_topic *topic)
{
    static const char info[] = "camera_info";
    size_t n = ros_plain_length(topic->name);
    while (n > 0 && topic->name[n - 1] != '/')
        n--;
    for (size_t i = 0; i < bag->n_topics; i++) {
        const struct bag_topic *other = &bag->topics[i];
        if (other->has_info && other->info.camera.fx_px != 0 &&
            strncmp(other->name, topic->name, n) == 0 && strcmp(other->name + n, info) == 0)
            return true;
    }
    return false;
}

// Of two that are as surely depth: depth as its camera sees it counts most, then images as they
// are, then packed ones before those of which a plain PNG was made, then one with its own camera
// info.
static int rank(const struct bag *bag, const struct bag_topic *topic)
{
    return 8 * !is_warped(topic->name) + 4 * (topic->kind == ROS_IMAGE) +
           2 * (topic->format.packing != ROS_DEPTH_PLAIN_PNG) + has_own_info(bag, topic);
}

// What there is in place of depth: "/a (sensor_msgs/msg/Image, rgb8), /b (sensor_msgs/msg/Image, 0
// messages), ..."
static void list_topics(const struct bag *bag, char *out, size_t n_out_bytes)
{
    size_t n = 0;
    *out = 0;
    for (size_t i = 0; i < bag->n_topics && n < n_out_bytes; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        const bool is_silent = topic->kind != ROS_OTHER && topic->n_messages == 0;
        n += (size_t)snprintf(out + n, n_out_bytes - n, "%s%s (%s%s%s%s)", i ? ", " : "",
                              topic->name, topic->type, *topic->image_encoding ? ", " : "",
                              topic->image_encoding, is_silent ? ", 0 messages" : "");
    }
    if (n >= n_out_bytes)
        memcpy(out + n_out_bytes - 4, "...", 4);
}

// The topic stands in the camera's namespace: "/NAME/...".
static bool is_in_namespace(const char *topic, const char *camera)
{
    const size_t n = strlen(camera);
    return topic[0] == '/' && strncmp(topic + 1, camera, n) == 0 && topic[1 + n] == '/';
}

// Or in one that is the same in topics of ROS 2: /left_1/... is of left-1. Older recordings of ours
// have /left-1/..., which is of left_1, too.
static bool is_in_alike(const char *topic, const char *camera)
{
    const char *end = topic[0] == '/' ? strchr(topic + 1, '/') : NULL;
    char folder[ROS_MAX_CAMERA_NAME + 1], a[ROS_TOPIC_PART_BYTES], b[ROS_TOPIC_PART_BYTES];
    if (!end || (size_t)(end - topic) > sizeof folder || strlen(camera) > ROS_MAX_CAMERA_NAME)
        return false;
    snprintf(folder, sizeof folder, "%.*s", (int)(end - topic - 1), topic + 1);
    ros_topic_part(folder, a);
    ros_topic_part(camera, b);
    return strcmp(a, b) == 0;
}

// The first folder of a topic with depth images; false: it is no such topic, or has no folder.
static bool camera_of(const struct bag_topic *topic, char out[ROS_MAX_CAMERA_NAME + 1])
{
    const char *end = topic->name[0] == '/' ? strchr(topic->name + 1, '/') : NULL;
    const size_t n = end ? (size_t)(end - topic->name - 1) : 0;
    if (!topic->is_depth || topic->n_frames == 0 || n == 0 || n > ROS_MAX_CAMERA_NAME)
        return false;
    snprintf(out, ROS_MAX_CAMERA_NAME + 1, "%.*s", (int)n, topic->name + 1);
    return true;
}

// Warns where of several cameras none is of the name that is meant. Where there is one only, it is
// meant, whatever it is called, with all its topics.
static void tell_of_others(const struct bag *bag, const char *camera)
{
    char list[400] = "", before[ROS_MAX_CAMERA_NAME + 1], name[ROS_MAX_CAMERA_NAME + 1];
    size_t n = 0, n_cameras = 0;
    for (size_t i = 0; i < bag->n_topics; i++) {
        bool is_new = camera_of(&bag->topics[i], name);
        for (size_t k = 0; k < i && is_new; k++)
            is_new = !camera_of(&bag->topics[k], before) || strcmp(before, name) != 0;
        if (is_new && n_cameras++ < 8)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", name);
    }
    if (n_cameras > 1)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: the camera %s is none of %s%s (FILE#NAME and FILE#TOPIC choose one)", bag->path,
               camera, list, n_cameras > 8 ? ", ..." : "");
}

// The name is what was asked for; the slash in front may be left out.
static bool is_wanted(const struct bag *bag, const char *name)
{
    return strcmp(name, bag->wanted) == 0 || (name[0] == '/' && strcmp(name + 1, bag->wanted) == 0);
}

// The topic that was asked for; NULL: it is not there.
static const struct bag_topic *named(const struct bag *bag)
{
    for (size_t i = 0; i < bag->n_topics; i++)
        if (is_wanted(bag, bag->topics[i].name))
            return &bag->topics[i];
    return NULL;
}

// is_of NULL: what was asked for, or else any.
static bool may_be_taken(const struct bag *bag, const struct bag_topic *topic,
                         bool (*is_of)(const char *topic, const char *camera), const char *camera)
{
    if (!is_of && bag->wanted)
        return is_wanted(bag, topic->name);
    return topic->is_depth && topic->n_frames > 0 && (!is_of || is_of(topic->name, camera));
}

// The best of those that may be taken. Of a topic with less than a tenth of another's images
// something else was wanted: a single image of a camera whose depth was recorded as aligned.
static struct bag_topic *find_best(struct bag *bag,
                                   bool (*is_of)(const char *topic, const char *camera),
                                   const char *camera, size_t *out_n_equal)
{
    struct bag_topic *best = NULL;
    size_t n_most = 0;
    int most_certain = 0;
    *out_n_equal = 0;
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < bag->n_topics; i++) {
            struct bag_topic *topic = &bag->topics[i];
            if (!may_be_taken(bag, topic, is_of, camera))
                continue;
            const int certain = certainty(topic);
            if (pass == 0) {
                ++*out_n_equal;
                most_certain = certain > most_certain ? certain : most_certain;
            } else if (certain == most_certain && pass == 1) {
                n_most = topic->n_frames > n_most ? topic->n_frames : n_most;
            } else if (certain == most_certain && 10 * topic->n_frames >= n_most) {
                int better = best ? rank(bag, topic) - rank(bag, best) : 1;
                if (better == 0)
                    better = strcmp(best->name, topic->name);
                best = better > 0 ? topic : best;
            }
        }
    return best;
}

// Of a recording of several cameras the one that is meant: as the topic that was asked for, or by
// its name the best of that camera's. Where no depth topic is of it, bag->wanted stays as it is.
static int find_camera(struct bag *bag, const char *camera)
{
    const char *name = bag->wanted && bag->wanted[0] != '/' ? bag->wanted : camera;
    const struct bag_topic *const topic = bag->wanted ? named(bag) : NULL;
    size_t n_equal;
    if (!name || (bag->wanted && name == camera) || (topic && topic->is_depth))
        return 0;
    const struct bag_topic *found = find_best(bag, is_in_namespace, name, &n_equal);
    if (!found) // by the name itself before others
        found = find_best(bag, is_in_alike, name, &n_equal);
    if (!found && !bag->wanted)
        tell_of_others(bag, name);
    if (!found)
        return 0;
    char *wanted = strdup(found->name);
    if (!wanted)
        return -ENOMEM;
    free(bag->wanted);
    bag->wanted = wanted;
    return 0;
}

// Says so where the messages of what might be depth are compressed one by one. True: they are.
static bool refuse_packed(const struct bag *bag)
{
    const bool is_mcap = bag->parts.suffix && !strcmp(bag->parts.suffix, ".mcap");
    for (size_t i = 0; i < bag->n_topics; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        if (!topic->is_packed || topic->is_depth ||
            (topic->kind != ROS_IMAGE && topic->kind != ROS_COMPRESSED_IMAGE) ||
            (bag->wanted && !is_wanted(bag, topic->name) &&
             !is_in_namespace(topic->name, bag->wanted)))
            continue;
        log_to(&bag->log, LOG_LEVEL_ERROR,
               "%s: the messages of %s are compressed one by one (zstd), which is not read; unpack "
               "them with `ros2 bag convert`, or record without --compression-mode message (MCAP "
               "compresses by itself: %s--storage-preset-profile zstd_fast)",
               bag->path, topic->name, is_mcap ? "" : "--storage mcap ");
        return true;
    }
    return false;
}

// The name is what was asked for, and behind it what image_transport adds.
static bool is_packed_of(const char *name, const char *wanted)
{
    const size_t n = ros_plain_length(name), n_slash = wanted[0] != '/' && name[0] == '/';
    return name[n] && strlen(wanted) == n - n_slash &&
           !strncmp(name + n_slash, wanted, n - n_slash);
}

// Of a topic that is asked for and is not there the packed one, if that is depth. Returns 0 or
// -ENOMEM.
static int take_packed(struct bag *bag)
{
    const struct bag_topic *found = NULL;
    for (size_t i = 0; bag->wanted && i < bag->n_topics; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        if (topic->is_depth && topic->n_frames > 0 && is_packed_of(topic->name, bag->wanted) &&
            (!found || rank(bag, topic) > rank(bag, found)))
            found = topic;
    }
    if (!found || named(bag))
        return 0;
    char *wanted = strdup(found->name);
    if (!wanted)
        return -ENOMEM;
    log_to(&bag->log, LOG_LEVEL_NOTICE, "%s: there is no topic %s itself, but %s: that is taken",
           bag->path, bag->wanted, wanted);
    free(bag->wanted);
    bag->wanted = wanted;
    return 0;
}

// "/a/depth/image (120 images), ..."
static void list_depths(const struct bag *bag, char *out, size_t n_out_bytes)
{
    size_t n = 0;
    *out = 0;
    for (size_t i = 0; i < bag->n_topics && n < n_out_bytes; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        if (topic->is_depth && topic->n_frames > 0)
            n += (size_t)snprintf(out + n, n_out_bytes - n, "%s%s (%zu image%s)", n ? ", " : "",
                                  topic->name, topic->n_frames, topic->n_frames == 1 ? "" : "s");
    }
    if (n >= n_out_bytes)
        memcpy(out + n_out_bytes - 4, "...", 4);
}

// Of depth that was packed as a picture what would be read; "" of another topic.
static void describe_picture(const struct bag_topic *topic, char out[MEANT_BYTES])
{
    const int n = (int)ros_plain_length(topic->name);
    *out = 0;
    if (topic->kind == ROS_COMPRESSED_IMAGE && !topic->is_depth && topic->n_messages &&
        ros_name_contains(topic->name, "depth"))
        snprintf(out, MEANT_BYTES,
                 "; %s is packed as a picture, in which there is no depth: record %.*s, or "
                 "%.*s/compressedDepth",
                 topic->name, n, topic->name, n, topic->name);
}

// What may be meant where nothing fits, or "".
static void describe_meant(const struct bag *bag, char out[MEANT_BYTES])
{
    size_t best = SIZE_MAX;
    *out = 0;
    for (size_t i = 0; i < bag->n_topics && bag->wanted; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        if ((topic->kind == ROS_IMAGE || topic->kind == ROS_COMPRESSED_IMAGE) &&
            (closest_is_better(bag->wanted, strlen(bag->wanted), topic->name, &best) ||
             (best == SIZE_MAX && is_packed_of(topic->name, bag->wanted))))
            snprintf(out, MEANT_BYTES, ", did you mean #%s?", topic->name);
    }
    for (size_t i = 0; i < bag->n_topics && !bag->wanted && !*out; i++) {
        snprintf(out, MEANT_BYTES, "%s", ros_encoding_meant(bag->topics[i].image_encoding));
        if (!*out)
            describe_picture(&bag->topics[i], out);
    }
}

static int tell_of_no_topic(const struct bag *bag)
{
    const bool is_asked = bag->wanted && bag->n_topics > 0;
    char list[LIST_BYTES], meant[MEANT_BYTES];
    list_topics(bag, list, sizeof list);
    describe_meant(bag, meant);
    log_to(&bag->log, LOG_LEVEL_ERROR, "%s: %s%s%s%s%s%s", bag->path,
           is_asked              ? "there is no topic "
           : bag_n_messages(bag) ? "no topic with depth images"
                                 : "no messages were found in it",
           is_asked ? bag->wanted : "", is_asked ? meant : "", *list ? "; its topics: " : "", list,
           is_asked ? "" : meant);
    return bag->wanted ? -EINVAL : -ENOENT;
}

static int choose_topic(struct bag *bag)
{
    size_t n_equal;
    char list[LIST_BYTES], picture[MEANT_BYTES];
    struct bag_topic *depth = bag->depth = find_best(bag, NULL, NULL, &n_equal);
    if ((!depth || !depth->is_depth) && refuse_packed(bag))
        return -ENOTSUP;
    if (!depth)
        return tell_of_no_topic(bag);
    if (!depth->is_depth) {
        describe_picture(depth, picture);
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: topic %s is not depth: %s%s%s, %llu messages%s%s",
               bag->path, depth->name, depth->type, *depth->image_encoding ? " of " : "",
               depth->image_encoding, (unsigned long long)depth->n_messages,
               ros_encoding_meant(depth->image_encoding), picture);
        return depth->n_messages ? -EINVAL : -ENOENT;
    }
    if (n_equal > 1) {
        list_depths(bag, list, sizeof list);
        log_to(&bag->log, LOG_LEVEL_NOTICE,
               "%s: %zu depth topics, %s is taken (FILE#TOPIC chooses another): %s", bag->path,
               n_equal, depth->name, list);
    }
    return 0;
}

// Of a topic that nobody has named.
static void ask_of_infrared(const struct bag *bag)
{
    const struct bag_topic *depth = bag->depth;
    if (certainty(depth) == 0)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: images of %s are %s and no name says that they are depth: are they infrared? "
               "(FILE#TOPIC, naming it, says that they are depth)",
               bag->path, depth->name, depth->image_encoding);
}

int bag_find_depth(struct bag *bag, const char *camera)
{
    const bool is_named = bag->is_live || (bag->wanted && named(bag));
    int err = find_camera(bag, camera);
    if (!err)
        err = take_packed(bag);
    if (!err)
        err = choose_topic(bag);
    if (!err && !is_named)
        ask_of_infrared(bag);
    return err;
}
