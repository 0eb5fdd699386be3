// SPDX-License-Identifier: Apache-2.0
// The ranges of the configuration: their ends are inside, and what a room would refuse at the start
// is refused with the configuration.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/config/config.h"
#include "daemon/config/settings_table.h"

static char said[4096]; // everything logged

static void keep_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static const struct log_sink sink = {keep_line, NULL};

// A range has its ends, a text its last byte, and a number comes back to the last bit.
static void ends_of_ranges_are_inside(void **state)
{
    (void)state;
    static const double numbers[] = {0.1, 1.0 / 3, 0.1 + 0.2, 0.7 + 0.1, 5e-5};
    struct config config;
    char error[300], text[CONFIG_TEXT_MAX + 1], value[CONFIG_TEXT_MAX];
    config_default(&config);
    static const struct {
        const char *name, *value;
        int error;
    } cases[] = {
        {"camera.fx", "100000", 0},
        {"camera.fx", "1", 0},
        {"camera.fx", "0", 0},
        {"camera.fx", "100000.1", -ERANGE},
        {"camera.fx", "0.99", -ERANGE},
        {"camera.fx", "-500", -ERANGE},
        {"camera.fy", "-100000", 0},
        {"camera.fy", "-1", 0},
        {"camera.fy", "0", 0},
        {"camera.fy", "-100000.1", -ERANGE},
        {"camera.fy", "-0.99", -ERANGE},
        {"camera.cx", "-0.1", -ERANGE},
        {"camera.cy", "4096.1", -ERANGE},
        {"camera.depth_scale", "0", 0},
        {"camera.depth_scale", "0.5", -ERANGE},
        {"camera.float_scale", "0", 0},
        {"camera.float_scale", "0.001", 0},
        {"camera.float_scale", "0.0009", -ERANGE},
        {"camera.float_scale", "1000000.1", -ERANGE},
        {"capture.speed", "0.001", 0},
        {"capture.speed", "0.0009", -EINVAL},
        {"capture.step", "1", 0},
        {"capture.step", "1000000", 0},
        {"capture.step", "0", -ERANGE},
        {"capture.step", "1000001", -ERANGE},
        {"capture.speed", "1000", 0},
        {"capture.speed", "1000.1", -EINVAL},
        {"tracker.iterations", "100,0,0", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(
            config_set(&config, cases[i].name, cases[i].value, "test", error, sizeof error),
            cases[i].error);
    memset(text, 'x', sizeof text);
    text[CONFIG_TEXT_MAX] = 0;
    assert_int_equal(config_set(&config, "capture.source", text, "test", error, sizeof error),
                     -ERANGE);
    text[CONFIG_TEXT_MAX - 1] = 0;
    assert_int_equal(config_set(&config, "capture.source", text, "test", error, sizeof error), 0);
    assert_int_equal(strlen(config.source), CONFIG_TEXT_MAX - 1);
    text[31] = 0;
    assert_int_equal(config_set(&config, "publish.odom_frame", text, "test", error, sizeof error),
                     0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const size_t key = config_find_key("camera.cx");
        config.capture.cx_px = numbers[i];
        config_key_value(&config, key, value, sizeof value);
        assert_int_equal(config_set(&config, "camera.cx", value, "test", error, sizeof error), 0);
        assert_true(config.capture.cx_px == numbers[i]);
    }
}

// What a room would refuse at the start is refused here, and both bounds of each key are taken.
static void bounds_are_those_of_the_rooms(void **state)
{
    (void)state;
    struct config config;
    for (size_t i = 0; i < config_n_keys(); i++)
        for (int upper = 0; upper < 2; upper++) {
            const struct config_key *key = &config_keys[i];
            char name[96], bound[64];
            if (key->min == key->max || key->type == CONFIG_SPEED || key->type == CONFIG_LEVELS)
                continue;
            config_key_name(i, name, sizeof name);
            snprintf(bound, sizeof bound, "%.17g", upper ? key->max : key->min);
            // The image's depth range may not turn around.
            const struct config_assignment set[] = {{"gpu.depth_min_m", "0.05", "--set"},
                                                    {"gpu.depth_max_m", "20", "--set"},
                                                    {"capture.allow_implausible", "true", "--set"},
                                                    {name, bound, "--set"}};
            said[0] = 0;
            if (config_load(&config, NULL, set, 4, &sink) != 0)
                fail_msg("%s = %s: %s", name, bound, said);
        }
}

static void rooms_refuse_before_the_start(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"map.keyframes", "1", "map.keyframes: 1 is neither 0 (none) nor in 4 .. 1024"},
        {"map.keyframes", "3", "map.keyframes: 3 is neither 0 (none) nor in 4 .. 1024"},
        {"map.keyframes", "1025", "map.keyframes: 1025 is neither"},
        {"camera.fx", "-500",
         "camera.fx: -500 is neither 0 (what the source says of itself) nor in 1 .. 100000"},
        {"camera.fy", "0.5", "nor in 1 .. 100000 or -100000 .. -1"},
        {"camera.depth_scale", "0.5",
         "neither 0 (what the source says of itself) nor in 1 .. 1000000"},
        {"capture.speed", "0.0009", "neither real, max nor a number in 0.001 .. 1000"},
        {"camera.fx", "4", "--set: camera.fx = 4 is implausible: no image of 32 to 4096 pixels"},
        {"camera.fy", "-24000", "--set: camera.fy = -24000 is implausible"},
        {"camera.cx", "5",
         "--set: camera.cx = 5 is implausible: it is near the centre of no image"},
        {"camera.cy", "3400", "--set: camera.cy = 3400 is implausible"},
        {"map.voxel_m", "0.1001", "map.voxel_m: 0.1001 is outside"},
        {"tracker.iterations", "0,0,0",
         "--set: tracker.iterations, sum of the levels = 0 is outside 1 .. 300"},
        {"tracker.gate_distance_m", "0.00009", "tracker.gate_distance_m: 0.00009 is outside"},
    };
    static const char *const good[][2] = {{"map.keyframes", "0"},
                                          {"map.keyframes", "4"},
                                          {"camera.fx", "4.3"},
                                          {"camera.fy", "-23000"},
                                          {"camera.cx", "6"},
                                          {"camera.cy", "3276"},
                                          {"map.voxel_m", "0.1"},
                                          {"tracker.iterations", "0,0,1"},
                                          {"tracker.gate_distance_m", "0.0001"}};
    struct config config;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct config_assignment set = {rows[i][0], rows[i][1], "--set"};
        said[0] = 0;
        assert_int_equal(config_load(&config, NULL, &set, 1, &sink), -EINVAL);
        if (!strstr(said, rows[i][2]))
            fail_msg("%s, wanted: %s", said, rows[i][2]);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const struct config_assignment set = {good[i][0], good[i][1], "--set"};
        said[0] = 0;
        if (config_load(&config, NULL, &set, 1, &sink) != 0)
            fail_msg("%s = %s: %s", good[i][0], good[i][1], said);
    }
}

