// SPDX-License-Identifier: Apache-2.0
// One WebSocket against a client that does what it should not: reads slowly or never, pings without
// reading, sends too much, goes away, or says nothing; and without memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/web/viewer_connection.h"
#include "proto/clock.h"
#include "tests/unit/fails.h"

#define SECOND_NS INT64_C(1000000000)

// A client's frame: masked, with a mask of zeros, so that the bytes stand as they are.
#define FRAME(first, n) (char)(first), (char)(0x80 | (n)), 0, 0, 0, 0
#define TEXT            0x81
#define BINARY          0x82
#define PING            0x89

static struct viewer *viewer;
static struct viewer_settings settings;
static int client;
static char heard[256];
static size_t n_heard;

static void received(void *user, struct viewer *from, bool is_text, const uint8_t *bytes, size_t n)
{
    (void)user;
    assert_ptr_equal(from, viewer);
    assert_true(n_heard < sizeof heard);
    heard[n_heard++] = is_text ? 't' : 'b';
    for (size_t i = 0; i < n && n_heard < sizeof heard; i++)
        heard[n_heard++] = (char)bytes[i];
}

static void received_many(void *user, struct viewer *from, bool is_text, const uint8_t *bytes,
                          size_t n)
{
    (void)user;
    (void)bytes;
    assert_ptr_equal(from, viewer);
    assert_true(is_text && n == 0);
    n_heard++;
}

