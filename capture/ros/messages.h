// SPDX-License-Identifier: Apache-2.0
// The ROS messages that a depth source is made of, and those that poses leave in. Field by field as
// the .msg files of ROS have them; ROS 1 and ROS 2 differ in the header only.
#ifndef POSED_CAPTURE_ROS_MESSAGES_H
#define POSED_CAPTURE_ROS_MESSAGES_H

#include "capture/ros/cdr.h"
#include "proto/types.h"

// So many bytes of a message tell all of an image but its pixels (of a compressed one: the size).
#define ROS_HEAD_BYTES 1024

enum ros_kind {
    ROS_OTHER,
    ROS_IMAGE,            // sensor_msgs/Image
    ROS_COMPRESSED_IMAGE, // sensor_msgs/CompressedImage
    ROS_CAMERA_INFO,      // sensor_msgs/CameraInfo
    ROS_FLOAT32,          // std_msgs/Float32
    ROS_STRING,           // std_msgs/String
};

// Of a type as ROS 1 ("sensor_msgs/Image"), ROS 2 ("sensor_msgs/msg/Image") or DDS
// ("sensor_msgs::msg::dds_::Image_") names it; need not end in a NUL.
enum ros_kind ros_kind_of(const char *type, size_t n);

struct ros_header {
    int64_t time_ns; // 0 when the stamp is no time
    char frame_id[64];
};

struct ros_image {
    struct ros_header header;
    uint32_t width_px, height_px, step_bytes; // of a compressed image 0
    bool is_big_endian, is_compressed;
    char encoding[64];         // "16UC1"; of a compressed image its format
    const unsigned char *data; // inside the message; NULL: it breaks off before the data's end
    size_t n_data_bytes;       // as told
    const unsigned char *head; // the data's first bytes, all that are there
    size_t n_head_bytes;
};

// Each returns false when the bytes are no such message. ros_get_image takes both kinds.
bool ros_get_image(const void *message, size_t n_bytes, enum ros_encoding encoding,
                   bool is_compressed, struct ros_image *out);

struct ros_camera_info {
    struct ros_header header;
    struct intrinsics camera;    // of the image as it was sent: binning and region are in it
    double distortion;           // largest of its coefficients, absolute
    struct intrinsics rectified; // the same of the matrix P, for images that are rectified
};
bool ros_get_camera_info(const void *message, size_t n_bytes, enum ros_encoding encoding,
                         struct ros_camera_info *out);

// A std_msgs/Float32, or a std_msgs/String with a number. Its shortest decimal form counts: the
// float next to 0.0002 is 0.0002.
bool ros_get_number(const void *message, size_t n_bytes, enum ros_encoding encoding,
                    enum ros_kind kind, double *out);

// What a .db3 of RealSense says beside an image: a String with "...;timestamp=1033.333333;...",
// the camera's time in ms. Returns false when there is none.
bool ros_get_realsense_time(const void *message, size_t n_bytes, enum ros_encoding encoding,
                            int64_t *out_time_ns);

// ---- writing, CDR little-endian ----

#define ROS_MAX_IMAGE_HEAD_BYTES  256
#define ROS_MAX_CAMERA_INFO_BYTES 512
#define ROS_MAX_ODOMETRY_BYTES    1024
#define ROS_MAX_TF_BYTES          512 // of each transform
#define ROS_MAX_FRAME_ID_BYTES    64

// Everything of an Image that stands before its pixels: 16UC1, or 32FC1 (floats, in metres).
// Returns the number of bytes.
size_t ros_put_image_head(const struct depth_frame *image, bool is_float, const char *frame_id,
                          unsigned char out[ROS_MAX_IMAGE_HEAD_BYTES]);

// Without distortion.
size_t ros_put_camera_info(const struct intrinsics *camera, int64_t time_ns, const char *frame_id,
                           unsigned char out[ROS_MAX_CAMERA_INFO_BYTES]);

// A pose as nav_msgs/Odometry and geometry_msgs/TransformStamped have it, of child in frame.
struct ros_pose {
    int64_t time_ns;
    const char *frame_id, *child_frame_id;
    double position_m[3], orientation_xyzw[4];
    double covariance[36]; // position, rotation; rows
    double linear_m_s[3], angular_rad_s[3], twist_covariance[36];
};
size_t ros_put_odometry(const struct ros_pose *pose, unsigned char out[ROS_MAX_ODOMETRY_BYTES]);

// tf2_msgs/TFMessage with `n` transforms; `out` has room for n * ROS_MAX_TF_BYTES.
size_t ros_put_tf(const struct ros_pose *poses, uint32_t n, unsigned char *out);

#endif
