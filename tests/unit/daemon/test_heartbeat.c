// SPDX-License-Identifier: Apache-2.0
// When a silent peer is asked, and when it is given up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/zmtp/heartbeat.h"

#define S INT64_C(1000000000)

static void test_silence(void **state)
{
    (void)state;
    struct heartbeat heartbeat = {0};
    heartbeat_heard(&heartbeat, 100 * S);
    assert_int_equal(heartbeat_due(&heartbeat, 100 * S), HEARTBEAT_NOTHING);
    assert_int_equal(heartbeat_due(&heartbeat, 105 * S), HEARTBEAT_NOTHING);
    assert_int_equal(heartbeat_due(&heartbeat, 105 * S + 1), HEARTBEAT_ASK);
    assert_int_equal(heartbeat_due(&heartbeat, 106 * S), HEARTBEAT_NOTHING); // once
    assert_int_equal(heartbeat_due(&heartbeat, 115 * S), HEARTBEAT_NOTHING);
    assert_int_equal(heartbeat_due(&heartbeat, 115 * S + 1), HEARTBEAT_GIVE_UP);
    // Whatever it says is a sign of life, and the next silence is asked about anew.
    heartbeat_heard(&heartbeat, 116 * S);
    assert_int_equal(heartbeat_due(&heartbeat, 121 * S), HEARTBEAT_NOTHING);
    assert_int_equal(heartbeat_due(&heartbeat, 121 * S + 1), HEARTBEAT_ASK);
    heartbeat_heard(&heartbeat, 130 * S);
    assert_int_equal(heartbeat_due(&heartbeat, 131 * S), HEARTBEAT_NOTHING);
}

// We were away ourselves: nobody is given up who was not asked.
static void test_unasked(void **state)
{
    (void)state;
    struct heartbeat heartbeat = {0};
    heartbeat_heard(&heartbeat, 100 * S);
    assert_int_equal(heartbeat_due(&heartbeat, 1000 * S), HEARTBEAT_ASK);
    assert_int_equal(heartbeat_due(&heartbeat, 1000 * S + 1), HEARTBEAT_GIVE_UP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_silence),
                                       cmocka_unit_test(test_unasked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
