// SPDX-License-Identifier: Apache-2.0
// MCAP files, in two dialects. mcap: depth as foxglove.RawImage, 16UC1 of millimetres whatever the
// source's unit (REP 118: what every reader takes it for; beside it what a replay needs),
// calibration, and the daemon's own pose and tf messages as they are. ros2mcap: what `ros2 bag
// play` takes, depth as Image (16UC1 when the source's unit is the millimetre, else 32FC1),
// CameraInfo, Odometry and tf of base_link.
// Chunks span half a second at most, so that a process that is killed loses less than a second; the
// summary with its index is written at the end.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#ifdef POSED_HAVE_ZSTD
#include <zstd.h>
#endif

#include "capture/mcap/foxglove.h"
#include "capture/mcap/records.h"
#include "capture/recorder/recorder.h"
#include "capture/recorder/writer.h"
#include "capture/ros/frames.h"

#define UNITS_PER_M       1000 // of 16UC1
#define ROS_ODOM_FRAME    "odom"
#define ROS_BASE_FRAME    "base_link"
#define ROS_OPTICAL_FRAME "camera_depth_optical_frame"

#define CHUNK_NS         INT64_C(500000000)
#define CHUNK_BYTES      ((size_t)4 << 20)
#define CHUNK_MESSAGES   1024
#define ZSTD_LEVEL       1
#define MAX_CHUNK_HEADER 128

struct message_place {
    uint16_t channel;
    int64_t time_ns;
    uint64_t offset;
};

struct mcap_writer {
    int fd;
    enum mcap_dialect dialect;
    float *metres;            // of a frame that goes out as 32FC1, else NULL
    unsigned char *converted; // a frame whose source has another unit than mm, else NULL
    uint64_t position;
    uint64_t n_head_bytes;
    uint64_t told_bytes; // in all, by mcap_write and mcap_flush
    uint32_t data_crc;
    struct intrinsics camera;
    double units_per_m;
    bool calibrated; // the calibration has been written

    struct mcap_bytes chunk;
    int64_t first_ns, last_ns;
    struct message_place places[CHUNK_MESSAGES];
    size_t n_places;
    struct mcap_bytes out; // a chunk as it goes to disk
#ifdef POSED_HAVE_ZSTD
    ZSTD_CCtx *zstd;
#endif
    struct mcap_chunk_place *chunks;
    size_t chunk_capacity;
    struct mcap_totals totals;
};

// Appends what stands in `out` to the file.
static int write_out(struct mcap_writer *mcap)
{
    int err = writer_append(mcap->fd, mcap->out.data, mcap->out.n);
    if (err)
        return err;
    mcap->position += mcap->out.n;
    mcap->data_crc = (uint32_t)crc32(mcap->data_crc, mcap->out.data, (uInt)mcap->out.n);
    return 0;
}

static double file_units_per_m(const struct mcap_writer *mcap)
{
    return mcap->dialect == MCAP_FOXGLOVE ? UNITS_PER_M : mcap->units_per_m;
}

static int write_head(struct mcap_writer *mcap)
{
    mcap->out.n = 0;
    mcap_put_head(&mcap->out, mcap->dialect, file_units_per_m(mcap));
    return write_out(mcap);
}

// Packs the chunk behind the header in `out`. Returns the name of the compression.
static const char *pack(struct mcap_writer *mcap, size_t at, size_t *out_n)
{
    struct mcap_bytes *chunk = &mcap->chunk, *out = &mcap->out;
#ifdef POSED_HAVE_ZSTD
    *out_n = ZSTD_compressCCtx(mcap->zstd, out->data + at, out->capacity - at, chunk->data,
                               chunk->n, ZSTD_LEVEL);
    if (!ZSTD_isError(*out_n))
        return "zstd";
#endif
    memcpy(out->data + at, chunk->data, chunk->n);
    *out_n = chunk->n;
    return "";
}

static void put_message_indexes(struct mcap_writer *mcap, struct mcap_chunk_place *place)
{
    struct mcap_bytes *out = &mcap->out;
    size_t indexes = out->n;
    for (unsigned channel = 1; channel < MCAP_END_CHANNELS; channel++) {
        size_t n = 0;
        for (size_t i = 0; i < mcap->n_places; i++)
            n += mcap->places[i].channel == channel;
        if (!n)
            continue;
        place->index_offsets[channel] = mcap->position + out->n;
        size_t begin = mcap_begin_record(out, MCAP_MESSAGE_INDEX);
        mcap_put_number(out, channel, 2);
        mcap_put_number(out, 16 * n, 4);
        for (size_t i = 0; i < mcap->n_places; i++)
            if (mcap->places[i].channel == channel) {
                mcap_put_number(out, (uint64_t)mcap->places[i].time_ns, 8);
                mcap_put_number(out, mcap->places[i].offset, 8);
            }
        mcap_end_record(out, begin);
    }
    place->n_index_bytes = out->n - indexes;
}

