// SPDX-License-Identifier: Apache-2.0
// A recording with one image file per frame, whatever its index looks like: what the folder drivers
// (tum, sevenscenes, png, rawpgm, fakenect) share. A driver makes the list of frames and lets
// images_stamp and images_decode answer for it; its state is, or begins with, a struct images.
#ifndef POSED_CAPTURE_IO_IMAGES_H
#define POSED_CAPTURE_IO_IMAGES_H

#include "capture/driver.h"
#include "capture/io/folder.h"
#include "capture/io/image.h"
#include "capture/kinect/disparity.h"

struct images_entry {
    int64_t time_ns;
    uint64_t index;
    uint64_t device_ticks;
    size_t name_offset; // into the names
};

struct images {
    struct images_entry *entries;
    size_t n_entries, capacity;
    char *names; // 0-terminated, relative to the folder
    size_t n_name_bytes, name_capacity;

    int folder;
    char *path;
    struct log_sink log;
    struct image_codec *codec;
    struct file_bytes file;
    uint32_t width_px, height_px;
    enum image_pgm_order pgm_order;
    const struct disparity_table *disparity; // not NULL: files hold raw values
};

// Opens the folder and takes the codec. Returns 0 or a negative errno after logging the reason;
// call images_close in either case.
__attribute__((warn_unused_result)) int images_open(struct images *images, const char *path,
                                                    const struct log_sink *log);

// Appends a frame and copies its name. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int images_append(struct images *images, const char *name,
                                                      int64_t time_ns, uint64_t index);

// Lists the regular files of the folder `sub` ("" = the recording's own) whose name ends in
// `suffix`, sorted by name ("9" before "10" when both are numbers), as frames 0, 1, ... at 1/30 s.
// Returns 0, -ENOENT when there is none (not logged), or another negative errno.
__attribute__((warn_unused_result)) int images_list(struct images *images, const char *sub,
                                                    const char *suffix);

// Takes the image size from the first frame whose header can be read (at most 16
// unreadable ones are tried, missing files do not count) and fills in out_info's size and n_frames.
// Returns 0, or after logging: -ENOENT (no frames, or all files missing), -EINVAL.
__attribute__((warn_unused_result)) int images_find_size(struct images *images,
                                                         struct capture_info *out_info);

const char *images_name(const struct images *images, uint64_t i);

// A whole open for drivers whose state is a struct images alone: folder, frames (list_frames logs
// its errors), image size, calibration. Returns 0, or a negative errno after logging, with nothing
// left to close.
__attribute__((warn_unused_result)) int
images_open_driver(void **out_state, const char *location, const struct capture_settings *settings,
                   const struct intrinsics *default_camera, double default_units_per_m,
                   int (*list_frames)(struct images *images), struct capture_info *out_info);

// The close of these drivers.
void images_close_driver(void *state);

// Other driver members.
void images_stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index);
int images_decode(void *state, uint64_t i, uint16_t *pixels, struct capture_frame *frame);

// Frees everything except the struct itself.
void images_close(struct images *images);

#endif
