// SPDX-License-Identifier: Apache-2.0
#include "daemon/image.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"

#define CLOUD_FIELDS 6 // x y z and the normal

struct image_sender {
    const struct shared *shared;
    size_t n_px;
    uint16_t *depth_mm; // NULL until wanted, here and below
    float *maps;        // of the newest frame
    float *scratch;     // of its reference
    float *out;         // what is sent: normals, residuals, points with normals
};

int image_create(struct image_sender **out, const struct shared *shared)
{
    struct image_sender *sender = calloc(1, sizeof *sender);
    *out = sender;
    if (!sender)
        return -ENOMEM;
    const struct intrinsics *camera = &shared_info(shared)->capture.camera;
    sender->shared = shared;
    sender->n_px = (size_t)camera->width_px * camera->height_px;
    return 0;
}

void image_destroy(struct image_sender **sender)
{
    if (!*sender)
        return;
    free((*sender)->depth_mm);
    free((*sender)->maps);
    free((*sender)->scratch);
    free((*sender)->out);
    free(*sender);
    *sender = NULL;
}

static void send_pixels(const struct image_sender *sender, struct publish_channel *publish,
                        enum publish_topic topic, const char *encoding, size_t px_bytes,
                        const struct depth_frame *frame, uint64_t seq, const void *pixels)
{
    uint8_t head[WIRE_IMAGE_HEADER_MAX_BYTES];
    posed_RawImage image = {
        .has_timestamp = true,
        .timestamp = wire_timestamp(frame->time_ns),
        .width = frame->width_px,
        .height = frame->height_px,
        .step = (uint32_t)(frame->width_px * px_bytes),
        .seq = seq,
    };
    wire_copy_text(image.encoding, sizeof image.encoding, encoding);
    wire_copy_text(image.frame_id, sizeof image.frame_id,
                   shared_info(sender->shared)->camera_frame);
    size_t n_bytes = sender->n_px * px_bytes;
    int n = wire_encode_image_header(&image, n_bytes, head, sizeof head);
    if (n > 0)
        publish_send_pieces(publish, topic, head, (size_t)n, pixels, n_bytes);
}

static void send_depth(struct image_sender *sender, struct publish_channel *publish,
                       const struct depth_frame *frame, uint64_t seq)
{
    if (!sender->depth_mm)
        sender->depth_mm = malloc(sender->n_px * sizeof *sender->depth_mm);
    if (!sender->depth_mm)
        return;
    const float mm_per_unit = (float)(1000 / frame->units_per_m);
    for (size_t i = 0; i < sender->n_px; i++) {
        uint16_t raw = frame->depth[i];
        float mm = raw == DEPTH_INVALID_MAX ? 0.f : (float)raw * mm_per_unit + 0.5f;
        sender->depth_mm[i] = (uint16_t)fminf(mm, 65535.f);
    }
    send_pixels(sender, publish, PUBLISH_DEPTH, "16UC1", sizeof *sender->depth_mm, frame, seq,
                sender->depth_mm);
}

// Normals and residuals share `out`: each is sent (copied) before the next is made.
static void send_normals(const struct image_sender *sender, struct publish_channel *publish,
                         const struct depth_frame *frame, uint64_t seq)
{
    for (size_t i = 0; i < sender->n_px; i++)
        for (size_t k = 0; k < 3; k++)
            sender->out[3 * i + k] = sender->maps[4 * i + k];
    send_pixels(sender, publish, PUBLISH_NORMALS, "32FC3", 3 * sizeof *sender->out, frame, seq,
                sender->out);
}

static void send_residual(struct image_sender *sender, struct publish_channel *publish,
                          struct backend *backend, const struct depth_frame *frame, uint64_t seq)
{
    if (!sender->scratch)
        sender->scratch = malloc(sender->n_px * 4 * sizeof *sender->scratch);
    if (sender->scratch &&
        backend_read_residual(backend, sender->maps, sender->scratch, sender->out) == 0)
        send_pixels(sender, publish, PUBLISH_RESIDUAL, "32FC1", sizeof *sender->out, frame, seq,
                    sender->out);
}

static void send_cloud(const struct image_sender *sender, struct publish_channel *publish,
                       const struct depth_frame *frame, uint64_t seq)
{
    static const char *const names[CLOUD_FIELDS] = {"x",        "y",        "z",
                                                    "normal_x", "normal_y", "normal_z"};
    const struct intrinsics *camera = &shared_info(sender->shared)->capture.camera;
    uint8_t head[WIRE_CLOUD_HEADER_MAX_BYTES];
    posed_PointCloud cloud = {
        .has_timestamp = true,
        .timestamp = wire_timestamp(frame->time_ns),
        .has_pose = true,
        .pose = {true, {0, 0, 0}, true, {0, 0, 0, 1}},
        .point_stride = CLOUD_FIELDS * sizeof(float),
        .fields_count = CLOUD_FIELDS,
        .seq = seq,
    };
    wire_copy_text(cloud.frame_id, sizeof cloud.frame_id,
                   shared_info(sender->shared)->camera_frame);
    for (uint32_t i = 0; i < CLOUD_FIELDS; i++) {
        strcpy(cloud.fields[i].name, names[i]);
        cloud.fields[i].offset = i * (uint32_t)sizeof(float);
        cloud.fields[i].type = posed_PackedElementField_NumericType_FLOAT32;
    }
    float *out = sender->out;
    for (uint32_t v = 0; v < camera->height_px; v++)
        for (uint32_t u = 0; u < camera->width_px; u++) {
            const float *px = sender->maps + 4 * ((size_t)v * camera->width_px + u);
            if (!(px[3] > 0))
                continue;
            out[0] = (float)((u - camera->cx_px) / camera->fx_px) * px[3];
            out[1] = (float)((v - camera->cy_px) / camera->fy_px) * px[3];
            out[2] = px[3];
            memcpy(out + 3, px, 3 * sizeof *out);
            out += CLOUD_FIELDS;
        }
    size_t n_bytes = (size_t)(out - sender->out) * sizeof *out;
    int n = wire_encode_cloud_header(&cloud, n_bytes, head, sizeof head);
    if (n > 0)
        publish_send_pieces(publish, PUBLISH_CLOUD, head, (size_t)n, sender->out, n_bytes);
}

static bool read_maps(struct image_sender *sender, struct backend *backend)
{
    if (!sender->maps)
        sender->maps = malloc(sender->n_px * 4 * sizeof *sender->maps);
    if (!sender->out)
        sender->out = malloc(sender->n_px * CLOUD_FIELDS * sizeof *sender->out);
    return sender->maps && sender->out && backend_read_maps(backend, sender->maps) == 0;
}

void image_send(struct image_sender *sender, struct publish_channel *publish,
                struct backend *backend, const struct depth_frame *frame, uint64_t seq)
{
    bool normals = publish_wants(publish, PUBLISH_NORMALS);
    bool residual = publish_wants(publish, PUBLISH_RESIDUAL);
    bool cloud = publish_wants(publish, PUBLISH_CLOUD);
    if (publish_wants(publish, PUBLISH_DEPTH))
        send_depth(sender, publish, frame, seq);
    if (!(normals || residual || cloud) || !backend || !read_maps(sender, backend))
        return;
    if (normals)
        send_normals(sender, publish, frame, seq);
    if (residual)
        send_residual(sender, publish, backend, frame, seq);
    if (cloud)
        send_cloud(sender, publish, frame, seq);
}