// A rule between settings names them, and where each was set: the shared ones, and a camera's own.
static void rules_name_places(void **state)
{
    (void)state;
    char path[] = "/tmp/posed-rules-XXXXXX";
    static const char *const rows[][4] = {
        {"gpu.depth_max_m", "2", "[gpu]\ndepth_min_m = 3\n",
         ":2: gpu.depth_min_m = 3 is not below gpu.depth_max_m = 2 (gpu.depth_max_m: --set)\n"},
        {"gpu.depth_max_m", "3", "[gpu]\ndepth_min_m = 3\n",
         ":2: gpu.depth_min_m = 3 is not below gpu.depth_max_m = 3 (gpu.depth_max_m: --set)\n"},
        {"gpu.depth_min_m", "9", "",
         "--set: gpu.depth_min_m = 9 is not below gpu.depth_max_m = 8\n"},
        {"camera.fx", "500", "[camera]\n\nfy = 200\n",
         "--set: camera.fx = 500 and camera.fy = 200 are implausible: they differ by more than a "
         "factor 2 (capture.allow_implausible takes them) (camera.fy: /tmp/posed-rules-"},
        {"camera left.fx", "500", "[camera]\nfy = 200\n[camera left]\nsource = synth:room\n",
         "--set: [camera left]: camera.fx = 500 and camera.fy = 200 are implausible"},
        {"log.level", "debug", "[camera left]\nsource = synth:room\ndepth_min_m = 9\n",
         ":3: [camera left]: gpu.depth_min_m = 9 is not below gpu.depth_max_m = 8\n"},
    };
    struct config config;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct config_assignment set = {rows[i][0], rows[i][1], "--set"};
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        fputs(rows[i][2], file);
        fclose(file);
        said[0] = 0;
        assert_int_equal(config_load(&config, path, &set, 1, &sink), -EINVAL);
        if (!strstr(said, rows[i][3]))
            fail_msg("%s, wanted: %s", said, rows[i][3]);
    }
    unlink(path);
}

// What stands in messages is text; a path may be anything.
static void names_are_text(void **state)
{
    (void)state;
    static const char *const names[] = {
        "publish.odom_frame", "publish.camera_frame", "ros.odom_frame",    "ros.base_frame",
        "ros.map_frame",      "ros.namespace",        "ros.optical_frame", "recorder.format"};
    struct config config;
    char text[128], wanted[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *point = strchr(names[i], '.');
        snprintf(text, sizeof text, "[%.*s]\n%s = caf\xe9\n", (int)(point - names[i]), names[i],
                 point + 1);
        snprintf(wanted, sizeof wanted, "test.conf:2: %s: its byte 4 (0xe9)", names[i]);
        said[0] = 0;
        config_default(&config);
        assert_int_equal(config_parse(&config, text, strlen(text), "test.conf", &sink), -EINVAL);
        assert_non_null(strstr(said, wanted));
    }
    snprintf(text, sizeof text,
             "[publish]\nodom_frame = caf\xc3\xa9\n[output]\nmap = caf\xe9.ply\n");
    assert_int_equal(config_parse(&config, text, strlen(text), "test.conf", &sink), 0);
    assert_string_equal(config.publish.odom_frame, "caf\xc3\xa9");
}

