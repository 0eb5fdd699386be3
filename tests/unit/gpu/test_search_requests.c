// SPDX-License-Identifier: Apache-2.0
// Meshes, settings and requests that the pose search takes and refuses: each limit from both sides.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/search/search.h"

static const float corners_m[12] = {0, 0, 0, 0.1f, 0, 0, 0, 0.1f, 0, 0, 0, 0.1f};
static const uint32_t faces[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};

static struct search *search;
static struct search_object *tetrahedron;
static char lines[4096]; // of the log since the last request

static void keep_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    const size_t n = strlen(lines);
    snprintf(lines + n, sizeof lines - n, "%s\n", line);
}

static int build(const struct search_mesh *mesh, struct search_object **out)
{
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = 64;
    lines[0] = 0;
    return search_object_create(search, mesh, &settings, out);
}

static int set_up(void **unused)
{
    (void)unused;
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    settings.n_threads = 1;
    settings.log.write = keep_line;
    const struct search_mesh mesh = {corners_m, faces, 4, 4};
    return search_open(&search, &settings) || build(&mesh, &tetrahedron) ? -1 : 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    search_object_destroy(search, &tetrahedron);
    search_close(&search);
    return 0;
}

// ---- Meshes

static void mesh_is_refused(const struct search_mesh *mesh, const char *words)
{
    struct search_object *object = (struct search_object *)1;
    assert_int_equal(build(mesh, &object), -EINVAL);
    assert_null(object);
    assert_non_null(strstr(lines, words));
}

static void bad_meshes_are_refused(void **unused)
{
    (void)unused;
    static const uint32_t far[3] = {0, 1, 4}, flat[3] = {0, 1, 1};
    static const float odd[] = {NAN, INFINITY, -1.001e6f};
    float vertices[12];
    memcpy(vertices, corners_m, sizeof vertices);
    mesh_is_refused(&(struct search_mesh){vertices, NULL, 2, 0}, "nor three points that differ");
    static const float line[9] = {0, 0, 0, 0.1f, 0, 0, 0.3f, 0, 0};
    mesh_is_refused(&(struct search_mesh){line, NULL, 3, 0}, "all on one line");
    mesh_is_refused(&(struct search_mesh){vertices, far, 4, 1}, "no usable triangle");
    mesh_is_refused(&(struct search_mesh){vertices, flat, 4, 1}, "no usable triangle");
    for (int i = 0; i < 9; i++)
        for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
            vertices[i] = odd[k];
            mesh_is_refused(&(struct search_mesh){vertices, faces, 4, 1}, "no usable triangle");
            vertices[i] = corners_m[i];
        }
}

static void points_without_faces_make_an_object(void **unused)
{
    (void)unused;
    struct search_object *object;
    struct search_object_info info;
    assert_int_equal(build(&(struct search_mesh){corners_m, NULL, 4, 0}, &object), 0);
    search_object_describe(object, &info);
    assert_int_equal(info.n_triangles, 4);
    assert_non_null(strstr(lines, "4 points only: are its faces missing?"));
    search_object_destroy(search, &object);
}

static void bad_triangles_are_left_out(void **unused)
{
    (void)unused;
    static const uint32_t mixed[15] = {0, 2, 1, 0, 1, 7, 0, 1, 3, 2, 2, 3, 0, 3, 2};
    struct search_object *object;
    struct search_object_info info;
    assert_int_equal(build(&(struct search_mesh){corners_m, mixed, 4, 5}, &object), 0);
    search_object_describe(object, &info);
    assert_int_equal(info.n_triangles, 3);
    assert_non_null(strstr(lines, "2 of 5 triangles left out"));
    search_object_destroy(search, &object);
}

static int stop_at_once(void *user, uint32_t n_done, uint32_t n_views)
{
    (void)user;
    (void)n_done;
    (void)n_views;
    return 1;
}

