// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/protobuf.h"

#include <string.h>

void protobuf_put(struct protobuf_out *out, const void *data, size_t n)
{
    if (out->n + n <= out->capacity)
        memcpy(out->data + out->n, data, n);
    out->n += n;
}

void protobuf_put_varint(struct protobuf_out *out, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)(value & 0x7F);
        value >>= 7;
        byte |= value ? 0x80 : 0;
        protobuf_put(out, &byte, 1);
    } while (value);
}

void protobuf_put_key(struct protobuf_out *out, uint32_t number, enum protobuf_type type)
{
    protobuf_put_varint(out, number << 3 | type);
}

void protobuf_put_uint(struct protobuf_out *out, uint32_t number, uint64_t value)
{
    protobuf_put_key(out, number, PROTOBUF_VARINT);
    protobuf_put_varint(out, value);
}

void protobuf_put_bytes(struct protobuf_out *out, uint32_t number, const void *data, size_t n)
{
    protobuf_put_key(out, number, PROTOBUF_BYTES);
    protobuf_put_varint(out, n);
    protobuf_put(out, data, n);
}

void protobuf_put_text(struct protobuf_out *out, uint32_t number, const char *text)
{
    protobuf_put_bytes(out, number, text, strlen(text));
}

void protobuf_put_fixed32(struct protobuf_out *out, uint32_t number, uint32_t value)
{
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    protobuf_put_key(out, number, PROTOBUF_32);
    protobuf_put(out, bytes, 4);
}

void protobuf_put_double(struct protobuf_out *out, double value)
{
    uint64_t bits;
    unsigned char bytes[8];
    memcpy(&bits, &value, 8);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i);
    protobuf_put(out, bytes, 8);
}

// repeated double, packed as proto3 does.
void protobuf_put_doubles(struct protobuf_out *out, uint32_t number, const double *values, size_t n)
{
    protobuf_put_key(out, number, PROTOBUF_BYTES);
    protobuf_put_varint(out, 8 * n);
    for (size_t k = 0; k < n; k++)
        protobuf_put_double(out, values[k]);
}

static bool get_varint(struct protobuf_in *in, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && in->at < in->n; shift += 7) {
        unsigned char byte = in->data[in->at++];
        *out |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool get_fixed(struct protobuf_in *in, size_t n_bytes, uint64_t *out)
{
    if (in->n - in->at < n_bytes)
        return false;
    *out = 0;
    for (size_t i = 0; i < n_bytes; i++)
        *out |= (uint64_t)in->data[in->at++] << 8 * i;
    return true;
}

// The next field. Returns false at a malformed one; call only while at < n.
bool protobuf_get_field(struct protobuf_in *in, struct protobuf_value *out)
{
    uint64_t key;
    if (!get_varint(in, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return false;
    *out = (struct protobuf_value){.number = (uint32_t)(key >> 3),
                                   .type = (enum protobuf_type)(key & 7)};
    switch (out->type) {
    case PROTOBUF_VARINT:
        return get_varint(in, &out->number_value);
    case PROTOBUF_64:
        return get_fixed(in, 8, &out->number_value);
    case PROTOBUF_32:
        return get_fixed(in, 4, &out->number_value);
    case PROTOBUF_BYTES:
        if (!get_varint(in, &out->number_value) || out->number_value > in->n - in->at)
            return false;
        out->data = in->data + in->at;
        out->n_bytes = (size_t)out->number_value;
        in->at += out->n_bytes;
        return true;
    }
    return false;
}

double protobuf_double_at(const unsigned char *bytes)
{
    uint64_t bits = 0;
    double value;
    for (int i = 0; i < 8; i++)
        bits |= (uint64_t)bytes[i] << 8 * i;
    memcpy(&value, &bits, 8);
    return value;
}
