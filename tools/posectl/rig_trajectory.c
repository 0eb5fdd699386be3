// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/rig_trajectory.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/capture.h"
#include "gpu/track/calibrate.h"
#include "proto/se3.h"
#include "tools/posectl/posectl.h"

// No pose is interpolated over more than so long, or, where that is longer, than so many median
// periods of the recording: a frame or two may be lost.
#define GAP_NS      100000000LL
#define GAP_PERIODS 3

// Of one recording, while it is tracked.
struct pass {
    struct capture *capture;
    struct gpu *gpu;
    struct track *track;
    struct calibrate *calibrate; // NULL: nothing is learnt
    float *map;                  // of CALIBRATE_MAP_LEVEL
    uint64_t n_frames, calibrate_step;
    int64_t view_ns, gap_ns;
};

static int open_pass(struct pass *pass, const char *source, enum gpu_backend backend,
                     const float *field_per_m)
{
    const struct capture_settings settings = {
        .source = source, .rate = CAPTURE_RATE_MAX, .seed = CAPTURE_SEED, .log = posectl_log};
    struct gpu_settings gpu;
    struct track_settings track;
    int status = capture_open(&pass->capture, &settings);
    if (status < 0)
        return status;
    const struct capture_info *info = capture_info(pass->capture);
    if (info->live || info->n_frames == 0) {
        posectl_complain("%s: a recording is wanted, not a camera", source);
        return -EINVAL;
    }
    pass->n_frames = info->n_frames;
    pass->calibrate_step = (info->n_frames + CALIBRATE_MAX_FRAMES - 1) / CALIBRATE_MAX_FRAMES;
    pass->gap_ns = GAP_PERIODS * info->period_ns > GAP_NS ? GAP_PERIODS * info->period_ns : GAP_NS;
    pass->view_ns = WAY_VIEW_NS;
    while ((int64_t)info->n_frames * info->period_ns / pass->view_ns >= WAY_MAX_VIEWS)
        pass->view_ns *= 2;
    gpu_settings_default(&gpu);
    track_settings_default(&track);
    gpu.camera = info->camera;
    gpu.units_per_m = info->units_per_m;
    gpu.field_per_m = field_per_m;
    gpu.log = posectl_log;
    status = gpu_open(&pass->gpu, backend, &gpu);
    return status < 0 ? status : track_create(&pass->track, pass->gpu, &track, &posectl_log);
}

static void close_pass(struct pass *pass)
{
    calibrate_destroy(&pass->calibrate);
    free(pass->map);
    if (pass->track)
        track_destroy(&pass->track);
    if (pass->gpu)
        gpu_close(&pass->gpu);
    if (pass->capture)
        capture_close(&pass->capture);
    *pass = (struct pass){0};
}

static int begin_learning(struct pass *pass)
{
    const struct intrinsics *camera = &capture_info(pass->capture)->camera;
    const size_t n_pixels = (size_t)(camera->width_px >> CALIBRATE_MAP_LEVEL) *
                            (camera->height_px >> CALIBRATE_MAP_LEVEL);
    pass->map = malloc(4 * n_pixels * sizeof *pass->map);
    return pass->map ? calibrate_create(&pass->calibrate, camera, NULL) : -ENOMEM;
}

static int learn_from(struct pass *pass, const struct way_sight *sight)
{
    int status =
        gpu_frame_read(pass->gpu, track_newest_frame(pass->track), CALIBRATE_MAP_LEVEL, pass->map);
    if (status == 0)
        status = calibrate_add(pass->calibrate, sight->epoch, sight->time_ns, pass->map,
                               &sight->T_odom_camera);
    return status == -ENOSPC ? 0 : status;
}

static int keep_view(struct pass *pass, struct way *way, const struct way_sight *sight)
{
    const size_t n_pixels = (size_t)(way->camera.width_px >> RIG_EXTRINSICS_MAP_LEVEL) *
                            (way->camera.height_px >> RIG_EXTRINSICS_MAP_LEVEL);
    const struct way_view *last = way->n_views ? &way->views[way->n_views - 1] : NULL;
    if (way->n_views == WAY_MAX_VIEWS ||
        (last && last->sight.time_ns / pass->view_ns == sight->time_ns / pass->view_ns))
        return 0;
    struct way_view *view = &way->views[way->n_views];
    *view = (struct way_view){*sight, malloc(4 * n_pixels * sizeof *view->map)};
    if (!view->map)
        return -ENOMEM;
    way->n_views++;
    return gpu_frame_read(pass->gpu, track_newest_frame(pass->track), RIG_EXTRINSICS_MAP_LEVEL,
                          view->map);
}

static void forget(struct way *way)
{
    for (size_t i = 0; i < way->n_views; i++)
        free(way->views[i].map);
    free(way->sights);
    *way = (struct way){0};
}

void way_free(struct way *way)
{
    forget(way);
}

static int track_all(struct pass *pass, struct way *way)
{
    struct capture_frame frame;
    struct track_result result;
    int status;
    way->camera = capture_info(pass->capture)->camera;
    way->gap_ns = pass->gap_ns;
    way->sights = malloc(pass->n_frames * sizeof *way->sights);
    if (!way->sights)
        return -ENOMEM;
    while ((status = capture_read(pass->capture, -1, &frame)) == 0) {
        if (!frame.image.depth)
            continue;
        status = track_frame(pass->track, frame.image.depth, frame.image.time_ns, &result);
        bool good = result.state == TRACK_STATE_TRACKING || result.state == TRACK_STATE_INIT;
        way->lack = good ? way->lack : result.reason;
        if (status == 0 && (!good || way->n == pass->n_frames))
            continue;
        const struct way_sight sight = {frame.image.time_ns, result.T_odom_camera,
                                        result.map_epoch};
        if (status == 0 && pass->calibrate && way->n % pass->calibrate_step == 0)
            status = learn_from(pass, &sight);
        if (status == 0)
            status = keep_view(pass, way, &sight);
        if (status < 0)
            return status;
        way->sights[way->n++] = sight;
    }
    return status == -ENODATA ? 0 : status;
}

