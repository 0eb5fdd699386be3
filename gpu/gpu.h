// SPDX-License-Identifier: Apache-2.0
// THE seam: per-pixel and per-point work, in two versions (cpu/ and cuda/ of each room) of the same
// operations. An operation is a whole stage (prepare a frame, align a frame to a reference with all
// its iterations), never one kernel, so that a backend is free to fuse and to stay on its device.
//
// The formulas stand once, in gpu/*/kernels; both twins compile them. tests/check holds the twins
// against each other and against a plain double-precision reference.
//
// Threads: one gpu is used by one thread at a time. Frames belong to the gpu that made them.
// Nothing here allocates after gpu_open and gpu_frame_create.
#ifndef POSED_GPU_GPU_H
#define POSED_GPU_GPU_H

#include "gpu/settings.h"
#include "proto/log.h"
#include "proto/types.h"

// Where stages overlap (CUDA: parts of the image are filtered while others are on the bus) the time
// of one begins where the one before ends: upload until the last rows are there, then what is left.
enum gpu_stage {
    GPU_STAGE_UPLOAD,
    GPU_STAGE_FILTER,
    GPU_STAGE_MAPS,
    GPU_STAGE_ALIGN,
    GPU_N_STAGES
};

// What an alignment leaves. H and g are those of the last iteration of the finest level that ran,
// for a left increment of T_reference_frame: twist (v, w), in the reference's camera frame.
// `information` is the sum of w (J_s^T J_t + J_t^T J_s) / 2 over the pairs of the coarsest level,
// at the pose and with the robust scale that H was summed with; J_t has the normal of the reference
// and J_s that of the frame: the noise of either normal is not the other's, so that on average none
// of it passes for structure, as it does in h (0.01 of the weight on a single wall, as much as a
// real room has).
struct gpu_alignment {
    struct se3 T_reference_frame;
    double h[36];      // weighted normal matrix, row-major 6x6, symmetric
    double g[6];       // weighted gradient: sum w r J at T_reference_frame before the last step
    double weight_sum; // sum of w
    double information[36];    // what the scene holds, see below
    double information_weight; // its sum of w
    double residual_rms_m;     // weighted point-to-plane RMS over the pairs
    uint32_t n_pairs;          // associated pixels of the last iteration
    uint32_t n_valid_px;       // valid source pixels of that level
    uint32_t n_iterations[GPU_LEVELS];
    bool converged;   // the last step was below the stop threshold
    bool solvable;    // false: too few pairs, or H not positive definite: T is the initial one
    double step_norm; // size of the last step, metres and radians mixed
    float stage_us[GPU_N_STAGES]; // of the frame's last prepare and of this alignment; 0 where a
                                  // backend cannot tell
};

struct gpu;       // opaque device
struct gpu_frame; // opaque: the maps of one prepared frame

// The table a backend fills. gpu.c dispatches; nobody else sees it.
struct gpu_ops;

// Opens a device. AUTO takes CUDA when a device answers, else the CPU, and logs which and why.
// Returns 0, or with *out NULL: -EINVAL (a setting out of range, named in the log), -ENODEV (CUDA
// asked for and no device), -ENOTSUP (CUDA not built in), -ENOMEM, -EIO (device error).
__attribute__((warn_unused_result)) int gpu_open(struct gpu **out, enum gpu_backend backend,
                                                 const struct gpu_settings *settings);
void gpu_close(struct gpu **gpu); // frames must be destroyed before

// What registration and search ask for beside a tracker that was asked for `tracking`: the CPU
// where that is, else AUTO. A GPU that tracks may have too little shared memory to search, or not
// answer any more: then the processor does it.
enum gpu_backend gpu_backend_beside(enum gpu_backend tracking);

enum gpu_backend gpu_backend(const struct gpu *gpu);                // CPU or CUDA, never AUTO
const struct gpu_settings *gpu_settings_get(const struct gpu *gpu); // as given to gpu_open
const char *gpu_description(const struct gpu *gpu); // "cpu: 2 threads, AVX-512", "cuda: ..."

