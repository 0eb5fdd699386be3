// SPDX-License-Identifier: Apache-2.0
#include "daemon/frames.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    pthread_mutex_t mutex;
    bool used;
    uint64_t seq;
    struct capture_frame frame; // kept
    struct intrinsics camera;
};

struct frames {
    uint32_t n_slots;
    struct slot *slots;
};

int frames_create(struct frames **out, uint32_t n_frames)
{
    *out = NULL;
    struct frames *frames = calloc(1, sizeof *frames);
    if (!frames)
        return -ENOMEM;
    frames->slots = calloc(n_frames ? n_frames : 1, sizeof *frames->slots);
    if (!frames->slots) {
        free(frames);
        return -ENOMEM;
    }
    for (; frames->n_slots < n_frames; frames->n_slots++)
        pthread_mutex_init(&frames->slots[frames->n_slots].mutex, NULL);
    *out = frames;
    return 0;
}

void frames_destroy(struct frames **frames)
{
    struct frames *f = *frames;
    if (!f)
        return;
    for (uint32_t i = 0; i < f->n_slots; i++) {
        if (f->slots[i].used)
            capture_release(&f->slots[i].frame);
        pthread_mutex_destroy(&f->slots[i].mutex);
    }
    free(f->slots);
    free(f);
    *frames = NULL;
}

void frames_put(struct frames *frames, uint64_t seq, const struct capture_frame *frame,
                const struct intrinsics *camera)
{
    if (frames->n_slots == 0)
        return;
    struct slot *slot = &frames->slots[seq % frames->n_slots];
    if (pthread_mutex_trylock(&slot->mutex) != 0)
        return;
    if (slot->used)
        capture_release(&slot->frame);
    slot->used = capture_keep(frame);
    slot->frame = *frame;
    slot->camera = *camera;
    slot->seq = seq;
    pthread_mutex_unlock(&slot->mutex);
}

int frames_get(struct frames *frames, uint64_t seq, uint16_t *out_depth,
               struct depth_frame *out_frame, struct intrinsics *out_camera)
{
    if (frames->n_slots == 0)
        return -ENOENT;
    struct slot *slot = &frames->slots[seq % frames->n_slots];
    pthread_mutex_lock(&slot->mutex);
    bool found = slot->used && slot->seq == seq;
    if (found) {
        *out_frame = slot->frame.image;
        memcpy(out_depth, out_frame->depth,
               (size_t)out_frame->width_px * out_frame->height_px * sizeof *out_depth);
        out_frame->depth = out_depth;
        *out_camera = slot->camera;
    }
    pthread_mutex_unlock(&slot->mutex);
    return found ? 0 : -ENOENT;
}

int frames_get_newest(struct frames *frames, uint16_t *out_depth, struct depth_frame *out_frame,
                      struct intrinsics *out_camera, uint64_t *out_seq)
{
    int error = -ENOENT;
    // It may be overwritten between the look and the copy: then a newer one is there.
    for (int i = 0; i < 3 && error; i++) {
        bool found = false;
        for (uint32_t k = 0; k < frames->n_slots; k++) {
            struct slot *slot = &frames->slots[k];
            pthread_mutex_lock(&slot->mutex);
            if (slot->used && (!found || slot->seq > *out_seq)) {
                found = true;
                *out_seq = slot->seq;
            }
            pthread_mutex_unlock(&slot->mutex);
        }
        if (!found)
            return -ENOENT;
        error = frames_get(frames, *out_seq, out_depth, out_frame, out_camera);
    }
    return error;
}
