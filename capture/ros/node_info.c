// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/node_info.h"

#include <dds/dds.h>
#include <errno.h>
#include <ros_types.h> // of ros_types.idl
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/dds.h"
#include "capture/ros/discover.h"
#include "capture/ros/type_hash.h"
#include "proto/clock.h"

#define TOPIC   "ros_discovery_info" // ROS's own: without the rt/ of other topics
#define MARK    "teller=posed;"      // KEY=VALUE; as ROS wants all of the user data, or has no hash
#define LOOK_NS INT64_C(1000000000)
#define TYPE    rmw_dds_common_msg_dds__ParticipantEntitiesInfo__desc

struct ros_node_info {
    dds_entity_t participant, publications, topic;
    dds_entity_t writer; // 0: it is not told
    int64_t look_ns;     // when others are to be looked for
    rmw_dds_common_msg_dds__NodeEntitiesInfo_ node;
    rmw_dds_common_msg_dds__ParticipantEntitiesInfo_ message;
};

static int take_gid(dds_entity_t entity, rmw_dds_common_msg_dds__Gid_ *out)
{
    dds_guid_t guid;
    _Static_assert(sizeof out->data == sizeof guid.v, "a GUID's bytes");
    if (dds_get_guid(entity, &guid) != DDS_RETCODE_OK)
        return -EIO;
    memcpy(out->data, guid.v, sizeof out->data);
    return 0;
}

static int make_message(struct ros_node_info *node, const char *node_namespace, const char *name,
                        const int32_t *writers, size_t n_writers)
{
    rmw_dds_common_msg_dds__Gid_ *gids = calloc(n_writers, sizeof *gids);
    node->node.writer_gid_seq._buffer = gids;
    node->node.writer_gid_seq._length = node->node.writer_gid_seq._maximum = (uint32_t)n_writers;
    node->node.node_namespace = strdup(node_namespace);
    node->node.node_name = strdup(name);
    node->message.node_entities_info_seq._buffer = &node->node;
    node->message.node_entities_info_seq._length = 1;
    node->message.node_entities_info_seq._maximum = 1;
    if (!gids || !node->node.node_namespace || !node->node.node_name)
        return -ENOMEM;
    int err = take_gid(node->participant, &node->message.gid);
    for (size_t i = 0; i < n_writers && !err; i++)
        err = take_gid(writers[i], &gids[i]);
    return err;
}

int ros_node_info_create(struct ros_node_info **out, int32_t participant,
                         const char *node_namespace, const char *name, const int32_t *writers,
                         size_t n_writers)
{
    *out = NULL;
    struct ros_node_info *node = calloc(1, sizeof *node);
    if (!node)
        return -ENOMEM;
    node->participant = participant;
    int err = make_message(node, node_namespace, name, writers, n_writers);
    if (!err) {
        node->publications =
            dds_create_reader(participant, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, NULL, NULL);
        node->topic = dds_create_topic(participant, &TYPE, TOPIC, NULL, NULL);
        err = node->publications < 0 || node->topic < 0 ? -EIO : 0;
    }
    if (err)
        ros_node_info_destroy(&node);
    *out = node;
    return err;
}

void ros_node_info_destroy(struct ros_node_info **node)
{
    if (!*node)
        return;
    free((*node)->node.node_namespace);
    free((*node)->node.node_name);
    free((*node)->node.writer_gid_seq._buffer);
    free(*node);
    *node = NULL;
}

// With a mark in the user data, behind the hash.
static dds_entity_t create_writer(const struct ros_node_info *node)
{
    char data[200];
    const int n = snprintf(data, sizeof data, "%s%s", ros_type_hash(TYPE.m_typename), MARK);
    dds_qos_t *qos = ros_dds_qos(TYPE.m_typename, true, 1, true);
    dds_qset_userdata(qos, data, (size_t)n);
    dds_entity_t writer = dds_create_writer(node->participant, node->topic, qos, NULL);
    dds_delete_qos(qos);
    return writer;
}

void ros_node_info_update(struct ros_node_info *node)
{
    const int64_t now_ns = clock_monotonic_ns();
    if (now_ns < node->look_ns)
        return;
    node->look_ns = now_ns + LOOK_NS;
    const struct ros_publisher_count others =
        ros_count_publishers(node->publications, TOPIC, ros_type_hash(TYPE.m_typename), MARK);
    const bool is_wanted = others.n_same > 0 && others.n_other == 0;
    if (!is_wanted && node->writer > 0) {
        dds_delete(node->writer);
        node->writer = 0;
    } else if (is_wanted && node->writer <= 0) {
        node->writer = create_writer(node);
        if (node->writer > 0 && dds_write(node->writer, &node->message) != DDS_RETCODE_OK) {
            dds_delete(node->writer); // the next time
            node->writer = 0;
        }
    }
}
