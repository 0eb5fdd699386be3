// SPDX-License-Identifier: Apache-2.0
// The thread of the page between its viewers and a publisher and a request socket that do as the
// test says: too many viewers, messages that come faster than it takes them, requests that nobody
// may send, and no memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/web/web.h"
#include "proto/wire.h"
#include "tests/unit/fails.h"
#include "tests/unit/scratch.h"

#define LIMIT_MS      10000 // of a wait; a busy machine
#define CHANNEL_POSE  1
#define CHANNEL_DEPTH 10
#define PREVIEW       14
#define SURFACE       15
#define OWN_REQUEST   (UINT64_MAX - CONFIG_MAX_CAMERAS)

// ---- What the web thread calls, instead of the daemon's

static void (*take)(void *, enum publish_topic, const uint8_t *, size_t);
static void (*answered)(void *, const uint8_t *, size_t);
static void *take_user, *answered_user;
static _Atomic uint32_t topics;
static _Atomic int ask_result, n_asked, n_wrong, n_closed;
static _Atomic bool holds;
static sem_t held, go_on;

void publish_listen(struct publish_channel *channel,
                    void (*f)(void *, enum publish_topic, const uint8_t *, size_t), void *user)
{
    (void)channel;
    take = f;
    take_user = user;
}

void publish_listen_to(struct publish_channel *channel, uint32_t wanted)
{
    (void)channel;
    topics = wanted;
}

void requests_listen(struct requests *requests, void (*f)(void *, const uint8_t *, size_t),
                     void *user)
{
    (void)requests;
    answered = f;
    answered_user = user;
}

int requests_ask(struct requests *requests, const uint8_t *request, size_t n)
{
    (void)requests;
    n_wrong += n <= WIRE_MAGIC_BYTES || memcmp(request, WIRE_MAGIC, WIRE_MAGIC_BYTES) != 0;
    n_asked++;
    if (atomic_exchange(&holds, false)) {
        sem_post(&held);
        sem_wait(&go_on);
    }
    return ask_result;
}

const struct shared_info *shared_info(const struct shared *shared)
{
    static const struct shared_info info = {.session = 0x1234};
    (void)shared;
    return &info;
}

// ---- A client

static struct web *web;
static struct scratch scratch;
static int clients[WEB_MAX_VIEWERS + 1];
static int n_clients;

static void on_close(void *user)
{
    close((int)(intptr_t)user);
    n_closed++;
}