static int setup(void **state)
{
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const int viewers_bytes = 65536; // less than what waits for a client that reads slowly
    for (int i = 0; i < 2; i++)
        assert_int_equal(fcntl(pair[i], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(
        setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &viewers_bytes, sizeof viewers_bytes), 0);
    client = pair[1];
    n_heard = 0;
    settings = (struct viewer_settings){.fd = pair[0],
                                        .protocol = HANDSHAKE_VIEW,
                                        .queue_max_bytes = 1 << 20,
                                        .received = received};
    viewer = viewer_create(&settings);
    return viewer ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    viewer_destroy(&viewer);
    assert_null(viewer);
    viewer_destroy(&viewer); // nothing to do
    close(settings.fd);
    if (client >= 0)
        close(client);
    return 0;
}

static void create_again(void)
{
    viewer_destroy(&viewer);
    viewer = viewer_create(&settings);
    assert_non_null(viewer);
}

static void say(const void *bytes, size_t n)
{
    assert_int_equal(write(client, bytes, n), (ssize_t)n);
}

static size_t read_all(uint8_t *out, size_t n)
{
    const ssize_t got = read(client, out, n);
    return got < 0 ? 0 : (size_t)got;
}

// The frame began behind the handshake, and ends later.
static void bytes_behind_the_handshake(void **state)
{
    (void)state;
    const char early[] = {FRAME(TEXT, 2), 'h'}, later[] = {'i', FRAME(BINARY, 1), 'x'};
    settings.early = early;
    settings.n_early = sizeof early;
    create_again();
    assert_true(viewer_run(viewer, 0));
    assert_int_equal(n_heard, 0);
    say(later, sizeof later);
    assert_true(viewer_run(viewer, POLLIN));
    assert_int_equal(n_heard, 5);
    assert_memory_equal(heard, "thibx", 5);
    assert_int_equal(viewer_protocol(viewer), HANDSHAKE_VIEW);
    assert_int_equal(viewer_fd(viewer), settings.fd);
}

static void no_memory(void **state)
{
    (void)state;
    struct viewer *other;
    settings.early = "x";
    settings.n_early = 1;
    for (long n = 1; n <= 2; n++) {
        fails_at("memory", n, ENOMEM);
        other = viewer_create(&settings);
        fails_end();
        assert_null(other);
    }
    fails_at("memory", 1, ENOMEM);
    struct payload *payload = payload_create(100);
    fails_end();
    assert_null(payload);
    payload_release(payload); // as whoever got none does
}

// A client that goes away is noticed when it is read and when it is written.
static void a_client_that_goes(void **state)
{
    (void)state;
    struct payload *payload = payload_create(1);
    assert_non_null(payload);
    payload->bytes[0] = 7;
    close(client);
    client = -1;
    viewer_send_bytes(viewer, payload);
    payload_release(payload);
    assert_false(viewer_run(viewer, POLLOUT));
    create_again();
    assert_false(viewer_run(viewer, POLLIN | POLLHUP));
    assert_false(viewer_run(viewer, POLLIN | POLLHUP)); // and stays so
}

// What it gets is the newest; each payload is freed once, whoever else has it.
static void a_client_that_reads_slowly(void **state)
{
    (void)state;
    enum { N = 40, BYTES = 100000 };
    struct payload *payload = payload_create(BYTES);
    uint8_t *got = malloc(BYTES);
    assert_true(payload && got);
    memset(payload->bytes, 0, BYTES);
    for (int i = 0; i < N; i++)
        viewer_send_data(viewer, 5, 0x0102030405060708, payload);
    assert_int_equal(viewer_dropped(viewer), N - 10); // 10 are in the queue's 2^20 bytes
    assert_int_equal(payload->n_references, 1 + 10);
    assert_true(viewer_wants(viewer) & POLLOUT);
    assert_true(viewer_run(viewer, POLLOUT)); // as many as the kernel takes
    assert_true(viewer_wants(viewer) & POLLOUT);
    const uint8_t head[] = {0x82, 127, 0, 0, 0, 0, 0, 1, 0x86, 0xad, 1, 5,
                            0,    0,   0, 8, 7, 6, 5, 4, 3,    2,    1};
    assert_true(read_all(got, BYTES) > sizeof head);
    assert_memory_equal(got, head, sizeof head);
    while (viewer_wants(viewer) & POLLOUT) {
        assert_true(viewer_run(viewer, POLLOUT));
        read_all(got, BYTES);
    }
    assert_int_equal(payload->n_references, 1);
    payload_release(payload);
    free(got);
}

static void many_small_messages(void **state)
{
    (void)state;
    struct payload *payload = payload_create(1);
    assert_non_null(payload);
    payload->bytes[0] = 0;
    for (int i = 0; i < 300; i++)
        viewer_send_bytes(viewer, payload);
    assert_int_equal(viewer_dropped(viewer), 300 - 256);
    viewer_destroy(&viewer); // with what waits
    assert_int_equal(payload->n_references, 1);
    payload_release(payload);
}

// Half a second's bytes at once, then no more until time has passed.
static void bytes_a_second(void **state)
{
    (void)state;
    settings.max_bytes_s = 1000;
    struct payload *payload = payload_create(500);
    assert_non_null(payload);
    memset(payload->bytes, 0, 500);
    create_again();
    for (int i = 0; i < 100; i++)
        viewer_send_bytes(viewer, payload); // 50 s worth
    assert_true(viewer_dropped(viewer) > 0 && viewer_dropped(viewer) < 100);
    payload_release(payload);
}

// Whoever pings and reads no answer, and whoever reads none of what it is told.
static void answers_that_nobody_reads(void **state)
{
    (void)state;
    const char ping[] = {FRAME(PING, 0)}, text[] = {FRAME(TEXT, 1), 'x'};
    say(ping, sizeof ping);
    say(text, sizeof text);
    assert_true(viewer_run(viewer, POLLIN));
    char pings[300 * sizeof ping];
    for (size_t i = 0; i < sizeof pings; i++)
        pings[i] = ping[i % sizeof ping];
    say(pings, sizeof pings); // in one piece: the kernel takes few small ones
    say(text, sizeof text);
    assert_false(viewer_run(viewer, POLLIN));
    create_again();
    char *long_text = malloc((1 << 20) + 2);
    assert_non_null(long_text);
    memset(long_text, 'x', (1 << 20) + 1);
    long_text[(1 << 20) + 1] = 0;
    viewer_send_text(viewer, long_text);
    viewer_send_text(viewer, "one more");
    assert_false(viewer_run(viewer, POLLOUT));
    free(long_text);
}

// One client has its turn of 64 KiB, then others; a message that is too long ends it.
static void a_client_that_says_much(void **state)
{
    (void)state;
    enum { N = 16000 };
    static char texts[6 * N];
    const char text[6] = {FRAME(TEXT, 0)};
    const char too_long[] = {(char)TEXT, (char)(0x80 | 127), 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0,
                             'x'};
    for (size_t i = 0; i < sizeof texts; i++)
        texts[i] = text[i % sizeof text];
    settings.received = received_many;
    create_again();
    const ssize_t n_said = write(client, texts, sizeof texts); // all, or what the kernel takes
    assert_true(n_said > 0);
    assert_true(viewer_run(viewer, POLLIN));
    assert_true(n_heard <= (65536 + 4096) / 6 + 1);
    for (size_t n_left = sizeof texts - (size_t)n_said; n_left > 0;) {
        const ssize_t more = write(client, texts + sizeof texts - n_left, n_left);
        assert_true(viewer_run(viewer, POLLIN));
        n_left -= more > 0 ? (size_t)more : 0;
    }
    for (int round = 0; round < 4 && n_heard < N; round++)
        assert_true(viewer_run(viewer, POLLIN));
    assert_int_equal(n_heard, N);
    say(too_long, sizeof too_long);
    (void)viewer_run(viewer, POLLIN);            // says why
    assert_false(viewer_wants(viewer) & POLLIN); // and listens no more
    assert_false(viewer_run(viewer, POLLIN | POLLOUT));
    assert_int_equal(n_heard, N);
}

static void a_client_that_says_nothing(void **state)
{
    (void)state;
    uint8_t got[16];
    const int64_t before_ns = clock_monotonic_ns();
    create_again();
    const int64_t after_ns = clock_monotonic_ns();
    assert_true(viewer_tick(viewer, before_ns + 9 * SECOND_NS));
    assert_false(viewer_wants(viewer) & POLLOUT);
    assert_true(viewer_tick(viewer, after_ns + 11 * SECOND_NS));
    assert_true(viewer_run(viewer, POLLOUT));
    assert_int_equal(read_all(got, sizeof got), 2);
    assert_int_equal(got[0], PING);
    assert_false(viewer_tick(viewer, after_ns + 31 * SECOND_NS));
}

static void subscriptions(void **state)
{
    (void)state;
    uint32_t channel = 99;
    size_t n;
    for (uint32_t i = 0; i < VIEWER_MAX_SUBSCRIPTIONS; i++)
        assert_true(viewer_subscribe(viewer, i, i + 1));
    assert_false(viewer_subscribe(viewer, VIEWER_MAX_SUBSCRIPTIONS, 1)); // too many
    assert_false(viewer_subscribe(viewer, 3, 1));                        // it has that id
    assert_false(viewer_unsubscribe(viewer, VIEWER_MAX_SUBSCRIPTIONS, &channel));
    assert_int_equal(channel, 99);
    assert_true(viewer_unsubscribe(viewer, 3, &channel));
    assert_int_equal(channel, 4);
    assert_false(viewer_unsubscribe(viewer, 3, &channel));
    (void)viewer_subscriptions(viewer, &n);
    assert_int_equal(n, VIEWER_MAX_SUBSCRIPTIONS - 1);
    assert_true(viewer_subscribe(viewer, 3, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_behind_the_handshake, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_reads_slowly, setup, teardown),
        cmocka_unit_test_setup_teardown(many_small_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_that_nobody_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_says_much, setup, teardown),
        cmocka_unit_test_setup_teardown(a_client_that_says_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(subscriptions, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
