// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/bag.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct intrinsics default_camera = {525, 525, 319.5, 239.5, 640, 480};
#define DEFAULT_UNITS_PER_M 1000

#define MAX_TOPICS 10000 // more is no recording of a robot

#define REALSENSE_METADATA "/image/metadata"
#define REALSENSE_UNITS    "/option/Depth_Units/value"

// Puts the one file of a folder in place of its path.
static int enter_folder(struct bag *bag, const char *suffix)
{
    DIR *dir = opendir(bag->path);
    char *found = NULL;
    size_t n_found = 0, n_suffix = strlen(suffix);
    int err = 0;
    if (!dir)
        return 0; // no folder: what it is, its reader finds out
    for (struct dirent *entry; !err && (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name);
        if (n <= n_suffix || strcmp(entry->d_name + n - n_suffix, suffix) != 0)
            continue;
        free(found);
        n_found++;
        if (asprintf(&found, "%s/%s", bag->path, entry->d_name) < 0) {
            found = NULL;
            err = -ENOMEM;
        }
    }
    closedir(dir);
    if (!err && n_found != 1) {
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: a folder with %zu files *%s%s", bag->path, n_found,
               suffix, n_found ? ", name one of them" : "");
        err = n_found ? -EINVAL : -ENOENT;
    }
    if (err) {
        free(found);
        return err;
    }
    free(bag->path);
    bag->path = found;
    return 0;
}

int bag_begin(struct bag *bag, const char *location, const char *suffix, const struct log_sink *log)
{
    *bag = (struct bag){.log = *log};
    const char *hash = strrchr(location, '#');
    if (hash && access(location, F_OK) == 0)
        hash = NULL; // a file that is named so
    bag->path = hash ? strndup(location, (size_t)(hash - location)) : strdup(location);
    bag->wanted = hash ? strdup(hash + 1) : NULL;
    if (!bag->path || (hash && !bag->wanted))
        return -ENOMEM;
    int err = enter_folder(bag, suffix);
    return err ? err : ros_depth_create(&bag->decoder);
}

int bag_begin_live(struct bag *bag, const char *name, const struct log_sink *log)
{
    *bag = (struct bag){.log = *log};
    bag->path = strdup(name);
    return bag->path ? ros_depth_create(&bag->decoder) : -ENOMEM;
}

void bag_close(struct bag *bag)
{
    for (size_t i = 0; i < bag->n_topics; i++) {
        free(bag->topics[i].name);
        free(bag->topics[i].type);
        free(bag->topics[i].frames);
    }
    free(bag->topics);
    free(bag->path);
    free(bag->wanted);
    ros_depth_destroy(&bag->decoder);
    *bag = (struct bag){0};
}

static int grow(void **array, size_t *capacity, size_t n, size_t n_element_bytes)
{
    if (n < *capacity)
        return 0;
    size_t more = 2 * *capacity + 64;
    void *grown = realloc(*array, more * n_element_bytes);
    if (!grown)
        return -ENOMEM;
    *array = grown;
    *capacity = more;
    return 0;
}

static struct bag_topic *find_topic(const struct bag *bag, uint32_t id)
{
    for (size_t i = 0; i < bag->n_topics; i++)
        if (bag->topics[i].id == id)
            return &bag->topics[i];
    return NULL;
}

void bag_set_units(struct bag *bag, uint32_t id, double units_per_m)
{
    struct bag_topic *topic = find_topic(bag, id);
    if (topic && units_per_m >= 1 && units_per_m <= 1e6)
        topic->units_per_m = units_per_m;
}

const struct bag_topic *bag_topic(const struct bag *bag, uint32_t id)
{
    return find_topic(bag, id);
}

