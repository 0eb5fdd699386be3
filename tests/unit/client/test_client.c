// SPDX-License-Identifier: Apache-2.0
// libposed against sockets of this test's own: what a program holds stays, a request that nobody
// answers leaves nothing behind, queues of images are short, cameras are known by their names.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <zmq.h>

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/wire.h"
#include "tests/unit/scratch.h"
#include "tools/client/posed.h"

#define WAIT_MS     10000
#define IMAGE_BYTES 600000
#define N_IMAGES    60
#define MAX_QUEUED  10 // 4 in the client's queue, and what the system keeps of the socket

static struct scratch scratch;
static void *context;
static int n_open; // sockets of the daemon's ends

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    context = zmq_ctx_new();
    return context ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    if (n_open == 0) // zmq_ctx_term waits for the sockets that a failed test left open
        zmq_ctx_term(context);
    scratch_remove(&scratch);
    return 0;
}

// The daemon's end of a socket.
static void *open_end(int type, const char *name)
{
    const int linger_ms = 0, timeout_ms = WAIT_MS, queue = type == ZMQ_XPUB ? 1 : 1000;
    char address[300];
    void *socket = zmq_socket(context, type);
    snprintf(address, sizeof address, "ipc://%s/%s", scratch.path, name);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    if (strcmp(name, "img") == 0)
        zmq_setsockopt(socket, ZMQ_SNDHWM, &queue, sizeof queue);
    assert_int_equal(zmq_bind(socket, address), 0);
    n_open++;
    return socket;
}

static void close_end(void *end)
{
    zmq_close(end);
    n_open--;
}

static struct posed *connect_client(const char *camera, unsigned timeout_ms)
{
    const struct posed_options options = {
        .where = scratch.path, .timeout_ms = timeout_ms, .camera = camera};
    struct posed *client;
    assert_int_equal(posed_connect(&client, &options), 0);
    return client;
}

static void receive_subscription(void *end, char out_topic[64])
{
    char bytes[64] = "";
    int n = zmq_recv(end, bytes, sizeof bytes - 1, 0);
    assert_true(n > 0);
    assert_int_equal(bytes[0], 1);
    assert_int_equal(strlen(bytes + 1), n - 1);
    strcpy(out_topic, bytes + 1);
}

static void await_subscription(void *end, const char *topic)
{
    char came[64];
    receive_subscription(end, came);
    assert_string_equal(came, topic);
}

// In any order: those of before the connection stands come by their names.
static void await_subscriptions(void *end, const char *a, const char *b)
{
    char came[2][64];
    for (int i = 0; i < 2; i++)
        receive_subscription(end, came[i]);
    const int first = strcmp(came[0], a) == 0 ? 0 : 1;
    assert_string_equal(came[first], a);
    assert_string_equal(came[1 - first], b);
}

static void publish(void *end, const char *topic, const pb_msgdesc_t *fields, const void *message)
{
    uint8_t bytes[4096];
    int n = wire_encode(fields, message, bytes, sizeof bytes);
    assert_true(n >= 0);
    if (topic)
        assert_true(zmq_send(end, topic, strlen(topic), ZMQ_SNDMORE) >= 0);
    assert_true(zmq_send(end, bytes, (size_t)n, 0) >= 0);
}

static void publish_pose(void *end, const char *topic, uint64_t seq)
{
    posed_Odometry pose = posed_Odometry_init_zero;
    pose.seq = seq;
    publish(end, topic, posed_Odometry_fields, &pose);
}

static posed_Status status_of(const char *first, const char *second)
{
    posed_Status status = posed_Status_init_zero;
    if (first) {
        status.cameras_count = 2;
        strcpy(status.cameras[0], first);
        strcpy(status.cameras[1], second);
    }
    return status;
}

static void a_message_stays(void **state)
{
    (void)state;
    void *pub = open_end(ZMQ_XPUB, "pub"), *latest = open_end(ZMQ_XPUB, "latest");
    struct posed *client = connect_client(NULL, 20);
    struct posed_message message;
    struct posed_pose pose;
    uint8_t was[4096];
    int error = -EAGAIN;
    posed_Status status = status_of("left", "right");
    assert_int_equal(posed_subscribe(client, "status"), 0);
    await_subscription(pub, "status");
    assert_int_equal(posed_next(client, 0, &pose), -EAGAIN); // subscribes
    await_subscription(pub, "pose");
    memset(status.source, 's', sizeof status.source - 1); // too long to stand in a zmq_msg_t
    publish(pub, "status", posed_Status_fields, &status);
    assert_int_equal(posed_receive(client, WAIT_MS, &message), 0);
    assert_true(message.n_bytes > 200 && message.n_bytes < sizeof was);
    memcpy(was, message.bytes, message.n_bytes);
    publish_pose(pub, "pose", 7);
    assert_int_equal(posed_next(client, WAIT_MS, &pose), 0);
    assert_int_equal(pose.seq, 7);
    for (int i = 0; i < 200 && error; i++) { // until it has subscribed
        publish_pose(latest, NULL, 8);
        error = posed_newest(client, &pose);
    }
    assert_int_equal(error, 0);
    assert_string_equal(message.topic, "status");
    assert_memory_equal(message.bytes, was, message.n_bytes);
    posed_close(&client);
    close_end(pub);
    close_end(latest);
}

