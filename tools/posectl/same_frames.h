// SPDX-License-Identifier: Apache-2.0
// Whether two recordings hold the same images, whatever their files are named and whatever time
// stamps they have: a copy, another format of it, a part of it. A camera's noise makes no image
// twice.
#ifndef POSED_TOOLS_POSECTL_SAME_FRAMES_H
#define POSED_TOOLS_POSECTL_SAME_FRAMES_H

#include <stddef.h>
#include <stdint.h>

// Checksums of a recording's images. Zeroed: none; same_frames_free frees them.
struct same_frames {
    uint32_t *sums;
    size_t n, room;
};

// Adds an image. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int same_frames_add(struct same_frames *frames,
                                                        const uint16_t *depth, size_t n_pixels);

// After the last image of a recording, once: sorts them for same_frames_count.
void same_frames_end(struct same_frames *frames);

// How many images of `a` are in `b`, too, both at their end.
size_t same_frames_count(const struct same_frames *a, const struct same_frames *b);

void same_frames_free(struct same_frames *frames);

#endif
