// SPDX-License-Identifier: Apache-2.0
// Images that a publisher sent and that were overwritten before they were taken, as this program
// was held up: it was stopped, or the machine is too busy. DDS does not count what a full history
// or socket loses of a best effort topic. So those that came since the hold-up are counted, and
// compared with what the times at which they were sent have room for.
#ifndef POSED_CAPTURE_ROS_LOST_IMAGES_H
#define POSED_CAPTURE_ROS_LOST_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

// Nobody looked for images for longer than this, which is more than a look may wait for one.
#define ROS_HELD_UP_NS    INT64_C(300000000)
// What was sent meanwhile is taken within this time.
#define ROS_CATCH_UP_NS   INT64_C(500000000)
// A hold-up that is longer by this on the publisher's clock tells that the clock was set.
#define ROS_LOST_SLACK_NS INT64_C(500000000)
// One that is missing may be late.
#define ROS_LEAST_LOST    2

struct ros_lost_images {  // begins as all zero
    int64_t looked_ns;    // when images were looked for; 0: never
    int64_t held_up_ns;   // how long the newest hold-up was,
    int64_t caught_up_ns; // and until when its images come; 0: that is over
    int64_t before_ns;    // when the last image before it was sent,
    int64_t n_since;      // and how many came since
    int64_t sent_ns;      // when the newest image was sent, by its publisher's clock; 0: none
    int64_t period_ns;    // mean between these times, without pauses; 0: not known
    int64_t n_steps;      // that it is the mean of
    bool is_pause;        // the newest step was too long for it
};

// Each time that it is looked whether images have come, before they are judged (CLOCK_MONOTONIC).
void ros_lost_images_look(struct ros_lost_images *lost, int64_t now_ns);

// The next image's. Returns how many were lost in a hold-up that is over with it, about; mostly 0.
// A publisher that pauses outside of one has lost none.
uint64_t ros_lost_images_judge(struct ros_lost_images *lost, int64_t sent_ns, int64_t now_ns);

// No image comes any more. Returns what ros_lost_images_judge would have, of a hold-up just before.
uint64_t ros_lost_images_end(struct ros_lost_images *lost);

// The next image is another publisher's.
void ros_lost_images_new_source(struct ros_lost_images *lost);

#endif
