// SPDX-License-Identifier: Apache-2.0
// The order of the variables is that of rcl, the configuration that of rmw_cyclonedds.
#include "capture/ros/discovery_range.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCALHOST_ONLY "ROS_LOCALHOST_ONLY"
#define RANGE          "ROS_AUTOMATIC_DISCOVERY_RANGE"
#define STATIC_PEERS   "ROS_STATIC_PEERS"
#define MAX_PEER       255 // bytes, as rcl has it

static bool is_given(const char *text)
{
    return text && *text;
}

// ---- peers ----

// What follows *list up to the next ';' that is not empty; *list then stands behind it. Returns its
// length, 0 at the end.
static size_t next_peer(const char **list, const char **out)
{
    *out = *list + strspn(*list, ";");
    const size_t n = strcspn(*out, ";");
    *list = *out + n;
    return n;
}

// The configuration is text: what could be more than an address or a name is left out.
static bool is_peer(const char *peer, size_t n)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-[]%";
    return n <= MAX_PEER && strspn(peer, letters) >= n;
}

static unsigned count_peers(const char *list)
{
    unsigned n_peers = 0;
    const char *peer;
    for (size_t n; list && (n = next_peer(&list, &peer)) > 0;)
        n_peers += is_peer(peer, n);
    return n_peers;
}

static void write_peers(FILE *out, const char *list)
{
    const char *peer;
    for (size_t n; list && (n = next_peer(&list, &peer)) > 0;)
        if (is_peer(peer, n))
            fprintf(out, "<Peer address=\"%.*s\"/>", (int)n, peer);
}

static void tell_of_peers(const char *list, const struct log_sink *log)
{
    const char *peer;
    for (size_t n; (n = next_peer(&list, &peer)) > 0;)
        if (!is_peer(peer, n))
            log_to(log, LOG_LEVEL_WARNING,
                   "environment " STATIC_PEERS ": \"%.*s\" is no address and no name: left out",
                   (int)(n < 80 ? n : 80), peer);
}

// ---- what is asked for ----

static void ask_range(struct ros_discovery *out, const struct log_sink *log)
{
    const char *value = getenv(RANGE);
    if (!is_given(value) || strcmp(value, "SUBNET") == 0)
        return;
    out->variable = RANGE;
    if (strcmp(value, "SYSTEM_DEFAULT") == 0) {
        out->range = ROS_RANGE_FREE;
    } else if (strcmp(value, "OFF") == 0) {
        out->range = ROS_RANGE_NONE;
    } else {
        out->range = ROS_RANGE_MACHINE;
        if (strcmp(value, "LOCALHOST") != 0)
            log_to(log, LOG_LEVEL_WARNING,
                   "environment " RANGE ": \"%.40s\" is none of OFF, LOCALHOST, SUBNET and "
                   "SYSTEM_DEFAULT: taken for LOCALHOST, as ROS does",
                   value);
    }
}

