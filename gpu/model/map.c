// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/map.h"

#include <errno.h>
#include <stdlib.h>

#include "gpu/model/recover.h"

struct map {
    struct gpu *gpu;
    struct model *model;
    struct recover *recover;
    struct gpu_frame *view;
    uint32_t n_lost; // frames in a row with depth
    struct log_sink log;
    uint32_t epoch;    // of the tracker, that the model belongs to
    bool has_any;      // frames were taken in
    bool told_is_full; // once an epoch
    uint32_t n_taken;  // frames
};

int map_create(struct map **out, struct gpu *gpu, const struct model_settings *settings,
               const struct gpu_align_settings *align, const struct log_sink *log)
{
    *out = NULL;
    struct map *map = calloc(1, sizeof *map);
    if (!map)
        return -ENOMEM;
    map->gpu = gpu;
    map->log = *log;
    int rc = model_create(&map->model, gpu, settings);
    if (rc == 0)
        rc = recover_create(&map->recover, gpu, align);
    if (rc == 0)
        rc = gpu_frame_create(gpu, &map->view);
    if (rc < 0) {
        map_destroy(&map);
        return rc;
    }
    *out = map;
    return 0;
}

void map_destroy(struct map **map)
{
    if (!map || !*map)
        return;
    gpu_frame_destroy((*map)->gpu, &(*map)->view);
    recover_destroy(&(*map)->recover);
    model_destroy(&(*map)->model);
    free(*map);
    *map = NULL;
}

struct model *map_model(struct map *map)
{
    return map->model;
}

static int begin_epoch(struct map *map, uint32_t epoch)
{
    struct model_stats stats;
    int rc = model_stats_get(map->model, &stats);
    if (rc == 0 && map->has_any)
        log_to(&map->log, LOG_LEVEL_NOTICE,
               "map: epoch %u begins; the map of epoch %u (%u blocks) is given up", epoch,
               map->epoch, stats.n_blocks);
    map->epoch = epoch;
    map->has_any = map->told_is_full = false;
    recover_forget(map->recover);
    return rc < 0 ? rc : model_clear(map->model);
}

static int take_in(struct map *map, const struct gpu_frame *frame, const struct se3 *T_odom_camera)
{
    int rc = model_integrate(map->model, frame, T_odom_camera);
    map->has_any = true;
    // Asking waits for the device, hence not each time.
    if (rc < 0 || map->told_is_full || map->n_taken++ % 32 != 0)
        return rc;
    struct model_stats stats;
    rc = model_stats_get(map->model, &stats);
    if (rc == 0 && stats.n_refused > 0) {
        log_to(&map->log, LOG_LEVEL_WARNING,
               "map: full at %u blocks (map.memory_bytes): new places are no longer added",
               stats.n_blocks);
        map->told_is_full = true;
    }
    return rc;
}

// A lost frame that has depth is looked for in the map.
static int look_for(struct map *map, struct track *track, const struct gpu_frame *frame)
{
    struct se3 T;
    bool found;
    int rc = recover_find(map->recover, map->model, frame, map->n_lost++, &found, &T);
    if (rc < 0 || !found || track_relocate(track, &T) != 0)
        return rc;
    log_to(&map->log, LOG_LEVEL_NOTICE, "map: the camera is found again, at %.2f %.2f %.2f",
           T.t_m[0], T.t_m[1], T.t_m[2]);
    return 0;
}

int map_follow(struct map *map, struct track *track, const struct track_result *result)
{
    const struct gpu_frame *frame = track_newest_frame(track);
    bool sees = result->state == TRACK_STATE_TRACKING ||
                (result->state == TRACK_STATE_INIT && result->reason == TRACK_REASON_FIRST_FRAME);
    int rc = 0;
    if (!map->has_any || result->map_epoch != map->epoch)
        rc = begin_epoch(map, result->map_epoch);
    if (rc == 0 && sees && frame)
        rc = take_in(map, frame, &result->T_odom_camera);
    if (rc == 0 && sees && frame && result->new_keyframe)
        rc = recover_add(map->recover, frame, &result->T_odom_camera);
    if (rc < 0 || !map->has_any || !track_wants_view(track))
        return rc;
    bool is_lost = result->state == TRACK_STATE_LOST && frame &&
                   result->reason != TRACK_REASON_NO_DEPTH && result->reason != TRACK_REASON_DEVICE;
    if (!is_lost)
        map->n_lost = 0;
    else
        rc = look_for(map, track, frame);
    if (rc < 0)
        return rc;
    const struct se3 T = track_expected(track);
    rc = model_view(map->model, &T, map->view);
    track_set_view(track, rc == 0 ? map->view : NULL, &T);
    return rc;
}
