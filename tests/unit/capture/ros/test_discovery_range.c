// SPDX-License-Identifier: Apache-2.0
// What the environment asks of DDS, in rcl's order of its variables, and the configuration that
// comes of it, as rmw_cyclonedds has it; 252 has who hears the poses then.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/ros/discovery_range.h"
#include "tests/unit/fails.h"

#define DOMAIN(inside) "<CycloneDDS><Domain>" inside "</Domain></CycloneDDS>"
#define AUTO                                               \
    "<Discovery><ParticipantIndex>auto</ParticipantIndex>" \
    "<MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers>"
#define UNICAST "<General><AllowMulticast>false</AllowMulticast></General>"
#define PEERS   "<Peer address=\"10.0.0.7\"/><Peer address=\"robot-2.local\"/>"
#define LO                                                                              \
    "<General><Interfaces><NetworkInterface address=\"127.0.0.1\" multicast=\"true\"/>" \
    "</Interfaces></General>"
#define ETH0 "<General><Interfaces><NetworkInterface name=\"eth0\"/></Interfaces></General>"

static char said[4000];

static void hear(void *user, enum log_level level, const char *text)
{
    (void)user;
    assert_int_equal(level, LOG_LEVEL_WARNING);
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", text);
}

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static struct ros_discovery ask(const char *localhost_only, const char *range, const char *peers,
                                const char *ros_interface)
{
    set("ROS_LOCALHOST_ONLY", localhost_only);
    set("ROS_AUTOMATIC_DISCOVERY_RANGE", range);
    set("ROS_STATIC_PEERS", peers);
    said[0] = 0;
    return ros_discovery_of_environment(ros_interface, &(struct log_sink){.write = hear});
}

