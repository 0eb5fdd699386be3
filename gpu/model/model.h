// SPDX-License-Identifier: Apache-2.0
// The fused model: frames go in with their poses, views of the surface come out as frames that
// the tracker aligns to. Truncated signed distances (Curless, Levoy 1996) in hashed blocks of
// 8 x 8 x 8 voxels (Niessner et al. 2013); the formulas stand in kernels/, both twins compile them.
//
// Which blocks exist and what is in them depends on the frames and poses alone, not on threads or
// on the order in which blocks were met. Where the device is nearly full, blocks out of sight wait
// on the host (far_blocks.h). A frame whose new places do not all fit even so adds none of them
// (model_stats_get); what is there goes on being refined.
//
// Threads: like the gpu that it was made for, one thread at a time. Nothing but far blocks is
// allocated after model_create.
#ifndef POSED_GPU_MODEL_MODEL_H
#define POSED_GPU_MODEL_MODEL_H

#include "gpu/gpu.h"

#define MODEL_BLOCK_EDGE   8
#define MODEL_BLOCK_VOXELS 512
#define MODEL_UNIT_M       4e-6 // of a stored distance

// Least and most of each setting.
#define MODEL_VOXEL_M_RANGE      0.002, 0.1
#define MODEL_MEMORY_BYTES_RANGE 1048576, 68719476736.0 // 1 MiB .. 64 GiB
#define MODEL_FAR_BYTES_RANGE    0, 68719476736.0

struct model_settings {
    float voxel_m;         // default 0.008: edge of a voxel
    uint64_t memory_bytes; // default 512 MiB: of voxels on the device
    uint64_t far_bytes;    // default 512 MiB: of the host, for what does not fit
};

// One block as it is stored and saved. Voxel (i, j, k) of it, x fastest, is the lattice point
// (8 x + i, 8 y + j, 8 z + k) * voxel_m of the map.
struct model_block {
    int32_t x, y, z;
    int16_t distance[MODEL_BLOCK_VOXELS]; // in MODEL_UNIT_M, positive on the camera's side
    uint16_t weight[MODEL_BLOCK_VOXELS];  // 0: never seen
};

struct model_stats {
    uint32_t n_blocks, max_blocks; // on the device
    uint32_t n_far, max_far;       // on the host
    uint32_t n_touched;            // blocks that the newest frame lies in
    uint32_t n_refused; // not 0: so many blocks of the newest frame, or more, found no room
    uint64_t used_bytes;
};

struct model; // opaque

void model_settings_default(struct model_settings *out);

// Whether each is in its range; what is not is named in the log. Any thread. Returns 0 or -EINVAL.
__attribute__((warn_unused_result)) int model_settings_check(const struct model_settings *settings,
                                                             const struct log_sink *log);

// Blocks that memory_bytes and far_bytes have room for together, and half the width of the band of
// distances that is kept around a surface at 1 m [m]. Pure.
uint32_t model_max_blocks(const struct model_settings *settings);
double model_truncation_m(const struct model_settings *settings);

// Whether a block may have this place (its numbers have 21 bits). Pure.
bool model_place_can_be(const struct model_block *block);

// `gpu` must outlive the model. Returns 0, or with *out NULL: -EINVAL (a setting out of range,
// named in the log), -ENOMEM (the memory that the setting asks for is not there, in the log) or
// -EIO.
__attribute__((warn_unused_result)) int model_create(struct model **out, struct gpu *gpu,
                                                     const struct model_settings *settings);
void model_destroy(struct model **model);

// Nothing has been seen. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int model_clear(struct model *model);

// Adds a prepared frame of the same gpu at its pose. May return before the device has done it;
// whatever uses the same gpu afterwards comes after it. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int
model_integrate(struct model *model, const struct gpu_frame *frame, const struct se3 *T_map_camera);

// What the camera would see of the model: depth and normals of all levels, as gpu_prepare leaves
// them. Pixels without a surface have depth 0. As above about time. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int
model_view(struct model *model, const struct se3 *T_map_camera, struct gpu_frame *out_frame);

// Waits for what was begun. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int model_stats_get(struct model *model,
                                                        struct model_stats *out);

// Copies all blocks to the host, in whatever order they lie. Returns 0, -ENOBUFS (there is room for
// fewer than *out_n_blocks) or -EIO.
__attribute__((warn_unused_result)) int model_read(struct model *model, struct model_block *out,
                                                   uint32_t room, uint32_t *out_n_blocks);

// Orders them by their place: z, y, x. Any thread; of what the tracker's thread has read, another.
void model_order(struct model_block *blocks, uint32_t n_blocks);

// Puts blocks in place of what is there. Places come once each. Returns 0, -ENOSPC (they do not
// fit: nothing has changed), -ENOMEM (of more than the device holds; what is there is incomplete),
// -EINVAL (a place twice or beyond the numbers that can be, distances without weight are ignored;
// the model is then empty) or -EIO.
__attribute__((warn_unused_result)) int
model_write(struct model *model, const struct model_block *blocks, uint32_t n_blocks);

#endif
