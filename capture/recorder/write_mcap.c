// SPDX-License-Identifier: Apache-2.0
// MCAP files, in two dialects. mcap: depth as foxglove.RawImage, 16UC1 of millimetres whatever the
// source's unit (REP 118: what every reader takes it for; beside it what a replay needs),
// calibration, and the daemon's own pose and tf messages. ros2mcap: what `ros2 bag play` takes,
// depth as Image (16UC1 when the source's unit is the millimetre, else 32FC1), CameraInfo, Odometry
// and tf of the base and odom. Of several cameras each has its channels, with its name in topics
// and frames; where they sit on a rig, their frames are one tree by its places.
// mcap_chunk_writer.h has the file.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/mcap/foxglove.h"
#include "capture/recorder/mcap_chunk_writer.h"
#include "capture/recorder/recorder.h"
#include "capture/recorder/writer.h"
#include "capture/rep118.h"
#include "capture/ros/frames.h"

#define UNITS_PER_M 1000 // of 16UC1

struct camera {
    struct intrinsics camera;
    double units_per_m;
    void *converted; // a frame as it goes out
    bool is_carried; // its frame hangs on the first camera's, as both sit on one rig
    // Of mcap.
    bool calibrated; // the calibration has been written
    char frame[WRITER_NAME_BYTES];
    struct se3 T_first_camera;
    // Of ROS.
    char map_frame[64], odom_frame[64], base_frame[64], optical_frame[64];
    struct se3 T_base_optical, T_first_base;
};

struct mcap_writer {
    struct mcap_file *file;
    uint32_t n_cameras;
    struct camera cameras[MCAP_MAX_CAMERAS];
    bool has_statics; // of ROS: tf_static has been written
};

static void free_writer(struct mcap_writer *mcap)
{
    for (uint32_t i = 0; i < mcap->n_cameras; i++)
        free(mcap->cameras[i].converted);
    free(mcap);
}

static void set_frame(char frame[64], const char *name, const char *of)
{
    snprintf(frame, 64, "%.31s%s%.31s", name, name[0] ? "/" : "", of);
}

// *n_largest grows to what its frames take.
static int open_camera(struct camera *camera, enum mcap_dialect dialect,
                       const struct writer_camera *from, size_t *n_largest)
{
    const struct capture_info *info = from->info;
    const size_t n_pixels = (size_t)info->camera.width_px * info->camera.height_px;
    const size_t n_image = dialect == MCAP_ROS2
                               ? n_pixels * sizeof(float)
                               : FOXGLOVE_MAX_HEADER_BYTES + n_pixels * (sizeof(uint16_t) + 1);
    camera->camera = info->camera;
    camera->units_per_m = info->units_per_m;
    snprintf(camera->frame, sizeof camera->frame, "%s", from->frame);
    camera->T_base_optical = from->T_base_optical;
    if (from->ros_frames->map[0])
        set_frame(camera->map_frame, from->name, from->ros_frames->map);
    set_frame(camera->odom_frame, from->name, from->ros_frames->odom);
    set_frame(camera->base_frame, from->name, from->ros_frames->base);
    set_frame(camera->optical_frame, from->name, from->ros_frames->optical);
    camera->converted = malloc(n_image);
    *n_largest = n_image > *n_largest ? n_image : *n_largest;
    return camera->converted ? 0 : -ENOMEM;
}

// In tf a frame has one parent: the first camera's moves in its odom, and those of cameras on the
// same rig stand still in it; of ROS their bases.
static void carry(struct camera *camera, const struct writer_camera *first,
                  const struct writer_camera *other)
{
    camera->is_carried = first->T_rig_camera && other->T_rig_camera;
    if (!camera->is_carried)
        return;
    const struct se3 T_first_rig = se3_inverse(first->T_rig_camera);
    camera->T_first_camera = se3_compose(&T_first_rig, other->T_rig_camera);
    camera->T_first_base =
        ros_base_in_base(&first->T_base_optical, &camera->T_first_camera, &other->T_base_optical);
}

