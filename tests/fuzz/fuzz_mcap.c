// SPDX-License-Identifier: Apache-2.0
// An MCAP file: the walk, the chunks, the index and every image.
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/mcap_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define MAX_PIXELS 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static int fd = -1;
    static uint16_t pixels[MAX_PIXELS];
    if (fd < 0 && (fd = memfd_create("mcap", 0)) < 0)
        abort();
    if (ftruncate(fd, 0) || pwrite(fd, data, n_bytes, 0) != (ssize_t)n_bytes)
        abort();
    struct mcap_reader *reader;
    struct mcap_index index;
    if (mcap_reader_create(&reader, fd))
        return 0;
    if (mcap_scan(reader, "fuzz", NULL, &index) == 0) {
        bool small = (uint64_t)index.width_px * index.height_px <= MAX_PIXELS;
        for (size_t i = 0; i < index.n_frames; i++) {
            const char *reason = NULL;
            if (i > 0 && index.frames[i].time_ns <= index.frames[i - 1].time_ns)
                abort();
            if (small && mcap_decode(reader, &index, i, pixels, &reason) && !reason)
                abort();
        }
        mcap_index_free(&index);
    }
    mcap_reader_destroy(&reader);
    return 0;
}
