// SPDX-License-Identifier: Apache-2.0
// What clients hold in unread answers, and who may be sent more: less than is still free.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/client.h"

static void test_known(void **state)
{
    (void)state;
    const uint8_t a[3] = {1, 0, 2}, b[3] = {1, 0, 3};
    struct client *first = client_enter(a, sizeof a);
    assert_non_null(first);
    assert_ptr_equal(client_enter(a, sizeof a), first);
    struct client *second = client_enter(b, sizeof b);
    assert_ptr_not_equal(second, first);
    struct client *shorter = client_enter(a, 2);
    assert_ptr_not_equal(shorter, first);
    // Known as long as somebody is there: bytes show that it is the same.
    client_add_unread(first, CLIENT_MAX_UNREAD_BYTES);
    client_leave(first);
    assert_ptr_equal(client_enter(a, sizeof a), first);
    assert_false(client_may_be_sent(first));
    client_remove_unread(first, CLIENT_MAX_UNREAD_BYTES);
    client_leave(first);
    client_leave(first);
    client_leave(shorter);
    client_leave(second);
}

// The first at most half of it, the next half of the rest.
static void test_shares(void **state)
{
    (void)state;
    const size_t half = CLIENT_MAX_UNREAD_BYTES / 2, quarter = half / 2;
    struct client *a = client_enter("a", 1), *b = client_enter("b", 1);
    client_add_unread(a, half - 1);
    assert_true(client_may_be_sent(a));
    client_add_unread(a, 1);
    assert_false(client_may_be_sent(a));
    assert_true(client_may_be_sent(b));
    client_add_unread(b, quarter - 1);
    assert_true(client_may_be_sent(b));
    client_add_unread(b, 1);
    assert_false(client_may_be_sent(b));
    client_remove_unread(a, half);
    assert_true(client_may_be_sent(a));
    assert_true(client_may_be_sent(b));
    client_remove_unread(b, quarter);
    // All is free again, to the byte.
    client_add_unread(a, half - 1);
    assert_true(client_may_be_sent(a));
    client_remove_unread(a, half - 1);
    client_leave(a);
    client_leave(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known), cmocka_unit_test(test_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