static void configurations(void **state)
{
    (void)state;
    static const struct {
        const char *localhost_only, *range, *peers, *ros_interface, *config, *described;
    } cases[] = {
        {NULL, NULL, NULL, NULL, NULL, "of the library's choice"},
        {"", "", "", "", NULL, "of the library's choice"},
        {"0", "SUBNET", ";;", NULL, NULL, "of the library's choice"},
        {"0", "SYSTEM_DEFAULT", "10.0.0.7", NULL, NULL, "of the library's choice"},
        {"1", NULL, NULL, NULL, DOMAIN(LO AUTO "<Peer address=\"127.0.0.1\"/></Peers></Discovery>"),
         "lo (ROS_LOCALHOST_ONLY)"},
        {"1", "SUBNET", "10.0.0.7", NULL,
         DOMAIN(LO AUTO "<Peer address=\"127.0.0.1\"/></Peers></Discovery>"),
         "lo (ROS_LOCALHOST_ONLY)"},
        {"1", "OFF", NULL, NULL,
         DOMAIN(LO AUTO "<Peer address=\"127.0.0.1\"/></Peers></Discovery>"),
         "lo (ROS_LOCALHOST_ONLY)"},
        {"0", "LOCALHOST", NULL, NULL,
         DOMAIN(UNICAST AUTO "<Peer address=\"localhost\"/></Peers></Discovery>"),
         "of the library's choice, programs of this machine alone "
         "(ROS_AUTOMATIC_DISCOVERY_RANGE)"},
        {NULL, "LOCALHOST", "10.0.0.7;robot-2.local;", NULL,
         DOMAIN(UNICAST AUTO "<Peer address=\"localhost\"/>" PEERS "</Peers></Discovery>"),
         "of the library's choice, programs of this machine alone "
         "(ROS_AUTOMATIC_DISCOVERY_RANGE) and 2 peers (ROS_STATIC_PEERS)"},
        {NULL, "localhost", NULL, NULL,
         DOMAIN(UNICAST AUTO "<Peer address=\"localhost\"/></Peers></Discovery>"),
         "of the library's choice, programs of this machine alone "
         "(ROS_AUTOMATIC_DISCOVERY_RANGE)"},
        {NULL, NULL, ";10.0.0.7;\"/><x;robot-2.local", NULL,
         DOMAIN(AUTO PEERS "</Peers></Discovery>"),
         "of the library's choice and 2 peers (ROS_STATIC_PEERS)"},
        {NULL, "SUBNET", "10.0.0.7", NULL,
         DOMAIN(AUTO "<Peer address=\"10.0.0.7\"/></Peers></Discovery>"),
         "of the library's choice and 1 peer (ROS_STATIC_PEERS)"},
        {NULL, NULL, NULL, "eth0", DOMAIN(ETH0), "eth0"},
        {"1", NULL, NULL, "eth0", DOMAIN(ETH0), "eth0"},
        {NULL, "OFF", NULL, "eth0", DOMAIN(ETH0), "eth0"},
        {NULL, "LOCALHOST", "10.0.0.7", "eth0",
         DOMAIN(ETH0 AUTO "<Peer address=\"10.0.0.7\"/></Peers></Discovery>"),
         "eth0 and 1 peer (ROS_STATIC_PEERS)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *ros_interface = cases[i].ros_interface;
        const struct ros_discovery asked =
            ask(cases[i].localhost_only, cases[i].range, cases[i].peers, ros_interface);
        char *config, described[200];
        assert_int_equal(ros_discovery_configure(&asked, ros_interface, NULL, &config), 0);
        ros_discovery_describe(&asked, ros_interface, NULL, described, sizeof described);
        assert_string_equal(described, cases[i].described);
        if (cases[i].config)
            assert_string_equal(config, cases[i].config);
        else
            assert_null(config);
        free(config);
    }
}

// Nobody else's tag is the process's.
static void off(void **state)
{
    (void)state;
    char *config, expected[300], described[200];
    const struct ros_discovery asked = ask(NULL, "OFF", NULL, NULL);
    snprintf(expected, sizeof expected,
             "<CycloneDDS><Domain>" UNICAST "<Discovery><ParticipantIndex>none</ParticipantIndex>"
             "<Tag>ros_discovery_off_%ld</Tag></Discovery></Domain></CycloneDDS>",
             (long)getpid());
    assert_int_equal(ros_discovery_configure(&asked, NULL, NULL, &config), 0);
    assert_string_equal(config, expected);
    free(config);
    assert_string_equal(said, "environment ROS_AUTOMATIC_DISCOVERY_RANGE=OFF: no other program "
                              "finds the topics of this one, nor does it find any\n");
    ros_discovery_describe(&asked, NULL, NULL, described, sizeof described);
    assert_string_equal(described, "of the library's choice, no other program "
                                   "(ROS_AUTOMATIC_DISCOVERY_RANGE)");
}

// Of the library's own file, too.
static void cyclonedds_uri(void **state)
{
    (void)state;
    char *config, described[200];
    struct ros_discovery asked = ask("1", NULL, NULL, NULL);
    assert_int_equal(ros_discovery_configure(&asked, NULL, "file:///x.xml", &config), 0);
    assert_string_equal(config, DOMAIN(LO AUTO "<Peer address=\"127.0.0.1\"/></Peers>"
                                               "</Discovery>") ",file:///x.xml");
    free(config);
    ros_discovery_describe(&asked, NULL, "file:///x.xml", described, sizeof described);
    assert_string_equal(described, "lo (ROS_LOCALHOST_ONLY) and as CYCLONEDDS_URI says");
    asked = ask(NULL, NULL, NULL, NULL);
    assert_int_equal(ros_discovery_configure(&asked, NULL, "file:///x.xml", &config), 0);
    assert_null(config); // which reads it by itself
    ros_discovery_describe(&asked, NULL, "file:///x.xml", described, sizeof described);
    assert_string_equal(described, "as CYCLONEDDS_URI says");
}

static void warnings(void **state)
{
    (void)state;
    static const struct {
        const char *localhost_only, *range, *peers, *ros_interface, *said;
    } cases[] = {
        {NULL, NULL, NULL, NULL, ""},
        {"0", "SUBNET", "10.0.0.7;[fe80::1%eth0];host:7400", NULL, ""},
        {"1", NULL, NULL, "lo", ""},
        {"1", "LOCALHOST", NULL, NULL, ""},
        {"yes", NULL, NULL, NULL,
         "environment ROS_LOCALHOST_ONLY: \"yes\" is neither 0 nor 1: taken for 0, as ROS does\n"},
        {NULL, "off", NULL, NULL,
         "environment ROS_AUTOMATIC_DISCOVERY_RANGE: \"off\" is none of OFF, LOCALHOST, SUBNET and "
         "SYSTEM_DEFAULT: taken for LOCALHOST, as ROS does\n"},
        {"1", "OFF", "10.0.0.7", NULL,
         "environment ROS_LOCALHOST_ONLY=1 counts, not ROS_AUTOMATIC_DISCOVERY_RANGE, as with "
         "ROS\n"
         "environment ROS_STATIC_PEERS does not count beside ROS_LOCALHOST_ONLY=1, as with ROS\n"},
        {NULL, "SYSTEM_DEFAULT", "10.0.0.7", NULL,
         "environment ROS_STATIC_PEERS does not count beside "
         "ROS_AUTOMATIC_DISCOVERY_RANGE=SYSTEM_DEFAULT, as with ROS\n"},
        {NULL, NULL, "10.0.0.7 10.0.0.8", NULL,
         "environment ROS_STATIC_PEERS: \"10.0.0.7 10.0.0.8\" is no address and no name: left "
         "out\n"},
        {"1", NULL, NULL, "eth0",
         "ROS 2: ros.interface = eth0 counts, not ROS_LOCALHOST_ONLY of the environment\n"},
        {NULL, "OFF", NULL, "eth0",
         "ROS 2: ros.interface = eth0 counts, not ROS_AUTOMATIC_DISCOVERY_RANGE of the "
         "environment\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(cases[i].localhost_only, cases[i].range, cases[i].peers, cases[i].ros_interface);
        assert_string_equal(said, cases[i].said);
    }
    char peers[400];
    memset(peers, 'a', sizeof peers);
    peers[sizeof peers - 1] = 0;
    ask(NULL, NULL, peers, NULL);
    assert_non_null(strstr(said, "aaa\" is no address and no name: left out\n"));
}

static void without_memory(void **state)
{
    (void)state;
    const struct ros_discovery asked = ask("1", NULL, NULL, NULL);
    char *config;
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(ros_discovery_configure(&asked, NULL, NULL, &config), -ENOMEM);
    assert_int_equal(fails_end(), 1);
    assert_null(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations), cmocka_unit_test(off),
        cmocka_unit_test(cyclonedds_uri), cmocka_unit_test(warnings),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
