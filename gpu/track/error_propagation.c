// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/error_propagation.h"

#include <math.h>
#include <string.h>

#include "gpu/track/covariance.h"

// 95 % of the steps that noise makes are within this (chi square of 6 over 6).
#define LEAST_LAG_NEES 2.1

// Steps up to here (a chi square over 6) may be noise of the two frames, which makes 2 on average:
// also where noise is half as large again as it is said to be.
#define MOST_JITTER_NEES 12

// A camera reads its image out row by row in up to a period, and its pose is of the moment of the
// rows that tell most: anywhere in it.
#define READOUT_S (TRACK_PERIOD_S / 3.4641016)

// A rotation moves the whole image; a translation over the scene's distance moves it as far when it
// goes across the view, and hardly when it goes along it.
#define TRANSLATION_FLOW 0.5

// The image motion that a residual's excess has grown over is that since the reference, but for
// little motion (10 px), which measures no rate of a keyframe. A previous frame is never farther
// than a step; the frames that a model is made of are around its view, not there: sizes by the NEES
// of synthetic rooms.
static const double least_flow_rad[] = {[TRACK_REFERENCE_PREVIOUS] = 0.01,
                                        [TRACK_REFERENCE_KEYFRAME] = 0.02,
                                        [TRACK_REFERENCE_MODEL] = 0.06};

static double grown_over_rad(const struct track *track, const struct track_slot *reference,
                             double since_rad)
{
    const enum track_reference kind = track->settings.reference;
    const bool is_keyframe = kind == TRACK_REFERENCE_MODEL && reference != &track->view;
    return fmax(since_rad, least_flow_rad[is_keyframe ? TRACK_REFERENCE_KEYFRAME : kind]);
}

static double flow_rad(const struct se3 *T, double arm_m)
{
    return se3_angle(T) + TRANSLATION_FLOW * track_translation_m(T) / arm_m;
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
// in *own: that share of it, of which the share `gain` is gone in the next frame and the rest is in
// the walk. What the pose stays behind is noise left out, as long as noise explains the step; of a
// larger step the part that it does not explain is lag.
static void steady_own(const double step[6], double gain, double own[36])
{
    double nees = pose_error_normalised2(step, own) / 6;
    double lag = nees < 0 ? 1 : fmax(0, 1 - LEAST_LAG_NEES / nees);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            own[6 * i + j] = gain * gain * gain * own[6 * i + j] +
                             lag * (1 - gain) * (1 - gain) * step[i] * step[j];
}

// What the camera moves while an image is read out, step after step of `seconds`. Images that are
// warped otherwise than their reference do not fit: what fits but for noise was read at once.
static void add_readout(const struct gpu_alignment *alignment, const double step[6], double seconds,
                        double own[36])
{
    const double share = READOUT_S / seconds;
    const double variance = covariance_excess_share(alignment) * share * share;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            own[6 * i + j] += variance * step[i] * step[j];
}

// What the reference holds again goes back to where it was: by all that it has moved unseen.
static void hold_again(struct track_since *since, int n_unheld, double walk[36])
{
    if (n_unheld < since->n_unheld) {
        for (int i = 0; i < 36; i++)
            walk[i] += since->unseen[i];
        memset(since->unseen, 0, sizeof since->unseen);
        since->unseen_m = 0;
    }
    since->n_unheld = n_unheld;
}

// Directions that nothing holds: the camera has a speed along them that nobody sees, which keeps
// as errors of a drift do, over as much image motion. step_rad: with what it adds itself.
static void grow_unheld(const struct track_candidate *c, const double from_last_m[3],
                        double unseen_m, double step_rad, struct track_since *since,
                        double drift[36])
{
    const struct se3 *T_reference = &c->reference->T_odom_camera;
    const double last_m = since->unseen_m;
    double twist[36], unseen[36] = {0};
    since->unseen_m += unseen_m;
    covariance_unheld(&c->conditioning, sqrt(since->unseen_m * since->unseen_m - last_m * last_m),
                      twist);
    pose_error_carry(from_last_m, since->unseen, unseen);
    covariance_add(T_reference, &c->T_odom_camera, twist, unseen);
    memcpy(since->unseen, unseen, sizeof unseen);
    covariance_unheld(&c->conditioning, unseen_m * sqrt(2 * POSE_ERROR_COHERENCE_RAD / step_rad),
                      twist);
    covariance_add(T_reference, &c->T_odom_camera, twist, drift);
}

void track_grow_error(struct track *track, const struct track_candidate *c,
                      const struct se3 *T_measured, double gain, double seconds)
{
    const struct track_slot *reference = c->reference;
    const struct gpu_alignment *a = &c->alignment;
    const struct se3 *T_last = &track->T_odom_camera, *T = &c->T_odom_camera;
    const struct se3 *T_reference = &reference->T_odom_camera;
    struct track_since *since = &track->since;
    struct pose_error error = {0};
    struct se3 last_now = se3_between(T_last, T), reference_now = se3_between(T_reference, T);
    double from_last_m[3], from_reference_m[3], twist[36], step[6], measured[6];
    for (int i = 0; i < 3; i++) {
        from_last_m[i] = T->t_m[i] - T_last->t_m[i];
        from_reference_m[i] = T->t_m[i] - T_reference->t_m[i];
    }
    const int n_unheld = c->conditioning.n_degenerate;
    const double arm_m = c->conditioning.arm_m;
    const double unseen_m =
        n_unheld > 0 ? track->settings.hold_std_m * seconds / TRACK_PERIOD_S : 0;
    const double step_rad = flow_rad(&last_now, arm_m) + TRANSLATION_FLOW * unseen_m / arm_m;
    const double since_rad = flow_rad(&reference_now, arm_m);
    error.flow_rad = track->error.flow_rad + step_rad;

    covariance_of_twist(a, &c->conditioning, covariance_own_variance(a), twist);
    covariance_add(T_reference, T, twist, error.own);
    change(T_last, T, step);
    const bool jitter = pose_error_normalised2(step, error.own) <= 6 * MOST_JITTER_NEES;
    pose_error_carry(from_last_m, track->error.walk, error.walk);
    if (gain < 1) {
        covariance_of_twist(a, &c->conditioning, gain * gain * covariance_own_variance(a), twist);
        covariance_add(T_reference, T, twist, error.walk);
        change(T_last, T_measured, measured);
        steady_own(measured, gain, error.own);
    }
    memcpy(track->own, error.own, sizeof track->own);
    add_readout(a, step, seconds, error.own);
    if (reference->seq != since->seq) {
        pose_error_carry(from_reference_m, reference->own, error.walk);
        *since = (struct track_since){.seq = reference->seq};
    }
    hold_again(since, n_unheld, error.walk);
    track->unheld_s = n_unheld > 0 ? track->unheld_s + seconds : 0;

    pose_error_carry(from_last_m, track->error.drift, error.drift);
    if (n_unheld > 0)
        grow_unheld(c, from_last_m, unseen_m, step_rad, since, error.drift);
    // A camera that stands still does not drift, however often noise moves its pose: steps that
    // noise may make count as far as they lead on from the reference.
    const double new_rad = jitter ? fmax(0, since_rad - since->farthest_rad) : step_rad;
    since->farthest_rad = fmax(since->farthest_rad, since_rad);
    const double grown_rad = grown_over_rad(track, reference, since_rad);
    covariance_of_twist(a, &c->conditioning, covariance_drift_variance(a, grown_rad, new_rad),
                        twist);
    covariance_add(T_reference, T, twist, error.drift);
    track->error = error;
}
