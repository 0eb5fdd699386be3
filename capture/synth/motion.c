// SPDX-License-Identifier: Apache-2.0
#include "capture/synth/motion.h"

#include "proto/se3.h"

#define RAD_PER_TURN 6.283185307179586476925

// sin(2 pi turns). Taylor up to x^19 on a quarter turn: error below 1e-15.
static double sine_of_turns(double turns)
{
    double r = turns - (double)(long long)turns; // -1..1
    r -= r > 0.5 ? 1 : 0;
    r += r < -0.5 ? 1 : 0;
    r = r > 0.25 ? 0.5 - r : r < -0.25 ? -0.5 - r : r;
    double x = r * RAD_PER_TURN, term = x, sum = x;
    for (int k = 2; k < 20; k += 2) {
        term *= -x * x / (double)(k * (k + 1));
        sum += term;
    }
    return sum;
}

static double cosine_of_turns(double turns)
{
    return sine_of_turns(turns + 0.25);
}

// A rotation about one axis: 0 = x, 1 = y, 2 = z.
static struct se3 turn_about(int axis, double deg)
{
    double s = sine_of_turns(deg / 360), c = cosine_of_turns(deg / 360);
    int i = (axis + 1) % 3, j = (axis + 2) % 3;
    struct se3 T = se3_identity();
    T.r[3 * i + i] = c;
    T.r[3 * i + j] = -s;
    T.r[3 * j + i] = s;
    T.r[3 * j + j] = c;
    return T;
}

struct se3 motion_pose(double x_m, double y_m, double z_m, double yaw_deg, double pitch_deg,
                       double roll_deg)
{
    struct se3 yaw = turn_about(1, yaw_deg), pitch = turn_about(0, pitch_deg);
    struct se3 roll = turn_about(2, roll_deg);
    struct se3 T = se3_compose(&yaw, &pitch);
    T = se3_compose(&T, &roll);
    T.t_m[0] = x_m;
    T.t_m[1] = y_m;
    T.t_m[2] = z_m;
    return T;
}

// A swing of the given period: sine, starts at 0.
static double swing(double t_s, double period_s)
{
    return sine_of_turns(t_s / period_s);
}

struct se3 motion_at(enum motion_kind kind, double t_s)
{
    switch (kind) {
    case MOTION_STILL:
        break;
    case MOTION_STRAIGHT: {
        double way_m = 0.7 * (1 - cosine_of_turns(t_s / 10));
        return motion_pose(-0.5 + 0.55 * way_m, 0.05 - 0.1 * way_m, -0.7 + 0.83 * way_m, 8, -12, 0);
    }
    case MOTION_ROTATION:
        return motion_pose(0.1, 0, -0.6, 30 * swing(t_s, 6), -10 + 8 * swing(t_s, 4),
                           5 * swing(t_s, 5));
    case MOTION_LOOP: {
        double x_m = 0.5 * swing(t_s, 20) + 0.12 * swing(t_s, 20.0 / 3);
        double z_m = -0.5 * cosine_of_turns(t_s / 20) + 0.12 * swing(t_s, 5);
        return motion_pose(x_m, 0.08 * swing(t_s, 4), z_m, 18 * t_s + 6 * swing(t_s, 5),
                           -12 + 6 * swing(t_s, 4), 4 * swing(t_s, 20.0 / 3));
    }
    case MOTION_WALK: // looking down a little, so that the floor is seen from near
        return motion_pose(0.1 * swing(t_s, 5), 0.03 * swing(t_s, 2.5), 0.35 * t_s,
                           4 * swing(t_s, 4), -18 + 2 * swing(t_s, 6), 2 * swing(t_s, 5));
    case MOTION_SWAY:
        return motion_pose(0.3 * swing(t_s, 8), 0.15 * swing(t_s, 6), 0.15 * swing(t_s, 7),
                           8 * swing(t_s, 5), 6 * swing(t_s, 6), 5 * swing(t_s, 4));
    }
    return motion_pose(0.1, 0, -0.6, 10, -12, 2);
}