static int open_dialect(void **out_state, enum mcap_dialect dialect, int folder, const char *name,
                        const char *suffix, const struct writer_camera *cameras, uint32_t n_cameras)
{
    struct mcap_camera written[MCAP_MAX_CAMERAS];
    const struct mcap_content content = {dialect, written, n_cameras};
    struct mcap_writer *mcap = calloc(1, sizeof *mcap);
    char path[128];
    size_t n_largest = 0;
    int err = mcap ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n_cameras && !err; i++) {
        mcap->n_cameras++;
        err = open_camera(&mcap->cameras[i], dialect, &cameras[i], &n_largest);
        if (i > 0)
            carry(&mcap->cameras[i], &cameras[0], &cameras[i]);
        written[i] = (struct mcap_camera){
            cameras[i].name, dialect == MCAP_FOXGLOVE ? UNITS_PER_M : cameras[i].info->units_per_m};
    }
    snprintf(path, sizeof path, "%s%s", name, suffix);
    if (!err)
        err = mcap_file_create(&mcap->file, folder, path, &content, n_largest);
    if (err && mcap)
        free_writer(mcap);
    *out_state = err ? NULL : mcap;
    return err;
}

static int mcap_open(void **out_state, int folder, const char *name,
                     const struct writer_camera *cameras, uint32_t n_cameras)
{
    return open_dialect(out_state, MCAP_FOXGLOVE, folder, name, ".mcap", cameras, n_cameras);
}

