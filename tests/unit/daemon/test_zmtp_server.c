// SPDX-License-Identifier: Apache-2.0
// A server of the sockets' front end on a unix socket and on loopback: calls that fail, and clients
// that are too many, slow or gone.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/daemon/zmtp_client.h"
#include "tests/unit/fails.h"

enum { PUB, REQ };

static struct zmtp_server *server;
static struct sockaddr_un places[2];
static struct sockaddr_in tcp_place;

static int bound(const void *address, socklen_t n)
{
    const sa_family_t family = ((const struct sockaddr *)address)->sa_family;
    const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, address, n), 0);
    return fd;
}

static void start(uint32_t max_connections)
{
    const struct zmtp_server_settings s = settings(max_connections);
    assert_int_equal(zmtp_server_create(&server, &s), 0);
    zmtp_server_add(server, "pub", ZMTP_PUBLISHER, "XPUB", 4096, 100);
    zmtp_server_add(server, "req", ZMTP_ROUTER, "ROUTER", 120000, 100);
    for (int i = 0; i < 2; i++) {
        places[i].sun_family = AF_UNIX;
        snprintf(places[i].sun_path, sizeof places[i].sun_path, "%s/%d", scratch.path, i);
        unlink(places[i].sun_path);
        const int fd = bound(&places[i], sizeof places[i]);
        assert_int_equal(zmtp_server_listen(server, i, fd, true), 0);
    }
    tcp_place = (struct sockaddr_in){AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
    const int fd = bound(&tcp_place, sizeof tcp_place);
    socklen_t n = sizeof tcp_place;
    assert_int_equal(getsockname(fd, (void *)&tcp_place, &n), 0);
    assert_int_equal(zmtp_server_listen(server, PUB, fd, false), 0);
}

static int teardown(void **state)
{
    (void)state;
    zmtp_server_destroy(&server);
    scratch_remove(&scratch);
    return 0;
}

static void run(int n)
{
    for (int i = 0; i < n; i++)
        zmtp_server_run(server, 5);
}

static int dial(const void *place, socklen_t n)
{
    const int fd = socket(((const struct sockaddr *)place)->sa_family, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, place, n), 0);
    run(2);
    return fd;
}

static int dial_local(int socket)
{
    return dial(&places[socket], sizeof places[socket]);
}

static void say(int fd, const void *bytes, size_t n)
{
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    run(3);
}

static int join(int socket)
{
    uint8_t hello[512];
    const int fd = dial_local(socket);
    say(fd, hello, client_hello(socket == PUB ? "SUB" : "DEALER", hello));
    return fd;
}

// Reads what has come. Returns whether the server has hung up.
static bool is_hung_up(int fd)
{
    static uint8_t bytes[1 << 16];
    ssize_t n;
    run(1);
    while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        ;
    return n == 0 || errno == ECONNRESET;
}

// --- The server

static void creation_fails(void **state)
{
    (void)state;
    static const struct {
        const char *call;
        int error;
    } failing[] = {
        {"memory", ENOMEM}, {"epoll_create1", EMFILE}, {"eventfd", ENFILE}, {"epoll_ctl", ENOSPC}};
    const struct zmtp_server_settings s = settings(4);
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        fails_at(failing[i].call, 1, failing[i].error);
        assert_int_equal(zmtp_server_create(&server, &s), -failing[i].error);
        fails_end();
        assert_null(server);
    }
}

