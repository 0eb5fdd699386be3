// SPDX-License-Identifier: Apache-2.0
// Driver `mcap`: what the index found, image by image; of ROS recordings, what the bag found.
#include "capture/mcap/format.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/driver.h"
#include "capture/io/damage.h"
#include "capture/io/folder.h"
#include "capture/mcap/foxglove.h"
#include "capture/mcap/index.h"
#include "capture/mcap/ros2.h"
#include "capture/ros/select_topic.h"

static const struct intrinsics default_camera = {525, 525, 319.5, 239.5, 640, 480};

// The message record of a frame. Returns mcap_decode's errors.
static int find_message(struct mcap_reader *reader, const struct mcap_index *index,
                        const struct mcap_frame *frame, const unsigned char **out, size_t *out_n,
                        const char **out_reason)
{
    const unsigned char *record;
    uint64_t n_room;
    if (frame->chunk == MCAP_NO_CHUNK) {
        unsigned char head[MCAP_RECORD_BYTES];
        *out_reason = "cannot be read";
        if (mcap_reader_read(reader, head, sizeof head, frame->offset))
            return -EBADMSG;
        n_room = mcap_get(head + 1, 8);
        if (n_room > MCAP_MAX_CHUNK_BYTES ||
            mcap_reader_load(reader, frame->offset, n_room + MCAP_RECORD_BYTES, &record))
            return -EBADMSG;
        n_room += MCAP_RECORD_BYTES;
    } else {
        const unsigned char *chunk;
        size_t n_chunk;
        if (mcap_reader_unpack(reader, &index->chunks[frame->chunk], frame->chunk, &chunk,
                               &n_chunk)) {
            *out_reason = mcap_reader_reason(reader);
            return -ENODATA;
        }
        *out_reason = "the index leads out of its chunk";
        if (frame->offset >= n_chunk)
            return -EBADMSG;
        record = chunk + frame->offset;
        n_room = n_chunk - frame->offset;
    }
    *out_reason = "the index does not lead to a depth message";
    if (n_room < MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES || record[0] != MCAP_MESSAGE)
        return -EBADMSG;
    uint64_t n_message = mcap_get(record + 1, 8);
    if (n_message < MCAP_MESSAGE_HEADER_BYTES || n_message > n_room - MCAP_RECORD_BYTES ||
        !mcap_ids_have(&index->channels, (uint16_t)mcap_get(record + MCAP_RECORD_BYTES, 2)))
        return -EBADMSG;
    *out = record + MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES;
    *out_n = (size_t)n_message - MCAP_MESSAGE_HEADER_BYTES;
    return 0;
}

// Why an image of the recording is not taken, in `out`; NULL: it is.
static const char *fault_of(const struct mcap_index *index, const struct foxglove_image *image,
                            char out[MCAP_REASON_BYTES])
{
    if (image->width_px != index->width_px || image->height_px != index->height_px)
        return "image size differs from the recording's";
    if (image->remainders && image->units_per_m != index->units_per_m)
        return "depth unit differs from the recording's";
    if (!foxglove_is_depth(image)) {
        snprintf(out, MCAP_REASON_BYTES, "%s is %s, not a 16UC1 or mono16 image", index->topic,
                 image->encoding[0] ? image->encoding : "of no known encoding");
        return out;
    }
    return image->step_bytes < 2 * (uint64_t)image->width_px ? "its rows are shorter than its width"
                                                             : NULL;
}

int mcap_decode(struct mcap_reader *reader, const struct mcap_index *index, uint64_t i,
                uint16_t *out_pixels, char out_reason[MCAP_REASON_BYTES])
{
    size_t n;
    struct foxglove_image image;
    const unsigned char *message;
    const char *reason;
    int err = find_message(reader, index, &index->frames[i], &message, &n, &reason);
    if (!err) {
        reason = foxglove_get_image(message, n, &image) ? fault_of(index, &image, out_reason)
                                                        : "malformed image message";
        err = reason ? -EBADMSG : 0;
    }
    if (err) {
        if (reason != out_reason)
            snprintf(out_reason, MCAP_REASON_BYTES, "%s", reason);
        return err;
    }
    for (uint32_t y = 0; y < image.height_px; y++) {
        const unsigned char *row = image.data + (size_t)y * image.step_bytes;
        uint16_t *out = out_pixels + (size_t)y * image.width_px;
        for (uint32_t x = 0; x < image.width_px; x++)
            out[x] = (uint16_t)(row[2 * x] | row[2 * x + 1] << 8);
    }
    const size_t n_pixels = (size_t)image.width_px * image.height_px;
    for (size_t k = 0; image.remainders && k < n_pixels; k++)
        out_pixels[k] = (uint16_t)(foxglove_units_of_mm(out_pixels[k], image.units_per_m) +
                                   (signed char)image.remainders[k]);
    return 0;
}

