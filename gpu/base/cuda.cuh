// SPDX-License-Identifier: Apache-2.0
// A CUDA device as every room uses it: how one is chosen, how errors are told, memory that grows.
// A room's device struct has a `struct cuda_dev dev` of its own, with its own stream; the default
// stream is never used (tests/check_streams).
#ifndef POSED_GPU_BASE_CUDA_CUH
#define POSED_GPU_BASE_CUDA_CUH

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>

#include "gpu/base/yield.h"
#include "proto/log.h"

struct cuda_dev {
    struct log_sink log;
    struct yield yield; // {0}: nobody is waited for
    const char *room;   // a literal, for messages: "tracking"
    bool logged_error;  // one line is enough: what follows is its consequence
    int index;          // among the machine's devices
    int n_sms;
    int clock_khz;
    size_t shared_bytes; // dynamic shared memory that a block may have
    char name[96];
    cudaStream_t stream;
};

enum cuda_priority {
    CUDA_PRIORITY_FRAMES,   // goes first wherever blocks of several streams wait
    CUDA_PRIORITY_REQUESTS, // goes last
};

struct cuda_settings {
    const char *room;
    // -1: the first that answers and that `refuse` takes; -2 - k: the k-th, and again the first
    // after the last
    int device;
    enum cuda_priority priority;
    // Why a device cannot run this room, or NULL when it can. May itself be NULL.
    const char *(*refuse)(const struct cudaDeviceProp *properties);
    struct log_sink log;
    struct yield yield;
};

// Opens the wanted device, or tries each in turn, and makes a stream on it. Each device that does
// not answer or cannot run the room is told at level INFO, with the reason: there are machines
// without a device, and that is no error. Returns 0, -ENODEV, or -EIO (-ENOMEM) after logging.
__attribute__((warn_unused_result)) int cuda_open(struct cuda_dev *out,
                                                  const struct cuda_settings *settings);

// Waits for the stream's work and destroys it; nothing for a struct that is all zero.
void cuda_close(struct cuda_dev *cuda);

// The calling thread works on this device from now on. 0 or -EIO.
__attribute__((warn_unused_result)) int cuda_enter(struct cuda_dev *cuda);

// -EIO (-ENOMEM when that is what it was) after logging expression, file and line; 0 for success.
// Clears the error, else the next launch of this thread seems to have failed.
int cuda_check(struct cuda_dev *cuda, cudaError_t error, const char *expression, const char *file,
               int line);
#define CUDA_TRY(cuda, expression) cuda_check((cuda), (expression), #expression, __FILE__, __LINE__)

// For functions with nothing to undo: returns the error from the calling function.
#define CUDA_OR_RETURN(cuda, expression)                  \
    do {                                                  \
        const int cuda_rc = CUDA_TRY((cuda), expression); \
        if (cuda_rc < 0)                                  \
            return cuda_rc;                               \
    } while (0)

// Memory that grows and stays. Taking it and giving it back yields first: a driver holds locks
// meanwhile that a launch on another thread waits for.
struct cuda_memory {
    void *at;
    size_t bytes;
};

// Make room on the device, or page-locked on the host; what was there is lost. 0, -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int cuda_grow(struct cuda_dev *cuda, struct cuda_memory *memory,
                                                  size_t bytes);
__attribute__((warn_unused_result)) int cuda_grow_host(struct cuda_dev *cuda,
                                                       struct cuda_memory *memory, size_t bytes);

// Give it back; nothing for memory that is all zero.
void cuda_shrink(struct cuda_dev *cuda, struct cuda_memory *memory);
void cuda_shrink_host(struct cuda_dev *cuda, struct cuda_memory *memory);

#endif
