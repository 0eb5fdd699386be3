// SPDX-License-Identifier: Apache-2.0
// The tracker: predict, align, judge. One depth frame in, one verdict out, always.
//
// Method: Jing, Zhao, Tai 2012 (projective association, point-to-plane, three levels) with the
// judgement that users of such systems miss: a verdict with a reason, a covariance, and directions
// that the scene does not hold kept at the prediction instead of drifting.
//
// Threads: one tracker is used by one thread at a time; it owns the frames it makes on `gpu`.
#ifndef POSED_GPU_TRACK_TRACK_H
#define POSED_GPU_TRACK_TRACK_H

#include "gpu/gpu.h"
#include "gpu/track/alignment_effort.h"
#include "gpu/track/settings.h"
#include "proto/pose_error.h"
#include "proto/types.h"

enum track_state { TRACK_STATE_INIT, TRACK_STATE_TRACKING, TRACK_STATE_DEGRADED, TRACK_STATE_LOST };

enum track_reason {
    TRACK_REASON_NONE,
    TRACK_REASON_FIRST_FRAME, // INIT: nothing to align to yet
    TRACK_REASON_DROPPED,     // the frame never reached the tracker (too late, damaged)
    TRACK_REASON_NO_DEPTH,    // LOST: too few valid pixels (empty frame, covered lens)
    TRACK_REASON_FEW_PAIRS,   // too little of the frame overlaps the reference
    TRACK_REASON_NOT_CONVERGED,
    TRACK_REASON_HIGH_RESIDUAL,
    TRACK_REASON_JUMP,       // the motion is not believable for the time that passed
    TRACK_REASON_DEGENERATE, // DEGRADED: some directions are held to the prediction
    TRACK_REASON_TIME_GAP,   // DEGRADED: so much time passed that the prediction is a guess; LOST:
                             // and the scene does not hold some directions
    TRACK_REASON_DEVICE,     // LOST: the compute device failed; see the return code
};

struct track_result {
    enum track_state state;
    enum track_reason reason;
    struct se3 T_odom_camera; // LOST: the pose told last, never NaN
    double covariance[36];    // of T_odom_camera, row-major, order x y z rotX rotY rotZ
    struct pose_error error;  // its parts; of a motion: pose_error_between
    double velocity[6];       // in the camera frame: m/s then rad/s
    double residual_rms_m;
    double inlier_ratio; // pairs / valid pixels, 0..1
    uint32_t n_iterations;
    bool converged;
    double eigenvalues[6];   // of the normalised 6x6, ascending
    uint8_t degenerate_mask; // bit i: translation x y z, rotation x y z (optical frame) not held
    uint32_t n_valid_px;
    // Of all pixels, where NO_DEPTH comes of a sparse sensor; else 0: the share that is measured,
    // which would do, and of which hardly any has a normal.
    double measured_share, normal_share;
    uint64_t reference_seq; // sequence number (of track_frame calls) of the reference
    bool new_keyframe;      // this frame became the reference keyframe
    uint32_t map_epoch;     // +1 whenever the pose is not connected to the one before it
    uint32_t n_finds;       // track_relocate's so far, LOST: when the last valid pose came. After
                            // another one odom is that of the place found, off the one before by
                            // what has drifted since
    bool is_repeat;         // its image was tracked before; false, unless the caller knows
    bool is_stale;          // DROPPED: before the first pose, or so long after the newest that
                            // nothing tells where the camera is by now
    float stage_us[GPU_N_STAGES];
};

struct track; // opaque

// `gpu` must outlive the tracker. Returns 0, -EINVAL, -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int track_create(struct track **out, struct gpu *gpu,
                                                     const struct track_settings *settings,
                                                     const struct log_sink *log);
void track_destroy(struct track **track);

// One frame: prepares it, aligns it, judges. *out is filled whatever the verdict. Returns 0, or
// -EIO when the device failed (then *out says LOST and the tracker needs a new gpu).
__attribute__((warn_unused_result)) int track_frame(struct track *track, const uint16_t *depth,
                                                    int64_t time_ns, struct track_result *out);

// Before track_frame: what the camera's accelerometer says of that frame, in the optical frame, as
// capture_frame has it; NaN: nothing. Not called: there is none.
void track_set_gravity(struct track *track, const float gravity_m_s2[3]);

