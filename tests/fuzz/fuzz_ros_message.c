// SPDX-License-Identifier: Apache-2.0
// One ROS message, as DDS or a recording hands it over. The first byte says what it is taken for.
#include <stdlib.h>

#include "capture/ros/depth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define MAX_PIXELS 4096u

static void decode(const struct ros_image *image)
{
    static uint16_t pixels[MAX_PIXELS];
    static struct ros_depth *depth;
    static const struct ros_depth_units units = {.per_m = 1000, .int_per_m = 200, .float_per_m = 1};
    struct ros_depth_format format;
    uint32_t width_px, height_px;
    const char *reason = NULL;
    if (!depth && ros_depth_create(&depth))
        return;
    if (!ros_depth_look(image, &format, &width_px, &height_px) ||
        (uint64_t)width_px * height_px > MAX_PIXELS || width_px < 1 || height_px < 1)
        return;
    if (ros_depth_decode(depth, image, width_px, height_px, &units, pixels, &reason) && !reason)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ros_image image;
    struct ros_camera_info info;
    double number;
    if (n_bytes < 1)
        return 0;
    enum ros_encoding encoding = data[0] & 1 ? ROS_ENCODING_ROS1 : ROS_ENCODING_CDR;
    const uint8_t *message = data + 1;
    size_t n = n_bytes - 1;
    bool is_compressed = data[0] & 2;
    if (ros_get_image(message, n, encoding, is_compressed, &image))
        decode(&image);
    (void)ros_get_camera_info(message, n, encoding, &info);
    (void)ros_get_number(message, n, encoding, is_compressed ? ROS_STRING : ROS_FLOAT32, &number);
    return 0;
}
