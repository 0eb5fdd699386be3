// SPDX-License-Identifier: Apache-2.0
// MCAP files of Foxglove's messages: depth as foxglove.RawImage, 16UC1 of millimetres whatever the
// source's unit (REP 118: what every reader takes it for; beside it what a replay needs),
// calibration, and the daemon's own pose and tf messages. Of several cameras each has its channels,
// with its name in topics and frames; where they sit on a rig, their frames are one tree by its
// places, and the rig's one pose is there, too. mcap_chunk_writer.h has the file.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/mcap/foxglove.h"
#include "capture/recorder/mcap_chunk_writer.h"
#include "capture/recorder/recorder.h"
#include "capture/recorder/writer.h"
#include "capture/rep118.h"
#include "proto/se3.h"

#define UNITS_PER_M 1000 // of 16UC1

struct camera {
    struct intrinsics camera;
    double units_per_m;
    void *converted; // a frame as it goes out, where that is not as it is
    bool calibrated; // the calibration has been written
    char frame[WRITER_NAME_BYTES];
    bool is_carried; // its frame hangs on the first camera's, as both sit on one rig
    struct se3 T_first_camera;
};

struct mcap_writer {
    struct mcap_file *file;
    uint32_t n_cameras;
    struct camera cameras[MCAP_MAX_CAMERAS];
};

static void free_writer(struct mcap_writer *mcap)
{
    for (uint32_t i = 0; i < mcap->n_cameras; i++)
        free(mcap->cameras[i].converted);
    free(mcap);
}

// *n_largest grows to what its frames take.
static int open_camera(struct camera *camera, const struct writer_camera *from, size_t *n_largest)
{
    const struct capture_info *info = from->info;
    const size_t n_pixels = (size_t)info->camera.width_px * info->camera.height_px;
    const size_t n_image = FOXGLOVE_MAX_HEADER_BYTES + n_pixels * (sizeof(uint16_t) + 1);
    camera->camera = info->camera;
    camera->units_per_m = info->units_per_m;
    snprintf(camera->frame, sizeof camera->frame, "%s", from->frame);
    camera->converted = malloc(n_image);
    *n_largest = n_image > *n_largest ? n_image : *n_largest;
    return camera->converted ? 0 : -ENOMEM;
}

// In tf a frame has one parent: the first camera's moves in its odom, and those of cameras on the
// same rig stand still in it.
static void carry(struct camera *camera, const struct writer_camera *first,
                  const struct writer_camera *other)
{
    camera->is_carried = first->T_rig_camera && other->T_rig_camera;
    if (!camera->is_carried)
        return;
    const struct se3 T_first_rig = se3_inverse(first->T_rig_camera);
    camera->T_first_camera = se3_compose(&T_first_rig, other->T_rig_camera);
}

static int mcap_open(void **out_state, int folder, const char *name,
                     const struct writer_camera *cameras, uint32_t n_cameras)
{
    struct mcap_camera written[MCAP_MAX_CAMERAS];
    const struct mcap_content content = {MCAP_FOXGLOVE, written, n_cameras,
                                         writer_has_rig(cameras, n_cameras)};
    struct mcap_writer *mcap = calloc(1, sizeof *mcap);
    char path[128];
    size_t n_largest = 0;
    int err = mcap ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n_cameras && !err; i++) {
        mcap->n_cameras++;
        err = open_camera(&mcap->cameras[i], &cameras[i], &n_largest);
        if (i > 0)
            carry(&mcap->cameras[i], &cameras[0], &cameras[i]);
        written[i] = (struct mcap_camera){cameras[i].name, UNITS_PER_M};
    }
    snprintf(path, sizeof path, "%s.mcap", name);
    if (!err)
        err = mcap_file_create(&mcap->file, folder, path, &content, n_largest);
    if (err && mcap)
        free_writer(mcap);
    *out_state = err ? NULL : mcap;
    return err;
}