// A frame whose image is the newest one's, bit for bit: its pose, error and velocity once more, as
// nothing new was measured. The next motion is since the image came; of one that stays for longer
// than gap_s the camera is taken to stand still (that of a simulator, without noise, does): its
// velocity is 0, and the next motion is since the newest repetition. Returns 0, or -ENODATA when
// the newest frame was not aligned to anything (the first one, lost; *out is untouched): it is for
// track_frame then.
__attribute__((warn_unused_result)) int track_repeat(struct track *track, int64_t time_ns,
                                                     struct track_result *out);

// A frame that was dropped before tracking: the last pose, predicted on to time_ns with a grown
// covariance, reason DROPPED; from a gap on the prediction as it was when that began, and no
// velocity: it is_stale. The reference stays. Before the first frame that was tracked: INIT, stale,
// the pose that it will have, with the covariance of a LOST one.
void track_skip(struct track *track, int64_t time_ns, struct track_result *out);

// How much work is done on the frames from now on; at create: FULL. Their counts of pixels and
// pairs are of the finest level that is aligned then.
void track_set_effort(struct track *track, enum track_effort effort);

// Forgets references and motion; the next frame starts at T_odom_camera (NULL: identity).
void track_reset(struct track *track, const struct se3 *T_odom_camera);

// Reference model: the view that the next frames are aligned to, and the pose that it was made at;
// NULL: none, the keyframe serves. `view` must stay as it is until it is replaced; track_reset
// forgets it.
void track_set_view(struct track *track, struct gpu_frame *view, const struct se3 *T_odom_view);

// Whether a camera that is lost is looked for, in a map or among keyframes. If so, one that may be
// anywhere is believed to be where it was only on good grounds, and given longer before it starts
// anew.
void track_set_map(struct track *track, bool has_map);

// Whether the reference is the model, so that views are wanted.
bool track_wants_view(const struct track *track);

// The newest frame, which is lost, is at T_odom_camera after all: it becomes keyframe and previous
// frame there, and tracking goes on from it at rest, in the same epoch. Returns 0, or -ENODATA when
// there is no such frame.
__attribute__((warn_unused_result)) int track_relocate(struct track *track,
                                                       const struct se3 *T_odom_camera);

// The newest frame stays as it is, for who looks at it while others come, until another is held,
// none is (`holds` false) or track_reset. track_relocate_held: that frame, which was lost as all
// since then, is at T_odom_camera, as track_relocate has it of the newest one.
void track_hold(struct track *track, bool holds);
__attribute__((warn_unused_result)) int track_relocate_held(struct track *track,
                                                            const struct se3 *T_odom_camera);

// Whether the newest frame is lost and track_relocate has told where it, or the held one, is.
bool track_is_found(const struct track *track);

// Where the next frame is expected if it comes one usual period after the newest: the last pose
// moved on, or the last pose where nothing can be predicted.
struct se3 track_expected(const struct track *track);

// Reference keyframe or model: the newest frame that has a pose becomes the keyframe now, whatever
// the rules say; its number as in reference_seq. Returns 0, -EINVAL (the reference is the previous
// frame) or -ENODATA (no frame yet, or the newest one is lost); *out_seq is then untouched.
__attribute__((warn_unused_result)) int track_set_keyframe(struct track *track, uint64_t *out_seq);

// The newest prepared frame (for depth and normals on the wire), NULL before the first. Valid until
// the next track_frame.
const struct gpu_frame *track_newest_frame(const struct track *track);

// The newest frame and the reference that it was aligned to, with the pose that came of it. Returns
// false when it has none (the first one, lost). Valid until the next track_frame or track_set_view.
bool track_newest_pair(const struct track *track, const struct gpu_frame **out_frame,
                       const struct gpu_frame **out_reference, struct se3 *out_T_reference_frame);

const char *track_reason_text(enum track_reason reason); // one line for a person

#define TRACK_RESULT_TEXT_BYTES 96
// The same of a result: with what its reason has in numbers.
void track_result_text(const struct track_result *result, char out[TRACK_RESULT_TEXT_BYTES]);

#endif
