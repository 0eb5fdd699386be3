// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/received.h"

#include <dds/dds.h>
#include <dds/ddsi/ddsi_serdata.h>
#include <ros_types.h> // of ros_types.idl

#include "capture/ros/dds.h"
#include "proto/clock.h"

#define HISTORY 16

int32_t ros_create_reader(int32_t participant, const char *topic, enum ros_kind kind,
                          bool is_reliable)
{
    const dds_topic_descriptor_t *type = kind == ROS_IMAGE ? &sensor_msgs_msg_dds__Image__desc
                                         : kind == ROS_COMPRESSED_IMAGE
                                             ? &sensor_msgs_msg_dds__CompressedImage__desc
                                             : &sensor_msgs_msg_dds__CameraInfo__desc;
    dds_entity_t entity = dds_create_topic(participant, type, topic, NULL, NULL);
    if (entity < 0)
        return entity;
    dds_qos_t *qos = ros_dds_qos(type->m_typename, is_reliable, HISTORY, false);
    dds_entity_t reader = dds_create_reader(participant, entity, qos, NULL);
    dds_delete_qos(qos);
    return reader;
}

bool ros_take(int32_t reader, struct ros_message *out)
{
    dds_sample_info_t info;
    for (;;) {
        out->serdata = NULL;
        if (reader <= 0 || dds_takecdr(reader, &out->serdata, 1, &info, DDS_ANY_STATE) != 1)
            return false;
        if (info.valid_data)
            break;
        ddsi_serdata_unref(out->serdata); // a publisher that ended
    }
    out->publisher = info.publication_handle;
    out->arrived_ns = clock_monotonic_ns();
    out->sent_ns = info.source_timestamp;
    ddsi_serdata_to_ser_ref(out->serdata, 0, ddsi_serdata_size(out->serdata), &out->bytes);
    return true;
}

void ros_give_back(struct ros_message *message)
{
    ddsi_serdata_to_ser_unref(message->serdata, &message->bytes);
    ddsi_serdata_unref(message->serdata);
}

void ros_leave_out_held(struct ros_held *held, uint64_t n_kept)
{
    while (held->n_in - held->n_out > n_kept) {
        ros_give_back(&held->messages[held->n_out++ % ROS_MAX_HELD]);
        held->n_left_out++;
    }
}

void ros_hold(struct ros_held *held, const struct ros_message *message)
{
    ros_leave_out_held(held, ROS_MAX_HELD - 1);
    held->messages[held->n_in++ % ROS_MAX_HELD] = *message;
}

const struct ros_message *ros_held_oldest(const struct ros_held *held)
{
    return held->n_in == held->n_out ? NULL : &held->messages[held->n_out % ROS_MAX_HELD];
}

bool ros_take_held(struct ros_held *held, struct ros_message *out)
{
    if (held->n_in == held->n_out)
        return false;
    *out = held->messages[held->n_out++ % ROS_MAX_HELD];
    return true;
}
