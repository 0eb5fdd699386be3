// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/dds.h"

#include <dds/dds.h>
#include <dds/ddsrt/log.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/discovery_range.h"
#include "capture/ros/domain.h"
#include "capture/ros/type_hash.h"

#define MAX_TOLD    16u                // lines of the environment; it has some four at fault
#define BLOCKING_NS INT64_C(100000000) // of a reliable write whose readers do not keep up

// The library's configuration is text; a name that could be more than a name is refused.
static bool is_interface_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    size_t n = strlen(name);
    return n < 64 && strspn(name, letters) == n;
}

static void drop(void *user, const dds_log_data_t *data)
{
    (void)user, (void)data;
}

static void say(void *user, const dds_log_data_t *data)
{
    const enum log_level level = data->priority & (DDS_LC_FATAL | DDS_LC_ERROR) ? LOG_LEVEL_ERROR
                                 : data->priority & DDS_LC_WARNING              ? LOG_LEVEL_WARNING
                                                                                : LOG_LEVEL_INFO;
    log_to(user, level, "Cyclone DDS: %.*s", (int)strcspn(data->message, "\n"), data->message);
}

// What the library would write to stderr goes to the log of who opened a participant last.
static void redirect_log(const struct log_sink *log)
{
    static struct log_sink sink;
    dds_set_log_sink(drop, NULL); // returns when no thread of the library uses the old one
    sink = *log;
    dds_set_log_sink(say, &sink);
}

// What is said of the environment is the same for each participant of a process: each line of it
// once.
static void say_once(void *user, enum log_level level, const char *line)
{
    static char told[MAX_TOLD][200]; // cut off
    static unsigned n_told;
    char text[sizeof *told];
    snprintf(text, sizeof text, "%s", line);
    for (unsigned i = 0; i < n_told; i++)
        if (strcmp(told[i], text) == 0)
            return;
    if (n_told < MAX_TOLD)
        memcpy(told[n_told++], text, sizeof text);
    log_to(user, level, "%s", line);
}

void ros_dds_describe(const struct ros_dds_place *place, char out[ROS_DDS_PLACE_BYTES])
{
    const char *origin = place->domain_origin;
    const struct ros_discovery discovery = ros_discovery_of_environment(place->interface, NULL);
    char interface[180];
    ros_discovery_describe(&discovery, place->interface, getenv("CYCLONEDDS_URI"), interface,
                           sizeof interface);
    snprintf(out, ROS_DDS_PLACE_BYTES, "domain %u (%.120s), interface %s", place->domain,
             origin ? origin : "the default", interface);
}

static int create_domain(const struct ros_dds_place *place, const struct log_sink *log)
{
    struct log_sink sink = *log;
    const struct log_sink once = {say_once, &sink};
    const struct ros_discovery discovery = ros_discovery_of_environment(place->interface, &once);
    char *config;
    if (ros_discovery_configure(&discovery, place->interface, getenv("CYCLONEDDS_URI"), &config) !=
        0)
        return -ENOMEM;
    if (!config)
        return 0;
    const dds_entity_t made = dds_create_domain(place->domain, config);
    free(config);
    if (made >= 0 || made == DDS_RETCODE_PRECONDITION_NOT_MET) // that: there is one already
        return 0;
    if (place->interface && *place->interface)
        log_to(log, LOG_LEVEL_ERROR,
               "ROS 2: no domain %u on the network interface %s: is there one of that name, and is "
               "it up (ros.interface)?",
               place->domain, place->interface);
    else
        log_to(log, LOG_LEVEL_ERROR,
               "ROS 2: no domain %u in the range that %s of the environment asks for: %s",
               place->domain, discovery.variable ? discovery.variable : "ROS_STATIC_PEERS",
               dds_strretcode(made));
    return -EIO;
}

dds_entity_t ros_dds_participant(struct ros_dds_place *place, const struct log_sink *log)
{
    if (!place->domain_origin &&
        ros_domain_of_environment(&place->domain, &place->domain_origin, log) != 0)
        return -EINVAL;
    const uint32_t domain = place->domain;
    const char *interface = place->interface;
    if (domain > ROS_MAX_DOMAIN || (interface && !is_interface_name(interface))) {
        log_to(log, LOG_LEVEL_ERROR, "ROS 2: domain %u, interface \"%s\": 0..%d and a name wanted",
               domain, interface ? interface : "", ROS_MAX_DOMAIN);
        return -EINVAL;
    }
    redirect_log(log);
    const int err = create_domain(place, log);
    if (err)
        return err;
    dds_entity_t participant = dds_create_participant(domain, NULL, NULL);
    if (participant < 0) {
        log_to(log, LOG_LEVEL_ERROR, "ROS 2: domain %u: %s", domain, dds_strretcode(participant));
        return -EIO;
    }
    return participant;
}

bool ros_dds_topic_name(const char *topic, char out[ROS_DDS_NAME_BYTES])
{
    int n = snprintf(out, ROS_DDS_NAME_BYTES, "rt%s%s", *topic == '/' ? "" : "/", topic);
    return n > 3 && n < ROS_DDS_NAME_BYTES;
}

dds_qos_t *ros_dds_qos(const char *type, bool is_reliable, int32_t depth, bool is_kept)
{
    dds_qos_t *qos = dds_create_qos();
    const char *hash = ros_type_hash(type);
    if (hash)
        dds_qset_userdata(qos, hash, strlen(hash));
    dds_qset_reliability(qos, is_reliable ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT,
                         BLOCKING_NS);
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, depth);
    dds_qset_durability(qos, is_kept ? DDS_DURABILITY_TRANSIENT_LOCAL : DDS_DURABILITY_VOLATILE);
    return qos;
}
