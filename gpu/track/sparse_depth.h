// SPDX-License-Identifier: Apache-2.0
// Frames of a sensor with a sparse pattern: a third of the pixels is measured, hardly one with all
// four neighbours, so that hardly one has a normal and the coarser levels, which take every second
// pixel, are as empty. In such a frame a gap takes its depth from measured pixels on opposite sides
// of it that belong to one surface. Inverse depth is linear in the image on a plane, so what lies
// between two points of a plane lies on it; nothing is filled in beyond what was measured, nor
// across an edge. Measured pixels stay what they are, and so does any other frame.
//
// On the host, before either twin: both see the same pixels. One thread.
#ifndef POSED_GPU_TRACK_SPARSE_DEPTH_H
#define POSED_GPU_TRACK_SPARSE_DEPTH_H

#include "gpu/gpu.h"

// Of all pixels: where more have all four neighbours, no frame is sparse.
#define SPARSE_DEPTH_MOST_COMPLETE 0.4

struct sparse_depth; // opaque

// For frames of the device's camera and depth range. Returns 0 or -ENOMEM with *out NULL.
__attribute__((warn_unused_result)) int sparse_depth_create(struct sparse_depth **out,
                                                            struct gpu *gpu);
void sparse_depth_destroy(struct sparse_depth **gaps); // before the device; NULL is taken

// Whether too few of the measured pixels have all four neighbours, judged on some of the rows.
bool sparse_depth_is_sparse(const struct sparse_depth *gaps, const uint16_t *depth);

// The share of measured pixels, of some of the rows.
double sparse_depth_measured_share(const struct sparse_depth *gaps, const uint16_t *depth);

// The frame itself, or where it is sparse a filled copy, valid until the next call.
const uint16_t *sparse_depth_fill(struct sparse_depth *gaps, const uint16_t *depth);

#endif