static bool is_localhost_only(const struct log_sink *log)
{
    const char *value = getenv(LOCALHOST_ONLY);
    if (is_given(value) && strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        log_to(log, LOG_LEVEL_WARNING,
               "environment " LOCALHOST_ONLY ": \"%.40s\" is neither 0 nor 1: taken for 0, as ROS "
               "does",
               value);
    return value && strcmp(value, "1") == 0;
}

struct ros_discovery ros_discovery_of_environment(const char *ros_interface,
                                                  const struct log_sink *log)
{
    struct ros_discovery asked = {.range = ROS_RANGE_FREE};
    const char *peers = getenv(STATIC_PEERS);
    if (is_localhost_only(log)) {
        const char *range = getenv(RANGE);
        asked = (struct ros_discovery){.range = ROS_RANGE_LOOPBACK, .variable = LOCALHOST_ONLY};
        if (is_given(range) && strcmp(range, "LOCALHOST") != 0)
            log_to(log, LOG_LEVEL_WARNING,
                   "environment " LOCALHOST_ONLY "=1 counts, not " RANGE ", as with ROS");
    } else {
        ask_range(&asked, log);
    }
    const bool is_overridden = is_given(ros_interface) && asked.range != ROS_RANGE_FREE;
    if (is_overridden && strcmp(ros_interface, "lo") != 0)
        log_to(log, LOG_LEVEL_WARNING,
               "ROS 2: ros.interface = %s counts, not %s of the environment", ros_interface,
               asked.variable);
    if (is_overridden)
        asked = (struct ros_discovery){.range = ROS_RANGE_FREE};
    if (asked.range == ROS_RANGE_NONE)
        log_to(log, LOG_LEVEL_WARNING,
               "environment " RANGE "=OFF: no other program finds the topics of this one, nor does "
               "it find any");
    const bool do_peers_count = asked.range == ROS_RANGE_MACHINE || !asked.variable;
    if (is_given(peers) && do_peers_count) {
        asked.peers = peers;
        tell_of_peers(peers, log);
    } else if (is_given(peers)) {
        log_to(log, LOG_LEVEL_WARNING,
               "environment " STATIC_PEERS " does not count beside %s=%.40s, as with ROS",
               asked.variable, getenv(asked.variable));
    }
    return asked;
}

// ---- the library's configuration ----

static void write_general(FILE *out, const struct ros_discovery *discovery,
                          const char *ros_interface)
{
    if (is_given(ros_interface))
        fprintf(out, "<General><Interfaces><NetworkInterface name=\"%s\"/></Interfaces></General>",
                ros_interface);
    else if (discovery->range == ROS_RANGE_LOOPBACK)
        // Loopback's flag for multicast is not set on Linux. Versions of the library differ in
        // whether they speak it there all the same, so that peers are told of, too.
        fputs("<General><Interfaces><NetworkInterface address=\"127.0.0.1\" multicast=\"true\"/>"
              "</Interfaces></General>",
              out);
    else if (discovery->range != ROS_RANGE_FREE)
        fputs("<General><AllowMulticast>false</AllowMulticast></General>", out);
}

static void write_discovery(FILE *out, const struct ros_discovery *discovery)
{
    // Only who knows the tag finds the program.
    if (discovery->range == ROS_RANGE_NONE) {
        fprintf(out,
                "<Discovery><ParticipantIndex>none</ParticipantIndex>"
                "<Tag>ros_discovery_off_%ld</Tag></Discovery>",
                (long)getpid());
        return;
    }
    if (discovery->range == ROS_RANGE_FREE && count_peers(discovery->peers) == 0)
        return;
    fputs("<Discovery><ParticipantIndex>auto</ParticipantIndex>"
          "<MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers>",
          out);
    if (discovery->range == ROS_RANGE_LOOPBACK)
        fputs("<Peer address=\"127.0.0.1\"/>", out);
    else if (discovery->range == ROS_RANGE_MACHINE)
        fputs("<Peer address=\"localhost\"/>", out);
    write_peers(out, discovery->peers);
    fputs("</Peers></Discovery>", out);
}

int ros_discovery_configure(const struct ros_discovery *discovery, const char *ros_interface,
                            const char *file, char **out)
{
    size_t n;
    *out = NULL;
    if (!is_given(ros_interface) && discovery->range == ROS_RANGE_FREE &&
        count_peers(discovery->peers) == 0)
        return 0;
    FILE *text = open_memstream(out, &n);
    if (!text)
        return -ENOMEM;
    fputs("<CycloneDDS><Domain>", text);
    write_general(text, discovery, ros_interface);
    write_discovery(text, discovery);
    fputs("</Domain></CycloneDDS>", text);
    if (!is_given(ros_interface) && file)
        fprintf(text, ",%s", file);
    const bool failed = ferror(text) != 0;
    if (fclose(text) == 0 && !failed)
        return 0;
    free(*out);
    *out = NULL;
    return -ENOMEM;
}

void ros_discovery_describe(const struct ros_discovery *discovery, const char *ros_interface,
                            const char *file, char *out, size_t room)
{
    static const char *const ranges[] = {
        [ROS_RANGE_FREE] = "of the library's choice",
        [ROS_RANGE_LOOPBACK] = "lo",
        [ROS_RANGE_MACHINE] = "of the library's choice, programs of this machine alone",
        [ROS_RANGE_NONE] = "of the library's choice, no other program"};
    const unsigned n_peers = count_peers(discovery->peers);
    const bool is_asked = discovery->range != ROS_RANGE_FREE;
    char peers[60] = "";
    if (n_peers > 0)
        snprintf(peers, sizeof peers, " and %u peer%s (" STATIC_PEERS ")", n_peers,
                 n_peers == 1 ? "" : "s");
    if (is_given(ros_interface))
        snprintf(out, room, "%.64s%s", ros_interface, peers);
    else if (is_asked)
        snprintf(out, room, "%s (%s)%s%s", ranges[discovery->range], discovery->variable, peers,
                 file ? " and as CYCLONEDDS_URI says" : "");
    else
        snprintf(out, room, "%s%s", file ? "as CYCLONEDDS_URI says" : ranges[ROS_RANGE_FREE],
                 peers);
}
