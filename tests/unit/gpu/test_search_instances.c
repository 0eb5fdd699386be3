// SPDX-License-Identifier: Apache-2.0
// Several objects of one kind in an image: each is an answer, and is accepted once.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/search/search.h"
#include "proto/se3.h"
#include "tools/bench/testscene.h"

#ifdef POSED_SANITIZED
#define N_VIEWS  128
#define N_SCENES 1
#define N_BOTH   0
#else
#define N_VIEWS  2048
#define N_SCENES 12
#define N_BOTH   10
#endif
#define TOP 6

static struct search *search;

static double distance(const struct se3 *a, const struct se3 *b, const double centre[3])
{
    double p[3], q[3];
    se3_apply(a, centre, p);
    se3_apply(b, centre, q);
    return hypot(hypot(p[0] - q[0], p[1] - q[1]), p[2] - q[2]);
}

// The second scene's object put into the first one, before what is there; false where it would be
// hidden, or hide the other one, by more than a tenth.
static bool put_into(const struct testscene *from, struct testscene *to)
{
    uint32_t n_from = 0, n_to = 0, n_behind = 0, n_covered = 0;
    for (uint32_t i = 0; i < to->camera.width_px * to->camera.height_px; i++) {
        const bool behind = to->z_m[i] > 0 && to->z_m[i] < from->z_m[i];
        n_from += from->shown[i];
        n_to += to->shown[i];
        n_behind += from->shown[i] && behind;
        n_covered += from->shown[i] && to->shown[i];
    }
    if (10 * n_behind > n_from || 10 * n_covered > n_to)
        return false;
    for (uint32_t i = 0; i < to->camera.width_px * to->camera.height_px; i++)
        if (from->shown[i] && !(to->z_m[i] > 0 && to->z_m[i] < from->z_m[i]))
            to->depth[i] = from->depth[i];
    return true;
}

// `both`: of N_SCENES, those in which two objects are accepted.
static void look_for_two(enum testscene_object kind, uint32_t *both)
{
    struct testscene_mesh mesh = {0};
    assert_int_equal(testscene_mesh_make(kind, &mesh), 0);
    const struct search_mesh borrowed = {mesh.vertices_m, mesh.triangles, mesh.n_vertices,
                                         mesh.n_triangles};
    struct search_object_settings settings;
    struct search_object *object;
    struct search_object_info info;
    search_object_settings_default(&settings);
    settings.n_views = N_VIEWS;
    assert_int_equal(search_object_create(search, &borrowed, &settings, &object), 0);
    search_object_describe(object, &info);
    uint32_t n_scenes = 0;
    for (uint64_t seed = 1; n_scenes < N_SCENES; seed++) {
        struct testscene scenes[2];
        for (int i = 0; i < 2; i++) {
            const struct testscene_settings wanted = {.visible_min = 0.7f,
                                                      .visible_max = 1,
                                                      .noise = true,
                                                      .seed = 2 * seed + (uint64_t)i};
            assert_int_equal(testscene_create(&mesh, &wanted, &scenes[i]), 0);
        }
        if (put_into(&scenes[1], &scenes[0])) {
            const struct search_image image = {.frame = {scenes[0].depth, scenes[0].camera.width_px,
                                                         scenes[0].camera.height_px, 1000, 0},
                                               .camera = scenes[0].camera};
            struct search_query query;
            struct search_answer answer;
            search_query_default(&query);
            query.top = TOP;
            assert_int_equal(search_run(search, object, &image, &query, &answer, NULL), 0);
            uint32_t n_accepted[2] = {0};
            for (uint32_t k = 0; k < answer.n_poses; k++) {
                const struct search_pose *pose = &answer.poses[k];
                assert_true(pose->accepted == (pose->confidence >= query.threshold));
                const double off[2] = {
                    distance(&pose->T_camera_model, &scenes[0].T_camera_model, info.centre_m),
                    distance(&pose->T_camera_model, &scenes[1].T_camera_model, info.centre_m)};
                const int nearer = off[1] < off[0];
                n_accepted[nearer] += pose->accepted && off[nearer] < (double)info.radius_m;
            }
            assert_in_range(n_accepted[0], 0, 1); // however many poses there are of it
            assert_in_range(n_accepted[1], 0, 1);
            *both += n_accepted[0] && n_accepted[1];
            n_scenes++;
        }
        for (int i = 0; i < 2; i++)
            testscene_free(&scenes[i]);
    }
    search_object_destroy(search, &object);
    testscene_mesh_free(&mesh);
}

static void two_drills(void **unused)
{
    (void)unused;
    uint32_t n_both = 0;
    look_for_two(TESTSCENE_OBJECT_DRILL, &n_both);
    print_message("both accepted in %u of %d\n", n_both, N_SCENES);
    assert_in_range(n_both, N_BOTH, N_SCENES);
}

// Nearly symmetrical: without its handle a mug may be turned in any way.
static void two_mugs(void **unused)
{
    (void)unused;
    uint32_t n_both = 0;
    look_for_two(TESTSCENE_OBJECT_MUG, &n_both);
    print_message("both accepted in %u of %d\n", n_both, N_SCENES);
    assert_in_range(n_both, N_BOTH, N_SCENES);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_drills), cmocka_unit_test(two_mugs)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
