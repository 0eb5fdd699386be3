// SPDX-License-Identifier: Apache-2.0
// Protobuf by hand, for what stands in an MCAP recording: capture/ builds without protoc and
// nanopb. Each field is a varint key (number << 3 | type) and a value: 0 a varint, 1 eight bytes,
// 2 a length and that many bytes, 5 four bytes.
#ifndef POSED_CAPTURE_MCAP_PROTOBUF_H
#define POSED_CAPTURE_MCAP_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum protobuf_type { PROTOBUF_VARINT = 0, PROTOBUF_64 = 1, PROTOBUF_BYTES = 2, PROTOBUF_32 = 5 };

struct protobuf_out {
    unsigned char *data;
    size_t n, capacity; // n > capacity: it did not fit
};

void protobuf_put(struct protobuf_out *out, const void *data, size_t n);
void protobuf_put_varint(struct protobuf_out *out, uint64_t value);
void protobuf_put_key(struct protobuf_out *out, uint32_t number, enum protobuf_type type);
void protobuf_put_double(struct protobuf_out *out, double value); // without a key

// A field: key and value.
void protobuf_put_uint(struct protobuf_out *out, uint32_t number, uint64_t value);
void protobuf_put_bytes(struct protobuf_out *out, uint32_t number, const void *data, size_t n);
void protobuf_put_text(struct protobuf_out *out, uint32_t number, const char *text);
void protobuf_put_fixed32(struct protobuf_out *out, uint32_t number, uint32_t value);
void protobuf_put_doubles(struct protobuf_out *out, uint32_t number, const double *values,
                          size_t n); // repeated, packed as proto3 does

struct protobuf_in {
    const unsigned char *data;
    size_t n, at;
};

struct protobuf_value {
    uint32_t number;
    enum protobuf_type type;
    uint64_t number_value; // varint and fixed
    const unsigned char *data;
    size_t n_bytes;
};

// The next field. Returns false at a malformed one; call only while at < n.
bool protobuf_get_field(struct protobuf_in *in, struct protobuf_value *out);

double protobuf_double_at(const unsigned char *bytes); // eight of them

#endif
