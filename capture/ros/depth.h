// SPDX-License-Identifier: Apache-2.0
// Depth as ROS sends it (REP 118, image_transport's two compressed transports) as 16-bit values:
//   16UC1, mono16   as they are: mm, or what the camera's option Depth_Units says; converted where
//                   other images of the topic are of other units
//   32FC1           metres, or mm where that is evident, multiplied and rounded
//   ...; compressedDepth png | rvl   12 bytes {int32, float A, float B}, then a PNG or RVL image of
//                   16 bits; of 32FC1 it holds q, and the depth is A / (q - B) metres
//   16UC1, mono16; png compressed    the PNG alone, as image_transport's `compressed` has it
// NaN, infinite, negative and what 16 bits do not hold become 0, invalid.
#ifndef POSED_CAPTURE_ROS_DEPTH_H
#define POSED_CAPTURE_ROS_DEPTH_H

#include "capture/ros/messages.h"

enum ros_depth_packing { ROS_DEPTH_RAW, ROS_DEPTH_PNG, ROS_DEPTH_RVL, ROS_DEPTH_PLAIN_PNG };

struct ros_depth_format {
    bool is_float; // metres, or mm; else 16-bit units
    enum ros_depth_packing packing;
};

// Metres in 16 bits when nobody asks for other units: 0.2 mm a step, 13.1 m far.
#define ROS_FLOAT_UNITS_PER_M 5000

// Units per metre. Where images have those that are wanted, values stay as they are.
struct ros_depth_units {
    double per_m;       // that are wanted
    double int_per_m;   // of images of 16 bits
    double float_per_m; // of images of floats: 1, or 1000, or what the settings say
};

// Format and size of a depth image, of which the first ROS_HEAD_BYTES are enough. Returns false
// when the image is no depth: another encoding, or a compressed image of another kind.
bool ros_depth_look(const struct ros_image *image, struct ros_depth_format *out_format,
                    uint32_t *out_width_px, uint32_t *out_height_px);

// Of a packed depth image of which ros_depth_look returns false why: "its PNG is empty". NULL: its
// encoding is no depth's, or nothing is wrong.
const char *ros_depth_head_fault(const struct ros_image *image);

// What a 32FC1 image shows its values to be. Millimetres: more than nine of ten are above 100,
// which in metres no depth camera sees. It is not known of one with less than a hundredth of its
// pixels, of another encoding, or whose message breaks off. Values above 100000 do not count: some
// drivers give a large one where there is no depth; nor does the largest, where most of the image
// but not all has it: what a simulator gives behind everything.
enum ros_float_unit { ROS_FLOAT_UNKNOWN, ROS_FLOAT_METRES, ROS_FLOAT_MILLIMETRES };
enum ros_float_unit ros_depth_float_unit(const struct ros_image *image);

// Whether an image shows another unit than what its topic is taken for: the same, but that of an
// image whose values are all the same (the end of a simulated world), or of which more than half
// but not nine of ten are above 100, nothing is known. Looks at each fourth row only.
enum ros_float_unit ros_depth_float_glance(const struct ros_image *image);

// Memory for unpacking; one thread at a time.
struct ros_depth; // opaque
// Returns 0 or -ENOMEM (*out is then NULL).
__attribute__((warn_unused_result)) int ros_depth_create(struct ros_depth **out);
void ros_depth_destroy(struct ros_depth **depth);

// Writes width x height values. Returns 0, or -EBADMSG with *out_reason set (the values are then
// undefined): no depth, broken off, damaged. NULL: of another size, which is the caller's to tell,
// as all that follow may be.
__attribute__((warn_unused_result)) int
ros_depth_decode(struct ros_depth *depth, const struct ros_image *image, uint32_t width_px,
                 uint32_t height_px, const struct ros_depth_units *units, uint16_t *out_pixels,
                 const char **out_reason);

#endif
