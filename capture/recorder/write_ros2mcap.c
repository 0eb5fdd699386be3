// SPDX-License-Identifier: Apache-2.0
// MCAP files for ROS 2, as `ros2 bag play` takes them: depth as Image (16UC1 when the source's unit
// is the millimetre, else 32FC1), CameraInfo, Odometry and tf, as the daemon sends them over DDS.
// Of several cameras each has its channels, with its name in topics and frames; where they sit on a
// rig, their frames are one tree by its places, which moves as the rig does (rig_tf.h), and the
// rig's one pose is on /rig/odom. mcap_chunk_writer.h has the file.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/mcap/foxglove.h"
#include "capture/recorder/mcap_chunk_writer.h"
#include "capture/recorder/recorded_tf.h"
#include "capture/recorder/recorder.h"
#include "capture/recorder/writer.h"
#include "capture/rep118.h"
#include "capture/ros/frames.h"

#define MM_PER_M 1000 // 16UC1

struct camera {
    struct intrinsics camera;
    double units_per_m;
    void *converted; // a frame as it goes out
    char map_frame[64], odom_frame[64], base_frame[64], optical_frame[64];
    struct se3 T_base_optical;
    bool has_map; // where odom lies in its map, as tf tells it
    struct se3 T_map_odom;
};

struct ros2mcap {
    struct mcap_file *file;
    uint32_t n_cameras;
    struct camera cameras[MCAP_MAX_CAMERAS];
    uint64_t statics_chunk; // the last one that has tf_static, 0: none
    struct recorded_tf *tf;
    char rig_odom_frame[64];
};

static void free_writer(struct ros2mcap *mcap)
{
    for (uint32_t i = 0; i < mcap->n_cameras; i++)
        free(mcap->cameras[i].converted);
    recorded_tf_destroy(&mcap->tf);
    free(mcap);
}

static void set_frame(char frame[64], const char *name, const char *of)
{
    snprintf(frame, 64, "%.31s%s%.31s", name, name[0] ? "/" : "", of);
}

// *n_largest grows to what its frames take.
static int open_camera(struct camera *camera, const struct writer_camera *from, size_t *n_largest)
{
    const struct capture_info *info = from->info;
    const size_t n = (size_t)info->camera.width_px * info->camera.height_px * sizeof(float);
    camera->camera = info->camera;
    camera->units_per_m = info->units_per_m;
    camera->T_base_optical = from->T_base_optical;
    if (from->ros_frames->map[0])
        set_frame(camera->map_frame, from->name, from->ros_frames->map);
    set_frame(camera->odom_frame, from->name, from->ros_frames->odom);
    set_frame(camera->base_frame, from->name, from->ros_frames->base);
    set_frame(camera->optical_frame, from->name, from->ros_frames->optical);
    camera->converted = malloc(n);
    *n_largest = n > *n_largest ? n : *n_largest;
    return camera->converted ? 0 : -ENOMEM;
}

static int ros2mcap_open(void **out_state, int folder, const char *name,
                         const struct writer_camera *cameras, uint32_t n_cameras)
{
    struct mcap_camera written[MCAP_MAX_CAMERAS];
    const struct mcap_content content = {MCAP_ROS2, written, n_cameras,
                                         writer_has_rig(cameras, n_cameras)};
    struct ros2mcap *mcap = calloc(1, sizeof *mcap);
    char path[128];
    size_t n_largest = 0;
    int err = mcap ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n_cameras && !err; i++) {
        mcap->n_cameras++;
        err = open_camera(&mcap->cameras[i], &cameras[i], &n_largest);
        written[i] = (struct mcap_camera){cameras[i].name, cameras[i].info->units_per_m};
    }
    if (!err) {
        set_frame(mcap->rig_odom_frame, "rig", cameras[0].ros_frames->odom);
        err = recorded_tf_create(&mcap->tf, cameras, n_cameras, true);
    }
    snprintf(path, sizeof path, "%s.ros2.mcap", name);
    if (!err)
        err = mcap_file_create(&mcap->file, folder, path, &content, n_largest);
    if (err && mcap)
        free_writer(mcap);
    *out_state = err ? NULL : mcap;
    return err;
}

