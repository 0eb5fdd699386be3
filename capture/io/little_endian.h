// SPDX-License-Identifier: Apache-2.0
// Numbers of recordings, which stand at any address.
#ifndef POSED_CAPTURE_IO_LITTLE_ENDIAN_H
#define POSED_CAPTURE_IO_LITTLE_ENDIAN_H

#include <stdint.h>

static inline uint32_t little_u32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

#endif
