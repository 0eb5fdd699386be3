// SPDX-License-Identifier: Apache-2.0
// The MCAP container (mcap.dev/spec, version 0): what writer and reader share. After the magic the
// file is a list of records: opcode, 8 bytes of length, content; all little-endian. Messages stand
// in chunks, compressed or not; behind each chunk an index says where in it they are. A finished
// file ends in a summary, which we write, and read only to go on behind damage: a recorder that was
// killed leaves none.
#ifndef POSED_CAPTURE_MCAP_FORMAT_H
#define POSED_CAPTURE_MCAP_FORMAT_H

#include <string.h>

#include "proto/types.h"

#define MCAP_MAGIC        "\x89MCAP0\r\n"
#define MCAP_MAGIC_BYTES  8
#define MCAP_RECORD_BYTES 9 // opcode and length

enum mcap_opcode {
    MCAP_HEADER = 0x01,
    MCAP_FOOTER = 0x02,
    MCAP_SCHEMA = 0x03,
    MCAP_CHANNEL = 0x04,
    MCAP_MESSAGE = 0x05,
    MCAP_CHUNK = 0x06,
    MCAP_MESSAGE_INDEX = 0x07,
    MCAP_CHUNK_INDEX = 0x08,
    MCAP_ATTACHMENT = 0x09,
    MCAP_ATTACHMENT_INDEX = 0x0A,
    MCAP_STATISTICS = 0x0B,
    MCAP_METADATA = 0x0C,
    MCAP_METADATA_INDEX = 0x0D,
    MCAP_SUMMARY_OFFSET = 0x0E,
    MCAP_DATA_END = 0x0F,
};

#define MCAP_MESSAGE_HEADER_BYTES 22 // channel, sequence, log time, publish time

// Chunks that unpack to more are refused: no recorder makes them, and a hostile one cannot make us
// allocate more.
#define MCAP_MAX_CHUNK_BYTES ((uint64_t)256 << 20)

#define MCAP_NO_CHUNK UINT64_MAX // in place of the number of a chunk

// What both readers say of damage: bytes, and where it goes on; bytes, and why; bytes, and where
// they begin.
#define MCAP_GOES_ON        "%llu bytes not read, goes on at byte %llu by the index"
#define MCAP_CHUNK_NOT_READ "%llu bytes not read: %s"
#define MCAP_CHUNK_BREAKS_OFF \
    "the last %zu bytes of its chunk cannot be read, from byte %zu of it on when unpacked"

// What mends a damaged file: FILE is one that the message names.
#define MCAP_FOR_OTHERS "for other programs: posectl record repair FILE"

static inline void mcap_put(unsigned char *out, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
}

static inline uint64_t mcap_get(const unsigned char *in, int n_bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < n_bytes; i++)
        value |= (uint64_t)in[i] << 8 * i;
    return value;
}

// A length-prefixed string at *at of n bytes; false when it does not fit.
static inline bool mcap_take_string(const unsigned char *data, size_t n, size_t *at,
                                    const char **out, size_t *out_n)
{
    if (*at > n || n - *at < 4)
        return false;
    size_t length = (size_t)mcap_get(data + *at, 4);
    if (length > n - *at - 4)
        return false;
    *out = (const char *)data + *at + 4;
    *out_n = length;
    *at += 4 + length;
    return true;
}

static inline bool mcap_is_text(const char *text, size_t n, const char *expected)
{
    return n == strlen(expected) && !memcmp(text, expected, n);
}

#endif
