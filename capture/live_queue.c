// SPDX-License-Identifier: Apache-2.0
#include "capture/live_queue.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "proto/clock.h"

#define N_BUFFERS 6 // one with the reader, one being filled, four waiting
_Static_assert(N_BUFFERS >= CAPTURE_MAX_WAITING + 3,
               "a frame, those that may wait behind it, and two");

int live_create(struct live *live, const struct live_camera *camera, uint32_t n_kept)
{
    int err = buffers_create(&live->buffers, N_BUFFERS, n_kept,
                             sizeof(uint16_t) * camera->intrinsics.width_px *
                                 camera->intrinsics.height_px);
    if (err)
        return err;
    pthread_mutex_init(&live->lock, NULL);
    sem_init(&live->wake, 0, 0);
    live->camera = *camera;
    return 0;
}

void live_destroy(struct live *live)
{
    buffers_destroy(&live->buffers);
    pthread_mutex_destroy(&live->lock);
    sem_destroy(&live->wake);
}

void live_know(struct live *live, const struct live_camera *camera)
{
    live->camera = *camera;
}

uint16_t *live_take(struct live *live)
{
    uint16_t *pixels = buffers_take(&live->buffers);
    buffers_tell(&live->buffers, &live->wake, BUFFERS_BEGUN);
    return pixels;
}

void live_put(struct live *live, const struct capture_frame *frame, uint16_t *pixels,
              const struct live_camera *camera)
{
    if (pixels) {
        buffers_tell(&live->buffers, &live->wake, BUFFERS_ENDING);
        buffers_written(&live->buffers, pixels);
    }
    pthread_mutex_lock(&live->lock);
    atomic_store(&live->buffers.writing, BUFFERS_IDLE);
    live->owed_flags |= frame->flags & CAPTURE_NEW_CLOCK;
    if (live->n_in - live->n_out < LIVE_WAITING) {
        struct live_waiting *waiting = &live->waiting[live->n_in++ % LIVE_WAITING];
        *waiting = (struct live_waiting){*frame, pixels, *camera};
        waiting->frame.flags |= live->owed_flags;
        live->owed_flags = 0;
    } else {
        buffers_give(&live->buffers, pixels); // nobody reads
    }
    pthread_mutex_unlock(&live->lock);
    sem_post(&live->wake);
}

// Lock held.
static bool take_frame(struct live *live, struct capture_frame *out)
{
    if (live->n_in == live->n_out)
        return false;
    const bool is_early = live->n_out < live->n_early;
    struct live_waiting *waiting = &live->waiting[live->n_out++ % LIVE_WAITING];
    *out = waiting->frame;
    if (memcmp(&live->camera, &waiting->camera, sizeof live->camera) != 0) {
        live->camera = waiting->camera;
        out->flags |= CAPTURE_RECALIBRATED;
    }
    const uint64_t n_newer = live->n_in - live->n_out;
    out->paced = true;
    out->n_waiting =
        (uint32_t)(n_newer < CAPTURE_MAX_WAITING + 1 ? n_newer : CAPTURE_MAX_WAITING + 1);
    if (!waiting->pixels || n_newer > atomic_load(&live->buffers.max_waiting)) {
        buffers_give(&live->buffers, waiting->pixels);
        if (waiting->pixels || !(out->flags & CAPTURE_DAMAGED))
            out->flags |= is_early ? CAPTURE_LATE | CAPTURE_EARLY : CAPTURE_LATE;
        return true;
    }
    if (live->held && !memcmp(waiting->pixels, live->held, live->buffers.frame_bytes))
        out->flags |= CAPTURE_DUPLICATE;
    buffers_give(&live->buffers, live->held);
    live->held = waiting->pixels;
    out->image.depth = waiting->pixels;
    return true;
}

int live_wait(struct live *live, int timeout_ms, struct capture_frame *out_frame)
{
    const struct capture_hooks *hooks = &live->buffers.hooks;
    int64_t deadline_ns =
        timeout_ms < 0 ? INT64_MAX : clock_monotonic_ns() + timeout_ms * INT64_C(1000000);
    bool told = false;
    for (;;) {
        while (sem_trywait(&live->wake) == 0)
            ; // old news
        if (atomic_load(&live->interrupted))
            return -EINTR;
        pthread_mutex_lock(&live->lock);
        if (!live->is_read)
            live->n_early = live->n_in;
        live->is_read = true;
        bool got = take_frame(live, out_frame);
        enum buffers_writing near = atomic_load(&live->buffers.writing);
        pthread_mutex_unlock(&live->lock);
        if (got)
            return 0;
        if (clock_monotonic_ns() >= deadline_ns)
            return -EAGAIN;
        if (near == BUFFERS_ENDING && !told && hooks->soon)
            hooks->soon(hooks->user);
        else
            buffers_wait(&live->wake, deadline_ns, near != BUFFERS_IDLE);
        told = near == BUFFERS_ENDING;
    }
}

void live_interrupt(struct live *live)
{
    atomic_store(&live->interrupted, true);
    sem_post(&live->wake);
}
