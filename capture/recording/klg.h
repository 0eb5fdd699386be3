// SPDX-License-Identifier: Apache-2.0
// The .klg log of Kintinuous, ElasticFusion and Logger2, little-endian: int32 number of frames,
// then for each frame int64 time stamp, int32 depth bytes, int32 image bytes, the depth (zlib, or
// raw when it has the size of the image), the colour image (JPEG or raw; may be empty). Depth is in
// millimetres. A logger that was killed leaves 0 as the number of frames, so the file is scanned;
// no size in it is trusted.
#ifndef POSED_CAPTURE_RECORDING_KLG_H
#define POSED_CAPTURE_RECORDING_KLG_H

#include <stdbool.h>

#include "capture/io/unzip.h"
#include "proto/log.h"
#include "proto/types.h"

#define KLG_HEADER_BYTES       4
#define KLG_FRAME_HEADER_BYTES 16
#define KLG_UNITS_PER_M        1000.0

// Behind the log's name: the sidecar with intrinsics, image size and units, which only we write.
#define KLG_CALIBRATION_SUFFIX ".calibration.txt"

struct klg_frame {
    int64_t stamp;   // as written, unit unknown
    int64_t time_ns; // by the unit that klg_scan found
    int64_t offset;  // of the depth bytes in the file
    uint32_t n_depth_bytes;
};

struct klg_index {
    struct klg_frame *frames; // 32 bytes a frame, all that is kept of the file
    size_t n_frames;
    size_t n_skipped; // frames whose time stamp repeats or goes backwards
};

// Through the frames of an open file, one after the other. A file may end in zeros that nobody
// wrote: a machine that loses its power leaves a file as long as it was to be.
struct klg_walk {
    int fd;
    int64_t n_bytes, n_written_bytes; // behind the latter there are zeros alone
    int64_t at;                       // where the next frame begins
};

// Returns 0, -EBADMSG (no regular file, or shorter than a log), or another negative errno.
__attribute__((warn_unused_result)) int klg_walk_begin(struct klg_walk *out, int fd);

// Returns 0, -ENODATA (the file ends where a frame does), -EBADMSG (it ends before the frame at
// `at` does, or the rest was not written), or another negative errno. time_ns is left alone.
__attribute__((warn_unused_result)) int klg_walk_next(struct klg_walk *walk, struct klg_frame *out);

// Whether the file begins as a log does, as klg_is_plausible has it; what is shorter than one
// frame's header gives no reason to doubt. Returns 0, -EBADMSG or another negative errno.
__attribute__((warn_unused_result)) int klg_walk_check(const struct klg_walk *walk);

// Walks through the frame headers of an open file. The unit of the time stamps is not written
// anywhere (loggers use us, ns or ms): the one that makes the median period nearest to 1/30 s is
// taken, which is right from 1 to 900 frames/s; a single frame is in us, or ns when the number is a
// Unix time in ns. A frame that is not whole ends the walk with a warning.
// Returns 0, or after logging: -EINVAL (no klg file), -ENOENT (no frame), -EIO, -ENOMEM; *out is
// then empty.
__attribute__((warn_unused_result)) int klg_scan(int fd, const char *name,
                                                 const struct log_sink *log, struct klg_index *out);

// Whether a file that starts so can be a log: other formats begin with text or a magic, which read
// as numbers that no log has.
__attribute__((warn_unused_result)) bool
klg_is_plausible(const unsigned char start[KLG_HEADER_BYTES + KLG_FRAME_HEADER_BYTES]);

void klg_index_free(struct klg_index *index);

// One image of n_pixels values. Returns 0, or -EBADMSG (not zlib, checksum, too short or too long;
// the pixels are then undefined).
__attribute__((warn_unused_result)) int klg_decode(struct unzip *unzip, const void *data,
                                                   size_t n_bytes, size_t n_pixels,
                                                   uint16_t *out_pixels);

#endif
