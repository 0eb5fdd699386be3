// SPDX-License-Identifier: Apache-2.0
// What posectl watch prints of poses: each line begins with its camera's name, and where odom comes
// to lie elsewhere in the map is told of each camera by itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/scratch.h"
#include "tools/posectl/posectl.h"
#include "tools/posectl/watch_lines.h"

static char printed[4000];

void posectl_print_json(FILE *file, json_t *json, bool on_one_line)
{
    (void)file, (void)json, (void)on_one_line;
    fail();
}

// The lines of a pose whose odom lies at x_m in the map.
static void print(const char *topic, double x_m)
{
    static uint8_t bytes[posed_Odometry_size];
    posed_Odometry odometry = posed_Odometry_init_zero;
    odometry.has_pose = odometry.has_map_from_odom = true;
    odometry.pose.has_position = odometry.pose.has_orientation = true;
    odometry.pose.orientation.w = 1;
    odometry.map_from_odom = odometry.pose;
    odometry.map_from_odom.position.x = x_m;
    const int n = wire_encode(posed_Odometry_fields, &odometry, bytes, sizeof bytes);
    assert_true(n > 0);
    assert_true(watch_lines_print(topic, bytes, (size_t)n, false));
}

// Prints into a file in place of stdout.
static void print_all(const char *const *topics, const double *x_m, size_t n)
{
    struct scratch scratch;
    char path[256];
    scratch_create(&scratch);
    const int before = dup(STDOUT_FILENO);
    assert_non_null(freopen(scratch_name(&scratch, "out", path), "w+", stdout));
    for (size_t i = 0; i < n; i++)
        print(topics[i], x_m[i]);
    rewind(stdout);
    printed[fread(printed, 1, sizeof printed - 1, stdout)] = 0;
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    scratch_remove(&scratch);
}

static unsigned count_lines(const char *begin)
{
    unsigned n = 0;
    for (const char *at = printed; *at; at = strchr(at, '\n') + 1)
        n += strncmp(at, begin, strlen(begin)) == 0;
    return n;
}

static void two_cameras(void **state)
{
    (void)state;
    static const char *const topics[] = {"pose/left",  "pose/right", "pose/left", "pose/right",
                                         "pose/right", "pose/left",  "pose/left"};
    static const double x_m[] = {1, 2, 1, 2, 2, 1.5, 1.5};
    print_all(topics, x_m, 7);
    assert_int_equal(count_lines("left     map from odom: 1.0000"), 1);
    assert_int_equal(count_lines("right    map from odom: 2.0000"), 1);
    assert_int_equal(count_lines("left     map from odom: 1.5000"), 1);
    assert_int_equal(count_lines("left "), 2 + 4);
    assert_int_equal(count_lines("right "), 1 + 3);
    assert_int_equal(count_lines(""), 10);
}

static void one_camera(void **state)
{
    (void)state;
    static const char *const topics[] = {"pose", "pose", "pose"};
    static const double x_m[] = {0, 3, 3};
    print_all(topics, x_m, 3);
    assert_int_equal(count_lines("map from odom: 3.0000"), 1);
    assert_int_equal(count_lines(""), 4);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_cameras),
        cmocka_unit_test(one_camera),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
