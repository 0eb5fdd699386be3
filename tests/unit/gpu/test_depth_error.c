// SPDX-License-Identifier: Apache-2.0
// A camera's field: what lies between its nodes, what it does to a depth, and whose it is.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/track/depth_error.h"

static const struct intrinsics camera = {525, 520, 319.5, 239.5, 640, 480};

static int n_lines;

static void count_line(void *user, enum log_level level, const char *text)
{
    (void)user;
    (void)level;
    (void)text;
    n_lines++;
}

static const struct log_sink sink = {count_line, NULL};

// 1e-3 + 2e-4 column - 3e-4 row + 1e-5 column row, which bilinear interpolation gives back.
static double plane(double column, double row)
{
    return 1e-3 + 2e-4 * column - 3e-4 * row + 1e-5 * column * row;
}

static struct depth_error field_of(void)
{
    struct depth_error field = {.camera = camera};
    for (int k = 0; k < FIELD_ROWS; k++)
        for (int i = 0; i < FIELD_COLUMNS; i++)
            field.node_per_m[k * FIELD_COLUMNS + i] = (float)plane(i, k);
    return field;
}

static void between_its_nodes_it_is_bilinear(void **state)
{
    (void)state;
    static float all[640 * 480];
    const struct depth_error field = field_of();
    const double u_px[] = {0, 0.5, 33.6, 100, 319.5, 605, 606, 638.9, 639};
    const double v_px[] = {0, 0.5, 34.2, 100, 239.5, 444, 445, 478.9, 479};
    for (int a = 0; a < 9; a++)
        for (int b = 0; b < 9; b++) {
            const struct depth_error_cell cell = depth_error_cell(&camera, u_px[a], v_px[b]);
            double sum = 0;
            for (int i = 0; i < 4; i++) {
                assert_true(cell.node[i] >= 0 && cell.node[i] < FIELD_N_NODES);
                assert_true(cell.weight[i] >= 0 && cell.weight[i] <= 1);
                sum += cell.weight[i];
            }
            assert_true(fabs(sum - 1) < 1e-12);
            const double expected = plane(u_px[a] * 19 / 639, v_px[b] * 14 / 479);
            assert_true(fabs(depth_error_at(&field, u_px[a], v_px[b]) - expected) < 1e-9);
        }
    // Beyond the image it goes on as at its rim.
    assert_true(depth_error_at(&field, -5, 700) == depth_error_at(&field, 0, 479));
    depth_error_fill(&field, all);
    for (int i = 0; i < 640 * 480; i += 997)
        assert_true((double)all[i] == (double)(float)depth_error_at(&field, i % 640, i / 640));
}

static void its_size_is_the_root_mean_square(void **state)
{
    (void)state;
    struct depth_error field = {.camera = camera};
    for (int i = 0; i < FIELD_N_NODES; i++)
        field.node_per_m[i] = i % 3 == 0 ? 0.003f : 0;
    assert_true(fabs(depth_error_rms_per_m(&field) - 0.003 / sqrt(3)) < 1e-9);
}

// 1 / z + f; where half of it would be error, there is no depth.
static void a_depth_is_mended_in_disparity(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        const float per_m = 0.004f * (float)sign;
        const double mended = (double)depth_error_mended_m(2, per_m);
        assert_true(fabs(1 / mended - 0.5 - (double)per_m) < 1e-6);
    }
    assert_true(depth_error_mended_m(10, 0.0498f) > 0);
    assert_true(depth_error_mended_m(10, 0.0502f) == 0);
}

