// SPDX-License-Identifier: Apache-2.0
#include "tools/align/keyframes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "gpu/track/track.h"
#include "proto/se3.h"

#define MAX_KEYFRAMES 4096

static int keep(struct images *m, const struct capture_frame *frame, const struct se3 *T)
{
    size_t bytes = (size_t)m->camera.width_px * m->camera.height_px * sizeof(uint16_t);
    uint16_t *pixels = malloc(bytes);
    char *name = NULL;
    if (!pixels || asprintf(&name, "frame%06llu", (unsigned long long)frame->index) < 0) {
        free(pixels);
        return -ENOMEM;
    }
    memcpy(pixels, frame->image.depth, bytes);
    m->depth[m->n] = pixels;
    m->names[m->n] = name;
    m->T_world_image[m->n] = *T;
    m->times_ns[m->n++] = frame->image.time_ns;
    return 0;
}

static int take_memory(struct images *m)
{
    m->names = calloc(MAX_KEYFRAMES, sizeof *m->names);
    m->paths = calloc(MAX_KEYFRAMES, sizeof *m->paths);
    m->depth = calloc(MAX_KEYFRAMES, sizeof *m->depth);
    m->T_world_image = calloc(MAX_KEYFRAMES, sizeof *m->T_world_image);
    m->times_ns = calloc(MAX_KEYFRAMES, sizeof *m->times_ns);
    return m->names && m->paths && m->depth && m->T_world_image && m->times_ns ? 0 : -ENOMEM;
}

static int play(struct images *m, struct capture *capture, struct track *track, uint32_t every)
{
    uint32_t n_frames = 0;
    struct capture_frame frame;
    int rc;
    while ((rc = capture_read(capture, -1, &frame)) == 0) {
        struct track_result result;
        if (!frame.image.depth)
            continue;
        rc = track_frame(track, frame.image.depth, frame.image.time_ns, &result);
        if (rc < 0)
            return rc;
        bool posed = result.state != TRACK_STATE_LOST;
        bool wanted = every ? n_frames % every == 0 : result.new_keyframe || n_frames == 0;
        n_frames += posed;
        if (!posed || !wanted)
            continue;
        if (m->n == MAX_KEYFRAMES) {
            log_to(&m->log, LOG_LEVEL_WARNING, "only the first %d keyframes are taken",
                   MAX_KEYFRAMES);
            return 0;
        }
        rc = keep(m, &frame, &result.T_odom_camera);
        if (rc < 0)
            return rc;
    }
    return rc == -ENODATA ? 0 : rc;
}

int keyframes_open(struct images *out, const char *source, uint32_t every,
                   const struct log_sink *log)
{
    struct capture_settings settings = {.source = source, .rate = CAPTURE_RATE_MAX, .log = *log};
    struct gpu_settings with;
    struct track_settings tracking;
    struct capture *capture = NULL;
    struct gpu *gpu = NULL;
    struct track *track = NULL;
    *out = (struct images){.log = *log};
    align_image_settings_default(&out->settings);
    out->settings.normal_radius_px = 3;
    int rc = capture_open(&capture, &settings);
    if (rc < 0)
        return rc;
    const struct capture_info *info = capture_info(capture);
    gpu_settings_default(&with);
    track_settings_default(&tracking);
    out->camera = with.camera = info->camera;
    out->units_per_m = with.units_per_m = info->units_per_m;
    with.log = *log;
    tracking.reference = TRACK_REFERENCE_KEYFRAME;
    rc = take_memory(out);
    if (rc == 0)
        rc = gpu_open(&gpu, GPU_BACKEND_CPU, &with);
    if (rc == 0)
        rc = track_create(&track, gpu, &tracking, log);
    if (rc == 0)
        rc = play(out, capture, track, every);
    track_destroy(&track);
    gpu_close(&gpu);
    capture_close(&capture);
    if (rc == 0 && out->n < 2) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %u keyframes: at least two are needed", source, out->n);
        rc = -EINVAL;
    }
    if (rc < 0)
        images_free(out);
    else
        images_source_depth(out);
    return rc;
}
