// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/still_camera.h"

#include <math.h>

#include "gpu/track/tracker_state.h"

#define STILL_FRAMES 50 // a still camera averages over at most so many

void still_camera_reset(struct still_camera *still)
{
    still->n_frames = 0;
}

struct se3 still_camera_average(struct still_camera *still, const struct se3 *T_last,
                                const struct se3 *T_measured, double arm_m, double still_m,
                                double *out_gain)
{
    *out_gain = 1;
    struct se3 step = se3_between(T_last, T_measured);
    double size = (track_translation_m(&step) + se3_angle(&step) * arm_m) / still_m;
    if (!(size < 1)) {
        still->n_frames = 0;
        return *T_measured;
    }
    still->n_frames += still->n_frames < STILL_FRAMES;
    double twist[6];
    *out_gain = fmax(1.0 / (still->n_frames + 1), size * size * size);
    se3_log(&step, twist);
    for (int i = 0; i < 6; i++)
        twist[i] *= *out_gain;
    step = se3_exp(twist);
    return se3_compose(T_last, &step);
}
