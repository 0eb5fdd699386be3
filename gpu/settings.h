// SPDX-License-Identifier: Apache-2.0
// The settings of the seam: of a device with the frames it prepares (the depth's range, the
// filter), and of an alignment. Defaults and ranges; what lies outside is refused by gpu_open and
// gpu_align. Each room has its own beside: gpu/track/settings.h, gpu/register/settings.h,
// gpu/search/settings.h.
#ifndef POSED_GPU_SETTINGS_H
#define POSED_GPU_SETTINGS_H

#include "proto/log.h"
#include "proto/types.h"

#define GPU_LEVELS         3   // full, half, quarter resolution
#define GPU_MAX_ITERATIONS 100 // of one level

// Least and most of each setting, for gpu_open, gpu_align and whoever shows or checks them before;
// the camera's are in proto/types.h.
#define GPU_DEPTH_MIN_M_RANGE          0.05, 19.9
#define GPU_DEPTH_MAX_M_RANGE          0.1, 20 // and above depth_min_m
#define GPU_BILATERAL_RADIUS_PX_RANGE  0, 6
#define GPU_BILATERAL_SIGMA_PX_RANGE   0.1, 100
#define GPU_BILATERAL_CUT_SIGMAS_RANGE 0.1, 20
#define GPU_THREADS_RANGE              0, 1024
#define GPU_SHARING_RANGE              1, 64
#define GPU_ITERATIONS_RANGE           0, GPU_MAX_ITERATIONS // of a level; not 0 at all of them
#define GPU_GATE_DISTANCE_M_RANGE      1e-4, 10
#define GPU_GATE_ANGLE_RAD_RANGE       1e-3, 1.5707964

enum gpu_backend { GPU_BACKEND_AUTO, GPU_BACKEND_CPU, GPU_BACKEND_CUDA };

// Instruction sets of the CPU backend, and ways to run a frame on CUDA. Each gives the same poses,
// to the bit but for BASELINE on x86-64, which has no FMA; AUTO is the fastest that runs here, the
// others are for tests and timing.
enum gpu_isa { GPU_ISA_AUTO, GPU_ISA_BASELINE, GPU_ISA_AVX2, GPU_ISA_AVX512 };
enum gpu_path { GPU_PATH_AUTO, GPU_PATH_FUSED, GPU_PATH_PLAIN };

struct gpu_settings {
    struct intrinsics camera; // of the depth image; at least 32 x 32 px, at most 4096 x 4096
    double units_per_m;       // raw depth units per metre

    float depth_min_m; // default 0.3; nearer pixels are invalid
    float depth_max_m; // default 8; farther pixels are invalid

    // Bilateral filter, see gpu/track/kernels/bilateral.h.
    uint32_t bilateral_radius_px; // default 3 (7x7); 0 = off
    float bilateral_sigma_px;     // default 4.5; spatial Gaussian
    float bilateral_cut_sigmas;   // default 12; depth difference, in multiples of the sensor's
                                  // noise at that distance, beyond which a neighbour counts
                                  // nothing

    // The sensor's own error in inverse depth [1/m], row-major, of the image's size, added to 1/z
    // before anything else (gpu/track/depth_error.h). NULL: none. Read during gpu_open only, and
    // NULL in gpu_settings_get. Refused where times depth_max_m it comes to a half or more.
    const float *field_per_m;

    uint32_t n_threads; // CPU backend: 0 = all cores
    enum gpu_isa isa;   // CPU backend: one that the processor lacks is replaced by the best it has
    int cuda_device;    // CUDA backend: -1 = the first that answers
    uint32_t n_sharing; // CUDA backend: how many gpus will work on that device at the same time;
                        // default 1 = all of it for the shortest frame
    enum gpu_path path; // CUDA backend: FUSED falls back to PLAIN where it cannot run
    struct log_sink log;
};

// One alignment's knobs, fine to coarse where they come by level.
struct gpu_align_settings {
    uint32_t iterations[GPU_LEVELS]; // default 10, 5, 4; 0 skips a level; at most 100 each
    bool early_stop;                 // default true: leave a level when the step is negligible
    float gate_distance_m;           // default 0.1: farther pairs are not associated
    float gate_angle_rad;            // default 25 degrees: n . n' > cos(angle), no abs
};

void gpu_settings_default(struct gpu_settings *out);
void gpu_align_settings_default(struct gpu_align_settings *out);

// Whether each setting is in its range; the first that is not is named in the settings' log. Any
// thread. Returns 0 or -EINVAL.
__attribute__((warn_unused_result)) int gpu_settings_check(const struct gpu_settings *settings);
__attribute__((warn_unused_result)) int
gpu_align_settings_check(const struct gpu_align_settings *settings, const struct log_sink *log);

#endif
