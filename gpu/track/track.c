// SPDX-License-Identifier: Apache-2.0
// See track.h. Four frames are kept: the newest, the reference, the one before the newest (the way
// back when a keyframe no longer matches) and one that is held; they change places, never contents.
#include "gpu/track/track.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/track/covariance.h"
#include "gpu/track/error_propagation.h"
#include "gpu/track/motion_prediction.h"
#include "gpu/track/sparse_depth.h"
#include "gpu/track/sparse_frame.h"
#include "gpu/track/still_camera.h"
#include "gpu/track/verdict.h"

#define RESTART_FRAMES   10
#define RESTART_WITH_MAP 5.0 // times as long, while there is a model to be found in

int track_create(struct track **out, struct gpu *gpu, const struct track_settings *settings,
                 const struct log_sink *log)
{
    *out = NULL;
    if (track_settings_check(settings, log) != 0)
        return -EINVAL;
    struct track *track = calloc(1, sizeof *track);
    if (!track)
        return -ENOMEM;
    track->gpu = gpu;
    track->settings = *settings;
    if (log)
        track->log = *log;
    track_set_effort(track, TRACK_EFFORT_FULL);
    int rc = sparse_depth_create(&track->gaps, gpu);
    for (int i = 0; i < TRACK_N_SLOTS && rc == 0; i++)
        rc = gpu_frame_create(gpu, &track->slots[i].frame);
    if (rc < 0) {
        track_destroy(&track);
        return rc;
    }
    track_reset(track, NULL);
    track->map_epoch = 0;
    *out = track;
    return 0;
}

void track_destroy(struct track **track)
{
    if (!track || !*track)
        return;
    for (int i = 0; i < TRACK_N_SLOTS; i++)
        gpu_frame_destroy((*track)->gpu, &(*track)->slots[i].frame);
    sparse_depth_destroy(&(*track)->gaps);
    free(*track);
    *track = NULL;
}

void track_set_effort(struct track *track, enum track_effort effort)
{
    const struct intrinsics *camera = &gpu_settings_get(track->gpu)->camera;
    effort_align(&track->settings.align, effort, &track->align);
    const uint32_t level = effort_finest_level(&track->align);
    track->level_px = (double)(camera->width_px >> level) * (camera->height_px >> level);
}

void track_reset(struct track *track, const struct se3 *T_odom_camera)
{
    for (int i = 0; i < TRACK_N_SLOTS; i++)
        track->slots[i].filled = false;
    track->newest = track->reference = track->previous = 0;
    track->held = -1;
    track->aligned_to = NULL;
    track->is_aligned = false;
    track->view.filled = false;
    track->T_odom_camera = T_odom_camera ? se3_normalized(T_odom_camera) : se3_identity();
    track->T_told = track->T_odom_camera;
    track->n_finds_told = track->n_finds;
    memset(&track->error, 0, sizeof track->error);
    memset(track->own, 0, sizeof track->own);
    memset(track->velocity, 0, sizeof track->velocity);
    gravity_prior_reset(&track->gravity);
    track->lost = track->is_found = false;
    track->pose_known = false;
    track->period_s = track->unheld_s = 0;
    track->n_lost = 0;
    still_camera_reset(&track->still);
    track->map_epoch++;
}

int track_set_keyframe(struct track *track, uint64_t *out_seq)
{
    if (track->settings.reference == TRACK_REFERENCE_PREVIOUS)
        return -EINVAL;
    if (!track->pose_known || track->lost)
        return -ENODATA;
    track->reference = track->previous;
    track->overlap_most = 0;
    *out_seq = track->slots[track->reference].seq;
    return 0;
}

bool track_wants_view(const struct track *track)
{
    return track->settings.reference == TRACK_REFERENCE_MODEL;
}

void track_set_map(struct track *track, bool has_map)
{
    track->has_map = has_map;
}

void track_set_view(struct track *track, struct gpu_frame *view, const struct se3 *T_odom_view)
{
    struct track_slot *slot = &track->view;
    const struct track_slot *keyframe = &track->slots[track->reference];
    if (track->aligned_to == slot) // the frame has other content now
        track->aligned_to = NULL;
    slot->filled = view && track->pose_known;
    slot->frame = view;
    slot->T_odom_camera = T_odom_view ? *T_odom_view : se3_identity();
    // What the model has grown from is at best as certain as the keyframe.
    memcpy(slot->own, keyframe->own, sizeof slot->own);
    slot->seq = keyframe->seq;
}

struct se3 track_expected(const struct track *track)
{
    return track->lost ? track->T_odom_camera : track_predict(track, track->period_s);
}

const struct gpu_frame *track_newest_frame(const struct track *track)
{
    const struct track_slot *slot = &track->slots[track->newest];
    return slot->filled ? slot->frame : NULL;
}

