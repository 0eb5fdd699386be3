// SPDX-License-Identifier: Apache-2.0
// The file that says where a camera sits: what is read of it, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "daemon/rig_pose.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;

static int read_text(const char *text, struct rig_place *out)
{
    const struct log_sink log = scratch_log(&scratch);
    char path[256];
    scratch_write_text(&scratch, "place.txt", text);
    return rig_pose_read_place(scratch_name(&scratch, "place.txt", path), out, &log);
}

static void test_good(void **state)
{
    (void)state;
    struct rig_place place;
    assert_int_equal(read_text("# a\n# b\n0.1 -0.2 0.3 0 0.6 0 0.8\n", &place), 0);
    assert_true(place.T_a_b.t_m[0] == 0.1 && place.T_a_b.t_m[1] == -0.2);
    // About y by 2 * atan(0.6 / 0.8): cosine 0.28, sine 0.96.
    assert_true(fabs(place.T_a_b.r[0] - 0.28) < 1e-12 && fabs(place.T_a_b.r[2] - 0.96) < 1e-12);
    assert_true(place.clock_s == 0);
    assert_int_equal(read_text("0 0 0 0 0 0 1\n# more\nclock -0.0125\n", &place), 0);
    assert_true(place.clock_s == -0.0125);
    assert_int_equal(read_text("0 0 99.9 0 0 0 1\nclock 10\n", &place), 0);
    assert_int_equal(read_text("0 0 0 0 0 0 1\nclock -10\n", &place), 0);
    assert_int_equal(read_text("0 0 0 0 0 0 1.0099\n", &place), 0); // squared 1.0199
    assert_true(fabs(place.T_a_b.r[0] - 1) < 1e-12);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const places[] = {
        "",
        "# nothing\n",
        "0 0 0 0 0 0\n",
        "text\n",
        "0 0 0 0 0 0 1.0101\n", // squared 1.0203
        "0 0 0 0 0 0 0.9898\n", // squared 0.9797
        "0 0 0 0 0 0 0\n",
        "0 0 nan 0 0 0 1\n",
        "100 0 0 0 0 0 1\n",
        "0 -inf 0 0 0 0 1\n",
    };
    static const char *const clocks[] = {
        "0 0 0 0 0 0 1\nclock 10.01\n",
        "0 0 0 0 0 0 1\nclock -10.01\n",
        "0 0 0 0 0 0 1\nclock nan\n",
        "0 0 0 0 0 0 1\nclock soon\n",
    };
    struct rig_place place;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert_int_equal(read_text(places[i], &place), -EINVAL);
        assert_true(scratch_said(&scratch, "posectl rig calibrate"));
    }
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        assert_int_equal(read_text(clocks[i], &place), -EINVAL);
        assert_true(scratch_said(&scratch, "seconds are wanted"));
    }
    const struct log_sink log = scratch_log(&scratch);
    assert_int_equal(rig_pose_read_place("/nowhere/place", &place, &log), -EINVAL);
    assert_true(scratch_said(&scratch, "camera.rig"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_good), cmocka_unit_test(test_bad)};
    scratch_create(&scratch);
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return n_failed;
}
