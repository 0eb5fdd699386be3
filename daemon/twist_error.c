// SPDX-License-Identifier: Apache-2.0
#include "daemon/twist_error.h"

#include <math.h>
#include <string.h>

#include "proto/se3.h"

static bool moves(const double velocity[6])
{
    bool any = false;
    for (int i = 0; i < 6; i++)
        any = any || velocity[i] != 0;
    return any;
}

// Returns whether there is one: not where more was known of the pose than before it moved.
static bool since_last(const struct twist_error *last, const struct twist_sight *sight,
                       double out[36])
{
    static const double no_arm_m[3] = {0};
    const double passed_s = (double)(sight->time_ns - last->time_ns) * 1e-9;
    const struct se3 T_body_odom = se3_inverse(&sight->T_odom_body);
    double motion[36];
    bool good = passed_s > 0;
    pose_error_between(&last->T_odom_body, &last->error, &sight->T_odom_body, sight->error, motion);
    memset(out, 0, sizeof motion);
    pose_error_add(T_body_odom.r, no_arm_m, motion, out);
    for (int i = 0; i < 36 && good; i++) {
        out[i] /= passed_s * passed_s;
        good = isfinite(out[i]) && (i % 7 != 0 || out[i] > 0);
    }
    return good;
}

bool twist_error_next(struct twist_error *twist, const struct twist_sight *sight, double out[36])
{
    const bool has_moved = moves(sight->velocity);
    const bool is_one_way = twist->has_last && !sight->is_lost && twist->epoch == sight->epoch &&
                            twist->n_finds == sight->n_finds;
    if (is_one_way && pose_error_is_repeated(&twist->T_odom_body, &twist->error,
                                             &sight->T_odom_body, sight->error)) {
        if (!has_moved)
            twist->time_ns = sight->time_ns; // the next one is from this time on
        memcpy(out, twist->covariance, sizeof twist->covariance);
        return twist->is_known && has_moved;
    }
    const bool is_known = is_one_way && has_moved && since_last(twist, sight, out);
    if (sight->is_predicted && !sight->is_lost)
        return is_known;
    twist->has_last = !sight->is_lost;
    twist->is_known = is_known;
    twist->time_ns = sight->time_ns;
    twist->T_odom_body = sight->T_odom_body;
    twist->error = *sight->error;
    twist->epoch = sight->epoch;
    twist->n_finds = sight->n_finds;
    if (is_known)
        memcpy(twist->covariance, out, sizeof twist->covariance);
    return is_known;
}
