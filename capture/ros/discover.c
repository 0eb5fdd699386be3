// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/discover.h"

#include <dds/dds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/bag.h"
#include "capture/ros/topic_name.h"
#include "proto/closest.h"

#define ALIVE (DDS_ANY_SAMPLE_STATE | DDS_ANY_VIEW_STATE | DDS_ALIVE_INSTANCE_STATE)

// Memory of our own: with samples that the library lends, 0.10.2 writes beyond the end of a buffer
// that is smaller than the one of an earlier read.
struct batch {
    uint32_t room;
    void **samples;
    dds_sample_info_t *infos;
};

static void free_batch(struct batch *batch)
{
    for (uint32_t i = 0; batch->samples && i < batch->room; i++)
        if (batch->samples[i])
            dds_builtintopic_free_endpoint(batch->samples[i]);
    free(batch->samples);
    free(batch->infos);
}

static bool get_batch(struct batch *out, uint32_t room)
{
    *out =
        (struct batch){room, calloc(room, sizeof *out->samples), calloc(room, sizeof *out->infos)};
    bool good = out->samples && out->infos;
    for (uint32_t i = 0; i < room && good; i++)
        good = (out->samples[i] = calloc(1, sizeof(dds_builtintopic_endpoint_t))) != NULL;
    return good;
}

// Calls `found` for each publisher that there is, until it returns true.
static void each_publisher(int32_t publications,
                           bool (*found)(void *user, const dds_builtintopic_endpoint_t *endpoint),
                           void *user)
{
    bool are_all = false, done = false;
    for (uint32_t room = 128; !are_all; room *= 2) {
        struct batch batch;
        dds_return_t n = 0;
        if (get_batch(&batch, room)) // read, not taken: they are there the next time, too
            n = dds_read_mask(publications, batch.samples, batch.infos, room, room, ALIVE);
        are_all = n < (dds_return_t)room;
        for (dds_return_t i = 0; i < n && are_all && !done; i++)
            done = batch.infos[i].valid_data && found(user, batch.samples[i]);
        free_batch(&batch);
    }
}

struct search {
    const char *topic;
    struct ros_offer *out;
    bool found;
};

static bool is_topic(void *user, const dds_builtintopic_endpoint_t *endpoint)
{
    struct search *search = user;
    dds_reliability_kind_t reliability;
    dds_duration_t blocking;
    if (strcmp(endpoint->topic_name, search->topic) != 0)
        return false;
    snprintf(search->out->type, sizeof search->out->type, "%s", endpoint->type_name);
    search->out->is_reliable = dds_qget_reliability(endpoint->qos, &reliability, &blocking) &&
                               reliability == DDS_RELIABILITY_RELIABLE;
    search->found = true;
    return true;
}

bool ros_find_publisher(int32_t publications, const char *topic, struct ros_offer *out)
{
    struct search search = {topic, out, false};
    each_publisher(publications, is_topic, &search);
    return search.found;
}

bool ros_find_participant(int32_t reader, uint64_t publisher, struct ros_participant *out)
{
    dds_builtintopic_endpoint_t *endpoint = dds_get_matched_publication_data(reader, publisher);
    if (!endpoint)
        return false;
    _Static_assert(sizeof out->guid == sizeof endpoint->participant_key.v, "a GUID's bytes");
    if (out)
        memcpy(out->guid, endpoint->participant_key.v, sizeof out->guid);
    dds_builtintopic_free_endpoint(endpoint);
    return true;
}

uint64_t ros_count_matched(int32_t reader)
{
    dds_subscription_matched_status_t matched;
    if (reader <= 0 || dds_get_subscription_matched_status(reader, &matched) != DDS_RETCODE_OK)
        return 0;
    return 2 * (uint64_t)matched.total_count - matched.current_count;
}

struct one_of {
    const struct ros_participant *participant;
    const char *topic;
    bool found;
};

static bool is_one_of(void *user, const dds_builtintopic_endpoint_t *endpoint)
{
    struct one_of *one = user;
    one->found = strcmp(endpoint->topic_name, one->topic) == 0 &&
                 memcmp(endpoint->participant_key.v, one->participant->guid,
                        sizeof one->participant->guid) == 0;
    return one->found;
}

