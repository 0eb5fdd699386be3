// SPDX-License-Identifier: Apache-2.0
// One connection of the sockets' front end as time goes by, which is this test's: the silent, the
// slow and the talkative are hung up on.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/zmtp/peer.h"
#include "tests/unit/daemon/zmtp_client.h"
#include "tests/unit/fails.h"

#define S INT64_C(1000000000)

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

static struct peers all;
static struct zmtp_socket publisher, router;

static struct zmtp_peer *begin_peer(struct zmtp_socket *socket, int *out_fd)
{
    int fds[2];
    static const char owner[ZMTP_OWNER_BYTES] = "uid 1";
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_true(peer_begin(&all, socket, fds[0], true, owner));
    *out_fd = fds[1];
    return socket->peers;
}

static void tell(struct zmtp_peer *peer, int fd, const void *bytes, size_t n)
{
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    peer_on_events(peer, EPOLLIN);
}

static void begin_all(void)
{
    all = (struct peers){.settings = settings(4), .epoll = epoll_create1(0), .now_ns = S};
    publisher = (struct zmtp_socket){.name = "pub",
                                     .hwm = 10,
                                     .rules = {.kind = ZMTP_PUBLISHER,
                                               .socket_type = "XPUB",
                                               .peer_types = "SUB XSUB ",
                                               .max_frame_bytes = 4096}};
    router = (struct zmtp_socket){.name = "req",
                                  .hwm = 10,
                                  .rules = {.kind = ZMTP_ROUTER,
                                            .socket_type = "ROUTER",
                                            .peer_types = "REQ DEALER ROUTER ",
                                            .max_frame_bytes = 120000}};
    peer_set_rules(&publisher.rules);
    peer_set_rules(&router.rules);
}

static void end_all(void)
{
    while (publisher.peers)
        peer_end(publisher.peers);
    while (router.peers)
        peer_end(router.peers);
    peers_free_gone(&all);
    close(all.epoll);
}

static void the_silent_are_hung_up_on(void **state)
{
    (void)state;
    int fd, other;
    uint8_t bytes[512], ping[] = "\4\7\4PING\0\0";
    begin_all();
    struct zmtp_peer *peer = begin_peer(&publisher, &fd);
    all.now_ns += 4 * S;
    peer_look_after(peer);
    assert_false(peer->has_gone);
    all.now_ns += 2 * S; // no greeting
    peer_look_after(peer);
    assert_true(peer->has_gone);
    assert_said("pub: hung up on uid 1: Connection timed out");
    assert_int_equal(seen.n_left, 0); // it never was there
    peer_hang_up(peer, 0);            // once is enough
    peer_on_events(peer, EPOLLIN | EPOLLOUT | EPOLLHUP);
    close(fd);

    struct zmtp_peer *before = begin_peer(&publisher, &other);
    peer = begin_peer(&publisher, &fd);
    tell(peer, fd, bytes, client_hello("SUB", bytes));
    assert_int_equal(peer->session.state, ZMTP_TRAFFIC);
    assert_true(recv(fd, bytes, sizeof bytes, 0) > 64);
    peer_hang_up(before, 0); // another leaves the list
    close(other);
    peer_look_after(peer);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT), -1);
    all.now_ns += 6 * S;
    peer_look_after(peer);
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), sizeof ping - 1); // asked for a sign of life
    assert_memory_equal(bytes, ping, sizeof ping - 1);
    peer_look_after(peer); // once
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT), -1);
    tell(peer, fd, "\4\5\4PONG", 7);
    all.now_ns += 16 * S; // it has answered: silent from here on
    peer_look_after(peer);
    assert_false(peer->has_gone);
    peer_look_after(peer);
    assert_true(peer->has_gone);
    assert_int_equal(seen.n_left, 1);
    close(fd);
    end_all();
}

