// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/known_infos.h"

bool ros_known_infos_find(struct ros_known_infos *known, uint64_t publisher,
                          struct ros_matched matched, int64_t now_ns, bool *out_are_ours)
{
    if (matched.images != known->matched.images || matched.infos != known->matched.infos)
        *known = (struct ros_known_infos){.matched = matched};
    for (unsigned i = 0; i < ROS_KNOWN_INFOS && i < known->n; i++)
        if (known->answers[i].publisher == publisher &&
            now_ns - known->answers[i].asked_ns < ROS_KNOWN_INFOS_NS) {
            *out_are_ours = known->answers[i].are_ours;
            return true;
        }
    return false;
}

void ros_known_infos_add(struct ros_known_infos *known, uint64_t publisher, int64_t now_ns,
                         bool are_ours)
{
    unsigned at = 0;
    while (at < known->n && at < ROS_KNOWN_INFOS && known->answers[at].publisher != publisher)
        at++;
    if (at == known->n || at == ROS_KNOWN_INFOS)
        at = known->n++ % ROS_KNOWN_INFOS;
    known->answers[at].publisher = publisher;
    known->answers[at].asked_ns = now_ns;
    known->answers[at].are_ours = are_ours;
}
