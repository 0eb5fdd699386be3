// SPDX-License-Identifier: Apache-2.0
// Blocks that do not fit on the device wait on the host, in regions of some blocks' edge, and come
// back before the camera sees them: a block is on the device or here, never both. Where they are
// depends on the poses alone; what is in them does not depend on where they are (check_far_blocks).
//
// When the device is nearly full the regions out of sight go, the farthest from the camera first.
// Private to gpu/model; the model's thread.
#ifndef POSED_GPU_MODEL_FAR_BLOCKS_H
#define POSED_GPU_MODEL_FAR_BLOCKS_H

#include "gpu/model/model.h"

struct far_region {
    uint64_t key; // of its place, in regions
    struct model_block *blocks;
    uint32_t n, room;
};

struct far_blocks {
    struct far_region *regions; // by key
    uint32_t n_regions, room;
    // max_blocks 0: all that does not fit is refused. An exchange may leave one region more.
    uint32_t n_blocks, max_blocks;
    uint32_t n_frames;          // that were added
    uint32_t n_here, looked_at; // blocks on the device when it was asked last, and when that was
    uint32_t look_at;           // it is asked again
};

void far_blocks_clear(struct far_blocks *far); // gives its memory back

// Brings back what a camera there may see, and sends others away where there is no room for it or,
// with a new frame (is_new), little room for new places. *out_all_here: nothing in sight is far.
// What the host has no memory for stays where it is. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int far_blocks_follow(struct model *model,
                                                          const struct se3 *T_map_camera,
                                                          bool is_new, bool *out_all_here);

// Puts more blocks than the device holds in place of what is there: those of the regions nearest to
// the map's origin on the device. Returns what model_write does.
__attribute__((warn_unused_result)) int
far_blocks_write(struct model *model, const struct model_block *blocks, uint32_t n_blocks);

void far_blocks_read(const struct far_blocks *far, struct model_block *out);

#endif
