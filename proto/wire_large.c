// SPDX-License-Identifier: Apache-2.0
// Messages that are longer than any struct: point sets and bytes that stand elsewhere. Each is
// written twice, into a stream that counts and then into as much memory, so that no call finds too
// little room.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pb_common.h>
#include <pb_encode.h>

#include "proto/wire.h"

static void put_varint(pb_ostream_t *stream, uint32_t field, uint64_t value)
{
    pb_encode_tag(stream, PB_WT_VARINT, field);
    pb_encode_varint(stream, value);
}

// In front of the n_content bytes of a field that has a length.
static void put_head(pb_ostream_t *stream, uint32_t field, size_t n_content)
{
    pb_encode_tag(stream, PB_WT_STRING, field);
    pb_encode_varint(stream, n_content);
}

// Bytes of one such field.
static size_t delimited_size(uint32_t field, size_t n_content)
{
    pb_ostream_t count = PB_OSTREAM_SIZING;
    put_head(&count, field, n_content);
    return count.bytes_written + n_content;
}

static size_t point_set_size(const struct point_set *set)
{
    size_t n = delimited_size(WIRE_POINT_SET_POINTS, set->n_points * 12);
    return n + (set->nx ? delimited_size(WIRE_POINT_SET_NORMALS, set->n_points * 12) : 0);
}

// Three arrays as one bytes field, x y z in turn.
static void put_triples(pb_ostream_t *stream, uint32_t field, const float *x, const float *y,
                        const float *z, size_t n)
{
    put_head(stream, field, n * 12);
    for (size_t i = 0; i < n; i++) {
        const float xyz[3] = {x[i], y[i], z[i]};
        pb_write(stream, (const pb_byte_t *)xyz, sizeof xyz);
    }
}

static void put_point_set(pb_ostream_t *stream, uint32_t field, const struct point_set *set)
{
    put_head(stream, field, point_set_size(set));
    put_triples(stream, WIRE_POINT_SET_POINTS, set->x_m, set->y_m, set->z_m, set->n_points);
    if (set->nx)
        put_triples(stream, WIRE_POINT_SET_NORMALS, set->nx, set->ny, set->nz, set->n_points);
}

// Memory for a message of n bytes behind the magic, and a stream into it.
static uint8_t *create_message(size_t n, pb_ostream_t *out_stream)
{
    uint8_t *bytes = malloc(WIRE_MAGIC_BYTES + n);
    if (!bytes)
        return NULL;
    memcpy(bytes, WIRE_MAGIC, WIRE_MAGIC_BYTES);
    *out_stream = pb_ostream_from_buffer(bytes + WIRE_MAGIC_BYTES, n);
    return bytes;
}

static void put_register(pb_ostream_t *stream, const posed_Request *request,
                         const struct point_set *source, const struct point_set *target)
{
    pb_ostream_t settings = PB_OSTREAM_SIZING;
    pb_encode(&settings, posed_Register_fields, &request->what.register_sets);
    put_varint(stream, posed_Request_id_tag, request->id);
    put_varint(stream, posed_Request_deadline_ms_tag, request->deadline_ms);
    put_head(stream, posed_Request_register_sets_tag,
             settings.bytes_written +
                 delimited_size(posed_Register_source_tag, point_set_size(source)) +
                 delimited_size(posed_Register_target_tag, point_set_size(target)));
    pb_encode(stream, posed_Register_fields, &request->what.register_sets);
    put_point_set(stream, posed_Register_source_tag, source);
    put_point_set(stream, posed_Register_target_tag, target);
}

int wire_encode_register(const posed_Request *request, const struct point_set *source,
                         const struct point_set *target, uint8_t **out, size_t *out_n)
{
    const size_t max_points = UINT32_MAX / 32;
    pb_ostream_t stream = PB_OSTREAM_SIZING;
    *out = NULL;
    if (source->n_points > max_points || target->n_points > max_points)
        return -EMSGSIZE;
    put_register(&stream, request, source, target);
    *out = create_message(stream.bytes_written, &stream);
    if (!*out)
        return -ENOMEM;
    put_register(&stream, request, source, target);
    *out_n = WIRE_MAGIC_BYTES + stream.bytes_written;
    return 0;
}

static void put_large_reply(pb_ostream_t *stream, const posed_Reply *reply,
                            const struct wire_piece *pieces, size_t n_pieces)
{
    pb_field_iter_t what; // the message of the reply's kind; those that are large hold numbers only
    if (!pb_field_iter_begin_const(&what, posed_Reply_fields, reply) ||
        !pb_field_iter_find(&what, reply->which_what))
        return;
    pb_ostream_t inner = PB_OSTREAM_SIZING;
    pb_encode(&inner, what.submsg_desc, what.pData);
    size_t n_inner = inner.bytes_written;
    for (size_t i = 0; i < n_pieces; i++)
        n_inner += delimited_size(pieces[i].field, pieces[i].n_bytes);
    const size_t n_message = strlen(reply->message);
    put_varint(stream, posed_Reply_id_tag, reply->id);
    if (n_message > 0) {
        put_head(stream, posed_Reply_message_tag, n_message);
        pb_write(stream, (const pb_byte_t *)reply->message, n_message);
    }
    put_head(stream, reply->which_what, n_inner);
    pb_encode(stream, what.submsg_desc, what.pData);
    for (size_t i = 0; i < n_pieces; i++) {
        put_head(stream, pieces[i].field, pieces[i].n_bytes);
        pb_write(stream, pieces[i].bytes, pieces[i].n_bytes);
    }
}

int wire_encode_large_reply(const posed_Reply *reply, const struct wire_piece *pieces,
                            size_t n_pieces, uint8_t **out, size_t *out_n)
{
    pb_ostream_t stream = PB_OSTREAM_SIZING;
    put_large_reply(&stream, reply, pieces, n_pieces);
    *out = create_message(stream.bytes_written, &stream);
    if (!*out)
        return -ENOMEM;
    put_large_reply(&stream, reply, pieces, n_pieces);
    *out_n = WIRE_MAGIC_BYTES + stream.bytes_written;
    return 0;
}