// A build that begins is stopped by the first question.
static void the_number_of_views_has_limits(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t n_views;
        int err;
    } cases[] = {{0, -EINVAL},
                 {63, -EINVAL},
                 {64, -ECANCELED},
                 {SEARCH_VIEWS_MAX, -ECANCELED},
                 {SEARCH_VIEWS_MAX + 1, -EINVAL}};
    const struct search_mesh mesh = {corners_m, faces, 4, 4};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct search_object_settings settings;
        struct search_object *object;
        search_object_settings_default(&settings);
        assert_int_equal(settings.n_views, SEARCH_VIEWS_DEFAULT);
        settings.n_views = cases[i].n_views;
        settings.progress = stop_at_once;
        lines[0] = 0;
        assert_int_equal(search_object_create(search, &mesh, &settings, &object), cases[i].err);
        assert_true(!!strstr(lines, "n_views") == (cases[i].err == -EINVAL));
    }
}

// A triangle whose longest side is twice as long as the radius: warned of where no object is so
// large, or so small.
static void odd_sizes_are_warned_of(void **unused)
{
    (void)unused;
    static const struct {
        float radius_m;
        const char *words;
    } cases[] = {{5.03f, "millimetres"}, {4.97f, ""}, {0.00503f, ""}, {0.00497f, "too small"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const float r = cases[i].radius_m;
        const float vertices[9] = {-r, 0, 0, r, 0, 0, 0, 0.5f * r, 0};
        struct search_object *object;
        assert_int_equal(build(&(struct search_mesh){vertices, faces, 3, 1}, &object), 0);
        if (cases[i].words[0])
            assert_non_null(strstr(lines, cases[i].words));
        else
            assert_string_equal(lines, "");
        search_object_destroy(search, &object);
    }
}

// A triangle with an obtuse angle: the smallest sphere has its longest side as diameter. The centre
// of its bounding box lies 4 cm beside that; a vertex that no triangle uses counts for nothing.
static void the_sphere_about_an_object_is_the_smallest(void **unused)
{
    (void)unused;
    static const float vertices[12] = {0.9f, 2, -3, 1.1f, 2, -3, 1.03f, 2.08f, -2.97f, 5, 5, 5};
    static const uint32_t triangle[3] = {0, 1, 2};
    const double centre_m[3] = {1, 2, -3};
    struct search_object *object;
    struct search_object_info info;
    assert_int_equal(build(&(struct search_mesh){vertices, triangle, 4, 1}, &object), 0);
    search_object_describe(object, &info);
    double farthest_m = 0;
    for (int i = 0; i < 3; i++) {
        double d2 = 0;
        for (int k = 0; k < 3; k++)
            d2 += pow((double)vertices[3 * i + k] - info.centre_m[k], 2);
        farthest_m = fmax(farthest_m, sqrt(d2));
    }
    for (int k = 0; k < 3; k++)
        assert_true(fabs(info.centre_m[k] - centre_m[k]) <= 0.0005);
    assert_true(info.radius_m >= 0.1f - 1e-6f && info.radius_m <= 0.1005f);
    assert_true(fabs((double)info.radius_m - farthest_m) < 1e-7);
    assert_int_equal(info.n_vertices, 3);
    search_object_destroy(search, &object);
}

// ---- Requests

// What a request may be: one that is not refused meets an image without a measured pixel.
struct request {
    struct search_image image;
    struct search_query query;
};

static void expect(const struct request *request, const char *refused)
{
    struct search_answer answer;
    char named[32] = "";
    const int err =
        search_run(search, tetrahedron, &request->image, &request->query, &answer, named);
    assert_string_equal(named, refused ? refused : "frame");
    assert_int_equal(err, refused ? -EINVAL : -ENODATA);
    assert_int_equal(answer.n_poses, 0);
}

static struct request whole_request(const uint16_t *depth)
{
    struct request out = {
        .image = {.frame = {depth, 640, 480, 1000, 0}, .camera = {570, 570, 320, 240, 640, 480}}};
    search_query_default(&out.query);
    return out;
}

static void cameras_have_limits(void **unused)
{
    (void)unused;
    static const struct {
        size_t field;
        double value;
        bool good;
    } cases[] = {
        {offsetof(struct intrinsics, fx_px), 57.5, false}, // 0.09 widths
        {offsetof(struct intrinsics, fx_px), 57.7, true},
        {offsetof(struct intrinsics, fx_px), 9590, true}, // 15 widths
        {offsetof(struct intrinsics, fx_px), 9610, false},
        {offsetof(struct intrinsics, fx_px), -570, false},
        {offsetof(struct intrinsics, fx_px), NAN, false},
        {offsetof(struct intrinsics, fy_px), 0, false},
        {offsetof(struct intrinsics, fy_px), 43.1, false},
        {offsetof(struct intrinsics, fy_px), 43.3, true},
        {offsetof(struct intrinsics, fy_px), -43.1, false}, // rows may run upwards
        {offsetof(struct intrinsics, fy_px), -43.3, true},
        {offsetof(struct intrinsics, fy_px), 7190, true},
        {offsetof(struct intrinsics, fy_px), -7190, true},
        {offsetof(struct intrinsics, fy_px), 7210, false},
        {offsetof(struct intrinsics, fy_px), -7210, false},
        {offsetof(struct intrinsics, fy_px), NAN, false},
        {offsetof(struct intrinsics, cx_px), 0, false},
        {offsetof(struct intrinsics, cx_px), 0.01, true},
        {offsetof(struct intrinsics, cx_px), 639.9, true},
        {offsetof(struct intrinsics, cx_px), 640, false},
        {offsetof(struct intrinsics, cy_px), 0, false},
        {offsetof(struct intrinsics, cy_px), 0.01, true},
        {offsetof(struct intrinsics, cy_px), 479.9, true},
        {offsetof(struct intrinsics, cy_px), 480, false},
        {offsetof(struct intrinsics, cy_px), NAN, false},
    };
    uint16_t *depth = calloc(640 * 480, sizeof *depth);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct request request = whole_request(depth);
        memcpy((char *)&request.image.camera + cases[i].field, &cases[i].value, sizeof(double));
        expect(&request, cases[i].good ? NULL : "camera");
    }
    struct request request = whole_request(depth);
    request.image.camera.width_px = 320;
    expect(&request, "camera");
    request = whole_request(depth);
    request.image.camera.height_px = 481;
    expect(&request, "camera");
    free(depth);
}

