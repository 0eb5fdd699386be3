// SPDX-License-Identifier: Apache-2.0
// The CPU twin's loops over the voxels of a block and the pixels of a row, compiled once per
// instruction set (voxel_loops.c), as gpu/track/cpu/rows.h is, so that both round alike.
#ifndef POSED_GPU_MODEL_CPU_VOXEL_LOOPS_H
#define POSED_GPU_MODEL_CPU_VOXEL_LOOPS_H

#include "gpu/model/kernels/view.h"
#include "gpu/track/cpu/rows.h"

// A frame to be added, or a view to be made.
struct loops_camera {
    struct level_camera camera;
    struct icp_pose T_camera_map, T_map_camera;
    const struct map_px *map; // of the frame, full resolution
    float depth_min_m, depth_max_m;
};

struct loops {
    // Keys of the blocks in the band around the surface of row y of `map` (of `camera`), those that
    // repeat their left neighbour's left out. Returns how many, at most VOXEL_MAX_STEPS a pixel.
    uint32_t (*band)(const struct loops_camera *c, float voxel_m, int32_t y, uint64_t *out_keys);
    // Adds the frame to all voxels of a block.
    void (*integrate)(const struct loops_camera *c, float voxel_m, struct voxel_place place,
                      struct model_voxel *voxels);
    // The next two with the camera of half the resolution. Draws a block's crossings: `image`
    // holds bits of depths, VIEW_NOTHING to begin with.
    void (*draw)(const struct loops_camera *c, const struct voxel_volume *volume,
                 struct voxel_place place, const struct model_voxel *voxels, uint32_t *image);
    // Row y of the image refined to depth.
    void (*refine)(const struct loops_camera *c, const struct voxel_volume *volume, int32_t y,
                   const uint32_t *image, float *out_z_m);
    // Row y of the full resolution (whose camera it is given) from the refined image.
    void (*between)(const struct loops_camera *c, const struct voxel_volume *volume, int32_t y,
                    const float *z_m, int32_t width_px, int32_t height_px, float *out_z_m);
};

extern const struct loops loops_baseline;
#if defined(__x86_64__)
extern const struct loops loops_avx2, loops_avx512;
#endif

// Those of the same instruction set.
const struct loops *loops_choose(const struct rows *rows);

#endif
