// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/fake_map.h"

#include <errno.h>

#include "proto/se3.h"

struct map fake_map;
struct keyframe_window fake_window;
bool fake_is_found;

int map_create(struct map **out, struct gpu *gpu, const struct model_settings *settings,
               const struct gpu_align_settings *align, const struct log_sink *log)
{
    (void)gpu;
    (void)settings;
    (void)align;
    (void)log;
    fake_map = (struct map){.T_map_odom = se3_identity()};
    *out = &fake_map;
    return 0;
}

void map_destroy(struct map **map)
{
    *map = NULL;
}

int map_follow(struct map *map, struct track *track, const struct track_result *result)
{
    (void)track;
    (void)result;
    map->n_followed++;
    map->is_searching = map->is_searching && map->stays_hidden;
    fake_is_found |= map->finds;
    return 0;
}

void map_expect_view(struct map *map)
{
    map->n_expected++;
}

void map_set_time(struct map *map, int64_t until_ns)
{
    map->until_ns = until_ns;
}

int map_read(struct map *map, struct map_contents *out)
{
    out->is_loaded = map->is_loaded;
    out->T_map_odom = map->T_map_odom;
    return 0;
}

uint32_t map_n_left_out(const struct map *map)
{
    (void)map;
    return 0;
}

void map_contents_free(struct map_contents *contents)
{
    *contents = (struct map_contents){0};
}

int map_load(struct map *map, const struct map_contents *contents)
{
    (void)contents;
    if (map->load_error != -ENOSPC)
        map->is_loaded = map->is_searching = map->load_error == 0;
    return map->load_error;
}

void map_give_up(struct map *map)
{
    (void)map;
}

void map_enter(struct map *map, uint32_t epoch)
{
    (void)map;
    (void)epoch;
}

bool map_is_loaded(const struct map *map)
{
    return map->is_loaded;
}

bool map_is_looking(const struct map *map)
{
    (void)map;
    return false;
}

bool map_is_searching(const struct map *map)
{
    return map->is_searching;
}

struct se3 map_T_map_odom(const struct map *map)
{
    return map->T_map_odom;
}

int keyframe_window_create(struct keyframe_window **out, const struct intrinsics *camera,
                           const struct graph_settings *settings, const struct yield *yield,
                           const struct log_sink *log)
{
    (void)camera;
    (void)settings;
    (void)yield;
    (void)log;
    fake_window = (struct keyframe_window){.T_map_odom = se3_identity(),
                                           .keyframe = {.T_map_camera = se3_identity()}};
    *out = &fake_window;
    return 0;
}

void keyframe_window_destroy(struct keyframe_window **window)
{
    *window = NULL;
}

void keyframe_window_enter(struct keyframe_window *window, uint32_t epoch)
{
    (void)window;
    (void)epoch;
}

bool keyframe_window_is_ready(struct keyframe_window *window, int64_t until_ns)
{
    window->until_ns = until_ns;
    return true;
}

void keyframe_window_spare(struct keyframe_window *window, bool sparing)
{
    window->sparing = sparing;
}

int keyframe_window_follow(struct keyframe_window *window, struct gpu *gpu,
                           const struct track *track, const struct track_result *result,
                           uint64_t seq, int64_t time_ns, double *out_moved_m)
{
    (void)gpu;
    (void)track;
    (void)result;
    (void)seq;
    (void)time_ns;
    window->n_followed++;
    *out_moved_m = window->moved_m;
    return 0;
}

int keyframe_window_relocate(struct keyframe_window *window, struct gpu *gpu, struct track *track,
                             const struct track_result *result, int64_t time_ns, int64_t until_ns,
                             double *out_moved_m)
{
    (void)gpu;
    (void)track;
    (void)result;
    window->look_ns = time_ns;
    window->look_until_ns = until_ns;
    *out_moved_m = window->moved_then_m;
    window->n_looked++;
    fake_is_found = window->finds;
    return 0;
}

void keyframe_window_found(struct keyframe_window *window, const struct se3 *T_odom_camera,
                           int64_t time_ns)
{
    window->n_told++;
    window->told_m = T_odom_camera->t_m[0];
    window->told_ns = time_ns;
}

bool keyframe_window_has_any(const struct keyframe_window *window)
{
    return window->has_any;
}

const struct graph *keyframe_window_graph(const struct keyframe_window *window)
{
    return (const struct graph *)window;
}

uint32_t keyframe_window_epoch(const struct keyframe_window *window)
{
    return window->epoch;
}

struct se3 keyframe_window_T_map_odom(const struct keyframe_window *window)
{
    return window->T_map_odom;
}

uint32_t keyframe_window_list(const struct keyframe_window *window,
                              const struct graph_keyframe **out)
{
    *out = &window->keyframe;
    return 1;
}

int keyframe_window_correction(const struct keyframe_window *window, struct deformation_field *out)
{
    (void)window;
    *out = (struct deformation_field){.n = 1};
    return 0;
}

int keyframe_window_finish(struct keyframe_window *window, bool all, const atomic_bool *stop,
                           const struct yield *yield, struct optimise_report *out)
{
    (void)window;
    (void)all;
    (void)stop;
    (void)yield;
    *out = (struct optimise_report){0};
    return 0;
}

int keyframe_window_optimise(struct keyframe_window *window)
{
    (void)window;
    return -EIO;
}

int keyframe_window_optimised(struct keyframe_window *window, struct optimise_report *out)
{
    (void)window;
    (void)out;
    return -ENODATA;
}