static void frames_have_limits(void **unused)
{
    (void)unused;
    static const double units[][2] = {{0, 0},      {0.99, 0},  {1, 1},  {1e6, 1},
                                      {1.01e6, 0}, {-1000, 0}, {NAN, 0}};
    static const uint32_t sizes[][3] = {{8192, 1, 1}, {1, 8192, 1}, {8193, 1, 0},
                                        {1, 8193, 0}, {0, 1, 0},    {1, 0, 0}};
    uint16_t *depth = calloc(640 * 480, sizeof *depth);
    struct request request = whole_request(NULL);
    expect(&request, "frame");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        request = whole_request(depth);
        request.image.frame.units_per_m = units[i][0];
        expect(&request, units[i][1] > 0 ? NULL : "frame.units_per_m");
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const uint32_t width = sizes[i][0], height = sizes[i][1];
        request = whole_request(depth);
        request.image.frame.width_px = width;
        request.image.frame.height_px = height;
        request.image.camera = (struct intrinsics){width, height, 0.5, 0.5, width, height};
        expect(&request, sizes[i][2] ? NULL : "frame");
    }
    free(depth);
}

static void regions_have_limits(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t u0, v0, u1, v1;
        bool good;
    } cases[] = {
        {0, 0, 640, 480, true},   {639, 479, 640, 480, true}, {0, 0, 641, 480, false},
        {0, 0, 640, 481, false},  {10, 10, 10, 20, false},    {10, 10, 20, 10, false},
        {11, 10, 10, 20, false},  {10, 21, 20, 20, false},    {0, 0, 0, 10, false},
        {0, 0, 10, 0, false},     {5, 0, 0, 0, false},        {0, 5, 0, 0, false},
        {600, 0, 700, 10, false}, {0, 470, 10, 490, false},   {10, 10, 11, 11, true},
    };
    uint16_t *depth = calloc(640 * 480, sizeof *depth);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct request request = whole_request(depth);
        request.image.u0 = cases[i].u0;
        request.image.v0 = cases[i].v0;
        request.image.u1 = cases[i].u1;
        request.image.v1 = cases[i].v1;
        expect(&request, cases[i].good ? NULL : "region");
    }
    free(depth);
}

