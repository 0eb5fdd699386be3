// SPDX-License-Identifier: Apache-2.0
// klg logs: the number of frames is 0 until the log is closed, as every logger of this format does;
// a reader that is told 0 counts them. Time stamps are nanoseconds. Values stay those of the
// source, <name>.klg.calibration.txt tells their units (other programs expect millimetres).
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "capture/recorder/writer.h"
#include "capture/recording/klg.h"

#define ZLIB_LEVEL 1

struct klg_writer {
    int fd;
    uint32_t n_frames;
    z_stream zlib;
    unsigned char *frame; // header and packed depth: one write per frame
    size_t capacity;
};

static void little(unsigned char *out, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static int klg_open(void **out_state, int folder, const char *name,
                    const struct writer_camera *cameras, uint32_t n_cameras)
{
    (void)n_cameras;
    const struct capture_info *info = cameras[0].info;
    char file[128], sidecar[160];
    snprintf(file, sizeof file, "%s.klg", name);
    snprintf(sidecar, sizeof sidecar, "%s" KLG_CALIBRATION_SUFFIX, file);
    struct klg_writer *klg = calloc(1, sizeof *klg);
    if (!klg)
        return -ENOMEM;
    static const unsigned char no_frames[KLG_HEADER_BYTES] = {0};
    size_t n_raw = (size_t)info->camera.width_px * info->camera.height_px * sizeof(uint16_t);
    klg->capacity = KLG_FRAME_HEADER_BYTES + compressBound((uLong)n_raw);
    klg->frame = malloc(klg->capacity);
    int err = klg->frame && deflateInit(&klg->zlib, ZLIB_LEVEL) == Z_OK ? 0 : -ENOMEM;
    if (err)
        goto fail_memory;
    klg->fd = openat(folder, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (klg->fd < 0) {
        err = -errno;
        goto fail_zlib;
    }
    err = writer_append(klg->fd, no_frames, sizeof no_frames);
    if (!err)
        err = writer_make_calibration(folder, sidecar, info);
    if (err)
        goto fail_file;
    *out_state = klg;
    return 0;
fail_file:
    close(klg->fd);
    unlinkat(folder, file, 0);
fail_zlib:
    deflateEnd(&klg->zlib);
fail_memory:
    free(klg->frame);
    free(klg);
    return err;
}

static int klg_write(void *state, uint32_t camera, const struct capture_frame *frame,
                     uint64_t *bytes)
{
    (void)camera;
    struct klg_writer *klg = state;
    const struct depth_frame *image = &frame->image;
    if (!image->depth)
        return 0;
    z_stream *zlib = &klg->zlib;
    deflateReset(zlib);
    zlib->next_in = (Bytef *)(uintptr_t)image->depth; // not const in zlib, but not written to
    zlib->avail_in = (uInt)((size_t)image->width_px * image->height_px * sizeof *image->depth);
    zlib->next_out = klg->frame + KLG_FRAME_HEADER_BYTES;
    zlib->avail_out = (uInt)(klg->capacity - KLG_FRAME_HEADER_BYTES);
    if (deflate(zlib, Z_FINISH) != Z_STREAM_END)
        return -EIO;
    little(klg->frame, (uint64_t)image->time_ns, 8);
    little(klg->frame + 8, zlib->total_out, 4);
    little(klg->frame + 12, 0, 4);
    size_t n_bytes = KLG_FRAME_HEADER_BYTES + zlib->total_out;
    int err = writer_append(klg->fd, klg->frame, n_bytes);
    if (err)
        return err;
    klg->n_frames++;
    *bytes += n_bytes;
    return 0;
}

static int klg_close(void *state)
{
    struct klg_writer *klg = state;
    unsigned char n_frames[KLG_HEADER_BYTES];
    little(n_frames, klg->n_frames, KLG_HEADER_BYTES);
    int err = pwrite(klg->fd, n_frames, sizeof n_frames, 0) == sizeof n_frames ? 0 : -errno;
    if (!err)
        err = writer_check(klg->fd);
    if (close(klg->fd) && !err)
        err = -errno;
    deflateEnd(&klg->zlib);
    free(klg->frame);
    free(klg);
    return err;
}

const struct writer_format writer_klg = {
    .name = "klg",
    .suffix = ".klg",
    .open = klg_open,
    .write = klg_write,
    .close = klg_close,
};
