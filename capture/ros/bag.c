// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/bag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/ros/tell_of_info.h"
#include "capture/ros/units.h"

#define MAX_TOPICS 10000 // more is no recording of a robot; nor are more ids of a file

int bag_begin(struct bag *bag, const char *location, const char *suffix, bool may_be_split,
              const struct log_sink *log)
{
    *bag = (struct bag){.log = *log};
    const char *hash = strrchr(location, '#');
    if (hash && access(location, F_OK) == 0)
        hash = NULL; // a file that is named so
    bag->path = hash ? strndup(location, (size_t)(hash - location)) : strdup(location);
    bag->wanted = hash ? strdup(hash + 1) : NULL;
    if (!bag->path || (hash && !bag->wanted))
        return -ENOMEM;
    int err = bag_parts_find(&bag->parts, bag->path, suffix, may_be_split, log);
    if (!err && bag->parts.n == 1) {
        free(bag->path);
        bag->path = strdup(bag->parts.paths[0]);
        err = bag->path ? 0 : -ENOMEM;
    }
    return err ? err : ros_depth_create(&bag->decoder);
}

int bag_begin_live(struct bag *bag, const char *name, const struct log_sink *log)
{
    *bag = (struct bag){.is_live = true, .log = *log};
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
    free(bag->ids);
    bag_parts_free(&bag->parts);
    free(bag->path);
    free(bag->wanted);
    ros_depth_destroy(&bag->decoder);
    *bag = (struct bag){0};
}

int bag_read_parts(struct bag *bag, int (*read_part)(void *state, size_t part), void *state)
{
    size_t n_read = 0;
    int first = 0;
    for (size_t i = 0; i < bag->parts.n; i++) {
        bag->part = i;
        const uint64_t n_before = bag_n_messages(bag);
        int err = read_part(state, i);
        if (err == -ENOMEM || err == -ENOTSUP)
            return err;
        const bool is_begun = bag_n_messages(bag) > n_before;
        if (err && bag->parts.n > 1)
            log_to(&bag->log, LOG_LEVEL_WARNING, "%s: %s, the other files are read", bag_file(bag),
                   is_begun ? "read in part" : "left out");
        first = first ? first : err;
        n_read += err == 0 || is_begun;
    }
    return n_read ? 0 : first;
}

uint64_t bag_n_messages(const struct bag *bag)
{
    uint64_t n = 0;
    for (size_t i = 0; i < bag->n_topics; i++)
        n += bag->topics[i].n_messages;
    return n;
}

const char *bag_file(const struct bag *bag)
{
    return bag->parts.n ? bag->parts.paths[bag->part] : bag->path;
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
    for (size_t i = 0; i < bag->n_ids && bag->ids_part == bag->part; i++)
        if (bag->ids[i].id == id)
            return &bag->topics[bag->ids[i].topic];
    return NULL;
}

void bag_set_units(struct bag *bag, uint32_t id, double units_per_m)
{
    struct bag_topic *topic = find_topic(bag, id);
    if (topic && units_per_m >= 1 && units_per_m <= 1e6)
        topic->units_per_m = units_per_m;
}

void bag_add_lost(struct bag *bag, uint32_t id, uint64_t n_messages)
{
    struct bag_topic *topic = find_topic(bag, id);
    if (topic)
        topic->n_lost += n_messages;
}

const struct bag_topic *bag_topic(const struct bag *bag, uint32_t id)
{
    return find_topic(bag, id);
}

bool bag_topic_ends_with(const struct bag_topic *topic, const char *end)
{
    size_t n = strlen(topic->name), n_end = strlen(end);
    return n >= n_end && !strcmp(topic->name + n - n_end, end);
}

// Its place; bag->n_topics when it is new.
static size_t find_known(const struct bag *bag, const struct bag_topic *topic)
{
    size_t i = 0;
    while (i < bag->n_topics && (bag->topics[i].encoding != topic->encoding ||
                                 strcmp(bag->topics[i].name, topic->name) != 0 ||
                                 strcmp(bag->topics[i].type, topic->type) != 0))
        i++;
    return i;
}

// Room for one topic and one id more, of the file of which is told now.
static int make_room(struct bag *bag)
{
    void *topics = bag->topics, *ids = bag->ids;
    int err = grow(&topics, &bag->topic_capacity, bag->n_topics, sizeof *bag->topics);
    bag->topics = topics;
    if (bag->ids_part != bag->part)
        bag->n_ids = 0;
    bag->ids_part = bag->part;
    if (!err)
        err = grow(&ids, &bag->id_capacity, bag->n_ids, sizeof *bag->ids);
    bag->ids = ids;
    return err;
}

int bag_add_topic(struct bag *bag, uint32_t id, const char *name, size_t n_name, const char *type,
                  size_t n_type, enum ros_encoding encoding)
{
    if (find_topic(bag, id))
        return 0;
    int err = make_room(bag);
    if (err || bag->n_ids == MAX_TOPICS)
        return err;
    struct bag_topic topic = {.encoding = encoding, .kind = ros_kind_of(type, n_type)};
    topic.name = strndup(name, n_name);
    topic.type = strndup(type, n_type);
    const bool is_good = topic.name && topic.type;
    const size_t place = is_good ? find_known(bag, &topic) : MAX_TOPICS;
    const bool is_new = place == bag->n_topics && place < MAX_TOPICS;
    if (place < MAX_TOPICS)
        bag->ids[bag->n_ids++] = (struct bag_id){id, place};
    if (is_new) {
        bag->topics[bag->n_topics++] = topic;
        return 0;
    }
    free(topic.name);
    free(topic.type);
    return is_good ? 0 : -ENOMEM;
}