bool track_newest_pair(const struct track *track, const struct gpu_frame **out_frame,
                       const struct gpu_frame **out_reference, struct se3 *out_T_reference_frame)
{
    if (!track->aligned_to)
        return false;
    *out_frame = track->slots[track->newest].frame;
    *out_reference = track->aligned_to->frame;
    *out_T_reference_frame = track->T_aligned_newest;
    return true;
}

// Time since the last valid pose; a clock that stands still or goes back counts as one period.
static double elapsed_s(const struct track *track, int64_t time_ns)
{
    double seconds = (double)(time_ns - track->pose_time_ns) * 1e-9;
    if (seconds > 0)
        return seconds;
    return track->period_s > 0 ? track->period_s : TRACK_PERIOD_S;
}

static void result_pose(const struct track *track, struct track_result *out)
{
    out->T_odom_camera = track->T_odom_camera;
    out->error = track->error;
    pose_error_total(&track->error, out->covariance);
    memcpy(out->velocity, track->velocity, sizeof out->velocity);
    out->map_epoch = track->map_epoch;
    out->n_finds = track->n_finds;
    out->reference_seq = track->slots[track->reference].seq;
}

static void result_lost(struct track *track, enum track_reason reason, struct track_result *out)
{
    memset(track->velocity, 0, sizeof track->velocity);
    gravity_prior_rest(&track->gravity);
    track->lost = true;
    result_pose(track, out);
    // Where it was placed has not held yet.
    out->T_odom_camera = track->T_told;
    out->n_finds = track->n_finds_told;
    covariance_lost(out->covariance);
    covariance_lost(out->error.own);
    out->state = TRACK_STATE_LOST;
    out->reason = reason;
}

// A frame becomes one to align to at the pose that is known.
static void keep_slot(struct track *track, int at)
{
    struct track_slot *slot = &track->slots[at];
    slot->T_odom_camera = track->T_odom_camera;
    memcpy(slot->own, track->own, sizeof slot->own);
    slot->filled = true;
}

// A lost frame is at T_odom_camera.
static int relocate(struct track *track, int at, int64_t time_ns, const struct se3 *T_odom_camera)
{
    if (!track->pose_known || !track->lost || !track->slots[at].filled)
        return -ENODATA;
    track->T_odom_camera = se3_normalized(T_odom_camera);
    track->is_aligned = false;
    memset(track->velocity, 0, sizeof track->velocity);
    keep_slot(track, at);
    track->reference = track->previous = at;
    track->overlap_most = 0;
    track->pose_time_ns = time_ns;
    // All of its time again if the next frame does not bear it out, but once a loss: finds that no
    // frame ever bears out come to an end.
    if (!track->was_found) {
        track->lost_since_ns = track->newest_time_ns;
        track->n_lost = 0;
    }
    track->was_found = true;
    track->is_found = true;
    track->n_finds++;
    still_camera_reset(&track->still);
    return 0;
}

int track_relocate(struct track *track, const struct se3 *T_odom_camera)
{
    return relocate(track, track->newest, track->newest_time_ns, T_odom_camera);
}

void track_hold(struct track *track, bool holds)
{
    track->held = holds ? track->newest : -1;
    track->held_time_ns = track->newest_time_ns;
}

int track_relocate_held(struct track *track, const struct se3 *T_odom_camera)
{
    return track->held < 0 ? -ENODATA
                           : relocate(track, track->held, track->held_time_ns, T_odom_camera);
}

bool track_is_found(const struct track *track)
{
    return track->is_found;
}

// Nothing to align to: the frame starts a trajectory if it sees enough. Aligning it to itself once
// tells how much it sees.
static int start(struct track *track, const uint16_t *measured, int64_t time_ns,
                 struct track_result *out)
{
    const uint16_t *depth = measured ? sparse_frame_fill(track, measured) : NULL;
    struct track_slot *slot = &track->slots[track->newest];
    struct gpu_align_settings once = track->align;
    struct gpu_alignment alignment;
    struct se3 identity = se3_identity();
    once.early_stop = true;
    int rc = depth ? gpu_prepare(track->gpu, depth, slot->frame) : 0;
    if (rc == 0)
        rc = gpu_align(track->gpu, slot->frame, slot->frame, &identity, &once, &alignment);
    if (rc < 0)
        return rc;
    out->n_valid_px = alignment.n_valid_px;
    memcpy(out->stage_us, alignment.stage_us, sizeof out->stage_us);
    if (!alignment.solvable ||
        alignment.n_valid_px < track->settings.min_valid_share * track->level_px) {
        slot->filled = true; // to be looked at, not to be aligned to: reference stays unset
        result_lost(track, TRACK_REASON_NO_DEPTH, out);
        return 0;
    }
    keep_slot(track, track->newest);
    track->reference = track->previous = track->newest;
    track->overlap_most = 0;
    track->pose_known = true;
    track->since = (struct track_since){.seq = slot->seq};
    track->pose_time_ns = time_ns;
    track->lost = false;
    track->n_lost = 0;
    result_pose(track, out);
    out->state = TRACK_STATE_INIT;
    out->reason = TRACK_REASON_FIRST_FRAME;
    out->new_keyframe = true;
    out->converged = true;
    return 0;
}

