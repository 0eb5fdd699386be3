// SPDX-License-Identifier: Apache-2.0
#include "capture/io/zero_tail.h"

#include <stddef.h>

#include "capture/io/folder.h"

#define SECTOR_BYTES 512u
#define BLOCK_BYTES  65536u

int zero_tail(int fd, uint64_t begin, uint64_t end, uint64_t *out_n_bytes)
{
    unsigned char block[BLOCK_BYTES];
    uint64_t at = end;
    *out_n_bytes = 0;
    for (size_t n_left = 0; at > begin && n_left == 0;) { // up to a byte that is not 0
        const size_t n = at - begin < sizeof block ? (size_t)(at - begin) : sizeof block;
        const int err = file_read_at(fd, block, n, at - n);
        if (err)
            return err;
        for (n_left = n; n_left > 0 && block[n_left - 1] == 0;)
            n_left--;
        at -= n - n_left;
    }
    const uint64_t n_zeros = end - at;
    *out_n_bytes = at == begin || n_zeros >= SECTOR_BYTES ? n_zeros : 0;
    return 0;
}
