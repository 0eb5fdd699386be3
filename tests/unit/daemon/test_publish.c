// SPDX-License-Identifier: Apache-2.0
// The publisher behind its sockets: who gets what by which prefix, what is wanted while somebody is
// there and not afterwards, and what a new subscriber gets of what was said before.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/publish.h"
#include "tests/unit/daemon/zmtp_client.h"

#define WAIT_S 10

static struct endpoint *endpoint;
static struct publish *publisher;
static struct config config;

static int start(void **state)
{
    setup(state);
    const struct log_sink log = scratch_log(&scratch);
    const struct publish_settings both = {.cameras = {"left", "right"}, .n_cameras = 2};
    config_default(&config);
    snprintf(config.endpoints.run_dir, sizeof config.endpoints.run_dir, "%s", scratch.path);
    for (char **at =
             (char *[]){config.endpoints.pub, config.endpoints.latest, config.endpoints.img, NULL};
         *at; at++)
        strcpy(*at, "ipc");
    return endpoint_open(&endpoint, &config, &log) ||
           publish_create(&publisher, endpoint, &config, &both, &log);
}

static int stop(void **state)
{
    (void)state;
    publish_destroy(&publisher, 100);
    endpoint_close(&endpoint);
    scratch_remove(&scratch);
    return 0;
}

static void read_all(int fd, uint8_t *out, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t got = recv(fd, out + at, n - at, 0);
        assert_true(got > 0);
        at += (size_t)got;
    }
}

// Reads a part; false: it is a command, passed over.
static bool read_part(int fd, char out[256], size_t *out_n)
{
    uint8_t head[2];
    read_all(fd, head, 2);
    assert_int_equal(head[0] & 2, 0); // short ones
    read_all(fd, (uint8_t *)out, head[1]);
    out[head[1]] = 0;
    *out_n = head[1];
    return !(head[0] & 4);
}

static int join_socket(const char *name)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    const struct timeval limit = {WAIT_S, 0};
    uint8_t bytes[512];
    char part[256];
    size_t n;
    snprintf(place.sun_path, sizeof place.sun_path, "%s/%s", scratch.path, name);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (void *)&place, sizeof place), 0);
    const size_t n_hello = client_hello("SUB", bytes);
    assert_int_equal(send(fd, bytes, n_hello, MSG_NOSIGNAL), n_hello);
    read_all(fd, bytes, ZMTP_GREETING_BYTES);
    assert_false(read_part(fd, part, &n)); // READY
    return fd;
}

static void subscribe(int fd, bool on, const char *prefix)
{
    uint8_t bytes[128], body[64] = {on};
    memcpy(body + 1, prefix, strlen(prefix));
    const size_t n = client_frame(false, false, body, 1 + strlen(prefix), bytes);
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
}

static void await(uint32_t camera, enum publish_topic topic, bool wanted)
{
    for (int i = 0; i < WAIT_S * 1000; i++) {
        if (publish_wants(publish_channel(publisher, camera), topic) == wanted)
            return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    fail_msg("topic %d of camera %u is %s", (int)topic, camera, wanted ? "not wanted" : "wanted");
}

static void say(uint32_t camera, enum publish_topic topic, const char *text)
{
    assert_true(publish_send(publish_channel(publisher, camera), topic, text, strlen(text)));
}

static void assert_next(int fd, const char *topic, const char *text)
{
    char part[256];
    size_t n;
    if (topic) {
        assert_true(read_part(fd, part, &n));
        assert_string_equal(part, topic);
    }
    assert_true(read_part(fd, part, &n));
    assert_string_equal(part, text);
}

static void wanted_while_somebody_is_there(void **state)
{
    (void)state;
    int one = join_socket("img"), two = join_socket("img");
    subscribe(one, true, "depth/left");
    await(0, PUBLISH_DEPTH, true);
    assert_false(publish_wants(publish_channel(publisher, 1), PUBLISH_DEPTH));
    assert_false(publish_wants(publish_channel(publisher, 0), PUBLISH_NORMALS));
    subscribe(two, true, "depth");
    await(1, PUBLISH_DEPTH, true);
    subscribe(one, false, "depth/left");
    subscribe(one, true, "normals/left"); // after that
    await(0, PUBLISH_NORMALS, true);
    assert_true(publish_wants(publish_channel(publisher, 0), PUBLISH_DEPTH)); // the other one
    subscribe(two, true, "depth");                                            // twice is once
    subscribe(two, false, "depth");
    await(0, PUBLISH_DEPTH, false);
    await(1, PUBLISH_DEPTH, false);
    close(one); // gone with its subscription
    await(0, PUBLISH_NORMALS, false);
    subscribe(two, true, "depth/right");
    await(1, PUBLISH_DEPTH, true);
    close(two);
    await(1, PUBLISH_DEPTH, false);
}

static void prefixes(void **state)
{
    (void)state;
    int all = join_socket("pub"), left = join_socket("pub"), longer = join_socket("pub");
    assert_false(publish_wants_any_pose(publish_channel(publisher, 0)));
    subscribe(all, true, "po");
    subscribe(left, true, "pose/left");
    subscribe(longer, true, "pose/lefty"); // nothing that is sent
    subscribe(longer, true, "tf/right");
    await(0, PUBLISH_POSE, true);
    await(1, PUBLISH_POSE, true);
    await(1, PUBLISH_TF, true);
    say(1, PUBLISH_POSE, "of the right");
    assert_next(all, "pose/right", "of the right"); // cameras send beside each other
    say(0, PUBLISH_POSE, "of the left");
    say(1, PUBLISH_TF, "a transform");
    assert_next(all, "pose/left", "of the left");
    assert_next(left, "pose/left", "of the left");
    assert_next(longer, "tf/right", "a transform");
    assert_false(publish_wants(publish_channel(publisher, 0), PUBLISH_TF));
    close(all);
    close(left);
    close(longer);
    await(0, PUBLISH_POSE, false);
    assert_false(publish_wants_any_pose(publish_channel(publisher, 1)));
}

static void what_was_said_before(void **state)
{
    (void)state;
    say(0, PUBLISH_CALIB, "old calibration");
    say(0, PUBLISH_CALIB, "calibration");
    say(0, PUBLISH_STATUS, "status");
    say(0, PUBLISH_POSE, "a pose that nobody waited for");
    int fd = join_socket("pub");
    subscribe(fd, true, "calib");
    assert_next(fd, "calib/left", "calibration");
    subscribe(fd, true, "status/left");
    assert_next(fd, "status/left", "status");
    subscribe(fd, true, "pose/left");
    await(0, PUBLISH_POSE, true);
    subscribe(fd, false, "calib"); // that says nothing
    say(0, PUBLISH_POSE, "a pose");
    assert_next(fd, "pose/left", "a pose");
    close(fd);
}

// The newest pose of the first camera, in one part.
static void latest(void **state)
{
    (void)state;
    int fd = join_socket("latest"), pub = join_socket("pub");
    subscribe(fd, true, "");
    subscribe(pub, true, "pose/left");
    await(0, PUBLISH_POSE, true);
    for (int i = 0; i < 200; i++) { // until both are there
        say(1, PUBLISH_POSE, "of the right");
        say(0, PUBLISH_POSE, "of the left");
        assert_next(pub, "pose/left", "of the left");
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    assert_next(fd, NULL, "of the left");
    close(fd);
    close(pub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wanted_while_somebody_is_there, start, stop),
        cmocka_unit_test_setup_teardown(prefixes, start, stop),
        cmocka_unit_test_setup_teardown(what_was_said_before, start, stop),
        cmocka_unit_test_setup_teardown(latest, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
