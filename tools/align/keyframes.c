// SPDX-License-Identifier: Apache-2.0
#include "tools/align/keyframes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "gpu/track/track.h"
#include "proto/se3.h"
#include "proto/trajectory.h"

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

static int remember(struct images *m, size_t *room, int64_t time_ns, const struct se3 *T)
{
    if (m->n_tracked == *room) {
        *room = *room ? 2 * *room : 1024;
        struct stamped_pose *grown = realloc(m->tracked, *room * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        m->tracked = grown;
    }
    m->tracked[m->n_tracked++] = (struct stamped_pose){time_ns, *T};
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
    size_t room = 0;
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
        rc = posed ? remember(m, &room, frame.image.time_ns, &result.T_odom_camera) : 0;
        if (rc < 0)
            return rc;
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
    struct capture_settings settings = {
        .source = source, .rate = CAPTURE_RATE_MAX, .seed = CAPTURE_SEED, .log = *log};
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

// What adjusting did to the keyframes' poses, at a time between keyframes k and k + 1.
static struct se3 moved_by(const struct images *m, const struct se3 *T_world_image, uint32_t k,
                           int64_t time_ns)
{
    struct se3 moved[2];
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t at = k + i < m->n ? k + i : k;
        const struct se3 back = se3_inverse(&m->T_world_image[at]);
        moved[i] = se3_compose(&T_world_image[at], &back);
    }
    if (k + 1 >= m->n || time_ns <= m->times_ns[k])
        return moved[0];
    const double share =
        (double)(time_ns - m->times_ns[k]) / (double)(m->times_ns[k + 1] - m->times_ns[k]);
    const struct se3 step = se3_between(&moved[0], &moved[1]);
    double twist[6];
    se3_log(&step, twist);
    for (int i = 0; i < 6; i++)
        twist[i] *= share;
    const struct se3 part = se3_exp(twist);
    return se3_compose(&moved[0], &part);
}

int keyframes_write_trajectory(const struct images *m, const struct se3 *T_world_image,
                               const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        log_to(&m->log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
        return -EIO;
    }
    int rc = 0;
    uint32_t k = 0;
    for (size_t i = 0; i < m->n_tracked && rc == 0; i++) {
        const struct stamped_pose *frame = &m->tracked[i];
        while (k + 1 < m->n && m->times_ns[k + 1] <= frame->time_ns)
            k++;
        const struct se3 moved = moved_by(m, T_world_image, k, frame->time_ns);
        const struct stamped_pose pose = {frame->time_ns,
                                          se3_compose(&moved, &frame->T_world_camera)};
        rc = trajectory_write_tum(file, &pose);
    }
    bool bad = ferror(file);
    bad = fclose(file) != 0 || bad;
    if (rc || bad)
        log_to(&m->log, LOG_LEVEL_ERROR, "%s: could not write it", path);
    return rc ? rc : bad ? -EIO : 0;
}
