// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/gravity_prior.h"

#include <math.h>
#include <string.h>

#include "proto/se3.h"

#define G_M_S2          9.80665
#define OFF_SHARE       0.2 // of gravity: a Kinect's bias, and a hand's acceleration
#define OFF_FRAMES      30
#define USED_FRAMES     10  // readings that are gravity before it is said that they are used
#define DOWN_FIRST      30  // readings, held or not: a camera that begins before a wall
#define DOWN_FRAMES     300 // ten seconds
// rad/s, of the filter. A wall before a swaying camera (synth:wall, 200 frames), tilt RMS: 2.4
// degrees at 3, 1.9 at 6, 1.0 at 10, 4.4 without; a faster one follows a shaking hand.
#define BANDWIDTH       6.0
#define FAR_RAD         0.5 // no shake, no drift
#define DISAGREE_S      3.0 // that agreement is a mean over
#define DISAGREE_RAD    0.1
#define AGREE_SHARE     0.25 // of what readings changed by: a turned axis has 4
#define CONTRADICTS     0.7  // of the turns: one that stands still has 1, a turned axis 2
#define COMPARED_FRAMES 90
#define TURNED_RAD      0.02
#define SEEN_FRAMES     90
#define AXIS_LEAST      0.1 // share of a direction that is rotation

static void rotate(const double r[9], const double v[3], double out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = r[3 * i] * v[0] + r[3 * i + 1] * v[1] + r[3 * i + 2] * v[2];
}

static void rotate_back(const double r[9], const double v[3], double out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = r[i] * v[0] + r[3 + i] * v[1] + r[6 + i] * v[2];
}

static double length_of(const double v[3])
{
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

void gravity_prior_reset(struct gravity_prior *prior)
{
    *prior = (struct gravity_prior){
        .told = prior->told, .told_used = prior->told_used, .told_trusted = prior->told_trusted};
}

void gravity_prior_rest(struct gravity_prior *prior)
{
    memset(prior->turn, 0, sizeof prior->turn);
    memset(prior->surplus, 0, sizeof prior->surplus);
    prior->has_reading = false;
}

static void tell_used(struct gravity_prior *prior, const struct log_sink *log)
{
    if (prior->told || prior->told_used || prior->n_read - prior->n_off < USED_FRAMES)
        return;
    prior->told_used = true;
    log_to(log, LOG_LEVEL_INFO,
           "track: an accelerometer says where down is: it is watched until it has turned as the "
           "camera does (tracker.gravity)");
}

void gravity_prior_read(struct gravity_prior *prior, const float gravity_m_s2[3],
                        const struct log_sink *log)
{
    const double f[3] = {(double)gravity_m_s2[0], (double)gravity_m_s2[1], (double)gravity_m_s2[2]};
    const double length = length_of(f);
    prior->has_reading = fabs(length - G_M_S2) < OFF_SHARE * G_M_S2;
    if (!isfinite(length))
        return;
    prior->n_read++;
    for (int i = 0; i < 3 && prior->has_reading; i++)
        prior->reading[i] = f[i] / length;
    if (prior->has_reading) {
        tell_used(prior, log);
        return;
    }
    prior->n_off++;
    if (prior->told || prior->n_read < OFF_FRAMES || 2 * prior->n_off < prior->n_read)
        return;
    prior->told = true;
    log_to(log, LOG_LEVEL_WARNING,
           "track: the accelerometer says %.1f m/s^2, which is not gravity: it is left out",
           length);
}

static void cross(const double a[3], const double b[3], double out[3])
{
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        out[i] = a[j] * b[k] - a[k] * b[j];
    }
}

// Takes the part about axes that are not held out of a turn in odom.
static void split(const struct gravity_prior *prior, double turn[3], double out_free[3])
{
    memset(out_free, 0, 3 * sizeof *out_free);
    for (int a = 0; a < prior->n_axes; a++) {
        const double *axis = prior->axes + 3 * a;
        const double along = axis[0] * turn[0] + axis[1] * turn[1] + axis[2] * turn[2];
        for (int i = 0; i < 3; i++)
            out_free[i] += along * axis[i];
    }
    for (int i = 0; i < 3; i++)
        turn[i] -= out_free[i];
}

// The turn of the camera, in odom, that takes what the pose says of gravity to the reading: about
// the axes that are not held, and about the others.
static void lacking(const struct gravity_prior *prior, const struct se3 *T_odom_camera,
                    double out_free[3], double out_held[3])
{
    double is[3];
    rotate(T_odom_camera->r, prior->reading, is);
    cross(is, prior->down, out_held);
    const double norm = length_of(prior->down);
    for (int i = 0; i < 3; i++)
        out_held[i] /= norm;
    split(prior, out_held, out_free);
}