static void queries_have_limits(void **unused)
{
    (void)unused;
    static const uint32_t tops[][2] = {
        {0, 0}, {1, 1}, {SEARCH_TOP_MAX, 1}, {SEARCH_TOP_MAX + 1, 0}};
    static const uint32_t iterations[][2] = {{0, 0}, {1, 1}, {1000, 1}, {1001, 0}};
    uint16_t *depth = calloc(640 * 480, sizeof *depth);
    for (int preset = 0; preset < 2; preset++)
        for (int i = 0; i < 4; i++) {
            struct request request = whole_request(depth);
            request.query.preset = (enum search_preset)preset;
            request.query.top = tops[i][0];
            expect(&request, tops[i][1] ? NULL : "top");
            request.query.top = 1;
            request.query.n_iterations = iterations[i][0];
            expect(&request, iterations[i][1] ? NULL : "n_iterations");
        }
    free(depth);
}

// It checks as a search does, but has nowhere to name the field.
static void following_has_the_same_limits(void **unused)
{
    (void)unused;
    uint16_t *depth = calloc(640 * 480, sizeof *depth);
    struct request request = whole_request(depth);
    struct search_pose pose = {.score = 7}, before = pose;
    assert_int_equal(search_follow(search, tetrahedron, &request.image, &pose), -ENODATA);
    request.image.camera.cx_px = -1;
    lines[0] = 0;
    assert_int_equal(search_follow(search, tetrahedron, &request.image, &pose), -EINVAL);
    assert_non_null(strstr(lines, "camera"));
    assert_memory_equal(&pose, &before, sizeof pose);
    free(depth);
}

static void defaults_are_as_described(void **unused)
{
    (void)unused;
    struct search_query query;
    struct search_settings settings;
    search_query_default(&query);
    search_settings_default(&settings);
    assert_int_equal(query.preset, SEARCH_PRESET_DEFAULT);
    assert_int_equal(query.top, 1);
    assert_int_equal(query.n_iterations, 15);
    assert_true(query.refine && query.threshold == 0.9f && query.n_coarse == 0 && !query.stopped);
    assert_int_equal(settings.backend, GPU_BACKEND_AUTO);
    assert_int_equal(settings.cuda_device, -1);
    assert_int_equal(settings.n_threads, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_meshes_are_refused),
        cmocka_unit_test(points_without_faces_make_an_object),
        cmocka_unit_test(bad_triangles_are_left_out),
        cmocka_unit_test(the_number_of_views_has_limits),
        cmocka_unit_test(odd_sizes_are_warned_of),
        cmocka_unit_test(the_sphere_about_an_object_is_the_smallest),
        cmocka_unit_test(cameras_have_limits),
        cmocka_unit_test(frames_have_limits),
        cmocka_unit_test(regions_have_limits),
        cmocka_unit_test(queries_have_limits),
        cmocka_unit_test(following_has_the_same_limits),
        cmocka_unit_test(defaults_are_as_described),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
