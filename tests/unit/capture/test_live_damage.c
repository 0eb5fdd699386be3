// SPDX-License-Identifier: Apache-2.0
// A camera on a bad cable: few lines in the log, and all frames counted in them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "capture/live_damage.h"

#define PERIOD INT64_C(33333333)

static char said[4000];

static void hear(void *user, enum log_level level, const char *text)
{
    (void)user;
    assert_int_equal(level, LOG_LEVEL_WARNING);
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", text);
}

static struct live_damage begin(void)
{
    said[0] = 0;
    return (struct live_damage){.log = {.write = hear}, .name = "v4l2:2"};
}

static void a_bad_cable(void **state)
{
    (void)state;
    struct live_damage damage = begin();
    for (uint64_t i = 100; i < 100 + 25 * 30; i++)
        live_damage_note(&damage, 1000 + (int64_t)i * PERIOD, i, "%d of %d bytes came",
                         i % 2 ? 0 : 300, 600);
    live_damage_end(&damage);
    assert_string_equal(said,
                        "v4l2:2: frame 100: 300 of 600 bytes came\n"
                        "v4l2:2: frame 401: 0 of 600 bytes came; 300 before it were damaged, too\n"
                        "v4l2:2: frame 702: 300 of 600 bytes came; 300 before it were damaged, "
                        "too\n"
                        "v4l2:2: 750 frames were damaged\n");
}

// One an hour is told each time.
static void now_and_then_one(void **state)
{
    (void)state;
    struct live_damage damage = begin();
    live_damage_end(&damage);
    assert_string_equal(said, "");
    live_damage_note(&damage, 1000, 7, "%d of %d bytes came", 1, 2);
    live_damage_end(&damage);
    assert_string_equal(said, "v4l2:2: frame 7: 1 of 2 bytes came\n");
    said[0] = 0;
    live_damage_note(&damage, INT64_C(3600000000000), 108007, "%s", "1 of 2 bytes came");
    assert_string_equal(said, "v4l2:2: frame 108007: 1 of 2 bytes came\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_cable),
        cmocka_unit_test(now_and_then_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
