// SPDX-License-Identifier: Apache-2.0
// Which poses an image allows (tools/bench/search_ambiguity.h): a mug alone in front of the
// camera, its handle out of sight or in sight.
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
#include "tools/bench/search_ambiguity.h"

#define WIDTH  320
#define HEIGHT 240

static struct search *search;
static struct search_object *object;
static struct testscene_mesh mug;
static struct ambiguity_axes axes;

static int set_up(void **unused)
{
    (void)unused;
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    if (search_open(&search, &settings) || testscene_mesh_make(TESTSCENE_OBJECT_MUG, &mug))
        return -1;
    struct search_mesh borrowed = {mug.vertices_m, mug.triangles, mug.n_vertices, mug.n_triangles};
    struct search_object_settings wanted;
    search_object_settings_default(&wanted);
    wanted.n_views = 64;
    int err = search_object_create(search, &borrowed, &wanted, &object);
    if (!err)
        ambiguity_axes_of(object, &axes);
    return err;
}

static int tear_down(void **unused)
{
    (void)unused;
    search_object_destroy(search, &object);
    search_close(&search);
    testscene_mesh_free(&mug);
    return 0;
}

// The mug upright, 0.7 m away, seen from a little above; its handle points `degrees` to the right
// of straight away from the camera. A wall 30 cm behind; columns from `hidden_from` on are hidden
// by something in front.
static void stand(double degrees, int hidden_from, struct testscene *out)
{
    const struct intrinsics camera = {300,   300,   (WIDTH - 1) / 2.0, (HEIGHT - 1) / 2.0,
                                      WIDTH, HEIGHT};
    const double turn[6] = {0, 0, 0, 0, 0, (90 - degrees) * M_PI / 180};
    const struct se3 T_world_model = se3_exp(turn);
    // Rows: right, down, forward; the camera looks along +y of the world and 20 degrees down.
    const double c = cos(20 * M_PI / 180), s = sin(20 * M_PI / 180);
    const struct se3 T_camera_world = {{1, 0, 0, 0, -s, -c, 0, c, -s}, {0, 0.03, 0.7}};
    memset(out, 0, sizeof *out);
    out->camera = camera;
    out->T_camera_model = se3_compose(&T_camera_world, &T_world_model);
    out->z_m = malloc(WIDTH * HEIGHT * sizeof *out->z_m);
    out->depth = malloc(WIDTH * HEIGHT * sizeof *out->depth);
    out->shown = malloc(WIDTH * HEIGHT * sizeof *out->shown);
    assert_true(out->z_m && out->depth && out->shown);
    assert_int_equal(search_draw(object, &camera, &out->T_camera_model, out->z_m), 0);
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        const bool hidden = i % WIDTH >= hidden_from;
        out->shown[i] = out->z_m[i] > 0 && !hidden;
        out->z_m[i] = hidden ? 0.5f : out->z_m[i] > 0 ? out->z_m[i] : 1;
        out->depth[i] = (uint16_t)lrintf(out->z_m[i] * 1000);
    }
}

// The angle between the true pose and the mug turned about its axis, and how far its axis leans.
static double turned_by(const struct testscene *scene, const struct se3 *pose)
{
    const struct se3 d = se3_between(&scene->T_camera_model, pose);
    assert_true(d.r[8] > cos(3 * M_PI / 180));
    return atan2(d.r[3], d.r[0]) * 180 / M_PI;
}

static void find(const struct testscene *scene, double *out_least, double *out_most)
{
    struct se3 *poses = malloc(AMBIGUITY_MAX * sizeof *poses);
    uint32_t n;
    assert_non_null(poses);
    assert_int_equal(ambiguity_poses(&mug, &axes, scene, poses, &n), 0);
    assert_memory_equal(&poses[0], &scene->T_camera_model, sizeof poses[0]);
    *out_least = *out_most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double degrees = turned_by(scene, &poses[i]);
        *out_least = fmin(*out_least, degrees);
        *out_most = fmax(*out_most, degrees);
    }
    free(poses);
}

// Turned about the mug's axis by hand: what the share of pixels says of it.
static double share_of(const struct testscene *scene, double degrees)
{
    const double turn[6] = {0, 0, 0, 0, 0, degrees * M_PI / 180};
    const struct se3 about = se3_exp(turn);
    const struct se3 pose = se3_compose(&scene->T_camera_model, &about);
    double share;
    assert_int_equal(ambiguity_share(&mug, &axes, scene, &pose, &share), 0);
    return share;
}

static void a_hidden_handle_may_point_anywhere_out_of_sight(void **unused)
{
    (void)unused;
    struct testscene scene;
    double least, most;
    stand(0, WIDTH, &scene);
    find(&scene, &least, &most);
    print_message("allowed: %.0f to %.0f degrees\n", least, most);
    assert_true(least < -10 && most > 10);
    // Beyond, it shows beside the body.
    assert_true(least > -60 && most < 60);
    assert_true(share_of(&scene, 0) == 0);
    assert_true(share_of(&scene, 0.8 * most) <= AMBIGUITY_SHARE_MOST);
    assert_true(share_of(&scene, 90) > 5 * AMBIGUITY_SHARE_MOST);
    assert_true(share_of(&scene, 180) > 5 * AMBIGUITY_SHARE_MOST);
    testscene_free(&scene);
}

static void a_handle_in_sight_allows_the_truth_only(void **unused)
{
    (void)unused;
    static const double in_sight[] = {90, 180, -120};
    for (size_t i = 0; i < sizeof in_sight / sizeof *in_sight; i++) {
        struct testscene scene;
        double least, most;
        stand(in_sight[i], WIDTH, &scene);
        find(&scene, &least, &most);
        print_message("handle at %.0f: %.1f to %.1f degrees\n", in_sight[i], least, most);
        assert_true(least > -3 && most < 3);
        testscene_free(&scene);
    }
}

// What hides the handle leaves open where behind it that is, and no more.
static void a_handle_behind_something_is_behind_it(void **unused)
{
    (void)unused;
    struct testscene scene;
    double least, most;
    stand(90, WIDTH / 2 + 15, &scene);
    find(&scene, &least, &most);
    print_message("behind something: %.0f to %.0f degrees\n", least, most);
    assert_true(most - least > 60);
    assert_true(share_of(&scene, 180) > 5 * AMBIGUITY_SHARE_MOST);
    testscene_free(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hidden_handle_may_point_anywhere_out_of_sight),
        cmocka_unit_test(a_handle_in_sight_allows_the_truth_only),
        cmocka_unit_test(a_handle_behind_something_is_behind_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