static void it_belongs_to_one_camera(void **state)
{
    (void)state;
    struct depth_error field = {.camera = camera, .serial = "a"};
    static const struct {
        double fx, fy, cx, cy;
        uint32_t width, height;
        const char *serial;
        bool good;
    } cases[] = {
        {0, 0, 0, 0, 640, 480, "a", true},
        {0, 0, 0, 0, 640, 480, "", true}, // a recording does not say
        {0, 0, 0, 0, 640, 480, "b", false},
        {0, 0, 0, 0, 320, 480, "a", false},
        {0, 0, 0, 0, 640, 240, "a", false},
        {1.045, 0, 0, 0, 640, 480, "a", true}, // within 0.2 %
        {1.055, 0, 0, 0, 640, 480, "a", false},
        {0, -1.035, 0, 0, 640, 480, "a", true},
        {0, -1.045, 0, 0, 640, 480, "a", false},
        {0, 0, 1.045, 0, 640, 480, "a", true}, // of the focal length
        {0, 0, 1.055, 0, 640, 480, "a", false},
        {0, 0, 0, -1.035, 640, 480, "a", true},
        {0, 0, 0, -1.045, 640, 480, "a", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct intrinsics other = {camera.fx_px + cases[i].fx,
                                         camera.fy_px + cases[i].fy,
                                         camera.cx_px + cases[i].cx,
                                         camera.cy_px + cases[i].cy,
                                         cases[i].width,
                                         cases[i].height};
        n_lines = 0;
        const int rc = depth_error_check_camera(&field, &other, cases[i].serial, "file", &sink);
        assert_int_equal(rc == 0, cases[i].good);
        assert_int_equal(n_lines, cases[i].good ? 0 : 1);
    }
}

static int parse_text(const char *text, size_t n_bytes)
{
    static struct depth_error field;
    n_lines = 0;
    return depth_error_parse(text, n_bytes, "file", &sink, &field);
}

// Whichever byte of the file is another one, it is refused. Line ends of another system are none.
static void a_changed_byte_is_seen(void **state)
{
    (void)state;
    const char *path = "depth_error_written.txt";
    static char text[16384], other[16384];
    struct depth_error field = field_of();
    struct depth_error same;
    unlink(path);
    assert_int_equal(depth_error_write(path, &field, &sink), 0);
    assert_int_equal(depth_error_read(path, &sink, &same), 0);
    assert_memory_equal(&same, &field, sizeof same);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    const size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    unlink(path);
    assert_int_equal(parse_text(text, n), 0);
    assert_int_equal(n_lines, 0);
    for (size_t i = 0; i < n; i++) {
        text[i] ^= 1;
        assert_int_equal(parse_text(text, n), -EINVAL);
        assert_int_equal(n_lines, 1);
        text[i] ^= 1;
    }
    size_t n_other = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n')
            other[n_other++] = '\r';
        other[n_other++] = text[i];
    }
    assert_int_equal(parse_text(other, n_other), 0);

    // Version 1 ends without it, and that is said.
    char *end = strstr(text, "end ");
    assert_non_null(end);
    text[strlen("posed camera field ")] = '1';
    assert_int_equal(parse_text(text, n), -EINVAL);
    strcpy(end, "end\n");
    assert_int_equal(parse_text(text, strlen(text)), 0);
    assert_int_equal(n_lines, 1);
}

static char last_said[256];

static void keep_said(void *user, enum log_level level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(last_said, sizeof last_said, "%s", text);
}

// Cut anywhere it is called cut, and otherwise what it is.
static void what_is_wrong_is_said(void **state)
{
    (void)state;
    const char *path = "depth_error_wrong.txt";
    const struct log_sink said = {keep_said, NULL};
    static char text[16384], other[16384];
    struct depth_error field = field_of();
    unlink(path);
    assert_int_equal(depth_error_write(path, &field, &said), 0);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    unlink(path);
    assert_int_equal(depth_error_parse(text, 0, "file", &said, &field), -EINVAL);
    assert_non_null(strstr(last_said, "not a camera's field: it is empty"));
    for (size_t n_left = 1; n_left < n - 1; n_left++) { // the last line's end may be missing
        assert_int_equal(depth_error_parse(text, n_left, "file", &said, &field), -EINVAL);
        assert_non_null(strstr(last_said, ": cut short: "));
    }
    const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"field 2", "field 3", "file:1: of another version: 1 and 2 are read"},
        {"posed", "Posed", "file:1: not a camera's field: it does not begin"},
        {"frames", "phrase", "file:5: changed after it was written: \"frames N\""},
        {"nodes 20 15\n", "nodes 20 15\nx", "file:7: changed after it was written: 20 numbers"},
        {"end ", "end f", "file:22: changed after it was written: the checksum"},
        {"end ", "and ", "file:22: changed after it was written: \"end\" is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *at = strstr(text, cases[i].from);
        assert_non_null(at);
        snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text), text, cases[i].to,
                 at + strlen(cases[i].from));
        assert_int_equal(depth_error_parse(other, strlen(other), "file", &said, &field), -EINVAL);
        if (!strstr(last_said, cases[i].says))
            fail_msg("\"%s\" for \"%s\"", last_said, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_its_nodes_it_is_bilinear),
        cmocka_unit_test(its_size_is_the_root_mean_square),
        cmocka_unit_test(a_depth_is_mended_in_disparity),
        cmocka_unit_test(it_belongs_to_one_camera),
        cmocka_unit_test(a_changed_byte_is_seen),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
