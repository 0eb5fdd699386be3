// SPDX-License-Identifier: Apache-2.0
// The few protobuf messages inside an MCAP recording, by hand: capture/ builds without protoc and
// nanopb. Field numbers are those of the public Foxglove schemas, so that Foxglove, Lichtblick,
// rerun and PlotJuggler know the topics; proto/posed.proto has the same for the wire.
#ifndef POSED_CAPTURE_MCAP_FOXGLOVE_H
#define POSED_CAPTURE_MCAP_FOXGLOVE_H

#include "proto/se3.h"
#include "proto/types.h"

// Fields of our own in RawImage.
#define FOXGLOVE_FIELD_UNITS_PER_M 1002
#define FOXGLOVE_FIELD_REMAINDERS  1003

#define FOXGLOVE_MAX_HEADER_BYTES      128
#define FOXGLOVE_MAX_CALIBRATION_BYTES 512
#define FOXGLOVE_MAX_TRANSFORM_BYTES   256
#define FOXGLOVE_MAX_UNITS_PER_M       200000 // whose remainders fit a byte

// The FileDescriptorSet with foxglove.RawImage, CameraCalibration, FrameTransform and Odometry (the
// last with the fields of our own, from 1000 on). Built once, lives for ever;
// any thread.
const void *foxglove_descriptors(size_t *out_n_bytes);

// Everything of a 16UC1 RawImage that stands before its pixels (width x height x 2 bytes,
// little-endian, millimetres). Returns the number of bytes.
size_t foxglove_put_image_header(const struct depth_frame *image, const char *frame_id,
                                 unsigned char out[FOXGLOVE_MAX_HEADER_BYTES]);

// Of a source with another unit, behind the pixels: that unit, and what stands before the
// remainders (a signed byte a pixel: how far the source's number is from the millimetres in its own
// unit, rounded half up). Other programs pass over both; a replay has the source's numbers again.
// Returns the number of bytes.
size_t foxglove_put_remainder_header(const struct depth_frame *image,
                                     unsigned char out[FOXGLOVE_MAX_HEADER_BYTES]);

// Millimetres in units of 1 / units_per_m metres, rounded half up.
int64_t foxglove_units_of_mm(uint16_t mm, double units_per_m);

// A CameraCalibration without distortion. Returns the number of bytes.
size_t foxglove_put_calibration(const struct intrinsics *camera, int64_t time_ns,
                                const char *frame_id,
                                unsigned char out[FOXGLOVE_MAX_CALIBRATION_BYTES]);

// A FrameTransform: where frame `child` is in `parent`. Returns the number of bytes.
size_t foxglove_put_transform(const double position_m[3], const double orientation_xyzw[4],
                              int64_t time_ns, const char *parent, const char *child,
                              unsigned char out[FOXGLOVE_MAX_TRANSFORM_BYTES]);

struct foxglove_image {
    int64_t time_ns; // when it was taken, 0 = not told, or out of range
    uint32_t width_px, height_px, step_bytes;
    char encoding[32];         // "" where it is longer
    const unsigned char *data; // inside the message
    size_t n_data_bytes;
    double units_per_m;              // of the source, 0 = not told: that of `data`
    const unsigned char *remainders; // width x height, NULL = none
};

// Reads a RawImage. Fields that are not there are 0. Returns false when the bytes are no protobuf
// message, or its data has fewer than height x step bytes.
bool foxglove_get_image(const void *message, size_t n_bytes, struct foxglove_image *out);

// Whether its encoding is one of depth: 16UC1 or mono16.
bool foxglove_is_depth(const struct foxglove_image *image);

// Reads size and the matrix K of a CameraCalibration. Returns false when the bytes are no protobuf
// message or K has not nine numbers.
bool foxglove_get_calibration(const void *message, size_t n_bytes, struct intrinsics *out);

// What of an Odometry the ROS messages have.
struct foxglove_odometry {
    int64_t time_ns;
    double position_m[3], orientation_xyzw[4];
    double linear_m_s[3], angular_rad_s[3]; // in the body frame
    double covariance[36];
    bool has_velocity_covariance;
    double velocity_covariance[36];
    bool is_lost;         // the pose is the one told last
    bool is_predicted;    // where a frame that was dropped is expected
    bool is_stale;        // it was dropped so long after the newest pose that nobody knows
    bool is_cut;          // it does not connect to all before it in its frame
    int64_t published_ns; // CLOCK_MONOTONIC when the message was made
    bool has_map;         // map_from_odom
    double map_position_m[3], map_orientation_xyzw[4];
};

// Fields that are not there are 0. Returns false when the bytes are no protobuf message.
bool foxglove_get_odometry(const void *message, size_t n_bytes, struct foxglove_odometry *out);

#endif
