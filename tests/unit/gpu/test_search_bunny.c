// SPDX-License-Identifier: Apache-2.0
// Six real depth views of a bunny, segmented, with marker poses that are good to a degree and 5 mm.
// Needs POSED_DATA.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/cloud/cloud.h"
#include "capture/io/image.h"
#include "gpu/search/search.h"
#include "proto/se3.h"

#define WIDTH  640
#define HEIGHT 480

static const char *folder;

static void path_of(const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s/object_bunny/%s", folder, name);
}

static struct se3 read_matrix(const char *name)
{
    char path[4096];
    path_of(name, path, sizeof path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    double m[16];
    for (int i = 0; i < 16; i++)
        assert_int_equal(fscanf(file, "%lf", &m[i]), 1);
    fclose(file);
    struct se3 T;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++)
            T.r[3 * i + k] = m[4 * i + k];
        T.t_m[i] = m[4 * i + 3];
    }
    return T;
}

static struct search_object *build(struct search *search, bool faces)
{
    char path[4096];
    path_of("model.ply", path, sizeof path);
    struct cloud cloud;
    assert_int_equal(cloud_read(path, NULL, &cloud), 0);
    float *vertices_m = malloc(3 * cloud.n_points * sizeof *vertices_m);
    for (size_t i = 0; i < cloud.n_points; i++) {
        vertices_m[3 * i] = cloud.x_m[i];
        vertices_m[3 * i + 1] = cloud.y_m[i];
        vertices_m[3 * i + 2] = cloud.z_m[i];
    }
    struct search_mesh mesh = {vertices_m, faces ? cloud.triangles : NULL, cloud.n_points,
                               faces ? cloud.n_triangles : 0};
    struct search_object_settings settings;
    search_object_settings_default(&settings);
    settings.n_views = 2048;
    struct search_object *object;
    assert_int_equal(search_object_create(search, &mesh, &settings, &object), 0);
    free(vertices_m);
    cloud_free(&cloud);
    return object;
}

static void read_depth(struct image_codec *codec, int view, uint16_t *out)
{
    static char bytes[1 << 20];
    char name[64], path[4096];
    snprintf(name, sizeof name, "depth_%d.png", view);
    path_of(name, path, sizeof path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_int_equal(
        image_decode(codec, bytes, n, name, IMAGE_PGM_BIG_ENDIAN, WIDTH, HEIGHT, NULL, out), 0);
}

static void find_six(bool faces)
{
    struct search_settings settings;
    search_settings_default(&settings);
    struct search *search;
    assert_int_equal(search_open(&search, &settings), 0);
    struct search_object *object = build(search, faces);
    struct search_object_info info;
    search_object_describe(object, &info);
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    uint16_t *depth = malloc(WIDTH * HEIGHT * sizeof *depth);
    struct se3 T_model_world = read_matrix("world_to_model.txt");
    for (int view = 0; view <= 30; view += 6) {
        char name[64];
        snprintf(name, sizeof name, "poses_%d.txt", view);
        struct se3 T_world_camera = read_matrix(name);
        struct se3 T_model_camera = se3_compose(&T_model_world, &T_world_camera);
        struct se3 truth = se3_inverse(&T_model_camera);
        read_depth(codec, view, depth);
        struct search_image image = {.frame = {depth, WIDTH, HEIGHT, 1000, 0},
                                     .camera = {542, 540.5, 320, 240, WIDTH, HEIGHT}};
        struct search_query query;
        search_query_default(&query);
        struct search_answer answer;
        assert_int_equal(search_run(search, object, &image, &query, &answer, NULL), 0);
        assert_int_equal(answer.n_poses, 1);
        struct se3 difference = se3_between(&truth, &answer.poses[0].T_camera_model);
        double a[3], b[3], degrees = se3_angle(&difference) * 180 / M_PI;
        se3_apply(&truth, info.centre_m, a);
        se3_apply(&answer.poses[0].T_camera_model, info.centre_m, b);
        double distance_m = sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) +
                                 (a[2] - b[2]) * (a[2] - b[2]));
        print_message("view %d: %.1f degrees, %.1f mm, confidence %.3f\n", view, degrees,
                      1e3 * distance_m, (double)answer.poses[0].confidence);
        assert_true(degrees <= 5);
        assert_true(distance_m <= 0.008);
        assert_true(answer.poses[0].accepted);
    }
    free(depth);
    image_codec_destroy(&codec);
    search_object_destroy(search, &object);
    search_close(&search);
}

static void all_six_are_found(void **unused)
{
    (void)unused;
    find_six(true);
}

// The same from the corners of its mesh alone.
static void so_they_are_by_points_without_faces(void **unused)
{
    (void)unused;
    find_six(false);
}

int main(void)
{
    folder = getenv("POSED_DATA");
    if (!folder) {
        printf("SKIP: POSED_DATA is not set\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_six_are_found),
                                       cmocka_unit_test(so_they_are_by_points_without_faces)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
