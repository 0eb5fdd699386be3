// SPDX-License-Identifier: Apache-2.0
// Whom nodes are told to, with several daemons in one domain. What programs of ROS take of it is
// tested by the scenario 252.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <dds/dds.h>
#include <ros_types.h> // of ros_types.idl
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/ros/dds.h"
#include "capture/ros/discover.h"
#include "capture/ros/node_info.h"
#include "capture/ros/type_hash.h"
#include "proto/clock.h"

#define TOPIC     "ros_discovery_info"
#define TYPE      rmw_dds_common_msg_dds__ParticipantEntitiesInfo__desc
#define N         2
#define PATIENCE  INT64_C(20000000000)
#define TWO_LOOKS INT64_C(2500000000)

static uint32_t domain; // of this process
static dds_entity_t daemons[N], watcher, publications;
static struct ros_node_info *nodes[N];

static dds_entity_t participant(void)
{
    static const struct log_sink nobody = {NULL, NULL};
    dds_entity_t made = ros_dds_participant(&(struct ros_dds_place){domain, "test", NULL}, &nobody);
    assert_true(made > 0);
    return made;
}

// A program that tells of its nodes, by the type that we know or by another; dds_delete ends it.
static dds_entity_t program(bool is_known)
{
    dds_entity_t made = participant();
    dds_entity_t topic = dds_create_topic(made, &TYPE, TOPIC, NULL, NULL);
    dds_qos_t *qos = ros_dds_qos(is_known ? TYPE.m_typename : "", true, 1, true);
    assert_true(dds_create_writer(made, topic, qos, NULL) > 0);
    dds_delete_qos(qos);
    return made;
}

// How many writers of the topic there are; out NULL: only that, else the last one's user data.
static int count_writers(char out[200])
{
    void *samples[64] = {NULL};
    dds_sample_info_t infos[64];
    int n_writers = 0;
    const int n = dds_read_mask(publications, samples, infos, 64, 64,
                                DDS_ANY_STATE & ~DDS_NOT_ALIVE_DISPOSED_INSTANCE_STATE &
                                    ~DDS_NOT_ALIVE_NO_WRITERS_INSTANCE_STATE);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        const dds_builtintopic_endpoint_t *endpoint = samples[i];
        void *data = NULL;
        size_t n_data = 0;
        if (!infos[i].valid_data || strcmp(endpoint->topic_name, TOPIC) != 0)
            continue;
        n_writers++;
        if (out && dds_qget_userdata(endpoint->qos, &data, &n_data))
            snprintf(out, 200, "%.*s", (int)n_data, data ? (const char *)data : "");
        dds_free(data);
    }
    dds_return_loan(publications, samples, n);
    return n_writers;
}

// Lets daemons look until there are that many writers, which then stay for `then_ns`.
static void assert_writers(int n_wanted, int64_t then_ns)
{
    const int64_t begin_ns = clock_monotonic_ns();
    int64_t since_ns = INT64_MAX;
    for (int64_t now_ns = begin_ns; now_ns - begin_ns < PATIENCE; now_ns = clock_monotonic_ns()) {
        for (int i = 0; i < N; i++)
            ros_node_info_update(nodes[i]);
        if (count_writers(NULL) != n_wanted)
            since_ns = INT64_MAX;
        else if (since_ns == INT64_MAX)
            since_ns = now_ns;
        if (since_ns != INT64_MAX && now_ns - since_ns >= then_ns)
            return;
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    fail_msg("%d writers, wanted %d", count_writers(NULL), n_wanted);
}

static int begin(void **state)
{
    (void)state;
    domain = 10 + (uint32_t)getpid() % 200;
    for (int i = 0; i < N; i++) {
        daemons[i] = participant();
        assert_int_equal(ros_node_info_create(&nodes[i], daemons[i], "/", "posed", NULL, 0), 0);
    }
    watcher = participant();
    publications = dds_create_reader(watcher, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, NULL, NULL);
    assert_true(publications > 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        ros_node_info_destroy(&nodes[i]);
        dds_delete(daemons[i]);
    }
    dds_delete(watcher);
    return 0;
}

// What one daemon tells is no reason for the other: a program of Humble that starts when all others
// have gone would get what is kept, which ends it.
static void silent_when_the_last_program_has_gone(void **state)
{
    (void)state;
    assert_writers(0, TWO_LOOKS);
    dds_entity_t iron = program(true);
    assert_writers(1 + N, TWO_LOOKS);
    dds_delete(iron);
    assert_writers(0, TWO_LOOKS);
}

static void silent_beside_another_type(void **state)
{
    (void)state;
    dds_entity_t iron = program(true);
    assert_writers(1 + N, 0);
    dds_entity_t humble = program(false);
    assert_writers(2, TWO_LOOKS);
    dds_delete(humble);
    assert_writers(1 + N, 0);
    dds_delete(iron);
    assert_writers(0, 0);
}

// ROS takes the user data for KEY=VALUE; one after another, keys of letters and digits, and has no
// hash where anything in them is else.
static void user_data_as_ros_reads_them(void **state)
{
    (void)state;
    char data[200];
    const char *hash = ros_type_hash(TYPE.m_typename);
    dds_entity_t iron = program(true);
    assert_writers(1 + N, 0);
    dds_delete(iron);
    for (int64_t begin_ns = clock_monotonic_ns(); count_writers(data) != N;)
        assert_true(clock_monotonic_ns() - begin_ns < PATIENCE);
    assert_memory_equal(data, hash, strlen(hash));
    for (const char *at = data; *at; at = strchr(at, ';') + 1) {
        size_t n_key = 0;
        while (isalnum((unsigned char)at[n_key]))
            n_key++;
        assert_true(n_key > 0 && at[n_key] == '=' && at[n_key + 1] != ';');
        assert_non_null(strchr(at, ';'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(silent_when_the_last_program_has_gone, begin, end),
        cmocka_unit_test_setup_teardown(silent_beside_another_type, begin, end),
        cmocka_unit_test_setup_teardown(user_data_as_ros_reads_them, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
