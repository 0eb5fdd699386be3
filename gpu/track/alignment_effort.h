// SPDX-License-Identifier: Apache-2.0
// Less work on a frame, for a machine that cannot keep up: what an alignment leaves out at each
// effort. A frame keeps its maps of all levels, so that each may have another effort than its
// reference.
//
// Iterations are not cut: an alignment that has not settled is tried from further starts, which
// costs more than was saved. A coarser finest level with the iterations of the one left out
// settles. Tracking time and ATE, of full work's (two cores, 10/5/4 iterations, early stop; 200 and
// 300 frames): HALF 0.31 to 0.39, 0.98 to 1.05; LEAST 0.15 to 0.29, 1.01 to 1.13 on fr1_xyz,
// fr1_rpy and redkitchen, and 8 on synth:room, whose noise full work averages to 0.6 mm.
#ifndef POSED_GPU_TRACK_ALIGNMENT_EFFORT_H
#define POSED_GPU_TRACK_ALIGNMENT_EFFORT_H

#include "gpu/gpu.h"

// HALF: early stop, and the finest level that has iterations is left out where there is a coarser
// one. LEAST: the coarsest level alone.
enum track_effort { TRACK_EFFORT_FULL, TRACK_EFFORT_HALF, TRACK_EFFORT_LEAST };

// The settings of an alignment at such an effort. Pure.
void effort_align(const struct gpu_align_settings *full, enum track_effort effort,
                  struct gpu_align_settings *out);

// The finest level that has iterations. Pure.
uint32_t effort_finest_level(const struct gpu_align_settings *settings);

#endif