// Pixels to the nearest millimetre, and behind them what is lost by that: of DEPTH_INVALID_MAX, 0
// in 16UC1, that it is one less than 0, which in 16 bits is the same. What 16 bits of millimetres
// cannot hold is invalid. Returns the number of bytes in camera->converted.
static size_t convert(const struct camera *camera, const struct depth_frame *image)
{
    const size_t n_pixels = (size_t)image->width_px * image->height_px;
    const double scale = UNITS_PER_M / camera->units_per_m;
    struct depth_frame frame = *image;
    frame.units_per_m = camera->units_per_m;
    unsigned char *out = camera->converted, *remainders = out + 2 * n_pixels;
    const bool exact = camera->units_per_m <= FOXGLOVE_MAX_UNITS_PER_M;
    if (exact)
        remainders += foxglove_put_remainder_header(&frame, remainders);
    for (size_t i = 0; i < n_pixels; i++) {
        const double mm = floor(rep118_raw(image->depth[i]) * scale + 0.5);
        const uint16_t kept = mm <= UINT16_MAX ? (uint16_t)mm : 0;
        out[2 * i] = (unsigned char)kept;
        out[2 * i + 1] = (unsigned char)(kept >> 8);
        if (exact)
            remainders[i] = mm <= UINT16_MAX
                                ? (unsigned char)(image->depth[i] -
                                                  foxglove_units_of_mm(kept, camera->units_per_m))
                                : 0;
    }
    return (size_t)(remainders - out) + (exact ? n_pixels : 0);
}

static int mcap_write(void *state, uint32_t number, const struct capture_frame *frame,
                      uint64_t *bytes)
{
    struct mcap_writer *mcap = state;
    struct camera *camera = &mcap->cameras[number];
    const struct depth_frame *image = &frame->image;
    if (!image->depth)
        return 0;
    int err = 0;
    if (!camera->calibrated) {
        unsigned char calibration[FOXGLOVE_MAX_CALIBRATION_BYTES];
        size_t n =
            foxglove_put_calibration(&camera->camera, image->time_ns, camera->frame, calibration);
        err = mcap_file_add(mcap->file, number, MCAP_CHANNEL_CALIB, image->time_ns, calibration, n,
                            NULL, 0);
        camera->calibrated = !err;
    }
    unsigned char head[FOXGLOVE_MAX_HEADER_BYTES];
    size_t n_head = foxglove_put_image_header(image, camera->frame, head);
    const bool is_plain = camera->units_per_m == UNITS_PER_M && !rep118_has_max(image);
    if (!err)
        err = mcap_file_add(mcap->file, number, MCAP_CHANNEL_DEPTH, image->time_ns, head, n_head,
                            is_plain ? (const void *)image->depth : camera->converted,
                            is_plain
                                ? (size_t)image->width_px * image->height_px * sizeof *image->depth
                                : convert(camera, image));
    mcap_file_tell(mcap->file, bytes);
    return err;
}

static int mcap_flush(void *state, uint64_t *bytes)
{
    struct mcap_writer *mcap = state;
    int err = mcap_file_flush(mcap->file);
    mcap_file_tell(mcap->file, bytes);
    return err;
}

// As they are; but where a camera's frame hangs on the first one's, tf has that with each frame.
static int mcap_message(void *state, uint32_t number, enum recorder_topic topic, int64_t time_ns,
                        const void *data, size_t n_bytes)
{
    struct mcap_writer *mcap = state;
    unsigned char place[FOXGLOVE_MAX_TRANSFORM_BYTES];
    if (topic == RECORDER_TOPIC_RIG)
        return mcap_file_add(mcap->file, 0, MCAP_CHANNEL_RIG, time_ns, data, n_bytes, NULL, 0);
    const struct camera *camera = &mcap->cameras[number];
    if (topic == RECORDER_TOPIC_TF && camera->is_carried) {
        n_bytes = foxglove_put_transform(&camera->T_first_camera, time_ns, mcap->cameras[0].frame,
                                         camera->frame, place);
        data = place;
    }
    return mcap_file_add(mcap->file, number,
                         topic == RECORDER_TOPIC_POSE ? MCAP_CHANNEL_POSE : MCAP_CHANNEL_TF,
                         time_ns, data, n_bytes, NULL, 0);
}

static uint64_t mcap_held(const void *state)
{
    return mcap_file_held(((const struct mcap_writer *)state)->file);
}

static int mcap_close(void *state)
{
    struct mcap_writer *mcap = state;
    int err = mcap_file_close(mcap->file);
    free_writer(mcap);
    return err;
}

const struct writer_format writer_mcap = {
    .name = "mcap",
    .holds_several = true,
    .suffix = ".mcap",
    .open = mcap_open,
    .write = mcap_write,
    .flush = mcap_flush,
    .message = mcap_message,
    .held = mcap_held,
    .close = mcap_close,
};
