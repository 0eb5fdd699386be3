// SPDX-License-Identifier: Apache-2.0
// The blocks of the model where its keyframes came to lie. Frames are fused in odom, where the
// tracker's view of the model must not jump; what leaves the daemon (points, surface, file) is
// moved to the map: each block as the surface in it goes (deformation_field.h). Its voxels are then
// read anew on the map's lattice. Where two surfaces come to lie on each other, their distances are
// averaged by weight.
//
// Plain data in, plain data out: any thread, the same bits each time.
#ifndef POSED_GPU_MODEL_DEFORM_BLOCKS_H
#define POSED_GPU_MODEL_DEFORM_BLOCKS_H

#include "gpu/model/deformation_field.h"
#include "gpu/model/model.h"

// Puts moved blocks in place of *blocks (which are freed), ordered as model_order does. At
// most max_blocks: beyond, those with the fewest voxels are left out. They stay as they are where
// deformation_field_is_none. Returns 0 or -ENOMEM (nothing has changed).
__attribute__((warn_unused_result)) int deform_blocks(const struct deformation_field *correction,
                                                      float voxel_m, uint32_t max_blocks,
                                                      struct model_block **blocks,
                                                      uint32_t *n_blocks);

#endif
