// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/rvl.h"

#include <string.h>

#include "capture/io/little_endian.h"

// Where numbers are read from: groups of three bits and one that says whether another follows,
// eight groups a word of 32 bits, the first one on top.
struct rvl {
    const unsigned char *data;
    size_t n_bytes, at;
    uint32_t word;
    int n_groups; // left in it
    bool failed;
};

static uint32_t number(struct rvl *rvl)
{
    uint32_t value = 0, group;
    int shift = 0;
    do {
        if (rvl->n_groups == 0) {
            rvl->failed = rvl->failed || rvl->n_bytes - rvl->at < 4;
            if (rvl->failed)
                return 0;
            rvl->word = little_u32(rvl->data + rvl->at);
            rvl->at += 4;
            rvl->n_groups = 8;
        }
        group = rvl->word >> 28;
        rvl->word <<= 4;
        rvl->n_groups--;
        if (shift < 32)
            value |= (group & 7) << shift;
        shift += 3;
    } while (group & 8);
    return value;
}

bool rvl_decode(const unsigned char *data, size_t n_bytes, size_t n_pixels, uint16_t *out)
{
    struct rvl rvl = {data, n_bytes, .n_groups = 0};
    uint32_t previous = 0;
    for (size_t at = 0; at < n_pixels;) {
        uint32_t n_zeros = number(&rvl);
        uint32_t n_values = n_zeros <= n_pixels - at && !rvl.failed ? number(&rvl) : 0;
        // the last run of zeros may end without a count of values behind it
        bool ends = n_zeros == n_pixels - at;
        if (n_zeros > n_pixels - at || (rvl.failed && !ends) ||
            (!ends && n_zeros == 0 && n_values == 0))
            return false;
        memset(out + at, 0, n_zeros * sizeof *out);
        at += n_zeros;
        if (n_values > n_pixels - at)
            return false;
        for (uint32_t i = 0; i < n_values; i++) {
            uint32_t code = number(&rvl);
            previous += (code >> 1) ^ (0 - (code & 1));
            out[at++] = (uint16_t)previous;
        }
        if (rvl.failed && n_values)
            return false;
    }
    return true;
}
