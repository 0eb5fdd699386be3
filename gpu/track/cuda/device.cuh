// SPDX-License-Identifier: Apache-2.0
// What the files of the CUDA twin share: the device, its frames, how errors are reported, and what
// a launch is given. A .cu file is C with kernels.
#ifndef POSED_GPU_TRACK_CUDA_DEVICE_CUH
#define POSED_GPU_TRACK_CUDA_DEVICE_CUH

extern "C" {
#include "gpu/backend.h"
}
#include "gpu/base/cuda.cuh"
#include "gpu/track/kernels/bilateral.h"
#include "gpu/track/kernels/icp.h"
#include "gpu/track/kernels/solve.h"

#define CUDA_MAX_HOST_RANGES 1024
#define FILTER_QUADRANT      (BILATERAL_MAX_RADIUS_PX + 1)

// How depth becomes filtered depth; the same for every frame of a device. The spatial weights are
// one quadrant of the window: what a launch takes grows with its parameters, 0.6 us a kilobyte.
struct cuda_filter {
    float m_per_unit, depth_min_m, depth_max_m;
    float cut_sigmas;
    float spatial[FILTER_QUADRANT * FILTER_QUADRANT]; // [|dy|][|dx|], roots of weights
    int radius_px;
    const float *field_per_m; // the sensor's own error, on the device; NULL: none
};

// What an alignment is told, in the device's precision.
struct cuda_align {
    struct map_px *source[GPU_LEVELS];
    const struct map_px *target[GPU_LEVELS];
    struct icp_pose start; // T_reference_frame
    struct icp_gates gates;
    int iterations[GPU_LEVELS];
    float stop2_m2[GPU_LEVELS]; // a level is left when the squared step is below; 0: never
    float converged2_m2[GPU_LEVELS];
};

// What it leaves: the last iteration's sums and the pose.
struct cuda_result {
    double sums[ICP_N_SUMS], information_sums[ICP_N_SUMS];
    struct icp_pose pose;
    float size2_m2;
    uint32_t n_iterations[GPU_LEVELS];
    uint32_t solvable, converged;
    float stage_us[GPU_N_STAGES];
};

struct gpu_frame {
    struct map_px *maps[GPU_LEVELS]; // on the device, one allocation
    float stage_us[GPU_N_STAGES];    // of the prepare that filled it
};

struct cuda_host_range {
    const char *begin;
    size_t bytes;
};

struct cuda_device {
    struct gpu gpu; // first
    struct cuda_dev dev;
    float us_per_cycle;
    struct level_camera cameras[GPU_LEVELS];
    struct cuda_filter filter;
    const uint16_t *next_depth;     // pinned; what the caller said comes next
    const uint16_t *prepared_depth; // the frame that the newest launch prepares ahead, or NULL
    uint16_t *staging;              // pinned: frames that do not come from gpu_host_alloc
    size_t raw_bytes;               // rounded up
    struct cuda_host_range ranges[CUDA_MAX_HOST_RANGES]; // pinned memory handed out
    int n_ranges, newest_range;                          // where the frame before was found

    const struct cuda_path *path;
    struct cuda_fused *fused; // one of these
    struct cuda_plain *plain;
};

// Two ways to run the operations: one cooperative kernel (fused_frame.cu), many small ones
// (plain.cu). `depth` NULL: align only. `align` NULL: prepare only. Both: nothing. `depth` is
// pinned and 16-byte aligned.
struct cuda_path {
    const char *name;
    int (*open)(struct cuda_device *device);
    void (*close)(struct cuda_device *device);
    int (*run)(struct cuda_device *device, const uint16_t *depth, struct gpu_frame *frame,
               const struct cuda_align *align, struct cuda_result *out);
};

extern const struct cuda_path cuda_path_fused, cuda_path_plain;

// Maps of all levels in one allocation, all zero; cudaFree(out_maps[0]) gives it back. Returns 0 or
// a negative errno.
int cuda_maps_alloc(struct cuda_device *device, struct map_px *out_maps[GPU_LEVELS]);

#endif
