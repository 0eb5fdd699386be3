// SPDX-License-Identifier: Apache-2.0
// The work of the pairs, in two versions (cpu/, cuda/) of the same operations. One call sums all
// directed pairs of a rank at all their poses; images stay where the work is done.
#ifndef POSED_GPU_ALIGN_OPS_H
#define POSED_GPU_ALIGN_OPS_H

#include "gpu/align/image.h"
#include "gpu/gpu.h"

// One direction of a pair: vertices of `source` against the planes of `target`, by slot.
struct align_task {
    uint32_t source, target;
    struct pair_pose T_target_source;
    struct pair_gates gates;
};

struct align_device; // opaque; its first member is const struct align_ops *

struct align_device_settings {
    uint32_t n_slots;   // images that may be kept
    uint32_t n_tasks;   // most tasks of a call
    uint32_t n_threads; // CPU: 0 = all cores
    int cuda_device;    // -1 = the first that answers, -2 - k = the k-th in turn
    struct log_sink log;
};

struct align_ops {
    const char *name;
    void (*close)(struct align_device *device);
    int (*load)(struct align_device *device, uint32_t slot, const struct align_image *image);
    int (*sum)(struct align_device *device, const struct align_task *tasks, uint32_t n_tasks,
               uint32_t level, double *out_sums);
    size_t (*bytes)(const struct align_device *device);
    const char *(*description)(const struct align_device *device);
};

#ifdef __cplusplus
extern "C" {
#endif

// Which twin: gpu_open_twin. Returns 0, -ENODEV, -ENOTSUP (CUDA not built in), -ENOMEM or -EIO,
// with *out NULL and the reason in the log.
__attribute__((warn_unused_result)) int
align_device_open(struct align_device **out, enum gpu_backend backend,
                  const struct align_device_settings *settings);
void align_device_close(struct align_device **device);
const char *align_device_name(const struct align_device *device);        // "cpu", "cuda"
const char *align_device_description(const struct align_device *device); // one line

// Keeps an image in a slot. The CPU twin refers to it: it must live as long as the device. The CUDA
// twin copies it. Returns 0, -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int
align_device_load(struct align_device *device, uint32_t slot, const struct align_image *image);

// Sums of each task over the source's vertices of that level: PAIR_N_SUMS doubles a task. The same
// bits whatever the number of threads and whichever other tasks are in the call. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int align_device_sum(struct align_device *device,
                                                         const struct align_task *tasks,
                                                         uint32_t n_tasks, uint32_t level,
                                                         double *out_sums);

size_t align_device_bytes(const struct align_device *device); // memory that the images take there

// The twins.
int align_cpu_open(struct align_device **out, const struct align_device_settings *settings);
#ifdef POSED_HAVE_CUDA
int align_cuda_open(struct align_device **out, const struct align_device_settings *settings);
#endif

#ifdef __cplusplus
}
#endif

#endif
