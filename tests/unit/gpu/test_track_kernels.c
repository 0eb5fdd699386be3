// SPDX-License-Identifier: Apache-2.0
// The tracker's formulas, one by one, against double precision written from their sources, with the
// numbers that they were tuned to: check/track/track holds the twins to them as a whole, but takes
// the constants from the same headers.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/base/raw_depth.h"
#include "gpu/track/kernels/bilateral.h"
#include "gpu/track/kernels/icp.h"
#include "gpu/track/kernels/normal_maps.h"
#include "gpu/track/kernels/solve.h"

SOLVE_DEFINE(double, solve6_double)
SOLVE_DEFINE(float, solve6_fast)

static uint64_t seed = 7;

static double uniform(double low, double high)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(seed >> 11) / 9007199254740992.0;
}

static void near(double got, double expected, double within)
{
    if (!(fabs(got - expected) <= within * (1 + fabs(expected))))
        fail_msg("%.9g instead of %.9g", got, expected);
}

static double sigma(double z)
{
    return 0.0012 + 0.0019 * (z - 0.4) * (z - 0.4);
}

static const struct intrinsics camera = {520, -510, 318.5, 241.25, 640, 480};

static void levels_sample_every_second_pixel(void **state)
{
    (void)state;
    for (uint32_t level = 0; level < 3; level++) {
        const struct level_camera c = camera_level(&camera, level);
        const double s = level == 0 ? 1 : level == 1 ? 0.5 : 0.25;
        near((double)c.fx_px, 520 * s, 1e-6);
        near((double)c.fy_px, -510 * s, 1e-6);
        near((double)c.cx_px, 318.5 * s, 1e-6);
        near((double)c.cy_px, 241.25 * s, 1e-6);
        near((double)c.inv_fx, 1 / (520 * s), 1e-8);
        near((double)c.inv_fy, -1 / (510 * s), 1e-8);
        assert_int_equal(c.width_px, 640 * s);
        assert_int_equal(c.height_px, 480 * s);
        near((double)camera_ray_x(&c, 100), (100 - 318.5 * s) / (520 * s), 1e-6);
        near((double)camera_ray_y(&c, 100), (100 - 241.25 * s) / (-510 * s), 1e-6);
    }
}

static void depth_is_valid_within_its_limits(void **state)
{
    (void)state;
    assert_true(raw_depth_m(0, 1e-3f, 0, 9) == 0);
    assert_true(raw_depth_m(65535, 1e-5f, 0, 9) == 0);
    assert_true(raw_depth_m(65534, 1e-4f, 0, 9) == 65534 * 1e-4f);
    assert_true(raw_depth_m(1, 1e-3f, 0, 9) == 1e-3f);
    assert_true(raw_depth_m(500, 1e-3f, 500 * 1e-3f, 9) == 500 * 1e-3f);
    assert_true(raw_depth_m(499, 1e-3f, 500 * 1e-3f, 9) == 0);
    assert_true(raw_depth_m(900, 1e-3f, 0.1f, 900 * 1e-3f) == 900 * 1e-3f);
    assert_true(raw_depth_m(901, 1e-3f, 0.1f, 900 * 1e-3f) == 0);
    for (int i = 0; i < 50; i++)
        near((double)noise_sigma_m((float)(0.3 + 0.1 * i)) * 1e3, sigma(0.3 + 0.1 * i) * 1e3, 1e-6);
}

