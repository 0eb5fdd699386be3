// SPDX-License-Identifier: Apache-2.0
// Images of a longer focal length than a depth camera's: which pixels are taken together, and that
// the pose found in the reduced image is that of the whole one.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/search/image_reduction.h"
#include "proto/se3.h"
#include "tools/bench/testscene.h"

#ifdef POSED_SANITIZED // twenty times slower: run for its findings alone
#define N_VIEWS    256
#define N_SCENES   1
#define N_FOUND    0
#define N_FOLLOWED 0
#else
#define N_VIEWS    2048
#define N_SCENES   6
#define N_FOUND    5
#define N_FOLLOWED 3 // one that is not sure enough is not followed
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

static void the_focal_length_says_how_many(void **unused)
{
    (void)unused;
    const double focal[] = {380, 570, 855, 856, 1067, 1425, 1426};
    const uint32_t n[] = {1, 1, 1, 2, 2, 2, 3};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        const struct intrinsics camera = {focal[i], focal[i], 320, 240, 640, 480};
        assert_int_equal(search_reduction(&camera), n[i]);
    }
}

static void a_camera_of_a_short_focal_length_keeps_its_image(void **unused)
{
    (void)unused;
    uint16_t depth[64 * 48] = {1000};
    const struct search_image image = {.frame = {depth, 64, 48, 1000, 0},
                                       .camera = {57, 57, 31.5, 23.5, 64, 48}};
    struct search_image out;
    assert_int_equal(search_reduce_image(search, &image, &out), 0);
    assert_memory_equal(&out, &image, sizeof out);
}

#define WIDTH  9 // the last column has no neighbour: it is left out
#define HEIGHT 4

// Blocks of 2 x 2.
static void of_a_block_the_nearest_surface_remains(void **unused)
{
    (void)unused;
    const uint16_t depth[WIDTH * HEIGHT] = {
        1000, 1002, 1000, 1021, 1000, 1500, 0,    0,     7, // mean; two of each
        1004, 1006, 1020, 1500, 1500, 1500, 1000, 0,     7, // one of four: none
        800,  800,  900,  900,  900,  900,  900,  99,    7, // nearer than is measured
        800,  800,  900,  900,  900,  900,  900,  65535, 7};
    uint8_t mask[WIDTH * HEIGHT];
    memset(mask, 1, sizeof mask);
    struct search_image out, image = {.frame = {depth, WIDTH, HEIGHT, 1000, 0},
                                      .camera = {1100, 1120, 4.5, 1.5, WIDTH, HEIGHT}};
    assert_int_equal(search_reduce_image(search, &image, &out), 0);
    assert_int_equal(out.frame.width_px, 4);
    assert_int_equal(out.frame.height_px, 2);
    const uint16_t expected[8] = {1003, 1010, 0, 0, 800, 900, 900, 900};
    assert_memory_equal(out.frame.depth, expected, sizeof expected);
    // What the mask or the region leaves out counts as not measured.
    mask[2 * WIDTH + 2] = mask[2 * WIDTH + 3] = mask[3 * WIDTH + 2] = 0;
    image.mask = mask;
    image.u0 = 2;
    image.u1 = 7;
    image.v1 = 4;
    assert_int_equal(search_reduce_image(search, &image, &out), 0);
    const uint16_t within[8] = {0, 1010, 0, 0, 0, 0, 900, 900};
    assert_memory_equal(out.frame.depth, within, sizeof within);
    assert_true(out.mask == NULL && out.u1 == 0);
}

// The middle of a block's pixels sees along the ray of the pixel that it becomes.
static void rays_stay(void **unused)
{
    (void)unused;
    static uint16_t depth[640 * 480];
    const struct search_image image = {.frame = {depth, 640, 480, 1000, 0},
                                       .camera = {1700, 1710, 310.3, 250.1, 640, 480}};
    const struct intrinsics *c = &image.camera;
    struct search_image out;
    assert_int_equal(search_reduce_image(search, &image, &out), 0);
    assert_int_equal(out.camera.width_px, 213);
    for (int i = 0; i < 200; i += 7) {
        const double u = 3 * i + 1;
        assert_true(fabs((i - out.camera.cx_px) / out.camera.fx_px - (u - c->cx_px) / c->fx_px) <
                    1e-12);
    }
    assert_true(fabs((50 - out.camera.cy_px) / out.camera.fy_px - (151 - c->cy_px) / c->fy_px) <
                1e-12);
}

static void an_object_is_found_and_followed_in_an_enlarged_image(void **unused)
{
    (void)unused;
    struct testscene_mesh mesh = {0};
    assert_int_equal(testscene_mesh_make(TESTSCENE_OBJECT_DRILL, &mesh), 0);
    const struct search_mesh borrowed = {mesh.vertices_m, mesh.triangles, mesh.n_vertices,
                                         mesh.n_triangles};
    struct search_object_settings settings;
    struct search_object *object;
    search_object_settings_default(&settings);
    settings.n_views = N_VIEWS;
    assert_int_equal(search_object_create(search, &borrowed, &settings, &object), 0);
    uint32_t n_found = 0, n_followed = 0, n_reduced = 0;
    for (uint64_t seed = 1; n_reduced < N_SCENES; seed++) {
        const struct testscene_settings wanted = {.kind = TESTSCENE_KIND_TABLE,
                                                  .sensor = TESTSCENE_SENSOR_MATCHED,
                                                  .placement = TESTSCENE_PLACEMENT_RESTING,
                                                  .visible_min = 0.6f,
                                                  .visible_max = 1,
                                                  .noise = true,
                                                  .seed = seed};
        struct testscene scene;
        assert_int_equal(testscene_create(&mesh, &wanted, &scene), 0);
        const struct search_image image = {
            .frame = {scene.depth, scene.camera.width_px, scene.camera.height_px, 1000, 0},
            .camera = scene.camera};
        struct search_query query;
        struct search_answer answer;
        search_query_default(&query);
        if (search_reduction(&scene.camera) == 2) {
            n_reduced++;
            assert_int_equal(search_run(search, object, &image, &query, &answer, NULL), 0);
            struct search_pose pose = answer.poses[0];
            struct se3 off = se3_between(&pose.T_camera_model, &scene.T_camera_model);
            const bool found = answer.n_poses > 0 && se3_angle(&off) * 180 / M_PI < 4;
            n_found += found;
            if (found && search_follow(search, object, &image, &pose) == 0) {
                off = se3_between(&pose.T_camera_model, &scene.T_camera_model);
                n_followed += se3_angle(&off) * 180 / M_PI < 4;
            }
            uint32_t n_shown = 0; // the answer counts pixels of the image that was given
            for (uint32_t i = 0; i < scene.camera.width_px * scene.camera.height_px; i++)
                n_shown += scene.shown[i];
            if (found)
                assert_in_range(pose.n_pixels, n_shown / 2, n_shown * 3 / 2);
        }
        testscene_free(&scene);
    }
    search_object_destroy(search, &object);
    testscene_mesh_free(&mesh);
    print_message("found %u, followed %u of %d\n", n_found, n_followed, N_SCENES);
    assert_in_range(n_found, N_FOUND, N_SCENES);
    assert_in_range(n_followed, N_FOLLOWED, N_SCENES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_focal_length_says_how_many),
        cmocka_unit_test(a_camera_of_a_short_focal_length_keeps_its_image),
        cmocka_unit_test(of_a_block_the_nearest_surface_remains),
        cmocka_unit_test(rays_stay),
        cmocka_unit_test(an_object_is_found_and_followed_in_an_enlarged_image),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
