// SPDX-License-Identifier: Apache-2.0
// Rotations under which an object looks nearly the same: which they are, and that an answer is not
// one of them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/search/context.h"
#include "proto/se3.h"
#include "tools/bench/testscene.h"

// A sanitizer makes all of this twenty times slower: then it is run for its findings alone.
#ifdef POSED_SANITIZED
#define N_VIEWS  256
#define N_SCENES 1
#define N_FOUND  0
#else
#define N_VIEWS  8192
#define N_SCENES 5
#define N_FOUND  5
#endif

static struct search *search;

static int set_up(void **unused)
{
    (void)unused;
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    return search_open(&search, &settings);
}

static int tear_down(void **unused)
{
    (void)unused;
    search_close(&search);
    return 0;
}

static struct search_object *build(const struct testscene_mesh *mesh, uint32_t n_views)
{
    struct search_mesh borrowed = {mesh->vertices_m, mesh->triangles, mesh->n_vertices,
                                   mesh->n_triangles};
    struct search_object_settings settings;
    struct search_object *object;
    search_object_settings_default(&settings);
    settings.n_views = n_views;
    assert_int_equal(search_object_create(search, &borrowed, &settings, &object), 0);
    return object;
}

// Where a near symmetry puts a point of the model [m].
static void move_by(const struct search_object *object, const struct search_near_symmetry *symmetry,
                    const double p[3], double out[3])
{
    for (int i = 0; i < 3; i++) {
        out[i] = object->info.centre_m[i] + (double)symmetry->shift_m[i];
        for (int k = 0; k < 3; k++)
            out[i] += (double)symmetry->rotation[3 * i + k] * (p[k] - object->info.centre_m[k]);
    }
}

static double degrees(const struct search_near_symmetry *symmetry)
{
    const float *r = symmetry->rotation;
    return acos(fmin(1, fmax(-1, (double)(r[0] + r[4] + r[8] - 1) / 2))) * 180 / M_PI;
}

// The axis of the mug stays where it is, or is turned over; more than half of the turns in steps of
// 30 degrees about it are found. (The centre of its sphere lies off the axis.)
static void a_mug_turns_about_its_axis(void **unused)
{
    (void)unused;
    struct testscene_mesh mug;
    assert_int_equal(testscene_mesh_make(TESTSCENE_OBJECT_MUG, &mug), 0);
    struct search_object *object = build(&mug, 256);
    const double low[3] = {0, 0, 0.02}, high[3] = {0, 0, 0.08};
    uint32_t n_upright = 0;
    for (uint32_t i = 0; i < object->near_symmetries.n; i++) {
        const struct search_near_symmetry *symmetry = &object->near_symmetries.of[i];
        double a[3], b[3];
        move_by(object, symmetry, low, a);
        move_by(object, symmetry, high, b);
        assert_true(degrees(symmetry) > 14);
        if (b[2] > a[2]) {
            n_upright++;
            assert_true(hypot(a[0], a[1]) < 0.004 && hypot(b[0], b[1]) < 0.004);
        }
    }
    assert_true(n_upright > 6);
    search_object_destroy(search, &object);
    testscene_mesh_free(&mug);
}

// Without its handle the mug is a body of revolution: turns about its axis change nothing.
static void exact_symmetries_are_not_among_them(void **unused)
{
    (void)unused;
    struct testscene_mesh mug;
    assert_int_equal(testscene_mesh_make(TESTSCENE_OBJECT_MUG, &mug), 0);
    mug.n_triangles -= 2 * 24 * 16; // the handle
    struct search_object *object = build(&mug, 256);
    assert_int_equal(object->info.symmetry, SEARCH_SYMMETRY_REVOLUTION);
    const double low[3] = {0, 0, 0.02}, high[3] = {0, 0, 0.08};
    for (uint32_t i = 0; i < object->near_symmetries.n; i++) {
        double a[3], b[3];
        move_by(object, &object->near_symmetries.of[i], low, a);
        move_by(object, &object->near_symmetries.of[i], high, b);
        assert_true(b[2] - a[2] < 0.06 * cos(0.25)); // the axis itself has moved
    }
    search_object_destroy(search, &object);
    testscene_mesh_free(&mug);
}

// A body that shows nearly the same end for end, with little beside it: without a look at the near
// symmetries three of these five scenes are answered by a half turn.
static void the_answer_is_not_the_turned_one(void **unused)
{
    (void)unused;
    struct testscene_mesh mesh;
    assert_int_equal(testscene_mesh_assemble(40, &mesh), 0);
    struct search_object *object = build(&mesh, N_VIEWS);
    uint32_t n_found = 0;
    for (uint64_t i = 0; i < N_SCENES; i++) {
        struct testscene_settings wanted = {
            .visible_min = 0.6f, .visible_max = 1, .noise = true, .seed = 77 * 1000003 + i};
        struct testscene scene;
        assert_int_equal(testscene_create(&mesh, &wanted, &scene), 0);
        struct search_image image = {
            .frame = {scene.depth, scene.camera.width_px, scene.camera.height_px, 1000, 0},
            .camera = scene.camera};
        struct search_query query;
        struct search_answer answer;
        search_query_default(&query);
        assert_int_equal(search_run(search, object, &image, &query, &answer, NULL), 0);
        if (answer.n_poses > 0) {
            struct se3 off = se3_between(&answer.poses[0].T_camera_model, &scene.T_camera_model);
            n_found += se3_angle(&off) * 180 / M_PI < 2;
        }
        testscene_free(&scene);
    }
    print_message("found %u of %d, asked for %d\n", n_found, N_SCENES, N_FOUND);
    assert_in_range(n_found, N_FOUND, N_SCENES);
    search_object_destroy(search, &object);
    testscene_mesh_free(&mesh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mug_turns_about_its_axis),
        cmocka_unit_test(exact_symmetries_are_not_among_them),
        cmocka_unit_test(the_answer_is_not_the_turned_one),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
