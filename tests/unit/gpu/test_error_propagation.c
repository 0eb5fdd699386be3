// SPDX-License-Identifier: Apache-2.0
// Over how much image motion the residual's excess is taken to have grown, for each reference.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/track/error_propagation.h"
#include "gpu/track/kernels/icp.h"
#include "gpu/track/tracker_state.h"
#include "proto/se3.h"

// Drift along x of one step after the reference, in units of the step's image motion, where the
// residual is a sigma of the sensor's.
static double drift_after(enum track_reference kind, bool to_view, double step_m)
{
    static struct track track;
    static struct track_candidate c;
    memset(&track, 0, sizeof track);
    memset(&c, 0, sizeof c);
    track.settings.reference = kind;
    track.T_odom_camera = track.slots[0].T_odom_camera = track.view.T_odom_camera = se3_identity();
    c.reference = to_view ? &track.view : &track.slots[0];
    c.T_odom_camera = se3_identity();
    c.T_odom_camera.t_m[0] = step_m;
    c.alignment.residual_rms_m = (double)ICP_SIGMA0_M;
    c.alignment.n_pairs = 1000;
    c.alignment.weight_sum = 1000;
    c.conditioning.arm_m = 1;
    for (int k = 0; k < 6; k++) {
        c.conditioning.eigenvalues[k] = 1;
        c.conditioning.vectors[7 * k] = 1;
    }
    track_grow_error(&track, &c, &c.T_odom_camera, 1, 1.0 / 30);
    return track.error.drift[0] / (0.5 * step_m);
}

// 36000 px err together; beside the reference the motion that counts is what its frames span.
static void over_what_the_reference_spans(void **state)
{
    (void)state;
    static const struct {
        enum track_reference kind;
        bool to_view;
        double least_rad;
    } rows[] = {
        {TRACK_REFERENCE_PREVIOUS, false, 0.01},
        {TRACK_REFERENCE_KEYFRAME, false, 0.02},
        {TRACK_REFERENCE_MODEL, true, 0.06},
        {TRACK_REFERENCE_MODEL, false, 0.02}, // the keyframe serves
    };
    const double variance = 36000 * 0.84 * (double)ICP_SIGMA0_M * (double)ICP_SIGMA0_M / 1000;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double near = drift_after(rows[i].kind, rows[i].to_view, 0.01);
        const double far = drift_after(rows[i].kind, rows[i].to_view, 0.4);
        assert_true(fabs(near * rows[i].least_rad / variance - 1) < 1e-4);
        assert_true(fabs(far * 0.2 / variance - 1) < 1e-4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(over_what_the_reference_spans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
