// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/check_record.h"

#include "capture/mcap/format.h"

#define ATTACHMENT_TIMES_BYTES 16
#define CRC_BYTES              4

static bool pass_string(const unsigned char *data, size_t n, size_t *at)
{
    const char *text;
    size_t n_text;
    return mcap_take_string(data, n, at, &text, &n_text);
}

// Keys and values behind their length in bytes, which they fill.
static bool pass_map(const unsigned char *data, size_t n, size_t *at)
{
    const size_t begin = *at + 4;
    if (!pass_string(data, n, at)) // its length is that of a string
        return false;
    for (size_t i = begin; i < *at;)
        if (!pass_string(data, *at, &i) || !pass_string(data, *at, &i))
            return false;
    return true;
}

bool mcap_is_well_formed(unsigned opcode, const unsigned char *data, size_t n)
{
    size_t at = 0;
    switch (opcode) {
    case MCAP_HEADER: // profile, library
        return pass_string(data, n, &at) && pass_string(data, n, &at);
    case MCAP_SCHEMA: // id; name, encoding, data
        at = 2;
        return n >= at && mcap_get(data, 2) != 0 && pass_string(data, n, &at) &&
               pass_string(data, n, &at) && pass_string(data, n, &at);
    case MCAP_CHANNEL: // id, schema; topic, encoding, metadata
        at = 4;
        return pass_string(data, n, &at) && pass_string(data, n, &at) && pass_map(data, n, &at);
    case MCAP_MESSAGE:
        return n >= MCAP_MESSAGE_HEADER_BYTES;
    case MCAP_ATTACHMENT: // name, media type; data behind 8 bytes of length, a checksum
        at = ATTACHMENT_TIMES_BYTES;
        return pass_string(data, n, &at) && pass_string(data, n, &at) && n - at >= 8 + CRC_BYTES &&
               mcap_get(data + at, 8) <= n - at - 8 - CRC_BYTES;
    case MCAP_METADATA: // name, metadata
        return pass_string(data, n, &at) && pass_map(data, n, &at);
    }
    return true;
}