bool ros_publishes(int32_t publications, const struct ros_participant *participant,
                   const char *topic)
{
    struct one_of one = {participant, topic, false};
    each_publisher(publications, is_one_of, &one);
    return one.found;
}

struct hash_search {
    const char *topic, *type_hash, *mark;
    struct ros_publisher_count count;
};

static bool count_publisher(void *user, const dds_builtintopic_endpoint_t *endpoint)
{
    struct hash_search *search = user;
    void *data = NULL;
    size_t n = 0;
    if (strcmp(endpoint->topic_name, search->topic) != 0)
        return false;
    const bool has_data = dds_qget_userdata(endpoint->qos, &data, &n) && n > 0;
    const bool is_same = has_data && memmem(data, n, search->type_hash, strlen(search->type_hash));
    const bool is_marked = has_data && memmem(data, n, search->mark, strlen(search->mark));
    dds_free(data);
    search->count.n_same += !is_marked && is_same;
    search->count.n_other += !is_marked && !is_same;
    return false;
}

struct ros_publisher_count ros_count_publishers(int32_t publications, const char *topic,
                                                const char *type_hash, const char *mark)
{
    struct hash_search search = {.topic = topic, .type_hash = type_hash, .mark = mark};
    each_publisher(publications, count_publisher, &search);
    return search.count;
}

// ROS 2's name of a topic of images or, else, of camera infos; NULL: it is none.
static const char *name_of(const dds_builtintopic_endpoint_t *endpoint, bool is_image)
{
    const enum ros_kind kind = ros_kind_of(endpoint->type_name, strlen(endpoint->type_name));
    const bool is_wanted =
        is_image ? kind == ROS_IMAGE || kind == ROS_COMPRESSED_IMAGE : kind == ROS_CAMERA_INFO;
    return is_wanted && !strncmp(endpoint->topic_name, "rt/", 3) ? endpoint->topic_name + 2 : NULL;
}

struct list {
    bool is_of_images;
    char *text;
    size_t n, room;
};

static bool add_topic(void *user, const dds_builtintopic_endpoint_t *endpoint)
{
    struct list *list = user;
    const char *name = name_of(endpoint, list->is_of_images);
    if (name && list->n < list->room)
        list->n += (size_t)snprintf(list->text + list->n, list->room - list->n, "%s%s",
                                    list->n ? ", " : "", name);
    return false;
}

static void list_topics(int32_t publications, bool is_image, char *out, size_t room)
{
    struct list list = {is_image, out, 0, room};
    out[0] = 0;
    each_publisher(publications, add_topic, &list);
}

void ros_list_image_topics(int32_t publications, char *out, size_t room)
{
    list_topics(publications, true, out, room);
}

void ros_list_info_topics(int32_t publications, char *out, size_t room)
{
    list_topics(publications, false, out, room);
}

struct nearest {
    const char *topic;
    size_t best;
    char *out;
    size_t room;
};

static bool is_nearest(void *user, const dds_builtintopic_endpoint_t *endpoint)
{
    struct nearest *nearest = user;
    const char *name = name_of(endpoint, true);
    if (!name)
        return false;
    const size_t n = strlen(name), n_topic = strlen(nearest->topic);
    const bool is_end = n > n_topic && strcmp(name + n - n_topic, nearest->topic) == 0;
    const bool is_packed = n > n_topic && ros_plain_length(name) == n_topic &&
                           strncmp(name, nearest->topic, n_topic) == 0;
    if (closest_is_better(nearest->topic, n_topic, name, &nearest->best) ||
        ((is_end || is_packed) && nearest->best == SIZE_MAX))
        snprintf(nearest->out, nearest->room, "%s", name);
    return false;
}

bool ros_nearest_image_topic(int32_t publications, const char *topic, char *out, size_t room)
{
    struct nearest nearest = {topic, SIZE_MAX, out, room};
    out[0] = 0;
    each_publisher(publications, is_nearest, &nearest);
    return out[0] != 0;
}