struct mcap {
    struct mcap_reader *reader;
    struct mcap_index index; // of foxglove.RawImage
    struct bag bag;          // of ROS
    bool is_ros;
    int fd;      // of the reader
    size_t part; // that it reads
    char *path;
    struct log_sink log;

    // Images that could not be read. They are told of once, however often they are asked for.
    struct {
        bool *is_image; // of each of the index; NULL: none so far
        size_t n_images, n_chunks, n_told;
        char reason[MCAP_REASON_BYTES]; // that was told last
    } lost;
};

static void mcap_close(void *state)
{
    struct mcap *mcap = state;
    if (mcap->lost.n_told < mcap->lost.n_images)
        log_to(&mcap->log, LOG_LEVEL_WARNING, "%s: in all %zu images could not be read", mcap->path,
               mcap->lost.n_images);
    free(mcap->lost.is_image);
    mcap_index_free(&mcap->index);
    bag_close(&mcap->bag);
    mcap_reader_destroy(&mcap->reader);
    if (mcap->fd >= 0)
        close(mcap->fd);
    free(mcap);
}

static int take_camera(const struct mcap *mcap, const struct capture_settings *settings,
                       struct capture_info *out_info)
{
    const struct mcap_index *index = &mcap->index;
    struct intrinsics camera = index->camera;
    if (index->width_px == 0 && index->height_px == 0) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%s: none of the images of %s can be read",
               mcap->path, index->topic);
        return -EINVAL;
    }
    if (!bag_is_size(index->width_px, index->height_px)) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%s: images of %s are %ux%u, which no camera has",
               mcap->path, index->topic, index->width_px, index->height_px);
        return -EINVAL;
    }
    if (camera.fx_px != 0 &&
        !(camera.fx_px > 0 && isfinite(camera.fx_px) && isfinite(camera.fy_px) &&
          camera.fy_px != 0 && isfinite(camera.cx_px) && isfinite(camera.cy_px))) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "%s: the calibration is not one of a camera",
               mcap->path);
        return -EINVAL;
    }
    if (camera.fx_px == 0) {
        camera = default_camera;
        log_to(&settings->log, LOG_LEVEL_WARNING,
               "%s: no calibration, taken for the usual camera of 640x480", mcap->path);
    }
    if (index->camera.fx_px != 0 && camera.width_px == index->width_px &&
        camera.height_px == index->height_px)
        snprintf(out_info->told.camera_by, sizeof out_info->told.camera_by, "its calibration");
    if (index->units_per_m != 0)
        snprintf(out_info->told.units_by, sizeof out_info->told.units_by, "the file");
    bool overridden = capture_gives_camera(settings);
    if (!overridden &&
        (camera.width_px != index->width_px || camera.height_px != index->height_px)) {
        log_to(&settings->log, settings->allow_implausible ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
               "%s: images are %ux%u, but the calibration is for %ux%u", mcap->path,
               index->width_px, index->height_px, camera.width_px, camera.height_px);
        if (!settings->allow_implausible)
            return -ERANGE;
    }
    out_info->camera = camera;
    out_info->camera.width_px = index->width_px;
    out_info->camera.height_px = index->height_px;
    out_info->units_per_m = index->units_per_m != 0 ? index->units_per_m : MCAP_DEFAULT_UNITS_PER_M;
    return 0;
}

// One file is open at a time.
static int open_part(struct mcap *mcap, size_t part)
{
    if (mcap->reader && mcap->part == part)
        return 0;
    mcap_reader_destroy(&mcap->reader);
    if (mcap->fd >= 0)
        close(mcap->fd);
    mcap->part = part;
    mcap->fd = bag_parts_open(&mcap->bag.parts, part, &mcap->log);
    return mcap->fd < 0 ? mcap->fd : mcap_reader_create(&mcap->reader, mcap->fd);
}

// Of several files. Those of our recorder are a recording each.
static int read_part(void *state, size_t part)
{
    static const struct log_sink silence = {0};
    struct mcap *mcap = state;
    int err = open_part(mcap, part);
    if (err)
        return err;
    err = mcap_scan(mcap->reader, bag_file(&mcap->bag), NULL, &silence, &mcap->index);
    mcap_index_free(&mcap->index);
    if (err)
        return err == -ENOMEM ? err : mcap_ros2_scan(mcap->reader, &mcap->bag);
    bag_parts_refuse(&mcap->bag.parts, &mcap->log);
    return -ENOTSUP;
}

static int open_images(struct mcap *mcap, const struct capture_settings *settings,
                       struct capture_info *out_info)
{
    if (mcap->bag.parts.n > 1) {
        mcap->is_ros = true;
        int err = bag_read_parts(&mcap->bag, read_part, mcap);
        return err ? err : bag_choose(&mcap->bag, settings, out_info);
    }
    const struct mcap_choice choice = {mcap->bag.wanted, settings->camera};
    int err = open_part(mcap, 0);
    if (err)
        return err;
    err = mcap_scan(mcap->reader, mcap->path, &choice, &settings->log, &mcap->index);
    mcap->is_ros = err == -ENOMSG;
    if (mcap->is_ros) {
        err = mcap_ros2_scan(mcap->reader, &mcap->bag);
        return err ? err : bag_choose(&mcap->bag, settings, out_info);
    }
    if (!err)
        err = take_camera(mcap, settings, out_info);
    out_info->n_frames = mcap->index.n_frames;
    return err;
}

