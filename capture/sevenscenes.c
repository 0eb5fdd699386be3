// SPDX-License-Identifier: Apache-2.0
// 7-Scenes sequences: frame-%06d.depth.png in millimetres with frame-%06d.pose.txt beside it. The
// format has no time stamps; frame k is at k / 30 s.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/driver.h"
#include "capture/folder.h"
#include "capture/image.h"
#include "capture/sidecar.h"
#include "proto/trajectory.h"

static const struct intrinsics default_camera = {585, 585, 320, 240, 640, 480};
#define DEFAULT_UNITS_PER_M 1000

struct sevenscenes {
    uint32_t *numbers; // of the files, ascending
    size_t n_frames;
    struct image_codec *codec;
    struct file_bytes image;
    uint32_t width_px, height_px;
    int folder;
    char *path;
    struct log_sink log;
};

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// The number in frame-%06d.depth.png, or -1 for any other name.
static int64_t frame_number(const char *name)
{
    static const char prefix[] = "frame-", suffix[] = ".depth.png";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return -1;
    const char *digits = name + sizeof prefix - 1;
    size_t n_digits = strspn(digits, "0123456789");
    if (n_digits != 6 || strcmp(digits + n_digits, suffix) != 0)
        return -1;
    return strtol(digits, NULL, 10);
}

static int list_frames(struct sevenscenes *scene, const struct log_sink *log)
{
    int fd = dup(scene->folder);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int err = -errno;
        if (fd >= 0)
            close(fd);
        return err;
    }
    size_t capacity = 0;
    int err = 0;
    for (struct dirent *entry; !err && (entry = readdir(dir));) {
        int64_t number = frame_number(entry->d_name);
        if (number < 0)
            continue;
        if (scene->n_frames == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            uint32_t *grown = realloc(scene->numbers, capacity * sizeof *grown);
            if (!grown) {
                err = -ENOMEM;
                break;
            }
            scene->numbers = grown;
        }
        scene->numbers[scene->n_frames++] = (uint32_t)number;
    }
    closedir(dir);
    if (!err && scene->n_frames == 0) {
        log_to(
            log, LOG_LEVEL_ERROR,
            "%s: no frame-000000.depth.png or the like; a 7-Scenes sequence is the folder seq-01",
            scene->path);
        err = -ENOENT;
    }
    if (!err)
        qsort(scene->numbers, scene->n_frames, sizeof *scene->numbers, compare_numbers);
    return err;
}

static void file_name(const struct sevenscenes *scene, uint64_t i, char out[32])
{
    snprintf(out, 32, "frame-%06u.depth.png", scene->numbers[i]);
}

// The size of the first image that can be read is the size of the recording.
static int find_size(struct sevenscenes *scene, const struct log_sink *log)
{
    int err = -ENOENT;
    for (uint64_t i = 0; i < scene->n_frames && i < 16; i++) {
        char file[32], name[1024];
        file_name(scene, i, file);
        snprintf(name, sizeof name, "%s/%s", scene->path, file);
        err = folder_read(scene->folder, file, FOLDER_MAX_IMAGE_BYTES, &scene->image);
        if (err)
            log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, folder_error(err));
        else if (!image_peek(scene->image.data, scene->image.n_bytes, name, log, &scene->width_px,
                             &scene->height_px))
            return 0;
        else
            err = -EINVAL;
    }
    return err;
}

static void sevenscenes_close(void *state)
{
    struct sevenscenes *scene = state;
    free(scene->numbers);
    image_codec_destroy(&scene->codec);
    file_bytes_free(&scene->image);
    if (scene->folder >= 0)
        close(scene->folder);
    free(scene->path);
    free(scene);
}

static int sevenscenes_open(void **out_state, const char *location,
                            const struct capture_settings *settings, struct capture_info *out_info)
{
    struct sevenscenes *scene = calloc(1, sizeof *scene);
    if (!scene)
        return -ENOMEM;
    scene->log = settings->log;
    scene->folder = -1;
    scene->path = strdup(location);
    int err = scene->path ? image_codec_create(&scene->codec) : -ENOMEM;
    if (err)
        goto fail;
    err = scene->folder = folder_open(location, &settings->log);
    if (err < 0)
        goto fail;
    err = list_frames(scene, &settings->log);
    if (err)
        goto fail;
    err = find_size(scene, &settings->log);
    if (err)
        goto fail;
    out_info->camera.width_px = scene->width_px;
    out_info->camera.height_px = scene->height_px;
    err = sidecar_intrinsics(scene->folder, location, &default_camera, settings, out_info);
    if (err)
        goto fail;
    out_info->units_per_m = DEFAULT_UNITS_PER_M;
    out_info->n_frames = scene->n_frames;
    *out_state = scene;
    return 0;
fail:
    sevenscenes_close(scene);
    return err;
}

static void sevenscenes_stamp(const void *state, uint64_t i, int64_t *out_time_ns,
                              uint64_t *out_index)
{
    const struct sevenscenes *scene = state;
    *out_index = scene->numbers[i];
    *out_time_ns = (int64_t)scene->numbers[i] * 1000000000 / 30;
}

static int sevenscenes_decode(void *state, uint64_t i, uint16_t *pixels,
                              struct capture_frame *frame)
{
    (void)frame;
    struct sevenscenes *scene = state;
    char file[32], name[1024];
    file_name(scene, i, file);
    snprintf(name, sizeof name, "%s/%s", scene->path, file);
    int err = folder_read(scene->folder, file, FOLDER_MAX_IMAGE_BYTES, &scene->image);
    if (err) {
        log_to(&scene->log, LOG_LEVEL_WARNING, "%s: %s", name, folder_error(err));
        return -EBADMSG;
    }
    return image_decode(scene->codec, scene->image.data, scene->image.n_bytes, name,
                        IMAGE_PGM_BIG_ENDIAN, scene->width_px, scene->height_px, &scene->log,
                        pixels);
}

static long sevenscenes_ground_truth(const void *state, struct stamped_pose **out)
{
    const struct sevenscenes *scene = state;
    struct trajectory truth;
    int err = trajectory_read_sevenscenes(scene->path, &scene->log, &truth);
    if (err)
        return err == -ENOENT ? 0 : err;
    *out = truth.poses; // malloc'ed by trajectory_read_sevenscenes, handed on
    return (long)truth.n_poses;
}

const struct capture_driver capture_driver_sevenscenes = {
    .name = "sevenscenes",
    .summary = "folder with frame-000000.depth.png (7-Scenes sequence)",
    .open = sevenscenes_open,
    .stamp = sevenscenes_stamp,
    .decode = sevenscenes_decode,
    .ground_truth = sevenscenes_ground_truth,
    .close = sevenscenes_close,
};
