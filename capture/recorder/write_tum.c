// SPDX-License-Identifier: Apache-2.0
// TUM folders. An image is complete before its line enters depth.txt, so the index never names a
// file that is only half there, whenever the process ends. Values stay those of the source;
// calibration.txt tells their units.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/io/image.h"
#include "capture/recorder/writer.h"

// Median of fr1_xyz on one core: 4.2 ms and 113 kB an image; level 6 takes 21 ms for 86 kB.
#define PNG_LEVEL 1

struct tum_writer {
    int folder, index;
    struct image_codec *codec;
};

static int finish(struct tum_writer *tum)
{
    int err = 0;
    if (tum->index >= 0 && close(tum->index))
        err = -errno;
    if (tum->folder >= 0)
        close(tum->folder);
    image_codec_destroy(&tum->codec);
    free(tum);
    return err;
}

static void take_back(int folder, const char *name)
{
    int inside = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (inside < 0)
        return;
    unlinkat(inside, "depth.txt", 0);
    unlinkat(inside, "calibration.txt", 0);
    unlinkat(inside, "depth", AT_REMOVEDIR);
    close(inside);
    unlinkat(folder, name, AT_REMOVEDIR);
}

static bool tum_is_own(const char *path)
{
    static const char folder[] = "depth/";
    const size_t n_folder = sizeof folder - 1;
    if (strncmp(path, folder, n_folder) != 0)
        return !strcmp(path, "depth.txt") || !strcmp(path, "calibration.txt");
    const size_t n = writer_stamp_bytes(path + n_folder);
    return path[n_folder] == '\0' || (n && !strcmp(path + n_folder + n, ".png"));
}

static int tum_open(void **out_state, int folder, const char *name,
                    const struct writer_camera *cameras, uint32_t n_cameras)
{
    (void)n_cameras;
    const struct capture_info *info = cameras[0].info;
    if (mkdirat(folder, name, 0755))
        return -errno;
    struct tum_writer *tum = malloc(sizeof *tum);
    int err = tum ? 0 : -ENOMEM;
    if (err)
        goto fail;
    *tum = (struct tum_writer){.index = -1};
    tum->folder = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    err = tum->folder < 0 || mkdirat(tum->folder, "depth", 0755) ? -errno : 0;
    if (!err)
        err = image_codec_create(&tum->codec);
    if (!err)
        err = writer_make_calibration(tum->folder, "calibration.txt", info);
    if (err)
        goto fail;
    tum->index =
        openat(tum->folder, "depth.txt", O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    char head[160];
    int n = snprintf(head, sizeof head,
                     "# depth maps, %.17g units per metre (see calibration.txt)\n"
                     "# timestamp filename\n",
                     info->units_per_m);
    err = tum->index < 0 ? -errno : writer_append(tum->index, head, (size_t)n);
    if (err)
        goto fail;
    *out_state = tum;
    return 0;
fail:
    if (tum && finish(tum))
        err = err ? err : -EIO;
    take_back(folder, name);
    return err;
}

static int tum_write(void *state, uint32_t camera, const struct capture_frame *frame,
                     uint64_t *bytes)
{
    (void)camera;
    struct tum_writer *tum = state;
    const struct depth_frame *image = &frame->image;
    char stamp[48], path[80], line[160];
    snprintf(stamp, sizeof stamp, "%lld.%09lld", (long long)(image->time_ns / 1000000000),
             (long long)(image->time_ns % 1000000000));
    snprintf(path, sizeof path, "depth/%s.png", stamp);
    int n = snprintf(line, sizeof line, "%s %s\n", stamp, path), err = 0;
    size_t n_data = 0;
    if (image->depth) {
        const void *data;
        err = image_encode_png(tum->codec, image->depth, image->width_px, image->height_px,
                               PNG_LEVEL, &data, &n_data);
        if (!err)
            err = writer_make_file(tum->folder, path, data, n_data);
    }
    if (!err)
        err = writer_append(tum->index, line, (size_t)n);
    if (!err)
        *bytes += n_data + (size_t)n;
    return err;
}

static int tum_close(void *state)
{
    return finish(state);
}

const struct writer_format writer_tum = {
    .name = "tum",
    .suffix = "",
    .marker = "depth.txt",
    .is_own = tum_is_own,
    .open = tum_open,
    .write = tum_write,
    .close = tum_close,
};