static int flush_chunk(struct mcap_writer *mcap)
{
    struct mcap_bytes *chunk = &mcap->chunk, *out = &mcap->out;
    if (!chunk->n)
        return 0;
    if (mcap->totals.n_chunks == mcap->chunk_capacity) {
        size_t grown = 2 * mcap->chunk_capacity + 64;
        struct mcap_chunk_place *chunks = realloc(mcap->chunks, grown * sizeof *chunks);
        if (!chunks)
            return -ENOMEM;
        mcap->chunks = chunks;
        mcap->chunk_capacity = grown;
    }
    // the header's length depends on the name of the compression: "zstd" or ""
    struct mcap_chunk_place place = {mcap->first_ns, mcap->last_ns, mcap->position,
                                     .n_raw = chunk->n};
    size_t n_packed;
    const char *compression = pack(mcap, MAX_CHUNK_HEADER, &n_packed);
    out->n = 0;
    size_t begin = mcap_begin_record(out, MCAP_CHUNK);
    mcap_put_number(out, (uint64_t)mcap->first_ns, 8);
    mcap_put_number(out, (uint64_t)mcap->last_ns, 8);
    mcap_put_number(out, chunk->n, 8);
    mcap_put_number(out, crc32(0, chunk->data, (uInt)chunk->n), 4);
    mcap_put_string(out, compression);
    mcap_put_number(out, n_packed, 8);
    memmove(out->data + out->n, out->data + MAX_CHUNK_HEADER, n_packed);
    out->n += n_packed;
    mcap_end_record(out, begin);
    place.n_bytes = out->n;
    place.n_packed = n_packed;
    place.compression = compression;
    put_message_indexes(mcap, &place);
    int err = write_out(mcap);
    if (err)
        return err;
    mcap->chunks[mcap->totals.n_chunks++] = place;
    chunk->n = mcap->n_places = 0;
    return 0;
}

// A message of two parts into the chunk.
static int add_message(struct mcap_writer *mcap, enum mcap_channel channel, int64_t time_ns,
                       const void *head, size_t n_head, const void *body, size_t n_body)
{
    struct mcap_bytes *chunk = &mcap->chunk;
    size_t n_record = MCAP_RECORD_BYTES + MCAP_MESSAGE_HEADER_BYTES + n_head + n_body;
    if (n_record > chunk->capacity)
        return -EMSGSIZE;
    bool full = chunk->n + n_record > chunk->capacity || mcap->n_places == CHUNK_MESSAGES;
    int err =
        full || (chunk->n && llabs(time_ns - mcap->first_ns) > CHUNK_NS) ? flush_chunk(mcap) : 0;
    if (err)
        return err;
    if (!chunk->n)
        mcap->first_ns = mcap->last_ns = time_ns;
    mcap->first_ns = time_ns < mcap->first_ns ? time_ns : mcap->first_ns;
    mcap->last_ns = time_ns > mcap->last_ns ? time_ns : mcap->last_ns;
    bool first = true;
    for (int i = 1; i < MCAP_END_CHANNELS; i++)
        first = first && !mcap->totals.n_messages[i];
    mcap->totals.begin_ns =
        first || time_ns < mcap->totals.begin_ns ? time_ns : mcap->totals.begin_ns;
    mcap->totals.end_ns = first || time_ns > mcap->totals.end_ns ? time_ns : mcap->totals.end_ns;
    mcap->places[mcap->n_places++] = (struct message_place){(uint16_t)channel, time_ns, chunk->n};
    size_t begin = mcap_begin_record(chunk, MCAP_MESSAGE);
    mcap_put_number(chunk, channel, 2);
    mcap_put_number(chunk, mcap->totals.n_messages[channel]++, 4);
    mcap_put_number(chunk, (uint64_t)time_ns, 8);
    mcap_put_number(chunk, (uint64_t)time_ns, 8);
    mcap_put_bytes(chunk, head, n_head);
    mcap_put_bytes(chunk, body, n_body);
    mcap_end_record(chunk, begin);
    return 0;
}

