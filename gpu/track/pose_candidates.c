// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/pose_candidates.h"

#include <math.h>
#include <string.h>

#include "gpu/track/motion_prediction.h"
#include "gpu/track/multistart.h"
#include "gpu/track/verdict.h"

// An alignment whose last step was at most this has nearly arrived: steps shrink from one to the
// next, the noise of a pose is of this size, and none that is wrong moves so little.
#define NEARLY_M 1e-4

// Aligns the newest frame to `reference`, starting at T_odom_start. With `depth` the frame is
// prepared on the way.
static int try_candidate(struct track *track, const uint16_t *depth,
                         const struct track_slot *reference, const struct se3 *T_odom_start,
                         double seconds, struct track_candidate *out)
{
    struct gpu_frame *frame = track->slots[track->newest].frame;
    const struct gpu_align_settings *align = &track->align;
    struct se3 T_start = se3_between(&reference->T_odom_camera, T_odom_start);
    out->reference = reference;
    int rc = depth
                 ? gpu_prepare_align(track->gpu, depth, frame, reference->frame, &T_start, align,
                                     &out->alignment)
                 : gpu_align(track->gpu, frame, reference->frame, &T_start, align, &out->alignment);
    if (rc < 0)
        return rc;
    conditioning_of(&out->alignment, track->settings.min_eigenvalue, &out->conditioning);
    struct se3 T_held =
        conditioning_hold(&out->conditioning, &T_start, &out->alignment.T_reference_frame);
    struct se3 T = se3_compose(&reference->T_odom_camera, &T_held);
    out->T_odom_camera = se3_normalized(&T);
    out->reason = verdict_objection(track, out, seconds);
    return 0;
}

// Nothing to say against it, and arrived: an alignment that used up its iterations may still be on
// its way from too far.
static bool convinces(const struct track_candidate *c)
{
    return c->reason == TRACK_REASON_NONE && c->alignment.converged;
}

static bool nearly_arrived(const struct track_candidate *c)
{
    return c->reason == TRACK_REASON_NONE && c->alignment.step_norm <= NEARLY_M;
}

// A scene that does not hold some directions lets every start slide along them, the best one, too:
// it never arrives. Where that is new, or the camera may be anywhere, others are tried, too.
static bool goes_on_sliding(const struct track *track, const struct track_candidate *c,
                            double seconds)
{
    return c->reason == TRACK_REASON_NONE && c->conditioning.n_degenerate > 0 &&
           track->unheld_s > 0 && !track->lost && seconds <= track->settings.gap_s;
}

// Tries a further start and keeps what is better.
static int try_further(struct track *track, const struct track_slot *reference,
                       const struct se3 *T_odom_start, double seconds, struct track_candidate *best)
{
    struct track_candidate other;
    int rc = try_candidate(track, NULL, reference, T_odom_start, seconds, &other);
    if (rc < 0)
        return rc;
    memcpy(other.alignment.stage_us, best->alignment.stage_us, sizeof other.alignment.stage_us);
    if (convinces(&other) ||
        (other.reason == TRACK_REASON_NONE && best->reason != TRACK_REASON_NONE))
        *best = other;
    return 0;
}

// A map's view may show one wall of two, where the keyframe shows both: what holds more directions
// is taken.
static int hold_by_keyframe(struct track *track, const struct track_slot *keyframe,
                            const struct se3 *T_odom_start, double seconds,
                            struct track_candidate *best)
{
    struct track_candidate other;
    int rc = try_candidate(track, NULL, keyframe, T_odom_start, seconds, &other);
    if (rc < 0)
        return rc;
    memcpy(other.alignment.stage_us, best->alignment.stage_us, sizeof other.alignment.stage_us);
    if (other.reason == TRACK_REASON_NONE &&
        other.conditioning.n_degenerate < best->conditioning.n_degenerate)
        *best = other;
    return 0;
}

int track_explain(struct track *track, const uint16_t *depth, double seconds,
                  struct track_candidate *out)
{
    const struct track_slot *keyframe = &track->slots[track->reference];
    const struct track_slot *reference = track->view.filled ? &track->view : keyframe;
    const struct track_slot *previous = &track->slots[track->previous];
    struct se3 T_predicted = track_predict(track, seconds);
    gravity_prior_hold(&track->gravity, seconds, &T_predicted);
    int rc = try_candidate(track, depth, reference, &T_predicted, seconds, out);
    if (!rc && reference != keyframe && out->reason == TRACK_REASON_NONE &&
        out->conditioning.n_degenerate > 0)
        rc = hold_by_keyframe(track, keyframe, &T_predicted, seconds, out);
    reference = out->reference;
    if (rc < 0 || convinces(out) || out->reason == TRACK_REASON_NO_DEPTH ||
        goes_on_sliding(track, out, seconds))
        return rc;
    // Other starts would end in the same place: it goes on where it is.
    if (nearly_arrived(out)) {
        const struct se3 T_odom_start = out->T_odom_camera;
        return try_further(track, reference, &T_odom_start, seconds, out);
    }
    rc = try_further(track, reference, &track->T_odom_camera, seconds, out);
    if (!rc && !convinces(out) && keyframe != reference)
        rc = try_further(track, keyframe, &T_predicted, seconds, out);
    if (!rc && !convinces(out) && previous != reference && previous != keyframe)
        rc = try_further(track, previous, &track->T_odom_camera, seconds, out);
    if (rc < 0 || convinces(out))
        return rc;
    const struct se3 guesses[2] = {se3_between(&previous->T_odom_camera, &T_predicted),
                                   se3_between(&previous->T_odom_camera, &track->T_odom_camera)};
    struct se3 starts[MULTISTART_MAX];
    int n_starts;
    rc = multistart_find(track->gpu, track->slots[track->newest].frame, previous->frame,
                         &track->align, guesses, 2, starts, &n_starts);
    for (int i = 0; !rc && i < n_starts && !convinces(out); i++) {
        struct se3 T_start = se3_compose(&previous->T_odom_camera, &starts[i]);
        rc = try_further(track, previous, &T_start, seconds, out);
    }
    return rc;
}
