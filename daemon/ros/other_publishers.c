// SPDX-License-Identifier: Apache-2.0
#include "daemon/ros/other_publishers.h"

#include <dds/dds.h>
#include <string.h>

int32_t ros_watch_publishers(int32_t participant)
{
    return dds_create_reader(participant, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, NULL, NULL);
}

bool ros_has_other_publisher(int32_t watch, int32_t participant,
                             bool (*is_ours)(void *user, const char *topic), void *user)
{
    enum { N = 64 };
    void *samples[N] = {NULL};
    dds_sample_info_t infos[N];
    dds_guid_t own;
    bool found = false;
    dds_return_t n = N;
    if (dds_get_guid(participant, &own) != DDS_RETCODE_OK)
        return false;
    while (n == N) {
        n = dds_take(watch, samples, infos, N, N);
        for (dds_return_t i = 0; i < n; i++) {
            const dds_builtintopic_endpoint_t *endpoint = samples[i];
            if (infos[i].valid_data && infos[i].instance_state == DDS_IST_ALIVE &&
                memcmp(&endpoint->participant_key, &own, sizeof own) != 0)
                found = found || is_ours(user, endpoint->topic_name);
        }
        if (n > 0)
            dds_return_loan(watch, samples, n);
    }
    return found;
}