static int mcap_open(void **out_state, const char *location,
                     const struct capture_settings *settings, struct capture_info *out_info)
{
    struct mcap *mcap = calloc(1, sizeof *mcap);
    if (!mcap)
        return -ENOMEM;
    mcap->log = settings->log;
    mcap->fd = -1;
    int err = bag_begin(&mcap->bag, location, ".mcap", true, &settings->log);
    mcap->path = mcap->bag.path;
    if (!err)
        err = open_images(mcap, settings, out_info);
    if (err)
        goto fail;
    *out_state = mcap;
    return 0;
fail:
    mcap_close(mcap);
    return err;
}

static void mcap_stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    const struct mcap *mcap = state;
    if (mcap->is_ros) {
        bag_stamp(&mcap->bag, i, out_time_ns, out_index);
        return;
    }
    *out_time_ns = mcap->index.frames[i].time_ns;
    *out_index = i;
}

static int decode_ros(struct mcap *mcap, uint64_t i, uint16_t *pixels, const char **out_reason)
{
    const unsigned char *message;
    size_t n_bytes;
    *out_reason = NULL; // told already
    int err = open_part(mcap, bag_part(&mcap->bag, i));
    if (err)
        return err == -ENOMEM ? err : -EBADMSG;
    err = mcap_ros2_load(mcap->reader, bag_place(&mcap->bag, i), &message, &n_bytes, out_reason);
    return err ? err : bag_decode(&mcap->bag, message, n_bytes, pixels, out_reason);
}

// The chunk that has image i cannot be unpacked: its other images are lost with it.
static void tell_of_chunk(struct mcap *mcap, uint64_t i, const char *reason)
{
    const struct mcap_index *index = &mcap->index;
    const uint64_t chunk = index->frames[i].chunk;
    size_t n_images = 0;
    for (size_t k = 0; k < index->n_frames; k++)
        if (index->frames[k].chunk == chunk) {
            mcap->lost.is_image[k] = true;
            n_images++;
        }
    mcap->lost.n_images += n_images;
    if (mcap->lost.n_chunks++ >= DAMAGE_MAX_TOLD)
        return;
    mcap->lost.n_told += n_images;
    log_to(&mcap->log, LOG_LEVEL_WARNING,
           "%s: damaged at byte %llu: %zu image%s cannot be read, from image %llu on: "
           "%s; " MCAP_FOR_OTHERS,
           mcap->path, (unsigned long long)index->chunks[chunk].offset - MCAP_RECORD_BYTES,
           n_images, n_images == 1 ? "" : "s", (unsigned long long)i, reason);
}

// The first one of several that are so for the same reason.
static void tell_of_image(struct mcap *mcap, uint64_t i, const char *reason)
{
    mcap->lost.is_image[i] = true;
    mcap->lost.n_images++;
    if (strcmp(reason, mcap->lost.reason) == 0)
        return;
    snprintf(mcap->lost.reason, sizeof mcap->lost.reason, "%s", reason);
    mcap->lost.n_told++;
    log_to(&mcap->log, LOG_LEVEL_WARNING, "%s: image %llu: %s", mcap->path, (unsigned long long)i,
           reason);
}

static int decode_foxglove(struct mcap *mcap, uint64_t i, uint16_t *pixels)
{
    char reason[MCAP_REASON_BYTES];
    const int err = mcap_decode(mcap->reader, &mcap->index, i, pixels, reason);
    if (err && !mcap->lost.is_image)
        mcap->lost.is_image = calloc(mcap->index.n_frames, sizeof *mcap->lost.is_image);
    if (err && mcap->lost.is_image && !mcap->lost.is_image[i])
        (err == -ENODATA ? tell_of_chunk : tell_of_image)(mcap, i, reason);
    return err ? -EBADMSG : 0;
}

static int mcap_decode_frame(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame)
{
    (void)frame;
    struct mcap *mcap = state;
    const char *reason;
    if (!mcap->is_ros)
        return decode_foxglove(mcap, i, pixels);
    const int err = decode_ros(mcap, i, pixels, &reason);
    if (err && reason)
        log_to(&mcap->log, LOG_LEVEL_WARNING, "%s: image %llu: %s",
               mcap->bag.parts.paths[mcap->part], (unsigned long long)i, reason);
    return err;
}

const struct capture_driver capture_driver_mcap = {
    .name = "mcap",
    .summary = "MCAP file with foxglove.RawImage depth, or of ROS (FILE#TOPIC chooses)",
    .open = mcap_open,
    .stamp = mcap_stamp,
    .decode = mcap_decode_frame,
    .close = mcap_close,
};