// Where the cameras are: in one message, as whoever comes late to a topic that is kept is given its
// last one.
static int add_statics(struct ros2mcap *mcap, int64_t time_ns)
{
    unsigned char bytes[2 * MCAP_MAX_CAMERAS * ROS_MAX_TF_BYTES];
    struct ros_pose poses[2 * MCAP_MAX_CAMERAS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < mcap->n_cameras; i++) {
        const struct camera *camera = &mcap->cameras[i];
        const struct se3 *T_first_base = recorded_tf_place(mcap->tf, i);
        ros_pose_of_static(&camera->T_base_optical, time_ns, &poses[n]);
        poses[n].frame_id = camera->base_frame;
        poses[n++].child_frame_id = camera->optical_frame;
        if (!T_first_base)
            continue;
        ros_pose_of_static(T_first_base, time_ns, &poses[n]);
        poses[n].frame_id = mcap->cameras[0].base_frame;
        poses[n++].child_frame_id = camera->base_frame;
    }
    size_t n_bytes = ros_put_tf(poses, n, bytes);
    return mcap_file_add(mcap->file, 0, MCAP_CHANNEL_TF_STATIC, time_ns, bytes, n_bytes, NULL, 0);
}

// Each chunk with images has tf_static before them: whoever loses others, or begins in the middle,
// has it all the same. `n_image` bytes are the image's.
static int begin_image(struct ros2mcap *mcap, int64_t time_ns, size_t n_image)
{
    const size_t n_before =
        2 * MCAP_MAX_CAMERAS * ROS_MAX_TF_BYTES + (size_t)ROS_MAX_CAMERA_INFO_BYTES;
    uint64_t chunk;
    int err = mcap_file_make_room(mcap->file, time_ns, 3, n_before + n_image, &chunk);
    if (err || mcap->statics_chunk == chunk)
        return err;
    err = add_statics(mcap, time_ns);
    if (!err)
        mcap->statics_chunk = chunk;
    return err;
}

// ROS nodes take an image and a camera info of the same stamp for a pair: each image has its own.
static int ros2mcap_write(void *state, uint32_t number, const struct capture_frame *frame,
                          uint64_t *bytes)
{
    struct ros2mcap *mcap = state;
    struct camera *camera = &mcap->cameras[number];
    const struct depth_frame *image = &frame->image;
    const bool is_float = camera->units_per_m != MM_PER_M;
    size_t n_pixels = (size_t)image->width_px * image->height_px;
    const size_t n_image = n_pixels * (is_float ? sizeof(float) : sizeof(uint16_t));
    unsigned char head[ROS_MAX_CAMERA_INFO_BYTES];
    if (!image->depth)
        return 0;
    int err = begin_image(mcap, image->time_ns, ROS_MAX_CAMERA_INFO_BYTES + n_image);
    size_t n = ros_put_camera_info(&camera->camera, image->time_ns, camera->optical_frame, head);
    if (!err)
        err =
            mcap_file_add(mcap->file, number, MCAP_CHANNEL_CALIB, image->time_ns, head, n, NULL, 0);
    if (is_float)
        rep118_put_metres(image, camera->units_per_m, camera->converted);
    else
        rep118_put_millimetres(image, camera->converted);
    n = ros_put_image_head(image, is_float, camera->optical_frame, head);
    if (!err)
        err = mcap_file_add(mcap->file, number, MCAP_CHANNEL_DEPTH, image->time_ns, head, n,
                            camera->converted, n_image);
    mcap_file_tell(mcap->file, bytes);
    return err;
}

static int ros2mcap_flush(void *state, uint64_t *bytes)
{
    struct ros2mcap *mcap = state;
    int err = mcap_file_flush(mcap->file);
    mcap_file_tell(mcap->file, bytes);
    return err;
}

static void set_map(struct ros2mcap *mcap, uint32_t number,
                    const struct foxglove_odometry *odometry)
{
    struct camera *camera = &mcap->cameras[number];
    const bool has_map = odometry->has_map && camera->map_frame[0];
    struct se3 T_map_odom = se3_identity();
    if (has_map) {
        T_map_odom = se3_from_quaternion(odometry->map_orientation_xyzw, odometry->map_position_m);
        T_map_odom = ros_odom_in_map(&T_map_odom, &camera->T_base_optical);
    }
    if (!recorded_tf_map(mcap->tf, number, &T_map_odom))
        return;
    camera->has_map = has_map;
    camera->T_map_odom = T_map_odom;
}