int bag_add_topic(struct bag *bag, uint32_t id, const char *name, size_t n_name, const char *type,
                  size_t n_type, enum ros_encoding encoding)
{
    if (find_topic(bag, id) || bag->n_topics == MAX_TOPICS)
        return 0;
    void *topics = bag->topics;
    int err = grow(&topics, &bag->topic_capacity, bag->n_topics, sizeof *bag->topics);
    bag->topics = topics;
    if (err)
        return err;
    struct bag_topic topic = {.id = id, .encoding = encoding, .kind = ros_kind_of(type, n_type)};
    topic.name = strndup(name, n_name);
    topic.type = strndup(type, n_type);
    if (!topic.name || !topic.type) {
        free(topic.name);
        free(topic.type);
        return -ENOMEM;
    }
    bag->topics[bag->n_topics++] = topic;
    return 0;
}

enum bag_interest bag_interest(const struct bag_topic *topic)
{
    if (!topic || topic->kind == ROS_OTHER)
        return BAG_NOTHING;
    return topic->kind == ROS_IMAGE || topic->kind == ROS_COMPRESSED_IMAGE ? BAG_HEAD : BAG_ALL;
}

static int add_frame(struct bag_topic *topic, struct bag_frame frame)
{
    void *frames = topic->frames;
    int err = grow(&frames, &topic->frame_capacity, topic->n_frames, sizeof *topic->frames);
    topic->frames = frames;
    if (!err)
        topic->frames[topic->n_frames++] = frame;
    return err;
}

static int add_image(struct bag *bag, struct bag_topic *topic, int64_t log_time_ns,
                     struct bag_place place, const void *data, size_t n_bytes)
{
    struct ros_image image;
    if (!ros_get_image(data, n_bytes, topic->encoding, topic->kind == ROS_COMPRESSED_IMAGE,
                       &image)) {
        bag->n_malformed++;
        return 0;
    }
    if (!topic->is_depth) {
        memcpy(topic->image_encoding, image.encoding, sizeof topic->image_encoding);
        topic->is_depth =
            ros_depth_look(&image, &topic->format, &topic->width_px, &topic->height_px);
    }
    topic->has_stamps = topic->has_stamps || image.header.time_ns > 0;
    return add_frame(topic, (struct bag_frame){image.header.time_ns, log_time_ns, place});
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), n_end = strlen(end);
    return n >= n_end && !strcmp(name + n - n_end, end);
}

// What RealSense's .db3 says of each image, and when the camera took it, which there is not the
// stamp of its header: a frame of the same time of the recorder.
static int add_metadata(struct bag_topic *topic, int64_t log_time_ns, const void *data,
                        size_t n_bytes)
{
    int64_t time_ns;
    if (!ends_with(topic->name, REALSENSE_METADATA) ||
        !ros_get_realsense_time(data, n_bytes, topic->encoding, &time_ns))
        return 0;
    return add_frame(topic, (struct bag_frame){time_ns, log_time_ns, {0, 0}});
}

int bag_add_message(struct bag *bag, uint32_t id, int64_t log_time_ns, struct bag_place place,
                    const void *data, size_t n_bytes)
{
    struct bag_topic *topic = find_topic(bag, id);
    struct ros_camera_info info;
    double number;
    if (!topic)
        return 0;
    topic->n_messages++;
    switch (topic->kind) {
    case ROS_IMAGE:
    case ROS_COMPRESSED_IMAGE:
        return add_image(bag, topic, log_time_ns, place, data, n_bytes);
    case ROS_CAMERA_INFO:
        if (!ros_get_camera_info(data, n_bytes, topic->encoding, &info))
            return 0;
        if (!topic->has_info)
            topic->info = info;
        topic->has_info = true;
        topic->info_changes = topic->info_changes ||
                              memcmp(&info.camera, &topic->info.camera, sizeof info.camera) != 0;
        return 0;
    case ROS_FLOAT32:
    case ROS_STRING:
        if (topic->number == 0 &&
            ros_get_number(data, n_bytes, topic->encoding, topic->kind, &number))
            topic->number = number;
        return topic->kind == ROS_STRING ? add_metadata(topic, log_time_ns, data, n_bytes) : 0;
    case ROS_OTHER:
        return 0;
    }
    return 0;
}

