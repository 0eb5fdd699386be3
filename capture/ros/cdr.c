// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/cdr.h"

#include <string.h>

#define HEADER_BYTES 4u

bool cdr_begin(struct cdr *out, const void *data, size_t n_bytes, enum ros_encoding encoding)
{
    const unsigned char *bytes = data;
    *out = (struct cdr){bytes, n_bytes, .max_alignment = 1, .is_ros1 = true};
    if (encoding == ROS_ENCODING_ROS1)
        return true;
    // 0, 1: version 1, big and little endian; 6, 7: version 2
    if (n_bytes < HEADER_BYTES || bytes[0] != 0 || (bytes[1] & ~7u) || ((bytes[1] + 2) & 4))
        return false;
    *out = (struct cdr){bytes + HEADER_BYTES, n_bytes - HEADER_BYTES,
                        .max_alignment = bytes[1] & 4 ? 4 : 8, .is_big_endian = !(bytes[1] & 1)};
    return true;
}

// n bytes, aligned to their number. NULL at the end.
static const unsigned char *take(struct cdr *cdr, size_t n)
{
    size_t alignment = n < cdr->max_alignment ? n : cdr->max_alignment;
    size_t at = (cdr->at + alignment - 1) & ~(alignment - 1);
    cdr->failed = cdr->failed || at > cdr->n_bytes || n > cdr->n_bytes - at;
    if (cdr->failed)
        return NULL;
    cdr->at = at + n;
    return cdr->data + at;
}

static uint64_t number(struct cdr *cdr, size_t n)
{
    const unsigned char *bytes = take(cdr, n);
    uint64_t value = 0;
    for (size_t i = 0; bytes && i < n; i++)
        value = value << 8 | bytes[cdr->is_big_endian ? i : n - 1 - i];
    return value;
}

uint8_t cdr_u8(struct cdr *cdr)
{
    return (uint8_t)number(cdr, 1);
}

uint32_t cdr_u32(struct cdr *cdr)
{
    return (uint32_t)number(cdr, 4);
}

float cdr_f32(struct cdr *cdr)
{
    uint32_t bits = cdr_u32(cdr);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double cdr_f64(struct cdr *cdr)
{
    uint64_t bits = number(cdr, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void cdr_f64s(struct cdr *cdr, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = cdr_f64(cdr);
}

const char *cdr_string(struct cdr *cdr, size_t *out_n)
{
    size_t n = cdr_u32(cdr);
    *out_n = 0;
    cdr->failed = cdr->failed || n > cdr->n_bytes - cdr->at;
    if (cdr->failed)
        return NULL;
    const char *text = (const char *)cdr->data + cdr->at;
    cdr->at += n;
    *out_n = n > 0 && !cdr->is_ros1 && text[n - 1] == 0 ? n - 1 : n;
    return text;
}

void cdr_copy_string(struct cdr *cdr, char *out, size_t room)
{
    size_t n;
    const char *text = cdr_string(cdr, &n);
    n = n < room ? n : room - 1;
    if (text)
        memcpy(out, text, n);
    out[n] = 0;
}

const unsigned char *cdr_bytes(struct cdr *cdr, size_t *out_n)
{
    *out_n = cdr_u32(cdr);
    if (cdr->failed || *out_n > cdr->n_bytes - cdr->at)
        return NULL;
    const unsigned char *bytes = cdr->data + cdr->at;
    cdr->at += *out_n;
    return bytes;
}

static void put(struct cdr_out *out, const void *data, size_t n)
{
    out->failed = out->failed || n > out->capacity - out->n;
    if (out->failed)
        return;
    if (n > 0)
        memcpy(out->data + out->n, data, n);
    out->n += n;
}

static void put_number(struct cdr_out *out, uint64_t value, size_t n)
{
    static const unsigned char padding[8];
    unsigned char bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    put(out, padding, (0 - (out->n - HEADER_BYTES)) & (n - 1));
    put(out, bytes, n);
}

void cdr_out_begin(struct cdr_out *out, void *data, size_t capacity)
{
    static const unsigned char little_endian[HEADER_BYTES] = {0, 1, 0, 0};
    *out = (struct cdr_out){data, 0, capacity, false};
    put(out, little_endian, sizeof little_endian);
}

void cdr_put_u8(struct cdr_out *out, uint8_t value)
{
    put(out, &value, 1);
}

void cdr_put_u32(struct cdr_out *out, uint32_t value)
{
    put_number(out, value, 4);
}

void cdr_put_f64(struct cdr_out *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(out, bits, 8);
}

void cdr_put_f64s(struct cdr_out *out, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cdr_put_f64(out, values[i]);
}

void cdr_put_string(struct cdr_out *out, const char *text)
{
    size_t n = strlen(text) + 1;
    cdr_put_u32(out, (uint32_t)n);
    put(out, text, n);
}
