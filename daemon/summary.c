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
               "(largest %.1f mm)%s, of the poses as they came",
               part, evaluation.n_matched, evaluation.n_poses, evaluation.ate_m.rmse * 1e3,
               evaluation.ate_m.max * 1e3, relative);
        evaluation_free(&evaluation);
    }
    trajectory_free(&estimate);
    trajectory_free(&truth);
}

// " (DEGENERATE 8, TIME_GAP 2)" of the counters from `first` on, as the protocol names reasons;
// empty where nothing was counted.
static void list_reasons(const struct shared *shared, enum shared_counter first, char *out,
                         size_t out_bytes)
{
    static const char *const names[_posed_Reason_ARRAYSIZE] = {
        [posed_Reason_REASON_NONE] = "NONE",
        [posed_Reason_REASON_FIRST_FRAME] = "FIRST_FRAME",
        [posed_Reason_REASON_DROPPED] = "DROPPED",
        [posed_Reason_REASON_NO_DEPTH] = "NO_DEPTH",
        [posed_Reason_REASON_FEW_PAIRS] = "FEW_PAIRS",
        [posed_Reason_REASON_NOT_CONVERGED] = "NOT_CONVERGED",
        [posed_Reason_REASON_HIGH_RESIDUAL] = "HIGH_RESIDUAL",
        [posed_Reason_REASON_JUMP] = "JUMP",
        [posed_Reason_REASON_DEGENERATE] = "DEGENERATE",
        [posed_Reason_REASON_TIME_GAP] = "TIME_GAP",
        [posed_Reason_REASON_DEVICE] = "DEVICE",
        [posed_Reason_REASON_OTHER] = "OTHER"};
    size_t n = 0;
    out[0] = 0;
    for (unsigned i = 0; i < _posed_Reason_ARRAYSIZE; i++) {
        const uint64_t count = shared_counter(shared, first + i);
        if (count && names[i] && n < out_bytes)
            n += (size_t)snprintf(out + n, out_bytes - n, "%s%s %llu", n ? ", " : " (", names[i],
                                  (unsigned long long)count);
    }
    if (n && n + 1 < out_bytes)
        snprintf(out + n, out_bytes - n, ")");
}

void summary_log(const struct shared *shared, const struct capture *capture, uint64_t evaluated_end,
                 const struct log_sink *log)
{
    char degraded_by[400], lost_by[400];
    list_reasons(shared, SHARED_DEGRADED_BY, degraded_by, sizeof degraded_by);
    list_reasons(shared, SHARED_LOST_BY, lost_by, sizeof lost_by);
    log_to(log, LOG_LEVEL_INFO,
           "%llu frames: %llu tracked, %llu degraded%s, %llu lost%s, %llu dropped, %llu damaged, "
           "%llu duplicates",
           (unsigned long long)shared_counter(shared, SHARED_CAPTURED),
           (unsigned long long)shared_counter(shared, SHARED_TRACKED),
           (unsigned long long)shared_counter(shared, SHARED_DEGRADED), degraded_by,
           (unsigned long long)shared_counter(shared, SHARED_LOST), lost_by,
           (unsigned long long)shared_counter(shared, SHARED_DROPPED),
           (unsigned long long)shared_counter(shared, SHARED_DAMAGED),
           (unsigned long long)shared_counter(shared, SHARED_DUPLICATE));
    // One in twenty is more than a busy moment.
    if (20 * shared_counter(shared, SHARED_DROPPED) > shared_counter(shared, SHARED_CAPTURED))
        log_to(log, LOG_LEVEL_NOTICE, "frames are dropped when " HEALTH_TOO_SLOW);
    log_error(shared, capture, evaluated_end, log);
}