// ---- choosing ----

static bool contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t n = 0;
        while (part[n] && text[n] && (text[n] | 0x20) == part[n])
            n++;
        if (!part[n])
            return true;
    }
    return false;
}

// A name with `depth` in it counts most, then a format that is made for depth (mono16 may be
// infrared), then images as they are.
static int rank(const struct bag_topic *topic)
{
    return 4 * contains(topic->name, "depth") +
           2 * (strncmp(topic->image_encoding, "mono16", 6) != 0) + (topic->kind == ROS_IMAGE);
}

// What there is in place of depth: "/a (sensor_msgs/msg/Image, rgb8), ..."
static void list_topics(const struct bag *bag, char *out, size_t n_out_bytes)
{
    size_t n = 0;
    *out = 0;
    for (size_t i = 0; i < bag->n_topics && n < n_out_bytes; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        n += (size_t)snprintf(out + n, n_out_bytes - n, "%s%s (%s%s%s)", i ? ", " : "", topic->name,
                              topic->type, *topic->image_encoding ? ", " : "",
                              topic->image_encoding);
    }
    if (n >= n_out_bytes)
        memcpy(out + n_out_bytes - 4, "...", 4);
}

static int choose_topic(struct bag *bag)
{
    size_t n_equal = 0;
    char list[800];
    bag->depth = NULL;
    for (size_t i = 0; i < bag->n_topics; i++) {
        struct bag_topic *topic = &bag->topics[i];
        if (bag->wanted ? strcmp(topic->name, bag->wanted) != 0
                        : !topic->is_depth || topic->n_frames == 0)
            continue;
        int better = bag->depth ? rank(topic) - rank(bag->depth) : 1;
        if (better == 0)
            better = strcmp(bag->depth->name, topic->name);
        n_equal++;
        if (better > 0)
            bag->depth = topic;
    }
    struct bag_topic *depth = bag->depth;
    if (depth && !depth->is_depth) {
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: topic %s is not depth: %s%s%s, %llu messages",
               bag->path, depth->name, depth->type, *depth->image_encoding ? " of " : "",
               depth->image_encoding, (unsigned long long)depth->n_messages);
        return depth->n_messages ? -EINVAL : -ENOENT;
    }
    if (!depth) {
        list_topics(bag, list, sizeof list);
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: %s%s; its topics: %s", bag->path,
               bag->wanted ? "there is no topic " : "no topic with depth images",
               bag->wanted ? bag->wanted : "", *list ? list : "none");
        return bag->wanted ? -EINVAL : -ENOENT;
    }
    if (n_equal > 1)
        log_to(&bag->log, LOG_LEVEL_NOTICE,
               "%s: %zu depth topics, %s is taken (FILE#TOPIC chooses another)", bag->path, n_equal,
               depth->name);
    return 0;
}

// Folders that two topics have in common, from the front.
static size_t common_folders(const char *a, const char *b)
{
    size_t n = 0;
    for (; *a && *a == *b; a++, b++)
        n += *a == '/';
    return n;
}

// The camera info of the depth topic: the one that shares most of its name; of the same size before
// others.
static const struct bag_topic *find_info(const struct bag *bag)
{
    const struct bag_topic *best = NULL;
    size_t best_score = 0;
    for (size_t i = 0; i < bag->n_topics; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        if (!topic->has_info || topic->info.camera.fx_px == 0)
            continue;
        bool same_size = topic->info.camera.width_px == bag->depth->width_px &&
                         topic->info.camera.height_px == bag->depth->height_px;
        size_t score = 2 * common_folders(topic->name, bag->depth->name) + same_size + 1;
        if (score > best_score) {
            best = topic;
            best_score = score;
        }
    }
    return best;
}