// What the hardware can do at most, to take shares of; 0 = not known (the CPU: all).
struct gpu_limits {
    double upload_bytes_per_s; // the bus between host and device, one way
    double memory_bytes_per_s; // the device's own memory
    double operations_per_s;   // single precision; a fused multiply and add is one
};
void gpu_limits_get(const struct gpu *gpu, struct gpu_limits *out);

// Memory that the device reads fastest (page-locked for CUDA) for capture buffers. NULL: no memory.
void *gpu_host_alloc(struct gpu *gpu, size_t bytes);
void gpu_host_free(struct gpu *gpu, void *memory, size_t bytes);

// The same for memory that somebody else has: lets the device read it where it is, until
// gpu_host_unregister, which must come before gpu_close and before the memory is freed. Whole pages
// that belong to nothing else. Returns 0 (the device reads frames there itself; gpu_host_written
// makes that faster), -ENOTSUP (this backend reads any memory alike, or cannot read this one where
// it is: nothing to undo) or -EIO (logged; frames are copied, as before).
__attribute__((warn_unused_result)) int gpu_host_register(struct gpu *gpu, void *memory,
                                                          size_t bytes);
void gpu_host_unregister(struct gpu *gpu, void *memory); // no effect on what is not registered

// For whoever has written a frame into such memory, on its own thread: pushes the pixels out of the
// processor's caches, so that the device need not fetch them from there (10 us of a frame's time).
// Pure, any thread, no effect on the data; some 20 us for 640 x 480.
void gpu_host_written(const void *memory, size_t bytes);

// A frame is about to come: brings what launching it takes back into the processor's caches, which
// sleep has emptied (15 us of a frame's time). Changes nothing else; no effect on a CPU.
void gpu_wake(struct gpu *gpu);

__attribute__((warn_unused_result)) int gpu_frame_create(struct gpu *gpu, struct gpu_frame **out);
void gpu_frame_destroy(struct gpu *gpu, struct gpu_frame **frame);

// A hint: `depth` (of gpu_host_alloc or in registered memory) is the frame that comes after the
// next gpu_prepare or gpu_prepare_align, whose launch may then bring it to the device beside its
// own work and prepare it when that is done. Until then the pixels must not change. A wrong hint
// costs time, nothing else.
void gpu_prefetch(struct gpu *gpu, const uint16_t *depth);

// Raw depth (camera.width x height, row-major) -> filtered depth, vertices and normals of all
// levels. `depth` is free again on return. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int gpu_prepare(struct gpu *gpu, const uint16_t *depth,
                                                    struct gpu_frame *out_frame);

// Aligns a prepared frame to a prepared reference, starting at T_reference_frame. Both frames stay
// unchanged. Returns 0 (also when not solvable: see the result), -EINVAL (a setting out of range,
// named in the log) or -EIO.
__attribute__((warn_unused_result)) int gpu_align(struct gpu *gpu, const struct gpu_frame *frame,
                                                  const struct gpu_frame *reference,
                                                  const struct se3 *T_reference_frame,
                                                  const struct gpu_align_settings *settings,
                                                  struct gpu_alignment *out);

// Both of the above in one, so that a backend can fuse them into one launch. Same results, bit for
// bit, as gpu_prepare then gpu_align.
__attribute__((warn_unused_result)) int
gpu_prepare_align(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame,
                  const struct gpu_frame *reference, const struct se3 *T_reference_frame,
                  const struct gpu_align_settings *settings, struct gpu_alignment *out);

// Copies a level's packed map to the host: 4 floats a pixel, nx ny nz z [m], row-major; z = 0 where
// there is no depth, n = 0 where there is no normal. n points towards the camera. For tests, and
// for depth and normals on the wire. `out` holds 4 * width * height of that level. Returns 0 or
// -EIO.
__attribute__((warn_unused_result)) int
gpu_frame_read(struct gpu *gpu, const struct gpu_frame *frame, uint32_t level, float *out);

#endif
