// SPDX-License-Identifier: Apache-2.0
// The keyframes of a recording, as the tracker takes them, with the poses it gives them.
#ifndef POSED_TOOLS_ALIGN_KEYFRAMES_H
#define POSED_TOOLS_ALIGN_KEYFRAMES_H

#include "tools/align/images.h"

// Plays the source through the tracker (CPU, so that all ranks have the same poses). every: 0 =
// each frame that becomes the reference; N = every N-th frame that has a pose. Returns 0, or with
// the reason in the log -EINVAL (fewer than two), -ENOMEM, -EIO or what the source says.
__attribute__((warn_unused_result)) int keyframes_open(struct images *out, const char *source,
                                                       uint32_t every, const struct log_sink *log);

// Writes every tracked frame's pose as TUM lines, moved as the keyframes around it in time were:
// between two of them by its share of the time. Returns 0 or -EIO (logged).
__attribute__((warn_unused_result)) int keyframes_write_trajectory(const struct images *images,
                                                                   const struct se3 *T_world_image,
                                                                   const char *path);

#endif