bool bag_is_rectified(const struct bag *bag)
{
    const struct bag_topic *info = find_info(bag);
    return info && contains(bag->depth->name, "rect") && info->info.rectified.fx_px != 0;
}

static int take_camera(const struct bag *bag, const struct capture_settings *settings,
                       struct capture_info *out_info)
{
    const struct bag_topic *depth = bag->depth, *info = find_info(bag);
    bool overridden = settings->fx_px != 0 && settings->fy_px != 0 && settings->cx_px != 0 &&
                      settings->cy_px != 0;
    bool is_rectified = bag_is_rectified(bag);
    struct intrinsics camera = !info          ? default_camera
                               : is_rectified ? info->info.rectified
                                              : info->info.camera;
    if (!info && !overridden)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: no camera info for %s, taken for the usual camera of 640x480", bag->path,
               depth->name);
    if (info && info->info.distortion != 0 && !is_rectified)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: %s tells of distortion (up to %g), which stays in the images of %s", bag->path,
               info->name, info->info.distortion, depth->name);
    if (info && info->info_changes)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: %s changes on the way, its first calibration is taken for all images",
               bag->path, info->name);
    if (!isfinite(camera.fx_px) || !(camera.fx_px > 0) || !isfinite(camera.fy_px) ||
        camera.fy_px == 0 || !isfinite(camera.cx_px) || !isfinite(camera.cy_px)) {
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: %s is no calibration of a camera", bag->path,
               info ? info->name : "");
        return -EINVAL;
    }
    if (!overridden &&
        (camera.width_px != depth->width_px || camera.height_px != depth->height_px)) {
        log_to(&bag->log, settings->allow_implausible ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
               "%s: images of %s are %ux%u, but %s is for %ux%u", bag->path, depth->name,
               depth->width_px, depth->height_px, info ? info->name : "the usual camera",
               camera.width_px, camera.height_px);
        if (!settings->allow_implausible)
            return -ERANGE;
    }
    camera.width_px = depth->width_px;
    camera.height_px = depth->height_px;
    out_info->camera = camera;
    return 0;
}

// RealSense says beside its images how many metres one unit is.
static double take_units(const struct bag *bag, const struct capture_settings *settings)
{
    const struct bag_topic *depth = bag->depth;
    if (depth->format.is_float)
        return settings->depth_scale != 0 ? settings->depth_scale
               : depth->units_per_m != 0  ? depth->units_per_m
                                          : ROS_FLOAT_UNITS_PER_M;
    double units_per_m = DEFAULT_UNITS_PER_M;
    size_t best = 0;
    for (size_t i = 0; i < bag->n_topics; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        size_t score = common_folders(topic->name, depth->name) + 1;
        if (ends_with(topic->name, REALSENSE_UNITS) && score > best && topic->number >= 1e-6 &&
            topic->number <= 1) {
            units_per_m = 1 / topic->number;
            best = score;
        }
    }
    return units_per_m;
}

static int compare_frames(const void *a, const void *b)
{
    const struct bag_frame *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->log_time_ns != y->log_time_ns)
        return x->log_time_ns < y->log_time_ns ? -1 : 1;
    if (x->place.block != y->place.block)
        return x->place.block < y->place.block ? -1 : 1;
    return (x->place.offset > y->place.offset) - (x->place.offset < y->place.offset);
}

static int compare_log_times(const void *a, const void *b)
{
    const struct bag_frame *x = a, *y = b;
    return (x->log_time_ns > y->log_time_ns) - (x->log_time_ns < y->log_time_ns);
}

