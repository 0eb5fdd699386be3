// SPDX-License-Identifier: Apache-2.0
#include "capture/io/images.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/recording/sidecar.h"
#include "proto/trajectory.h"

int images_open(struct images *images, const char *path, const struct log_sink *log)
{
    *images = (struct images){.folder = -1, .log = *log};
    images->path = strdup(path);
    if (!images->path)
        return -ENOMEM;
    int err = image_codec_create(&images->codec);
    if (err)
        return err;
    int fd = folder_open(path, log);
    if (fd < 0)
        return fd;
    images->folder = fd;
    return 0;
}

static int reserve(void **array, size_t *capacity, size_t n_needed, size_t n_element_bytes)
{
    if (n_needed <= *capacity)
        return 0;
    size_t grown = 2 * n_needed + 64;
    void *bigger = realloc(*array, grown * n_element_bytes);
    if (!bigger)
        return -ENOMEM;
    *array = bigger;
    *capacity = grown;
    return 0;
}

int images_append(struct images *images, const char *name, int64_t time_ns, uint64_t index)
{
    size_t n = strlen(name) + 1;
    void *names = images->names, *entries = images->entries;
    int err = reserve(&names, &images->name_capacity, images->n_name_bytes + n, 1);
    images->names = names;
    if (!err)
        err = reserve(&entries, &images->capacity, images->n_entries + 1, sizeof *images->entries);
    images->entries = entries;
    if (err)
        return err;
    memcpy(images->names + images->n_name_bytes, name, n);
    images->entries[images->n_entries++] = (struct images_entry){
        .time_ns = time_ns, .index = index, .name_offset = images->n_name_bytes};
    images->n_name_bytes += n;
    return 0;
}

static int compare_names(const void *a, const void *b, void *names)
{
    const struct images_entry *x = a, *y = b;
    return strverscmp((const char *)names + x->name_offset, (const char *)names + y->name_offset);
}

int images_list(struct images *images, const char *sub, const char *suffix)
{
    int fd = openat(images->folder, *sub ? sub : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int err = -errno;
        close(fd);
        return err;
    }
    int err = 0;
    size_t n_suffix = strlen(suffix);
    for (struct dirent *entry; !err && (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name);
        if (entry->d_name[0] == '.' || n <= n_suffix ||
            strcmp(entry->d_name + n - n_suffix, suffix) != 0)
            continue;
        char name[512];
        snprintf(name, sizeof name, "%s%s%s", sub, *sub ? "/" : "", entry->d_name);
        err = images_append(images, name, 0, 0);
    }
    closedir(dir);
    if (err)
        return err;
    if (!images->n_entries)
        return -ENOENT;
    qsort_r(images->entries, images->n_entries, sizeof *images->entries, compare_names,
            images->names);
    for (size_t i = 0; i < images->n_entries; i++) {
        images->entries[i].index = i;
        images->entries[i].time_ns = trajectory_frame_time_ns(i);
    }
    return 0;
}

const char *images_name(const struct images *images, uint64_t i)
{
    return images->names + images->entries[i].name_offset;
}

int images_find_size(struct images *images, struct capture_info *out_info)
{
    char name[1024];
    size_t n_unreadable = 0, n_outside = 0;
    int err = -ENOENT;
    for (size_t i = 0; i < images->n_entries && n_unreadable < 16; i++) {
        int failed = folder_read(images->folder, images_name(images, i), FOLDER_MAX_IMAGE_BYTES,
                                 &images->file);
        if (failed == -ENOENT)
            continue;
        snprintf(name, sizeof name, "%s/%s", images->path, images_name(images, i));
        if (!failed && !image_peek(images->file.data, images->file.n_bytes, name, &images->log,
                                   &images->width_px, &images->height_px)) {
            out_info->camera.width_px = images->width_px;
            out_info->camera.height_px = images->height_px;
            out_info->n_frames = images->n_entries;
            return 0;
        }
        if (failed && (failed != -EXDEV || n_outside == 0)) // a folder of links is one fault
            log_to(&images->log, LOG_LEVEL_WARNING, "%s: %s", name, folder_error(failed));
        n_outside += failed == -EXDEV;
        err = -EINVAL;
        n_unreadable++;
    }
    if (err == -ENOENT)
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: none of its %zu images is there", images->path,
               images->n_entries);
    else if (n_outside > 1)
        log_to(&images->log, LOG_LEVEL_ERROR,
               "%s: none of the %zu images looked at is readable: %zu are links that lead out of "
               "the folder",
               images->path, n_unreadable, n_outside);
    else
        log_to(&images->log, LOG_LEVEL_ERROR, "%s: none of the %zu images looked at is readable",
               images->path, n_unreadable);
    return err;
}

void images_stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    const struct images *images = state;
    *out_time_ns = images->entries[i].time_ns;
    *out_index = images->entries[i].index;
}

int images_decode(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    struct images *images = state;
    char name[1024];
    snprintf(name, sizeof name, "%s/%s", images->path, images_name(images, i));
    frame->device_ticks = images->entries[i].device_ticks;
    int err =
        folder_read(images->folder, images_name(images, i), FOLDER_MAX_IMAGE_BYTES, &images->file);
    if (err) {
        log_to(&images->log, LOG_LEVEL_WARNING, "%s: %s", name, folder_error(err));
        return -EBADMSG;
    }
    err =
        image_decode(images->codec, images->file.data, images->file.n_bytes, name,
                     images->pgm_order, images->width_px, images->height_px, &images->log, pixels);
    if (!err && images->disparity)
        disparity_to_mm(images->disparity, pixels, (size_t)images->width_px * images->height_px,
                        pixels);
    return err;
}

void images_close(struct images *images)
{
    free(images->entries);
    free(images->names);
    image_codec_destroy(&images->codec);
    file_bytes_free(&images->file);
    if (images->folder >= 0)
        close(images->folder);
    free(images->path);
}

void images_close_driver(void *state)
{
    images_close(state);
    free(state);
}

int images_open_driver(void **out_state, const char *location,
                       const struct capture_settings *settings,
                       const struct intrinsics *default_camera, double default_units_per_m,
                       int (*list_frames)(struct images *images), struct capture_info *out_info)
{
    struct images *images = malloc(sizeof *images);
    if (!images)
        return -ENOMEM;
    out_info->units_per_m = default_units_per_m;
    out_info->told.units_are_usual = true;
    snprintf(out_info->told.units_by, sizeof out_info->told.units_by, "the format");
    int err = images_open(images, location, &settings->log);
    if (!err)
        err = list_frames(images);
    if (!err)
        err = images_find_size(images, out_info);
    if (!err)
        err =
            sidecar_intrinsics(images->folder, location, default_camera, NULL, settings, out_info);
    if (err) {
        images_close_driver(images);
        return err;
    }
    *out_state = images;
    return 0;
}