// Receives a request, with who sent it; returns its length.
static int receive_request(void *end, uint8_t who[16], int *n_who, uint8_t bytes[512])
{
    *n_who = zmq_recv(end, who, 16, 0);
    assert_true(*n_who > 0);
    return zmq_recv(end, bytes, 512, 0);
}

static void answer(void *end, const uint8_t *who, int n_who, const char *payload)
{
    char bytes[64];
    int n = snprintf(bytes, sizeof bytes, "%s%s", WIRE_MAGIC, payload);
    assert_true(zmq_send(end, who, (size_t)n_who, ZMQ_SNDMORE) >= 0);
    assert_true(zmq_send(end, bytes, (size_t)n, 0) >= 0);
}

// As of a daemon that hangs: its queue is full.
static void what_is_full_is_there(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct posed *client = connect_client(NULL, 1);
    int fds[8];
    snprintf(address.sun_path, sizeof address.sun_path, "%s/req", scratch.path);
    unlink(address.sun_path); // of another test
    for (int i = 0; i < 8; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0);
        const int error = i == 0 ? bind(fds[i], (void *)&address, sizeof address)
                                 : connect(fds[i], (void *)&address, sizeof address);
        assert_true(error == 0 || (i > 0 && errno == EAGAIN));
        if (i == 0)
            assert_int_equal(listen(fds[i], 0), 0);
    }
    assert_int_equal(posed_reset(client, true), -ETIMEDOUT);
    assert_non_null(strstr(posed_error(client), "it takes no more connections: a posed that"));
    posed_close(&client);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    unlink(address.sun_path);
}

static void an_unanswered_request_goes(void **state)
{
    (void)state;
    struct posed *client = connect_client(NULL, 1);
    const void *reply;
    size_t n_reply;
    struct posed_pose pose;
    assert_int_equal(posed_reset(client, true), -ETIMEDOUT);
    assert_non_null(strstr(posed_error(client), scratch.path));
    assert_non_null(strstr(posed_error(client), "nothing listens there"));
    assert_int_equal(posed_pose_at(client, 0, &pose), -ETIMEDOUT);
    void *req = open_end(ZMQ_ROUTER, "req");
    zmq_pollitem_t item = {.socket = req, .events = ZMQ_POLLIN};
    assert_int_equal(zmq_poll(&item, 1, 400), 0); // nothing is carried out late
    // one that came, and is answered when the next one waits: its answer is not the next one's
    assert_int_equal(posed_request(client, "one", 3, &reply, &n_reply), -ETIMEDOUT);
    assert_non_null(strstr(posed_error(client), "something listens there"));
    uint8_t who[16], bytes[512];
    int n_who;
    assert_int_equal(receive_request(req, who, &n_who, bytes), WIRE_MAGIC_BYTES + 3);
    assert_memory_equal(bytes + WIRE_MAGIC_BYTES, "one", 3);
    answer(req, who, n_who, "late");
    assert_int_equal(posed_request(client, "two", 3, &reply, &n_reply), -ETIMEDOUT);
    posed_close(&client);
    close_end(req);
}

static void no_pose_says_why(void **state)
{
    (void)state;
    struct posed *client = connect_client(NULL, 20);
    struct posed_pose pose;
    assert_string_equal(posed_error(client), "");
    assert_int_equal(posed_newest(client, &pose), -EAGAIN);
    assert_non_null(strstr(posed_error(client), "/latest within 20 ms: nothing listens there"));
    void *latest = open_end(ZMQ_XPUB, "latest");
    assert_int_equal(posed_newest(client, &pose), -EAGAIN);
    assert_non_null(strstr(posed_error(client), "something listens there"));
    int error = -EAGAIN;
    for (int i = 0; i < 200 && error; i++) { // until it has subscribed
        publish_pose(latest, NULL, 8);
        error = posed_newest(client, &pose);
    }
    assert_int_equal(error, 0);
    assert_non_null(strstr(posed_error(client), "something listens there")); // the last failure's
    posed_close(&client);
    close_end(latest);
}