enum bag_interest bag_interest(const struct bag_topic *topic)
{
    if (!topic || topic->kind == ROS_OTHER)
        return BAG_NOTHING;
    const bool is_image = topic->kind == ROS_IMAGE || topic->kind == ROS_COMPRESSED_IMAGE;
    return is_image && !bag_wants_values(topic) ? BAG_HEAD : BAG_ALL;
}

bool bag_is_size(uint32_t width_px, uint32_t height_px)
{
    return width_px >= 1 && width_px <= CAPTURE_MAX_SIDE_PX && height_px >= 1 &&
           height_px <= CAPTURE_MAX_SIDE_PX;
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

static void note_no_depth(struct bag_topic *topic, const struct ros_image *image)
{
    struct ros_depth_format format;
    uint32_t w, h;
    if (ros_depth_look(image, &format, &w, &h))
        return;
    const char *fault = ros_depth_head_fault(image);
    if (fault) {
        topic->head_fault = topic->n_bad_heads++ ? topic->head_fault : fault;
        return;
    }
    topic->n_no_depth++;
    memcpy(topic->no_depth_encoding, image->encoding, sizeof topic->no_depth_encoding);
}

// Format and size are those of the first depth image of a size that a camera has: a driver may send
// an empty one as it starts.
static void take_format(struct bag_topic *topic, const struct ros_image *image)
{
    struct ros_depth_format format;
    uint32_t w, h;
    const bool is_depth = ros_depth_look(image, &format, &w, &h);
    if (topic->is_depth &&
        (bag_is_size(topic->width_px, topic->height_px) || !is_depth || !bag_is_size(w, h)))
        return;
    memcpy(topic->image_encoding, image->encoding, sizeof topic->image_encoding);
    memcpy(topic->frame_id, image->header.frame_id, sizeof topic->frame_id);
    if (topic->is_depth) { // all before it are of no size
        topic->n_other_size = topic->n_frames - topic->n_bad_heads - topic->n_no_depth;
        topic->other_width_px = topic->width_px;
        topic->other_height_px = topic->height_px;
    }
    if (!is_depth)
        return;
    topic->is_depth = true;
    topic->format = format;
    topic->width_px = w;
    topic->height_px = h;
}

static void note_size(struct bag_topic *topic, const struct ros_image *image)
{
    struct ros_depth_format format;
    uint32_t w, h;
    if (!topic->is_depth || !ros_depth_look(image, &format, &w, &h) ||
        (w == topic->width_px && h == topic->height_px))
        return;
    if (topic->n_other_size++ == 0) {
        topic->other_width_px = w;
        topic->other_height_px = h;
    }
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
    take_format(topic, &image);
    note_no_depth(topic, &image);
    note_size(topic, &image);
    bag_note_units(topic, &image);
    topic->has_stamps = topic->has_stamps || image.header.time_ns > 0;
    return add_frame(topic,
                     (struct bag_frame){image.header.time_ns, log_time_ns, place, bag->part});
}

// What RealSense's .db3 says of each image, and when the camera took it, which there is not the
// stamp of its header: a frame of the same time of the recorder.
static int add_metadata(struct bag_topic *topic, int64_t log_time_ns, const void *data,
                        size_t n_bytes)
{
    int64_t time_ns;
    if (!bag_topic_ends_with(topic, BAG_REALSENSE_METADATA) ||
        !ros_get_realsense_time(data, n_bytes, topic->encoding, &time_ns))
        return 0;
    return add_frame(topic, (struct bag_frame){time_ns, log_time_ns, {0, 0}, 0});
}

// rosbag2's --compression-mode message: zstd's magic stands where CDR tells its byte order.
static bool is_packed(const struct bag_topic *topic, const void *data, size_t n_bytes)
{
    return topic->encoding == ROS_ENCODING_CDR && n_bytes >= 4 &&
           memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0;
}

static void note_change(struct bag_info_change *change, const struct intrinsics *first,
                        const struct intrinsics *now, int64_t time_ns)
{
    if (ros_is_same_calibration(first, now))
        return;
    if (change->n_messages++ == 0) {
        change->to = *now;
        change->time_ns = time_ns;
    }
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
    if (topic->kind != ROS_OTHER && is_packed(topic, data, n_bytes)) {
        topic->is_packed = true;
        return 0;
    }
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
        if (info.header.time_ns == 0)
            info.header.time_ns = log_time_ns;
        note_change(&topic->camera_change, &topic->info.camera, &info.camera, info.header.time_ns);
        note_change(&topic->rectified_change, &topic->info.rectified, &info.rectified,
                    info.header.time_ns);
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

void bag_stamp(const struct bag *bag, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    *out_time_ns = bag->depth->frames[i].time_ns;
    *out_index = i;
}

size_t bag_part(const struct bag *bag, uint64_t i)
{
    return bag->depth->frames[i].part;
}

struct bag_place bag_place(const struct bag *bag, uint64_t i)
{
    return bag->depth->frames[i].place;
}

int bag_decode(struct bag *bag, const void *message, size_t n_bytes, uint16_t *out_pixels,
               const char **out_reason)
{
    const struct bag_topic *depth = bag->depth;
    struct ros_depth_format format;
    struct ros_image image;
    uint32_t w, h;
    *out_reason = "malformed image message";
    if (!ros_get_image(message, n_bytes, depth->encoding, depth->kind == ROS_COMPRESSED_IMAGE,
                       &image))
        return -EBADMSG;
    const int err = ros_depth_decode(bag->decoder, &image, depth->width_px, depth->height_px,
                                     &bag->units, out_pixels, out_reason);
    if (err && !ros_depth_look(&image, &format, &w, &h))
        *out_reason = NULL; // counted as the file was read
    return err;
}
