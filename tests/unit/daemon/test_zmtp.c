// SPDX-License-Identifier: Apache-2.0
// What peers of the sockets' front end may say and what they are hung up on for, message by
// message, and that what is sealed is what was sent.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sodium.h>

#include "daemon/zmtp/outbox.h"
#include "daemon/zmtp/session.h"
#include "tests/unit/daemon/zmtp_client.h"
#include "tests/unit/fails.h"

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// What is sealed is what was sent; without memory it waits.
static void sealed_messages(void **state)
{
    (void)state;
    struct outbox outbox = {0};
    struct curve curve = {.shared = {1, 2, 3}};
    struct iovec pieces[OUTBOX_PIECES];
    uint8_t *body, plain[64];
    assert_true(sodium_init() >= 0);
    struct zmtp_message *small = zmtp_message_create(true, "topic", 5, 10, &body);
    memcpy(body, "0123456789", 10);
    assert_int_equal(outbox_gather(&outbox, &curve, pieces), 0);
    assert_true(outbox_put(&outbox, small));
    assert_false(outbox_is_inside(&outbox));
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(outbox_gather(&outbox, &curve, pieces), 0);
    fails_end();
    assert_int_equal(outbox_gather(&outbox, &curve, pieces), 1);
    assert_true(outbox_is_inside(&outbox));
    // header, "\7MESSAGE", nonce, then authenticator, flags and the first part
    const uint8_t *at = (const uint8_t *)pieces[0].iov_base + 2;
    uint8_t nonce[24] = "CurveZMQMESSAGES";
    memcpy(nonce + 16, at + 8, 8);
    assert_int_equal(crypto_box_open_easy_afternm(plain, at + 16, 16 + 1 + 5, nonce, curve.shared),
                     0);
    assert_memory_equal(plain, "\1topic", 6);
    at += 16 + 16 + 1 + 5 + 2;
    memcpy(nonce + 16, at + 8, 8);
    assert_int_equal(crypto_box_open_easy_afternm(plain, at + 16, 16 + 1 + 10, nonce, curve.shared),
                     0);
    assert_memory_equal(plain,
                        "\0"
                        "0123456789",
                        11);
    outbox_sent(&outbox, 3);
    assert_int_equal(outbox_gather(&outbox, &curve, pieces), 1);
    const size_t n_left = pieces[0].iov_len;
    outbox_sent(&outbox, n_left);
    assert_int_equal(outbox.n_queue, 0);
    // A long one's memory is given back.
    struct zmtp_message *large = zmtp_message_create(false, NULL, 0, 70000, &body);
    memset(body, 0, 70000);
    for (int i = 0; i < 2; i++)
        assert_true(outbox_put(&outbox, i ? small : large));
    assert_int_equal(outbox_gather(&outbox, &curve, pieces), 1);
    outbox_sent(&outbox, pieces[0].iov_len);
    assert_null(outbox.cipher);
    assert_int_equal(outbox.n_queue, 1);
    outbox_end(&outbox);
    zmtp_message_drop(small);
    zmtp_message_drop(large);
}

// A number that was used is none of a later message's, whoever sealed it.
static void numbers_count_up(void **state)
{
    (void)state;
    static const struct {
        uint8_t number;
        bool is_taken;
    } cases[] = {{1, true}, {1, false}, {3, true}, {2, false}, {3, false}, {4, true}, {0, false}};
    struct curve curve = {.shared = {4, 5, 6}};
    assert_true(sodium_init() >= 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t bytes[8 + 16 + 4] = {[7] = cases[i].number}, nonce[24] = "CurveZMQMESSAGEC", *body;
        struct zmtp_frame frame;
        memcpy(nonce + 16, bytes, 8);
        assert_int_equal(
            crypto_box_easy_afternm(bytes + 8, (const uint8_t *)"\0abc", 4, nonce, curve.shared),
            0);
        const int error = curve_open(&curve, bytes, sizeof bytes, &frame, &body);
        assert_int_equal(error, cases[i].is_taken ? 0 : -EPROTO);
        if (!error)
            assert_memory_equal(body, "abc", 3);
    }
}

