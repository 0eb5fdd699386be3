// SPDX-License-Identifier: Apache-2.0
// How well a frame lies on its reference: in one number, and pixel by pixel.
#ifndef POSED_GPU_TRACK_RESIDUAL_H
#define POSED_GPU_TRACK_RESIDUAL_H

#include "gpu/gpu.h"

// Weighted RMS residual of the pairs in units of the sensor's noise at their distance.
double residual_sigmas(const struct gpu_alignment *alignment);

// The point-to-plane residuals of the finest level at a given pose, by the tracker's own pairing
// (track/kernels/icp.h). To be looked at, so it runs on one core of the host, whatever the backend.
// Packed maps of level 0 as gpu_frame_read gives them. out: width x height of the camera, metres
// along the reference's normal, positive in front of it (towards the camera); NaN where there is no
// pair within the gates.
void residual_image(const struct intrinsics *camera, const struct gpu_align_settings *settings,
                    const float *frame_map, const float *reference_map,
                    const struct se3 *T_reference_frame, float *out_m);

#endif