// w = exp(-d^2 / 2 sigma^2) (1 - (dz / cut)^2)^2, cut so many sigmas of the sensor.
static void the_filter_weighs_by_distance_and_depth(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        const double z = uniform(0.5, 4), cut = uniform(4, 20) * sigma(z), sigma_px = uniform(1, 6);
        const double z2 = z + uniform(-1.3, 1.3) * cut;
        const int dx = i % 7 - 3, dy = i / 7 % 7 - 3;
        const float root = bilateral_spatial_root(dx, dy, (float)sigma_px);
        near((double)root * (double)root,
             exp(-(dx * dx + dy * dy) / (2 * (double)(float)sigma_px * (double)(float)sigma_px)),
             1e-6);
        const float factor = bilateral_range_factor((float)z, (float)(cut / sigma(z)));
        near((double)factor * cut * cut, -1, 1e-5);
        float sum_w = 3, sum_wd = 0.5f;
        bilateral_tap((float)z, (float)z2, root, root * factor, &sum_w, &sum_wd);
        const double d = (double)(float)z2 - (double)(float)z, x = 1 - d * d / cut / cut;
        const double w = x > 0 ? (double)root * (double)root * x * x : 0;
        near((double)sum_w, 3 + w, 2e-6);
        near((double)sum_wd, 0.5 + w * d, 2e-6);
        near((double)bilateral_result((float)z, 4, 0.5f), z + 0.125, 1e-6);
    }
    float sum_w = 1, sum_wd = 0; // a neighbour without depth
    bilateral_tap(1, 0, 1, bilateral_range_factor(1, 12), &sum_w, &sum_wd);
    assert_true(sum_w == 1 && sum_wd == 0);
    assert_true(bilateral_result(0, 1, 0.5f) == 0);
    assert_int_equal(BILATERAL_MAX_RADIUS_PX, 6);
    assert_int_equal(BILATERAL_WINDOW, 13);
}

// The plane through a pixel and its neighbours: the normal of a surface that is one.
static void normals_are_those_of_planes(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct intrinsics c = camera;
        c.fy_px *= sign;
        const struct level_camera level = camera_level(&c, 1);
        for (int i = 0; i < 200; i++) {
            // n . p = -d; depth along a ray: -d / (n . ray). The surface z(u, v) through the four
            // neighbours has the plane's slopes in 1/z, not in z: small planes only.
            double n[3] = {uniform(-0.5, 0.5), uniform(-0.5, 0.5), -1}, z[5];
            const double u = uniform(50, 250), v = uniform(50, 200);
            static const int du[5] = {0, -1, 1, 0, 0}, dv[5] = {0, 0, 0, -1, 1};
            const double length = sqrt(n[0] * n[0] + n[1] * n[1] + 1);
            for (int k = 0; k < 5; k++)
                z[k] = -1 / ((n[0] * (u + du[k] - (double)level.cx_px) / (double)level.fx_px +
                              n[1] * (v + dv[k] - (double)level.cy_px) / (double)level.fy_px - 1));
            const struct map_px got =
                maps_pixel(&level, (float)u, (float)v, (float)z[0], (float)z[1], (float)z[2],
                           (float)z[3], (float)z[4]);
            near((double)got.nx, n[0] / length, 5e-4);
            near((double)got.ny, n[1] / length, 5e-4);
            near((double)got.nz, n[2] / length, 5e-4);
            assert_true(got.z_m == (float)z[0]);
            // And exactly: -(fx zu, fy zv, z + (u - cx) zu + (v - cy) zv), up to its length.
            const double zu = 0.5 * (z[2] - z[1]), zv = 0.5 * (z[4] - z[3]);
            const double m[3] = {(double)level.fx_px * zu, (double)level.fy_px * zv,
                                 z[0] + (u - (double)level.cx_px) * zu +
                                     (v - (double)level.cy_px) * zv};
            const double long_ = sqrt(m[0] * m[0] + m[1] * m[1] + m[2] * m[2]);
            near((double)got.nx, m[0] / long_, 5e-5);
            near((double)got.ny, m[1] / long_, 5e-5);
            near((double)got.nz, -m[2] / long_, 5e-5);
        }
    }
    // 5 % of the depth is where another surface begins, to either side of each neighbour.
    const struct level_camera level = camera_level(&camera, 0);
    for (int k = 0; k < 8; k++)
        for (int beyond = 0; beyond < 2; beyond++) {
            float around[4] = {2, 2, 2, 2};
            around[k % 4] = 2 + (k < 4 ? 2.f : -2.f) * (beyond ? 0.0502f : 0.0498f);
            const struct map_px got =
                maps_pixel(&level, 9, 9, 2, around[0], around[1], around[2], around[3]);
            assert_true((got.nz == 0) == beyond && got.z_m == 2);
            around[k % 4] = 0;
            const struct map_px hole =
                maps_pixel(&level, 9, 9, 2, around[0], around[1], around[2], around[3]);
            assert_true(hole.nx == 0 && hole.ny == 0 && hole.nz == 0 && hole.z_m == 2);
        }
    const struct map_px nothing = maps_pixel(&level, 9, 9, 0, 0, 0, 0, 0);
    assert_true(nothing.nz == 0 && nothing.z_m == 0);
    assert_false(maps_same_surface(0, 0));
}