// The camera's own error, and at each pixel; NULL where the recording does not tell of one.
static int learn(struct pass *pass, struct depth_error *out, float **out_per_m)
{
    struct calibrate_report report;
    *out_per_m = NULL;
    int status = calibrate_solve(pass->calibrate, out, &report);
    if (status == -ENODATA || (status == 0 && report.reduction < FIELD_MIN_REDUCE))
        return 0;
    if (status < 0)
        return status;
    snprintf(out->serial, sizeof out->serial, "%s", capture_info(pass->capture)->serial);
    *out_per_m = malloc(sizeof **out_per_m * out->camera.width_px * out->camera.height_px);
    if (!*out_per_m)
        return -ENOMEM;
    depth_error_fill(out, *out_per_m);
    return 0;
}

bool way_look_at_times(const char *source, int64_t *out_first_ns, int64_t *out_last_ns)
{
    const struct capture_settings settings = {
        .source = source, .rate = CAPTURE_RATE_MAX, .seed = CAPTURE_SEED};
    struct capture *capture;
    struct capture_playback playback;
    struct capture_frame frame;
    if (capture_open(&capture, &settings) < 0)
        return false;
    const bool good = !capture_info(capture)->live &&
                      capture_control(capture, CAPTURE_QUERY, 0, &playback) == 0 &&
                      capture_read(capture, -1, &frame) == 0;
    if (good) {
        *out_first_ns = frame.image.time_ns;
        *out_last_ns = frame.image.time_ns + llround(playback.duration_s * 1e9);
    }
    capture_close(&capture);
    return good;
}

int way_find(const char *source, enum gpu_backend backend, struct way *out)
{
    struct pass pass = {0};
    struct depth_error field;
    float *field_per_m = NULL;
    int status = open_pass(&pass, source, backend, NULL);
    const bool is_open = status == 0;
    if (is_open)
        status = begin_learning(&pass);
    if (status == 0)
        status = track_all(&pass, out);
    if (status == 0)
        status = learn(&pass, &field, &field_per_m);
    close_pass(&pass);
    if (status == 0 && field_per_m) {
        forget(out);
        status = open_pass(&pass, source, backend, field_per_m);
        if (status == 0)
            status = track_all(&pass, out);
        out->is_corrected = true;
        out->field = field;
        close_pass(&pass);
    }
    free(field_per_m);
    if (status == 0 && out->n < 2) {
        posectl_complain("%s: no two frames of it were tracked%s%s", source, out->lack ? ": " : "",
                         track_reason_text(out->lack));
        status = -ENODATA;
    } else if (status == -ENOMEM || (is_open && status < 0)) {
        // Why a recording cannot be opened has been said by what found it.
        posectl_complain("%s: %s", source, strerror(-status));
    }
    return status;
}

void way_set_clock(struct way *way, int64_t ahead_ns)
{
    for (size_t i = 0; i < way->n; i++)
        way->sights[i].time_ns -= ahead_ns;
    for (size_t i = 0; i < way->n_views; i++)
        way->views[i].sight.time_ns -= ahead_ns;
}

bool way_pose_at(const struct way *way, int64_t time_ns, struct way_sight *out)
{
    size_t low = 0, high = way->n - 1;
    if (time_ns < way->sights[0].time_ns || time_ns > way->sights[high].time_ns)
        return false;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(way->sights[middle].time_ns <= time_ns ? &low : &high) = middle;
    }
    const struct way_sight *a = &way->sights[low], *b = &way->sights[high];
    if (b->time_ns - a->time_ns > way->gap_ns || a->epoch != b->epoch)
        return false;
    double twist[6], part = (double)(time_ns - a->time_ns) / (double)(b->time_ns - a->time_ns);
    struct se3 moved = se3_between(&a->T_odom_camera, &b->T_odom_camera);
    se3_log(&moved, twist);
    for (int k = 0; k < 6; k++)
        twist[k] *= part;
    moved = se3_exp(twist);
    *out = (struct way_sight){time_ns, se3_compose(&a->T_odom_camera, &moved), a->epoch};
    return true;
}

struct clock_offset_turn *way_turns(const struct way *way, const struct se3 *T_axes_camera)
{
    struct clock_offset_turn *turns = malloc(way->n * sizeof *turns);
    for (size_t i = 1; turns && i < way->n; i++) {
        const struct way_sight *a = &way->sights[i - 1], *b = &way->sights[i];
        struct se3 moved = se3_between(&a->T_odom_camera, &b->T_odom_camera);
        const double passed_s = (double)(b->time_ns - a->time_ns) * 1e-9;
        double w[3];
        se3_rotation_vector(&moved, w);
        turns[i - 1] = (struct clock_offset_turn){a->time_ns, b->time_ns, {se3_angle(&moved)}};
        double *rad_s = turns[i - 1].rad_s;
        for (int k = 0; k < 3; k++) {
            if (T_axes_camera)
                rad_s[k] = T_axes_camera->r[3 * k] * w[0] + T_axes_camera->r[3 * k + 1] * w[1] +
                           T_axes_camera->r[3 * k + 2] * w[2];
            rad_s[k] = a->epoch == b->epoch ? rad_s[k] / passed_s : NAN;
        }
    }
    return turns;
}
