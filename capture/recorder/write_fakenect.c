// SPDX-License-Identifier: Apache-2.0
// fakenect folders: what libfreenect's own `record` writes, so that its fakenect library, too,
// plays them. Depth goes back to 11-bit disparity. File names carry the frame's time with nine
// decimals and the device's ticks (made from the time when the source has none).
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/kinect/disparity.h"
#include "capture/kinect/gravity.h"
#include "capture/recorder/writer.h"

struct fakenect_writer {
    int folder, index;
    struct disparity_inverse inverse;
    unsigned char *file;
    size_t n_file_bytes;
};

static int finish(struct fakenect_writer *fakenect)
{
    int err = 0;
    if (fakenect->index >= 0 && close(fakenect->index))
        err = -errno;
    if (fakenect->folder >= 0)
        close(fakenect->folder);
    free(fakenect->file);
    free(fakenect);
    return err;
}

static void take_back(int folder, const char *name)
{
    int inside = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (inside < 0)
        return;
    unlinkat(inside, "INDEX.txt", 0);
    unlinkat(inside, "calibration.txt", 0);
    unlinkat(inside, "disparity.txt", 0);
    close(inside);
    unlinkat(folder, name, AT_REMOVEDIR);
}

static bool fakenect_is_own(const char *path)
{
    const bool is_image = !strncmp(path, "d-", 2);
    if (!is_image && strncmp(path, "a-", 2) != 0)
        return !strcmp(path, "INDEX.txt") || !strcmp(path, "calibration.txt") ||
               !strcmp(path, "disparity.txt");
    const size_t n = writer_stamp_bytes(path + 2);
    const char *const ticks = path + 2 + n + 1;
    if (!n || ticks[-1] != '-')
        return false;
    const size_t n_ticks = strspn(ticks, "0123456789");
    return n_ticks && !strcmp(ticks + n_ticks, is_image ? ".pgm" : ".dump");
}

// Depth of the source's units to raw: the inverse of a table in these units.
static int fill_inverse(struct fakenect_writer *fakenect, const struct capture_info *info)
{
    struct disparity_table table;
    const double *k = info->zero_plane;
    struct disparity_model model =
        k[0] != 0 ? disparity_from_zero_plane(k[0], k[1], k[2], k[3]) : disparity_default();
    int err = disparity_table_fill(&model, &table);
    if (err)
        return err;
    double units_per_mm = info->units_per_m / DISPARITY_UNITS_PER_M;
    for (size_t i = 0; i < DISPARITY_N_RAW; i++) {
        double units = round(table.mm[i] * units_per_mm);
        table.mm[i] = units < DEPTH_INVALID_MAX ? (uint16_t)units : 0;
    }
    disparity_inverse_fill(&table, &fakenect->inverse);
    return 0;
}

static int make_sidecars(int folder, const struct capture_info *info)
{
    struct capture_info in_mm = *info;
    in_mm.units_per_m = DISPARITY_UNITS_PER_M;
    int err = writer_make_calibration(folder, "calibration.txt", &in_mm);
    if (err || info->zero_plane[0] == 0)
        return err;
    char text[128];
    int n = snprintf(text, sizeof text, "%.17g %.17g %.17g %.17g\n", info->zero_plane[0],
                     info->zero_plane[1], info->zero_plane[2], info->zero_plane[3]);
    return writer_make_file(folder, "disparity.txt", text, (size_t)n);
}

static int fakenect_open(void **out_state, int folder, const char *name,
                         const struct writer_camera *cameras, uint32_t n_cameras)
{
    (void)n_cameras;
    const struct capture_info *info = cameras[0].info;
    if (mkdirat(folder, name, 0755))
        return -errno;
    struct fakenect_writer *fakenect = malloc(sizeof *fakenect);
    int err = fakenect ? 0 : -ENOMEM;
    if (err)
        goto fail;
    fakenect->index = -1;
    fakenect->n_file_bytes = 64 + 2 * (size_t)info->camera.width_px * info->camera.height_px;
    fakenect->file = malloc(fakenect->n_file_bytes);
    fakenect->folder = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    err = fakenect->folder < 0 ? -errno : fakenect->file ? 0 : -ENOMEM;
    if (!err)
        err = fill_inverse(fakenect, info);
    if (!err)
        err = make_sidecars(fakenect->folder, info);
    if (err)
        goto fail;
    fakenect->index = openat(fakenect->folder, "INDEX.txt",
                             O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fakenect->index < 0) {
        err = -errno;
        goto fail;
    }
    *out_state = fakenect;
    return 0;
fail:
    if (fakenect && finish(fakenect))
        err = err ? err : -EIO;
    take_back(folder, name);
    return err;
}

// One file, then its line in the index.
static int put(struct fakenect_writer *fakenect, const char *name, const void *data, size_t n_bytes,
               uint64_t *bytes)
{
    char line[96];
    int n = snprintf(line, sizeof line, "%s\n", name);
    int err = writer_make_file(fakenect->folder, name, data, n_bytes);
    if (!err)
        err = writer_append(fakenect->index, line, (size_t)n);
    if (!err)
        *bytes += n_bytes + (size_t)n;
    return err;
}

static int put_gravity(struct fakenect_writer *fakenect, const char *stamp, const float m_s2[3],
                       uint64_t *bytes)
{
    char name[80];
    int16_t counts[3];
    unsigned char dump[12] = {0};
    gravity_to_counts(m_s2, counts);
    for (int i = 0; i < 3; i++) {
        dump[2 * i] = (unsigned char)counts[i];
        dump[2 * i + 1] = (unsigned char)((uint16_t)counts[i] >> 8);
    }
    snprintf(name, sizeof name, "a-%s.dump", stamp);
    return put(fakenect, name, dump, sizeof dump, bytes);
}

static int fakenect_write(void *state, uint32_t camera, const struct capture_frame *frame,
                          uint64_t *bytes)
{
    (void)camera;
    struct fakenect_writer *fakenect = state;
    const struct depth_frame *image = &frame->image;
    if (!image->depth)
        return 0;
    char stamp[64], name[80];
    uint64_t ticks = frame->device_ticks
                         ? frame->device_ticks
                         : (uint64_t)(image->time_ns / 50 * 3 + image->time_ns % 50 * 3 / 50);
    snprintf(stamp, sizeof stamp, "%lld.%09lld-%u", (long long)(image->time_ns / 1000000000),
             (long long)(image->time_ns % 1000000000), (uint32_t)ticks);
    int err = 0;
    if (isfinite(frame->gravity_m_s2[0]))
        err = put_gravity(fakenect, stamp, frame->gravity_m_s2, bytes);
    if (err)
        return err;
    size_t n_pixels = (size_t)image->width_px * image->height_px;
    int n =
        snprintf((char *)fakenect->file, 64, "P5 %u %u 65535\n", image->width_px, image->height_px);
    unsigned char *out = fakenect->file + n;
    for (size_t i = 0; i < n_pixels; i++) {
        uint16_t raw = fakenect->inverse.raw[image->depth[i]];
        out[2 * i] = (unsigned char)raw;
        out[2 * i + 1] = (unsigned char)(raw >> 8);
    }
    snprintf(name, sizeof name, "d-%s.pgm", stamp);
    return put(fakenect, name, fakenect->file, (size_t)n + 2 * n_pixels, bytes);
}

static int fakenect_close(void *state)
{
    return finish(state);
}

const struct writer_format writer_fakenect = {
    .name = "fakenect",
    .suffix = "",
    .marker = "INDEX.txt",
    .is_own = fakenect_is_own,
    .open = fakenect_open,
    .write = fakenect_write,
    .close = fakenect_close,
};
