// SPDX-License-Identifier: Apache-2.0
// The fields of an encoded message, one after the other, without decoding it. Private to proto.
#ifndef POSED_PROTO_WIRE_WALK_H
#define POSED_PROTO_WIRE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pb_decode.h>

struct walk {
    pb_istream_t stream;
    const uint8_t *end;
    uint32_t field;
    pb_wire_type_t type;
    uint64_t value;       // of a varint
    const uint8_t *bytes; // of what has a length
    uint32_t n_bytes;
};

static inline struct walk walk_begin(const uint8_t *bytes, size_t n_bytes)
{
    return (struct walk){.stream = pb_istream_from_buffer(bytes, n_bytes), .end = bytes + n_bytes};
}

// The next field; false at the end, or where the bytes stop making sense: `field` is then the one
// that was begun, or 0.
static inline bool walk_next(struct walk *walk)
{
    bool end;
    if (!pb_decode_tag(&walk->stream, &walk->type, &walk->field, &end))
        return false;
    if (walk->type == PB_WT_VARINT)
        return pb_decode_varint(&walk->stream, &walk->value);
    if (walk->type != PB_WT_STRING)
        return pb_skip_field(&walk->stream, walk->type);
    if (!pb_decode_varint32(&walk->stream, &walk->n_bytes))
        return false;
    walk->bytes = walk->end - walk->stream.bytes_left;
    return pb_read(&walk->stream, NULL, walk->n_bytes);
}

#endif
