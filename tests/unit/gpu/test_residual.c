// SPDX-License-Identifier: Apache-2.0
// The residual image: a wall before and behind a wall, a shifted view of it, pixels without a pair.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/track/residual.h"
#include "proto/se3.h"

#define W 40u
#define H 30u

static const struct intrinsics camera = {50, -50, 19.5, 14.5, W, H};
static float frame[W * H * 4], reference[W * H * 4], residual_m[W * H];

static void fill(float *map, float z_m)
{
    for (size_t i = 0; i < (size_t)W * H; i++) {
        map[4 * i] = map[4 * i + 1] = 0;
        map[4 * i + 2] = -1;
        map[4 * i + 3] = z_m;
    }
}

static void run(const struct se3 *T_reference_frame)
{
    struct gpu_align_settings settings;
    gpu_align_settings_default(&settings);
    residual_image(&camera, &settings, frame, reference, T_reference_frame, residual_m);
}

static void in_front_is_positive(void **state)
{
    (void)state;
    struct se3 T = se3_identity();
    fill(reference, 1.05f);
    fill(frame, 1.03f);
    run(&T);
    for (size_t i = 0; i < (size_t)W * H; i++)
        assert_float_equal(residual_m[i], 0.02, 1e-6);
    T.t_m[2] = 0.05; // the camera has moved on by more: now behind
    run(&T);
    assert_float_equal(residual_m[W * H / 2], -0.03, 1e-6);
}

static void no_pair_is_nan(void **state)
{
    (void)state;
    struct se3 T = se3_identity();
    fill(reference, 1);
    fill(frame, 1);
    frame[4 * 100 + 2] = 0;     // no normal
    frame[4 * 101 + 3] = 0;     // no depth
    frame[4 * 102 + 3] = 1.2f;  // too far off
    frame[4 * 103 + 2] = 1;     // seen from behind
    reference[4 * 104 + 2] = 0; // nothing to lie on
    run(&T);
    for (size_t i = 0; i < (size_t)W * H; i++)
        assert_true((i >= 100 && i <= 104) == isnan(residual_m[i]));
    T.t_m[0] = 0.1; // 5 pixels to the right
    run(&T);
    assert_true(residual_m[W - 6] == residual_m[W - 6]);
    assert_true(isnan(residual_m[W - 5]));
    T.t_m[2] = -2; // everything is behind the camera
    run(&T);
    for (size_t i = 0; i < (size_t)W * H; i++)
        assert_true(isnan(residual_m[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_front_is_positive),
        cmocka_unit_test(no_pair_is_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
