// SPDX-License-Identifier: Apache-2.0
#include "daemon/image.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/wire.h"

struct image_sender {
    const struct board_info *info;
    size_t n_px;
    uint16_t *depth_mm; // NULL until wanted
    float *maps, *normals;
};

int image_create(struct image_sender **out, const struct board_info *info)
{
    struct image_sender *sender = calloc(1, sizeof *sender);
    *out = sender;
    if (!sender)
        return -ENOMEM;
    sender->info = info;
    sender->n_px = (size_t)info->capture.camera.width_px * info->capture.camera.height_px;
    return 0;
}

void image_destroy(struct image_sender **sender)
{
    if (!*sender)
        return;
    free((*sender)->depth_mm);
    free((*sender)->maps);
    free((*sender)->normals);
    free(*sender);
    *sender = NULL;
}

static void send_pixels(const struct image_sender *sender, struct publish *publish,
                        enum publish_topic topic, const char *encoding, size_t px_bytes,
                        const struct depth_frame *frame, uint64_t seq, const void *pixels)
{
    uint8_t head[WIRE_IMAGE_HEADER_MAX_BYTES];
    posed_RawImage image = {
        .has_timestamp = true,
        .timestamp = wire_timestamp(frame->time_ns),
        .width = sender->info->capture.camera.width_px,
        .height = sender->info->capture.camera.height_px,
        .step = (uint32_t)(sender->info->capture.camera.width_px * px_bytes),
        .seq = seq,
    };
    wire_copy_text(image.encoding, sizeof image.encoding, encoding);
    wire_copy_text(image.frame_id, sizeof image.frame_id, sender->info->camera_frame);
    size_t n_bytes = sender->n_px * px_bytes;
    int n = wire_encode_image_header(&image, n_bytes, head, sizeof head);
    if (n > 0)
        publish_send_pieces(publish, topic, head, (size_t)n, pixels, n_bytes);
}

static void send_depth(struct image_sender *sender, struct publish *publish,
                       const struct depth_frame *frame, uint64_t seq)
{
    if (!sender->depth_mm)
        sender->depth_mm = malloc(sender->n_px * sizeof *sender->depth_mm);
    if (!sender->depth_mm)
        return;
    const float mm_per_unit = (float)(1000 / sender->info->capture.units_per_m);
    for (size_t i = 0; i < sender->n_px; i++) {
        uint16_t raw = frame->depth[i];
        float mm = raw == DEPTH_INVALID_MAX ? 0.f : (float)raw * mm_per_unit + 0.5f;
        sender->depth_mm[i] = (uint16_t)fminf(mm, 65535.f);
    }
    send_pixels(sender, publish, PUBLISH_DEPTH, "16UC1", sizeof *sender->depth_mm, frame, seq,
                sender->depth_mm);
}

static void send_normals(struct image_sender *sender, struct publish *publish,
                         struct backend *backend, const struct depth_frame *frame, uint64_t seq)
{
    if (!sender->maps)
        sender->maps = malloc(sender->n_px * 4 * sizeof *sender->maps);
    if (!sender->normals)
        sender->normals = malloc(sender->n_px * 3 * sizeof *sender->normals);
    if (!sender->maps || !sender->normals || backend_read_maps(backend, sender->maps) != 0)
        return;
    for (size_t i = 0; i < sender->n_px; i++)
        for (size_t k = 0; k < 3; k++)
            sender->normals[3 * i + k] = sender->maps[4 * i + k];
    send_pixels(sender, publish, PUBLISH_NORMALS, "32FC3", 3 * sizeof *sender->normals, frame, seq,
                sender->normals);
}

void image_send(struct image_sender *sender, struct publish *publish, struct backend *backend,
                const struct depth_frame *frame, uint64_t seq)
{
    if (publish_wants(publish, PUBLISH_DEPTH))
        send_depth(sender, publish, frame, seq);
    if (publish_wants(publish, PUBLISH_NORMALS) && backend)
        send_normals(sender, publish, backend, frame, seq);
}
