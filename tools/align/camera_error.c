// SPDX-License-Identifier: Apache-2.0
#include "tools/align/camera_error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

#define MAP_LEVEL (GPU_LEVELS - 1) // what is sought is smooth
#define SECOND_NS 1000000000

// Images of a folder say nothing of when they were taken: a second apart.
static int64_t time_of(const struct images *m, uint32_t i)
{
    return m->tracked ? m->times_ns[i] : (int64_t)i * SECOND_NS;
}

static int add_images(const struct images *m, const struct se3 *T_world_image, struct gpu *gpu,
                      struct gpu_frame *frame, struct calibrate *calibrate)
{
    const size_t n_px = (size_t)m->camera.width_px * m->camera.height_px;
    const uint32_t step = (m->n - 1) / CALIBRATE_MAX_FRAMES + 1;
    uint16_t *depth = malloc(n_px * sizeof *depth);
    float *map = malloc(4 * n_px * sizeof *map);
    int rc = depth && map ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < m->n && rc == 0; i += step) {
        rc = images_read_depth(m, i, depth);
        if (rc == 0)
            rc = gpu_prepare(gpu, depth, frame);
        if (rc == 0)
            rc = gpu_frame_read(gpu, frame, MAP_LEVEL, map);
        if (rc == 0)
            rc = calibrate_add(calibrate, 0, time_of(m, i), map, &T_world_image[i]);
    }
    free(depth);
    free(map);
    return rc;
}

// Why nothing could be learnt is no error here.
static void keep_reason(void *user, enum log_level level, const char *line)
{
    (void)level;
    struct camera_error *out = user;
    snprintf(out->reason, sizeof out->reason, "%s", line);
}

static int learn(const struct images *m, const struct se3 *T_world_image, struct camera_error *out)
{
    const struct log_sink to_reason = {keep_reason, out};
    struct gpu_settings settings;
    struct gpu *gpu = NULL;
    struct gpu_frame *frame = NULL;
    struct calibrate *calibrate = NULL;
    gpu_settings_default(&settings);
    settings.camera = m->camera;
    settings.units_per_m = m->units_per_m;
    settings.log = to_reason;
    int rc = gpu_open(&gpu, GPU_BACKEND_CPU, &settings);
    if (rc < 0)
        return rc == -EINVAL ? 0 : rc; // no camera that posed tracks with: `reason` says why
    rc = gpu_frame_create(gpu, &frame);
    if (rc == 0)
        rc = calibrate_create(&calibrate, &m->camera, &to_reason);
    if (rc == 0) {
        calibrate_set_limits(calibrate, MAP_LEVEL, CALIBRATE_MIN_KEYFRAMES, INFINITY, NULL, NULL);
        rc = add_images(m, T_world_image, gpu, frame, calibrate);
    }
    if (rc == 0)
        rc = calibrate_solve(calibrate, &out->field, &out->report);
    out->is_learnt = rc == 0;
    out->is_taken = rc == 0 && out->report.reduction >= FIELD_MIN_REDUCE;
    calibrate_destroy(&calibrate);
    gpu_frame_destroy(gpu, &frame);
    gpu_close(&gpu);
    return rc == -ENODATA ? 0 : rc;
}

int camera_error_learn(struct images *m, const struct se3 *T_world_image,
                       const struct align_ranks *ranks, struct camera_error *out)
{
    memset(out, 0, sizeof *out);
    out->is_tried = true;
    int rc = ranks->id == 0 ? learn(m, T_world_image, out) : 0;
    ranks->broadcast(&rc, sizeof rc, 0);
    ranks->broadcast(out, sizeof *out, 0);
    if (rc < 0 || !out->is_taken)
        return rc;
    m->field_per_m = malloc((size_t)m->camera.width_px * m->camera.height_px * sizeof(float));
    if (!m->field_per_m)
        return -ENOMEM;
    depth_error_fill(&out->field, m->field_per_m);
    return 0;
}
