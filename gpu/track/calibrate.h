// SPDX-License-Identifier: Apache-2.0
// Learns a depth camera's own error (depth_error.h) from a recording that it made, without ground
// truth: what one frame says of a surface and what another says of it from elsewhere in the image
// must agree. Unknowns are the nodes of the field and the poses of all frames, in one adjustment.
// The residual is the inverse depth that frame i predicts at a pixel of frame j minus the one that
// j has there (by j's tangent plane), over random pairs of frames with 25 px of flow or more, by
// Tukey's biweight, in Gauss-Newton steps with the whole normal matrix (about 900 unknowns).
//
// Accepted is a field only by frames that had no part in it: their pairs, each pose refined anew
// with and without it, must have a residual smaller by FIELD_MIN_REDUCE.
//
// Host only, one thread; no device is involved beyond the maps that the caller reads.
#ifndef POSED_GPU_TRACK_CALIBRATE_H
#define POSED_GPU_TRACK_CALIBRATE_H

#include <stdatomic.h>

#include "gpu/base/yield.h"
#include "gpu/track/depth_error.h"
#include "gpu/track/track.h"

#define CALIBRATE_MAX_FRAMES    125
#define CALIBRATE_MIN_FRAMES    80  // usable ones; fewer have not seen enough
#define CALIBRATE_MIN_KEYFRAMES 40  // instead: none of them says what another does
#define CALIBRATE_MIN_S         9.0 // 25 frames in 2.5 s find half of it
#define CALIBRATE_MAX_APART_S   4.0 // of a pair: beyond, the poses to begin with are too far off
#define CALIBRATE_FLOW_PX       25.0
#define CALIBRATE_MAP_LEVEL     1 // of the maps that frames are given as

struct calibrate; // opaque

struct calibrate_report {
    uint32_t n_frames, n_pairs, n_pairs_aside;
    double seconds;                   // that the frames cover, all recordings together
    double before_per_m, after_per_m; // residual of the pairs kept aside, without and with
    double reduction;                 // 1 - after / before
    double rms_per_m;                 // of the field
    double std_per_m;                 // of a node, in the mean
    double unseen;                    // share of the nodes that the recording says little about
};

// Frames of a camera of these intrinsics. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int calibrate_create(struct calibrate **out,
                                                         const struct intrinsics *camera,
                                                         const struct log_sink *log);
void calibrate_destroy(struct calibrate **calibrate);

// Before the first frame, where maps are of another level than CALIBRATE_MAP_LEVEL, all poses to
// begin with are good, those of frames far apart in time, too, and frames were chosen for what they
// see: at least so many of them, and pairs so far apart. Where *stop (NULL: nobody) is set,
// calibrate_solve ends with -ECANCELED; it asks `yield` (copied; NULL: nobody) between its pieces.
void calibrate_set_limits(struct calibrate *calibrate, uint32_t map_level, uint32_t min_frames,
                          double max_apart_s, const atomic_bool *stop, const struct yield *yield);

// One more frame: its packed map of level CALIBRATE_MAP_LEVEL (gpu_frame_read), prepared without a
// field, and its pose. Poses of one `group` belong together. Copies. Returns 0, -ENOSPC
// (CALIBRATE_MAX_FRAMES are there) or -ENOMEM.
__attribute__((warn_unused_result)) int calibrate_add(struct calibrate *calibrate, uint32_t group,
                                                      int64_t time_ns, const float *map,
                                                      const struct se3 *T_world_camera);

// A frame that would have been added, had it been tracked well: where too few are left, the log
// says what most of these lacked.
void calibrate_leave_out(struct calibrate *calibrate, enum track_reason reason);

// Learns. *out gets camera, nodes, reduction and n_frames (serial: the caller's). Returns 0 (also
// where the field is not worth accepting: the report's reduction), -ENODATA (too few frames, too
// short a time, too little motion: the reason in the log, *out_report as far as it is known) or
// -ENOMEM.
__attribute__((warn_unused_result)) int calibrate_solve(struct calibrate *calibrate,
                                                        struct depth_error *out,
                                                        struct calibrate_report *out_report);

// Judges a field by all frames: the report's residuals. Returns as calibrate_solve.
__attribute__((warn_unused_result)) int calibrate_judge(struct calibrate *calibrate,
                                                        const struct depth_error *field,
                                                        struct calibrate_report *out_report);

#endif