// Whether the readings turn as the camera does.
static void update_trust(struct gravity_prior *prior, const struct se3 *T_odom_camera,
                         double seconds)
{
    double free[3], held[3], expected[3], turn_camera[3], turn[3];
    const double share = fmin(1, seconds / DISAGREE_S);
    lacking(prior, T_odom_camera, free, held);
    const double off = length_of(held);
    rotate_back(T_odom_camera->r, prior->down, expected);
    prior->n_seen += prior->n_seen < SEEN_FRAMES;
    for (int i = 0; i < 3; i++)
        prior->seen[i] += (expected[i] - prior->seen[i]) / prior->n_seen;
    cross(expected, prior->seen, turn_camera);
    rotate(T_odom_camera->r, turn_camera, turn);
    split(prior, turn, free);
    const double turned = length_of(turn);
    prior->disagree2 += (off * off - prior->disagree2) * share;
    prior->turned2 += (turned * turned - prior->turned2) * share;
    prior->n_compared++;
    prior->contradict2 -= held[0] * turn[0] + held[1] * turn[1] + held[2] * turn[2];
    prior->all_turned2 += turned * turned;
    const bool agrees = prior->disagree2 < AGREE_SHARE * prior->turned2;
    prior->trusted = prior->disagree2 < DISAGREE_RAD * DISAGREE_RAD &&
                     (prior->trusted || (agrees && prior->turned2 > TURNED_RAD * TURNED_RAD));
}

void gravity_prior_hold(struct gravity_prior *prior, double seconds, struct se3 *T_odom_predicted)
{
    double free[3], held[3], turn[6] = {0};
    memset(prior->turn, 0, sizeof prior->turn);
    if (prior->n_axes == 0)
        return;
    for (int i = 0; i < 3; i++)
        turn[3 + i] = -prior->surplus[i];
    if (prior->has_reading && prior->trusted) {
        lacking(prior, T_odom_predicted, free, held);
        if (length_of(free) < FAR_RAD)
            rotate_back(T_odom_predicted->r, free, prior->turn);
    }
    const double forgets = exp(-BANDWIDTH * seconds), alpha = 1 - forgets * forgets;
    for (int i = 0; i < 3; i++)
        turn[3 + i] += alpha * prior->turn[i];
    const struct se3 by = se3_exp(turn);
    *T_odom_predicted = se3_compose(T_odom_predicted, &by);
}

static void take_axes(struct gravity_prior *prior, const struct se3 *T_odom_reference,
                      const struct conditioning *conditioning)
{
    prior->n_axes = 0;
    for (int k = 0; k < conditioning->n_degenerate; k++) {
        const double *w = conditioning->vectors + 6 * k + 3;
        if (length_of(w) > AXIS_LEAST)
            rotate(T_odom_reference->r, w, prior->axes + 3 * prior->n_axes++);
    }
}

// The reading joins the mean. Where the scene does not hold the camera, only with what it says
// about the axes that are held: the pose knows nothing of the others.
static void take_down(struct gravity_prior *prior, const struct se3 *T_odom_camera)
{
    double is[3], free[3], held[3], step[3];
    rotate(T_odom_camera->r, prior->reading, is);
    if (prior->n_down > 0 && prior->n_axes > 0) {
        lacking(prior, T_odom_camera, free, held);
        cross(is, held, step);
    } else {
        for (int i = 0; i < 3; i++)
            step[i] = is[i] - prior->down[i];
    }
    prior->n_down += prior->n_down < DOWN_FRAMES ? 1 : 0;
    for (int i = 0; i < 3; i++)
        prior->down[i] += step[i] / prior->n_down;
}

void gravity_prior_follow(struct gravity_prior *prior, const struct se3 *T_odom_camera,
                          const struct se3 *T_odom_reference,
                          const struct conditioning *conditioning, double seconds,
                          const struct log_sink *log)
{
    const double forgets = exp(-BANDWIDTH * seconds);
    const double surplus = 1 - forgets * forgets - (1 - forgets) * (1 - forgets);
    take_axes(prior, T_odom_reference, conditioning);
    for (int i = 0; i < 3; i++)
        prior->surplus[i] = prior->n_axes > 0 ? surplus * prior->turn[i] : 0;
    if (!prior->has_reading)
        return;
    prior->has_reading = false; // it was of this frame
    if (prior->n_down > 0)
        update_trust(prior, T_odom_camera, seconds);
    if (prior->n_axes == 0 || prior->n_down < DOWN_FIRST)
        take_down(prior, T_odom_camera);
    if (prior->trusted && !prior->told_trusted && !prior->told) {
        prior->told_trusted = true;
        log_to(
            log, LOG_LEVEL_INFO,
            "track: the accelerometer has turned as the camera did: it holds roll and pitch where "
            "the scene does not");
    }
    // A hand's shaking is off, too, but not in step with the turns.
    if (prior->told || prior->n_compared < COMPARED_FRAMES ||
        prior->all_turned2 < TURNED_RAD * TURNED_RAD * prior->n_compared ||
        prior->contradict2 < CONTRADICTS * prior->all_turned2)
        return;
    prior->told = true;
    log_to(log, LOG_LEVEL_WARNING,
           "track: the accelerometer does not turn as the camera does: it is left out");
}
