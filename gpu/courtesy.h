// SPDX-License-Identifier: Apache-2.0
// How long work lets urgent work go first: registration and search share processor and GPU with a
// tracker that must not wait for them.
#ifndef POSED_GPU_COURTESY_H
#define POSED_GPU_COURTESY_H

// Each thread of the work calls give_way before it goes on with a piece of about a millisecond; it
// returns when the piece may begin. No lock is held meanwhile. NULL: nobody is waited for.
struct gpu_courtesy {
    void (*give_way)(void *user);
    void *user;
};

static inline void gpu_give_way(const struct gpu_courtesy *courtesy)
{
    if (courtesy->give_way)
        courtesy->give_way(courtesy->user);
}

#endif