// Should the newest frame replace the reference?
static bool replaces_reference(struct track *track, const struct track_candidate *c)
{
    const struct track_settings *s = &track->settings;
    const struct track_slot *reference = &track->slots[track->reference];
    bool to_view = c->reference == &track->view;
    if (c->reference != reference && !to_view)
        return true; // the old one no longer matched
    struct se3 moved = se3_between(&reference->T_odom_camera, &c->T_odom_camera);
    double distance_m = track_translation_m(&moved), turn_rad = se3_angle(&moved);
    double overlap = (double)c->alignment.n_pairs / c->alignment.n_valid_px;
    track->overlap_most = fmax(track->overlap_most, overlap);
    if (s->reference != TRACK_REFERENCE_PREVIOUS)
        return distance_m > s->keyframe_distance * c->conditioning.arm_m ||
               turn_rad > s->keyframe_turn_rad ||
               overlap < s->keyframe_overlap * track->overlap_most;
    // A still camera keeps its reference, so that the noise of its poses does not add up.
    return distance_m + turn_rad * c->conditioning.arm_m > s->still_m;
}

static void accept(struct track *track, struct track_candidate *c, double seconds,
                   struct track_result *out)
{
    bool gap = verdict_is_gap(track, seconds);
    const struct se3 T_measured = c->T_odom_camera;
    double gain;
    c->T_odom_camera = still_camera_average(&track->still, &track->T_odom_camera, &T_measured,
                                            c->conditioning.arm_m, track->settings.still_m, &gain);
    track_grow_error(track, c, &T_measured, gain, seconds);
    struct se3 step = se3_between(&track->T_odom_camera, &c->T_odom_camera);
    se3_log(&step, track->velocity);
    for (int i = 0; i < 6; i++)
        track->velocity[i] = gap || track->lost ? 0 : track->velocity[i] / seconds;
    track->T_odom_camera = track->T_told = c->T_odom_camera;
    track->n_finds_told = track->n_finds;
    keep_slot(track, track->newest);
    track->aligned_to = c->reference;
    gravity_prior_follow(&track->gravity, &c->T_odom_camera, &c->reference->T_odom_camera,
                         &c->conditioning, seconds, &track->log);
    if (gap)
        gravity_prior_rest(&track->gravity);
    track->T_aligned_newest = se3_between(&c->reference->T_odom_camera, &c->T_odom_camera);
    out->new_keyframe = replaces_reference(track, c);
    out->reference_seq = c->reference->seq;
    if (out->new_keyframe) {
        track->reference = track->newest;
        track->overlap_most = 0;
    }
    track->previous = track->newest;
    track->lost = false;

    uint64_t aligned_to = out->reference_seq;
    result_pose(track, out);
    out->reference_seq = aligned_to;
    out->reason = verdict_reservation(c, gap);
    out->state = out->reason == TRACK_REASON_NONE ? TRACK_STATE_TRACKING : TRACK_STATE_DEGRADED;
}

static void result_alignment(const struct track_candidate *c, struct track_result *out)
{
    const struct gpu_alignment *a = &c->alignment;
    out->residual_rms_m = a->residual_rms_m;
    out->inlier_ratio = a->n_valid_px ? (double)a->n_pairs / a->n_valid_px : 0;
    out->n_iterations = a->n_iterations[0] + a->n_iterations[1] + a->n_iterations[2];
    out->converged = a->converged;
    memcpy(out->eigenvalues, c->conditioning.eigenvalues, sizeof out->eigenvalues);
    out->degenerate_mask = c->conditioning.degenerate_mask;
    out->n_valid_px = a->n_valid_px;
    memcpy(out->stage_us, a->stage_us, sizeof out->stage_us);
}

// A map in which the camera may be found again is not given up so soon.
static double restart_s(const struct track *track)
{
    return track->settings.restart_s * (track->has_map ? RESTART_WITH_MAP : 1);
}