static void points_fall_on_their_nearest_pixel(void **state)
{
    (void)state;
    const struct level_camera level = camera_level(&camera, 0);
    static const struct {
        double u, v;
        bool inside;
    } at[] = {{-0.497, 5, true},   {-0.503, 5, false}, {639.497, 5, true},  {639.503, 5, false},
              {5, -0.497, true},   {5, -0.503, false}, {5, 479.497, true},  {5, 479.503, false},
              {100.497, 50, true}, {99.503, 50, true}, {50, 100.497, true}, {50, 99.503, true}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const struct icp_vec3 q = {(float)((at[i].u - 318.5) / 520 * 1.5),
                                   (float)((at[i].v - 241.25) / -510 * 1.5), 1.5f};
        const struct icp_px px = icp_project(&level, q);
        assert_true(px.inside == at[i].inside);
        assert_int_equal(px.u, at[i].inside ? (int)floor(at[i].u + 0.5) : 0);
        assert_int_equal(px.v, at[i].inside ? (int)floor(at[i].v + 0.5) : 0);
    }
    const struct icp_vec3 behind = {0, 0, -1};
    assert_false(icp_project(&level, behind).inside);
}

static void poses_turn_then_move(void **state)
{
    (void)state;
    struct icp_pose pose;
    for (int i = 0; i < 9; i++)
        pose.r[i] = (float)(i + 1);
    for (int i = 0; i < 3; i++)
        pose.t_m[i] = (float)(10 * (i + 1));
    const struct icp_vec3 p = {2, 3, 5};
    const struct icp_vec3 n = icp_rotate(&pose, p), q = icp_transform(&pose, p);
    assert_true(n.x == 2 + 6 + 15 && n.y == 8 + 15 + 30 && n.z == 14 + 24 + 45);
    assert_true(q.x == n.x + 10 && q.y == n.y + 20 && q.z == n.z + 30);
}

// Half the sum and half the difference of the rows of either normal.
static void compare_half_rows(const double q[3], const double m[3], const double n[3])
{
    for (int side = 0; side < 2; side++) {
        const struct icp_half half = icp_half_row(
            (struct icp_vec3){(float)q[0], (float)q[1], (float)q[2]},
            (struct icp_vec3){(float)m[0], (float)m[1], (float)m[2]},
            (struct icp_vec3){(float)n[0], (float)n[1], (float)n[2]}, side ? -0.5f : 0.5f);
        double h[3];
        for (int k = 0; k < 3; k++)
            h[k] = (n[k] + (side ? -m[k] : m[k])) / 2;
        const double l[6] = {h[0],
                             h[1],
                             h[2],
                             q[1] * h[2] - q[2] * h[1],
                             q[2] * h[0] - q[0] * h[2],
                             q[0] * h[1] - q[1] * h[0]};
        for (int k = 0; k < 6; k++)
            near((double)half.j[k], l[k], 2e-6);
    }
}

