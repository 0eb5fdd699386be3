// SPDX-License-Identifier: Apache-2.0
// What the files of the model's CUDA twin share: the device's memory and what a pass is given. All
// of it runs on the tracker's stream, after the frame and before the next one; the host waits only
// where it reads.
#ifndef POSED_GPU_MODEL_CUDA_DEVICE_CUH
#define POSED_GPU_MODEL_CUDA_DEVICE_CUH

#include "gpu/track/cuda/device.cuh"

extern "C" {
#include "gpu/model/ops.h"
}
#include "gpu/model/kernels/view.h"

#define MODEL_STAGING_BLOCKS 1024                    // of voxels: 2 MB
#define MODEL_PENDING_MASK   (4 * MODEL_MAX_NEW - 1) // of the table of a frame's new places

struct cuda_counters {
    uint32_t n_blocks;
    uint32_t n_new;     // places of this frame that were not there
    uint32_t n_work;    // table entries that this frame lies in
    uint32_t n_refused; // of this frame
    uint32_t n_visible; // slots in the view
    uint32_t twice;     // of a write: a place came twice
};

// Plain pointers into the device's memory; kernels take it by value.
struct cuda_volume {
    struct voxel_volume volume;
    uint64_t *slot_keys;
    uint32_t *entry_frame; // of a table entry: the newest frame that lies in its block
    uint32_t *work;        // table entries
    uint32_t *visible;     // slots
    uint64_t *pending;     // a hash set of new places; empty between frames
    uint32_t *pending_at;  // its entries in use, n_new
    struct cuda_counters *counters;
    uint32_t max_blocks;
    uint32_t *image; // of half the resolution: bits of depths
    float *half_m, *full_m;
    uint64_t *staging_keys; // MODEL_STAGING_BLOCKS on their way to the host
    struct model_voxel *staging;
};

struct cuda_pass {
    struct level_camera cameras[GPU_LEVELS];
    struct icp_pose T_camera_map, T_map_camera;
    const struct map_px *full, *half; // of the frame to be added
    uint32_t frame;
    float depth_min_m, depth_max_m;
    bool adds; // new places
};

struct cuda_model {
    struct model model; // first
    struct cuda_device *device;
    struct cuda_volume at;
    struct cuda_memory keys, slots, voxels, slot_keys, entry_frame, work, visible, pending,
        pending_at, counters, image, half_m, full_m, staging_keys, staging;
    uint32_t frame;
};

int cuda_model_integrate(struct cuda_model *m, const struct cuda_pass *pass);
int cuda_model_view(struct cuda_model *m, const struct cuda_pass *pass, struct gpu_frame *out);

// Enters slot_keys[first .. first + n) into the table, and counts them.
int cuda_model_enter(struct cuda_model *m, uint32_t first, uint32_t n);

// Copies keys and voxels of n slots, which the list of work names from `first` on, to the staging
// memory.
int cuda_model_gather(struct cuda_model *m, uint32_t first, uint32_t n);

// The blocks in the slots that `visible` names go into those that the list of work names.
int cuda_model_move(struct cuda_model *m, uint32_t n);

#endif
