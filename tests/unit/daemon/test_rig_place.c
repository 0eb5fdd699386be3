// SPDX-License-Identifier: Apache-2.0
// The file that says where a camera sits: what is read of it, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "daemon/rig_place.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;

static int read_text(const char *text, struct rig_place *out)
{
    const struct log_sink log = scratch_log(&scratch);
    char path[256];
    scratch_write_text(&scratch, "place.txt", text);
    return rig_place_read(scratch_name(&scratch, "place.txt", path), out, &log);
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
    assert_int_equal(rig_place_read("/nowhere/place", &place, &log), -EINVAL);
    assert_true(scratch_said(&scratch, "camera.rig"));
}

static const char whole[] = "# tum:a\n# tum:b\n0.1 0 0 0 0 0 1\n"
                            "1e-07 -3e-08 0 0 0 0\n"
                            "-3e-08 1e-06 0 0 0 0\n"
                            "0 0 1e-07 0 0 0\n"
                            "0 0 0 4e-08 0 0\n"
                            "0 0 0 0 2e-07 0\n"
                            "0 0 0 0 0 5e-08\n"
                            "# B's stamp of a moment less A's [s]\n"
                            "clock 0.012500\n";

// What posectl writes, cut at any byte: behind the place's line nothing but the whole file will do.
static void test_cut_file(void **state)
{
    (void)state;
    char text[sizeof whole];
    struct rig_place place;
    const size_t n_place = (size_t)(strstr(whole, "1e-07") - whole);
    assert_int_equal(read_text(whole, &place), 0);
    assert_true(place.clock_s == 0.0125 && place.T_a_b.t_m[0] == 0.1);
    for (size_t n = n_place; n < sizeof whole - 1; n++) {
        snprintf(text, sizeof text, "%.*s", (int)n, whole);
        assert_int_equal(read_text(text, &place), n == n_place ? 0 : -EINVAL);
    }
    assert_true(scratch_said(&scratch, "place.txt:11: the file was cut off"));
    snprintf(text, sizeof text, "%.*s", (int)(strstr(whole, "0 0 1e-07") - whole), whole);
    assert_int_equal(read_text(text, &place), -EINVAL);
    assert_true(scratch_said(&scratch, "place.txt:5: the file was cut off"));
    snprintf(text, sizeof text, "%.*s", (int)(strstr(whole, "-08 1e") - whole), whole);
    assert_int_equal(read_text(text, &place), -EINVAL);
    assert_true(scratch_said(&scratch, "place.txt:5: behind the place six rows"));
}

// A row with `from` in place of which there is `to`, as long as it.
static void expect_wrong(const char *from, const char *to, const char *says)
{
    char text[sizeof whole];
    struct rig_place place;
    memcpy(text, whole, sizeof text);
    memcpy(strstr(text, from), to, strlen(to));
    assert_int_equal(read_text(text, &place), -EINVAL);
    assert_true(scratch_said(&scratch, says));
}

static void test_bad_covariance(void **state)
{
    (void)state;
    char text[2048];
    struct rig_place place;
    expect_wrong("1e-07 -3", "-1e-7 -3", "place.txt:4: a variance is negative");
    expect_wrong("5e-08", "-5e-8", "place.txt:9: a variance is negative");
    expect_wrong("4e-08", "  nan", "place.txt:7: behind the place six rows");
    expect_wrong("0 4e-08", "4e-0008", "place.txt:7: behind the place six rows");
    expect_wrong("4e-08 0", "4e-08 x", "place.txt:7: behind the place six rows");
    expect_wrong("# B's", "1 2 3", "place.txt:10: behind the covariance's six rows");
    // The name of a recording may be long, and is one line.
    snprintf(text, sizeof text, "# %01500d\n%s", 7, whole);
    assert_int_equal(read_text(text, &place), 0);
    assert_true(place.T_a_b.t_m[0] == 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_cut_file),
        cmocka_unit_test(test_bad_covariance),
    };
    scratch_create(&scratch);
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(&scratch);
    return n_failed;
}
