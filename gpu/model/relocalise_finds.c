// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/relocalise_finds.h"

#include <math.h>

#include "proto/se3.h"

// A camera moves no farther than this from one lost frame to the next.
#define FOLLOWS_M   0.15
#define FOLLOWS_RAD 0.15

bool relocalise_is_near(const struct se3 *a, const struct se3 *b, double limit_m, double limit_rad)
{
    const struct se3 between = se3_between(a, b);
    const double *t_m = between.t_m;
    return sqrt(t_m[0] * t_m[0] + t_m[1] * t_m[1] + t_m[2] * t_m[2]) < limit_m &&
           se3_angle(&between) < limit_rad;
}

bool relocalise_is_lost(const struct track_result *result, const struct gpu_frame *frame)
{
    return result->state == TRACK_STATE_LOST && frame && result->reason != TRACK_REASON_NO_DEPTH &&
           result->reason != TRACK_REASON_DEVICE;
}

bool relocalise_holds(const struct track_result *result)
{
    return result->state == TRACK_STATE_TRACKING || result->state == TRACK_STATE_DEGRADED;
}

bool relocalise_finds_believe(struct relocalise_finds *finds, enum relocalise_trust trust,
                              const struct se3 *T, bool is_repeat)
{
    if (is_repeat && trust == RELOCALISE_NOT_FOUND)
        return false; // it was found, or not, when it came
    const bool goes_on =
        finds->n_fair > 0 && relocalise_is_near(&finds->T_last, T, FOLLOWS_M, FOLLOWS_RAD);
    finds->n_fair = trust == RELOCALISE_NOT_FOUND ? 0 : goes_on ? finds->n_fair + !is_repeat : 1;
    finds->T_last = *T;
    return trust == RELOCALISE_SURE || finds->n_fair >= RELOCALISE_IN_A_ROW;
}
