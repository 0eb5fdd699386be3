// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/between_frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int between_frames_create(struct between_frames *out, size_t n_px)
{
    *out = (struct between_frames){.n_px = n_px, .step = BETWEEN_FRAMES_STEP};
    out->z_m = malloc(BETWEEN_FRAMES_MAX * n_px * sizeof *out->z_m);
    return out->z_m ? 0 : -ENOMEM;
}

void between_frames_free(struct between_frames *frames)
{
    free(frames->z_m);
    *frames = (struct between_frames){0};
}

void between_frames_clear(struct between_frames *frames)
{
    frames->n = 0;
    frames->n_offered = 0;
    frames->step = BETWEEN_FRAMES_STEP;
}

static float *depth(const struct between_frames *frames, uint32_t i)
{
    return frames->z_m + i * frames->n_px;
}

static void thin(struct between_frames *frames)
{
    for (uint32_t i = 1; 2 * i < frames->n; i++) {
        frames->frames[i] = frames->frames[2 * i];
        memcpy(depth(frames, i), depth(frames, 2 * i), frames->n_px * sizeof *frames->z_m);
    }
    frames->n = (frames->n + 1) / 2;
    frames->step *= 2;
}

float *between_frames_offer(struct between_frames *frames, int64_t time_ns,
                            const struct se3 *T_odom_camera)
{
    if (frames->n_offered++ % frames->step != 0)
        return NULL;
    if (frames->n == BETWEEN_FRAMES_MAX)
        thin(frames);
    frames->frames[frames->n] = (struct between_frame){time_ns, *T_odom_camera};
    return depth(frames, frames->n++);
}

void between_frames_withdraw(struct between_frames *frames)
{
    frames->n--;
}

const float *between_frames_depth(const struct between_frames *frames, uint32_t i)
{
    return depth(frames, i);
}

int between_frames_copy(struct between_frames *out, const struct between_frames *frames)
{
    int rc = between_frames_create(out, frames->n_px);
    float *z_m = out->z_m;
    if (rc < 0)
        return rc;
    memcpy(z_m, frames->z_m, frames->n * frames->n_px * sizeof *z_m);
    *out = *frames;
    out->z_m = z_m;
    return 0;
}