static bool arrive(enum handshake_protocol protocol, bool may_control, const char *early)
{
    int pair[2];
    const struct timeval limit = {LIMIT_MS / 1000, 0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    setsockopt(pair[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const struct web_connection connection = {
        .fd = pair[0],
        .protocol = protocol,
        .may_control = may_control,
        .early = early,
        .n_early = early ? strlen(early) : 0,
        .close = on_close,
        .user = (void *)(intptr_t)pair[0],
    };
    const bool taken = web_take(web, &connection);
    if (!taken) {
        close(pair[0]);
        close(pair[1]);
        return false;
    }
    clients[n_clients++] = pair[1];
    return true;
}

static void say(int client, int opcode, const void *bytes, size_t n)
{
    uint8_t frame[6 + 125] = {(uint8_t)(0x80 | opcode), (uint8_t)(0x80 | n)};
    assert_true(n <= 125);
    memcpy(frame + 6, bytes, n); // the mask is 0
    assert_int_equal(send(client, frame, 6 + n, MSG_NOSIGNAL), (ssize_t)(6 + n));
}

static void read_exactly(int client, void *out, size_t n)
{
    for (size_t got = 0; got < n;) {
        const ssize_t more = read(client, (char *)out + got, n - got);
        assert_true(more > 0);
        got += (size_t)more;
    }
}

// The next message that is no ping and not what the page is told every second; ended by a zero.
static int hear(int client, uint8_t *out, size_t room, size_t *out_n)
{
    for (;;) {
        uint8_t head[2], more[8] = {0};
        size_t n = 0;
        read_exactly(client, head, 2);
        const int n_more = head[1] == 126 ? 2 : head[1] == 127 ? 8 : 0;
        read_exactly(client, more, (size_t)n_more);
        for (int i = 0; i < n_more; i++)
            n = n << 8 | more[i];
        n = n_more ? n : head[1];
        assert_true(n < room);
        read_exactly(client, out, n);
        out[n] = 0;
        *out_n = n;
        if ((head[0] & 15) < 8 && !strstr((char *)out, "\"op\":\"viewer\""))
            return head[0] & 15;
    }
}

static uint8_t heard[70000];
static size_t n_heard;

static void expect_text(int client, const char *wanted)
{
    assert_int_equal(hear(client, heard, sizeof heard, &n_heard), 1);
    if (!strstr((char *)heard, wanted))
        fail_msg("\"%s\" is not in %s", wanted, heard);
}

static void wait_until_wanted(uint32_t channel, bool wanted)
{
    for (int ms = 0; ms < LIMIT_MS; ms += 2) {
        if ((topics >> (channel - 1) & 1) == wanted)
            return;
        usleep(2000);
    }
    fail_msg("channel %u is%s wanted", channel, wanted ? " not" : "");
}

static void wait_until(_Atomic int *value, int wanted)
{
    for (int ms = 0; ms < LIMIT_MS && *value < wanted; ms += 2)
        usleep(2000);
    assert_true(*value >= wanted);
}

static int start(void **state)
{
    static struct web_camera camera = {.name = ""};
    (void)state;
    const struct web_settings settings = {
        .cameras = &camera, .n_cameras = 1, .control = true, .log = scratch_log(&scratch)};
    n_clients = 0;
    n_closed = n_asked = n_wrong = ask_result = 0;
    topics = 0;
    holds = false;
    sem_init(&held, 0, 0);
    sem_init(&go_on, 0, 0);
    return web_create(&web, &settings);
}

static int stop(void **state)
{
    (void)state;
    web_stop(web);
    assert_null(take);
    assert_null(answered);
    assert_int_equal(n_closed, n_clients); // each once
    assert_int_equal(n_wrong, 0);
    assert_false(arrive(HANDSHAKE_VIEW, true, NULL));
    web_destroy(&web);
    assert_null(web);
    web_destroy(&web); // nothing to do
    for (int i = 0; i < n_clients; i++)
        close(clients[i]);
    return 0;
}

// ---- Tests

static void topics_while_they_are_wanted(void **state)
{
    (void)state;
    static const char subscribe[] =
        "{\"op\":\"subscribe\",\"subscriptions\":[{\"id\":7,\"channelId\":1}]}";
    static const char unsubscribe[] = "{\"op\":\"unsubscribe\",\"subscriptionIds\":[7,8]}";
    static const char preview[] =
        "{\"op\":\"subscribe\",\"subscriptions\":[{\"id\":9,\"channelId\":14}]}";
    static const char nowhere[] =
        "{\"op\":\"subscribe\",\"subscriptions\":[{\"id\":9,\"channelId\":16}]}";
    static const char unknown[] = "{\"op\":\"nonsense\"}";
    assert_true(arrive(HANDSHAKE_FOXGLOVE_SDK, false, NULL));
    const int client = clients[0];
    expect_text(client, "\"serverInfo\"");
    assert_non_null(strstr((char *)heard, "\"0000000000001234\""));
    assert_non_null(strstr((char *)heard, "\"control\":\"false\"")); // it is not the page
    uint8_t *advertised = malloc(1 << 20);
    assert_non_null(advertised);
    assert_int_equal(hear(client, advertised, 1 << 20, &n_heard), 1);
    assert_non_null(strstr((char *)advertised, "\"advertise\""));
    free(advertised);
    say(client, 1, subscribe, strlen(subscribe));
    wait_until_wanted(CHANNEL_POSE, true);
    take(take_user, PUBLISH_POSE, (const uint8_t *)"pose", 4);
    assert_int_equal(hear(client, heard, sizeof heard, &n_heard), 2);
    assert_int_equal(n_heard, 13 + 4);
    assert_memory_equal(heard, "\x01\x07\0\0\0", 5);
    assert_memory_equal(heard + 13, "pose", 4);
    say(client, 1, unsubscribe, strlen(unsubscribe));
    wait_until_wanted(CHANNEL_POSE, false);
    // What is no channel of its own gets the answer that what is no message at all gets.
    say(client, 1, preview, strlen(preview)); // the page's own
    expect_text(client, "no such channel");
    say(client, 1, nowhere, strlen(nowhere));
    expect_text(client, "no such channel");
    say(client, 1, "[", 1);
    expect_text(client, "not understood");
    say(client, 1, unknown, strlen(unknown));
    expect_text(client, "not offered");
}

// What came behind the handshake counts; whoever goes away wants nothing any more.
static void a_page_that_goes(void **state)
{
    (void)state;
    static const char text[] = "{\"op\":\"subscribe\",\"subscriptions\":[{\"id\":1,\"channelId\":"
                               "14},{\"id\":2,\"channelId\":2}]}";
    char early[6 + sizeof text] = {(char)0x81, (char)(0x80 | (sizeof text - 1)), 1, 1, 1, 1};
    for (size_t i = 0; i + 1 < sizeof text; i++) // a mask without zeros, for strlen
        early[6 + i] = (char)(text[i] ^ 1);
    assert_true(arrive(HANDSHAKE_VIEW, false, early));
    expect_text(clients[0], "\"serverInfo\"");
    wait_until_wanted(2, true);
    wait_until_wanted(CHANNEL_DEPTH, true);
    close(clients[0]);
    clients[0] = -1;
    wait_until(&n_closed, 1);
    wait_until_wanted(2, false);
    wait_until_wanted(CHANNEL_DEPTH, false);
}

static size_t encode(uint64_t id, pb_size_t kind, uint8_t *out, size_t room)
{
    posed_Request request = {.id = id, .which_what = kind};
    const int n = wire_encode_request(&request, out, room);
    assert_true(n > WIRE_MAGIC_BYTES);
    out[WIRE_MAGIC_BYTES - 1] = 0x10;
    return (size_t)n - (WIRE_MAGIC_BYTES - 1);
}

static size_t answer(uint64_t id, uint8_t *out, size_t room)
{
    const posed_Reply reply = {.id = id};
    memcpy(out, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    const int n =
        wire_encode(posed_Reply_fields, &reply, out + WIRE_MAGIC_BYTES, room - WIRE_MAGIC_BYTES);
    assert_true(n > 0);
    return WIRE_MAGIC_BYTES + (size_t)n;
}

static void requests_of_the_page(void **state)
{
    (void)state;
    uint8_t request[128];
    const uint8_t *bytes = request + WIRE_MAGIC_BYTES - 1;
    assert_true(arrive(HANDSHAKE_VIEW, true, NULL));
    assert_true(arrive(HANDSHAKE_VIEW, false, NULL));
    expect_text(clients[0], "\"control\":\"true\"");
    expect_text(clients[1], "\"control\":\"false\"");
    size_t n = encode(5, posed_Request_ping_tag, request, sizeof request);
    say(clients[1], 2, bytes, n);
    expect_text(clients[1], "are off");
    say(clients[0], 2, "\x10", 1); // no request at all
    expect_text(clients[0], "not offered");
    say(clients[0], 2, "\x11\x08", 2); // nor this
    expect_text(clients[0], "not offered");
    say(clients[0], 2, bytes, n);
    wait_until(&n_asked, 1);
    say(clients[0], 2, "\x10\xff\xff", 3);
    expect_text(clients[0], "no request that the page may send");
    ask_result = -EAGAIN;
    say(clients[0], 2, bytes, n);
    expect_text(clients[0], "too many requests wait");
    n = encode(5, posed_Request_register_sets_tag, request, sizeof request);
    say(clients[0], 2, bytes, n);
    expect_text(clients[0], "no request that the page may send");
    assert_int_equal(n_asked, 2);
}

// Answers go to pages that may send requests; not those that are no answer or too large for one.
static void answers_to_the_page(void **state)
{
    (void)state;
    static uint8_t large[WIRE_MAGIC_BYTES + 70000];
    uint8_t *huge = calloc(1, (16 << 20) + 1);
    uint8_t bytes[256];
    assert_non_null(huge);
    assert_true(arrive(HANDSHAKE_VIEW, true, NULL));
    assert_true(arrive(HANDSHAKE_VIEW, false, NULL));
    expect_text(clients[0], "\"serverInfo\"");
    expect_text(clients[1], "\"serverInfo\"");
    const size_t n = answer(5, bytes, sizeof bytes);
    answered(answered_user, bytes, WIRE_MAGIC_BYTES);
    answered(answered_user, huge, (16 << 20) + 1);
    answered(answered_user, large, sizeof large);
    answered(answered_user, bytes, n);
    assert_int_equal(hear(clients[0], heard, sizeof heard, &n_heard), 2);
    assert_int_equal(n_heard, n - WIRE_MAGIC_BYTES + 1);
    assert_int_equal(heard[0], 0x11);
    assert_memory_equal(heard + 1, bytes + WIRE_MAGIC_BYTES, n_heard - 1);
    free(huge);
    say(clients[1], 1, "[", 1); // it has heard nothing before the answer to this
    expect_text(clients[1], "not understood");
}

// The map's surface is asked for while somebody looks; again soon where too many requests wait; its
// answers are nobody else's, and a wrong one is none.
static void the_maps_surface(void **state)
{
    (void)state;
    static const char text[] =
        "{\"op\":\"subscribe\",\"subscriptions\":[{\"id\":3,\"channelId\":15}]}";
    uint8_t bytes[256];
    ask_result = -EAGAIN;
    assert_true(arrive(HANDSHAKE_VIEW, true, NULL));
    expect_text(clients[0], "\"serverInfo\"");
    say(clients[0], 1, text, strlen(text));
    wait_until(&n_asked, 3);
    answered(answered_user, bytes, answer(OWN_REQUEST, bytes, sizeof bytes));
    answered(answered_user, bytes, answer(5, bytes, sizeof bytes));
    assert_int_equal(hear(clients[0], heard, sizeof heard, &n_heard), 2);
    assert_memory_equal(heard + 1, bytes + WIRE_MAGIC_BYTES, n_heard - 1);
}

// While the thread is busy, the oldest are lost: 128 messages or 32 MB wait.
static void more_than_it_takes(void **state)
{
    (void)state;
    static const char text[] =
        "{\"op\":\"subscribe\",\"subscriptions\":[{\"id\":7,\"channelId\":1}]}";
    enum { N = 200, LARGE = 14 << 20 };
    uint8_t request[128], *large = calloc(1, LARGE);
    assert_non_null(large);
    assert_true(arrive(HANDSHAKE_VIEW, true, NULL));
    expect_text(clients[0], "\"serverInfo\"");
    say(clients[0], 1, text, strlen(text));
    wait_until_wanted(CHANNEL_POSE, true);
    const size_t n = encode(5, posed_Request_ping_tag, request, sizeof request);
    holds = true;
    say(clients[0], 2, request + WIRE_MAGIC_BYTES - 1, n);
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += LIMIT_MS / 1000;
    assert_int_equal(sem_timedwait(&held, &limit), 0);
    for (int i = 0; i < 3; i++)
        take(take_user, PUBLISH_STATUS, large, LARGE);
    for (int i = 0; i < N; i++)
        take(take_user, PUBLISH_POSE, (uint8_t[]){(uint8_t)i}, 1);
    sem_post(&go_on);
    for (int i = N - 128; i < N; i++) {
        assert_int_equal(hear(clients[0], heard, sizeof heard, &n_heard), 2);
        assert_int_equal(n_heard, 14);
        assert_int_equal(heard[13], i);
    }
    free(large);
}

static void too_many_viewers(void **state)
{
    (void)state;
    for (int i = 0; i < WEB_MAX_VIEWERS; i++)
        assert_true(arrive(HANDSHAKE_FOXGLOVE, false, NULL));
    assert_false(arrive(HANDSHAKE_VIEW, true, NULL));
    close(clients[3]);
    clients[3] = -1;
    wait_until(&n_closed, 1);
    bool taken = false; // it is counted after it is closed
    for (int ms = 0; ms < LIMIT_MS && !taken; ms += 2) {
        usleep(2000);
        n_clients = 3; // its place
        taken = arrive(HANDSHAKE_VIEW, true, NULL);
    }
    n_clients = WEB_MAX_VIEWERS;
    n_closed--;
    assert_true(taken);
}

static void no_memory(void **state)
{
    static const struct web_camera camera = {.name = ""};
    static const struct {
        const char *call;
        long n;
    } failing[] = {{"memory", 1}, {"memory", 2}, {"memory", 3}, {"eventfd", 1}};
    (void)state;
    const struct web_settings settings = {
        .cameras = &camera, .n_cameras = 1, .log = scratch_log(&scratch)};
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        struct web *none = (struct web *)1;
        fails_at(failing[i].call, failing[i].n, ENOMEM);
        const int rc = web_create(&none, &settings);
        fails_end();
        assert_int_equal(rc, -ENOMEM);
        assert_null(none);
    }
    assert_true(scratch_said(&scratch, "no memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(topics_while_they_are_wanted, start, stop),
        cmocka_unit_test_setup_teardown(a_page_that_goes, start, stop),
        cmocka_unit_test_setup_teardown(requests_of_the_page, start, stop),
        cmocka_unit_test_setup_teardown(answers_to_the_page, start, stop),
        cmocka_unit_test_setup_teardown(the_maps_surface, start, stop),
        cmocka_unit_test_setup_teardown(more_than_it_takes, start, stop),
        cmocka_unit_test_setup_teardown(too_many_viewers, start, stop),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
