// SPDX-License-Identifier: Apache-2.0
// An MCAP file of ROS: read as it is, and with chunks that say they have no checksum, as nothing
// behind a wrong one is looked at.
#include "tests/fuzz/fuzz_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define MAGIC_BYTES  8u
#define RECORD_BYTES 9u   // opcode and length
#define CHUNK        0x06 // its checksum at byte 24

static void drop_checksums(uint8_t *file, size_t n_bytes)
{
    for (size_t at = MAGIC_BYTES; at + RECORD_BYTES <= n_bytes;) {
        uint64_t n = 0;
        for (int i = 8; i > 0; i--)
            n = n << 8 | file[at + (size_t)i];
        if (n > n_bytes - at - RECORD_BYTES)
            return;
        if (file[at] == CHUNK && n >= 28)
            memset(file + at + RECORD_BYTES + 24, 0, 4);
        at += RECORD_BYTES + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    fuzz_driver(&capture_driver_mcap, data, n_bytes);
    uint8_t *copy = malloc(n_bytes + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, n_bytes);
    drop_checksums(copy, n_bytes);
    if (memcmp(copy, data, n_bytes) != 0)
        fuzz_driver(&capture_driver_mcap, copy, n_bytes);
    free(copy);
    return 0;
}
