// SPDX-License-Identifier: Apache-2.0
// How sure a pose is, grown from that of the last one (proto/pose_error.h has the parts).
#ifndef POSED_GPU_TRACK_ERROR_PROPAGATION_H
#define POSED_GPU_TRACK_ERROR_PROPAGATION_H

#include "gpu/track/pose_candidates.h"

// The error of c's pose, which is final, from that of the last one, `seconds` before it, and what
// the alignment says (covariance.h). Of what was measured the pose took the share `gain`, 0..1.
void track_grow_error(struct track *track, const struct track_candidate *c,
                      const struct se3 *T_measured, double gain, double seconds);

#endif