static int follow(struct track *track, const uint16_t *measured, int64_t time_ns,
                  struct track_result *out)
{
    double seconds = elapsed_s(track, time_ns);
    struct track_candidate best;
    if (verdict_is_gap(track, seconds))
        memset(track->velocity, 0, sizeof track->velocity);
    int rc = sparse_frame_explain(track, measured, seconds, &best);
    track->is_found = false;
    if (rc < 0)
        return rc;
    result_alignment(&best, out);
    track->slots[track->newest].filled = true;
    if (best.reason == TRACK_REASON_NONE) {
        accept(track, &best, seconds, out);
        if (!verdict_is_gap(track, seconds))
            track->period_s = seconds;
        track->pose_time_ns = time_ns;
        track->n_lost = 0;
        return 0;
    }
    if (!track->lost || best.reason == TRACK_REASON_NO_DEPTH) {
        track->lost_since_ns = time_ns;
        track->n_lost = 0;
        track->was_found = false;
    }
    result_lost(track, best.reason, out);
    if (++track->n_lost < RESTART_FRAMES ||
        (double)(time_ns - track->lost_since_ns) * 1e-9 < restart_s(track))
        return 0;
    // It sees, but nothing it knows: go on from here, unconnected.
    log_to(&track->log, LOG_LEVEL_WARNING,
           "track: lost for %.1f s (%s); starting anew at the last pose, map epoch %u",
           restart_s(track), track_reason_text(best.reason), track->map_epoch + 1);
    track->map_epoch++;
    track->T_odom_camera = track->T_told;
    track->n_finds_told = track->n_finds;
    gravity_prior_reset(&track->gravity);
    return start(track, NULL, time_ns, out);
}

int track_frame(struct track *track, const uint16_t *measured, int64_t time_ns,
                struct track_result *out)
{
    memset(out, 0, sizeof *out);
    bool has_reference = track->pose_known;
    for (track->newest = 0;
         track->newest == track->held || (has_reference && (track->newest == track->reference ||
                                                            track->newest == track->previous));)
        track->newest++;
    track->slots[track->newest].seq = track->next_seq++;
    track->aligned_to = NULL;
    track->newest_time_ns = time_ns;
    int rc = has_reference ? follow(track, measured, time_ns, out)
                           : start(track, measured, time_ns, out);
    if (rc < 0) {
        result_lost(track, TRACK_REASON_DEVICE, out);
        track->slots[track->newest].filled = false;
    }
    if (out->reason == TRACK_REASON_NO_DEPTH)
        sparse_frame_tell(track, measured, out);
    track->last = *out;
    track->is_aligned = out->state == TRACK_STATE_TRACKING || out->state == TRACK_STATE_DEGRADED;
    return rc;
}

int track_repeat(struct track *track, int64_t time_ns, struct track_result *out)
{
    if (!track->is_aligned)
        return -ENODATA;
    track->next_seq++;
    if (verdict_is_gap(track, elapsed_s(track, time_ns))) {
        memset(track->velocity, 0, sizeof track->velocity);
        memset(track->last.velocity, 0, sizeof track->last.velocity);
        track->pose_time_ns = time_ns;
    }
    *out = track->last;
    track->T_told = out->T_odom_camera; // it may be a prediction by now
    out->n_iterations = 0;
    out->new_keyframe = false;
    memset(out->stage_us, 0, sizeof out->stage_us);
    return 0;
}

void track_set_gravity(struct track *track, const float gravity_m_s2[3])
{
    if (track->settings.gravity)
        gravity_prior_read(&track->gravity, gravity_m_s2, &track->log);
}

void track_skip(struct track *track, int64_t time_ns, struct track_result *out)
{
    memset(out, 0, sizeof *out);
    track->next_seq++;
    if (track->lost) {
        result_lost(track, TRACK_REASON_DROPPED, out);
        return;
    }
    if (!track->pose_known) { // nothing was tracked yet, so nothing is lost
        result_pose(track, out);
        covariance_lost(out->covariance); // and nothing is known
        covariance_lost(out->error.own);
        out->state = TRACK_STATE_INIT;
        out->reason = TRACK_REASON_DROPPED;
        out->is_stale = true;
        return;
    }
    double seconds = elapsed_s(track, time_ns);
    result_pose(track, out);
    // Nothing tells where a moving camera is after so long; it is not told to step back for that,
    // now or when the next frame is lost. Of one frame alone no period is known.
    const double gap_s = track->period_s > 0 ? verdict_gap_s(track) : track->settings.gap_s;
    out->is_stale = seconds > gap_s;
    if (out->is_stale)
        memset(out->velocity, 0, sizeof out->velocity);
    out->T_odom_camera = track_predict(track, fmin(seconds, gap_s));
    track->T_told = out->T_odom_camera;
    track_predict_error(seconds, out->covariance);
    track_predict_error(seconds, out->error.own);
    out->state = TRACK_STATE_DEGRADED;
    out->reason = TRACK_REASON_DROPPED;
}
