// SPDX-License-Identifier: Apache-2.0
// 7-Scenes sequences: frame-%06d.depth.png in millimetres with frame-%06d.pose.txt beside it. The
// format has no time stamps; frame k is at k / 30 s.
#include <errno.h>
#include <stdlib.h>

#include "capture/io/images.h"
#include "proto/trajectory.h"

static const struct intrinsics default_camera = {585, 585, 320, 240, 640, 480};
#define DEFAULT_UNITS_PER_M 1000

static int list_frames(struct images *images)
{
    int err = images_list(images, "", ".depth.png");
    if (err && err != -ENOENT)
        return err;
    size_t n_kept = 0;
    for (size_t i = 0; i < images->n_entries; i++) {
        long number = trajectory_frame_number(images_name(images, i), ".depth.png");
        if (number < 0)
            continue;
        images->entries[n_kept] = images->entries[i];
        images->entries[n_kept].index = (uint64_t)number;
        images->entries[n_kept++].time_ns = trajectory_frame_time_ns((uint64_t)number);
    }
    images->n_entries = n_kept;
    if (n_kept)
        return 0;
    log_to(&images->log, LOG_LEVEL_ERROR,
           "%s: no frame-000000.depth.png or the like; a 7-Scenes sequence is the folder seq-01",
           images->path);
    return -ENOENT;
}

static int sevenscenes_open(void **out_state, const char *location,
                            const struct capture_settings *settings, struct capture_info *out_info)
{
    return images_open_driver(out_state, location, settings, &default_camera, DEFAULT_UNITS_PER_M,
                              list_frames, out_info);
}

static long sevenscenes_ground_truth(const void *state, struct stamped_pose **out)
{
    const struct images *images = state;
    struct trajectory truth;
    int err = trajectory_read_sevenscenes(images->path, &images->log, &truth);
    if (err)
        return err == -ENOENT ? 0 : err;
    *out = truth.poses; // malloc'ed by trajectory_read_sevenscenes, handed on
    return (long)truth.n_poses;
}

const struct capture_driver capture_driver_sevenscenes = {
    .name = "sevenscenes",
    .summary = "folder with frame-000000.depth.png (7-Scenes sequence)",
    .open = sevenscenes_open,
    .stamp = images_stamp,
    .decode = images_decode,
    .ground_truth = sevenscenes_ground_truth,
    .close = images_close_driver,
};
