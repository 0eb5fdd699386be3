// SPDX-License-Identifier: Apache-2.0
// A klg log: the walk over its frames and the unpacking of each.
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/recording/klg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define N_PIXELS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static int fd = -1;
    static struct unzip *unzip;
    uint16_t pixels[N_PIXELS];
    if (fd < 0 && ((fd = memfd_create("klg", 0)) < 0 || unzip_create(&unzip)))
        abort();
    if (ftruncate(fd, 0) || pwrite(fd, data, n_bytes, 0) != (ssize_t)n_bytes)
        abort();
    struct klg_index index;
    if (klg_scan(fd, "fuzz", NULL, &index))
        return 0;
    for (size_t i = 0; i < index.n_frames; i++) {
        const struct klg_frame *frame = &index.frames[i];
        if (frame->offset < KLG_HEADER_BYTES ||
            (size_t)frame->offset + frame->n_depth_bytes > n_bytes)
            abort();
        if (i > 0 && frame->time_ns <= index.frames[i - 1].time_ns)
            abort();
        if (klg_decode(unzip, data + frame->offset, frame->n_depth_bytes, N_PIXELS, pixels))
            continue;
    }
    klg_index_free(&index);
    return 0;
}