static void images_do_not_pile_up(void **state)
{
    (void)state;
    void *img = open_end(ZMQ_XPUB, "img");
    struct posed *client = connect_client(NULL, WAIT_MS);
    struct posed_message message;
    static uint8_t image[IMAGE_BYTES];
    int n = 0;
    assert_int_equal(posed_subscribe(client, "depth"), 0);
    await_subscription(img, "depth");
    for (int i = 0; i < N_IMAGES; i++) {
        assert_true(zmq_send(img, "depth", 5, ZMQ_SNDMORE) >= 0);
        assert_true(zmq_send(img, image, sizeof image, 0) >= 0);
        usleep(5000); // the slow client takes none
    }
    while (posed_receive(client, 200, &message) == 0) {
        assert_int_equal(message.n_bytes, IMAGE_BYTES);
        n++;
    }
    print_message("%d of %d images had waited\n", n, N_IMAGES);
    assert_in_range(n, 1, MAX_QUEUED);
    posed_close(&client);
    close_end(img);
}

static void cameras_have_names(void **state)
{
    (void)state;
    void *pub = open_end(ZMQ_XPUB, "pub");
    struct posed_pose pose;
    struct posed_message message;
    posed_Status status = status_of("left", "right");
    struct posed *client = connect_client("right", WAIT_MS);
    assert_int_equal(posed_next(client, 0, &pose), -EAGAIN);
    await_subscriptions(pub, "status", "pose/right");
    publish(pub, "status/left", posed_Status_fields, &status);
    publish_pose(pub, "pose/left", 1);
    publish_pose(pub, "pose/right", 2);
    assert_int_equal(posed_next(client, WAIT_MS, &pose), 0);
    assert_int_equal(pose.seq, 2);
    assert_int_equal(posed_next(client, 100, &pose), -EAGAIN);
    posed_close(&client);

    client = connect_client("top", WAIT_MS);
    assert_int_equal(posed_next(client, 100, &pose), -EAGAIN); // no daemon has said anything yet
    publish(pub, "status/left", posed_Status_fields, &status);
    assert_int_equal(posed_next(client, WAIT_MS, &pose), -ENODEV);
    assert_string_equal(posed_error(client), "no camera \"top\": there are left, right");
    posed_close(&client);

    client = connect_client(NULL, WAIT_MS);
    assert_int_equal(posed_subscribe(client, "pose/left"), 0);
    assert_int_equal(posed_receive(client, 100, &message), -EAGAIN);
    status = status_of(NULL, NULL);
    publish(pub, "status", posed_Status_fields, &status);
    assert_int_equal(posed_receive(client, WAIT_MS, &message), -ENODEV);
    assert_non_null(strstr(posed_error(client), "there is one, and it has no name"));
    posed_close(&client);
    close_end(pub);
}

static void poses_have_their_numbers(void **state)
{
    (void)state;
    void *pub = open_end(ZMQ_XPUB, "pub");
    struct posed *client = connect_client(NULL, WAIT_MS);
    struct posed_pose pose;
    posed_Odometry sent = posed_Odometry_init_zero;
    sent.session = UINT64_MAX;
    sent.seq = 3;
    sent.timestamp = (posed_Timestamp){1700000000, 123456789};
    sent.has_timestamp = sent.has_pose = sent.pose.has_position = sent.pose.has_orientation = true;
    sent.pose.position = (posed_Vector3){1, 2, 3};
    sent.pose.orientation = (posed_Quaternion){0.1, 0.2, 0.3, 0.9};
    sent.state = posed_State_STATE_DEGRADED;
    sent.map_epoch = 5;
    sent.capture_monotonic_ns = 99;
    sent.pose_covariance_count = 36;
    for (int i = 0; i < 36; i++)
        sent.pose_covariance[i] = i;
    assert_int_equal(posed_next(client, 0, &pose), -EAGAIN); // subscribes
    await_subscription(pub, "pose");
    publish(pub, "pose", posed_Odometry_fields, &sent);
    assert_int_equal(posed_next(client, WAIT_MS, &pose), 0);
    assert_true(pose.session == UINT64_MAX && pose.seq == 3 && pose.map_epoch == 5);
    assert_true(pose.time_ns == INT64_C(1700000000123456789));
    assert_true(pose.captured_ns == 99);
    assert_int_equal(pose.state, posed_State_STATE_DEGRADED);
    for (int i = 0; i < 3; i++)
        assert_true(pose.position_m[i] == i + 1);
    assert_true(pose.orientation_xyzw[0] == 0.1 && pose.orientation_xyzw[3] == 0.9);
    for (int i = 0; i < 36; i++)
        assert_true(pose.covariance[i] == i);
    posed_close(&client);
    close_end(pub);
}

