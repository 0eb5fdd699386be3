// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/error_propagation.h"

#include <math.h>

#include "gpu/track/covariance.h"

// 95 % of the steps that noise makes are within this (chi square of 6 over 6).
#define LEAST_LAG_NEES 2.1

// A rotation moves the whole image; a translation over the scene's distance moves it as far when it
// goes across the view, and hardly when it goes along it.
#define TRANSLATION_FLOW 0.5

static double flow_rad(const struct se3 *T, double arm_m)
{
    return se3_angle(T) + TRANSLATION_FLOW * track_translation_m(T) / arm_m;
}

// What a direction that nothing holds may have moved after so long, squared, in units of
// hold_std_m: a speed that nobody sees keeps for about a second, then it is another one.
#define SPEED_KEEPS_S 1.0

static double unseen2(double seconds)
{
    double periods = fmin(seconds, SPEED_KEEPS_S) / TRACK_PERIOD_S;
    double more = fmax(seconds - SPEED_KEEPS_S, 0) / SPEED_KEEPS_S;
    return periods * periods * (1 + 2 * more);
}

// The change from one pose to another along odom's axes: position, then rotation.
static void change(const struct se3 *from, const struct se3 *to, double out[6])
{
    struct se3 a = *from, b = *to;
    for (int i = 0; i < 3; i++) {
        out[i] = to->t_m[i] - from->t_m[i];
        a.t_m[i] = b.t_m[i] = 0;
    }
    a = se3_inverse(&a);
    b = se3_compose(&b, &a);
    se3_rotation_vector(&b, out + 3);
}

// The own error of a pose that takes only the share `gain` of its measurement, whose covariance is
// in *own: that share of it. What the pose stays behind is noise left out, as long as noise
// explains the step; of a larger step the part that it does not explain is lag.
static void steady_own(const double step[6], double gain, double own[36])
{
    double nees = pose_error_normalised2(step, own) / 6;
    double lag = nees < 0 ? 1 : fmax(0, 1 - LEAST_LAG_NEES / nees);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            own[6 * i + j] =
                gain * gain * own[6 * i + j] + lag * (1 - gain) * (1 - gain) * step[i] * step[j];
}

void track_grow_error(struct track *track, const struct track_candidate *c,
                      const struct se3 *T_measured, double gain, double seconds)
{
    const struct track_slot *reference = c->reference;
    const struct gpu_alignment *a = &c->alignment;
    const struct se3 *T_last = &track->T_odom_camera, *T = &c->T_odom_camera;
    const struct se3 *T_reference = &reference->T_odom_camera;
    struct pose_error error = {0};
    struct se3 last_now = se3_between(T_last, T), since = se3_between(T_reference, T);
    double from_last_m[3], from_reference_m[3], twist[36], step[6];
    for (int i = 0; i < 3; i++) {
        from_last_m[i] = T->t_m[i] - T_last->t_m[i];
        from_reference_m[i] = T->t_m[i] - T_reference->t_m[i];
    }
    const double step_rad = flow_rad(&last_now, c->conditioning.arm_m);
    const double since_rad = flow_rad(&since, c->conditioning.arm_m);
    error.flow_rad = track->error.flow_rad + step_rad;

    covariance_of_twist(a, &c->conditioning, covariance_own_variance(a), twist);
    covariance_add(T_reference, T, twist, error.own);
    pose_error_carry(from_last_m, track->error.walk, error.walk);
    if (gain < 1) {
        covariance_of_twist(a, &c->conditioning, gain * gain * covariance_own_variance(a), twist);
        covariance_add(T_reference, T, twist, error.walk);
        change(T_last, T_measured, step);
        steady_own(step, gain, error.own);
    }
    if (reference->seq != track->inherited_seq)
        pose_error_carry(from_reference_m, reference->own, error.walk);
    track->inherited_seq = reference->seq;
    double unheld_s = c->conditioning.n_degenerate > 0 ? track->unheld_s + seconds : 0;
    double unseen = sqrt(fmax(0, unseen2(unheld_s) - unseen2(track->unheld_s)));
    covariance_unheld(&c->conditioning, track->settings.hold_std_m * unseen, twist);
    track->unheld_s = unheld_s;
    covariance_add(T_reference, T, twist, error.walk);

    pose_error_carry(from_last_m, track->error.drift, error.drift);
    covariance_of_twist(a, &c->conditioning, covariance_drift_variance(a, since_rad, step_rad),
                        twist);
    covariance_add(T_reference, T, twist, error.drift);
    track->error = error;
}
