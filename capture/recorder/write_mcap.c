// SPDX-License-Identifier: Apache-2.0
// MCAP files of Foxglove's messages: depth as foxglove.RawImage, 16UC1 of millimetres whatever the
// source's unit (REP 118: what every reader takes it for; beside it what a replay needs),
// calibration, the daemon's own pose messages, and tf (recorded_tf.h). Of several cameras each has
// its channels, with its name in topics and frames; where they sit on a rig, their frames are one
// tree by its places, and the rig's one pose is there, too. mcap_chunk_writer.h has the file.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/mcap/foxglove.h"
#include "capture/recorder/mcap_chunk_writer.h"
#include "capture/recorder/recorded_tf.h"
#include "capture/recorder/recorder.h"
#include "capture/recorder/writer.h"
#include "capture/rep118.h"
#include "proto/se3.h"

#define UNITS_PER_M 1000 // of 16UC1

struct camera {
    struct intrinsics camera;
    double units_per_m;
    void *converted;           // a frame as it goes out, where that is not as it is
    uint64_t calibrated_chunk; // the last one that has the calibration, 0: none
    char frame[WRITER_NAME_BYTES], odom_frame[WRITER_NAME_BYTES];
};

struct mcap_writer {
    struct mcap_file *file;
    uint32_t n_cameras;
    struct camera cameras[MCAP_MAX_CAMERAS];
    struct recorded_tf *tf;
};

static void free_writer(struct mcap_writer *mcap)
{
    for (uint32_t i = 0; i < mcap->n_cameras; i++)
        free(mcap->cameras[i].converted);
    recorded_tf_destroy(&mcap->tf);
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
    snprintf(camera->odom_frame, sizeof camera->odom_frame, "%s", from->odom_frame);
    camera->converted = malloc(n_image);
    *n_largest = n_image > *n_largest ? n_image : *n_largest;
    return camera->converted ? 0 : -ENOMEM;
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
        written[i] = (struct mcap_camera){cameras[i].name, UNITS_PER_M};
    }
    snprintf(path, sizeof path, "%s.mcap", name);
    if (!err)
        err = recorded_tf_create(&mcap->tf, cameras, n_cameras, false);
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

// Each chunk with images has the calibration before them: whoever loses others, or begins in the
// middle, has it all the same.
static int add_calibration(struct mcap_writer *mcap, uint32_t number, int64_t time_ns,
                           size_t n_image)
{
    struct camera *camera = &mcap->cameras[number];
    uint64_t chunk;
    int err = mcap_file_make_room(mcap->file, time_ns, 2, FOXGLOVE_MAX_CALIBRATION_BYTES + n_image,
                                  &chunk);
    if (err || camera->calibrated_chunk == chunk)
        return err;
    unsigned char calibration[FOXGLOVE_MAX_CALIBRATION_BYTES];
    const size_t n = foxglove_put_calibration(&camera->camera, time_ns, camera->frame, calibration);
    err = mcap_file_add(mcap->file, number, MCAP_CHANNEL_CALIB, time_ns, calibration, n, NULL, 0);
    if (!err)
        camera->calibrated_chunk = chunk;
    return err;
}

static int mcap_write(void *state, uint32_t number, const struct capture_frame *frame,
                      uint64_t *bytes)
{
    struct mcap_writer *mcap = state;
    struct camera *camera = &mcap->cameras[number];
    const struct depth_frame *image = &frame->image;
    if (!image->depth)
        return 0;
    unsigned char head[FOXGLOVE_MAX_HEADER_BYTES];
    size_t n_head = foxglove_put_image_header(image, camera->frame, head);
    const bool is_plain = camera->units_per_m == UNITS_PER_M && !rep118_has_max(image);
    const void *body = is_plain ? (const void *)image->depth : camera->converted;
    const size_t n_body = is_plain ? (size_t)image->width_px * image->height_px * sizeof(uint16_t)
                                   : convert(camera, image);
    int err = add_calibration(mcap, number, image->time_ns, n_head + n_body);
    if (!err)
        err = mcap_file_add(mcap->file, number, MCAP_CHANNEL_DEPTH, image->time_ns, head, n_head,
                            body, n_body);
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

static int add_transform(struct mcap_writer *mcap, uint32_t number, const struct se3 *T,
                         const double xyzw[4], int64_t time_ns, const char *parent)
{
    unsigned char bytes[FOXGLOVE_MAX_TRANSFORM_BYTES];
    const size_t n_bytes =
        foxglove_put_transform(T->t_m, xyzw, time_ns, parent, mcap->cameras[number].frame, bytes);
    return mcap_file_add(mcap->file, number, MCAP_CHANNEL_TF, time_ns, bytes, n_bytes, NULL, 0);
}

// What a pose says to tf; of a camera whose frame hangs on the first one's its place, each time, as
// there is no topic that is kept. A pose as it was published has a quaternion that never jumps in
// sign.
static int follow_tf(struct mcap_writer *mcap, uint32_t number, int64_t time_ns,
                     const struct foxglove_odometry *odometry)
{
    const struct se3 *place = recorded_tf_place(mcap->tf, number);
    const struct se3 T_odom_camera =
        se3_from_quaternion(odometry->orientation_xyzw, odometry->position_m);
    struct recorded_move move;
    double xyzw[4];
    int err = 0;
    if (place) {
        se3_to_quaternion(place, xyzw);
        err = add_transform(mcap, number, place, xyzw, time_ns, mcap->cameras[0].frame);
    }
    recorded_tf_put(mcap->tf, number, time_ns, &T_odom_camera, odometry);
    while (!err && recorded_tf_next(mcap->tf, &move)) {
        if (!move.is_known)
            continue;
        se3_to_quaternion(&move.T_odom_base, xyzw);
        err = add_transform(mcap, move.camera, &move.T_odom_base,
                            move.is_own ? odometry->orientation_xyzw : xyzw, move.time_ns,
                            mcap->cameras[move.camera].odom_frame);
    }
    return err;
}

// Poses as they are, and tf out of them.
static int mcap_message(void *state, uint32_t number, enum recorder_topic topic, int64_t time_ns,
                        const void *data, size_t n_bytes)
{
    struct mcap_writer *mcap = state;
    struct foxglove_odometry odometry;
    const bool is_rig = topic == RECORDER_TOPIC_RIG;
    const int err = mcap_file_add(mcap->file, is_rig ? 0 : number,
                                  is_rig ? MCAP_CHANNEL_RIG : MCAP_CHANNEL_POSE, time_ns, data,
                                  n_bytes, NULL, 0);
    if (err || is_rig || !foxglove_get_odometry(data, n_bytes, &odometry))
        return err;
    return follow_tf(mcap, number, time_ns, &odometry);
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
