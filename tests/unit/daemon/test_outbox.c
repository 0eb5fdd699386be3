// SPDX-License-Identifier: Apache-2.0
// The outbox against a plain string of all bytes: whatever is sent at a time, and however often the
// ring has gone round and grown, they come in order and once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/zmtp/outbox.h"

#define N_MESSAGES 60

static uint32_t seed = 5;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

struct wire {
    uint8_t bytes[64 * N_MESSAGES];
    size_t n;
};

static void put(struct outbox *outbox, struct wire *wanted, int number)
{
    const size_t n_body = below(30);
    const bool has_first = number % 2;
    uint8_t *body;
    struct zmtp_message *message = zmtp_message_create(has_first, "topic", 5, n_body, &body);
    assert_non_null(message);
    memset(body, 'A' + number, n_body);
    memcpy(wanted->bytes + wanted->n, message->head, message->n_head);
    memcpy(wanted->bytes + wanted->n + message->n_head, body, n_body);
    wanted->n += message->n_head + n_body;
    assert_true(outbox_put(outbox, message));
    zmtp_message_drop(message);
}

// Sends at most n bytes of what is gathered.
static void send_some(struct outbox *outbox, struct wire *got, size_t n)
{
    struct iovec pieces[OUTBOX_PIECES];
    const size_t n_pieces = outbox_gather(outbox, NULL, pieces);
    size_t n_sent = 0;
    for (size_t i = 0; i < n_pieces; i++) {
        size_t n_piece = pieces[i].iov_len;
        assert_true(n_piece > 0);
        n_piece = n_piece < n - n_sent ? n_piece : n - n_sent;
        memcpy(got->bytes + got->n, pieces[i].iov_base, n_piece);
        got->n += n_piece;
        n_sent += n_piece;
    }
    outbox_sent(outbox, n_sent);
}

static void test_order(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct outbox outbox = {0};
        struct wire wanted = {.n = 0}, got = {.n = 0};
        for (int i = 0; i < N_MESSAGES; i++) {
            put(&outbox, &wanted, i);
            for (uint32_t k = below(3); k > 0; k--)
                send_some(&outbox, &got, 1 + below(50));
            assert_int_equal(outbox_is_inside(&outbox), outbox.n_sent > 0);
        }
        while (got.n < wanted.n)
            send_some(&outbox, &got, 1 + below(200));
        assert_int_equal(outbox.n_queue, 0);
        assert_false(outbox_is_inside(&outbox));
        assert_int_equal(got.n, wanted.n);
        assert_memory_equal(got.bytes, wanted.bytes, wanted.n);
        outbox_end(&outbox);
    }
}

static void test_room(void **state)
{
    (void)state;
    struct outbox outbox = {0};
    struct wire wanted = {.n = 0}, got = {.n = 0};
    for (int i = 0; i < 10; i++) {
        assert_true(outbox_has_room(&outbox, 10));
        put(&outbox, &wanted, i);
    }
    assert_false(outbox_has_room(&outbox, 10));
    send_some(&outbox, &got, wanted.n);
    assert_true(outbox_has_room(&outbox, 10));
    outbox_end(&outbox); // with messages inside
    assert_int_equal(outbox.n_queue, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
