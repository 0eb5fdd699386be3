// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/depth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/image.h"
#include "capture/io/little_endian.h"
#include "capture/ros/rvl.h"

#define COMPRESSION_BYTES 12u // format, A, B
#define RVL_HEAD_BYTES    8u  // columns, rows

#define MAX_FLOAT_M  100.0f // that a depth camera sees
#define MAX_FLOAT_MM 100e3f
#define GLANCE_ROWS  4u

struct ros_depth {
    struct image_codec *codec;
};

static float little_f32(const unsigned char *bytes)
{
    uint32_t bits = little_u32(bytes);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// "16UC1; compressedDepth", "16UC1; compressedDepth png", "32FC1; compressedDepth rvl", "32FC1",
// "16UC1; png compressed ", "mono16; png compressed mono16"
static bool read_encoding(const struct ros_image *image, struct ros_depth_format *out)
{
    const char *encoding = image->encoding;
    size_t n = strcspn(encoding, "; ");
    *out = (struct ros_depth_format){.is_float = n == 5 && !memcmp(encoding, "32FC1", 5)};
    bool is_16_bit =
        (n == 5 && !memcmp(encoding, "16UC1", 5)) || (n == 6 && !memcmp(encoding, "mono16", 6));
    if (!out->is_float && !is_16_bit)
        return false;
    if (!image->is_compressed)
        return encoding[n] == 0;
    if (!strstr(encoding, "compressedDepth")) {
        out->packing = ROS_DEPTH_PLAIN_PNG;
        return is_16_bit && strstr(encoding, "png compressed");
    }
    const char *end = encoding + strlen(encoding);
    out->packing = end - encoding > 3 && !strcmp(end - 3, "rvl") ? ROS_DEPTH_RVL : ROS_DEPTH_PNG;
    return true;
}

bool ros_depth_look(const struct ros_image *image, struct ros_depth_format *out_format,
                    uint32_t *out_width_px, uint32_t *out_height_px)
{
    *out_width_px = image->width_px;
    *out_height_px = image->height_px;
    if (!read_encoding(image, out_format))
        return false;
    if (out_format->packing == ROS_DEPTH_RAW)
        return true;
    if (out_format->packing == ROS_DEPTH_PLAIN_PNG)
        return !image_peek(image->head, image->n_head_bytes, "", NULL, out_width_px, out_height_px);
    if (image->n_head_bytes < COMPRESSION_BYTES + RVL_HEAD_BYTES)
        return false;
    const unsigned char *packed = image->head + COMPRESSION_BYTES;
    size_t n_packed = image->n_head_bytes - COMPRESSION_BYTES;
    if (out_format->packing == ROS_DEPTH_PNG)
        return !image_peek(packed, n_packed, "", NULL, out_width_px, out_height_px);
    *out_width_px = little_u32(packed);
    *out_height_px = little_u32(packed + 4);
    return true;
}

const char *ros_depth_head_fault(const struct ros_image *image)
{
    struct ros_depth_format format;
    uint32_t w, h;
    if (ros_depth_look(image, &format, &w, &h) || !read_encoding(image, &format))
        return NULL;
    const bool is_rvl = format.packing == ROS_DEPTH_RVL;
    if (image->n_head_bytes <= (format.packing == ROS_DEPTH_PLAIN_PNG ? 0 : COMPRESSION_BYTES))
        return is_rvl ? "its RVL data is empty" : "its PNG is empty";
    return is_rvl ? "its RVL data breaks off" : "the header of its PNG is damaged";
}

static float float_at(const struct ros_image *image, const unsigned char *p)
{
    const unsigned char swapped[4] = {p[3], p[2], p[1], p[0]};
    return little_f32(image->is_big_endian ? swapped : p);
}

// Whether the rows of an image as the sensor took it are there.
static bool has_rows(const struct ros_image *image, size_t n_pixel_bytes)
{
    const uint64_t row_bytes = (uint64_t)n_pixel_bytes * image->width_px;
    return image->step_bytes >= row_bytes &&
           image->n_data_bytes >= (uint64_t)image->step_bytes * (image->height_px - 1) + row_bytes;
}

// Of an image of floats: how many pixels were looked at, have a value, and one above MAX_FLOAT_M.
struct float_count {
    uint64_t n_px, n_values, n_far;
    bool is_even; // all values are the same
};

// Returns false where there is nothing to be counted.
static bool count_floats(const struct ros_image *image, uint32_t row_step, struct float_count *out)
{
    struct ros_depth_format format;
    uint32_t w, h;
    uint64_t n_most = 0;
    float most = 0, least = INFINITY;
    *out = (struct float_count){0};
    if (!image->data || !ros_depth_look(image, &format, &w, &h) || !format.is_float ||
        format.packing != ROS_DEPTH_RAW || w < 1 || h < 1 || !has_rows(image, sizeof(float)))
        return false;
    for (uint32_t y = 0; y < h; y += row_step) {
        const unsigned char *row = image->data + (size_t)y * image->step_bytes;
        out->n_px += w;
        for (uint32_t x = 0; x < w; x++) {
            const float value = float_at(image, row + sizeof(float) * x);
            const bool is_value = value > 0 && value <= MAX_FLOAT_MM; // false for NaN
            out->n_values += is_value;
            out->n_far += is_value && value > MAX_FLOAT_M;
            if (is_value && value > most) {
                most = value;
                n_most = 0;
            }
            least = is_value && value < least ? value : least;
            n_most += is_value && value == most;
        }
    }
    out->is_even = most <= least;
    // A simulator's end of the world is as far in all pixels that see it.
    if (most > MAX_FLOAT_M && 2 * n_most > out->n_values && n_most < out->n_values) {
        out->n_values -= n_most;
        out->n_far -= n_most;
    }
    return 100 * out->n_values >= out->n_px;
}

enum ros_float_unit ros_depth_float_unit(const struct ros_image *image)
{
    struct float_count count;
    if (!count_floats(image, 1, &count))
        return ROS_FLOAT_UNKNOWN;
    return 10 * count.n_far > 9 * count.n_values ? ROS_FLOAT_MILLIMETRES : ROS_FLOAT_METRES;
}

enum ros_float_unit ros_depth_float_glance(const struct ros_image *image)
{
    struct float_count count;
    if (!count_floats(image, GLANCE_ROWS, &count))
        return ROS_FLOAT_UNKNOWN;
    if (10 * count.n_far > 9 * count.n_values)
        return count.is_even ? ROS_FLOAT_UNKNOWN : ROS_FLOAT_MILLIMETRES;
    return 2 * count.n_far <= count.n_values ? ROS_FLOAT_METRES : ROS_FLOAT_UNKNOWN;
}

int ros_depth_create(struct ros_depth **out)
{
    struct ros_depth *depth = calloc(1, sizeof *depth);
    *out = NULL;
    if (!depth)
        return -ENOMEM;
    int err = image_codec_create(&depth->codec);
    if (err)
        ros_depth_destroy(&depth);
    *out = depth;
    return err;
}

void ros_depth_destroy(struct ros_depth **depth)
{
    if (!*depth)
        return;
    image_codec_destroy(&(*depth)->codec);
    free(*depth);
    *depth = NULL;
}

static int unpack(struct ros_depth *depth, const struct ros_image *image,
                  enum ros_depth_packing packing, uint32_t width_px, uint32_t height_px,
                  uint16_t *out, const char **out_reason)
{
    const size_t n_head = packing == ROS_DEPTH_PLAIN_PNG ? 0 : COMPRESSION_BYTES;
    const unsigned char *packed = image->data + n_head;
    const size_t n_packed = image->n_data_bytes - n_head;
    if (packing != ROS_DEPTH_RVL) {
        *out_reason = "its PNG is damaged, or not one of 16-bit grey";
        return image_decode(depth->codec, packed, n_packed, "", IMAGE_PGM_BIG_ENDIAN, width_px,
                            height_px, NULL, out);
    }
    *out_reason = "its RVL data is damaged";
    return rvl_decode(packed + RVL_HEAD_BYTES, n_packed - RVL_HEAD_BYTES,
                      (size_t)width_px * height_px, out)
               ? 0
               : -EBADMSG;
}

static uint16_t units_of(double value, double factor)
{
    const double units = rint(value * factor);
    return units > 0 && units <= UINT16_MAX ? (uint16_t)units : 0; // false for NaN
}

static void copy_16_bit(const struct ros_image *image, uint32_t width_px, uint32_t height_px,
                        uint16_t *out)
{
    // As they lie here: ten times as fast as byte by byte, of what each image of a camera costs.
    const bool is_as_here = image->is_big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    for (uint32_t y = 0; y < height_px; y++) {
        const unsigned char *row = image->data + (size_t)y * image->step_bytes;
        uint16_t *line = out + (size_t)y * width_px;
        if (is_as_here)
            memcpy(line, row, sizeof *line * width_px);
        for (uint32_t x = 0; !is_as_here && x < width_px; x++) {
            unsigned first = row[2 * x], second = row[2 * x + 1];
            unsigned raw = image->is_big_endian ? first << 8 | second : first | second << 8;
            line[x] = (uint16_t)raw;
        }
    }
}

// Whole factors, as from mm to 0.2 mm, are exact.
static void convert_16_bit(size_t n_pixels, const struct ros_depth_units *units, uint16_t *pixels)
{
    const double factor = units->per_m / units->int_per_m;
    for (size_t i = 0; factor != 1 && i < n_pixels; i++)
        pixels[i] = units_of(pixels[i], factor);
}

static void convert_float(const struct ros_image *image, uint32_t width_px, uint32_t height_px,
                          double factor, uint16_t *out)
{
    for (uint32_t y = 0; y < height_px; y++) {
        const unsigned char *row = image->data + (size_t)y * image->step_bytes;
        uint16_t *line = out + (size_t)y * width_px;
        for (uint32_t x = 0; x < width_px; x++)
            line[x] = units_of(float_at(image, row + 4 * (size_t)x), factor);
    }
}

int ros_depth_decode(struct ros_depth *depth, const struct ros_image *image, uint32_t width_px,
                     uint32_t height_px, const struct ros_depth_units *units, uint16_t *out_pixels,
                     const char **out_reason)
{
    struct ros_depth_format format;
    const size_t n_pixels = (size_t)width_px * height_px;
    const double float_factor = units->per_m / units->float_per_m;
    uint32_t w, h;
    if (!ros_depth_look(image, &format, &w, &h)) {
        const char *fault = ros_depth_head_fault(image);
        *out_reason = fault ? fault
                            : "not a depth image (16UC1, mono16, 32FC1, compressedDepth, png "
                              "compressed)";
        return -EBADMSG;
    }
    *out_reason = NULL;
    if (w != width_px || h != height_px)
        return -EBADMSG;
    *out_reason = "the message breaks off";
    if (!image->data)
        return -EBADMSG;
    if (format.packing != ROS_DEPTH_RAW) {
        int err = unpack(depth, image, format.packing, w, h, out_pixels, out_reason);
        if (!err && !format.is_float)
            convert_16_bit(n_pixels, units, out_pixels);
        if (err || !format.is_float)
            return err;
        float a = little_f32(image->data + 4), b = little_f32(image->data + 8);
        for (size_t i = 0; i < n_pixels; i++)
            out_pixels[i] =
                out_pixels[i] ? units_of(a / ((float)out_pixels[i] - b), float_factor) : 0;
        return 0;
    }
    *out_reason = "its rows are shorter than its width, or fewer than its height";
    if (!has_rows(image, format.is_float ? sizeof(float) : sizeof(uint16_t)))
        return -EBADMSG;
    if (format.is_float) {
        convert_float(image, w, h, float_factor, out_pixels);
    } else {
        copy_16_bit(image, w, h, out_pixels);
        convert_16_bit(n_pixels, units, out_pixels);
    }
    return 0;
}