static void a_connection_cannot_be_taken(void **state)
{
    (void)state;
    static const int passing[] = {EINTR, ECONNABORTED};
    start(8);
    for (size_t i = 0; i < 2; i++) { // the next is taken at once
        fails_at("accept4", 1, passing[i]);
        const int fd = join(PUB);
        assert_int_equal(fails_end() > 1, 1);
        assert_non_null(zmtp_server_first(server, PUB));
        close(fd);
        run(2);
        assert_null(zmtp_server_first(server, PUB));
    }
    fails_at("accept4", 1, EBADF); // another round
    int fd = dial_local(PUB);
    fails_end();
    assert_non_null(zmtp_server_first(server, PUB));
    close(fd);
    static const int scarce[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    for (size_t i = 0; i < sizeof scarce / sizeof *scarce; i++) {
        run(2);
        assert_null(zmtp_server_first(server, PUB));
        fails_at("accept4", 1, scarce[i]);
        fd = dial_local(PUB);
        assert_int_equal(fails_end(), 1); // it does not try again until it has waited
        assert_said("pub: no connection can be taken: ");
        assert_said(strerror(scarce[i]));
        for (int k = 0; k < 100 && !zmtp_server_first(server, PUB); k++)
            zmtp_server_run(server, 10);
        assert_non_null(zmtp_server_first(server, PUB));
        close(fd);
    }
    run(2);
    static const char *const calls[] = {"memory", "epoll_ctl"};
    for (size_t i = 0; i < 2; i++) {
        fails_at(calls[i], 1, ENOMEM);
        fd = dial_local(PUB);
        fails_end();
        assert_true(is_hung_up(fd));
        assert_null(zmtp_server_first(server, PUB));
        close(fd);
    }
}

static void owners(void **state)
{
    (void)state;
    char uid[32];
    start(8);
    snprintf(uid, sizeof uid, "uid %u", (unsigned)geteuid());
    const struct {
        const char *call, *owner;
        bool is_local;
    } cases[] = {{NULL, uid, true},
                 {"getsockopt", "uid ?", true},
                 {NULL, "127.0.0.1", false},
                 {"getpeername", "?", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fails_at(cases[i].call, 1, ENOTCONN);
        const int fd = cases[i].is_local ? dial_local(PUB) : dial(&tcp_place, sizeof tcp_place);
        fails_end();
        assert_string_equal(zmtp_peer_owner(zmtp_server_first(server, PUB)), cases[i].owner);
        close(fd);
        run(2);
    }
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
    socklen_t n = sizeof v6;
    if (fd < 0 || bind(fd, (void *)&v6, n) != 0) {
        print_message("SKIP: no IPv6 on loopback\n");
        close(fd);
        return;
    }
    assert_int_equal(getsockname(fd, (void *)&v6, &n), 0);
    assert_int_equal(zmtp_server_listen(server, PUB, fd, false), 0);
    const int client = dial(&v6, n);
    assert_string_equal(zmtp_peer_owner(zmtp_server_first(server, PUB)), "::1");
    close(client);
}

static void places_are_few(void **state)
{
    (void)state;
    int fds[6];
    start(4);
    fds[0] = join(PUB);
    fds[1] = dial_local(PUB);
    fds[2] = dial_local(PUB);
    fds[3] = dial_local(PUB); // three quarters are taken, by who has just come
    assert_true(is_hung_up(fds[3]));
    assert_said("pub: a client at uid ");
    assert_said("too many connections (endpoints.max_connections = 4, three quarters of them for");
    const int n_lines = scratch.n_lines;
    close(fds[3]);
    fds[3] = dial_local(PUB); // within the second it is not said again
    assert_true(is_hung_up(fds[3]));
    assert_int_equal(scratch.n_lines, n_lines);
    close(fds[3]);
    fds[3] = dial(&tcp_place, sizeof tcp_place);
    assert_false(is_hung_up(fds[3]));
    fds[4] = dial(&tcp_place, sizeof tcp_place); // all four are taken
    assert_true(is_hung_up(fds[4]));
    close(fds[4]);
    nanosleep(&(struct timespec){0, 600000000}, NULL);
    fds[4] = dial_local(PUB); // the oldest of its own that has not said who it is makes room
    assert_true(is_hung_up(fds[1]));
    assert_false(is_hung_up(fds[2]) || is_hung_up(fds[4]) || is_hung_up(fds[0]));
    fds[5] = dial(&tcp_place, sizeof tcp_place); // the oldest of all
    assert_true(is_hung_up(fds[2]));
    assert_false(is_hung_up(fds[5]) || is_hung_up(fds[3]) || is_hung_up(fds[0]));
    for (int i = 0; i < 6; i++)
        close(fds[i]);
    run(2);
    assert_null(zmtp_server_first(server, PUB));
}

static void the_bell_ends_the_wait(void **state)
{
    (void)state;
    struct timespec before, after;
    start(4);
    run(1);
    zmtp_server_wake(server);
    clock_gettime(CLOCK_MONOTONIC, &before);
    zmtp_server_run(server, -1);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(after.tv_sec - before.tv_sec < 5);
    const int one = join(PUB), two = join(REQ);
    struct zmtp_peer *peer = zmtp_server_first(server, REQ);
    assert_ptr_equal(zmtp_server_find(server, zmtp_peer_id(peer)), peer);
    assert_int_equal(zmtp_peer_socket(peer), REQ);
    assert_null(zmtp_server_next(peer));
    assert_null(zmtp_server_find(server, 999));
    *(int *)zmtp_peer_user(peer) = 1;
    close(one);
    close(two);
}

// --- Messages to peers

static void messages_wait_for_who_does_not_read(void **state)
{
    (void)state;
    uint8_t *body;
    start(4);
    const int fd = join(PUB);
    struct zmtp_peer *peer = zmtp_server_first(server, PUB);
    assert_int_equal(seen.n_left, 0);
    fails_at("memory", 1, ENOMEM);
    assert_null(zmtp_message_create(true, "a", 1, 100000, &body));
    fails_at("memory", 1, ENOMEM);
    assert_null(zmtp_message_wrap(true, "a", 1, (const uint8_t *)"b", 1, NULL, NULL));
    fails_end();
    struct zmtp_message *message = zmtp_message_create(true, "a", 1, 100000, &body);
    assert_non_null(message);
    memset(body, 7, 100000);
    fails_at("memory", 1, ENOMEM);
    assert_false(zmtp_peer_send(peer, message)); // no queue
    fails_end();
    int n_sent = 0;
    while (zmtp_peer_send(peer, message))
        n_sent++;
    assert_true(n_sent >= 100 && n_sent < 110); // the kernel took a few beside the 100
    assert_false(zmtp_peer_has_room(peer));
    assert_true(zmtp_server_n_unsent(server) > 0);
    zmtp_message_drop(message);
    size_t n_got = 0;
    static uint8_t bytes[1 << 16];
    for (int i = 0; i < 10000 && zmtp_server_n_unsent(server) > 0; i++) {
        const ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        n_got += n > 0 ? (size_t)n : 0;
        run(1);
    }
    assert_true(zmtp_server_n_unsent(server) == 0);
    for (ssize_t n; (n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
        n_got += (size_t)n;
    // every message whole: header and first part, header and body; before them greeting and READY
    assert_int_equal(n_got / (2 + 1 + 9 + 100000), (unsigned)n_sent);
    close(fd);
}

static int n_released;

static void release(void *user)
{
    (void)user;
    n_released++;
}

static void sending_fails(void **state)
{
    (void)state;
    start(4);
    n_released = 0;
    int fd = join(PUB);
    struct zmtp_peer *peer = zmtp_server_first(server, PUB);
    struct zmtp_message *message =
        zmtp_message_wrap(false, NULL, 0, (const uint8_t *)"body", 4, release, NULL);
    assert_non_null(message);
    fails_at("sendmsg", 1, EINTR);
    assert_true(zmtp_peer_send(peer, message));
    assert_int_equal(fails_end(), 2);
    assert_int_equal(seen.n_left, 0);
    fails_at("sendmsg", 1, EPIPE);
    assert_true(zmtp_peer_send(peer, message));
    fails_end();
    assert_int_equal(seen.n_left, 1);
    assert_said("pub: hung up on uid ");
    assert_said("Broken pipe");
    assert_false(zmtp_peer_send(peer, message)); // it is gone
    run(1);
    close(fd);
    fd = join(PUB);
    fails_at("sendmsg", 1, ECONNRESET);
    const int n_lines = scratch.n_lines;
    assert_true(zmtp_peer_send(zmtp_server_first(server, PUB), message));
    fails_end();
    assert_int_equal(seen.n_left, 2);
    assert_int_equal(scratch.n_lines, n_lines); // an everyday end
    close(fd);
    assert_int_equal(n_released, 0);
    zmtp_message_drop(message);
    zmtp_message_drop(NULL);
    assert_int_equal(n_released, 1);
    // What is sent last arrives although the peer's own bytes stand unread.
    fd = join(PUB);
    uint8_t bytes[64];
    assert_int_equal(send(fd, "\0\1\1", 3, 0), 3);
    zmtp_server_destroy(&server);
    assert_true(recv(fd, bytes, sizeof bytes, 0) > 0);
    close(fd);
}

// What is sealed is what was sent; without memory it waits.
// --- Uploads

static void uploads_take_turns(void **state)
{
    (void)state;
    static uint8_t body[120000], bytes[sizeof body + 16];
    start(8);
    const int one = join(REQ), two = join(REQ), three = join(REQ);
    const size_t n = client_frame(false, false, body, 100000, bytes);
    seen.keeps = true;
    say(one, bytes, 50000);
    say(two, bytes, 2000); // waits: together they are more than may come in
    run(5);
    fails_at("memory", 1, ENOMEM); // what has come of the third has no place to wait
    say(three, bytes, 2000);
    fails_end();
    assert_true(is_hung_up(three));
    assert_said("req: hung up on uid ");
    assert_said("Cannot allocate memory");
    assert_int_equal(send(one, bytes + 50000, n - 50000, 0), n - 50000);
    run(20);
    assert_int_equal(seen.n_requests, 1);
    assert_int_equal(seen.n_bytes, 100000);
    const int four = join(REQ);
    say(four, bytes, 100);
    close(four); // gone while it waits
    run(5);
    zmtp_body_free(seen.kept);
    seen.keeps = false;
    run(3);
    assert_int_equal(send(two, bytes + 2000, n - 2000, 0), n - 2000);
    run(30);
    assert_int_equal(seen.n_requests, 2);
    assert_false(is_hung_up(two));
    close(one);
    close(two);
    close(three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(creation_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(a_connection_cannot_be_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(owners, setup, teardown),
        cmocka_unit_test_setup_teardown(places_are_few, setup, teardown),
        cmocka_unit_test_setup_teardown(the_bell_ends_the_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_wait_for_who_does_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(sending_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(uploads_take_turns, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