// Bytes after the greeting and READY; what comes of them.
static const struct {
    const char *bytes;
    size_t n;
    int error; // 0: none
    const char *type;
} said[] = {
    {"\0\1\1", 3, 0, "SUB"},                                  // subscribes to everything
    {"\0\1\2", 3, -EPROTO, "SUB"},                            // neither on nor off
    {"\1\1\1", 3, -EPROTO, "SUB"},                            // more than one part
    {"\0\0", 2, -EPROTO, "SUB"},                              // nothing
    {"\4\15\11SUBSCRIBEabc", 15, 0, "SUB"},                   // as ZMTP 3.1 has it
    {"\4\12\6CANCELabc", 12, 0, "SUB"},                       //
    {"\4\7\5ERROR\0", 9, -EPROTO, "SUB"},                     // it gives up
    {"\4\4\3FOO", 6, 0, "SUB"},                               // not known: passed over
    {"\4\6\4PING\0", 8, -EPROTO, "SUB"},                      // without its time to live
    {"\4\7\4PING\0\0", 9, 0, "SUB"},                          //
    {"\4\27\4PING\0\0abcdefghijklmnop", 25, 0, "SUB"},        // with a context
    {"\4\30\4PING\0\0abcdefghijklmnopq", 26, -EPROTO, "SUB"}, // longer than RFC 37 has it
    {"\5\1\1", 3, -EPROTO, "SUB"},                            // a command with parts
    {"\10\1\1", 3, -EPROTO, "SUB"},                           // flags of tomorrow
    {"\2\0\0\0\0\0\1\0\0", 9, -EMSGSIZE, "SUB"},              // 64 KiB of subscription
    {"\6\0\0\0\0\0\0\40\0", 9, -EMSGSIZE, "DEALER"},          // 8 KiB of command
    {"\2\0\0\0\0\0\1\xd4\xc0", 9, 0, "DEALER"},               // the longest that may come
    {"\2\0\0\0\0\0\1\xd4\xc1", 9, -EMSGSIZE, "DEALER"},
    {"\1\0\0\3abc", 7, 0, "REQ"},        //
    {"\1\1a\1\1b\0\1c", 9, 0, "DEALER"}, // three parts: counted, not read
};

static int subscribe_only(void *user, bool on, const uint8_t *prefix, size_t n_prefix)
{
    return on_subscribe(user, NULL, on, prefix, n_prefix);
}

static void request_only(void *user, struct zmtp_body *body, bool has_delimiter)
{
    on_request(user, NULL, body, has_delimiter);
}

static const struct zmtp_rules pub_rules = {.kind = ZMTP_PUBLISHER,
                                            .socket_type = "XPUB",
                                            .peer_types = "SUB XSUB ",
                                            .max_frame_bytes = 4096,
                                            .subscribe = subscribe_only};
static const struct zmtp_rules req_rules = {.kind = ZMTP_ROUTER,
                                            .socket_type = "ROUTER",
                                            .peer_types = "REQ DEALER ROUTER ",
                                            .max_frame_bytes = 120000,
                                            .request = request_only};

static long hear(struct zmtp_session *session, const void *bytes, size_t n)
{
    return zmtp_session_read(session, bytes, n);
}

static void what_peers_may_say(void **state)
{
    (void)state;
    static struct zmtp_session c;
    uint8_t bytes[1024];
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        const bool is_pub = strcmp(said[i].type, "SUB") == 0;
        zmtp_session_begin(&c, is_pub ? &pub_rules : &req_rules, true, NULL);
        const size_t n = client_hello(said[i].type, bytes);
        assert_int_equal(hear(&c, bytes, n), n);
        const long got = hear(&c, said[i].bytes, said[i].n);
        if (got != (said[i].error ? said[i].error : (long)said[i].n))
            print_error("case %zu\n", i);
        assert_int_equal(got, said[i].error ? said[i].error : (long)said[i].n);
        zmtp_session_end(&c);
    }
    assert_int_equal(seen.n_on, 2);
    assert_int_equal(seen.n_off, 1);
    assert_int_equal(seen.n_requests, 1);
    assert_int_equal(seen.n_bad, 1);

    // Parts without end: a megabyte of them, then no more.
    zmtp_session_begin(&c, &req_rules, true, NULL);
    size_t n = client_hello("DEALER", bytes);
    assert_int_equal(hear(&c, bytes, n), n);
    long got = 0;
    int n_parts = 0;
    for (memcpy(bytes, "\1\1a", 3); got >= 0 && n_parts < 100000; n_parts++)
        got = hear(&c, bytes, 3);
    assert_int_equal(got, -EMSGSIZE);
    assert_in_range(n_parts, (1 << 20) / 17, (1 << 20) / 17 + 2);
    zmtp_session_end(&c);

    // Empty ones, too.
    zmtp_session_begin(&c, &req_rules, true, NULL);
    n = client_hello("DEALER", bytes);
    assert_int_equal(hear(&c, bytes, n), n);
    for (got = 0, n_parts = 0; got >= 0 && n_parts < 200000; n_parts++)
        got = hear(&c, "\1\0", 2);
    assert_int_equal(got, -EMSGSIZE);
    assert_in_range(n_parts, (1 << 20) / 16, (1 << 20) / 16 + 3);
    zmtp_session_end(&c);

    // Only the first part may be the empty one of a REQ socket.
    zmtp_session_begin(&c, &req_rules, true, NULL);
    n = client_hello("DEALER", bytes);
    assert_int_equal(hear(&c, bytes, n), n);
    memset(&seen, 0, sizeof seen);
    assert_int_equal(hear(&c, "\1\1a\1\0\0\1c", 8), 8);
    assert_int_equal(hear(&c, "\1\0\1\0\0\1c", 7), 7);
    assert_int_equal(seen.n_bad, 2);
    assert_int_equal(hear(&c, "\1\0\0\1c", 5), 5); // and the next is a good one again
    assert_true(seen.n_requests == 1 && seen.has_delimiter && seen.n_bytes == 1);
    zmtp_session_end(&c);

    // A PONG has the PING's context alone.
    zmtp_session_begin(&c, &pub_rules, true, NULL);
    n = client_hello("SUB", bytes);
    assert_int_equal(hear(&c, bytes, n), n);
    c.n_commands = 0;
    assert_int_equal(hear(&c, "\4\12\4PING\0\7abc", 12), 12);
    assert_int_equal(c.n_commands, 10);
    assert_memory_equal(c.commands, "\4\10\4PONGabc", 10);
    zmtp_session_end(&c);

    // Pings that nobody reads the answers of: those that have no room are left out.
    zmtp_session_begin(&c, &pub_rules, true, NULL);
    n = client_hello("SUB", bytes);
    assert_int_equal(hear(&c, bytes, n), n);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(hear(&c, "\4\12\4PING\0\0abc", 12), 12);
    assert_true(c.n_commands <= ZMTP_COMMANDS_OUT_BYTES);
    zmtp_session_end(&c);
}