// Where odom is in the map, where there is one, and the base in odom; base NULL: nobody knows.
static int add_tf(struct ros2mcap *mcap, const struct camera *camera, int64_t time_ns,
                  const struct ros_pose *base)
{
    unsigned char bytes[2 * ROS_MAX_TF_BYTES];
    struct ros_pose poses[2];
    uint32_t n = 0;
    if (camera->has_map) {
        ros_pose_of_static(&camera->T_map_odom, time_ns, &poses[n]);
        poses[n].frame_id = camera->map_frame;
        poses[n++].child_frame_id = camera->odom_frame;
    }
    if (base) {
        poses[n] = *base;
        poses[n].frame_id = camera->odom_frame;
        poses[n++].child_frame_id = camera->base_frame;
    }
    if (n == 0)
        return 0;
    const size_t n_bytes = ros_put_tf(poses, n, bytes);
    return mcap_file_add(mcap->file, 0, MCAP_CHANNEL_TF, time_ns, bytes, n_bytes, NULL, 0);
}

static int follow_tf(struct ros2mcap *mcap, uint32_t number, const struct ros_pose *own,
                     const struct foxglove_odometry *odometry)
{
    const struct se3 T_odom_base = se3_from_quaternion(own->orientation_xyzw, own->position_m);
    struct recorded_move move;
    int err = 0;
    recorded_tf_put(mcap->tf, number, own->time_ns, &T_odom_base, odometry);
    set_map(mcap, number, odometry);
    while (!err && recorded_tf_next(mcap->tf, &move)) {
        struct ros_pose pose = *own;
        if (!move.is_own)
            ros_pose_of_static(&move.T_odom_base, move.time_ns, &pose);
        err = add_tf(mcap, &mcap->cameras[move.camera], move.time_ns, move.is_known ? &pose : NULL);
    }
    return err;
}

// Odometry and tf out of the daemon's pose. The rig's pose is of the first camera, whose base it
// has.
static int ros2mcap_message(void *state, uint32_t number, enum recorder_topic topic,
                            int64_t time_ns, const void *data, size_t n_bytes)
{
    struct ros2mcap *mcap = state;
    const bool is_rig = topic == RECORDER_TOPIC_RIG;
    const struct camera *camera = &mcap->cameras[is_rig ? 0 : number];
    struct foxglove_odometry odometry;
    if (!foxglove_get_odometry(data, n_bytes, &odometry))
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
    struct ros_pose pose = {.frame_id = is_rig ? mcap->rig_odom_frame : camera->odom_frame,
                            .child_frame_id = camera->base_frame};
    unsigned char bytes[ROS_MAX_ODOMETRY_BYTES];
    ros_pose_of_base(&tracked, &camera->T_base_optical, &pose);
    size_t n = ros_put_odometry(&pose, bytes);
    int err =
        mcap_file_add(mcap->file, is_rig ? 0 : number,
                      is_rig ? MCAP_CHANNEL_RIG : MCAP_CHANNEL_POSE, time_ns, bytes, n, NULL, 0);
    return err || is_rig ? err : follow_tf(mcap, number, &pose, &odometry);
}

static uint64_t ros2mcap_held(const void *state)
{
    return mcap_file_held(((const struct ros2mcap *)state)->file);
}

static int ros2mcap_close(void *state)
{
    struct ros2mcap *mcap = state;
    int err = mcap_file_close(mcap->file);
    free_writer(mcap);
    return err;
}

const struct writer_format writer_ros2mcap = {
    .name = "ros2mcap",
    .holds_several = true,
    .suffix = ".ros2.mcap",
    .open = ros2mcap_open,
    .write = ros2mcap_write,
    .flush = ros2mcap_flush,
    .message = ros2mcap_message,
    .held = ros2mcap_held,
    .close = ros2mcap_close,
};
