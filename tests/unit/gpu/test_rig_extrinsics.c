// SPDX-License-Identifier: Apache-2.0
// Two cameras that look into the corner of a room from places of their own: the transform between
// them comes back exactly from exact depth, and with a smooth error of either camera as well as the
// covariance says; where no surface is seen by both, what was known before stays.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/camera.h"
#include "gpu/track/rig_extrinsics.h"
#include "proto/se3.h"

#define WIDTH   160
#define HEIGHT  120
#define N_PAIRS 8

static const struct intrinsics cameras[2] = {{525, 525, 319.5, 239.5, 640, 480},
                                             {560, 555, 310.0, 250.0, 640, 480}};
// n . p = d: floor, two walls, a table's top and front.
static const double planes[][4] = {
    {0, -1, 0, -1.2}, {0, 0, -1, -3}, {-0.7071, 0, -0.7071, -2.6}, {0.6, 0, -0.8, -2.9}};

// What a camera at T_world_camera sees, its inverse depth too small by a field of that size.
static float *see(int camera, const struct se3 *T_world_camera, double field_per_m)
{
    const struct level_camera level = camera_level(&cameras[camera], RIG_EXTRINSICS_MAP_LEVEL);
    float *map = calloc((size_t)WIDTH * HEIGHT, 4 * sizeof *map);
    assert_non_null(map);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            const double ray[3] = {(x - (double)level.cx_px) / (double)level.fx_px,
                                   (y - (double)level.cy_px) / (double)level.fy_px, 1};
            float *out = map + 4 * (y * WIDTH + x);
            double nearest = INFINITY;
            for (size_t p = 0; p < sizeof planes / sizeof *planes; p++) {
                const double *r = T_world_camera->r, *t = T_world_camera->t_m, *plane = planes[p];
                double n[3], d = plane[3];
                for (int k = 0; k < 3; k++) {
                    n[k] = r[k] * plane[0] + r[3 + k] * plane[1] + r[6 + k] * plane[2];
                    d -= plane[k] * t[k];
                }
                const double z = d / (n[0] * ray[0] + n[1] * ray[1] + n[2] * ray[2]);
                if (!(z > 0.2 && z < nearest))
                    continue;
                nearest = z;
                for (int k = 0; k < 3; k++)
                    out[k] = (float)n[k];
            }
            const double f = field_per_m * (sin(0.05 * x + camera) + cos(0.06 * y - camera));
            out[3] = isfinite(nearest) ? (float)(1 / (1 / nearest - f)) : 0;
        }
    return map;
}

struct scene {
    struct se3 T_a_b;
    struct rig_extrinsics_pair pairs[N_PAIRS];
};

static void make(struct scene *scene, double field_per_m)
{
    const double mount[6] = {0.2, 0.03, -0.05, 0.17, -0.3, 0.08};
    scene->T_a_b = se3_exp(mount);
    for (int i = 0; i < N_PAIRS; i++) {
        const double way[6] = {0.1 * i,          0.05 * sin(i), 0.08 * i,
                               0.1 * sin(2 * i), 0.1 * cos(i),  0.05 * i};
        const double late[6] = {0.004, -0.002, 0.003,
                                0.005, 0.002,  -0.004}; // B's, by which A moved
        struct se3 T_world_a = se3_exp(way), moved = se3_exp(late);
        struct se3 T_world_late = se3_compose(&T_world_a, &moved);
        struct se3 T_world_b = se3_compose(&T_world_late, &scene->T_a_b);
        scene->pairs[i] = (struct rig_extrinsics_pair){see(0, &T_world_a, field_per_m),
                                                       see(1, &T_world_b, field_per_m), moved};
    }
}

static void drop(struct scene *scene)
{
    for (int i = 0; i < N_PAIRS; i++) {
        free((void *)scene->pairs[i].map_a);
        free((void *)scene->pairs[i].map_b);
    }
}

// As proto/handeye.h would leave it: 5 cm and 1.5 degrees.
static void know(const struct scene *scene, struct se3 *T_known, double covariance[36])
{
    const double off[6] = {0.03, -0.03, 0.02, 0.01, -0.015, 0.01};
    struct se3 moved = se3_exp(off);
    *T_known = se3_compose(&moved, &scene->T_a_b);
    for (int i = 0; i < 36; i++)
        covariance[i] = i % 7 ? 0 : i < 18 ? 0.03 * 0.03 : 0.015 * 0.015;
}

static void solve(double field_per_m, double limit_m, double limit_rad)
{
    struct scene scene;
    struct se3 T_known;
    struct rig_extrinsics_result found;
    double covariance[36], e[6], normalised2 = 0;
    make(&scene, field_per_m);
    know(&scene, &T_known, covariance);
    assert_int_equal(
        rig_extrinsics_solve(cameras, scene.pairs, N_PAIRS, false, &T_known, covariance, &found),
        0);
    struct se3 inverse = se3_inverse(&scene.T_a_b), away = se3_compose(&found.T_a_b, &inverse);
    se3_log(&away, e);
    const double m = sqrt(e[0] * e[0] + e[1] * e[1] + e[2] * e[2]);
    const double rad = sqrt(e[3] * e[3] + e[4] * e[4] + e[5] * e[5]);
    for (int k = 0; k < 6; k++) {
        assert_true(found.covariance[7 * k] > 0 && found.covariance[7 * k] < covariance[7 * k]);
        normalised2 += e[k] * e[k] / found.covariance[7 * k] / 6;
    }
    print_message("field %g /m: %.2f mm, %.3f degrees, %.2f of its variance, shared %.2f\n",
                  field_per_m, m * 1e3, rad * 57.3, normalised2, found.shared);
    assert_true(m < limit_m && rad < limit_rad);
    assert_true(normalised2 < 4); // two standard deviations
    assert_true(found.shared > 0.3);
    drop(&scene);
}

// Half a pixel between a point and the plane that it is compared with does not matter on planes;
// floats of the maps do.
static void test_exact(void **state)
{
    (void)state;
    solve(0, 2e-4, 1e-4);
}

// 3e-3 /m of either camera: 12 mm at 2 m. The limits are those of a rig's calibration.
static void test_field(void **state)
{
    (void)state;
    solve(3e-3, 0.005, 0.005);
}

static void test_nothing_shared(void **state)
{
    struct scene scene;
    struct se3 T_known;
    struct rig_extrinsics_result found;
    double covariance[36];
    (void)state;
    make(&scene, 0);
    know(&scene, &T_known, covariance);
    assert_int_equal(rig_extrinsics_solve(cameras, NULL, 0, true, &T_known, covariance, &found), 0);
    assert_int_equal(found.n_samples, 0);
    struct se3 moved = se3_between(&T_known, &found.T_a_b);
    assert_true(se3_angle(&moved) < 1e-9);
    for (int i = 0; i < 36; i++)
        assert_true(fabs(found.covariance[i] - covariance[i]) < 1e-12);
    covariance[0] = -1;
    assert_int_equal(rig_extrinsics_solve(cameras, NULL, 0, true, &T_known, covariance, &found),
                     -EDOM);
    drop(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_field),
        cmocka_unit_test(test_nothing_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