// What a peer says that it is.
static void types_of_sockets(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        size_t n;
        int error;
    } types[] = {{"REQ", 3, 0},         {"DEALER", 6, 0},
                 {"EALER", 5, -EPROTO}, {"SUB", 3, -EPROTO},
                 {"", 0, -EPROTO},      {"REQ\0DEALER", 10, -EPROTO},
                 {"A B", 3, -EPROTO},   {"ABCDEFGHIJKLMNO", 15, -EPROTO}};
    static struct zmtp_session c;
    uint8_t bytes[512], command[300];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        zmtp_session_begin(&c, &req_rules, true, NULL);
        zmtp_put_greeting(ZMTP_NULL, bytes);
        assert_int_equal(hear(&c, bytes, 64), 64);
        memcpy(bytes, "\13Socket-Type\0\0\0", 15);
        bytes[15] = (uint8_t)types[i].n;
        memcpy(bytes + 16, types[i].type, types[i].n);
        const size_t n = zmtp_put_command("READY", bytes, 16 + types[i].n, command);
        assert_int_equal(hear(&c, command, n), types[i].error ? types[i].error : (long)n);
        zmtp_session_end(&c);
    }
    static const char *const wrong[] = {"\4\5\5WRONG", "\0\1a", "\4\7\5READY\377"};
    for (size_t i = 0; i < 3; i++) { // another command, no command, no metadata
        zmtp_session_begin(&c, &req_rules, true, NULL);
        zmtp_put_greeting(ZMTP_NULL, bytes);
        assert_int_equal(hear(&c, bytes, 64), 64);
        assert_int_equal(hear(&c, wrong[i], (size_t)wrong[i][1] + 2), -EPROTO);
        zmtp_session_end(&c);
    }
    // A greeting for a mechanism that we have not: it gets the one that we have.
    zmtp_session_begin(&c, &req_rules, true, NULL);
    zmtp_put_greeting(ZMTP_CURVE, bytes);
    assert_int_equal(hear(&c, bytes, 64), -EACCES);
    assert_int_equal(c.n_commands, 64);
    assert_string_equal((const char *)c.commands + 12, "NULL");
    zmtp_session_begin(&c, &req_rules, true, NULL);
    memcpy(bytes + 12, "PLAIN", 5);
    assert_int_equal(hear(&c, bytes, 64), -EPROTO);
    zmtp_session_begin(&c, &req_rules, true, NULL);
    assert_int_equal(hear(&c, "GET / HTTP/1.1", 14), -EPROTO);
    assert_int_equal(zmtp_put_command("X", bytes, 300, command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sealed_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_count_up, setup, teardown),
        cmocka_unit_test_setup_teardown(what_peers_may_say, setup, teardown),
        cmocka_unit_test_setup_teardown(types_of_sockets, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
