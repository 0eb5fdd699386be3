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
    struct depth_frame frame; // depth = the slot's own pixels
    struct intrinsics camera;
    uint16_t *pixels;
};

struct frames {
    uint32_t n_slots;
    size_t n_bytes; // of an image
    struct slot *slots;
};

int frames_create(struct frames **out, uint32_t n_frames, uint32_t width_px, uint32_t height_px)
{
    *out = NULL;
    struct frames *frames = calloc(1, sizeof *frames);
    if (!frames)
        return -ENOMEM;
    frames->n_bytes = (size_t)width_px * height_px * sizeof(uint16_t);
    frames->slots = calloc(n_frames ? n_frames : 1, sizeof *frames->slots);
    if (!frames->slots)
        goto destroy;
    for (; frames->n_slots < n_frames; frames->n_slots++) {
        struct slot *slot = &frames->slots[frames->n_slots];
        slot->pixels = malloc(frames->n_bytes);
        if (!slot->pixels)
            goto destroy;
        memset(slot->pixels, 0, frames->n_bytes); // page faults now, not in the frame loop
        pthread_mutex_init(&slot->mutex, NULL);
    }
    *out = frames;
    return 0;
destroy:
    frames_destroy(&frames);
    return -ENOMEM;
}

void frames_destroy(struct frames **frames)
{
    struct frames *f = *frames;
    if (!f)
        return;
    for (uint32_t i = 0; i < f->n_slots; i++) {
        pthread_mutex_destroy(&f->slots[i].mutex);
        free(f->slots[i].pixels);
    }
    free(f->slots);
    free(f);
    *frames = NULL;
}

void frames_put(struct frames *frames, uint64_t seq, const struct depth_frame *frame,
                const struct intrinsics *camera)
{
    if (frames->n_slots == 0)
        return;
    struct slot *slot = &frames->slots[seq % frames->n_slots];
    if (pthread_mutex_trylock(&slot->mutex) != 0)
        return;
    memcpy(slot->pixels, frame->depth, frames->n_bytes);
    slot->frame = *frame;
    slot->frame.depth = slot->pixels;
    slot->camera = *camera;
    slot->seq = seq;
    slot->used = true;
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
        memcpy(out_depth, slot->pixels, frames->n_bytes);
        *out_frame = slot->frame;
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