static void a_pair_is_a_row_with_a_weight(void **state)
{
    (void)state;
    const struct level_camera level = camera_level(&camera, 0);
    int n_pairs = 0;
    for (int i = 0; i < 4000; i++) {
        const double z = uniform(0.5, 3), scale = uniform(0.001, 0.004), gate = 0.05;
        const int u = (int)uniform(0, 640), v = (int)uniform(0, 480);
        double n[3], m[3], length = 0, across = 0;
        for (int k = 0; k < 3; k++) {
            n[k] = uniform(-1, 1);
            length += n[k] * n[k];
        }
        for (int k = 0; k < 3; k++) {
            n[k] /= sqrt(length);
            m[k] = n[k] + uniform(-0.5, 0.5);
            across += m[k] * m[k];
        }
        const double t[3] = {(u - 318.5) / 520 * z, (v - 241.25) / -510 * z, z};
        double q[3], d[3], distance2 = 0, cosine = 0, r = 0;
        for (int k = 0; k < 3; k++) {
            m[k] /= sqrt(across);
            d[k] = uniform(-1, 1) * (i % 3 ? 0.01 : 0.04);
            q[k] = t[k] + d[k];
            distance2 += d[k] * d[k];
            cosine += n[k] * m[k];
            r += n[k] * d[k];
        }
        const double precision = 0.0012 / sigma(z);
        struct icp_gates gates = icp_gates_first((float)gate, 0.9f);
        near((double)gates.distance2_m2, gate * gate, 1e-7);
        assert_true(gates.cos_angle == 0.9f && gates.inv_cut2 == 0 && gates.cap_m > 1e38f);
        const bool scaled = i % 4 > 0;
        if (scaled) // the mean |e| of Gaussian residuals of this scale
            icp_gates_update(&gates, (float)(scale * sqrt(2 / 3.14159265358979) * 500), 500);
        const struct map_px target = {(float)n[0], (float)n[1], (float)n[2], (float)z};
        const struct icp_row row = icp_pair(
            &level, &gates, i % 11 > 0, (struct icp_vec3){(float)q[0], (float)q[1], (float)q[2]},
            (struct icp_vec3){(float)m[0], (float)m[1], (float)m[2]}, icp_precision((float)z),
            (float)u, (float)v, target);
        if (fabs(distance2 - gate * gate) < 1e-6 || fabs(cosine - 0.9) < 1e-5)
            continue;
        const bool pair = i % 11 > 0 && distance2 <= gate * gate && cosine > 0.9;
        const double e = r * precision, x = 1 - e * e / (36 * scale * scale);
        const double tukey = !scaled ? 1 : x > 0 ? x : 0;
        n_pairs += pair;
        assert_true(row.pair == (pair ? 1.f : 0.f));
        near((double)row.r_m, r, 3e-6);
        near((double)row.w, pair ? precision * precision * tukey * tukey : 0, 2e-3);
        near((double)row.abs_m,
             !pair                           ? 0
             : scaled && fabs(e) > 3 * scale ? 3 * scale
                                             : fabs(e),
             3e-6);
        const double j[6] = {n[0],
                             n[1],
                             n[2],
                             q[1] * n[2] - q[2] * n[1],
                             q[2] * n[0] - q[0] * n[2],
                             q[0] * n[1] - q[1] * n[0]};
        for (int k = 0; k < 6; k++)
            near((double)row.j[k], j[k], 2e-6);
        compare_half_rows(q, m, n);
    }
    assert_true(n_pairs > 1000);
    near((double)icp_precision(0.4f), 1, 1e-6);
    near((double)icp_precision(2), 0.0012 / sigma(2), 1e-6);
}

// 6 scales cut, 3 scales cap, at least 6 um; coarse levels have wider gates and no cut.
static void gates_follow_the_residuals(void **state)
{
    (void)state;
    struct icp_gates gates = icp_gates_first(0.1f, 0.5f);
    icp_gates_update(&gates, 1.5f, 1000);
    const double scale = 1.2533141373 * 0.0015;
    near((double)gates.inv_cut2 * 36 * scale * scale, 1, 1e-5);
    near((double)gates.cap_m, 3 * scale, 1e-8);
    const struct icp_gates before = gates;
    icp_gates_update(&gates, 5, 0);
    assert_memory_equal(&gates, &before, sizeof gates);
    icp_gates_update(&gates, 0, 1000);
    near((double)gates.cap_m * 1e6, 18, 1e-5);
    near((double)gates.inv_cut2 * 36e-6 * 36e-6, 1, 1e-5);
    icp_gates_update(&gates, 0.00477f, 1000); // 5.98 um, then 6.03
    near((double)gates.cap_m * 1e6, 18, 1e-5);
    icp_gates_update(&gates, 0.00481f, 1000);
    near((double)gates.cap_m * 1e6, 3 * 1.2533141373 * 4.81, 1e-5);
    gates = before;
    struct icp_gates at = icp_gates_at(&gates, 0);
    assert_memory_equal(&at, &gates, sizeof at);
    for (uint32_t level = 1; level < 3; level++) {
        at = icp_gates_at(&gates, level);
        near((double)at.distance2_m2, 0.01 * (level == 1 ? 16 : 64), 1e-6);
        assert_true(at.inv_cut2 == 0 && at.cap_m == gates.cap_m && at.cos_angle == 0.5f);
    }
}

