// SPDX-License-Identifier: Apache-2.0
// What is said of images of a live topic that have no pixels for us: damaged, of another size, left
// out for their stamps. The first one of a kind is told of, and at the end how many there were.
#ifndef POSED_CAPTURE_ROS_TELL_OF_IMAGES_H
#define POSED_CAPTURE_ROS_TELL_OF_IMAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/ros/messages.h"
#include "proto/log.h"

// Of an encoding that is none: "; did you mean 16UC1? Encodings are written exactly so", or "".
// Publishers write it by hand, as 16uc1, or as OpenCV has it, TYPE_16UC1 and CV_16UC1.
const char *ros_encoding_meant(const char *encoding);

struct ros_bad_images { // begins as all zero, but for log and topic (ROS's name)
    struct log_sink log;
    const char *topic;
    bool told_same, told_back, told_ahead;
    uint64_t n_damaged, n_other_size, n_lost;
    _Atomic uint64_t n_left_out; // for their stamps; read by other threads
};

// Its stamp is before that of the one before it, or after, by so much; 0: the same.
void ros_bad_stamp(struct ros_bad_images *bad, bool is_back, double step_s);

// The first one has no stamp, which the next one has: a clock that had not begun.
void ros_bad_unstamped(struct ros_bad_images *bad);

// Image number `index`; `image` NULL: it could not be read at all. Of one as it was taken by the
// sensor its rows are told, too, with what they would have to be; of one that is no depth what it
// is.
void ros_bad_damaged(struct ros_bad_images *bad, uint64_t index, const struct ros_image *image,
                     const char *reason);

// So many were lost, about, as this program was held up for so long (lost_images.h).
void ros_bad_lost(struct ros_bad_images *bad, uint64_t n, double held_up_s);

// Of another size than the first one's.
void ros_bad_size(struct ros_bad_images *bad, const struct ros_image *image, uint32_t width_px,
                  uint32_t height_px);

// At the end: the counts.
void ros_bad_end(const struct ros_bad_images *bad);

#endif
