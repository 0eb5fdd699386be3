// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/covariance.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "gpu/track/kernels/icp.h"
#include "gpu/track/residual.h"
#include "proto/pose_error.h"
#include "proto/se3.h"

// Pixels do not err independently: the filter spreads one error over its window (7x7), quantisation
// errs for whole stripes, and what exceeds the sensor's noise for larger patches still. One pixel
// in so many counts as independent: NEES of single frames 0.6 to 1 on synthetic rooms and ICL with
// a Kinect's noise, and 0.6 to 1.1 where errors stay.
#define OWN_CORRELATED_PX    30.0
#define EXCESS_CORRELATED_PX 50.0

// Noise alone leaves this much of the sensor's sigma in the filtered image, whatever the motion
// since the reference: 0.31 to 0.38 on synthetic rooms and on ICL. Recordings begin at 0.4 next to
// their reference and have 0.8 to 1.3 after 50 to 80 px of flow: errors that stay with the camera.
#define NOISE_SIGMAS 0.4

// A field that stays errs the same way over regions of some 190 px, of which an image has eight
// or nine. The excess of the residual grows about with the flow since the reference, so that its
// variance per flow is the rate of the drift.
#define DRIFT_CORRELATED_PX 36000.0

// A repeated frame and noise-free input leave no residual, yet the arithmetic and the image's
// steps are not exact either.
#define LEAST_SIGMAS 0.14

// The residual's square in sigmas beyond that of the sensor's noise.
static double excess_of(double sigmas2)
{
    return fmax(0, sigmas2 - NOISE_SIGMAS * NOISE_SIGMAS);
}

double covariance_own_variance(const struct gpu_alignment *alignment)
{
    double sigmas = residual_sigmas(alignment), sigmas2 = sigmas * sigmas;
    double excess = excess_of(sigmas2);
    double noise = fmax(sigmas2 - excess, LEAST_SIGMAS * LEAST_SIGMAS);
    return OWN_CORRELATED_PX * noise + EXCESS_CORRELATED_PX * excess;
}

double covariance_drift_variance(const struct gpu_alignment *alignment, double flow_rad,
                                 double step_rad)
{
    double sigmas = residual_sigmas(alignment);
    return DRIFT_CORRELATED_PX * excess_of(sigmas * sigmas) * step_rad / flow_rad;
}

// A shift along the view is seen so far off its direction: errors that grow with the depth tilt
// surfaces that recede. On corridors 1.8 mrad to either axis, always the same way.
#define RECEDING_TILT_RAD 5e-3

double covariance_excess_share(const struct gpu_alignment *alignment)
{
    double sigmas = residual_sigmas(alignment), sigmas2 = sigmas * sigmas;
    return sigmas2 > 0 ? excess_of(sigmas2) / sigmas2 : 0;
}

static void add_direction(const struct conditioning *conditioning, const double direction[6],
                          double along, double out[36])
{
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            double units = (i < 3 ? 1 : conditioning->arm_m) * (j < 3 ? 1 : conditioning->arm_m);
            out[6 * i + j] += along * direction[i] * direction[j] / units;
        }
}

void covariance_of_twist(const struct gpu_alignment *alignment,
                         const struct conditioning *conditioning, double variance, double out[36])
{
    const double sigma0_m = (double)ICP_SIGMA0_M;
    memset(out, 0, 36 * sizeof *out);
    for (int k = conditioning->n_degenerate; k < 6; k++)
        add_direction(conditioning, conditioning->vectors + (ptrdiff_t)6 * k,
                      variance * sigma0_m * sigma0_m /
                          (conditioning->eigenvalues[k] * alignment->weight_sum),
                      out);
}

void covariance_unheld(const struct conditioning *conditioning, double std_m, double out[36])
{
    memset(out, 0, 36 * sizeof *out);
    for (int k = 0; k < conditioning->n_degenerate; k++) {
        const double *motion = conditioning->free + (ptrdiff_t)6 * k;
        add_direction(conditioning, motion, std_m * std_m, out);
        const double tilt_m = std_m * RECEDING_TILT_RAD * motion[2];
        for (int i = 0; i < 3; i++)
            out[7 * i] += tilt_m * tilt_m;
    }
}

void covariance_lost(double out[36])
{
    memset(out, 0, 36 * sizeof *out);
    for (int i = 0; i < 6; i++)
        out[7 * i] = POSE_ERROR_LOST;
}

void covariance_add(const struct se3 *T_odom_reference, const struct se3 *T_odom_camera,
                    const double twist_covariance[36], double out[36])
{
    struct se3 T_reference_camera = se3_between(T_odom_reference, T_odom_camera);
    pose_error_add(T_odom_reference->r, T_reference_camera.t_m, twist_covariance, out);
}
