// SPDX-License-Identifier: Apache-2.0
// How long work lets urgent work go first: registration and search share processor and GPU with a
// tracker that must not wait for them.
#ifndef POSED_GPU_COURTESY_H
#define POSED_GPU_COURTESY_H

#include <stdint.h>

#define GPU_PIECE_NS      1000000 // what goes on between two questions takes about so long
#define GPU_LONG_PIECE_NS 5000000 // and where it cannot be cut: memory taken from a driver

// Each thread of the work calls give_way before it goes on with a piece that takes about piece_ns;
// it returns when the piece may begin. No lock is held meanwhile. NULL: nobody is waited for.
struct gpu_courtesy {
    void (*give_way)(void *user, int64_t piece_ns);
    void *user;
};

static inline void gpu_give_way(const struct gpu_courtesy *courtesy)
{
    if (courtesy->give_way)
        courtesy->give_way(courtesy->user, GPU_PIECE_NS);
}

// Before memory is taken from a device's driver or given back: that holds locks which a launch on
// another thread waits for, and what is given back waits for the device.
static inline void gpu_give_way_long(const struct gpu_courtesy *courtesy)
{
    if (courtesy->give_way)
        courtesy->give_way(courtesy->user, GPU_LONG_PIECE_NS);
}

#endif