static void topics_have_names(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "pos", "poses", "pose left", "everything", "/pose"};
    static const char *const topics[][2] = {
        {"rig", "rig"}, {"log", "log"}, {"tf", "tf/left"}, {"event/right", "event/right"}};
    void *pub = open_end(ZMQ_XPUB, "pub");
    struct posed *client = connect_client("left", WAIT_MS);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(posed_subscribe(client, wrong[i]), -EINVAL);
        assert_non_null(strstr(posed_error(client), "no topic"));
    }
    for (int i = 0; i < 2; i++) { // of the daemon, not of a camera
        assert_int_equal(posed_subscribe(client, topics[i][0]), 0);
        await_subscription(pub, topics[i][1]);
    }
    for (int i = 2; i < 4; i++) {
        assert_int_equal(posed_subscribe(client, topics[i][0]), 0);
        if (i == 2)
            await_subscriptions(pub, "status", topics[i][1]);
        else
            await_subscription(pub, topics[i][1]);
    }
    posed_close(&client);
    close_end(pub);
}

// A client of both sockets gets from each in turn, however many wait at one.
static void two_sockets_take_turns(void **state)
{
    (void)state;
    static const char *const wanted[] = {"status", "depth", "status", "depth", "status", "status"};
    void *pub = open_end(ZMQ_XPUB, "pub"), *img = open_end(ZMQ_XPUB, "img");
    struct posed *client = connect_client(NULL, WAIT_MS);
    struct posed_message message;
    assert_int_equal(posed_subscribe(client, "status"), 0);
    assert_int_equal(posed_subscribe(client, "depth"), 0);
    await_subscription(pub, "status");
    await_subscription(img, "depth");
    for (int i = 0; i < 4; i++) {
        assert_true(zmq_send(pub, "status", 6, ZMQ_SNDMORE) >= 0);
        assert_true(zmq_send(pub, "", 0, 0) >= 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(zmq_send(img, "depth", 5, ZMQ_SNDMORE) >= 0);
        assert_true(zmq_send(img, "", 0, 0) >= 0);
        usleep(50000); // both are there
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        assert_int_equal(posed_receive(client, WAIT_MS, &message), 0);
        assert_string_equal(message.topic, wanted[i]);
    }
    posed_close(&client);
    close_end(pub);
    close_end(img);
}

static void requests_name_the_camera(void **state)
{
    (void)state;
    void *req = open_end(ZMQ_ROUTER, "req");
    struct posed *client = connect_client("left", 300);
    const void *reply;
    size_t n_reply;
    uint8_t who[16], bytes[512];
    int n_who;
    posed_Request request = posed_Request_init_zero, got;
    strcpy(request.camera, "right");
    request.which_what = posed_Request_ping_tag;
    const char *wanted[] = {"left", "right"}; // the client's own, unless the request has one
    for (int i = 0; i < 2; i++) {
        uint8_t encoded[64] = "\x52\x00"; // ping
        int n = i ? wire_encode(posed_Request_fields, &request, encoded, sizeof encoded) : 2;
        assert_int_equal(posed_request(client, encoded, (size_t)n, &reply, &n_reply), -ETIMEDOUT);
        n = receive_request(req, who, &n_who, bytes);
        assert_int_equal(wire_decode(posed_Request_fields, bytes + WIRE_MAGIC_BYTES,
                                     (size_t)(n - WIRE_MAGIC_BYTES), &got),
                         0);
        assert_string_equal(got.camera, wanted[i]);
        assert_int_equal(got.which_what, posed_Request_ping_tag);
    }
    posed_close(&client);
    close_end(req);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    char text[1000] = "";
    memset(text, 'a', sizeof text - 1);
    const struct posed_options wrong[] = {
        {.where = text}, {.camera = text}, {.server_key = "short"}, {.key_file = "/dev/null"}};
    struct posed *client;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(posed_connect(&client, &wrong[i]), -EINVAL);
        assert_null(client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_stays),          cmocka_unit_test(an_unanswered_request_goes),
        cmocka_unit_test(what_is_full_is_there),    cmocka_unit_test(images_do_not_pile_up),
        cmocka_unit_test(cameras_have_names),       cmocka_unit_test(poses_have_their_numbers),
        cmocka_unit_test(topics_have_names),        cmocka_unit_test(two_sockets_take_turns),
        cmocka_unit_test(requests_name_the_camera), cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(no_pose_says_why),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
