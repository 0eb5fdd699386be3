// SPDX-License-Identifier: Apache-2.0
#include <errno.h>

#include "gpu/model/keyframe_window_private.h"
#include "proto/se3.h"

// In the map, where keyframes of one place agree; in odom they drift apart.
static struct se3 in_map(const struct keyframe_window *w, uint64_t seq, const struct se3 *T)
{
    for (uint32_t i = 0; i < w->n_keyframes; i++)
        if (w->keyframes[i].seq == seq) {
            const struct se3 T_map_odom = graph_keyframe_T_map_odom(&w->keyframes[i]);
            return se3_compose(&T_map_odom, T);
        }
    return *T;
}

// A find that is believed, which the next frame that is followed, a keyframe, will be linked by.
static void enter(struct keyframe_window *w, const struct keyframe_find *find, int64_t time_ns)
{
    w->is_found = true;
    w->found = *find;
    w->found_ns = time_ns;
    w->has_keyframe = false;
    keyframe_window_set_T_map_odom(w);
}

// A place that was tried holds: the frame after it has a pose.
static void tell_found(struct keyframe_window *w, const struct track_result *result)
{
    if (!w->is_tried || !relocalise_holds(result))
        return;
    w->is_tried = false;
    log_to(&w->log, LOG_LEVEL_NOTICE,
           "keyframes: the camera is found again by that of frame %llu, at %.2f %.2f %.2f",
           (unsigned long long)w->found.seq, w->found.T_odom_camera.t_m[0],
           w->found.T_odom_camera.t_m[1], w->found.T_odom_camera.t_m[2]);
}

int keyframe_window_relocate(struct keyframe_window *w, struct gpu *gpu, struct track *track,
                             const struct track_result *result, int64_t time_ns, int64_t until_ns,
                             double *out_moved_m)
{
    const struct gpu_frame *frame = track_newest_frame(track);
    struct keyframe_find find;
    *out_moved_m = 0;
    tell_found(w, result);
    if (!relocalise_is_lost(result, frame)) {
        w->n_lost = 0;
        w->finds = (struct relocalise_finds){0};
        return 0;
    }
    if (!keyframe_window_await(w, until_ns))
        return 0;
    // The graph is this thread's until the next job.
    *out_moved_m = keyframe_window_take_result(w, &result->T_odom_camera);
    if (w->failed)
        return 0;
    if (keyframe_window_read_depth(w, gpu, frame, w->z_m) != 0)
        return -EIO;
    // Without memory it is not found; what needs that next says so.
    if (graph_find(w->graph, w->z_m, w->n_lost++, &find) != 0)
        return 0;
    const struct se3 T = find.T_odom_camera, T_map = find.trust ? in_map(w, find.seq, &T) : T;
    if (!relocalise_finds_believe(&w->finds, find.trust, &T_map, result->is_repeat) ||
        track_relocate(track, &T) != 0)
        return 0;
    enter(w, &find, time_ns);
    w->is_tried = true;
    log_to(&w->log, LOG_LEVEL_DEBUG,
           "keyframes: a place is tried: by that of frame %llu, at %.2f %.2f %.2f",
           (unsigned long long)find.seq, T.t_m[0], T.t_m[1], T.t_m[2]);
    return 0;
}

void keyframe_window_found(struct keyframe_window *w, const struct se3 *T_odom_camera,
                           int64_t time_ns)
{
    if (w->failed)
        return;
    const struct keyframe_find find = graph_find_at(w->keyframes, w->n_keyframes, T_odom_camera);
    enter(w, &find, time_ns);
    w->is_tried = false;
}

bool keyframe_window_has_any(const struct keyframe_window *w)
{
    return w->n_keyframes > 0 && !w->failed;
}