static void free_writer(struct mcap_writer *mcap)
{
#ifdef POSED_HAVE_ZSTD
    ZSTD_freeCCtx(mcap->zstd);
#endif
    free(mcap->chunk.data);
    free(mcap->out.data);
    free(mcap->chunks);
    free(mcap->metres);
    free(mcap->converted);
    free(mcap);
}

static int take_memory(struct mcap_writer *mcap, const struct capture_info *info)
{
    size_t n_pixels = (size_t)info->camera.width_px * info->camera.height_px;
    const bool is_other = info->units_per_m != UNITS_PER_M;
    bool is_float = mcap->dialect == MCAP_ROS2 && is_other;
    size_t n_image = n_pixels * (is_float ? sizeof(float) : sizeof(uint16_t));
    if (is_float) {
        mcap->metres = malloc(n_image);
        if (!mcap->metres)
            return -ENOMEM;
    }
    if (mcap->dialect == MCAP_FOXGLOVE && is_other) {
        n_image += FOXGLOVE_MAX_HEADER_BYTES + n_pixels;
        mcap->converted = malloc(n_image);
        if (!mcap->converted)
            return -ENOMEM;
    }
    mcap->chunk.capacity = CHUNK_BYTES > 2 * n_image ? CHUNK_BYTES : 2 * n_image + 65536;
    mcap->out.capacity = mcap->chunk.capacity + mcap->chunk.capacity / 128 + 131072;
#ifdef POSED_HAVE_ZSTD
    mcap->zstd = ZSTD_createCCtx();
    if (!mcap->zstd)
        return -ENOMEM;
#endif
    mcap->chunk.data = malloc(mcap->chunk.capacity);
    mcap->out.data = malloc(mcap->out.capacity);
    return mcap->chunk.data && mcap->out.data ? 0 : -ENOMEM;
}

