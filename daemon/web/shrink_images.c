// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/shrink_images.h"

#include <math.h>
#include <string.h>

#include "proto/wire.h"

#define DATA_FIELD 6 // of RawImage

static int8_t to_int8(float value, float scale)
{
    float v = roundf(value * scale);
    return v != v ? INT8_MIN : (int8_t)fminf(fmaxf(v, -127), 127);
}

static float float_at(const uint8_t *data, size_t i)
{
    float value;
    memcpy(&value, data + i * sizeof value, sizeof value);
    return value;
}

// Every step-th pixel; `image` is of that encoding and has as many bytes as it should.
static void reduce(struct shrink_images *p, const posed_RawImage *image, const uint8_t *data)
{
    size_t to = 0;
    for (uint32_t v = 0; v < p->height_px; v++)
        for (uint32_t u = 0; u < p->width_px; u++, to++) {
            size_t i = (size_t)v * p->step_px * image->width + (size_t)u * p->step_px;
            if (image->encoding[0] == '1')
                memcpy(&p->depth_mm[to], data + 2 * i, 2);
            else if (image->encoding[4] == '3')
                for (size_t k = 0; k < 3; k++)
                    p->normals[3 * to + k] = to_int8(float_at(data, 3 * i + k), 127);
            else
                p->residual[to] = to_int8(float_at(data, i), 1e4f);
        }
}

bool shrink_images_take(struct shrink_images *preview, const uint8_t *message, size_t n_bytes)
{
    const uint32_t path[] = {DATA_FIELD};
    const uint8_t *data;
    size_t n_data;
    posed_RawImage image;
    if (wire_decode(posed_RawImage_fields, message, n_bytes, &image) != 0 ||
        !wire_find_bytes(message, n_bytes, path, 1, &data, &n_data) || image.width == 0 ||
        image.height == 0 || image.width > 8192 || image.height > image.width)
        return false;
    bool depth = strcmp(image.encoding, "16UC1") == 0;
    bool normals = strcmp(image.encoding, "32FC3") == 0;
    bool residual = strcmp(image.encoding, "32FC1") == 0;
    size_t px_bytes = depth ? 2 : normals ? 12 : residual ? 4 : 0;
    if (!px_bytes || n_data != px_bytes * image.width * image.height)
        return false;
    uint32_t step_px = (image.width + SHRINK_IMAGES_MAX_WIDTH_PX - 1) / SHRINK_IMAGES_MAX_WIDTH_PX;
    preview->step_px = (uint16_t)step_px;
    preview->width_px = (uint16_t)((image.width + step_px - 1) / step_px);
    preview->height_px = (uint16_t)((image.height + step_px - 1) / step_px);
    preview->seq = image.seq;
    preview->has_depth |= depth;
    preview->has_normals |= normals;
    preview->has_residual |= residual;
    reduce(preview, &image, data);
    return true;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t n)
{
    memcpy(to, bytes, n);
    return to + n;
}

struct payload *shrink_images_make(struct shrink_images *preview)
{
    struct shrink_images *p = preview;
    size_t n_px = (size_t)p->width_px * p->height_px;
    uint16_t what = (uint16_t)(p->has_depth | p->has_normals << 1 | p->has_residual << 2);
    if (!what)
        return NULL;
    struct payload *payload =
        payload_create(16 + (p->has_depth ? 2 * n_px : 0) + (p->has_normals ? 3 * n_px : 0) +
                       (p->has_residual ? n_px : 0));
    if (!payload)
        return NULL;
    uint8_t *to = put(payload->bytes, &p->seq, 8);
    to = put(to, &p->width_px, 2);
    to = put(to, &p->height_px, 2);
    to = put(to, &p->step_px, 2);
    to = put(to, &what, 2);
    if (p->has_depth)
        to = put(to, p->depth_mm, 2 * n_px);
    if (p->has_normals)
        to = put(to, p->normals, 3 * n_px);
    if (p->has_residual)
        put(to, p->residual, n_px);
    p->has_depth = p->has_normals = p->has_residual = false;
    return payload;
}
