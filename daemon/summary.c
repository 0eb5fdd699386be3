// SPDX-License-Identifier: Apache-2.0
#include "daemon/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/health.h"
#include "proto/evaluate.h"
#include "proto/se3.h"

#define NO_TIME INT64_MAX // of a pose that the truth says nothing about

// What is compared with the truth: the tracked frames of one map epoch.
struct part {
    struct trajectory all; // frames that the shared keeps; those outside of the part have NO_TIME
    uint32_t epoch, n_epochs;
    size_t n_tracked;
};

static bool is_tracked(const struct past_pose *pose)
{
    if (pose->reason == posed_Reason_REASON_DROPPED)
        return false;
    return pose->state == posed_State_STATE_INIT || pose->state == posed_State_STATE_TRACKING ||
           pose->state == posed_State_STATE_DEGRADED || pose->state == posed_State_STATE_SEARCHING;
}

// Poses of different epochs are not connected. Of the one with most tracked frames: epoch,
// n_tracked; of all: n_epochs.
static void choose_epoch(const struct pose_history *history, uint64_t begin, uint64_t end,
                         struct part *out)
{
    struct past_pose pose;
    uint32_t epoch = 0;
    size_t n = 0;
    for (uint64_t seq = begin; seq < end; seq++) {
        if (pose_history_get(history, seq, &pose) != 0 || !is_tracked(&pose))
            continue;
        if (n == 0 || pose.map_epoch != epoch) {
            out->n_epochs++;
            n = 0;
        }
        epoch = pose.map_epoch;
        if (++n > out->n_tracked) {
            out->n_tracked = n;
            out->epoch = epoch;
        }
    }
}

// Of the frames before `end`; out->all is freed with trajectory_free.
static void read_part(const struct shared *shared, uint64_t end, struct part *out)
{
    const struct pose_history *history = shared_history(shared);
    struct past_pose pose;
    uint64_t seq, next;
    *out = (struct part){0};
    pose_history_range(history, &seq, &next);
    if (next > end)
        next = end;
    if (seq >= next)
        return;
    choose_epoch(history, seq, next, out);
    out->all.poses = calloc((size_t)(next - seq), sizeof *out->all.poses);
    for (; seq < next && out->all.poses; seq++) {
        if (pose_history_get(history, seq, &pose) != 0)
            continue;
        const bool is_in = is_tracked(&pose) && pose.map_epoch == out->epoch;
        out->all.poses[out->all.n_poses++] = (struct stamped_pose){
            is_in ? pose.time_ns : NO_TIME, se3_from_quaternion(pose.q_xyzw, pose.t_m)};
    }
}

static void log_evaluation(const struct evaluation *evaluation, const struct part *part,
                           const char *before, const struct log_sink *log)
{
    char relative[96] = "", longest[64] = "";
    if (evaluation->rpe_m.n > 0)
        snprintf(relative, sizeof relative, ", RPE over %d frames %.1f mm, %.2f degrees",
                 EVALUATE_DELTA_FRAMES, evaluation->rpe_m.rmse * 1e3,
                 evaluation->rpe_rad.rmse * 180 / M_PI);
    if (part->n_epochs > 1)
        snprintf(longest, sizeof longest, " in epoch %u, the longest of %u,", part->epoch,
                 part->n_epochs);
    log_to(log, LOG_LEVEL_INFO,
           "error against the known trajectory%s%s %zu of %zu frames: ATE RMSE %.1f mm "
           "(largest %.1f mm)%s, of the poses as they came",
           before, part->n_epochs > 1 ? longest : ",", evaluation->n_matched, evaluation->n_poses,
           evaluation->ate_m.rmse * 1e3, evaluation->ate_m.max * 1e3, relative);
}

static void log_error(const struct shared *shared, const struct capture *capture,
                      const struct summary_end *end, const struct log_sink *log)
{
    char before[96] = "";
    struct trajectory truth = {0};
    struct part part;
    struct evaluation evaluation;
    long n = capture_ground_truth(capture, &truth.poses);
    if (n <= 0)
        return;
    truth.n_poses = (size_t)n;
    if (end->seq < shared_counter(shared, SHARED_CAPTURED))
        snprintf(before, sizeof before, " before frame %llu, where the recording %s",
                 (unsigned long long)end->seq, end->why);
    read_part(shared, end->seq, &part);
    if (before[0] && part.all.n_poses == 0)
        log_to(log, LOG_LEVEL_INFO,
               "no error against the known trajectory: no frame is kept%s (requests.history)",
               before);
    else if (part.all.n_poses > 0 && part.n_tracked == 0)
        log_to(log, LOG_LEVEL_INFO,
               "no error against the known trajectory%s: none of %zu frames was tracked", before,
               part.all.n_poses);
    else if (part.all.n_poses > 0 && evaluate_trajectory(&truth, &part.all, EVALUATE_MAX_GAP_NS,
                                                         EVALUATE_DELTA_FRAMES, &evaluation) == 0) {
        log_evaluation(&evaluation, &part, before, log);
        evaluation_free(&evaluation);
    }
    trajectory_free(&part.all);
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

// What else there is to say of frames, where there is: ", 12 before the start", and of the tracked
// ones ", less work on 12" and ", of the tracked ones SEARCHING 200: not found in the loaded map at
// the end".
static void list_more(const struct shared *shared, bool is_searching, char *out, size_t out_bytes)
{
    const unsigned long long n_early = shared_counter(shared, SHARED_EARLY),
                             n_reduced = shared_counter(shared, SHARED_REDUCED),
                             n_searching = shared_counter(shared, SHARED_SEARCHING);
    size_t n = 0;
    out[0] = 0;
    if (n_early)
        n = (size_t)snprintf(out, out_bytes, ", %llu before the start", n_early);
    if (n_reduced)
        n += (size_t)snprintf(out + n, out_bytes - n, ", less work on %llu", n_reduced);
    if (n_searching)
        snprintf(out + n, out_bytes - n, ", of the tracked ones SEARCHING %llu%s", n_searching,
                 is_searching ? ": not found in the loaded map at the end" : "");
}

void summary_log(const struct shared *shared, const struct capture *capture,
                 const struct summary_end *evaluated_end, bool is_searching,
                 const struct log_sink *log)
{
    char degraded_by[400], lost_by[400], more[160];
    list_more(shared, is_searching, more, sizeof more);
    list_reasons(shared, SHARED_DEGRADED_BY, degraded_by, sizeof degraded_by);
    list_reasons(shared, SHARED_LOST_BY, lost_by, sizeof lost_by);
    log_to(log, LOG_LEVEL_INFO,
           "%llu frames: %llu tracked, %llu degraded%s, %llu lost%s, %llu dropped, %llu damaged, "
           "%llu duplicates%s",
           (unsigned long long)shared_counter(shared, SHARED_CAPTURED),
           (unsigned long long)shared_counter(shared, SHARED_TRACKED),
           (unsigned long long)shared_counter(shared, SHARED_DEGRADED), degraded_by,
           (unsigned long long)shared_counter(shared, SHARED_LOST), lost_by,
           (unsigned long long)shared_counter(shared, SHARED_DROPPED),
           (unsigned long long)shared_counter(shared, SHARED_DAMAGED),
           (unsigned long long)shared_counter(shared, SHARED_DUPLICATE), more);
    // One in twenty is more than a busy moment.
    if (20 * shared_counter(shared, SHARED_DROPPED) > shared_counter(shared, SHARED_CAPTURED))
        log_to(log, LOG_LEVEL_NOTICE, "frames are dropped when " HEALTH_TOO_SLOW);
    log_error(shared, capture, evaluated_end, log);
}