static int open_dialect(void **out_state, enum mcap_dialect dialect, int folder, const char *file,
                        const struct capture_info *info)
{
    struct mcap_writer *mcap = calloc(1, sizeof *mcap);
    if (!mcap)
        return -ENOMEM;
    mcap->dialect = dialect;
    mcap->camera = info->camera;
    mcap->units_per_m = info->units_per_m;
    int err = take_memory(mcap, info);
    if (err)
        goto fail;
    mcap->fd = openat(folder, file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (mcap->fd < 0) {
        err = -errno;
        goto fail;
    }
    err = write_head(mcap);
    if (err) {
        close(mcap->fd);
        unlinkat(folder, file, 0);
        goto fail;
    }
    mcap->n_head_bytes = mcap->position;
    *out_state = mcap;
    return 0;
fail:
    free_writer(mcap);
    return err;
}

static int mcap_open(void **out_state, int folder, const char *name,
                     const struct capture_info *info)
{
    char file[128];
    snprintf(file, sizeof file, "%s.mcap", name);
    return open_dialect(out_state, MCAP_FOXGLOVE, folder, file, info);
}

static int ros2mcap_open(void **out_state, int folder, const char *name,
                         const struct capture_info *info)
{
    char file[128];
    snprintf(file, sizeof file, "%s.ros2.mcap", name);
    return open_dialect(out_state, MCAP_ROS2, folder, file, info);
}

// What the file takes when it is closed now: the chunk as if it did not shrink, and the summary,
// which repeats the head and has an index of the chunks.
static void tell_bytes(struct mcap_writer *mcap, uint64_t *bytes)
{
    size_t n_summary =
        mcap->n_head_bytes + 1024 + (mcap->totals.n_chunks + 1) * MCAP_CHUNK_INDEX_BYTES;
    uint64_t n_bytes = mcap->position + mcap->chunk.n + n_summary;
    *bytes += n_bytes - mcap->told_bytes; // less than before when a chunk was packed: wraps back
    mcap->told_bytes = n_bytes;
}

// Pixels to the nearest millimetre, and behind them what is lost by that; what 16 bits of
// millimetres cannot hold is invalid. Returns the number of bytes in mcap->converted.
static size_t convert(struct mcap_writer *mcap, const struct depth_frame *image)
{
    const size_t n_pixels = (size_t)image->width_px * image->height_px;
    const double scale = UNITS_PER_M / mcap->units_per_m;
    struct depth_frame frame = *image;
    frame.units_per_m = mcap->units_per_m;
    unsigned char *out = mcap->converted, *remainders = out + 2 * n_pixels;
    const bool exact = mcap->units_per_m <= FOXGLOVE_MAX_UNITS_PER_M;
    if (exact)
        remainders += foxglove_put_remainder_header(&frame, remainders);
    for (size_t i = 0; i < n_pixels; i++) {
        const double mm = floor(image->depth[i] * scale + 0.5);
        const uint16_t kept = mm <= UINT16_MAX ? (uint16_t)mm : 0;
        out[2 * i] = (unsigned char)kept;
        out[2 * i + 1] = (unsigned char)(kept >> 8);
        if (exact)
            remainders[i] = mm <= UINT16_MAX
                                ? (unsigned char)(image->depth[i] -
                                                  foxglove_units_of_mm(kept, mcap->units_per_m))
                                : 0;
    }
    return (size_t)(remainders - out) + (exact ? n_pixels : 0);
}

static int mcap_write(void *state, const struct capture_frame *frame, uint64_t *bytes)
{
    struct mcap_writer *mcap = state;
    const struct depth_frame *image = &frame->image;
    if (!image->depth)
        return 0;
    int err = 0;
    if (!mcap->calibrated) {
        unsigned char calibration[FOXGLOVE_MAX_CALIBRATION_BYTES];
        size_t n = foxglove_put_calibration(&mcap->camera, image->time_ns, calibration);
        err = add_message(mcap, MCAP_CHANNEL_CALIB, image->time_ns, calibration, n, NULL, 0);
        mcap->calibrated = !err;
    }
    unsigned char head[FOXGLOVE_MAX_HEADER_BYTES];
    size_t n_head = foxglove_put_image_header(image, head);
    if (!err)
        err = add_message(mcap, MCAP_CHANNEL_DEPTH, image->time_ns, head, n_head,
                          mcap->converted ? mcap->converted : (const void *)image->depth,
                          mcap->converted
                              ? convert(mcap, image)
                              : (size_t)image->width_px * image->height_px * sizeof *image->depth);
    tell_bytes(mcap, bytes);
    return err;
}

// Calibration and the place of the camera, before the first frame.
static int add_ros_statics(struct mcap_writer *mcap, int64_t time_ns)
{
    unsigned char bytes[ROS_MAX_CAMERA_INFO_BYTES + ROS_MAX_TF_BYTES];
    struct se3 T_base_optical = ros_optical_in_base();
    struct ros_pose optical;
    ros_pose_of_optical(&T_base_optical, time_ns, &optical);
    optical.frame_id = ROS_BASE_FRAME;
    optical.child_frame_id = ROS_OPTICAL_FRAME;
    size_t n = ros_put_tf(&optical, bytes);
    return add_message(mcap, MCAP_CHANNEL_TF_STATIC, time_ns, bytes, n, NULL, 0);
}

// ROS nodes take an image and a camera info of the same stamp for a pair: each image has its own.
static int ros2mcap_write(void *state, const struct capture_frame *frame, uint64_t *bytes)
{
    struct mcap_writer *mcap = state;
    const struct depth_frame *image = &frame->image;
    size_t n_pixels = (size_t)image->width_px * image->height_px;
    unsigned char head[ROS_MAX_CAMERA_INFO_BYTES];
    if (!image->depth)
        return 0;
    int err = mcap->calibrated ? 0 : add_ros_statics(mcap, image->time_ns);
    mcap->calibrated = mcap->calibrated || !err;
    size_t n = ros_put_camera_info(&mcap->camera, image->time_ns, ROS_OPTICAL_FRAME, head);
    if (!err)
        err = add_message(mcap, MCAP_CHANNEL_CALIB, image->time_ns, head, n, NULL, 0);
    for (size_t i = 0; mcap->metres && i < n_pixels; i++)
        mcap->metres[i] =
            image->depth[i] ? (float)((double)image->depth[i] / mcap->units_per_m) : NAN;
    n = ros_put_image_head(image, mcap->metres != NULL, ROS_OPTICAL_FRAME, head);
    if (!err && mcap->metres)
        err = add_message(mcap, MCAP_CHANNEL_DEPTH, image->time_ns, head, n, mcap->metres,
                          n_pixels * sizeof *mcap->metres);
    else if (!err)
        err = add_message(mcap, MCAP_CHANNEL_DEPTH, image->time_ns, head, n, image->depth,
                          n_pixels * sizeof *image->depth);
    tell_bytes(mcap, bytes);
    return err;
}

static int mcap_flush(void *state, uint64_t *bytes)
{
    struct mcap_writer *mcap = state;
    int err = flush_chunk(mcap);
    tell_bytes(mcap, bytes);
    return err;
}

static int mcap_message(void *state, enum recorder_topic topic, int64_t time_ns, const void *data,
                        size_t n_bytes)
{
    struct mcap_writer *mcap = state;
    return add_message(mcap, topic == RECORDER_TOPIC_POSE ? MCAP_CHANNEL_POSE : MCAP_CHANNEL_TF,
                       time_ns, data, n_bytes, NULL, 0);
}

// Odometry and tf out of the daemon's pose; its own tf says the same of the camera.
static int ros2mcap_message(void *state, enum recorder_topic topic, int64_t time_ns,
                            const void *data, size_t n_bytes)
{
    struct mcap_writer *mcap = state;
    struct foxglove_odometry odometry;
    if (topic != RECORDER_TOPIC_POSE || !foxglove_get_odometry(data, n_bytes, &odometry))
        return 0;
    struct ros_tracked tracked = {
        .time_ns = time_ns,
        .T_odom_camera = se3_from_quaternion(odometry.orientation_xyzw, odometry.position_m)};
    memcpy(tracked.covariance, odometry.covariance, sizeof tracked.covariance);
    memcpy(tracked.velocity, odometry.linear_m_s, sizeof odometry.linear_m_s);
    memcpy(tracked.velocity + 3, odometry.angular_rad_s, sizeof odometry.angular_rad_s);
    struct se3 T_base_optical = ros_optical_in_base();
    struct ros_pose pose = {.frame_id = ROS_ODOM_FRAME, .child_frame_id = ROS_BASE_FRAME};
    unsigned char bytes[ROS_MAX_ODOMETRY_BYTES];
    ros_pose_of_base(&tracked, &T_base_optical, &pose);
    size_t n = ros_put_odometry(&pose, bytes);
    int err = add_message(mcap, MCAP_CHANNEL_POSE, time_ns, bytes, n, NULL, 0);
    n = ros_put_tf(&pose, bytes);
    return err ? err : add_message(mcap, MCAP_CHANNEL_TF, time_ns, bytes, n, NULL, 0);
}

static uint64_t mcap_held(const void *state)
{
    const struct mcap_writer *mcap = state;
    uint64_t n = 0;
    for (size_t i = 0; i < mcap->n_places; i++)
        n += mcap->places[i].channel == MCAP_CHANNEL_DEPTH;
    return n;
}

// DataEnd, summary and footer.
static int write_tail(struct mcap_writer *mcap)
{
    struct mcap_bytes *out = &mcap->out;
    struct mcap_bytes tail = {.capacity = MCAP_MAX_HEAD_BYTES +
                                          mcap->totals.n_chunks * MCAP_CHUNK_INDEX_BYTES};
    tail.data = malloc(tail.capacity);
    if (!tail.data)
        return -ENOMEM;
    out->n = 0;
    size_t begin = mcap_begin_record(out, MCAP_DATA_END);
    mcap_put_number(out, mcap->data_crc, 4);
    mcap_end_record(out, begin);
    mcap->totals.chunks = mcap->chunks;
    mcap_put_summary(&tail, mcap->dialect, mcap->position + out->n, &mcap->totals,
                     file_units_per_m(mcap));
    int err = writer_append(mcap->fd, out->data, out->n);
    if (!err)
        err = writer_append(mcap->fd, tail.data, tail.n);
    free(tail.data);
    return err;
}

static int mcap_close(void *state)
{
    struct mcap_writer *mcap = state;
    int err = flush_chunk(mcap);
    if (!err)
        err = write_tail(mcap);
    if (close(mcap->fd) && !err)
        err = -errno;
    free_writer(mcap);
    return err;
}

const struct writer_format writer_mcap = {
    .name = "mcap",
    .suffix = ".mcap",
    .open = mcap_open,
    .write = mcap_write,
    .flush = mcap_flush,
    .message = mcap_message,
    .held = mcap_held,
    .close = mcap_close,
};

const struct writer_format writer_ros2mcap = {
    .name = "ros2mcap",
    .suffix = ".ros2.mcap",
    .open = ros2mcap_open,
    .write = ros2mcap_write,
    .flush = mcap_flush,
    .message = ros2mcap_message,
    .held = mcap_held,
    .close = mcap_close,
};
