// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: the memory that a source's frames live in, and how they come to the reader.
// One block, whole pages, each frame on pages of its own, at one place from open to close: a device
// that is opened later, closed or opened again can lock these pages and read the frames where they
// are.
//
// A buffer belongs to the source, from buffers_take to buffers_give, and may be kept by others
// meanwhile (capture_keep); it is free when neither holds. The source has its own number of them
// whatever is kept, so that a slow keeper cannot starve it. Any thread may take, give, keep and
// release. `hooks` belong to the reader, but for `written`, which the writer looks up in its own
// copy.
#ifndef POSED_CAPTURE_BUFFERS_H
#define POSED_CAPTURE_BUFFERS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/capture.h"

struct buffer_users; // of one buffer

struct buffers {
    char *block;
    size_t n_bytes, frame_bytes, pitch_bytes;
    pthread_mutex_t lock; // of the five below
    struct buffer_users *users;
    uint32_t *free; // numbers of buffers; the one given last is the next to be taken: it is cached
    size_t n_free, n_left, n_keepable; // free; that the source may take; that may yet be kept
    struct capture_hooks hooks;
    void (*_Atomic written)(const void *pixels, size_t bytes);
    atomic_uint max_waiting; // capture_set_max_waiting
    atomic_bool polls;       // the reader wants to know of `writing`
    atomic_int writing;      // enum buffers_writing
};

// How far the frame is that the writer has in hand; the writer says so and posts `wake`.
enum buffers_writing { BUFFERS_IDLE, BUFFERS_BEGUN, BUFFERS_ENDING };

// Memory for n frames of the source and n_kept that others may keep. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int buffers_create(struct buffers *out, size_t n, size_t n_kept,
                                                       size_t frame_bytes);
void buffers_destroy(struct buffers *buffers); // accepts what was never created, all zero

// The source's part. NULL when it has n of them.
uint16_t *buffers_take(struct buffers *buffers);
void buffers_give(struct buffers *buffers, const uint16_t *pixels); // accepts NULL

// The keepers' part: of a buffer that the source has, or that is kept already. false when n_kept
// are kept. Each buffers_keep has its buffers_release.
bool buffers_keep(struct buffers *buffers, const uint16_t *pixels);
void buffers_release(struct buffers *buffers, const uint16_t *pixels);

// For the thread that writes the frames, when it has completed one.
void buffers_written(struct buffers *buffers, const uint16_t *pixels);

// The writer: the frame that the reader waits for is that far.
void buffers_tell(struct buffers *buffers, sem_t *wake, enum buffers_writing writing);

void buffers_set_hooks(struct buffers *buffers, const struct capture_hooks *hooks);

// The reader, without the owner's lock: waits for a post of `wake` until CLOCK_MONOTONIC reaches
// until_ns (INT64_MAX: without limit), asleep or, when `soon`, polling.
void buffers_wait(sem_t *wake, int64_t until_ns, bool soon);

#endif
