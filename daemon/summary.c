// SPDX-License-Identifier: Apache-2.0
#include "daemon/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/health.h"
#include "proto/evaluate.h"
#include "proto/se3.h"

// The frames before `end` that the shared keeps, as a trajectory to free with trajectory_free.
static struct trajectory read_history(const struct shared *shared, uint64_t end)
{
    struct trajectory out = {0};
    uint64_t seq, next;
    pose_history_range(shared_history(shared), &seq, &next);
    if (next > end)
        next = end;
    if (seq >= next)
        return out;
    out.poses = calloc((size_t)(next - seq), sizeof *out.poses);
    for (; seq < next && out.poses; seq++) {
        struct past_pose pose;
        if (pose_history_get(shared_history(shared), seq, &pose) == 0)
            out.poses[out.n_poses++] =
                (struct stamped_pose){pose.time_ns, se3_from_quaternion(pose.q_xyzw, pose.t_m)};
    }
    return out;
}

static void log_error(const struct shared *shared, const struct capture *capture, uint64_t end,
                      const struct log_sink *log)
{
    char part[96] = "";
    struct trajectory truth = {0}, estimate = {0};
    struct evaluation evaluation;
    long n = capture_ground_truth(capture, &truth.poses);
    if (n <= 0)
        return;
    truth.n_poses = (size_t)n;
    if (end < shared_counter(shared, SHARED_CAPTURED))
        snprintf(part, sizeof part,
                 " before frame %llu, where the recording began anew or was wound",
                 (unsigned long long)end);
    estimate = read_history(shared, end);
    if (part[0] && estimate.n_poses == 0)
        log_to(log, LOG_LEVEL_INFO,
               "no error against the known trajectory: no frame is kept%s (requests.history)",
               part);
    else if (estimate.n_poses > 0 && evaluate_trajectory(&truth, &estimate, EVALUATE_MAX_GAP_NS,
                                                         EVALUATE_DELTA_FRAMES, &evaluation) == 0) {
        char relative[96] = "";
        if (evaluation.rpe_m.n > 0)
            snprintf(relative, sizeof relative, ", RPE over %d frames %.1f mm, %.2f degrees",
                     EVALUATE_DELTA_FRAMES, evaluation.rpe_m.rmse * 1e3,
                     evaluation.rpe_rad.rmse * 180 / M_PI);
        log_to(log, LOG_LEVEL_INFO,
               "error against the known trajectory%s, %zu of %zu frames: ATE RMSE %.1f mm "
               "(largest %.1f mm)%s",
               part, evaluation.n_matched, evaluation.n_poses, evaluation.ate_m.rmse * 1e3,
               evaluation.ate_m.max * 1e3, relative);
        evaluation_free(&evaluation);
    }
    trajectory_free(&estimate);
    trajectory_free(&truth);
}

void summary_log(const struct shared *shared, const struct capture *capture, uint64_t evaluated_end,
                 const struct log_sink *log)
{
    log_to(log, LOG_LEVEL_INFO,
           "%llu frames: %llu tracked, %llu degraded, %llu lost, %llu dropped, %llu damaged, "
           "%llu duplicates",
           (unsigned long long)shared_counter(shared, SHARED_CAPTURED),
           (unsigned long long)shared_counter(shared, SHARED_TRACKED),
           (unsigned long long)shared_counter(shared, SHARED_DEGRADED),
           (unsigned long long)shared_counter(shared, SHARED_LOST),
           (unsigned long long)shared_counter(shared, SHARED_DROPPED),
           (unsigned long long)shared_counter(shared, SHARED_DAMAGED),
           (unsigned long long)shared_counter(shared, SHARED_DUPLICATE));
    // One in twenty is more than a busy moment.
    if (20 * shared_counter(shared, SHARED_DROPPED) > shared_counter(shared, SHARED_CAPTURED))
        log_to(log, LOG_LEVEL_NOTICE, "frames are dropped when " HEALTH_TOO_SLOW);
    log_error(shared, capture, evaluated_end, log);
}
