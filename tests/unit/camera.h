// SPDX-License-Identifier: Apache-2.0
// Frames for a recorder, handed out as a source does: in memory that is written anew as soon as
// nobody keeps it.
#ifndef POSED_TESTS_UNIT_CAMERA_H
#define POSED_TESTS_UNIT_CAMERA_H

#include <stdlib.h>
#include <string.h>

#include "capture/buffers.h"
#include "capture/recorder/recorder.h"

// For images of n_pixels, of which the recorder may keep n_kept.
static inline struct buffers *camera_create(size_t n_pixels, size_t n_kept)
{
    struct buffers *camera = calloc(1, sizeof *camera);
    if (!camera || buffers_create(camera, 1, n_kept, n_pixels * sizeof(uint16_t)))
        abort();
    return camera;
}

static inline void camera_destroy(struct buffers *camera)
{
    buffers_destroy(camera);
    free(camera);
}

// `frame` with a copy of its pixels, if it has some.
static inline void camera_push(struct buffers *camera, struct recorder *recorder,
                               struct capture_frame frame)
{
    uint16_t *pixels = frame.image.depth ? buffers_take(camera) : NULL;
    if (pixels)
        memcpy(pixels, frame.image.depth, camera->frame_bytes);
    frame.image.depth = pixels;
    frame.buffers = camera;
    recorder_push(recorder, 0, &frame);
    buffers_give(camera, pixels);
}

#endif
