// SPDX-License-Identifier: Apache-2.0
// Fields of a ROS message, one behind the other, out of bytes that nobody vouches for. ROS 2 writes
// CDR (OMG DDS-RTPS 2.3, 10.2; DDS-XTypes 1.3, 7.4): four bytes that say which byte order, then the
// fields, each aligned to its size counted from behind these four. ROS 1 writes the same fields
// little-endian, without padding, and strings without their NUL.
//
// A read beyond the end gives 0 and sets `failed`, which stays set: a parser reads all its fields
// and looks once.
#ifndef POSED_CAPTURE_ROS_CDR_H
#define POSED_CAPTURE_ROS_CDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ros_encoding { ROS_ENCODING_CDR, ROS_ENCODING_ROS1 };

struct cdr {
    const unsigned char *data; // behind the four bytes of CDR
    size_t n_bytes, at;
    size_t max_alignment; // 8; 4 in version 2 of CDR; 1 in ROS 1
    bool is_big_endian, is_ros1, failed;
};

// Returns false when the first four bytes are not those of plain CDR.
bool cdr_begin(struct cdr *out, const void *data, size_t n_bytes, enum ros_encoding encoding);

uint8_t cdr_u8(struct cdr *cdr);
uint32_t cdr_u32(struct cdr *cdr);
float cdr_f32(struct cdr *cdr);
double cdr_f64(struct cdr *cdr);
void cdr_f64s(struct cdr *cdr, size_t n, double *out);

// The characters without the NUL, inside the message. NULL when it failed.
const char *cdr_string(struct cdr *cdr, size_t *out_n);

// Copies it; one that does not fit is cut to room - 1 characters.
void cdr_copy_string(struct cdr *cdr, char *out, size_t room);

// A sequence of bytes. Its length as it is told; returns NULL and leaves `failed` alone when the
// message breaks off before its end, so that the head of a message says all but its data.
const unsigned char *cdr_bytes(struct cdr *cdr, size_t *out_n);

// The other way: appends to `data`, which has `capacity` bytes; n stops there, and `failed` is set.
struct cdr_out {
    unsigned char *data;
    size_t n, capacity;
    bool failed;
};

void cdr_out_begin(struct cdr_out *out, void *data, size_t capacity);
void cdr_put_u8(struct cdr_out *out, uint8_t value);
void cdr_put_u32(struct cdr_out *out, uint32_t value);
void cdr_put_f64(struct cdr_out *out, double value);
void cdr_put_f64s(struct cdr_out *out, const double *values, size_t n);
void cdr_put_string(struct cdr_out *out, const char *text);

#endif