static void ros_domain_of_the_environment(void **state)
{
    (void)state;
    struct config config;
    const char *origin;
    static const char *const bad[] = {
        "233", "-1", "x", "7x", "1e1000", " 7", "18446744073709551617"};
    said[0] = 0;
    setenv("ROS_DOMAIN_ID", "232", 1);
    assert_int_equal(config_load(&config, NULL, NULL, 0, &sink), 0);
    assert_int_equal(config_ros_domain(&config, &origin), 232);
    assert_string_equal(origin, "ROS_DOMAIN_ID");
    const struct config_assignment set[] = {{"ros.domain", "0", "--set"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("ROS_DOMAIN_ID", bad[i], 1);
        said[0] = 0;
        assert_int_equal(config_load(&config, NULL, NULL, 0, &sink), -EINVAL);
        assert_non_null(strstr(said, "environment ROS_DOMAIN_ID: \""));
        assert_non_null(strstr(said, "\" is no domain of ROS 2: 0..232"));
        // who sets it means that
        said[0] = 0;
        assert_int_equal(config_load(&config, NULL, set, 1, &sink), 0);
        assert_int_equal(config_ros_domain(&config, &origin), 0);
        assert_string_equal(origin, "--set");
    }
    setenv("POSED_ROS_DOMAIN", "9", 1);
    assert_int_equal(config_load(&config, NULL, NULL, 0, &sink), 0);
    assert_int_equal(config_ros_domain(&config, &origin), 9);
    assert_string_equal(origin, "POSED_ROS_DOMAIN");
    unsetenv("POSED_ROS_DOMAIN");
    setenv("ROS_DOMAIN_ID", "", 1); // as not set, with ROS, too
    assert_int_equal(config_load(&config, NULL, NULL, 0, &sink), 0);
    assert_int_equal(config_ros_domain(&config, &origin), 0);
    assert_null(origin);
    unsetenv("ROS_DOMAIN_ID");
    assert_string_equal(said, "");
}

// Who installs what --dump-config prints is in the domain of the environment all the same.
static void dumped_domain_is_of_the_environment(void **state)
{
    (void)state;
    static struct config config;
    const char *origin, name[] = "dumped.conf";
    char text[1 << 16];
    FILE *file = fmemopen(text, sizeof text, "w");
    assert_non_null(file);
    setenv("ROS_DOMAIN_ID", "8", 1);
    assert_int_equal(config_load(&config, NULL, NULL, 0, &sink), 0);
    config_dump(&config, file);
    fclose(file);
    setenv("ROS_DOMAIN_ID", "7", 1);
    assert_int_equal(config_parse(&config, text, strlen(text), name, &sink), 0);
    assert_int_equal(config_ros_domain(&config, &origin), 7);
    assert_string_equal(origin, "ROS_DOMAIN_ID");
    unsetenv("ROS_DOMAIN_ID");
    assert_int_equal(config_ros_domain(&config, &origin), 0);
    assert_null(origin);
}

// Only where ROS is used, and where the two differ.
static void a_domain_that_is_set_against_the_environment_is_told(void **state)
{
    (void)state;
    static struct config config;
    static const struct config_assignment publish[] = {{"ros.domain", "3", "--set"},
                                                       {"ros.publish", "true", "--set"}},
                                          read[] = {{"ros.domain", "3", "--set"},
                                                    {"camera a.source", "synth:room", "x"},
                                                    {"camera b.source", "ros2:/d", "x"}};
    static const char wanted[] = "ros.domain = 3 (--set) counts, not ROS_DOMAIN_ID=7 of the "
                                 "environment: with ros.domain = -1 that does\n";
    static const struct {
        const struct config_assignment *set;
        size_t n_set;
        const char *domain, *said;
    } cases[] = {{publish, 1, "7", ""},
                 {publish, 2, "7", wanted},
                 {publish, 2, "3", ""},
                 {read, 2, "7", ""},
                 {read, 3, "7", wanted}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("ROS_DOMAIN_ID", cases[i].domain, 1);
        said[0] = 0;
        assert_int_equal(config_load(&config, NULL, cases[i].set, cases[i].n_set, &sink), 0);
        assert_string_equal(said, cases[i].said);
    }
    unsetenv("ROS_DOMAIN_ID");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_of_ranges_are_inside),
        cmocka_unit_test(bounds_are_those_of_the_rooms),
        cmocka_unit_test(rooms_refuse_before_the_start),
        cmocka_unit_test(rules_name_places),
        cmocka_unit_test(names_are_text),
        cmocka_unit_test(ros_domain_of_the_environment),
        cmocka_unit_test(dumped_domain_is_of_the_environment),
        cmocka_unit_test(a_domain_that_is_set_against_the_environment_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