static void slow_uploads_and_talk(void **state)
{
    (void)state;
    int fd, other;
    static uint8_t body[100000], bytes[sizeof body + 512];
    begin_all();
    struct zmtp_peer *peer = begin_peer(&router, &fd);
    tell(peer, fd, bytes, client_hello("DEALER", bytes));
    const size_t n = client_frame(false, false, body, sizeof body, bytes);
    tell(peer, fd, bytes, 9);
    tell(peer, fd, bytes + 9, 50000);
    assert_int_equal(all.n_upload_bytes, sizeof body);
    struct zmtp_peer *second = begin_peer(&router, &other);
    tell(second, other, bytes, client_hello("REQ", bytes));
    client_frame(false, false, body, sizeof body, bytes);
    tell(second, other, bytes, 9);
    assert_true(second->paused);
    peer_resume(second);
    assert_true(second->paused); // still no room
    peer_resume(peer);           // never waited
    all.now_ns += 20 * S;
    peer_look_after(second);
    assert_false(second->has_gone); // it is we who do not listen
    tell(peer, fd, bytes + 50009, 10);
    all.now_ns += 11 * S;
    peer_look_after(peer);
    assert_true(peer->has_gone); // 30 s for one request
    assert_int_equal(all.n_upload_bytes, 0);
    peer_resume(second);
    assert_false(second->paused);
    tell(second, other, bytes + 9, n - 9);
    while (seen.n_requests == 0 && !second->has_gone)
        peer_on_events(second, EPOLLIN);
    assert_int_equal(seen.n_requests, 1);
    close(fd);
    close(other);

    // A subscriber talks a megabyte, then 20 KiB a second.
    peer = begin_peer(&publisher, &fd);
    tell(peer, fd, bytes, client_hello("SUB", bytes));
    uint8_t many[3000];
    for (size_t i = 0; i < sizeof many; i += 3)
        memcpy(many + i, i / 3 % 2 ? "\0\1\0" : "\0\1\1", 3);
    int n_told = 0;
    while (!peer->has_gone && n_told < 1000) {
        tell(peer, fd, many, sizeof many);
        n_told++;
    }
    assert_in_range(n_told, (1 << 20) / 3000, (1 << 20) / 3000 + 2);
    assert_said("Message too long");
    close(fd);
    peer = begin_peer(&publisher, &fd);
    tell(peer, fd, bytes, client_hello("SUB", bytes));
    peer->talk_bytes = 0;
    for (int i = 0; i < 2; i++)
        peer_look_after(peer);
    tell(peer, fd, many, sizeof many);
    assert_false(peer->has_gone);
    // no memory for a frame; a peer that waits and is gone
    fails_at("memory", 1, ENOMEM);
    tell(peer, fd, "\0\1\1", 3);
    fails_end();
    assert_said("Cannot allocate memory");
    close(fd);
    peers_free_gone(&all);
    peer = begin_peer(&router, &fd);
    tell(peer, fd, bytes, client_hello("REQ", bytes));
    all.n_upload_bytes = 100000;
    client_frame(false, false, body, sizeof body, bytes);
    tell(peer, fd, bytes, 9);
    assert_true(peer->paused);
    close(fd);
    peer_on_events(peer, EPOLLHUP);
    assert_true(peer->has_gone);
    all.n_upload_bytes = 0;
    end_all();
}

// A subscriber asks for three topics and closes at once. What is sent to it for the first finds
// nobody, while the server still reads what it asked for.
static void who_leaves_while_it_is_read(void **state)
{
    (void)state;
    int fd;
    uint8_t bytes[512], *body;
    begin_all();
    struct zmtp_peer *peer = begin_peer(&publisher, &fd);
    tell(peer, fd, bytes, client_hello("SUB", bytes));
    seen.greeting = zmtp_message_create(true, "calib", 5, 3, &body);
    assert_non_null(seen.greeting);
    memset(body, 1, 3);
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        n += client_frame(false, false, "\1xyz", 4, bytes + n);
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    close(fd);
    peer_on_events(peer, EPOLLIN);
    assert_true(peer->has_gone);
    assert_int_equal(seen.n_on, 1);    // nothing is subscribed to by one who has left
    assert_int_equal(seen.first, 'x'); // what it said was there until it was read
    assert_int_equal(seen.n_left, 1);
    zmtp_message_drop(seen.greeting);
    end_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_silent_are_hung_up_on, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_uploads_and_talk, setup, teardown),
        cmocka_unit_test_setup_teardown(who_leaves_while_it_is_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
