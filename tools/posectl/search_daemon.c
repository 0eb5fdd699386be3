// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/search_daemon.h"

#include <stdlib.h>
#include <string.h>

// A length-delimited field that is written after others: its head, and where its data lie.
struct field {
    uint32_t number;
    const void *data;
    size_t n_bytes;
};

static size_t put_varint(uint8_t *out, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

static size_t put_field(uint8_t *out, const struct field *field)
{
    size_t n = put_varint(out, (uint64_t)field->number << 3 | 2);
    n += put_varint(out + n, field->n_bytes);
    memcpy(out + n, field->data, field->n_bytes);
    return n + field->n_bytes;
}

// The encoded fields of a message, then `n` more fields. NULL: no memory.
static uint8_t *put_message(const uint8_t *encoded, size_t n_encoded, const struct field *fields,
                            size_t n, size_t *out_n)
{
    size_t room = n_encoded;
    for (size_t i = 0; i < n; i++)
        room += fields[i].n_bytes + 20;
    uint8_t *out = malloc(room);
    if (!out)
        return NULL;
    memcpy(out, encoded, n_encoded);
    *out_n = n_encoded;
    for (size_t i = 0; i < n; i++)
        *out_n += put_field(out + *out_n, &fields[i]);
    return out;
}

// A framed request of kind `number` with the given body.
static enum posectl_exit send_body(const struct posectl *ctl, uint32_t number, const uint8_t *body,
                                   size_t n_body, posed_Reply *out)
{
    static const uint8_t magic[WIRE_MAGIC_BYTES] = WIRE_MAGIC;
    uint8_t head[WIRE_MAGIC_BYTES + 32];
    size_t n = sizeof magic, n_all;
    memcpy(head, magic, sizeof magic);
    n += put_varint(head + n, posed_Request_id_tag << 3);
    n += put_varint(head + n, posectl_request_id());
    n += put_varint(head + n, posed_Request_deadline_ms_tag << 3);
    n += put_varint(head + n, ctl->timeout_ms);
    const struct field field = {number, body, n_body};
    uint8_t *all = put_message(head, n, &field, 1, &n_all);
    if (!all) {
        posectl_complain("out of memory");
        return POSECTL_FAILED;
    }
    enum posectl_exit result = posectl_exchange(ctl, all, n_all, out);
    free(all);
    return result;
}

static enum posectl_exit send_parts(const struct posectl *ctl, uint32_t kind,
                                    const uint8_t *encoded, int n_encoded,
                                    const struct field *fields, size_t n, posed_Reply *out)
{
    size_t n_body;
    uint8_t *body =
        n_encoded < 0 ? NULL : put_message(encoded, (size_t)n_encoded, fields, n, &n_body);
    if (!body) {
        posectl_complain("%s", n_encoded < 0 ? "a name is too long" : "out of memory");
        return POSECTL_FAILED;
    }
    enum posectl_exit result = send_body(ctl, kind, body, n_body, out);
    free(body);
    return result;
}

enum posectl_exit posectl_send_object(const struct posectl *ctl, const char *name,
                                      const struct search_mesh *mesh,
                                      const struct search_object_settings *settings,
                                      posed_Reply *out)
{
    posed_AddObject message = posed_AddObject_init_zero;
    uint8_t encoded[posed_AddObject_size];
    wire_copy_text(message.name, sizeof message.name, name);
    message.n_views = settings->n_views;
    message.greedy = settings->choice == SEARCH_CHOICE_GREEDY;
    int n = wire_encode(posed_AddObject_fields, &message, encoded, sizeof encoded);
    const struct field fields[2] = {
        {WIRE_ADD_OBJECT_VERTICES, mesh->vertices_m, 12 * mesh->n_vertices},
        {WIRE_ADD_OBJECT_TRIANGLES, mesh->triangles, 12 * mesh->n_triangles}};
    return send_parts(ctl, posed_Request_add_object_tag, encoded, n, fields, 2, out);
}

enum posectl_exit posectl_send_search(const struct posectl *ctl, const struct sought *sought,
                                      const struct search_image *image,
                                      const struct search_query *query, const uint32_t region[4],
                                      bool track, posed_Reply *out)
{
    posed_SearchPose message = posed_SearchPose_init_zero;
    uint8_t encoded[posed_SearchPose_size], encoded_image[posed_DepthImage_size];
    const size_t max = sizeof message.objects / sizeof message.objects[0];
    if (sought->n > max) {
        posectl_complain("search: %zu objects: at most %zu can be asked for by name, or --all",
                         sought->n, max);
        return POSECTL_USAGE;
    }
    for (size_t i = 0; i < sought->n; i++)
        wire_copy_text(message.objects[i], sizeof message.objects[i], sought->objects[i].name);
    message.objects_count = (pb_size_t)sought->n;
    message.top = query->top;
    message.track = track;
    message.threshold = query->threshold;
    message.n_iterations = query->n_iterations;
    message.has_refine = true;
    message.refine = query->refine;
    message.preset = query->preset == SEARCH_PRESET_GERMANN ? posed_SearchPose_Preset_GERMANN
                                                            : posed_SearchPose_Preset_DEFAULT;
    message.u0 = region[0];
    message.v0 = region[1];
    message.u1 = region[2];
    message.v1 = region[3];
    int n = wire_encode(posed_SearchPose_fields, &message, encoded, sizeof encoded);
    if (!image)
        return send_parts(ctl, posed_Request_search_pose_tag, encoded, n, NULL, 0, out);
    const struct intrinsics *c = &image->camera;
    posed_DepthImage head = {.width = image->frame.width_px,
                             .height = image->frame.height_px,
                             .units_per_m = image->frame.units_per_m,
                             .fx = c->fx_px,
                             .fy = c->fy_px,
                             .cx = c->cx_px,
                             .cy = c->cy_px};
    int n_head = wire_encode(posed_DepthImage_fields, &head, encoded_image, sizeof encoded_image);
    const struct field pixels = {WIRE_DEPTH_IMAGE_DEPTH, image->frame.depth,
                                 (size_t)head.width * head.height * sizeof(uint16_t)};
    size_t n_image;
    uint8_t *body =
        n_head < 0 ? NULL : put_message(encoded_image, (size_t)n_head, &pixels, 1, &n_image);
    if (!body) {
        posectl_complain("out of memory");
        return POSECTL_FAILED;
    }
    const struct field field = {posed_SearchPose_image_tag, body, n_image};
    enum posectl_exit result =
        send_parts(ctl, posed_Request_search_pose_tag, encoded, n, &field, 1, out);
    free(body);
    return result;
}