static int ros2mcap_open(void **out_state, int folder, const char *name,
                         const struct writer_camera *cameras, uint32_t n_cameras)
{
    return open_dialect(out_state, MCAP_ROS2, folder, name, ".ros2.mcap", cameras, n_cameras);
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

// Where the cameras are, before the first frame: in one message, as whoever comes late to a topic
// that is kept is given its last one.
static int add_ros_statics(struct mcap_writer *mcap, int64_t time_ns)
{
    unsigned char bytes[2 * MCAP_MAX_CAMERAS * ROS_MAX_TF_BYTES];
    struct ros_pose poses[2 * MCAP_MAX_CAMERAS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < mcap->n_cameras; i++) {
        const struct camera *camera = &mcap->cameras[i];
        ros_pose_of_static(&camera->T_base_optical, time_ns, &poses[n]);
        poses[n].frame_id = camera->base_frame;
        poses[n++].child_frame_id = camera->optical_frame;
        if (!camera->is_carried)
            continue;
        ros_pose_of_static(&camera->T_first_base, time_ns, &poses[n]);
        poses[n].frame_id = mcap->cameras[0].base_frame;
        poses[n++].child_frame_id = camera->base_frame;
    }
    size_t n_bytes = ros_put_tf(poses, n, bytes);
    return mcap_file_add(mcap->file, 0, MCAP_CHANNEL_TF_STATIC, time_ns, bytes, n_bytes, NULL, 0);
}

// ROS nodes take an image and a camera info of the same stamp for a pair: each image has its own.
static int ros2mcap_write(void *state, uint32_t number, const struct capture_frame *frame,
                          uint64_t *bytes)
{
    struct mcap_writer *mcap = state;
    struct camera *camera = &mcap->cameras[number];
    const struct depth_frame *image = &frame->image;
    size_t n_pixels = (size_t)image->width_px * image->height_px;
    unsigned char head[ROS_MAX_CAMERA_INFO_BYTES];
    if (!image->depth)
        return 0;
    int err = mcap->has_statics ? 0 : add_ros_statics(mcap, image->time_ns);
    mcap->has_statics = mcap->has_statics || !err;
    size_t n = ros_put_camera_info(&camera->camera, image->time_ns, camera->optical_frame, head);
    if (!err)
        err =
            mcap_file_add(mcap->file, number, MCAP_CHANNEL_CALIB, image->time_ns, head, n, NULL, 0);
    const bool is_float = camera->units_per_m != UNITS_PER_M;
    if (is_float)
        rep118_put_metres(image, camera->units_per_m, camera->converted);
    else
        rep118_put_millimetres(image, camera->converted);
    n = ros_put_image_head(image, is_float, camera->optical_frame, head);
    if (!err)
        err = mcap_file_add(mcap->file, number, MCAP_CHANNEL_DEPTH, image->time_ns, head, n,
                            camera->converted,
                            n_pixels * (is_float ? sizeof(float) : sizeof(uint16_t)));
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
    const struct camera *camera = &mcap->cameras[number];
    unsigned char place[FOXGLOVE_MAX_TRANSFORM_BYTES];
    if (topic == RECORDER_TOPIC_TF && camera->is_carried) {
        n_bytes = foxglove_put_transform(&camera->T_first_camera, time_ns, mcap->cameras[0].frame,
                                         camera->frame, place);
        data = place;
    }
    return mcap_file_add(mcap->file, number,
                         topic == RECORDER_TOPIC_POSE ? MCAP_CHANNEL_POSE : MCAP_CHANNEL_TF,
                         time_ns, data, n_bytes, NULL, 0);
}

// Where odom is in the map, where there is one, and base_link in odom; not while the camera is
// lost, as live: nobody knows where it is.
static int add_ros_tf(struct mcap_writer *mcap, uint32_t number, const struct ros_pose *pose,
                      const struct foxglove_odometry *odometry)
{
    const struct camera *camera = &mcap->cameras[number];
    unsigned char bytes[2 * ROS_MAX_TF_BYTES];
    struct ros_pose poses[2];
    uint32_t n = 0;
    if (odometry->has_map && camera->map_frame[0]) {
        const struct se3 T_map_odom =
            se3_from_quaternion(odometry->map_orientation_xyzw, odometry->map_position_m);
        const struct se3 T = ros_odom_in_map(&T_map_odom, &camera->T_base_optical);
        ros_pose_of_static(&T, pose->time_ns, &poses[n]);
        poses[n].frame_id = camera->map_frame;
        poses[n++].child_frame_id = camera->odom_frame;
    }
    if (!odometry->is_lost)
        poses[n++] = *pose;
    if (n == 0)
        return 0;
    const size_t n_bytes = ros_put_tf(poses, n, bytes);
    return mcap_file_add(mcap->file, number, MCAP_CHANNEL_TF, pose->time_ns, bytes, n_bytes, NULL,
                         0);
}

// Odometry and tf out of the daemon's pose; its own tf says the same of the camera.
static int ros2mcap_message(void *state, uint32_t number, enum recorder_topic topic,
                            int64_t time_ns, const void *data, size_t n_bytes)
{
    struct mcap_writer *mcap = state;
    const struct camera *camera = &mcap->cameras[number];
    struct foxglove_odometry odometry;
    if (topic != RECORDER_TOPIC_POSE || !foxglove_get_odometry(data, n_bytes, &odometry))
        return 0;
    struct ros_tracked tracked = {
        .time_ns = time_ns,
        .is_cut = odometry.is_cut,
        .T_odom_camera = se3_from_quaternion(odometry.orientation_xyzw, odometry.position_m),
        .knows_velocity = odometry.has_velocity_covariance};
    memcpy(tracked.covariance, odometry.covariance, sizeof tracked.covariance);
    memcpy(tracked.velocity, odometry.linear_m_s, sizeof odometry.linear_m_s);
    memcpy(tracked.velocity + 3, odometry.angular_rad_s, sizeof odometry.angular_rad_s);
    memcpy(tracked.velocity_covariance, odometry.velocity_covariance,
           sizeof tracked.velocity_covariance);
    struct ros_pose pose = {.frame_id = camera->odom_frame, .child_frame_id = camera->base_frame};
    unsigned char bytes[ROS_MAX_ODOMETRY_BYTES];
    ros_pose_of_base(&tracked, &camera->T_base_optical, &pose);
    size_t n = ros_put_odometry(&pose, bytes);
    int err = mcap_file_add(mcap->file, number, MCAP_CHANNEL_POSE, time_ns, bytes, n, NULL, 0);
    if (err || camera->is_carried)
        return err;
    return add_ros_tf(mcap, number, &pose, &odometry);
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

const struct writer_format writer_ros2mcap = {
    .name = "ros2mcap",
    .holds_several = true,
    .suffix = ".ros2.mcap",
    .open = ros2mcap_open,
    .write = ros2mcap_write,
    .flush = mcap_flush,
    .message = ros2mcap_message,
    .held = mcap_held,
    .close = mcap_close,
};