// (H + damping) x = -g by Gauss.
static void the_solve_is_damped(void **state)
{
    (void)state;
    static const double damping[3] = {1e-6, 1e-2, 1e-1}, stop_m[3] = {1e-5, 1e-4, 4e-4};
    for (int i = 0; i < 300; i++) {
        const uint32_t level = (uint32_t)i % 3;
        double sums[ICP_N_SUMS] = {0}, h[6][7] = {{0}}, x[6];
        float narrow[ICP_N_SUMS], xf[6];
        for (int k = 0; k < 30; k++) {
            double row[7];
            for (int a = 0; a < 7; a++)
                row[a] = uniform(-1, 1) + (a == 6 ? 0.3 : 0);
            for (int a = 0; a < 6; a++)
                for (int b = 0; b < 7; b++)
                    h[a][b] += row[a] * row[b] * (b == 6 ? -1 : 1);
        }
        for (int a = 0, k = 0; a < 6; a++) {
            for (int b = a; b < 6; b++)
                sums[k++] = h[a][b];
            sums[ICP_SUM_G + a] = -h[a][6];
        }
        sums[ICP_SUM_PAIRS] = 64;
        sums[ICP_SUM_W] = 25;
        for (int k = 0; k < ICP_N_SUMS; k++)
            narrow[k] = (float)sums[k];
        const double arm2 = (h[3][3] + h[4][4] + h[5][5]) / 25;
        const double t = damping[level] * (h[0][0] + h[1][1] + h[2][2]);
        const double r = damping[level] * (h[3][3] + h[4][4] + h[5][5]);
        for (int a = 0; a < 6; a++)
            h[a][a] += a < 3 ? t : r;
        for (int k = 0; k < 6; k++)
            for (int a = 0; a < 6; a++) {
                const double share = a == k ? 0 : h[a][k] / h[k][k];
                for (int b = 0; b < 7; b++)
                    h[a][b] -= share * h[k][b];
            }
        assert_true(solve_step_double(sums, level, x));
        assert_true(solve_step_float(narrow, level, xf));
        double size2 = 0;
        for (int k = 0; k < 6; k++) {
            const double expected = h[k][6] / h[k][k];
            near(x[k], expected, 1e-9);
            near((double)xf[k], expected, 2e-3);
            size2 += expected * expected * (k < 3 ? 1 : arm2);
        }
        near(solve_step_size2_double(sums, x), size2, 1e-9);
        near((double)solve_step_size2_float(narrow, xf), size2, 5e-3);
        near(solve_damping(level) / damping[level], 1, 1e-12);
        near(solve_stop2_m2(level) / (stop_m[level] * stop_m[level]), 1, 1e-12);
        sums[ICP_SUM_PAIRS] = 63;
        narrow[ICP_SUM_PAIRS] = 63;
        assert_false(solve_step_double(sums, level, x));
        assert_false(solve_step_float(narrow, level, xf));
        sums[ICP_SUM_PAIRS] = 1000;
        const int diagonal[6] = {0, 6, 11, 15, 18, 20};
        sums[diagonal[i % 6]] = -100; // not positive definite
        assert_false(solve_step_double(sums, 0, x));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_sample_every_second_pixel),
        cmocka_unit_test(depth_is_valid_within_its_limits),
        cmocka_unit_test(the_filter_weighs_by_distance_and_depth),
        cmocka_unit_test(normals_are_those_of_planes),
        cmocka_unit_test(points_fall_on_their_nearest_pixel),
        cmocka_unit_test(poses_turn_then_move),
        cmocka_unit_test(a_pair_is_a_row_with_a_weight),
        cmocka_unit_test(gates_follow_the_residuals),
        cmocka_unit_test(the_solve_is_damped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