// The camera's own times in place of the stamps, when the recording has them for all images.
static void take_realsense_times(struct bag *bag, struct bag_topic *depth)
{
    const char *image = strstr(depth->name, "/image/");
    size_t n = image ? (size_t)(image - depth->name) : 0;
    struct bag_topic *metadata = NULL;
    for (size_t i = 0; image && i < bag->n_topics; i++)
        if (!strncmp(bag->topics[i].name, depth->name, n) &&
            !strcmp(bag->topics[i].name + n, REALSENSE_METADATA) && bag->topics[i].n_frames)
            metadata = &bag->topics[i];
    if (!metadata)
        return;
    qsort(metadata->frames, metadata->n_frames, sizeof *metadata->frames, compare_log_times);
    for (int pass = 0; pass < 2; pass++) // all or none
        for (size_t i = 0; i < depth->n_frames; i++) {
            const struct bag_frame *found =
                bsearch(&depth->frames[i], metadata->frames, metadata->n_frames,
                        sizeof *metadata->frames, compare_log_times);
            if (!found)
                return;
            if (pass == 1)
                depth->frames[i].time_ns = found->time_ns;
        }
}

static void put_in_order(struct bag *bag, struct bag_topic *topic)
{
    struct bag_frame *frames = topic->frames;
    size_t n_kept = 0;
    if (!topic->has_stamps)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: images of %s have no time stamps, the recorder's are taken", bag->path,
               topic->name);
    for (size_t i = 0; !topic->has_stamps && i < topic->n_frames; i++)
        frames[i].time_ns = frames[i].log_time_ns;
    take_realsense_times(bag, topic);
    qsort(frames, topic->n_frames, sizeof *frames, compare_frames);
    for (size_t i = 0; i < topic->n_frames; i++)
        if (frames[i].time_ns >= 0 && frames[i].time_ns < INT64_C(1) << 62 &&
            (n_kept == 0 || frames[i].time_ns != frames[n_kept - 1].time_ns))
            frames[n_kept++] = frames[i];
    bag->n_skipped = topic->n_frames - n_kept;
    topic->n_frames = n_kept;
}

int bag_choose(struct bag *bag, const struct capture_settings *settings,
               struct capture_info *out_info)
{
    int err = choose_topic(bag);
    if (err)
        return err;
    struct bag_topic *depth = bag->depth;
    if (depth->width_px < 1 || depth->width_px > CAPTURE_MAX_SIDE_PX || depth->height_px < 1 ||
        depth->height_px > CAPTURE_MAX_SIDE_PX) {
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: images of %s are %ux%u, which no camera has",
               bag->path, depth->name, depth->width_px, depth->height_px);
        return -EINVAL;
    }
    err = take_camera(bag, settings, out_info);
    if (err)
        return err;
    put_in_order(bag, depth);
    if (bag->n_malformed)
        log_to(&bag->log, LOG_LEVEL_WARNING, "%s: %zu messages are not what their topic says",
               bag->path, bag->n_malformed);
    if (bag->n_skipped)
        log_to(&bag->log, LOG_LEVEL_WARNING, "%s: %zu images of %s skipped, their time repeats",
               bag->path, bag->n_skipped, depth->name);
    bag->units_per_m = out_info->units_per_m = take_units(bag, settings);
    out_info->n_frames = depth->n_frames;
    snprintf(out_info->description, sizeof out_info->description, "%s:%s#%s", out_info->driver,
             bag->path, depth->name);
    return depth->n_frames ? 0 : -ENOENT;
}

void bag_stamp(const struct bag *bag, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    *out_time_ns = bag->depth->frames[i].time_ns;
    *out_index = i;
}

struct bag_place bag_place(const struct bag *bag, uint64_t i)
{
    return bag->depth->frames[i].place;
}

int bag_decode(struct bag *bag, const void *message, size_t n_bytes, uint16_t *out_pixels,
               const char **out_reason)
{
    const struct bag_topic *depth = bag->depth;
    struct ros_image image;
    *out_reason = "malformed image message";
    if (!ros_get_image(message, n_bytes, depth->encoding, depth->kind == ROS_COMPRESSED_IMAGE,
                       &image))
        return -EBADMSG;
    return ros_depth_decode(bag->decoder, &image, depth->width_px, depth->height_px,
                            bag->units_per_m, out_pixels, out_reason);
}
